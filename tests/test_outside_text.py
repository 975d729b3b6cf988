"""Text from outside stays text: on terminals, in CI logs, JSON, TOML, Markdown and workflow commands."""

from __future__ import annotations

import html
import json
import re
import tomllib
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cacheunit_build.builder.results import BuildResult, CheckResult
from cacheunit_build.diff.results import ChangedLines, Difference, DiffResult, FirstChange
from cacheunit_build.domain.drift import Drift
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.escaping import (
    code_span,
    json_text,
    many_lines,
    markdown_text,
    one_line,
    output_line,
    toml_string,
    workflow_message,
    workflow_property,
)
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lint.results import LintResult, Violation
from cacheunit_build.reports.build import build_blocks, build_markdown
from cacheunit_build.reports.check import check_blocks, check_markdown, review_annotations
from cacheunit_build.reports.diff import diff_blocks
from cacheunit_build.reports.diff_markdown import diff_markdown
from cacheunit_build.reports.diff_places import diff_annotations
from cacheunit_build.reports.formatting import markdown_table
from cacheunit_build.reports.layout import Table, plain_text
from cacheunit_build.reports.sarif import lint_sarif

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Project

    from cacheunit_build.reports.layout import Block

CONTROLS = "\x00\x07\b\t\n\v\f\r\x1b\x7f\x80\x85\x9b\x9d\x9f"
INVISIBLE = "\u00a0\u00ad\u061c\u200b\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\U000e0041\ud800\udcff"
MARKS = "`*_~[]()<>#!|\\&$^:@-+=.{}\"'1 \n"

any_text = st.text(st.one_of(st.characters(categories=None), st.sampled_from(CONTROLS + INVISIBLE + MARKS + "a")))
"""Any text, lone surrogates included, in which what is special in some format is frequent."""
encodable_text = any_text.map(lambda text: text.encode("utf-8", "replace").decode())


def is_shown(text: str) -> bool:
    """Whether each character of a text is one to look at."""
    return all(character.isprintable() or character == "\u3000" for character in text)


def is_command(line: str) -> bool:
    """Whether a CI service reads a line of a log as a command."""
    return line.strip().startswith("::") or re.search(r"##[\w.-]*\[", line) is not None


@given(any_text)
@example("a\n::error::b")
@example("##[add-mask]x ##vso[task.setvariable]x ##teamcity[x] ###[x]")
@example("\x85::error::x")
@example("\u3000 ::error::x")
@example("\ud800")
def test_a_line_stays_one_line_without_control_characters_or_commands(text: str) -> None:
    line = output_line(text)
    assert is_shown(line)
    assert not is_command(line)
    assert output_line(line) == line
    line.encode()


@given(encodable_text.map(lambda text: "".join(filter(is_shown, text))).filter(lambda text: not is_command(text)))
@example("Grüße, 世界\u3000a\\n ## Heading 👍🏽 é")
def test_a_text_of_printable_characters_is_shown_as_it_is(text: str) -> None:
    assert output_line(text) == text


@given(any_text)
def test_a_text_for_a_terminal_keeps_its_line_ends_and_tabs_only(text: str) -> None:
    shown = many_lines(text)
    assert is_shown(shown.translate({ord("\n"): None, ord("\t"): None}))
    assert shown.count("\n") == text.count("\n")


@settings(max_examples=50)
@given(st.dictionaries(any_text, st.lists(any_text, max_size=3), max_size=3))
@example({"##[error]": ["##vso[x]", "\x7f\x9b\u2028\U000e0041\ud800"]})
def test_json_has_the_same_value_without_control_characters_and_commands(value: dict[str, list[str]]) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    text.encode()
    assert is_shown(text.replace("\n", ""))
    assert not any(map(is_command, text.split("\n")))


@given(encodable_text)
@example("##vso[x]\x7f\u2028\U000e0041\x00")
def test_a_toml_string_has_the_same_value_without_control_characters_and_commands(text: str) -> None:
    line = f"key = {toml_string(text)}"
    assert tomllib.loads(line) == {"key": text}
    assert output_line(line) == line


def comparable(text: str) -> str:
    """Returns a text without the spaces that a browser leaves out, and bars of code as code in tables spells them."""
    return re.sub(" +", " ", text).strip().replace("\\|", "\\x7c")


def visible_text(markdown: str, *allowed: str) -> list[str]:
    """Returns the text of each paragraph and cell that Markdown renders to.

    Asserts that nothing is more than text or code, except for blocks of the allowed types, and that what GitHub links
    itself is in code only.
    """
    texts: list[str] = []
    for block in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown):
        if block.type == "html_block" and "details" in allowed:
            match = re.fullmatch(
                r"</details>\n?|<details><summary>((?:<code>[^<>]*</code> ?)*)[^<>&@#]*</summary>\n?", block.content
            )
            assert match is not None, block.content
            texts += map(html.unescape, re.findall("<code>(.*?)</code>", match[1] or ""))
            continue
        if block.type == "fence" and "details" in allowed:
            texts += block.content.split("\n")
            continue
        if block.type != "inline":
            assert block.type.removesuffix("_open").removesuffix("_close") in ("paragraph", *allowed), block.type
            continue
        for part in block.children or ():
            assert part.type in ("text", "code_inline"), part.type
            assert part.type == "code_inline" or not re.search(
                r"@\w|#\d|://|www\.|mailto:|:\w+:|\$", part.content, re.IGNORECASE
            )
        texts.append("".join(part.content for part in block.children or ()))
    return texts


HOSTILE_MARKDOWN = [
    "# heading\n## two",
    "<img src=x onerror=alert(1)> <!-- --> &lt; &amp;amp; &#64;",
    "[a](http://evil) ![b](http://evil) [c]: http://evil <http://evil> www.evil.com HTTP://EVIL",
    "@team a@b.example #12 owner/repo#12 GH-12 gh-12 :smile: $x$ mailto:a@b xmpp:a@b",
    "```\nfence\n```",
    "~~~ ~a~ *a* _b_ **c** __d__ `e` ``f`` [^1] | a | b |",
    "- item",
    "1. item",
    "12)",
    "---",
    "***",
    "=== \\",
    "    indented",
    "> [!NOTE]",
    "a\\|b` @team",
    "a``b|`c`",
    "`",
    " ` ",
    "\\",
    "trailing\\",
    "+ +",
    "- [ ] task",
]


def with_examples(texts: list[str]) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    """Returns a decorator that adds several examples to a property test."""

    def decorate(test: Callable[[str], None]) -> Callable[[str], None]:
        for text in texts:
            test = example(text)(test)
        return test

    return decorate


@with_examples(HOSTILE_MARKDOWN)
@given(any_text)
def test_markdown_renders_to_the_text_that_a_terminal_shows(text: str) -> None:
    shown = comparable(one_line(text))
    (item,) = visible_text(f"- {markdown_text(text)} x", "bullet_list", "list_item")
    assert comparable(item.removesuffix("x")) == shown
    table = markdown_table([("x", "y", "z"), ("", markdown_text(text), "1")])
    *_, left, cell, right = visible_text(table, "table", "thead", "tbody", "tr", "th", "td")
    assert (left, comparable(cell), right) == ("", shown, "1")


@with_examples(HOSTILE_MARKDOWN)
@given(any_text)
def test_code_renders_to_the_text_that_a_terminal_shows(text: str) -> None:
    shown = comparable(one_line(text))
    (item,) = visible_text(f"- x: {code_span(text)}", "bullet_list", "list_item")
    assert comparable(item.removeprefix("x:")) == shown
    table = markdown_table([("x", "y", "z"), ("", code_span(text), "1")])
    *_, left, cell, right = visible_text(table, "table", "thead", "tbody", "tr", "th", "td")
    assert (left, comparable(cell), right) == ("", shown, "1")


@given(any_text, any_text)
@example("a%0A::b", "a,b:c\n")
def test_a_workflow_command_is_one_line_and_its_values_are_the_text(message: str, title: str) -> None:
    command = f"::error title={workflow_property(title)}::{workflow_message(message, message)}"
    assert is_shown(command)
    match = re.fullmatch(r"::error title=([^,:]*)::(.*)", command)
    assert match is not None
    assert unquote(match[1]) == one_line(title)
    assert unquote(match[2]) == f"{one_line(message)}\n{one_line(message)}"


@given(any_text)
def test_a_fault_is_shown_in_lines_of_its_own_only(text: str) -> None:
    fault = Fault(message=text, path=text, line=3, hint=text)
    assert str(fault).count("\n") == 2
    assert is_shown(str(CacheunitError(fault)).replace("\n", ""))


@given(st.lists(st.lists(any_text, min_size=2, max_size=2), min_size=1))
def test_a_report_has_as_many_lines_as_rows(rows: list[list[str]]) -> None:
    lines = plain_text([["first"], Table(rows=rows), ["last"]], 1_000_000).split("\n")
    assert [lines[0], lines[-1]] == ["first", "last"]
    assert len(lines) == (len(rows) + 4 if len(lines) > 3 else 3)
    assert not any(is_command(line) or not is_shown(line) for line in lines)


@given(any_text)
def test_sarif_has_an_encoded_path_and_no_link(text: str) -> None:
    violation = Violation(
        code="CU101", severity="error", prefixes=("a",), path=text, line=1, column=1, hint="do it", message=text
    )
    (result,) = lint_sarif(LintResult(violations=(violation,)), "", "1.0.0")["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[\w.~/%-]*", uri, re.ASCII)
    assert "](" not in result["message"]["text"]
    assert is_shown(result["message"]["text"])
    (paragraph,) = visible_text(f"x {result['message']['markdown']}")
    assert comparable(paragraph) == comparable(f"x {one_line(f'{text}. do it')}")


NAMES = ("::error::a", "b\x1b[2J\x9b", "c\n::add-mask::c", "##[error]d", "e`*<b>|x", "f\u202e[g](http:h)#1 @team")
COMMANDS = "::error::x\n \u3000::error::y\n##vso[task.setvariable variable=PATH]z\n\x1b]0;t\x07\n2026-11-30T03:22:43Z\n"


def reports(name: str) -> Iterator[list[Block]]:
    """Yields the reports of `build`, `check` and `diff` about an artifact, a file and a source of that name."""
    drift = Drift(prefix=name, target=name, kind="changed", because=(name, name))
    orphan = Drift(prefix="", target="", kind="orphan", path=name)
    yield build_blocks(BuildResult(removed=((name, name),), lock="written"))
    yield check_blocks(CheckResult(drift=(drift, orphan)))
    yield diff_blocks(diff_of(name), texts=True)


def diff_of(name: str) -> DiffResult:
    """Returns a difference between two versions, of which every text is `name`."""
    first = FirstChange(part="system", byte=1, token=1, unit=0, source=SourceLine(path=name, line=1))
    texts = {
        "prefix": name,
        "target": name,
        "was": name,
        "shares": name,
        "why": name,
        "text": (name, f"{name}\n{name}"),
    }
    places = [SourceLine(path=name, line=line) for line in (1, 2)]
    changed = Difference(kind="changed", what=name, place=places[0], first=first, **texts)  # type: ignore[arg-type]
    return DiffResult(
        against=name,
        differences=(changed,),
        sources={name: ((name, name),)},
        lines={place: ChangedLines(old=(name, "x"), new=(f"{name} {name}", "y")) for place in places},
        notes=(name,),
    )


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_escaped_in_reports_for_people(name: str) -> None:
    for blocks in reports(name):
        lines = plain_text(blocks).split("\n")
        assert any(one_line(name) in line for line in lines) or name.startswith("::")
        assert not any(is_command(line) or not is_shown(line) for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_escaped_in_markdown_and_annotations(name: str) -> None:
    fault = Fault(message=name, path=name, line=1, hint=name)
    drift = (Drift(prefix=name, target=name, kind="changed", because=(name,)),)
    table = ("table", "thead", "tbody", "tr", "th", "td", "heading", "bullet_list", "list_item", "details")
    for markdown in (
        build_markdown(BuildResult(removed=((name, name),))),
        check_markdown(CheckResult(faults=(fault,), drift=drift)),
        diff_markdown(diff_of(name)),
    ):
        assert not any(map(is_command, markdown.split("\n")))
        assert any(comparable(one_line(name)) in comparable(text) for text in visible_text(markdown, *table))
    annotations = [
        *review_annotations((fault,), drift, str).split("\n"),
        *diff_annotations(diff_of(name), str).split("\n"),
    ]
    assert len(annotations) == 4
    for line in annotations:
        assert re.match(r"::(error|notice) (file=[^:,]*,line=1[^:]*|title=prompt cache)::", line)
        assert is_shown(line)


@pytest.mark.parametrize("name", ["::error::\x1b[2J\x9b\n::add-mask::c", "##[error]`*<b>|\u202e"])
def test_no_command_lets_outside_text_out(project: Project, name: str) -> None:
    settings = f'targets = ["deepseek-v4"]\n[target.own]\nextends = "deepseek-v4"\ndescription = {json.dumps(name)}\n'
    project.write({"cacheunit.toml": settings, "templates/t.j2": COMMANDS * 20, "prefixes/a.yaml": "system: t.j2\n"})
    project.build()
    manifest = f"variables: {{{json.dumps(name)}: {json.dumps(name)}}}\nsystem: t.j2\n{json.dumps(name)}: 1\n"
    for arguments in (
        *(("show", "--sources", "a"), ("show", "--tokens", "a"), ("lint",), ("lint", "--format", "markdown")),
        *(("targets",), ("targets", "own"), ("targets", "--format", "json"), ("lint", "--format", "sarif")),
        *(("lint", "--format", "gitlab"), ("diff", "--format", "gitlab", "--against", "cacheunit.lock")),
        *(("show", name), (name,), ("build", f"--{name}"), ("build", "--format", name), ("-C", name, "build")),
        *(("count", name), ("diff", "--against", name), ("explain", "a", "--target", name), ("init", name)),
    ):
        assert_harmless(project, arguments)
    project.write({f"prefixes/{name.replace('/', '')}.yaml": manifest})
    for command in (["build"], ["lint"], *(["check", "--format", form] for form in ("json", "markdown", "gitlab"))):
        assert_harmless(project, tuple(command))


def assert_harmless(project: Project, arguments: tuple[str, ...]) -> None:
    """Asserts that a command prints something, and nothing that a terminal or a CI service obeys."""
    ran = project.run(*arguments)
    assert ran.out or ran.err
    assert ran.code in (0, 1, 2), ran.err
    for line in (*ran.out.split("\n"), *ran.err.split("\n")):
        assert is_shown(line), (arguments, line)
        assert not is_command(line), (arguments, line)


def test_show_prints_exact_bytes_to_a_pipe_and_escapes_on_a_terminal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"templates/t.j2": COMMANDS, "prefixes/a.yaml": "system: t.j2\n"})
    assert COMMANDS.encode() in project.run("show", "a").output
    monkeypatch.setattr("_pytest.capture.CaptureIO.isatty", lambda _: True, raising=False)
    shown = project.run("show", "a").out
    assert "\x1b" not in shown
    assert "##vso" not in shown
    assert "\\x1b]0;t\\x07\n" in shown
