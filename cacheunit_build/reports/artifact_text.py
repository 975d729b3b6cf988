"""The text of an artifact as a page shows it: lines with their places in the sources, and pieces of one kind.

A piece is a run of `FramedText` whose characters without a shape are made visible. What begins at a piece is a label in
front of it: a part of the request, a cache unit, and the first tokens that are recomputed or unstable.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.reports.text_diff import show_characters, show_white_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.diff.framed_text import FramedText, TextLine, TextRun

_LINE_END = "↵"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Characters of one line that have everything in common.

    Attributes:
        text: the characters as they are shown, without the line end.
        style: the names of its style: `odd` or `even` for a unit, and `frame`, `padding`, `cached`, `recomputed`,
            `unstable`.
        tokens: how many tokens begin in it; None for an estimate.
        part: the part of the request that begins here; empty where none does.
        unit: the index of the cache unit that begins here, from 0; None where none does.
        notice: what else begins here, such as `recomputed from here: token 1,280`; empty where nothing does.
    """

    text: str
    style: str
    tokens: int | None
    part: str
    unit: int | None
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLine:
    """A line with its place in the sources.

    Attributes:
        path: the source file, where it is not that of the line before; else empty.
        number: the line in it; empty where unknown.
        chain: that place, then those that bring it into the text, as a sentence; empty where unknown.
        pieces: the characters.
    """

    path: str
    number: str
    chain: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactText:
    """The text of an artifact.

    Attributes:
        id: its id in the page.
        title: the artifact, in words.
        remark: what is to be known in front of it, such as that its count is an estimate; empty where nothing is.
        lines: its lines.
    """

    id: str
    title: str
    remark: str
    lines: tuple[PlacedLine, ...]


def artifact_text(text: FramedText, *, id_: str, title: str, remark: str = "") -> ArtifactText:
    """Returns the text of an artifact for a page.

    Args:
        text: the text, divided.
        id_: its id in the page.
        title: the artifact, in words.
        remark: what is to be known in front of it.
    """
    return ArtifactText(id=id_, title=title, remark=remark, lines=tuple(_placed_lines(text)))


def padding_tokens(text: FramedText) -> range:
    """Returns the indexes of the tokens that begin in the padding of a text."""
    place, start, end = 0, 0, 0
    for line in text.lines:
        for run in line.runs:
            if run.part == "padding":
                start = start if end else place
                end = place + len(run.text)
            place += len(run.text)
    return range(bisect_left(text.offsets, start), bisect_left(text.offsets, end)) if text.offsets else range(0)


def _placed_lines(text: FramedText) -> Iterator[PlacedLine]:
    path = ""
    pieces = _pieces(text)
    for line in text.lines:
        first = line.sources[0] if line.sources else None
        own = "" if first is None else first.path
        yield PlacedLine(
            path=own if own != path else "",
            number="" if first is None else f"{first.line}",
            chain=_chain_text(line),
            pieces=tuple(next(pieces) for _ in line.runs),
        )
        path = own


def _chain_text(line: TextLine) -> str:
    """Returns `rules.j2:2, in agent.j2:4, in prefixes/agent.yaml:1`; empty where no source is known."""
    return ", in ".join(f"{source.path}:{source.line}" for source in line.sources)


def _pieces(text: FramedText) -> Iterator[Piece]:
    """Yields a piece for each run of a text."""
    before: TextRun | None = None
    begun = 0  # tokens that begin in front of the run
    place = 0
    for line in text.lines:
        ends = _ends(line.runs)
        for index, run in enumerate(line.runs):
            place += len(run.text)
            until = bisect_left(text.offsets, place) if text.offsets else 0
            last_unit = None if before is None else before.unit
            yield Piece(
                text=_visible(run.text, is_end=index >= ends),
                style=_style(run),
                tokens=until - begun if text.offsets else None,
                part=run.part if before is None or before.part != run.part else "",
                unit=run.unit if run.unit != last_unit else None,
                notice=_notice(before, run, text.offsets),
            )
            before, begun = run, until


def _ends(runs: Sequence[TextRun]) -> int:
    """Returns the index of the first run of a line behind which nothing but spaces follows."""
    index = len(runs) - 1
    while index > 0 and not runs[index].text.strip(" \n"):
        index -= 1
    return index


def _visible(text: str, *, is_end: bool) -> str:
    """Returns characters of a line as they are shown; the line end only where nothing else is.

    Args:
        text: the characters.
        is_end: whether nothing but spaces follows in the line.
    """
    body = text.removesuffix("\n")
    return (show_white_space(body) if is_end else show_characters(body)) or (_LINE_END if text else "")


def _style(run: TextRun) -> str:
    unit = "" if run.unit is None else ("even", "odd")[run.unit % 2]
    part = run.part if run.part in ("frame", "padding") else ""
    state = {None: "", True: "cached", False: "recomputed"}[run.is_cached] if run.is_static else "unstable"
    return " ".join(name for name in (unit, part, state) if name)


def _notice(before: TextRun | None, run: TextRun, offsets: Sequence[int]) -> str:
    """Returns a notice where the first tokens begin that are recomputed, in no full unit, or unstable."""
    notices = []
    if run.is_cached is False and (before is None or before.is_cached):
        unit = "" if run.unit is None else f", unit {run.unit:,}"
        notices.append(f"recomputed from here: token {run.token:,}{unit}")
    if run.is_static and run.unit is None and before is not None and before.unit is not None:
        notices.append(f"behind the last full unit from here: token {run.token:,}")
    if not run.is_static and (before is None or before.is_static):
        count = len(offsets) - 1 - run.token
        changes = f"{count:,} {'token changes' if count == 1 else 'tokens change'}"
        notices.append(f"not static from here: {changes} with what follows")
    return "; ".join(notices)
