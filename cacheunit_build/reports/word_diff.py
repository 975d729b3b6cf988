"""Marks the words that differ between the old and the new lines of a change, as `git diff --word-diff` does.

old: Never reveal a secret.      new: Never disclose a secret.

    Never [-reveal-]{+disclose+} a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from cacheunit_build.reports.text_diff import show_characters, show_white_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cacheunit_build.diff.results import ChangedLines

PieceKind = Literal["same", "old", "new"]

_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|\s|.")
_MOST_COMPARED = 250_000
"""The most pairs of words that are compared; above, the old text is followed by the new one."""
_MOST_LINES = 400
"""The most lines of a change, old and new ones, whose words are compared."""
_LEAST_SIMILAR = 0.4
"""The share of common words below which the old text is followed by the new one."""
_LONGEST_SAME = 60
"""The most characters that are shown of unchanged words at one place."""
_LONGEST_CHANGED = 160
"""The most characters that are shown of changed words at one place."""
_LINE_END = "↵"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a line: words that both versions have, or only the old or the new one.

    Attributes:
        kind: which version has it.
        text: its characters, with invisible ones made visible.
    """

    kind: PieceKind
    text: str

    def __str__(self) -> str:
        """Returns it with the marks of git's word diff."""
        return {"same": self.text, "old": f"[-{self.text}-]", "new": f"{{+{self.text}+}}"}[self.kind]


MarkedLine = tuple[Piece, ...]
"""The pieces of one line."""


def marked_lines(changes: Iterable[ChangedLines], *, whole: bool = False) -> list[MarkedLine]:
    """Returns the lines of some changes with the words that differ marked.

    Args:
        changes: the changes.
        whole: whether to show lines in full; else only the words around those that differ, and the start of long ones.
    """
    lines = [line for change in changes for line in _lines_of(change)]
    return [line if whole else _shortened(line) for line in lines]


def plain_line(line: MarkedLine) -> str:
    """Returns a line with the marks of git's word diff."""
    return "".join(map(str, line))


def _lines_of(change: ChangedLines) -> Iterator[MarkedLine]:
    """Yields the lines of one change: line by line where their number is the same, else as one text.

    Many lines are not compared: the old ones are in front of the new ones.
    """
    if not change.old or not change.new or len(change.old) + len(change.new) > _MOST_LINES:
        sides: tuple[tuple[PieceKind, Sequence[str]], ...] = (("old", change.old), ("new", change.new))
        for kind, lines in sides:
            yield from ((Piece(kind=kind, text=_visible(line) or _LINE_END),) for line in lines)
    elif len(change.old) == len(change.new):
        for old, new in zip(change.old, change.new, strict=True):
            yield from _marked(old, new)
    else:
        yield from _marked("\n".join(change.old), "\n".join(change.new))


def _marked(old: str, new: str) -> list[MarkedLine]:
    """Returns the lines of two versions of a text, which differ."""
    runs = _runs(old, new)
    lines: list[list[Piece]] = [[]]
    for kind, text in runs:
        for index, part in enumerate(text.split("\n")):
            if index:
                if kind != "same" and not lines[-1]:
                    lines[-1].append(Piece(kind=kind, text=_LINE_END))
                lines.append([])
            if part:
                lines[-1].append(Piece(kind=kind, text=show_characters(part) if kind == "same" else _visible(part)))
    return [tuple(line) for line in lines if any(piece.kind != "same" for piece in line)]


def _runs(old: str, new: str) -> list[tuple[PieceKind, str]]:
    """Returns the runs of words of two texts in order, old ones in front of new ones."""
    words = _WORDS.findall(old), _WORDS.findall(new)
    whole: list[tuple[PieceKind, str]] = [("old", old), ("same", "\n"), ("new", new)]
    if not old or not new:
        return [("old", old)] if old else [("new", new)]
    if len(words[0]) * len(words[1]) > _MOST_COMPARED:
        return whole
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < _LEAST_SIMILAR and "".join(old.split()) != "".join(new.split()):
        return whole if "\n" in old or "\n" in new else [("old", old), ("new", new)]
    runs: list[tuple[PieceKind, str, str]] = []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        texts = "".join(words[0][old_start:old_end]), "".join(words[1][new_start:new_end])
        runs.append(("same" if tag == "equal" else "old", *texts))
    return list(_split(_joined_across_spaces(runs)))


def _joined_across_spaces(runs: Sequence[tuple[PieceKind, str, str]]) -> Iterator[tuple[PieceKind, str, str]]:
    """Yields runs, with changes that only spaces separate as one change."""

    def is_change(item: tuple[int, tuple[PieceKind, str, str]]) -> bool:
        index, (kind, text, _) = item
        between = 0 < index < len(runs) - 1 and not text.strip(" ")
        return kind != "same" or between

    for changed, group in groupby(enumerate(runs), key=is_change):
        items = [run for _, run in group]
        old, new = ("".join(item[side] for item in items) for side in (1, 2))
        yield "old" if changed else "same", old, new


def _split(runs: Iterable[tuple[PieceKind, str, str]]) -> Iterator[tuple[PieceKind, str]]:
    """Yields each unchanged text once, and the old and the new text of each change that has them."""
    for kind, old, new in runs:
        if kind == "same":
            yield kind, old
            continue
        yield from ((side, text) for side, text in (("old", old), ("new", new)) if text)  # type: ignore[misc]


def _visible(text: str) -> str:
    """Returns a text with invisible characters shown; spaces too where there is nothing else."""
    return show_white_space(text) if not text.strip(" ") else show_characters(text)


def _shortened(line: MarkedLine) -> MarkedLine:
    """Returns a line with an ellipsis for unchanged words far from changed ones, and for the end of long changes."""
    last = len(line) - 1
    return tuple(
        _shortened_piece(piece, is_first=index == 0, is_last=index == last) for index, piece in enumerate(line)
    )


def _shortened_piece(piece: Piece, *, is_first: bool, is_last: bool) -> Piece:
    text = piece.text
    if piece.kind != "same":
        return piece if len(text) <= _LONGEST_CHANGED else Piece(kind=piece.kind, text=f"{text[:_LONGEST_CHANGED]}…")
    if len(text) <= _LONGEST_SAME:
        return piece
    half = _LONGEST_SAME // 2
    start = "" if is_first else text[:half].rpartition(" ")[0] or text[:half]
    end = "" if is_last else text[-half:].partition(" ")[2] or text[-half:]
    return Piece(kind="same", text=f"{start}{' ' if start else ''}…{' ' if end else ''}{end}")
