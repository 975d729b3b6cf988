"""Code Quality reports have what GitLab reads, and the jobs for GitLab run the commands that make them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import CommandResult, Project

JOBS = Path(__file__).parent.parent / "clients/gitlab/cacheunit.gitlab-ci.yml"


def issues_of(ran: CommandResult) -> list[dict[str, Any]]:
    """Returns the issues of a report, and asserts that each has all that GitLab requires."""
    issues: list[dict[str, Any]] = ran.json
    for issue in issues:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["lines"]["begin"] >= 1
        assert "\n" not in issue["description"]
    fingerprints = [issue["fingerprint"] for issue in issues]
    assert len({*fingerprints}) == len(fingerprints)
    return issues


def places(ran: CommandResult) -> list[tuple[str, str, int]]:
    """Returns the name of the check, the path and the line of each issue."""
    return [
        (issue["check_name"], issue["location"]["path"], issue["location"]["lines"]["begin"])
        for issue in issues_of(ran)
    ]


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a built project of two prefixes, in a subfolder of a repository."""
    subprocess.run(["git", "init", "-q"], cwd=project.root.parent, check=True)
    project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in "ab"})
    project.write({f"templates/{name}.md.j2": f"On 2026-11-30, {name}.\n" for name in "abc"})
    project.build()
    return project


def test_without_anything_to_report_a_report_is_an_empty_list(shop: Project) -> None:
    for arguments in (["check"], ["diff", "--against", "cacheunit.lock"]):
        ran = shop.run(*arguments, "--format", "gitlab")
        assert (ran.code, ran.json) == (0, [])


def test_violations_are_issues_at_their_lines_in_the_repository_and_the_text_is_in_the_log(shop: Project) -> None:
    ran = shop.run("lint", "--format", "gitlab", "a")
    assert places(ran) == [
        ("CU403", "project/prefixes/a.yaml", 1),
        ("CU102", "project/templates/a.md.j2", 1),
    ]
    assert [issue["severity"] for issue in ran.json] == ["minor", "minor"]
    assert ran.err == shop.run("lint", "a").out


def test_an_issue_keeps_its_fingerprint_when_lines_move_and_counts_change(shop: Project) -> None:
    shop.write({"prefixes/a.yaml": "system: a.md.j2\npadding: off\n"})
    before = {(item["check_name"], item["fingerprint"]) for item in issues_of(shop.run("lint", "--format", "gitlab"))}
    assert {"CU102", "CU403"} <= {name for name, _ in before}
    shop.edit("templates/a.md.j2", "On ", "Be kind.\nBe brief.\nOn ")
    ran = shop.run("lint", "--format", "gitlab")
    assert ("CU102", "project/templates/a.md.j2", 3) in places(ran)
    assert {(item["check_name"], item["fingerprint"]) for item in ran.json} == before


def test_the_same_violation_twice_in_a_file_is_two_issues(shop: Project) -> None:
    shop.write({"templates/a.md.j2": "On 2026-11-30.\nBy 2026-11-30.\n"})
    dates = [place for place in places(shop.run("lint", "--format", "gitlab", "a")) if place[0] == "CU102"]
    assert [line for *_, line in dates] == [1, 2]


def test_differences_from_the_lock_are_issues_at_the_source_that_explains_them(shop: Project) -> None:
    shop.edit("templates/a.md.j2", "On", "At")
    shop.path("prefixes/b.yaml").unlink()
    shop.write({"prefixes/c.yaml": "system: c.md.j2\n"})
    ran = shop.run("check", "--format", "gitlab")
    assert (ran.code, places(ran)) == (
        1,
        [
            ("lock-changed", "project/templates/a.md.j2", 1),
            ("lock-removed", "project/cacheunit.lock", 1),
            ("lock-added", "project/prefixes/c.yaml", 1),
        ],
    )
    assert ran.err == shop.run("check").out


def test_errors_of_the_input_are_issues_and_are_in_the_log(shop: Project) -> None:
    shop.write({"prefixes/a.yaml": "system: a.md.j2\nsystem: b.md.j2\n"})
    ran = shop.run("check", "--format", "gitlab")
    assert (ran.code, places(ran)) == (2, [("input", "project/prefixes/a.yaml", 2)])
    assert ran.json[0]["severity"] == "blocker"
    assert ran.err == shop.run("check").err


def test_an_estimate_that_fails_a_check_is_an_issue(project: Project) -> None:
    project.write({"cacheunit.toml": 'targets = ["anthropic-1024"]\n', "prefixes/a.yaml": "system: a.md.j2\n"})
    project.write({"templates/a.md.j2": "Hello.\n"})
    project.build()
    ran = project.run("check", "--require-counts", "--format", "gitlab")
    assert (ran.code, places(ran)) == (1, [("estimate", "cacheunit.lock", 1)])


def test_a_change_is_an_issue_for_each_artifact_at_the_changed_line(shop: Project) -> None:
    old = shop.root.parent / "old"
    shutil.copytree(shop.root, old)
    shop.write({"templates/a.md.j2": "On 2026-11-30, a.\nBe kind.\n", "prefixes/c.yaml": "system: c.md.j2\n"})
    shop.path("prefixes/b.yaml").unlink()
    ran = shop.run("diff", "--against", old, "--format", "gitlab")
    assert (ran.code, places(ran)) == (
        1,
        [
            ("prompt-cache-changed", "project/templates/a.md.j2", 2),
            ("prompt-cache-removed", "project/cacheunit.lock", 1),
            ("prompt-cache-added", "project/prefixes/c.yaml", 1),
        ],
    )
    assert {issue["severity"] for issue in ran.json} == {"info"}
    assert shop.run("diff", "--against", old).out in ran.err


# The jobs


def jobs() -> dict[str, Any]:
    """Returns the jobs by name, each with what it extends."""
    parsed = yaml.safe_load(JOBS.read_text(encoding="utf-8"))
    base = parsed[".cacheunit"]
    return {name: {**base, **job} for name, job in parsed.items() if name != ".cacheunit"}


@pytest.fixture
def run_job(shop: Project, tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Runs a job in the repository as a runner does, without installing."""

    def run(name: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        job = jobs()[name]
        prepare, *install = job["before_script"]
        assert len(install) == 3
        known = {**os.environ, "CI_PROJECT_DIR": str(tmp_path), "CI_JOB_ID": "7", "CACHEUNIT_PROJECT": shop.root.name}
        known |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        known |= {"CACHEUNIT_CACHE_DIR": str(tmp_path / "cache-of-job"), "CACHEUNIT_NO_PROJECT_CODE": "1"}
        return subprocess.run(
            ["sh", "-e", "-c", "\n".join([prepare, *job["script"]])],
            cwd=tmp_path,
            env={**known, **environment},
            capture_output=True,
            check=False,
        )

    return run


def commit(folder: Path) -> str:
    """Commits everything, and returns the id of the commit."""
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for arguments in (["add", "-A"], [*identity, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.mark.slow
def test_each_job_writes_the_reports_that_it_uploads(shop: Project, tmp_path: Path, run_job: Any) -> None:  # noqa: ANN401
    base = commit(tmp_path)
    shop.edit("templates/a.md.j2", "On", "At")
    for name, job in jobs().items():
        done = run_job(name, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
        assert done.returncode == (1 if name == "cacheunit:check" else 0), done.stderr
        assert json.loads((tmp_path / job["artifacts"]["reports"]["codequality"]).read_bytes())
        assert done.stderr
        assert all((tmp_path / path).stat().st_size for path in job["artifacts"].get("paths", ()))
    assert (tmp_path / "cacheunit-affected.txt").read_text(encoding="utf-8") == "a\n"
    assert run_job("cacheunit:diff", CI_MERGE_REQUEST_DIFF_BASE_SHA="no-such-revision").returncode == 2


@pytest.mark.slow
def test_the_cache_of_the_pipeline_is_saved_after_a_check_and_refused_if_it_is_committed(
    tmp_path: Path,
    run_job: Any,  # noqa: ANN401
) -> None:
    commit(tmp_path)
    assert run_job("cacheunit:check").returncode == 0
    saved, used = tmp_path / ".cacheunit-ci/builds", tmp_path / "cache-of-job"
    (record,) = saved.glob("projects/*/record.json")
    shutil.rmtree(used)
    assert run_job("cacheunit:lint").returncode == 0
    assert (used / record.relative_to(saved)).read_bytes() == record.read_bytes()
    subprocess.run(["git", "add", "-f", ".cacheunit-ci"], cwd=tmp_path, check=True)
    refused = run_job("cacheunit:check")
    assert (refused.returncode, b"must not be committed" in refused.stderr) == (2, True)


def test_jobs_refuse_project_code_and_keep_the_cache_out_of_the_checkout() -> None:
    for job in jobs().values():
        assert job["variables"]["CACHEUNIT_NO_PROJECT_CODE"] == "1"
        assert not job["variables"]["CACHEUNIT_CACHE_DIR"].startswith("$CI_PROJECT_DIR")
        assert job["cache"]["paths"] == [".cacheunit-ci/"]
