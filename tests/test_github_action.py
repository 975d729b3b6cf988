"""The GitHub action and the pre-commit hooks match the command line and the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Cacheunit, Project

TOP = Path(__file__).parent.parent
ACTION = ".github/actions/cacheunit"


def read(path: str) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load((TOP / path).read_text(encoding="utf-8"))


def shown(path: str) -> Any:  # noqa: ANN401 - YAML
    """Returns the file that docs/review.md shows under that name."""
    blocks = re.findall(
        r"^```yaml\n# (\S+)\n(.*?)^```", (TOP / "docs/review.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
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


def test_the_documented_workflow_uses_inputs_that_the_action_has(project: Project) -> None:
    workflow = shown(".github/workflows/cacheunit.yml")
    assert workflow["permissions"] == {"contents": "read"}
    checkout, python, action = workflow["jobs"]["review"]["steps"]
    assert (checkout["uses"], checkout["with"]) == ("actions/checkout@v6", {"fetch-depth": 0})
    assert python["uses"] == "actions/setup-python@v6"
    assert action["uses"] == f"OWNER/cacheunit/{ACTION}@v{_version(project)}"
    assert action["with"].keys() <= read(f"{ACTION}/action.yml")["inputs"].keys()


def test_scripts_of_the_action_get_inputs_only_through_the_environment() -> None:
    """An expression in a script would be executed."""
    for step in steps().values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    inputs = {name for step in steps().values() for name in re.findall(r"inputs\.([a-z-]+)", str(step))}
    assert inputs == read(f"{ACTION}/action.yml")["inputs"].keys()


@pytest.fixture
def run_action(project: Project, cacheunit: Cacheunit) -> Any:  # noqa: ANN401 - a function
    """Runs the action's commands in the project as a runner does, without installing; returns exit code and outputs."""

    def run(commands: str, **environment: str) -> tuple[int, str, str]:
        for command in commands.split():
            if "github" not in cacheunit(command, "--help").out:
                pytest.skip(f'"{command}" has no format for GitHub yet')
        summary = project.root.parent / "summary.md"
        summary.write_bytes(b"")
        inputs = {"COMMANDS": commands, "AGAINST": "", "FAIL_ON_CHANGE": "false", "GITHUB_STEP_SUMMARY": str(summary)}
        inputs |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "GITHUB_BASE_REF": ""}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps()["Run cacheunit"]["run"]],
            cwd=project.root,
            env={**os.environ, **inputs, **environment},
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout.decode(), summary.read_text(encoding="utf-8")

    return run


@pytest.mark.slow
def test_the_action_fails_if_the_lock_is_stale(project: Project, run_action: Any) -> None:  # noqa: ANN401
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hello.\n"})
    project.build()
    assert run_action("check")[0] == 0
    project.edit("templates/a.md.j2", "Hello", "Good day")
    code, out, _ = run_action("check")
    assert code == 1
    assert "::error" in out


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
    assert run_action("check", PROJECT_CODE=project_code)[0] == 2
    assert mark.exists() == runs


@pytest.mark.slow
def test_the_action_reports_a_change_and_fails_for_it_only_on_request(
    project: Project,
    run_action: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Hello.\n"})
    project.build()
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "base"],
        ["update-ref", "refs/remotes/origin/dev", "HEAD"],
    ):
        subprocess.run(["git", *arguments], cwd=project.root, check=True, capture_output=True)
    project.edit("templates/a.md.j2", "Hello", "Good day")
    project.build()
    subprocess.run(["git", "commit", "-qam", "change"], cwd=project.root, check=True, capture_output=True)
    code, _, summary = run_action("diff", GITHUB_BASE_REF="dev")
    assert code == 0
    assert "a" in summary
    assert run_action("diff", GITHUB_BASE_REF="dev", FAIL_ON_CHANGE="true")[0] == 1
    assert run_action("diff", AGAINST="no-such-revision")[0] == 2
