"""The reports of `show`: the tokens of a text with unit marks, and the source lines beside each line of a text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import one_line
from cacheunit_build.reports.formatting import tokens_cell, unit_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.source_map import SourceMap

_WIDEST = 60
_ESCAPES = {"|": "\\|", "\\": "\\\\"}


def tokens_lines(artifact: Artifact, pieces: Sequence[bytes]) -> list[str]:
    """Returns lines with the tokens of the framed prefix, with a mark after each unit and around the padding.

    Args:
        artifact: the artifact.
        pieces: the bytes of each token of its framed prefix.
    """
    marks = _marks(artifact, pieces)
    lines: list[str] = [""]
    for index, piece in enumerate(pieces):
        if index in marks:
            lines += [*marks[index], ""]
        lines[-1] += f"|{_token_text(piece)}"
    entry = artifact.entry
    unit = f" (unit of {artifact.unit:,})" if artifact.unit else ""
    units = "not aligned, since the count is not exact" if artifact.margin else unit_text(artifact)
    lines.append(f"=== {tokens_cell(entry.tokens, artifact.margin, entry.counted)} static tokens, {units}{unit}")
    return [line for line in lines if line]


def _marks(artifact: Artifact, pieces: Sequence[bytes]) -> dict[int, list[str]]:
    """Returns the lines in front of the token of each index."""
    entry = artifact.entry
    marks: dict[int, list[str]] = {}
    padding = _padding_range(artifact, pieces)
    if padding is not None:
        first, after = padding
        marks.setdefault(first, []).append(f"--- padding: {entry.padding:,} tokens more")
        marks.setdefault(after, []).append("--- end of padding")
    unit = artifact.unit
    for boundary in range(unit, len(pieces), unit) if unit and not artifact.estimated else ():
        marks.setdefault(boundary, []).append(f"=== unit {boundary // unit:,} ends after {boundary:,} tokens")
    if artifact.unstable:
        marks.setdefault(entry.tokens, []).append(f"... {artifact.unstable} tokens that may change with what follows")
    return marks


def _padding_range(artifact: Artifact, pieces: Sequence[bytes]) -> tuple[int, int] | None:
    """Returns the index of the first token of the padding and of the first one after it; None without padding."""
    padding = artifact.padding_text.encode()
    start = artifact.framed_prefix.encode().rfind(padding) if padding else -1
    if start < 0:
        return None
    starts = list(accumulate(map(len, pieces), initial=0))
    return bisect_right(starts, start) - 1, bisect_left(starts, start + len(padding))


def _token_text(piece: bytes) -> str:
    """Returns the bytes of a token as text on one line: line ends and bars escaped, incomplete characters as hex."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in piece)
    return "".join(_ESCAPES.get(character) or one_line(character) for character in text)


def sources_lines(system: SourceMap, padding: str) -> list[str]:
    """Returns each line of a system text after the source lines that spell it, and its padding after that word."""
    padding_lines = padding.strip("\n").split("\n") if padding else ()
    rows = [*_rows(system), *((["padding"], line) for line in padding_lines)]
    margins = [one_line(", ".join(places)) for places, _ in rows]
    width = min(max(map(len, margins), default=0), _WIDEST)
    return [f"{margin:{width}} | {line}".rstrip() for margin, (_, line) in zip(margins, rows, strict=True)]


def _rows(system: SourceMap) -> Iterator[tuple[list[str], str]]:
    """Yields the source lines of each line of a text, and the line."""
    start = 0
    for line in system.text.removesuffix("\n").split("\n") if system.text else ():
        lines = _lines_by_file(system, start, start + max(len(line), 1))
        yield [f"{path}:{','.join(map(str, numbers))}" for path, numbers in lines.items()], line
        start += len(line) + 1


def _lines_by_file(system: SourceMap, start: int, end: int) -> dict[str, list[int]]:
    """Returns the lines of each file that spell the characters from `start` to `end`."""
    lines: dict[str, list[int]] = {}
    for begin, _, _ in system.spans(start, end):
        for place in system.at(max(begin, start))[:1]:
            numbers = lines.setdefault(place.path, [])
            numbers += [place.line] if place.line not in numbers else []
    return lines


def tokens_json(artifact: Artifact, ids: Sequence[int], pieces: Sequence[bytes]) -> dict[str, Any]:
    """Returns the tokens of the framed prefix as JSON values, with the indexes at which padding begins and ends.

    Args:
        artifact: the artifact.
        ids: the id of each token of its framed prefix.
        pieces: the bytes of each token.
    """
    entry, padding = artifact.entry, _padding_range(artifact, pieces)
    return {
        "prefix": artifact.prefix,
        "target": artifact.target,
        "static": entry.tokens,
        "counted": entry.counted,
        "margin": entry.margin,
        "unit": artifact.unit,
        "unstable": artifact.unstable,
        "padding": None if padding is None else {"tokens": entry.padding, "start": padding[0], "end": padding[1]},
        "tokens": [_token_json(*token) for token in zip(ids, pieces, strict=True)],
    }


def _token_json(number: int, piece: bytes) -> dict[str, Any]:
    """Returns a token as JSON values; one that is no complete characters has no text, but its bytes in hex."""
    try:
        return {"id": number, "text": piece.decode()}
    except UnicodeDecodeError:
        return {"id": number, "text": None, "bytes": piece.hex()}
