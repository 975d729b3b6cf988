"""Finds the tokens that the post-processor of a `tokenizer.json` puts in front of every text, such as `<s>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

StartTokens = tuple[tuple[str, int], ...]
"""The text and the id of each token in front of a text, in order."""


def start_tokens(post_processor: Mapping[str, Any] | None) -> StartTokens | None:
    """Returns the tokens that are put in front of a text; None if the post-processor is of an unknown kind.

    What it adds after the text, such as `</s>`, follows the user's words, and so is never part of a prefix. The kinds
    are those of Hugging Face tokenizers 0.23.

    Args:
        post_processor: the post-processor of a `tokenizer.json`.
    """
    adding = [part for part in _processors(post_processor) if part.get("type") != "ByteLevel"]
    if not adding:
        return ()
    kind = adding[0].get("type")
    if len(adding) > 1:  # each would put its tokens around, or between, those of the former ones
        return None
    if kind in ("BertProcessing", "RobertaProcessing"):
        text, token = adding[0]["cls"]  # "cls": ["[CLS]", 101]
        return ((text, token),)
    return tuple(_of_template(adding[0])) if kind == "TemplateProcessing" else None


def _processors(processor: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Returns the processors of a sequence, those of sequences in it included; a single one as a list."""
    if processor is None or processor.get("type") != "Sequence":
        return [] if processor is None else [processor]
    return [inner for part in processor["processors"] for inner in _processors(part)]


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
