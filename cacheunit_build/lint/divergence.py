"""Finds where texts that begin alike diverge, and which blocks of text they still share after that."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# A block: lines up to the next blank line.
_BLOCK = re.compile(r"\S(?:.|\n(?![ \t]*\n))*")
_MAX_TITLE = 40
_MAX_TITLES_SHOWN = 4
_MAX_COMPARED = 64
"""Texts that one text is compared with because of one block, so that a block in every text stays affordable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where texts diverge, and what they share after that.

    Attributes:
        offset: the first character that differs.
        common_tokens: tokens in front of it.
        shared_tokens: tokens behind it that are in all texts.
        titles: the first lines of the shared parts, in the order of the first text.
    """

    offset: int
    common_tokens: int
    shared_tokens: int
    titles: tuple[str, ...]

    @property
    def title_list(self) -> str:
        """The first four titles in quotes, as messages show them."""
        shown = ", ".join(f'"{title}"' for title in self.titles[:_MAX_TITLES_SHOWN])
        return f"{shown}, …" if len(self.titles) > _MAX_TITLES_SHOWN else shown


def find_divergence(texts: Sequence[str], count: Callable[[str], int]) -> Divergence | None:
    """Returns where texts diverge; None where they are all equal, or share no block after that.

    Example: "You sell." and "You rent.", each followed by the block "# Tone", diverge at offset 4 and share "# Tone".

    Args:
        texts: at least one text.
        count: text -> number of tokens.
    """
    first, *others = texts
    if all(text == first for text in others):
        return None
    offset = min(common_prefix(first, text) for text in others)
    runs = _shared_runs(texts, offset)
    if not runs:
        return None
    return Divergence(
        offset=offset,
        common_tokens=count(first[:offset]),
        shared_tokens=sum(count("\n\n".join(run)) for run in runs),
        titles=tuple(title for run in runs for title in _titles(run)),
    )


def _shared_runs(texts: Sequence[str], offset: int) -> list[list[str]]:
    """Returns the blocks of the first text, from an offset on, that are in all texts, as runs of adjacent blocks."""
    shared = Counter(_blocks(texts[0], offset))
    for text in texts[1:]:
        shared &= Counter(_blocks(text, offset))
    runs: list[list[str]] = [[]]
    for block in _blocks(texts[0], offset):
        if shared[block]:
            shared[block] -= 1
            runs[-1].append(block)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _blocks(text: str, offset: int = 0) -> list[str]:
    """Returns the blocks between blank lines that begin at or after an offset."""
    return [match[0].rstrip() for match in _BLOCK.finditer(text) if match.start() >= offset]


def _titles(run: Sequence[str]) -> Iterator[str]:
    """Yields the first line of a run of blocks, and every Markdown heading that starts a later block."""
    for index, block in enumerate(run):
        line = next((line for line in block.split("\n") if any(map(str.isalnum, line))), "")
        if line and (index == 0 or line.startswith("#")):
            yield line[:_MAX_TITLE].strip()


def similar_pairs(texts: Mapping[str, str], min_share: float) -> Iterator[tuple[str, str]]:
    """Yields pairs of names whose texts share much, but not at their beginning.

    Each name is paired with the later one that it shares most with.

    Args:
        texts: name -> text.
        min_share: share of the shorter text, from 0 to 1, that both must have behind their common beginning.
    """
    sizes = {name: sum(map(len, set(_blocks(text)))) for name, text in texts.items()}
    best: dict[str, tuple[int, str]] = {}
    for (name, other), characters in sorted(_shared_characters(texts).items()):
        later = characters - common_prefix(texts[name], texts[other])
        if later >= min_share * min(sizes[name], sizes[other]) and later > best.get(name, (0, ""))[0]:
            best[name] = (later, other)
    yield from ((name, other) for name, (_, other) in best.items())


def _shared_characters(texts: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Returns the number of characters in blocks that two texts share, for each pair of names that share any."""
    names_by_block: dict[str, list[str]] = {}
    for name, text in texts.items():
        for block in set(_blocks(text)):
            names_by_block.setdefault(block, []).append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for block, names in names_by_block.items():
        for index, name in enumerate(names):
            for other in names[index + 1 : index + 1 + _MAX_COMPARED]:
                shared[name, other] += len(block)
    return shared
