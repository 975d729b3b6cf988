"""Finds passages that several prompts share, word for word or nearly, and moves the former to partials.

A passage is a run of blocks, the lines between blank lines, that follow one another in each of the same prompts:

    a.md                b.md                c.md                passages
    You sell.           You rent.           You repair.
    # Tone ... Be kind. # Tone ... Be kind. # Tone ... Be kind. "# Tone ... Be kind.", in a, b, c
    # Prices ...        # Prices ...                            "# Prices ...", in a, b
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BLOCK = re.compile(r"(?:^[ \t]*\S[^\n]*(?:\n|\Z))+", re.MULTILINE)
_WORD = re.compile(r"\w+")

SHORTEST_PASSAGE = 200
"""Characters that a passage has at least."""

_NEAR = 0.85
"""The least similarity of two blocks, from 0 to 1, at which they count as near-duplicates."""
_SHINGLE = 4
"""Words in a row that are compared as one, to find blocks that may be nearly the same."""
_ONE_IN = 4
"""Of so many shingles one is looked at; which ones depends on the words alone."""
_LONGEST_COMPARED = 20_000
"""Characters of a block that is compared by words, which takes long for long ones."""
_MOST_COMPARED = 8
"""Blocks that one block is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a prompt: its text with the last line end, and where it begins."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text that several prompts share.

    Attributes:
        text: the text, whole lines.
        starts: name of a prompt -> where the text begins in it, for two prompts or more.
    """

    text: str
    starts: Mapping[str, int]

    @property
    def repeated(self) -> int:
        """The characters that are written more than once."""
        return len(self.text) * (len(self.starts) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarBlocks:
    """Near-duplicate blocks in several prompts.

    Attributes:
        text: the first of them.
        places: the name of the prompt of each, and where it begins there.
    """

    text: str
    places: Sequence[tuple[str, int]]


def first_line(text: str) -> str:
    """Returns the first line with a letter or digit; an empty text where there is none."""
    return next((line.strip() for line in text.split("\n") if any(map(str.isalnum, line))), "")


def blocks_of(text: str) -> list[Block]:
    """Returns the blocks of a text: lines up to the next blank one."""
    return [Block(text=match[0], start=match.start()) for match in _BLOCK.finditer(text)]


def shared_passages(texts: Mapping[str, str]) -> list[Passage]:
    """Returns the passages that several texts share, those that are repeated most first; none overlaps another.

    Of a block that stands in one text several times, the first counts.

    Args:
        texts: name -> text.
    """
    blocks = {name: blocks_of(text) for name, text in texts.items()}
    places: dict[str, dict[str, int]] = defaultdict(dict)  # text of a block -> name -> its index there
    for name, own in blocks.items():
        for index, block in enumerate(own):
            places[_stripped(block)].setdefault(name, index)
    used: set[tuple[str, int]] = set()
    passages = []
    for name, own in blocks.items():
        for index, block in enumerate(own):
            found = places[_stripped(block)]
            if len(found) > 1 and found.get(name) == index and (name, index) not in used:
                length = _run_length(blocks, texts, places, found)
                used |= {(other, start + step) for other, start in found.items() for step in range(length)}
                passages.append(_passage(blocks, texts, found, length))
    long = [passage for passage in passages if len(passage.text) >= SHORTEST_PASSAGE]
    return sorted(long, key=lambda passage: -passage.repeated)


def _stripped(block: Block) -> str:
    """Returns the text of a block without its last line end, which a file may lack."""
    return block.text.removesuffix("\n")


def _run_length(
    blocks: Mapping[str, Sequence[Block]],
    texts: Mapping[str, str],
    places: Mapping[str, Mapping[str, int]],
    found: Mapping[str, int],
) -> int:
    """Returns how many blocks follow one another in the same way in exactly the same prompts.

    Args:
        blocks: the blocks of each prompt.
        texts: the text of each prompt.
        places: text of a block -> name -> its index there.
        found: the first block: name -> its index there.
    """
    length = 1
    while all(start + length < len(blocks[name]) for name, start in found.items()):
        following = {name: start + length for name, start in found.items()}
        texts_of = {_stripped(blocks[name][index]) for name, index in following.items()}
        gaps = {
            texts[name][blocks[name][index - 1].end : blocks[name][index].start] for name, index in following.items()
        }
        if len(texts_of) > 1 or len(gaps) > 1 or places[texts_of.pop()] != following:
            break
        length += 1
    return length


def _passage(
    blocks: Mapping[str, Sequence[Block]], texts: Mapping[str, str], found: Mapping[str, int], length: int
) -> Passage:
    """Returns the passage of some blocks, with its last line end if it has one in all prompts."""
    starts = {name: blocks[name][index].start for name, index in found.items()}
    candidates = {texts[name][starts[name] : blocks[name][index + length - 1].end] for name, index in found.items()}
    return Passage(text=min(candidates, key=len), starts=starts)


def similar_blocks(texts: Mapping[str, str]) -> list[SimilarBlocks]:
    """Returns groups of near-duplicate blocks of different texts, the longest blocks first.

    Args:
        texts: name -> text.
    """
    by_shingle: dict[int, list[tuple[str, Block]]] = defaultdict(list)
    groups: dict[tuple[str, int], SimilarBlocks] = {}
    known: set[str] = set()
    for name, text in texts.items():
        for block in blocks_of(text):
            stripped = _stripped(block)
            if not SHORTEST_PASSAGE <= len(stripped) <= _LONGEST_COMPARED or stripped in known:
                continue
            known.add(stripped)
            words = _WORD.findall(stripped.casefold())
            shingles = set(_sampled_shingles(words))
            other = _nearest(name, words, shingles, by_shingle)
            if other is None:
                for shingle in shingles:
                    by_shingle[shingle].append((name, block))
                continue
            first = other[0], other[1].start
            places = groups[first].places if first in groups else (first,)
            groups[first] = SimilarBlocks(text=other[1].text, places=(*places, (name, block.start)))
    return sorted(groups.values(), key=lambda group: -len(group.text) * (len(group.places) - 1))


def _nearest(
    name: str, words: Sequence[str], shingles: set[int], by_shingle: Mapping[int, Sequence[tuple[str, Block]]]
) -> tuple[str, Block] | None:
    """Returns a near-duplicate of a block in another text; None where there is none."""
    shared: dict[tuple[str, int], int] = defaultdict(int)
    found: dict[tuple[str, int], tuple[str, Block]] = {}
    for shingle in shingles:
        for other, block in by_shingle.get(shingle, ())[:_MOST_COMPARED]:
            if other != name:
                shared[other, block.start] += 1
                found[other, block.start] = (other, block)
    likely = [key for key, count in shared.items() if count * 2 >= len(shingles)]
    for key in sorted(likely, key=lambda key: (-shared[key], key))[:_MOST_COMPARED]:
        others = _WORD.findall(found[key][1].text.casefold())
        if SequenceMatcher(None, words, others, autojunk=False).ratio() >= _NEAR:
            return found[key]
    return None


def _sampled_shingles(words: Sequence[str]) -> Iterator[int]:
    """Yields the checksums of some runs of words; texts with the same run yield the same ones."""
    for index in range(len(words) - _SHINGLE + 1):
        checksum = zlib.crc32(" ".join(words[index : index + _SHINGLE]).encode())
        if checksum % _ONE_IN == 0:
            yield checksum
