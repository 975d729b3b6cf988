"""Shows lint rules: the list of all of them, and the page of one, as text, JSON and Markdown."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.lint.gate_rules import gate_role
from cacheunit_build.lint.registry import GROUPS, RULES
from cacheunit_build.lint.replacements import FIXABLE
from cacheunit_build.reports.formatting import markdown_table
from cacheunit_build.reports.layout import Block, Section, Table, Verbatim
from cacheunit_build.reports.text_diff import show_characters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.gate_rules import GateRole
    from cacheunit_build.lint.rule import Example, Rule

_FENCES = {"j2": "jinja", "jinja": "jinja"}
"""The extension of a file -> the language of its code blocks, where that has another name."""

_GATE: dict[GateRole, str] = {
    "always": "always stops a build",
    "optional": "stops a build if the settings name it in gate",
    "never": "cannot stop a build, which may compile a part of the project only",
}

_NOTES = {
    "guide.md.j2": "guide.md.j2 stands for a long template.",
    "\u27e8U+": "\u27e8U+…\u27e9 stands for the character of this code point, which would not be visible.",
    "…": "… stands for the generated part of the secret.",
}
"""What an example contains -> what is to be said about it."""

_INTRODUCTION = (
    "What [`cacheunit lint`](../lint.md) looks for; `cacheunit lint --explain CODE` shows a page in a terminal. They "
    "are made from the rules in `cacheunit_build/lint/rules/`: edit those, and run `pytest tests/test_lint_rules.py "
    "--rewrite-goldens`."
)

_FIXED = 'by "cacheunit lint --fix", where that is certain'


def rules_blocks() -> list[Block]:
    """Returns a row for each rule: code, severity, name, meaning."""
    return [Table(rows=[(rule.code, rule.severity, rule.name, rule.meaning) for rule in RULES.values()])]


def rules_json() -> dict[str, Any]:
    """Returns all rules as JSON."""
    return {"codes": [rule_json(rule) for rule in RULES.values()]}


def rule_json(rule: Rule) -> dict[str, Any]:
    """Returns a rule as JSON."""
    return {
        "code": rule.code,
        "severity": rule.severity,
        "name": rule.name,
        "meaning": rule.meaning,
        "hint": rule.hint,
        "fixable": rule.code in FIXABLE,
        "gate": gate_role(rule.code),
        "why": rule.why,
        "bad": dict(rule.bad),
        "good": dict(rule.good),
        "sources": list(rule.sources),
    }


def rule_blocks(rule: Rule) -> list[Block]:
    """Returns the page of a rule for a terminal."""
    return [
        [f"{rule.code} {rule.name}", _sentence(rule.meaning)],
        [rule.why],
        *_example_blocks("Reported:", rule.bad),
        *_example_blocks("Use instead:", _changed_files(rule)),
        _notes(rule),
        Table(rows=[*_properties(rule), *(("source", source) for source in rule.sources)]),
    ]


def rule_text(rule: Rule) -> str:
    """Returns the page of a rule for viewers of plain text that show its meaning elsewhere: why, and what to do."""
    return f"{rule.why}\n\n{_sentence(rule.hint)}"


def rule_markdown(rule: Rule) -> str:
    """Returns the page of a rule as Markdown, without links to other pages."""
    properties = [("property", "value"), *((name, markdown_text(value)) for name, value in _properties(rule))]
    parts = [
        f"# {rule.code} {rule.name}",
        markdown_text(_sentence(rule.meaning)),
        rule.why,
        "## Example",
        *_example_markdown(rule.bad),
        "Use instead:",
        *_example_markdown(_changed_files(rule)),
        *map(markdown_text, _notes(rule)),
        "## Properties",
        markdown_table(properties),
    ]
    sources = ["## Sources", "\n".join(f"- <{source}>" for source in rule.sources)] if rule.sources else []
    return "\n\n".join([*parts, *sources])


def rule_page(rule: Rule) -> str:
    """Returns the page of a rule in the documentation."""
    return f"{rule_markdown(rule)}\n\n[All rules](README.md) · [Lint](../lint.md)\n"


def rules_page() -> str:
    """Returns the page of the documentation that lists all rules by group."""
    parts = ["# Lint rules", _INTRODUCTION]
    for group, name in GROUPS.items():
        rows = [_index_row(rule) for rule in RULES.values() if rule.code.startswith(group)]
        parts += [f"## {group}xx {name}", markdown_table([("code", "name", "severity", "meaning", "fix"), *rows])]
    return "\n\n".join(parts) + "\n"


def _index_row(rule: Rule) -> tuple[str, ...]:
    """Returns the cells of a rule in the list of all rules."""
    link = f"[{rule.code}]({rule.code}.md)"
    fix = "`--fix`" if rule.code in FIXABLE else ""
    return (link, rule.name, rule.severity, markdown_text(rule.meaning), fix)


def _properties(rule: Rule) -> list[tuple[str, str]]:
    """Returns what a rule is and can do, each with its name."""
    return [
        ("severity", rule.severity),
        ("group", f"{rule.code[:3]} {GROUPS[rule.code[:3]]}"),
        ("hint", rule.hint),
        ("fix", _FIXED if rule.code in FIXABLE else "by hand"),
        ("gate", _GATE[gate_role(rule.code)]),
    ]


def _changed_files(rule: Rule) -> Example:
    """Returns the files of the good example that the bad one has otherwise, or not at all."""
    return {path: text for path, text in rule.good.items() if rule.bad.get(path) != text}


def _example_blocks(title: str, example: Example) -> Iterator[Block]:
    """Yields the files of an example for a terminal, the first one below the title."""
    for index, (path, text) in enumerate(example.items()):
        lines = Verbatim([f"    {line}".rstrip() for line in _visible_lines(text)])
        yield Section([[*([] if index else [title]), f"  {path}:"], lines])


def _example_markdown(example: Example) -> Iterator[str]:
    """Yields the name and the text of each file of an example."""
    for path, text in example.items():
        extension = path.rpartition(".")[2]
        code = "\n".join(_visible_lines(text))
        yield f"{code_span(path)}\n\n```{_FENCES.get(extension, extension)}\n{code}\n```"


def _visible_lines(text: str) -> list[str]:
    """Returns the lines of a source, with the code points of what cannot be seen, combining accents included."""
    return [_visible(line) for line in text.removesuffix("\n").split("\n")]


def _visible(line: str) -> str:
    marked = (f"\u27e8U+{ord(c):04X}\u27e9" if unicodedata.combining(c) else c for c in show_characters(line))
    return "".join(marked)


def _notes(rule: Rule) -> list[str]:
    """Returns what is to be said about the examples of a rule."""
    shown = "\n".join(line for text in rule.bad.values() for line in _visible_lines(text))
    return [note for mark, note in _NOTES.items() if mark in shown]


def _sentence(text: str) -> str:
    """Returns a text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
