"""Compares predicted hits with what real engines report in the first, second and third turn of conversations.

Usage: python bench/engine_turns.py [CORPUS] [--vllm PYTHON] [--most N] [--json FILE]

Each prompt is built for four kinds of chat templates, without and with tools, with and without padding. Two
conversations of three turns are sent with each prefix, as messages. llama.cpp always runs; `--vllm` names the Python of
an environment with vLLM, whose server then runs with blocks of 32 and of 128 tokens. The table is in docs/engines.md.

Exit codes: 0 all as predicted, 1 differences found, 2 no prompts found.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import START, USER, read_prompts, source_text
from engines import ReferenceCache
from servers import encode, llama_cpp, vllm
from targets import FEW_TOOLS

from cacheunit_build import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from servers import Answer, Engine

    from cacheunit_build.runtime.prefix import Prefix

    Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
ASSISTANT, RESULT = "<\uff5cAssistant\uff5c>", "<\uff5ctool\u2581output\u2581begin\uff5c>"
TOOLS = "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}\n{% endfor %}"
CHAT = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    + START
    + "{% if kind != 'late tools' %}"
    + TOOLS
    + "{% endif %}{% for m in messages %}"
    "{% if m.role == 'system' %}{% if kind != 'late system' %}{{ m.content }}{% endif %}"
    "{% elif m.role == 'user' %}{{ '\\n### User:\\n' if kind == 'soft' else '" + USER + "' }}"
    "{% if loop.index0 == ns.last %}{% if kind == 'late tools' %}"
    + TOOLS
    + "{% endif %}{% if kind == 'late system' %}{{ messages[0].content }}\n\n{% endif %}{% endif %}{{ m.content }}"
    "{% elif m.role == 'assistant' %}" + ASSISTANT + "{{ m.content }}"
    "{% for call in m.tool_calls or [] %}call {{ call.function.name }}{% endfor %}"
    "{% else %}" + RESULT + "{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)
KINDS = ("hard", "soft", "late system", "late tools")
"""The kinds of the template: a control token ends the prefix, or text does; system text or tools are printed before the
last user message only."""
UNITS = (32, 128)
PADDING = {"plain": "'off'", "padded": "auto"}
LONGEST = 4_000
"""The most tokens of a prompt, so that a run takes minutes."""
CONVERSATIONS = (
    ("Where is it?", "Over there.", "How far is it?", "A mile.\n", "Thanks, and how long does it take? " * 12),
    ("\n\nNext question: when?", "", " . and", "1. Now\n2. Later", "\u3042\u308a\u304c\u3068\u3046"),
)
"""The words of user and assistant, in turn. Both begin with different tokens."""


@dataclass(slots=True)
class Tally:
    """The results of one kind of template on one engine.

    Attributes:
        trials: requests that were compared: all but the first one of each prefix.
        as_counted: trials with the hit that the token ids of this and of earlier requests give.
        prefixes: the prefixes that were sent.
        exact: prefixes of which the least hit is the predicted one.
        hit: tokens of all trials that were reused.
        predicted: tokens that were predicted for all trials.
        faults: what differs.
    """

    trials: int = 0
    as_counted: int = 0
    prefixes: int = 0
    exact: int = 0
    hit: int = 0
    predicted: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The corpus, built.

    Attributes:
        root: the folder of the project.
        names: the names of its prefixes.
        tokens: prefix and target -> static tokens that `build` reports.
    """

    root: Path
    names: Sequence[str]
    tokens: Mapping[tuple[str, str], int]


def main() -> int:
    """Runs all engines, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Compares predicted hits of later turns with what engines report.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus")
    parser.add_argument("--vllm", type=Path, metavar="PYTHON", help="the Python of an environment with vLLM")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="use the first N prompts (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers and all faults to this file")
    arguments = parser.parse_args()
    sources = short_prompts(arguments.corpus / "prompts", arguments.most)
    if not sources:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    tools = {name: (arguments.corpus / f"tools/{name}.json").read_bytes() for name in FEW_TOOLS}
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as root:
        project = make_project(Path(root), sources, tools)
        for engine in engines(Path(folder), arguments.vllm):
            for kind in KINDS:
                rows.append({"engine": engine.name, "unit": engine.unit, "kind": kind, **send(engine, kind, project)})
                print_row(rows[-1], first=len(rows) == 1)
    faults = [fault for row in rows for fault in row["faults"]]
    for fault in faults[:50]:
        print(f"FAILED {fault}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


# Building


def short_prompts(folder: Path, most: int) -> dict[str, bytes]:
    """Returns the first `most` prompts of at most `LONGEST` tokens."""
    prompts = read_prompts(folder).items()
    return dict([item for item in prompts if len(encode(source_text(item[1]))) <= LONGEST][:most])


def make_project(root: Path, sources: Mapping[str, bytes], tools: Mapping[str, bytes]) -> Project:
    """Writes a project with each prompt without and with tools and padding, and builds it."""
    tables = [
        f'[target."{target(kind, unit)}"]\nextends = "deepseek-v4"\n'
        f'frame = {{chat_template = "chat.jinja", arguments = {{kind = "{kind}"}}}}\n'
        f'cache = {{kind = "blocks", unit = {unit}, minimum = 0, read = 0.0, write = 1.0}}\n'
        for kind, unit in product(KINDS, UNITS)
    ]
    targets = json.dumps([target(kind, unit) for kind, unit in product(KINDS, UNITS)])
    files = {
        "cacheunit.toml": f"targets = {targets}\n\n" + "\n".join(tables),
        "chat.jinja": CHAT,
        "templates/literal.md.j2": "{{ text }}",
    }
    files |= {f"tools/{name}.json": data.decode() for name, data in tools.items()}
    names = []
    for name, data in sources.items():
        files[f"texts/{name}.md"] = source_text(data)
        for padding, with_tools in product(PADDING, (False, True)):
            names.append(f"{padding}/{'tools' if with_tools else 'none'}/{name}")
            listed = f"tools: [{', '.join(f'tools/{tool}.json' for tool in tools)}]\n" if with_tools else ""
            manifest = f"system: literal.md.j2\ndata: {{text: texts/{name}.md}}\npadding: {PADDING[padding]}\n"
            files[f"prefixes/{names[-1]}.yaml"] = manifest + listed
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", newline="")
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts")) or "cacheunit"
    done = subprocess.run([program, "-C", str(root), "build", "--format", "json"], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode() or done.stdout.decode())
    built = json.loads(done.stdout)["artifacts"]
    return Project(root=root, names=names, tokens={(item["prefix"], item["target"]): item["tokens"] for item in built})


def target(kind: str, unit: int) -> str:
    """Returns the name of the target of a kind with a unit."""
    return f"{kind.replace(' ', '-')}-{unit}"


# Sending


def engines(folder: Path, python: Path | None) -> Iterator[Engine]:
    """Starts one engine at a time, and yields it."""
    with llama_cpp(folder, CHAT) as engine:
        yield engine
    if python is None:
        return
    for unit in UNITS:
        with vllm(python, unit, folder, CHAT) as server:
            yield server


def send(engine: Engine, kind: str, project: Project) -> Json:
    """Sends two conversations with each prefix of a kind; returns the numbers of their hits."""
    tally = Tally()
    name = target(kind, engine.unit if engine.unit in UNITS else UNITS[-1])
    for prefix_name in project.names:
        prefix = load(prefix_name, target=name, root=project.root)
        static = project.tokens[prefix_name, name]
        send_prefix(engine, kind, prefix, static - static % engine.unit, tally)
    return asdict(tally)


def send_prefix(engine: Engine, kind: str, prefix: Prefix, predicted: int, tally: Tally) -> None:
    """Sends two conversations with one prefix, and adds their hits to the tally."""
    cache = ReferenceCache(engine)
    hits = []
    for number, messages in enumerate(requests("tools" in prefix.name)):
        request = prefix.request(messages=messages)
        ids = encode(render(request, kind))
        answer, expected = send_request(engine, kind, request, prefix.name), cache.hit(ids, prefix.name)
        what = f"{engine.name}, {prefix.name} for {prefix.target}, request {number}"
        if answer.tokens != len(ids):
            tally.faults.append(f"{what}: {answer.tokens} tokens, {len(ids)} counted here")
        if not number:
            continue
        hits.append(answer.hit)
        tally.trials += 1
        tally.as_counted += answer.hit == expected
        if answer.hit != expected:
            tally.faults.append(f"{what}: {answer.hit} tokens hit, {expected} counted here")
        if answer.hit < predicted:
            tally.faults.append(f"{what}: {answer.hit} tokens hit, {predicted} predicted")
    tally.prefixes += 1
    tally.exact += min(hits) == predicted
    tally.hit += sum(hits)
    tally.predicted += predicted * len(hits)


def requests(tools: bool) -> Iterator[list[Json]]:  # noqa: FBT001 - a fact, not a switch
    """Yields the messages of each request of two conversations; with tools, one is called in the first turn."""
    for number, words in enumerate(CONVERSATIONS):
        messages = [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(words)]
        called = tool_call(f"Result {number}") if tools else []
        yield messages[:1]
        if called:
            yield messages[:1] + called
        for end in (3, 5):
            yield messages[:1] + called + messages[1:end]


def tool_call(result: str) -> list[Json]:
    """Returns a message that calls a tool, and its result."""
    function = {"name": FEW_TOOLS[0], "arguments": json.dumps({"filename": "a.md", "content": "..."})}
    call = {"id": "abcdefgh1", "type": "function", "function": function}
    assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [assistant, {"role": "tool", "tool_call_id": "abcdefgh1", "content": result}]


def send_request(engine: Engine, kind: str, request: Json, salt: str) -> Answer:
    """Sends a chat request; the model, whose answers are noise, is not asked to choose a tool."""
    options: Json = {"chat_template_kwargs": {"kind": kind}}
    if "tools" in request:
        options["tool_choice"] = "none"
    return engine.chat({**request, **options}, f"{salt} {kind}")


def render(request: Json, kind: str) -> str:
    """Returns the text that the model reads of a chat request, by transformers."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it would warn that PyTorch is not installed
    from transformers.utils import chat_template_utils

    template: Any = chat_template_utils.render_jinja_template
    texts, _ = template(
        [request["messages"]], request.get("tools"), chat_template=CHAT, add_generation_prompt=True, kind=kind
    )
    return str(texts[0])


# Reporting

HEAD = (
    "| engine | unit | template | requests compared | as counted | prefixes | least hit as predicted "
    "| hit per request | predicted |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def print_row(row: Json, *, first: bool) -> None:
    """Prints a row of the table, after the header if it is the first."""
    numbers = [f"{row[name]:,}" for name in ("trials", "as_counted", "prefixes", "exact")]
    means = [f"{row[name] / (row['trials'] or 1):,.1f}" for name in ("hit", "predicted")]
    cells = [row["engine"], str(row["unit"]), row["kind"], *numbers, *means]
    print((HEAD + "\n" if first else "") + "| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
