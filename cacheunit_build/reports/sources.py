"""A text beside the source lines that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.source_map import SourceMap

_WIDEST = 60


def sources_text(found: SourceMap, padding: str) -> str:
    """Each line of a system text after the places that spell it, and its padding after that word."""
    rows = [*_rows(found), *((["padding"], line) for line in (padding.strip("\n").split("\n") if padding else ()))]
    margins = [", ".join(places) for places, _ in rows]
    width = min(max(map(len, margins), default=0), _WIDEST)
    return "\n".join(f"{margin:{width}} | {line}".rstrip() for margin, (_, line) in zip(margins, rows, strict=True))


def _rows(found: SourceMap) -> Iterator[tuple[list[str], str]]:
    """The places of each line, and the line; what a final line end leaves is no line."""
    start = 0
    for line in found.text.removesuffix("\n").split("\n") if found.text else ():
        lines = _lines_by_file(found, start, start + max(len(line), 1))
        yield [f"{path}:{','.join(map(str, numbers))}" for path, numbers in lines.items()], line
        start += len(line) + 1


def _lines_by_file(found: SourceMap, start: int, end: int) -> dict[str, list[int]]:
    """The innermost places of the characters from `start` to `end`: the lines of each file, each once."""
    lines: dict[str, list[int]] = {}
    for begin, _, _ in found.spans(start, end):
        for place in found.at(max(begin, start))[:1]:
            known = lines.setdefault(place.path, [])
            known += [place.line] if place.line not in known else []
    return lines
