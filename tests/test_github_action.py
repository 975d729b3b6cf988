"""The GitHub action and the pre-commit hooks match the command line and the documentation."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cacheunit, Project

TOP = Path(__file__).parent.parent
ACTION = ".github/actions/cacheunit"


def read(path: str) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load((TOP / path).read_text(encoding="utf-8"))


def shown(path: str) -> Any:  # noqa: ANN401 - YAML
    """Returns the file that docs/pipelines.md shows under that name."""
    blocks = re.findall(
        r"^```yaml\n# (\S+)\n(.*?)^```", (TOP / "docs/pipelines.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return yaml.safe_load(dict(blocks)[path])


def steps() -> dict[str, Any]:
    return {step["name"]: step for step in read(f"{ACTION}/action.yml")["runs"]["steps"]}


# Hooks


def hooks() -> dict[str, Any]:
    return {hook["id"]: hook for hook in read(".pre-commit-hooks.yaml")}


@pytest.mark.parametrize(("hook", "code"), [("cacheunit-check", 1), ("cacheunit-build", 0)])
def test_a_hook_runs_here_and_in_a_subfolder(project: Project, cacheunit: Cacheunit, hook: str, code: int) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hello.\n"})
    assert hooks()[hook]["entry"] == "cacheunit"
    assert not hooks()[hook]["pass_filenames"]
    assert cacheunit("-C", project.root, *hooks()[hook]["args"]).code == code


def test_the_documented_configuration_names_hooks_that_exist(project: Project) -> None:
    config = shown(".pre-commit-config.yaml")
    assert {hook["id"] for repository in config["repos"] for hook in repository["hooks"]} <= hooks().keys()
    assert [repository["rev"] for repository in config["repos"]] == [f"v{_version(project)}"]


def _version(project: Project) -> str:
    return project.run("--version").out.split()[-1]


# The action


@pytest.mark.parametrize("path", ["cacheunit.yml", "cacheunit-all.yml"])
def test_a_documented_workflow_uses_inputs_and_outputs_that_the_action_has(project: Project, path: str) -> None:
    workflow = shown(f".github/workflows/{path}")
    action = read(f"{ACTION}/action.yml")
    (step,) = [step for job in workflow["jobs"].values() for step in job["steps"] if ACTION in step.get("uses", "")]
    assert step["uses"] == f"OWNER/cacheunit/{ACTION}@v{_version(project)}"
    assert step["with"].keys() <= action["inputs"].keys()
    names = r"(?:steps\.cacheunit|needs\.cacheunit|jobs\.cacheunit)\.outputs\.([a-z-]+)"
    assert {*re.findall(names, str(workflow))} <= action["outputs"].keys()
    assert workflow["jobs"]["cacheunit"]["steps"][0]["with"] == {"fetch-depth": 0}


def test_the_workflow_without_further_inputs_can_write_nothing() -> None:
    assert shown(".github/workflows/cacheunit.yml")["permissions"] == {"contents": "read"}


def test_scripts_of_the_action_get_inputs_only_through_the_environment() -> None:
    """An expression in a script would be executed."""
    for step in steps().values():
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            assert "${{" not in step["run"]
            assert step["shell"] == "bash"
    inputs = {name for step in steps().values() for name in re.findall(r"inputs\.([a-z-]+)", str(step))}
    assert inputs == read(f"{ACTION}/action.yml")["inputs"].keys()


def test_a_pull_request_from_a_fork_saves_no_cache() -> None:
    forks, saving = "!github.event.pull_request.head.repo.fork", 0
    assert forks in steps()["Fill the cache of cacheunit"]["if"]
    for step in steps().values():
        assert not step.get("uses", "").startswith("actions/cache@"), "this one saves at the end of the job"
        if step.get("uses", "").startswith("actions/cache/save@"):
            assert forks in step["if"] or step["if"] == "steps.fill.outputs.filled == 'true'"
            saving += 1
    assert saving == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRun:
    """The result of one step of the action.

    Attributes:
        code: its exit code.
        out: what it printed.
        summary: the summary of the job.
        outputs: its outputs, as the runner reads them.
    """

    code: int
    out: str
    summary: str
    outputs: dict[str, str]


def outputs_of(text: str) -> dict[str, str]:
    """Returns outputs as the runner reads them: `name=value`, or `name<<END`, lines, `END`."""
    outputs, lines = {}, iter(text.split("\n")[:-1])
    for line in lines:
        name, end = re.fullmatch(r"([a-z-]+)(?:<<(.+)|=.*)", line).groups()  # type: ignore[union-attr]
        outputs[name] = "\n".join(iter(lambda: next(lines), end)) if end else line.partition("=")[2]
    return outputs


@pytest.fixture
def run_action(project: Project, tmp_path: Path) -> Callable[..., ActionRun]:
    """Runs a step of the action in the project as a runner does, without installing."""
    temporary = tmp_path / "runner temp"
    temporary.mkdir()

    def run(commands: str = "", step: str = "Run cacheunit", **environment: str) -> ActionRun:
        summary, outputs = temporary / "summary.md", temporary / "outputs"
        for file in (summary, outputs):
            file.write_bytes(b"")
        inputs = {"COMMANDS": commands, "AGAINST": "", "FAIL_ON_CHANGE": "false", "CACHE": "false", "LINT": "false"}
        inputs |= {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(outputs), "RUNNER_TEMP": str(temporary)}
        inputs |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "GITHUB_BASE_REF": ""}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps()[step]["run"]],
            cwd=project.root,
            env={**os.environ, **inputs, "ACTION": str(TOP / ACTION), **environment},
            capture_output=True,
            check=False,
        )
        return ActionRun(
            code=done.returncode,
            out=done.stdout.decode() + done.stderr.decode(),
            summary=summary.read_text(encoding="utf-8"),
            outputs=outputs_of(outputs.read_text(encoding="utf-8")),
        )

    return run


@pytest.fixture
def changed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Returns a project with a change since the branch origin/dev: `a` is edited, `b` is new, `c` is gone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in "ac"})
    project.write({f"templates/{name}.md.j2": f"Hello {name}.\n" for name in "abc"})
    project.build()
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run(["git", *arguments], cwd=project.root, check=True)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/dev", "HEAD"], cwd=project.root, check=True)
    project.edit("templates/a.md.j2", "Hello", "Good day")
    project.write({"prefixes/b.yaml": "system: b.md.j2\n"})
    project.path("prefixes/c.yaml").unlink()
    project.build()
    return project


@pytest.mark.slow
def test_the_action_fails_if_the_lock_is_stale(project: Project, run_action: Any) -> None:  # noqa: ANN401
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hello.\n"})
    project.build()
    assert run_action("check").code == 0
    project.edit("templates/a.md.j2", "Hello", "Good day")
    ran = run_action("check")
    assert (ran.code, "::error" in ran.out) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize(("project_code", "runs"), [("false", False), ("", False), ("true", True)])
def test_the_action_runs_no_encoder_unless_it_is_told_to(
    project: Project,
    run_action: Any,  # noqa: ANN401
    project_code: str,
    runs: bool,
) -> None:
    mark = project.root.parent / "ran"
    target = '[target.mine]\nextends = "deepseek-v4"\nframe = {encoder = "e.py:encode"}\n'
    project.write({"cacheunit.toml": f'targets = ["mine"]\n{target}', "e.py": f"open({str(mark)!r}, 'w').close()\n"})
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hello.\n"})
    assert run_action("check", PROJECT_CODE=project_code).code == 2
    assert mark.exists() == runs


@pytest.mark.slow
def test_the_action_reports_a_change_and_fails_for_it_only_on_request(changed: Project, run_action: Any) -> None:  # noqa: ANN401
    ran = run_action("check diff", GITHUB_BASE_REF="dev", LINT="true")
    assert ran.code == 0
    assert "`a`" in ran.summary
    notices = [line.partition("::")[0] for line in ran.out.replace("::notice ", "").splitlines()]
    assert "file=prefixes/b.yaml,line=1,title=prompt cache" in notices
    assert "file=cacheunit.lock,line=1,title=prompt cache" in notices
    assert Path(ran.outputs.pop("report")).read_text(encoding="utf-8") == ran.summary
    sarif = json.loads(Path(ran.outputs.pop("sarif")).read_bytes())
    assert {result["ruleId"] for result in sarif["runs"][0]["results"]} >= {"CU403"}
    assert re.fullmatch(r"\S+ USD per 1,000 requests to each at 10 hits per miss", ran.outputs.pop("cost"))
    recomputed = sum(item["recomputed"] or 0 for item in changed.run("diff", "--format", "json").json["changes"])
    assert ran.outputs == {
        "changed": "true",
        "affected": '["a", "b"]',
        "still-cached": "0",
        "recomputed": str(recomputed),
        "status": "0",
    }
    assert run_action("diff", GITHUB_BASE_REF="dev", FAIL_ON_CHANGE="true").code == 1
    for folder in ("origin/dev", "refs/remotes/origin/dev"):  # of a pull request that wants to hide its changes
        for name in ("prefixes", "templates"):
            shutil.copytree(changed.path(name), changed.path(f"{folder}/{name}"))
    assert run_action("diff", GITHUB_BASE_REF="dev", FAIL_ON_CHANGE="true").code == 1
    failed = run_action("diff", AGAINST="no-such-revision")
    assert (failed.code, failed.outputs["status"], "changed" in failed.outputs) == (2, "2", False)


@pytest.mark.slow
def test_without_a_change_the_outputs_say_so_and_the_report_is_empty(changed: Project, run_action: Any) -> None:  # noqa: ANN401
    subprocess.run(["git", "add", "-A"], cwd=changed.root, check=True)
    subprocess.run(["git", "commit", "-qm", "change"], cwd=changed.root, check=True)
    ran = run_action("check diff", AGAINST="HEAD")
    assert (ran.code, ran.summary, Path(ran.outputs["report"]).read_bytes()) == (0, "", b"")
    assert (ran.outputs["changed"], ran.outputs["affected"], ran.outputs["recomputed"]) == ("false", "[]", "")


@pytest.mark.slow
def test_errors_of_lint_fail_the_action_and_are_named_in_the_log(project: Project, run_action: Any) -> None:  # noqa: ANN401
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hi \u202e.\n"})
    ran = run_action("", LINT="true")
    assert (ran.code, "::error title=cacheunit lint::" in ran.out) == (1, True)
    assert Path(ran.outputs["sarif"]).stat().st_size


@pytest.mark.slow
def test_the_cache_is_filled_outside_of_the_checkout_in_which_nothing_is_written(
    changed: Project,
    run_action: Any,  # noqa: ANN401
) -> None:
    before = changed.snapshot("build", "cacheunit.lock")
    ran = run_action(step="Fill the cache of cacheunit", PROJECT_CODE="false")
    assert (ran.code, ran.outputs) == (0, {"filled": "true"})
    (cache,) = changed.root.parent.glob("runner temp/cacheunit-cache")
    assert [*cache.glob("projects/*/record.json")]
    assert changed.snapshot("build", "cacheunit.lock") == before
    changed.edit("templates/a.md.j2", "Good day", "Dear")
    assert run_action(step="Fill the cache of cacheunit", PROJECT_CODE="false").outputs == {}


@pytest.mark.slow
def test_the_key_of_the_package_cache_depends_on_what_is_installed(run_action: Any) -> None:  # noqa: ANN401
    keys = [run_action(step="Find caches", INSTALL="", EXTRAS=extras).outputs["packages"] for extras in ("", "", "hf")]
    assert keys[0] == keys[1] != keys[2]
    assert all(re.fullmatch("[0-9a-f]{16}", key) for key in keys)


# Problem matchers


def matched(lines: str) -> list[dict[str, str]]:
    """Returns what the runner makes of lines: at most one problem a line, its severity by the pattern or by default."""
    problems = []
    for line in lines.splitlines():
        for matcher in read(f"{ACTION}/problem-matcher.json")["problemMatcher"]:
            (pattern,) = matcher["pattern"]
            match = re.search(pattern["regexp"], line)
            if match:
                found = {key: match[group] for key, group in pattern.items() if key != "regexp"}
                problems.append({"severity": matcher.get("severity", "error"), **found})
    return problems


def test_problem_matchers_find_each_line_of_lint_with_its_severity_and_column(project: Project) -> None:
    text = "Hi \u202e there.\nOn 2026-11-30.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    ran = project.run("lint", "-v")
    expected = [
        {
            "file": item["path"],
            "line": str(item["line"]),
            "column": str(item["column"]),
            "code": item["code"],
            "severity": {"info": "notice"}.get(item["severity"], item["severity"]),
        }
        for item in project.run("lint", "--format", "json").json["findings"]
    ]
    found = matched(ran.out)
    assert all(problem.pop("message") for problem in found)
    assert found == expected
    assert {"error", "warning"} <= {item["severity"] for item in found}
    info = "a.j2:2:3: info CU999: for deepseek-v4: x"
    assert matched(info) == [
        {
            "severity": "notice",
            "file": "a.j2",
            "line": "2",
            "column": "3",
            "code": "CU999",
            "message": "for deepseek-v4: x",
        }
    ]


def test_problem_matchers_find_each_error_of_the_input_and_no_other_line(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\ntarget: x, y: 100%\n", "cacheunit.toml": ""})
    (fault,) = project.run("check", "--format", "json").json["errors"]
    ran = project.run("check")
    assert matched(ran.err) == [
        {"severity": "error", "file": "prefixes/a.yaml", "line": "2", "message": fault["message"]}
    ]
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hi.\n", "prefixes/b.yml": ""})
    assert [(item["file"], "line" in item) for item in matched(project.run("check").err)] == [("prefixes/b.yml", False)]
    project.path("prefixes/b.yml").unlink()
    project.build()
    against = ["diff", "--against", "cacheunit.lock"]
    for arguments in (["check"], ["build", "-v"], against, ["explain"], ["lint", "--codes"]):
        ran = project.run(*arguments)
        assert matched(ran.out + ran.err) == []
