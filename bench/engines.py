"""Compares predicted hits with what real engines report, for a corpus of prompts that is built, sent and changed.

Usage: python bench/engines.py [CORPUS] [--vllm PYTHON] [--most N] [--json FILE]

Each prompt is built with and without padding, and sent with one continuation, then with four others, in several forms.
llama.cpp always runs. `--vllm` names the Python of an environment with vLLM: its server then runs with blocks of 32 and
of 128 tokens, and its block manager alone with 16 to 256. Then changed prompts are sent to engines that have the old
version in their cache, and the hits compared with `diff`. The tables are in docs/engines.md.

Exit codes: 0 all as predicted, 1 differences found, 2 no prompts found.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import review
from changes import send_changes
from corpus import START, USER, read_prompts, source_text
from servers import BlockManager, block_manager, encode, llama_cpp, vllm

from cacheunit_build import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from servers import Engine

    from cacheunit_build.runtime.prefix import Prefix

SERVER_UNITS, MANAGER_UNITS = (32, 128), (16, 32, 64, 128, 256)
"""Block sizes of vLLM's server, and of its block manager alone."""
FIRST_CONTINUATION = "def main() -> None:"
CONTINUATIONS = (
    "\n\nNext question: how long does it take?",
    " and how long does it take?",
    "配送にはどのくらいかかりますか。",
    "It was said in the last meeting that it takes two days, and nobody was sure of it. " * 12,
)
"""What follows a prefix: a line end, a space, Japanese, a long text. All begin with different tokens."""
SOFT = "\n### User:\n"
CHAT = (
    START + "{% for message in messages %}"
    "{% if message.role == 'user' %}{{ '" + SOFT.replace("\n", "\\n") + "' if soft else '" + USER + "' }}{% endif %}"
    "{{ message.content }}{% endfor %}"
)
LONGEST = 16_000
"""The most tokens of a prompt: for longer ones, a CPU takes minutes for the first request."""
CHANGED_TARGETS = {1: ("exact",), 128: ("deepseek-v4", "chat")}
"""Unit -> the targets of review.py whose changes are sent to an engine with that unit."""
PADDING = {"plain": "'off'", "padded": "always"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to send a prefix.

    Attributes:
        name: the name in the tables.
        settings: the settings of its targets.
        after: the text between the system text and the continuation.
        chat: whether it is sent as chat messages.
        soft: whether the chat template ends the prefix with text instead of a control token.
    """

    name: str
    settings: str
    after: str
    chat: bool = False
    soft: bool = False

    def text(self, prefix: Prefix, user: str) -> str:
        """Returns the text that the model reads, as this script assembles it."""
        return START + prefix.text + self.after + user

    def target(self, unit: int) -> str:
        """Returns the name of the target with this unit."""
        return f"{self.name}-{unit}"


FORMS = (
    Form(name="raw", settings='extends = "deepseek-v4"', after=USER),
    Form(
        name="open",
        settings=f'extends = "deepseek-v4"\nrequest = "text"\nframe = {{before = "{START}", after = ""}}',
        after="",
    ),
    Form(
        name="chat",
        settings='extends = "deepseek-v4"\nframe = {chat_template = "chat.jinja"}',
        after=USER,
        chat=True,
    ),
    Form(
        name="chat-soft",
        settings='extends = "deepseek-v4"\nframe = {chat_template = "chat.jinja", arguments = {soft = true}}',
        after=SOFT,
        chat=True,
        soft=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The corpus, built.

    Attributes:
        root: the folder of the project.
        names: the names of its prompts.
        tokens: prefix and target -> static tokens that `build` reports.
    """

    root: Path
    names: tuple[str, ...]
    tokens: Mapping[tuple[str, str], int]

    def prefixes(self, padding: str, target: str) -> Iterator[Prefix]:
        """Yields the frozen prefixes of one target, as a program loads them."""
        for name in self.names:
            yield load(f"{padding}/{name}", target=target, root=self.root)


class ReferenceCache:
    """A model of an engine's cache that computes expected hits without the product.

    A hit is the longest prefix that a request shares with an earlier one of the same salt, in whole units. An engine
    with one slot has only the last request. The last token of a request is never hit, since it is always computed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: list[tuple[str, list[int]]] = []

    def hit(self, ids: list[int], salt: str) -> int:
        """Returns the expected hit of a request, and adds the request to the cache."""
        held = [old for old_salt, old in self._held if self._engine.slot or old_salt == salt]
        most = min(max((review.common(old, ids) for old in held), default=0), len(ids) - 1)
        # One salt is used at a time, so entries of other salts can be dropped.
        self._held = [(salt, ids)] if self._engine.slot else [*((salt, old) for old in held), (salt, ids)]
        return most - most % self._engine.unit


@dataclass(slots=True)
class Tally:
    """The results of one form at one engine.

    Attributes:
        trials: requests that were compared: all but the first one of each prompt.
        as_counted: trials with the hit of the reference cache.
        as_promised: trials with the hit that the static tokens of `build` promise.
        tokens: tokens of all trials.
        hit: tokens of all trials that were reused.
        faults: what differs.
    """

    trials: int = 0
    as_counted: int = 0
    as_promised: int = 0
    tokens: int = 0
    hit: int = 0
    faults: list[str] = field(default_factory=list)

    def cached(self) -> float:
        """Returns the tokens reused per request, on average."""
        return self.hit / (self.trials or 1)

    def recomputed(self) -> float:
        """Returns the tokens recomputed per request, on average."""
        return (self.tokens - self.hit) / (self.trials or 1)


# Building


def read_short_prompts(folder: Path, most: int | None) -> dict[str, bytes]:
    """Returns the first `most` prompts that are short enough, and prints the names of those that are not."""
    prompts = read_prompts(folder)
    lengths = {name: len(encode(source_text(data))) for name, data in prompts.items()}
    for name, tokens in lengths.items():
        if tokens > LONGEST:
            print(f"Left out, longer than {LONGEST:,} tokens: {name}, {tokens:,}\n")
    short = [name for name, tokens in lengths.items() if tokens <= LONGEST]
    return {name: prompts[name] for name in short[:most]}


def make_project(root: Path, sources: Mapping[str, bytes]) -> Project:
    """Writes a project with each prompt once padded and once not, and builds it with the installed program."""
    targets = [(form, unit) for form in FORMS for unit in (SERVER_UNITS if form.chat else MANAGER_UNITS)]
    tables = [
        f"[target.{form.target(unit)}]\n{form.settings}\n"
        f'cache = {{kind = "blocks", unit = {unit}, minimum = 0, read = 0.0, write = 1.0}}\n'
        for form, unit in targets
    ]
    listed = json.dumps([form.target(unit) for form, unit in targets])
    for folder in ("prefixes/plain", "prefixes/padded", "templates", "texts"):
        (root / folder).mkdir(parents=True)
    (root / "cacheunit.toml").write_text(f"targets = {listed}\n" + "\n".join(tables), encoding="utf-8")
    (root / "chat.jinja").write_text(CHAT, encoding="utf-8")
    (root / "templates/literal.md.j2").write_bytes(b"{{ text }}")
    for name, data in sources.items():
        (root / "texts" / f"{name}.md").write_bytes(data)
        for padding, mode in PADDING.items():
            manifest = f"system: literal.md.j2\ndata: {{text: texts/{name}.md}}\npadding: {mode}\n"
            (root / f"prefixes/{padding}/{name}.yaml").write_text(manifest, encoding="utf-8")
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts")) or "cacheunit"
    done = subprocess.run([program, "-C", str(root), "build", "--format", "json"], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    built = json.loads(done.stdout)["artifacts"]
    tokens = {(item["prefix"], item["target"]): item["tokens"] for item in built}
    return Project(root=root, names=tuple(sources), tokens=tokens)


# Sending


def send_form(engine: Engine, form: Form, padding: str, project: Project) -> Tally:
    """Sends every prompt with one continuation and then with four others; compares the hits with those expected."""
    tally, cache = Tally(), ReferenceCache(engine)
    target = form.target(128 if engine.unit == 1 else engine.unit)
    for prefix in project.prefixes(padding, target):
        salt = f"{prefix.name} {target}"
        static = project.tokens[prefix.name, target]
        promise = static - static % engine.unit
        for index, user in enumerate((FIRST_CONTINUATION, *CONTINUATIONS)):
            text = form.text(prefix, user)
            ids = encode(text)
            answer = engine.chat(chat_request(form, prefix, user), salt) if form.chat else engine.complete(text, salt)
            expected = cache.hit(ids, salt)
            request = f"{salt}, {user[:9]!r}"
            if answer.tokens != len(ids):
                tally.faults.append(f"{request}: {answer.tokens} tokens, {len(ids)} counted here")
            if answer.hit != expected and (index or not engine.slot):
                tally.faults.append(f"{request}: {answer.hit} tokens hit, {expected} counted here")
            if answer.hit < promise and index:
                tally.faults.append(f"{request}: {answer.hit} tokens hit, {promise} promised")
            if index:
                tally.trials += 1
                tally.as_counted += answer.hit == expected
                tally.as_promised += answer.hit == promise
                tally.tokens += answer.tokens
                tally.hit += answer.hit
    return tally


def chat_request(form: Form, prefix: Prefix, user: str) -> dict[str, Any]:
    """Returns the request that a client makes from a frozen prefix."""
    options: dict[str, Any] = {"chat_template_kwargs": {"soft": True}} if form.soft else {}
    return prefix.request(messages=[{"role": "user", "content": user}], add_generation_prompt=False, **options)


def engines(folder: Path, python: Path | None) -> Iterator[tuple[Engine, Sequence[Form]]]:
    """Starts one engine at a time; yields it with the forms that it accepts."""
    text_forms = [form for form in FORMS if not form.chat]
    with llama_cpp(folder, CHAT) as engine:
        yield engine, FORMS
    if python is None:
        return
    with block_manager(python, folder) as process:
        for unit in MANAGER_UNITS:
            yield BlockManager(process, unit), text_forms
    for unit in SERVER_UNITS:
        with vllm(python, unit, folder, CHAT) as server:
            yield server, FORMS


# Reporting


def main() -> int:
    """Runs all engines, prints the tables, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Compares predicted hits with what real engines report.")
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(__file__).parent.parent / "../shared/corpus")
    parser.add_argument("--vllm", type=Path, metavar="PYTHON", help="the Python of an environment with vLLM")
    parser.add_argument("--most", type=int, metavar="N", help="use the first N prompts only")
    parser.add_argument(
        "--changes", type=int, default=10, metavar="N", help="number of prompts to change (default: 10)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers and all faults to this file")
    arguments = parser.parse_args()
    sources = read_short_prompts(arguments.corpus / "prompts", arguments.most)
    if not sources:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    rows, changes = measure(sources, arguments)
    print_changes(changes)
    faults = [fault for row in rows for tally in row["tallies"].values() for fault in tally.faults]
    faults += [fault for row in changes for fault in row["faults"]]
    for fault in faults[:50]:
        print(f"FAILED {fault}")
    if arguments.json:
        listed = [{**row, "tallies": {key: asdict(tally) for key, tally in row["tallies"].items()}} for row in rows]
        report = {"prompts": len(sources), "rows": listed, "changes": changes}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


def measure(
    sources: Mapping[str, bytes], arguments: argparse.Namespace
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Runs every engine; returns the rows of the first table, which are printed at once, and those of the second."""
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    changed_sources = dict(list(sources.items())[: arguments.changes])
    users = (FIRST_CONTINUATION, CONTINUATIONS[1])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as root:
        project = make_project(Path(root), sources)
        for engine, forms in engines(Path(folder), arguments.vllm):
            for form in forms:
                tallies = {padding: send_form(engine, form, padding, project) for padding in PADDING}
                rows.append({"engine": engine.name, "unit": engine.unit, "form": form.name, "tallies": tallies})
                print_row(rows[-1], first=len(rows) == 1)
            targets = CHANGED_TARGETS.get(engine.unit, ()) if engine.chats else ()
            if targets:
                changes += send_changes(engine, targets, changed_sources, arguments.corpus / "tools", users)
    return rows, changes


HEAD = (
    "| engine | unit | form | trials | as counted | as promised "
    "| cached, unpadded | padded | recomputed, unpadded | padded |\n"
    "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def print_row(row: dict[str, Any], *, first: bool) -> None:
    """Prints a row of the first table, after the header if it is the first."""
    plain, padded = row["tallies"]["plain"], row["tallies"]["padded"]
    cells = [row["engine"], row["unit"], row["form"], f"{plain.trials + padded.trials:,}"]
    cells += [f"{plain.as_counted + padded.as_counted:,}", f"{plain.as_promised:,} + {padded.as_promised:,}"]
    cells += [f"{tally.cached():,.1f}" for tally in (plain, padded)]
    cells += [f"{tally.recomputed():,.1f}" for tally in (plain, padded)]
    print((HEAD + "\n" if first else "") + "| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_changes(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the second table: for each kind of edit, what each engine was sent and what it reused."""
    names = list(dict.fromkeys(row["engine"] for row in rows))
    print("\n| edit |" + "".join(f" {name}: sent | as diff predicts | hit of static |" for name in names))
    print("| --- |" + " ---: | ---: | ---: |" * len(names))
    for edit in dict.fromkeys(row["edit"] for row in rows):
        cells = [edit]
        for row in (row for row in rows if row["edit"] == edit):
            cells += [f"{row['sent']:,}", f"{row['equal']:,}", f"{row['hit']:,} of {row['static']:,}"]
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
