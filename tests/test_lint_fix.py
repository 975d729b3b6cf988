"""`lint --fix`: what it replaces in the sources, what it leaves alone, and that no text changes but by that."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import unicodedata
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cacheunit_build.adapters.storage.project_files import DiskFiles
from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.lint.edits import Edit, edited
from cacheunit_build.lint.fixes import FixResult, write_fixes
from cacheunit_build.templating.literal_text import literal_spans

if TYPE_CHECKING:
    from conftest import Project

MANIFEST = "system: a.md.j2\npadding: always\n"
NFD = "e\u0301"


@pytest.fixture
def prompt(project: Project) -> Project:
    """A project with one prefix, whose template a test writes."""
    project.write({"prefixes/a.yaml": MANIFEST})
    return project


def fix(project: Project, *arguments: str) -> Any:  # noqa: ANN401 - a report
    """Runs `lint --fix`, and returns its JSON report."""
    ran = project.run("lint", "--fix", "--format", "json", *arguments)
    assert ran.code in (0, 1), ran.err
    return ran.json


def fixed_template(project: Project, text: str) -> str:
    """Returns the template a.md.j2 as `lint --fix` leaves it."""
    project.write({"templates/a.md.j2": text})
    fix(project)
    return project.read("templates/a.md.j2").decode()


def reasons(report: Any) -> list[str]:  # noqa: ANN401 - a report
    return [item["reason"] for item in report["unfixed"]]


# What is replaced


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Tom &amp; Jerry &lt;3 &#39;&#x4f;&eacute;\n", "Tom & Jerry <3 'O\u00e9\n"),
        ("a\u200bb \u2060c\ufeff d\u00ade\n", "ab c de\n"),
        ("One.\u2028Two.\u2029\nThree.\x0c\n", "One.\nTwo.\nThree.\n"),
        (f"caf\u00e9, caf{NFD}, {NFD}, A\u030a\n", "caf\u00e9, caf\u00e9, \u00e9, \u00c5\n"),
        ("Gr\\u00fc\\u00dfe, \\u003cb\\u003e\n", "Gr\u00fc\u00dfe, <b>\n"),
        ("{% raw %}{{ &lt; }}{% endraw %}\n", "{% raw %}{{ < }}{% endraw %}\n"),
        ("{% if 1 %}&lt;{% endif -%}  \n &lt;{# &lt; #}&lt;\n", "{% if 1 %}<{% endif -%}  \n <{# &lt; #}<\n"),
        ("&lt;b&gt; {{ 'a' }}&lt;{{ 'a' }}&lt;{{ 'a' }}\n", "<b> {{ 'a' }}<{{ 'a' }}<{{ 'a' }}\n"),
        ("{% for _ in range(3) %}&lt;{% endfor %}\n", "{% for _ in range(3) %}<{% endfor %}\n"),
        ("`&lt;` is &lt;\n", "`&lt;` is <\n"),
    ],
)
def test_what_stands_literally_in_a_template_is_replaced(prompt: Project, before: str, after: str) -> None:
    assert fixed_template(prompt, before) == after
    assert [item["code"] for item in fix(prompt)["findings"] if item["code"] != "CU403"] == []


def test_line_ends_and_the_byte_order_mark_of_a_file_are_kept(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "\ufeffA &amp; b\r\n\r\nc\u200bd\u2028e\r\n".encode()})
    fix(prompt)
    assert prompt.read("templates/a.md.j2") == "\ufeffA & b\r\n\r\ncd\r\ne\r\n".encode()


def test_files_with_decomposed_names_are_edited_in_place(prompt: Project) -> None:
    name = f"templates/caf{NFD}.md.j2"
    prompt.write({"prefixes/a.yaml": "system: caf\u00e9.md.j2\npadding: always\n", name: "A &amp; b\n"})
    before = sorted(os.listdir(prompt.path("templates")))  # noqa: PTH208 - names only
    fix(prompt)
    assert prompt.read(name) == b"A & b\n"
    assert sorted(os.listdir(prompt.path("templates"))) == before  # noqa: PTH208 - names only


def test_texts_of_manifests_data_and_tools_are_replaced(prompt: Project) -> None:
    prompt.write(
        {
            "prefixes/a.yaml": (
                f"{MANIFEST}# &amp; in a comment\n"
                "variables: {one: a &amp; b, two: 'it''s &quot;x&quot; &#39;', three: \"x &quot; y\"}\n"
                "data: {faq: faq.json, list: list.yaml, note: note.txt}\ntools: [tools.json]\n"
                "examples:\n  - role: user\n    text: |  # &amp;\n      What\n      is a\u200bb &amp; c?\n"
                "  - {role: assistant, text: C &amp; d.}\n"
            ),
            "templates/a.md.j2": "{{ one }} {{ two }} {{ three }} {{ faq.q }} {{ list[1] }} {{ note }}\n",
            "faq.json": '{"q": "say \\"&quot;\\" Gr\\\\u00fc\\\\u00dfe\u2028x", "other": "&amp;"}\n',
            "list.yaml": "- one\n- >-\n  two &amp;\n  three\n",
            "note.txt": "A &amp; b\n",
            "tools.json": '[{"name": "t", "description": "A &amp; b", "parameters": {"type": "object"}}]\n',
        }
    )
    report = fix(prompt)
    assert (report["unfixed"], [item["code"] for item in report["findings"]]) == ([], [])
    assert prompt.read("prefixes/a.yaml").decode() == (
        f"{MANIFEST}# &amp; in a comment\n"
        "variables: {one: a & b, two: 'it''s \"x\" ''', three: \"x \\\" y\"}\n"
        "data: {faq: faq.json, list: list.yaml, note: note.txt}\ntools: [tools.json]\n"
        "examples:\n  - role: user\n    text: |  # &amp;\n      What\n      is ab & c?\n"
        "  - {role: assistant, text: C & d.}\n"
    )
    assert prompt.read("faq.json").decode() == '{"q": "say \\"\\"\\" Gr\u00fc\u00dfe\\nx", "other": "&amp;"}\n'
    assert prompt.read("list.yaml") == b"- one\n- >-\n  two &\n  three\n"
    assert prompt.read("note.txt") == b"A & b\n"
    assert b'"A & b"' in prompt.read("tools.json")


def test_more_of_one_kind_than_one_run_of_a_rule_finds_are_all_replaced(prompt: Project) -> None:
    assert fixed_template(prompt, "&lt; " * 1100) == "< " * 1100


# What is left alone


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ '&lt;' }}\n", "no source has it literally"),
        ("{{ '\\u200b' }}a\n", "no source has it literally"),
        ("{{ '<' | e }}\n", "no source has it literally"),
        ("x\n\n{{ 'a\\r\\nb' }}\n", None),
        ("{% filter upper %}&lt;{% endfilter %}\n", "no source has it literally"),
        ("{% set x = '&lt;' %}{{ x }}\n", "no source has it literally"),
        ("&#123;&#123; name }}\n", '"{" may begin code'),
        ("{\u200b{ name }}\n", "without it, the characters beside it may become code"),
        ("`\u200b``\n", "without it, the characters beside it may become code"),
        ("@\u200beveryone\n", "without it, the characters beside it may become code"),
        ("&amp;lt;\n", "the text behind it would become an entity"),
        ("a&nbsp;b\n", "&nbsp; stands for no character that can be seen"),
        ("&shy;\n", "&shy; stands for no character that can be seen"),
        ("&notit;\n", "&notit; is not an entity"),
        ("`&#39;`\n", "it is in code"),
        ("| a\u2028b |\n", "a line end may break a table"),
        ("\u0e01\u200b\u0e02\n", "the characters beside it may need it"),
        ("\U0001f600\u200da\n", "the characters beside it may need it"),
        ("a\U000e0041\n", "it can hide text: look at that first"),
        ("`x = '\\u0027\\u0027'`\n", "a quotation mark may end a text in quotes"),
        ('{"q": "say &quot;hi&quot;"}\n', "a quotation mark may end a text in quotes"),
        ("<a title='it&#39;s'>\n", "a quotation mark may end a text in quotes"),
        ("&lt;|im_start|&gt;\n", "it would cause CU308 control-token"),
        ("a&#64;laden.velowerk-muster.de\n", "it would cause CU203 e-mail"),
    ],
)
def test_what_is_not_certain_is_left_alone_with_a_reason(prompt: Project, text: str, reason: str | None) -> None:
    prompt.write({"templates/a.md.j2": text})
    report = fix(prompt)
    assert prompt.read("templates/a.md.j2").decode() == text
    assert report["fixed"] == []
    assert report["findings"]
    if reason is not None:
        assert [item.startswith(reason) for item in reasons(report)] == [True] * len(reasons(report)) != []


def test_needed_joiners_and_flags_are_kept(prompt: Project) -> None:
    text = "\U0001f469\u200d\U0001f4bb \u0915\u094d\u200d\u0937 \U0001f3f4\U000e0067\U000e0062\U000e007f a\u200bb\n"
    assert fixed_template(prompt, text) == text.replace("\u200b", "")


@pytest.mark.parametrize(
    "text",
    [
        "{# cacheunit: ignore CU301 #}\nA &amp; b\n",
        "A &amp; b\n{# cacheunit: ignore-file html-entity #}\n",
    ],
)
def test_what_a_comment_suppresses_is_left_alone(prompt: Project, text: str) -> None:
    assert fixed_template(prompt, text) == text


def test_only_selected_rules_are_fixed(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b\u200bc\n", "cacheunit.toml": '[lint]\nignore = ["CU301"]\n'})
    fix(prompt)
    assert prompt.read("templates/a.md.j2").decode() == "A &amp; bc\n"


def test_only_selected_prefixes_are_fixed(prompt: Project) -> None:
    prompt.write(
        {
            "templates/a.md.j2": "A &amp; b\n{% include 'shared.j2' %}\n",
            "prefixes/b.yaml": "system: b.md.j2\npadding: always\n",
            "templates/b.md.j2": "B &amp; c\n{% include 'shared.j2' %}\n",
            "templates/shared.j2": "C &amp; d",
        }
    )
    report = fix(prompt, "b")
    assert [(item["path"], item["line"]) for item in report["fixed"]] == [
        ("templates/b.md.j2", 1),
        ("templates/shared.j2", 1),
    ]
    assert report["findings"] == []
    assert prompt.read("templates/a.md.j2").startswith(b"A &amp; b\n")


def test_a_shared_file_is_left_alone_where_another_prefix_means_what_it_says(prompt: Project) -> None:
    shared = "A &amp; b\n"
    prompt.write(
        {
            "templates/a.md.j2": "X &amp; y\n{% include 'shared.j2' %}",
            "prefixes/code.yaml": "system: code.md.j2\npadding: always\n",
            "templates/code.md.j2": "```\n{% include 'shared.j2' %}```\n",
            "templates/shared.j2": shared,
        }
    )
    report = fix(prompt, "a")
    assert reasons(report) == ['"code" would change in other places too']
    assert prompt.read("templates/shared.j2").decode() == shared
    assert prompt.read("templates/a.md.j2").startswith(b"X & y\n")


def test_a_file_whose_edit_would_not_compile_or_change_more_is_left_alone_and_others_are_fixed(prompt: Project) -> None:
    manifest = f"{MANIFEST}variables:\n  plain: a&colon; b\n  name: &amp;\n"
    prompt.write(
        {
            "prefixes/a.yaml": manifest.replace("name: &amp;", "name: 'x &amp; y'"),
            "templates/a.md.j2": "A &amp; b {{ plain }} {{ name }}\n",
        }
    )
    before = prompt.read("prefixes/a.yaml")
    report = fix(prompt)
    assert all(reason.startswith("the project would not compile: prefixes/a.yaml:4: ") for reason in reasons(report))
    assert len(reasons(report)) == 2
    assert prompt.read("prefixes/a.yaml") == before
    assert prompt.read("templates/a.md.j2").startswith(b"A & b ")


def test_values_of_a_matrix_are_left_alone_since_they_name_variants(prompt: Project) -> None:
    manifest = f"{MANIFEST}matrix: {{team: ['A &amp; b', c]}}\n"
    prompt.write({"prefixes/a.yaml": manifest, "templates/a.md.j2": "{{ team }}\n"})
    report = fix(prompt)
    assert reasons(report)
    assert prompt.read("prefixes/a.yaml").decode() == manifest


@pytest.mark.parametrize(
    ("template", "manifest", "reason"),
    [
        ("{{ x }} `{{ y }}`\n", "variables: {x: &v 'A &amp; b', y: *v}\n", '"a" would change in other places too'),
        (
            "{{ x }}\n",
            "targets: [openai-legacy]\nvariables: {x: &v 'A &amp; b'}\n"  # noqa: ISC004 - one manifest
            "options:\n  response_format:\n    type: json_schema\n"
            "    json_schema: {name: x, schema: {type: object, description: *v}}\n",
            "values that are no text would change too",
        ),
    ],
)
def test_a_text_with_an_alias_where_it_must_not_change_is_left_alone(
    prompt: Project, template: str, manifest: str, reason: str
) -> None:
    prompt.write({"prefixes/a.yaml": f"system: a.md.j2\n{manifest}", "templates/a.md.j2": template})
    before = prompt.read("prefixes/a.yaml")
    assert reasons(fix(prompt)) == [reason]
    assert prompt.read("prefixes/a.yaml") == before


# Files


def test_read_only_files_and_links_are_left_alone(prompt: Project) -> None:
    text = "A &amp; b {% include 'read_only.j2' %} {% include 'link.j2' %}\n"
    prompt.write({"templates/a.md.j2": text, "templates/read_only.j2": "C &amp; d", "other/real.j2": "E &amp; f"})
    prompt.path("templates/read_only.j2").chmod(0o444)
    prompt.path("templates/link.j2").symlink_to("../other/real.j2")
    report = fix(prompt)
    assert sorted(reasons(report)) == ["it is a link", "it is read-only"]
    assert prompt.read("templates/a.md.j2").startswith(b"A & b ")
    assert (prompt.read("templates/read_only.j2"), prompt.read("other/real.j2")) == (b"C &amp; d", b"E &amp; f")
    assert prompt.path("templates/link.j2").is_symlink()


def test_all_files_are_written_or_none(prompt: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; {% include 'b.j2' %}\n", "templates/b.j2": "B &amp; c"})
    before = prompt.files()
    replace = os.replace

    def fail_for_b(path: str, target: str) -> None:
        if target.endswith("/b.j2") and ".new" in path:
            raise OSError(28, "no space left on device")
        replace(path, target)

    monkeypatch.setattr(os, "replace", fail_for_b)
    ran = prompt.run("lint", "--fix")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot write" in ran.err
    assert prompt.files() == before


def test_a_file_that_changed_in_the_meantime_is_not_overwritten(prompt: Project) -> None:
    path = "templates/a.md.j2"
    prompt.write({path: "A &amp; b, by somebody else\n"})
    result = FixResult(before={path: b"A &amp; b\n"}, after={path: b"A & b\n"})
    with pytest.raises(CacheunitError, match=r"a\.md\.j2: the file changed while it was being fixed"):
        write_fixes(DiskFiles(prompt.root), result)
    assert prompt.read(path) == b"A &amp; b, by somebody else\n"


def test_a_project_with_faults_is_not_changed(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b\n", "prefixes/b.yaml": "system: no.md.j2\n"})
    before = prompt.snapshot()
    ran = prompt.run("lint", "--fix", "a")
    assert (ran.code, ran.out) == (2, "")
    assert prompt.snapshot() == before


def test_modes_are_kept_and_only_changed_files_are_written(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; {% include 'b.j2' %}\n", "templates/b.j2": "B"})
    prompt.path("templates/a.md.j2").chmod(0o640)
    before = prompt.snapshot("templates/b.j2", "prefixes")
    fix(prompt)
    assert prompt.path("templates/a.md.j2").stat().st_mode & 0o777 == 0o640
    assert prompt.snapshot("templates/b.j2", "prefixes") == before
    assert sorted(prompt.files()) == ["prefixes/a.yaml", "templates/a.md.j2", "templates/b.j2"]


# Reports and exit codes


def test_text_shows_what_was_fixed_what_is_left_and_why(prompt: Project) -> None:
    prompt.write(
        {"templates/a.md.j2": f"A &amp; b&amp;\nx&amp;y a\u200bb\u2028{NFD}\u00e9 a&nbsp;b 2026-11-30T03:22:43Z\n"}
    )
    ran = prompt.run("lint", "--fix", "--ignore", "CU401")
    shown = ran.out.split("\n\n")
    assert shown[0].splitlines() == [
        "fixed templates/a.md.j2:1, 2: CU301: &amp; -> &",
        "fixed templates/a.md.j2:2:10: CU302: ⟨U+200B⟩ deleted",
        "fixed templates/a.md.j2:2:12: CU305: ⟨U+2028⟩ -> a line end",
        "fixed templates/a.md.j2:2:13: CU307: \u00e9 composed",
    ]
    assert "  not fixed: &nbsp; stands for no character that can be seen" in shown[1].splitlines()
    assert shown[-1].rstrip("\n") == "fixed 6 places in 1 file"
    assert ran.code == 1
    assert prompt.run("lint", "--fix", "--ignore", "CU1,CU401").out.endswith("nothing was fixed\n")


def test_lint_says_which_rules_have_a_fix(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b\u200bc {{ '\\r' }}\n"})
    assert prompt.run("lint").out.splitlines()[-1] == '"cacheunit lint --fix" fixes what is certain of CU301, CU302'
    assert prompt.run("lint", "--select", "CU306").out.splitlines()[-1] == "1 error, 0 warnings, 0 info"
    rules = prompt.run("lint", "--codes", "--format", "json").json["codes"]
    assert [rule["code"] for rule in rules if rule["fixable"]] == ["CU301", "CU302", "CU305", "CU307", "CU309"]


def test_the_exit_code_is_for_what_is_left(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b\n"})
    assert prompt.run("lint", "--fix", "--strict").code == 0
    prompt.write({"templates/a.md.j2": "A &amp; b a&nbsp;b\n"})
    assert prompt.run("lint", "--fix", "--strict").code == 1


def test_diff_shows_the_edits_writes_nothing_and_fails_if_there_are_any(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "One.\nA &amp; b\u200b\n"})
    before = prompt.snapshot()
    for arguments in (("--diff",), ("--fix", "--diff")):
        ran = prompt.run("lint", *arguments)
        assert ran.out.splitlines() == [
            "--- templates/a.md.j2 (before)",
            "+++ templates/a.md.j2 (now)",
            "@@ -1,3 +1,3 @@",
            " One.",
            "-A &amp; b⟨U+200B⟩",
            "+A & b",
            " ",
        ]
        assert (ran.code, ran.err) == (1, "would fix 2 places in 1 file\n")
        assert prompt.snapshot() == before
    fix(prompt)
    ran = prompt.run("lint", "--diff")
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing would be fixed\n")


def test_the_diff_shows_no_part_of_a_secret(prompt: Project) -> None:
    secret = f"ghp_{hashlib.sha256(b'a').hexdigest()[:36]}"
    prompt.write({"templates/a.md.j2": f"A &amp; b\nSign in with {secret}\n"})
    ran = prompt.run("lint", "--diff")
    assert " Sign in with \u2026" in ran.out.splitlines()
    assert secret[4:12] not in ran.out + ran.err
    assert secret in prompt.read("templates/a.md.j2").decode()


def test_without_a_changed_prefix_nothing_is_fixed(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b\n"})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], cwd=prompt.root, check=True)
    report = fix(prompt, "--changed-since", "HEAD")
    assert report == {"findings": [], "fixed": [], "unfixed": []}
    assert prompt.read("templates/a.md.j2") == b"A &amp; b\n"


def test_json_has_every_replacement(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b&amp; a&nbsp;b\n"})
    report = fix(prompt)
    edit = {"code": "CU301", "path": "templates/a.md.j2", "line": 1, "old": "&amp;", "new": "&"}
    assert report["fixed"] == [{**edit, "column": 3}, {**edit, "column": 10}]
    assert [(item["code"], item["line"]) for item in report["unfixed"]] == [("CU301", 1)]
    assert [item["code"] for item in report["findings"]] == ["CU301"]


def test_other_formats_show_what_is_left(prompt: Project) -> None:
    prompt.write({"templates/a.md.j2": "A &amp; b a&nbsp;b\n"})
    ran = prompt.run("lint", "--fix", "--format", "github")
    assert ran.out.startswith("::warning file=templates/a.md.j2,line=1,")
    assert ran.out.count("::warning") == 1
    assert ran.err == "fixed 1 place in 1 file\n"


# What always holds


def is_same_but_for_fixes(before: str, after: str) -> bool:
    """Returns whether two texts are the same without what a fix may change."""

    def bare(text: str) -> str:
        for _ in range(3):
            text = unescape(text)
        text = re.sub("[\u200b\u200d\u2060\ufeff\u00ad\n\u2028\u2029\x0b\x0c]", "", text)
        text = re.sub(r"\\u([0-9a-f]{4})", lambda escape: chr(int(escape[1], 16)), text)
        return unicodedata.normalize("NFC", text)

    return bare(before) == bare(after)


def code_of(template: str) -> str:
    """Returns what a template has between its literal parts, without white space."""
    parts, end = [], 0
    for start, stop in literal_spans(template):
        parts.append(template[end:start])
        end = stop
    return re.sub(r"\s", "", "".join([*parts, template[end:]]))


PIECES = st.sampled_from(
    [
        *("&amp;", "&lt;", "&quot;", "&#39;", "&#123;", "&nbsp;", "&amp;lt;", "&percnt;", "\u200b", "\ufeff", "\u200d"),
        *(
            "\u2028",
            "\x0c",
            NFD,
            "\u00e9",
            "a\u030a",
            "\\u00fc\\u00df",
            "\\u003c",
            "{{ v }}",
            "{% if v %}",
            "{% endif %}",
        ),
        *("{{ '&lt;' }}", "{# &amp; #}", "{%- if v -%}", "{", "}", "`", "\n", "\r\n", " ", "word", "|", "$", "\u0e01"),
        *("{% include 'b.j2' %}", "```\n", "{# cacheunit: ignore CU301 #}", "{% raw %}{{&lt;{% endraw %}"),
    ]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(PIECES, max_size=25), second=st.lists(PIECES.filter(lambda piece: "b.j2" not in piece), max_size=8)
)
@example(first=["x", "{", "\u200b", "{ v }}"], second=[])
@example(first=["&#123;", "&#123;", " v }}"], second=["&amp;", "amp;"])
@example(first=["&lt;", "```\n", "{% include 'b.j2' %}"], second=["&lt;"])
def test_a_second_fix_changes_nothing_and_no_text_changes_but_by_the_replacements(
    project: Project, first: list[str], second: list[str]
) -> None:
    sources = {
        "prefixes/a.yaml": "system: a.md.j2\npadding: 'off'\nvariables: {v: 'a &amp; b'}\n",
        "prefixes/b.yaml": "system: b.j2\npadding: 'off'\nvariables: {v: \"c\u200b\"}\n",
        "templates/a.md.j2": f"Begin {''.join(first)}",
        "templates/b.j2": f"Start {''.join(second)}",
    }
    project.write(sources)
    if project.run("build").code:
        return  # not a template
    before = project.files()
    fix(project)
    after = project.files()
    assert fix(project)["fixed"] == []
    assert project.files() == after
    assert project.run("build").code == 0
    for name in ("a", "b"):
        text = f"build/{name}/deepseek-v4.txt"
        assert is_same_but_for_fixes(before[text].decode(), project.read(text).decode())
    for path in ("templates/a.md.j2", "templates/b.j2"):
        assert code_of(decode(after[path], path)) == code_of(decode(before[path], path))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@given(st.text("ab\n\u200b", max_size=30), st.booleans())
def test_edits_of_bytes_are_those_of_the_text(line_end: str, text: str, mark: bool) -> None:
    edits = [
        Edit(code="CU302", path="a", line=1, column=1, start=match.start(), old=match[0], new="\n")
        for match in re.finditer("\u200b", text)
    ]
    data = (("\ufeff" if mark else "") + text.replace("\n", line_end)).encode()
    result = edited(data, edits).decode()
    assert result.startswith("\ufeff") == mark
    assert result.removeprefix("\ufeff").replace("\r\n", "\n") == text.replace("\u200b", "\n")
    assert line_end == "\n" or "\n" not in text or "\n" not in result.replace("\r\n", "")
