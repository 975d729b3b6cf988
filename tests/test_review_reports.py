"""Reports for the review of pull requests: Markdown, GitHub annotations, the job summary and text diffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cacheunit_build.reports.formatting import markdown_table
from cacheunit_build.reports.github import annotation
from cacheunit_build.reports.text_diff import diff_lines, show_white_space

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Returns a project of two prefixes, built outside of GitHub Actions."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "prefixes/b.yaml": "system: b.md.j2\n",
            "templates/a.md.j2": "One.\n",
            "templates/b.md.j2": "Two.\n",
        }
    )
    project.build()
    return project


@pytest.mark.parametrize("report_format", ["markdown", "github"])
@pytest.mark.parametrize("command", [["build"], ["check"], ["build", "--locked"]])
def test_without_changes_nothing_is_printed(shop: Project, command: list[str], report_format: str) -> None:
    ran = shop.run(*command, "--format", report_format)
    assert (ran.code, ran.output, ran.errors) == (0, b"", b"")


def test_drift_is_a_markdown_table_and_an_annotation_of_the_changed_source(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.edit("templates/a.md.j2", "One", "Uno")
    markdown = shop.run("check", "--format", "markdown")
    assert markdown.code == 1
    assert markdown.out == (
        "### 1 difference from the lock\n\n|  | prefix | target | cause |\n| --- | --- | --- | --- |\n"
        "| changed | `a` | `deepseek-v4` | `templates/a.md.j2` |\n"
    )
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    github = shop.run("check", "--format", "github")
    assert github.out == (
        "::error file=templates/a.md.j2,line=1,title=does not match the lock::changed: a for deepseek-v4%0A"
        'run "cacheunit build" and commit the result\n'
    )
    assert summary.read_text(encoding="utf-8") == f"{markdown.out}\n"
    assert shop.run("build", "--locked", "--format", "github").out == github.out


def test_a_fault_is_a_markdown_list_and_an_annotation_of_its_line(shop: Project) -> None:
    shop.write({"prefixes/b.yaml": "system: b.md.j2\ntarget: x, y: 100%\n"})
    for command in ("build", "check"):
        ran = shop.run(command, "--format", "github")
        assert ran.code == 2
        assert ran.out.startswith("::error file=prefixes/b.yaml,line=2::not valid YAML: ")
        markdown = shop.run(command, "--format", "markdown").out
        assert markdown.startswith("### 1 error\n\n- `prefixes/b.yaml:2`: not valid YAML: ")


def test_markdown_lists_built_and_removed_artifacts(shop: Project) -> None:
    shop.edit("templates/b.md.j2", "Two", "Two and more")
    shop.path("prefixes/a.yaml").unlink()
    lines = shop.run("build", "--format", "markdown").out.splitlines()
    assert lines[0] == "| prefix | target | tokens | units | not cached | padding | state | plan |"
    assert lines[2].startswith("| `b` | `deepseek-v4` | ")
    assert lines[3] == "| `a` | `deepseek-v4` |  |  |  |  | removed |  |"
    assert len(lines) == 4


def test_a_job_summary_that_cannot_be_written_is_a_fault(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/null/no")
    shop.edit("templates/a.md.j2", "One", "Uno")
    ran = shop.run("check", "--format", "github")
    assert (ran.code, "cannot write the job summary" in ran.err) == (2, True)


def test_annotations_escape_special_characters() -> None:
    line = annotation("error", "50%,", "then: 2::\n::x::", path="a,b:c.md", line=3, column=4, title="x\ny")
    assert line == "::error file=a%2Cb%3Ac.md,line=3,col=4,title=x\\ny::50%25,%0Athen: 2::\\n::x::"
    assert annotation("notice", "x") == "::notice::x"


def test_code_in_cells_of_a_markdown_table_may_have_pipes() -> None:
    assert markdown_table([("a", "b"), ("`x|y`", "1")], right=(1,)) == "| a | b |\n| --- | ---: |\n| `x\\|y` | 1 |"


def test_a_text_diff_shows_invisible_characters() -> None:
    assert show_white_space("a\tb\u00a0c\u202e \u3000d  ") == "a→b⍽c⟨U+202E⟩ \u3000d··"
    old = "".join(f"line {number}\n" for number in range(20))
    shown = diff_lines(old, old.replace("line 9\n", "line 9 \n"), name="x")
    assert shown == [
        "--- x (before)",
        "+++ x (now)",
        "@@ -7,7 +7,7 @@",
        *(f" line {number}" for number in (6, 7, 8)),
        "-line 9",
        "+line 9·",
        *(f" line {number}" for number in (10, 11, 12)),
    ]


def test_explain_names_the_target_whose_rules_changed_and_no_unchanged_vocabulary(project: Project) -> None:
    target_table = 'targets = ["own"]\n[target.own]\nextends = "deepseek-v4"\n'
    project.write(
        {"cacheunit.toml": target_table, "prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"}
    )
    project.build()
    project.write({"cacheunit.toml": f"{target_table}cache = {{read = 0.5}}\n"})
    text = project.run("explain", "a").out
    assert "changed since the lock\n    rules of target own  sha256:" in text
    assert "vocabulary of target" not in text
    changed = project.run("explain", "a", "--format", "json").json["artifacts"][0]["changed"]
    assert [item["path"] for item in changed] == ["rules of target own"]
