"""Where texts part, and what they still share after that."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_BLOCK = re.compile(r"\S(?:.|\n(?![ \t]*\n))*")
_LABEL_CHARACTERS = 40
_LABELS = 4
_NEIGHBOURS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Texts begin alike for `head` tokens, up to the character `offset`; `later` tokens after that stand in all.

    `sections` name what they share later, in the order of the first text.
    """

    offset: int
    head: int
    later: int
    sections: tuple[str, ...]

    @property
    def order(self) -> str:
        """The sections as a message names them."""
        shown = ", ".join(f'"{section}"' for section in self.sections[:_LABELS])
        return f"{shown}, …" if len(self.sections) > _LABELS else shown


def parting(texts: Sequence[str], count: Callable[[str], int]) -> Parting | None:
    """Where texts part; None where they are all the same, or share nothing later.

    Blocks are what blank lines set apart; `count` gives tokens.
    """
    offset = min(common_prefix(texts[0], text) for text in texts)
    if all(text == texts[0] for text in texts):
        return None
    shared = Counter(_after(texts[0], offset))
    for text in texts[1:]:
        shared &= Counter(_after(text, offset))
    runs: list[list[str]] = [[]]
    for block in _after(texts[0], offset):
        if shared[block]:
            shared[block] -= 1
            runs[-1].append(block)
        elif runs[-1]:
            runs.append([])
    found = [run for run in runs if run]
    if not found:
        return None
    later = sum(count("\n\n".join(run)) for run in found)
    labels = tuple(label for run in found for label in _labels(run))
    return Parting(offset=offset, head=count(texts[0][:offset]), later=later, sections=labels)


def _labels(run: Sequence[str]) -> Iterator[str]:
    """The first line of blocks in a row, and every heading further on."""
    for index, block in enumerate(run):
        line = next((line for line in block.split("\n") if any(map(str.isalnum, line))), "")
        if line and (index == 0 or line.startswith("#")):
            yield line[:_LABEL_CHARACTERS].strip()


def likely_pairs(texts: Mapping[str, str], share: float) -> Iterator[tuple[str, str]]:
    """For each name the one behind it that shares most behind a common beginning, at least `share` of the shorter.

    A block that very many have is compared among neighbours only.
    """
    having: dict[str, list[str]] = {}
    sizes: Counter[str] = Counter()
    for name, text in texts.items():
        for block in set(_after(text, 0)):
            having.setdefault(block, []).append(name)
            sizes[name] += len(block)
    common: Counter[tuple[str, str]] = Counter()
    for block, names in having.items():
        for index, name in enumerate(names):
            for other in names[index + 1 : index + 1 + _NEIGHBOURS]:
                common[name, other] += len(block)
    best: dict[str, tuple[int, str]] = {}
    for (name, other), characters in sorted(common.items()):
        later = characters - common_prefix(texts[name], texts[other])
        if later >= share * min(sizes[name], sizes[other]) and later > best.get(name, (0, ""))[0]:
            best[name] = (later, other)
    yield from ((name, other) for name, (_, other) in best.items())


def _after(text: str, offset: int) -> list[str]:
    """The blocks that begin at or after a character."""
    return [match[0].rstrip() for match in _BLOCK.finditer(text) if match.start() >= offset]
