"""The reports of `build` and `check` for pull requests: Markdown, annotations, the summary of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cacheunit_build.reports.formatting import markdown_table
from cacheunit_build.reports.github import annotation
from cacheunit_build.reports.text_diff import show_white_space, text_diff

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project


@pytest.fixture
def built(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "prefixes/b.yaml": "system: b.md.j2\n",
            "templates/a.md.j2": "One.\n",
            "templates/b.md.j2": "Two.\n",
        }
    )
    project.built()
    return project


@pytest.mark.parametrize("form", ["markdown", "github"])
@pytest.mark.parametrize("command", [["build"], ["check"], ["build", "--locked"]])
def test_where_nothing_changed_nothing_is_said(built: Project, command: list[str], form: str) -> None:
    ran = built.run(*command, "--format", form)
    assert (ran.code, ran.output, ran.errors) == (0, b"", b"")


def test_a_drift_in_markdown_and_at_its_source(built: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built.edit("templates/a.md.j2", "One", "Uno")
    markdown = built.run("check", "--format", "markdown")
    assert markdown.code == 1
    assert markdown.out == (
        "### 1 difference from the lock\n\n|  | prefix | target | changed sources |\n| --- | --- | --- | --- |\n"
        "| changed | `a` | `deepseek-v4` | `templates/a.md.j2` |\n"
    )
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    github = built.run("check", "--format", "github")
    assert github.out == (
        "::error file=templates/a.md.j2,line=1,title=does not match the lock::changed: a for deepseek-v4%0A"
        'run "cacheunit build" and commit the result\n'
    )
    assert summary.read_text(encoding="utf-8") == f"{markdown.out}\n"
    assert built.run("build", "--locked", "--format", "github").out == github.out


def test_a_fault_in_markdown_and_at_its_place(built: Project) -> None:
    built.write({"prefixes/b.yaml": "system: b.md.j2\ntarget: x, y: 100%\n"})
    for command in ("build", "check"):
        ran = built.run(command, "--format", "github")
        assert ran.code == 2
        assert ran.out.startswith("::error file=prefixes/b.yaml,line=2::not valid YAML: ")
        markdown = built.run(command, "--format", "markdown").out
        assert markdown.startswith("### 1 error\n\n- `prefixes/b.yaml:2`: not valid YAML: ")


def test_what_was_built_in_markdown(built: Project) -> None:
    built.edit("templates/b.md.j2", "Two", "Two and more")
    built.path("prefixes/a.yaml").unlink()
    lines = built.run("build", "--format", "markdown").out.splitlines()
    assert lines[0] == "| prefix | target | tokens | units | not cached | padding | state | why |"
    assert lines[2].startswith("| `b` | `deepseek-v4` | ")
    assert lines[3] == "| `a` | `deepseek-v4` |  |  |  |  | removed |  |"
    assert len(lines) == 4


def test_a_summary_that_cannot_be_written_is_a_fault(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/null/no")
    built.edit("templates/a.md.j2", "One", "Uno")
    ran = built.run("check", "--format", "github")
    assert (ran.code, "cannot write the job summary" in ran.err) == (2, True)


def test_workflow_commands_keep_their_form_whatever_is_in_them() -> None:
    line = annotation("error", "50%,\nthen: 2::", path="a,b:c.md", line=3, column=4, title="x\ny")
    assert line == "::error file=a%2Cb%3Ac.md,line=3,col=4,title=x%0Ay::50%25,%0Athen: 2::"
    assert annotation("notice", "x") == "::notice::x"


def test_cells_of_a_table_stay_in_their_columns() -> None:
    assert markdown_table([("a", "b"), ("x|y", "1\n2")], right=(1,)) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 2 |"


def test_a_text_diff_shows_what_cannot_be_seen() -> None:
    assert show_white_space("a\tb\u00a0c\u202e \u3000d  ") == "a→b⍽c⟨U+202E⟩ \u3000d··"
    old = "".join(f"line {number}\n" for number in range(20))
    shown = text_diff(old, old.replace("line 9\n", "line 9 \n"), name="x").splitlines()
    assert shown == [
        "--- x (before)",
        "+++ x (now)",
        "@@ -7,7 +7,7 @@",
        *(f" line {number}" for number in (6, 7, 8)),
        "-line 9",
        "+line 9·",
        *(f" line {number}" for number in (10, 11, 12)),
    ]


def test_explain_names_the_rules_and_the_vocabulary_that_changed(project: Project) -> None:
    own = 'targets = ["own"]\n[target.own]\nextends = "deepseek-v4"\n'
    project.write({"cacheunit.toml": own, "prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})
    project.built()
    project.write({"cacheunit.toml": f"{own}cache = {{read = 0.5}}\n"})
    text = project.run("explain", "a").out
    assert "changed since the lock: rules of target own\n    was sha256:" in text
    assert "vocabulary of target" not in text
    changed = project.run("explain", "a", "--format", "json").json["artifacts"][0]["changed"]
    assert [item["path"] for item in changed] == ["rules of target own"]
