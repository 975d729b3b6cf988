"""Holds predicted hits against what real engines report: a corpus of prompts, built, sent, and changed.

Usage: python bench/engines.py [CORPUS] [--vllm PYTHON] [--most N] [--json FILE]

Each prompt is built with and without padding, and sent with one continuation, then with four others, in several forms.
llama.cpp always runs; `--vllm` names the Python of an environment with vLLM, whose server then runs with blocks of 32
and of 128, and whose block manager runs alone with 16 to 256. Last, `diff` is held against what an engine with the old
version in its cache reports of the new one. The tables are in docs/engines.md.

Exit codes: 0 all as predicted, 1 not, 2 the corpus is not there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import review
from changes import try_changes
from corpus import START, USER, normal, read_prompts
from servers import Blocks, block_manager, encode, llama_cpp, vllm

from cacheunit_build import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from servers import Engine

    from cacheunit_build.runtime import Prefix

SERVED, MANAGED = (32, 128), (16, 32, 64, 128, 256)
FIRST = "def main() -> None:"
ASKED = (
    "\n\nNext question: how long does it take?",
    " and how long does it take?",
    "配送にはどのくらいかかりますか。",
    "It was said in the last meeting that it takes two days, and nobody was sure of it. " * 12,
)
"""What follows a prefix: after a line end, a space, in Japanese, long. No two of these and `FIRST` begin alike."""
SOFT = "\n### User:\n"
CHAT = (
    START + "{% for message in messages %}"
    "{% if message.role == 'user' %}{{ '" + SOFT.replace("\n", "\\n") + "' if soft else '" + USER + "' }}{% endif %}"
    "{{ message.content }}{% endfor %}"
)
LONGEST = 16_000
"""Tokens of a prompt: beyond, a processor takes minutes for the first request."""
CHANGED = {1: ("exact",), 128: ("deepseek-v4", "chat")}
"""The targets of review.py whose changes are sent to an engine with that unit."""
PADDING = {"plain": "'off'", "padded": "always"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to send a prefix: the target's settings, what stands after the system text, and what of it is shown."""

    name: str
    settings: str
    after: str
    chat: bool = False
    soft: bool = False

    def text(self, prefix: Prefix, user: str) -> str:
        """What the model reads, as this script puts it together."""
        return START + prefix.text + self.after + user

    def target(self, unit: int) -> str:
        """The name of the target with that unit."""
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
    """The corpus, built: the names of its prompts, and the static tokens that `build` reports."""

    root: Path
    names: tuple[str, ...]
    tokens: Mapping[tuple[str, str], int]

    def prefixes(self, padding: str, target: str) -> Iterator[Prefix]:
        """The frozen prefixes of one target, as a program loads them."""
        for name in self.names:
            yield load(f"{padding}/{name}", target=target, root=self.root)


class Expected:
    """What an engine should find by its rule, in what was sent before, counted without the product.

    Whole units of the longest beginning that a request shares with an earlier one of the same salt, or with the last
    one where a single slot holds that alone; never its last token, which is computed in any case.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: list[tuple[str, list[int]]] = []

    def hit(self, ids: list[int], salt: str) -> int:
        """How many of these tokens are found; they are held from then on."""
        held = [old for old_salt, old in self._held if self._engine.slot or old_salt == salt]
        most = min(max((review.common(old, ids) for old in held), default=0), len(ids) - 1)
        # Only one salt is asked at a time: what others left is of no use.
        self._held = [(salt, ids)] if self._engine.slot else [*((salt, old) for old in held), (salt, ids)]
        return most - most % self._engine.unit


@dataclass(slots=True)
class Tally:
    """What became of one way of sending."""

    trials: int = 0
    equal: int = 0
    promised: int = 0
    tokens: int = 0
    hit: int = 0
    faults: list[str] = field(default_factory=list)

    def cached(self) -> float:
        """Tokens reused in a request, on average."""
        return self.hit / (self.trials or 1)

    def anew(self) -> float:
        """Tokens computed anew in a request, on average."""
        return (self.tokens - self.hit) / (self.trials or 1)


# Building


def take(folder: Path, most: int | None) -> dict[str, bytes]:
    """The prompts that fit; says of the others that they are left out."""
    found = read_prompts(folder)
    lengths = {name: len(encode(normal(data))) for name, data in found.items()}
    long = [name for name in found if lengths[name] > LONGEST]
    for name in long:
        print(f"Left out, longer than {LONGEST:,} tokens: {name}, {lengths[name]:,}\n")
    return {name: found[name] for name in [name for name in found if name not in long][:most]}


def make_project(root: Path, sources: Mapping[str, bytes]) -> Project:
    """A project in which each prompt is data, once padded and once not, built by the installed program."""
    targets = [(form, unit) for form in FORMS for unit in (SERVED if form.chat else MANAGED)]
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


def try_form(engine: Engine, form: Form, padding: str, project: Project) -> Tally:
    """Sends every prompt, with one continuation and then with four others."""
    tally, expected = Tally(), Expected(engine)
    target = form.target(128 if engine.unit == 1 else engine.unit)
    for prefix in project.prefixes(padding, target):
        salt = f"{prefix.name} {target}"
        static = project.tokens[prefix.name, target]
        promise = static - static % engine.unit
        for index, user in enumerate((FIRST, *ASKED)):
            text = form.text(prefix, user)
            ids = encode(text)
            answer = engine.chat(chat_request(form, prefix, user), salt) if form.chat else engine.complete(text, salt)
            found = expected.hit(ids, salt)
            if answer.tokens != len(ids):
                tally.faults.append(f"{salt}, {user[:9]!r}: {answer.tokens} tokens for {len(ids)}")
            if answer.hit != found and (index or not engine.slot):
                tally.faults.append(f"{salt}, {user[:9]!r}: {answer.hit} hit for {found}")
            if answer.hit < promise and index:
                tally.faults.append(f"{salt}, {user[:9]!r}: {answer.hit} hit for {promise} promised")
            if index:
                tally.trials += 1
                tally.equal += answer.hit == found
                tally.promised += answer.hit == promise
                tally.tokens += answer.tokens
                tally.hit += answer.hit
    return tally


def chat_request(form: Form, prefix: Prefix, user: str) -> dict[str, Any]:
    """The request that a client makes of a frozen prefix."""
    more: dict[str, Any] = {"chat_template_kwargs": {"soft": True}} if form.soft else {}
    return prefix.request(messages=[{"role": "user", "content": user}], add_generation_prompt=False, **more)


def engines(folder: Path, python: Path | None) -> Iterator[tuple[Engine, Sequence[Form]]]:
    """One running engine at a time, with the forms that it takes."""
    raw = [form for form in FORMS if not form.chat]
    with llama_cpp(folder, CHAT) as engine:
        yield engine, FORMS
    if python is None:
        return
    with block_manager(python, folder) as process:
        for unit in MANAGED:
            yield Blocks(process, unit), raw
    for unit in SERVED:
        with vllm(python, unit, folder, CHAT) as server:
            yield server, FORMS


# Telling


def main() -> int:
    """Runs everything; gives the exit code."""
    parser = argparse.ArgumentParser(description="Holds predicted hits against what real engines report.")
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(__file__).parent.parent / "../shared/corpus")
    parser.add_argument("--vllm", type=Path, metavar="PYTHON", help="the Python of an environment with vLLM")
    parser.add_argument("--most", type=int, metavar="N", help="take the first N prompts only")
    parser.add_argument("--changes", type=int, default=10, metavar="N", help="prompts to change (10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same numbers there")
    arguments = parser.parse_args()
    sources = take(arguments.corpus / "prompts", arguments.most)
    if not sources:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    few = dict(list(sources.items())[: arguments.changes])
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        project = make_project(Path(stack.enter_context(tempfile.TemporaryDirectory())), sources)
        for engine, forms in engines(Path(folder), arguments.vllm):
            for form in forms:
                tallies = {padding: try_form(engine, form, padding, project) for padding in PADDING}
                rows.append({"engine": engine.name, "unit": engine.unit, "form": form.name, "tallies": tallies})
                tell(rows[-1], first=len(rows) == 1)
            targets = CHANGED.get(engine.unit, ()) if engine.chats else ()
            if targets:
                changes += try_changes(engine, targets, few, arguments.corpus / "tools", (FIRST, ASKED[1]))
    tell_changes(changes)
    faults = [fault for row in rows for tally in row["tallies"].values() for fault in tally.faults]
    faults += [fault for row in changes for fault in row["faults"]]
    for fault in faults[:50]:
        print(f"FAILED {fault}")
    if arguments.json:
        told = [{**row, "tallies": {key: asdict(tally) for key, tally in row["tallies"].items()}} for row in rows]
        report = {"prompts": len(sources), "rows": told, "changes": changes}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


HEAD = (
    "| engine | unit | form | trials | as counted | as promised "
    "| cached, unpadded | padded | anew, unpadded | padded |\n"
    "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def tell(row: dict[str, Any], *, first: bool) -> None:
    """Prints a row of the first table."""
    plain, padded = row["tallies"]["plain"], row["tallies"]["padded"]
    cells = [row["engine"], row["unit"], row["form"], f"{plain.trials + padded.trials:,}"]
    cells += [f"{plain.equal + padded.equal:,}", f"{plain.promised:,} + {padded.promised:,}"]
    cells += [f"{tally.cached():,.1f}" for tally in (plain, padded)]
    cells += [f"{tally.anew():,.1f}" for tally in (plain, padded)]
    print((HEAD + "\n" if first else "") + "| " + " | ".join(map(str, cells)) + " |", flush=True)


def tell_changes(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the second table: a row for each kind of edit, and of each engine what it was sent and what it reused."""
    names = list(dict.fromkeys(row["engine"] for row in rows))
    print("\n| edit |" + "".join(f" {name}: sent | as diff says | hit of static |" for name in names))
    print("| --- |" + " ---: | ---: | ---: |" * len(names))
    for edit in dict.fromkeys(row["edit"] for row in rows):
        cells = [edit]
        for row in (row for row in rows if row["edit"] == edit):
            cells += [f"{row['sent']:,}", f"{row['equal']:,}", f"{row['hit']:,} of {row['static']:,}"]
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
