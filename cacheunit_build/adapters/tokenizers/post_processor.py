"""Finds the tokens that the post-processor of a `tokenizer.json` puts in front of every text, such as `<s>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

StartTokens = tuple[tuple[str, int], ...]
"""The text and the id of each token in front of a text, in order."""


class UnknownKindError(Exception):
    """A post-processor is of a kind that this module does not know."""


def start_tokens(parsed: Mapping[str, Any]) -> StartTokens | None:
    """Returns the tokens that are put in front of a text; None if the post-processor is of an unknown kind.

    What it adds after the text, such as `</s>`, follows the user's words, and so is never part of a prefix.

    Args:
        parsed: a `tokenizer.json`.
    """
    try:
        return tuple(_of_processor(parsed.get("post_processor")))
    except UnknownKindError:
        return None


def _of_processor(processor: Mapping[str, Any] | None) -> Iterator[tuple[str, int]]:
    """Yields the tokens that one post-processor puts in front. The kinds are those of Hugging Face tokenizers 0.23."""
    kind = None if processor is None else processor.get("type")
    if processor is None or kind == "ByteLevel":  # changes offsets only
        return
    if kind == "Sequence":
        for part in reversed(processor["processors"]):  # each one puts its tokens around those of the former ones
            yield from _of_processor(part)
    elif kind in ("BertProcessing", "RobertaProcessing"):
        text, token = processor["cls"]  # "cls": ["[CLS]", 101]
        yield text, token
    elif kind == "TemplateProcessing":
        yield from _of_template(processor)
    else:
        raise UnknownKindError


def _of_template(processor: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields the tokens before the text in the template for one text.

    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    """
    for piece in processor["single"]:
        if "SpecialToken" not in piece:
            return
        token = processor["special_tokens"][piece["SpecialToken"]["id"]]
        yield from zip(token["tokens"], token["ids"], strict=True)
