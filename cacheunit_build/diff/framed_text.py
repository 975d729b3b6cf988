r"""Divides the text that the model reads of an artifact: into parts, cache units, lines, and what stays cached.

The runs of a system text "Be kind.\nBe brief." of a.j2 in a frame, in units of three tokens, one of them still cached:

    text      part    unit  cached  sources of the line
    <|bos|>   frame   0     yes     a.j2:1
    Be kind   system  0     yes     a.j2:1
    .         system  1     no      a.j2:1
    Be brief  system  1     no      a.j2:2
    .         system  2     no      a.j2:2
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

from cacheunit_build.compiler.frozen_options import frozen_options
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation
from cacheunit_build.domain.sequences import common_ends, common_prefix
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.source_map import SourceChain, SourceMap

TextPart = Literal["frame", "tools", "system", "padding", "examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRun:
    """Characters of one line that have everything else in common.

    Attributes:
        text: the characters.
        part: the part of the request that they are of.
        token: the index of their first token, from 0.
        unit: the index of their cache unit, from 0; None behind the last full unit, and where there are no units.
        is_static: whether they are among the static tokens.
        is_cached: whether an old cache entry still serves them; None where that is unknown.
    """

    text: str
    part: TextPart
    token: int
    unit: int | None
    is_static: bool
    is_cached: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """A line of the text.

    Attributes:
        runs: its characters; the line end is the last of them.
        sources: the source line that it comes from, then those that bring it into the text; empty where unknown.
    """

    runs: tuple[TextRun, ...]
    sources: SourceChain


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters of one part, from `start` to `end`, with the map of their source lines if they have one."""

    start: int
    end: int
    part: TextPart
    source_map: SourceMap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSources:
    """The source lines of the characters of a text.

    Attributes:
        spans: the parts of the text.
        tools: the first character at which each tool is named, and its line in the sources.
    """

    spans: tuple[_Span, ...] = ()
    tools: tuple[tuple[int, SourceChain], ...] = ()

    def of(self, start: int, end: int) -> SourceChain:
        """Returns the source lines of the first of some characters that comes from the sources; none of padding.

        Args:
            start: the first character.
            end: the one behind the last.
        """
        for span in self.spans:
            place = max(span.start, start)
            if place >= min(span.end, end):
                continue
            if span.source_map is not None:
                return span.source_map.at(place - span.start)
            if span.part == "tools":
                return next((chain for first, chain in reversed(self.tools) if first < end), ())
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedText:
    """The text that the model reads of an artifact.

    Attributes:
        lines: its lines.
        offsets: the first character of each token, then the length of the text; empty for an estimate.
        sources: the source lines of its characters.
    """

    lines: tuple[TextLine, ...]
    offsets: tuple[int, ...]
    sources: TextSources = field(default=TextSources(), compare=False, repr=False)


def framed_text(snapshot: Snapshot, artifact: Artifact, still_cached: int | None = None) -> FramedText:
    """Returns the text that the model reads of an artifact, divided.

    Args:
        snapshot: the compiled project with the artifact.
        artifact: the artifact.
        still_cached: how many static tokens an old cache entry serves; None where that is unknown.
    """
    text = artifact.framed_prefix
    offsets = _token_offsets(snapshot, artifact)
    spans = tuple(_spans(snapshot, artifact))
    marks = _Marks(artifact, offsets, still_cached)
    sources = TextSources(spans=spans, tools=tuple(_tool_starts(artifact, spans)))
    lines = []
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        runs = tuple(_runs(text, (start, end), spans, marks))
        lines.append(TextLine(runs=runs, sources=sources.of(start, end)))
        start = end
    return FramedText(lines=tuple(lines), offsets=offsets, sources=sources)


class _Marks:
    """The places in a text at which tokens of another kind begin.

    Args:
        artifact: the artifact.
        offsets: the first character of each token, then the length of the text; empty where tokens are not known.
        still_cached: how many static tokens an old cache entry serves; None where that is unknown.
    """

    def __init__(self, artifact: Artifact, offsets: Sequence[int], still_cached: int | None) -> None:
        self._offsets = offsets
        self._static = artifact.entry.tokens
        self._unit = 0 if artifact.estimated is not None else artifact.unit
        self._still_cached = still_cached
        tokens = range(self._unit, self._static + 1, self._unit) if self._unit and offsets else ()
        ends = [self._static, *([] if still_cached is None else [still_cached])] if offsets else []
        self.cuts = sorted({offsets[min(token, len(offsets) - 1)] for token in (*tokens, *ends)})

    def run(self, text: str, offset: int, part: TextPart) -> TextRun:
        """Returns a run of characters that begins at an offset."""
        if not self._offsets:
            return TextRun(text=text, part=part, token=0, unit=None, is_static=True, is_cached=None)
        token = bisect_right(self._offsets, offset) - 1
        is_static = token < self._static
        full = self._static // self._unit * self._unit if self._unit else 0
        return TextRun(
            text=text,
            part=part,
            token=token,
            unit=token // self._unit if token < full else None,
            is_static=is_static,
            is_cached=None if self._still_cached is None or not is_static else token < self._still_cached,
        )


def _runs(text: str, line: tuple[int, int], spans: Sequence[_Span], marks: _Marks) -> Iterator[TextRun]:
    """Yields the runs of one line, from its first character to behind its last one."""
    start, end = line
    inner = marks.cuts[bisect_right(marks.cuts, start) : bisect_left(marks.cuts, end)]
    edges = (place for span in spans for place in (span.start, span.end) if start < place < end)
    cuts = sorted({start, end, *inner, *edges})
    for begin, after in pairwise(cuts):
        part: TextPart = next((span.part for span in spans if span.start <= begin < span.end), "frame")
        yield marks.run(text[begin:after], begin, part)


def _token_offsets(snapshot: Snapshot, artifact: Artifact) -> tuple[int, ...]:
    """Returns the first character of each token, then the length of the text.

    A token that begins within a character begins behind it. Empty for an estimate, and for a vocabulary whose tokens
    do not spell the text, such as one that normalizes it.
    """
    if artifact.estimated is not None:
        return ()
    text = artifact.framed_prefix
    pieces = snapshot.target(artifact).tokenizer.token_bytes(text)
    data = text.encode()
    if b"".join(pieces) != data:
        return ()
    if len(data) == len(text):
        return tuple(accumulate(map(len, pieces), initial=0))
    starts = list(accumulate(len(character.encode()) for character in text))
    return tuple(bisect_left(starts, end) + 1 if end else 0 for end in accumulate(map(len, pieces), initial=0))


def _spans(snapshot: Snapshot, artifact: Artifact) -> Iterator[_Span]:
    """Yields the parts of a text other than its frame, as far as they stand in it as they are."""
    text, system = artifact.framed_prefix, artifact.text.decode().removesuffix(artifact.padding_text)
    maps = snapshot.maps(artifact)
    start = text.find(system) if system else -1
    after = 0 if start < 0 else start + len(system)
    if start >= 0:
        yield _Span(start, after, "system", maps.system)
        padded = after + len(artifact.padding_text)
        if padded > after:
            yield _Span(after, padded, "padding")
        after = padded
    first_example = len(text)
    for turn in maps.turns:
        place = text.find(turn.text, after) if turn.text else -1
        if place >= 0:
            yield _Span(place, place + len(turn.text), "examples", turn)
            first_example = min(first_example, place)
            after = place + len(turn.text)
    yield from _tool_spans(snapshot, artifact, first_example)


def _tool_spans(snapshot: Snapshot, artifact: Artifact, first_example: int) -> Iterator[_Span]:
    """Yields the characters that are there for the tools alone: the frame prints the others without tools too.

    Where a frame changes the messages of examples too because there are tools, those are not among them.
    """
    loaded = snapshot.target(artifact)
    if not artifact.tools or artifact.estimated is not None:
        return
    conversation = Conversation(
        system=artifact.text.decode(),
        tools=(),
        turns=snapshot.turns(artifact),
        options=frozen_options(artifact.variant.manifest, loaded.target).for_frame,
        json_arguments=loaded.json_arguments,
    )
    try:
        first, other = (loaded.frame(replace(conversation, following=(user_message(word),))) for word in ("a", "b"))
    except CacheunitError:  # the frame needs tools
        return
    head, tail = common_ends(artifact.framed_prefix, first[: common_prefix(first, other)])
    end = len(artifact.framed_prefix) - tail
    end = min(end, first_example) if head < first_example else end
    if head < end:
        yield _Span(head, end, "tools")


def _tool_starts(artifact: Artifact, spans: Iterable[_Span]) -> Iterator[tuple[int, SourceChain]]:
    """Yields the first character at which each tool is named, and its line in the sources."""
    manifest = artifact.variant.manifest
    listed = SourceLine(path=manifest.path, line=manifest.line("tools") or 1)
    for span in spans:
        place = span.start
        for tool in artifact.tools if span.part == "tools" else ():
            found = artifact.framed_prefix.find(tool.name, place, span.end)
            if found >= 0:
                yield found, (SourceLine(path=tool.path, line=tool.line or 1), listed)
                place = found + len(tool.name)
