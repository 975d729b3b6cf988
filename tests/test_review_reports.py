"""Reports for the review of pull requests: Markdown, GitHub annotations, the job summary and text diffs."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from cacheunit_build.cli.pull_request_output import append_job_summary, append_step_outputs
from cacheunit_build.diff.results import DiffResult
from cacheunit_build.reports.diff_outputs import diff_outputs
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
    assert lines[0] == "| prefix | target | tokens | units | not cached | padding | plan |"
    assert lines[2].startswith("| `b` | `deepseek-v4` | ")
    assert lines[3] == "| `a` | `deepseek-v4` |  |  |  |  | removed |"
    assert len(lines) == 4


def test_a_job_summary_that_cannot_be_written_is_a_fault(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/null/no")
    shop.edit("templates/a.md.j2", "One", "Uno")
    ran = shop.run("check", "--format", "github")
    assert (ran.code, "cannot write the job summary" in ran.err) == (2, True)


def test_check_annotates_the_manifest_of_an_added_prefix_and_the_lock_for_a_removed_one(shop: Project) -> None:
    shop.path("prefixes/a.yaml").unlink()
    shop.write({"prefixes/c/d.yaml": "system: a.md.j2\nmatrix: {x: [1, 2]}\n"})
    added, removed = sorted(shop.run("check", "--format", "github").out.splitlines(), reverse=True)
    assert added.startswith("::error file=prefixes/c/d.yaml,line=1,title=does not match the lock::added: c/d@x=1 for ")
    assert "%0Aadded: c/d@x=2 for deepseek-v4%0A" in added
    assert removed.startswith("::error file=cacheunit.lock,line=1,title=does not match the lock::removed: a for ")


def test_diff_annotates_added_removed_and_renamed_prefixes(shop: Project) -> None:
    old = shop.root.parent / "old"
    shutil.copytree(shop.root, old)
    shop.path("prefixes/a.yaml").rename(shop.path("prefixes/z.yaml"))
    shop.path("prefixes/b.yaml").unlink()
    shop.write({"prefixes/c.yaml": "system: c.md.j2\n", "templates/c.md.j2": "Three.\n"})
    *notices, decision = shop.run("diff", "--against", old, "--format", "github").out.splitlines()
    assert decision.startswith("::notice title=prompt cache::+0 tokens in 3 artifacts, ")
    assert [notice.removeprefix("::notice file=").replace(",title=prompt cache::", " ") for notice in notices] == [
        "cacheunit.lock,line=1 removed: b for deepseek-v4",
        "prefixes/c.yaml,line=1 added: c for deepseek-v4: 0 tokens still cached, 4 recomputed",
        "prefixes/z.yaml,line=1 renamed: z for deepseek-v4: 4 tokens still cached, 0 recomputed",
    ]


def test_errors_of_old_sources_are_warnings_without_a_place_in_the_new_ones(shop: Project) -> None:
    old = shop.root.parent / "old"
    shutil.copytree(shop.root, old)
    (old / "prefixes/a.yaml").write_text("system: a.md.j2\ntarget: x, y: 100%\n", encoding="utf-8")
    ran = shop.run("diff", "--against", old, "--format", "github")
    warning = f"::warning title=error in {old} under today's rules::prefixes/a.yaml%3A2"
    assert ran.out.splitlines()[-1].startswith(warning.replace("%3A", ":"))
    assert "error:" not in ran.err


def outputs_of(text: str) -> dict[str, str]:
    """Returns the outputs of a step as the runner of GitHub reads them."""
    outputs, lines = {}, iter(text.split("\n")[:-1])
    for line in lines:
        name, _, end = line.partition("<<")
        outputs[name] = "\n".join(iter(lambda: next(lines), end))
    return outputs


def test_no_value_of_an_output_can_begin_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(file))
    append_step_outputs({"cost": "1"})
    end = file.read_text(encoding="utf-8").split("\n")[-2]
    values = {"cost": f"1\n{end}\nchanged<<x\nfalse\nx", "changed": "true", "affected": ""}
    append_step_outputs(values)
    assert outputs_of(file.read_text(encoding="utf-8")) == values


def test_outputs_of_diff_have_the_numbers_of_its_report(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = shop.root.parent / "old"
    shutil.copytree(shop.root, old)
    price = 'targets = ["mine"]\n[target.mine]\nextends = "deepseek-v4"\nprice = {input = 2, currency = "EUR\\nx=1"}\n'
    for folder in (old, shop.root):
        (folder / "cacheunit.toml").write_text(price, encoding="utf-8")
    shop.edit("templates/a.md.j2", "One", "Uno and more of it")
    shop.path("prefixes/b.yaml").unlink()
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    shop.run("diff", "--against", old, "--format", "github")
    (change,) = (
        item for item in shop.run("diff", "--against", old, "--format", "json").json["changes"] if item["cost"]
    )
    decision = shop.run("diff", "--against", old, "--format", "json").json["summary"]["decision"]
    assert outputs_of((tmp_path / "outputs").read_text(encoding="utf-8")) == {
        "changed": "true",
        "affected": '["a"]',
        "still-cached": str(change["still_cached"]),
        "recomputed": str(change["recomputed"]),
        "cost": decision.partition(" artifacts, ")[2].replace("\n", "\\n"),
    }


def test_outputs_of_a_diff_without_differences_are_empty_numbers() -> None:
    assert diff_outputs(DiffResult(against="x")) == {
        "changed": "false",
        "affected": "[]",
        "still-cached": "",
        "recomputed": "",
        "cost": "",
    }


def test_a_job_summary_is_cut_behind_a_line_before_github_refuses_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    rows = "".join(f"| {number:06} | é |\n" for number in range(40_000))
    append_job_summary(rows)
    whole = file.stat().st_size
    assert whole == len(rows.encode()) + 2
    append_job_summary(rows)
    data = file.read_bytes()
    assert 1_023_900 < len(data) <= 1_024_000
    assert data[whole:].startswith(b"**The report is longer than GitHub shows")
    assert data.endswith(" | é |\n".encode())
    append_job_summary(rows)
    assert file.stat().st_size == len(data)


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


@pytest.mark.parametrize("command", ["diff", "lint"])
def test_a_fault_of_the_input_is_in_the_report_of_every_format(
    shop: Project, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    shop.edit("templates/a.md.j2", "One", "{{ nobody }}")
    subprocess.run(["git", "init", "-q"], cwd=shop.root, check=True)
    shop.write({"old/prefixes/a.yaml": "system: a.md.j2\n", "old/templates/a.md.j2": "One.\n"})
    arguments = [command, *(["--against", "./old"] if command == "diff" else [])]
    ran = {form: shop.run(*arguments, "--format", form) for form in ("json", "github", "markdown", "gitlab", "text")}
    assert {form: result.code for form, result in ran.items()} == dict.fromkeys(ran, 2)
    (error,) = ran["json"].json["errors"]
    assert (error["path"], error["line"], "nobody" in error["message"]) == ("templates/a.md.j2", 1, True)
    assert ran["github"].out.startswith("::error file=templates/a.md.j2,line=1::")
    assert ran["markdown"].out.startswith("### 1 error\n\n- `templates/a.md.j2:1`: ")
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("### 1 error")
    (issue,) = ran["gitlab"].json
    assert issue["location"] == {"path": "templates/a.md.j2", "lines": {"begin": 1}}
    assert (ran["text"].out, ran["gitlab"].err) == ("", ran["text"].err)


def test_a_fault_of_the_input_is_a_notification_of_a_sarif_log(shop: Project) -> None:
    shop.edit("templates/a.md.j2", "One", "{{ nobody }}")
    ran = shop.run("lint", "--format", "sarif")
    (run,) = ran.json["runs"]
    (invocation,) = run["invocations"]
    assert (ran.code, invocation["executionSuccessful"], run["results"]) == (2, False, [])
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}
