"""The folders of the settings must be the project's own: a checkout must not have others read, written or cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

KEYS = ("prefixes", "templates", "build")


@pytest.fixture
def project(project: Project) -> Project:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Be kind.\n"})
    return project


def assert_refused(project: Project, expected: str) -> None:
    before = project.files()
    for command in ("build", "check"):
        ran = project.run(command)
        assert (ran.code, ran.out) == (2, "")
        assert expected in ran.err
        assert ran.err.count("error: ") == 1
    assert project.files() == before


IN_GIT = "leads into the folder of git"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        (".git", IN_GIT),
        (".GIT/x", IN_GIT),
        ("out/.venv/lib", '".venv" is a hidden folder'),
        (".cacheunit", '".cacheunit" is a hidden folder'),
        ("\u200c.git", IN_GIT),
        (".git::$INDEX_ALLOCATION", IN_GIT),
        ("node_modules", '"node_modules" is managed by another program'),
        ("x/Node_Modules/y", '"Node_Modules" is managed by another program'),
        ("node_modules.", '"node_modules." is managed by another program'),
        ("__pycache__", '"__pycache__" is managed by another program'),
        ("GIT~1", IN_GIT),
        ("gi7eba~1/hooks", '"gi7eba~1" is a short name, by which Windows may find another folder'),
        ("git~1::$INDEX_ALLOCATION", IN_GIT),
    ],
)
def test_a_folder_is_refused_by_its_name(project: Project, key: str, folder: str, reason: str) -> None:
    project.write({"cacheunit.toml": f'# settings\n{key} = "{folder}"\n'})
    assert_refused(project, "error: cacheunit.toml:2: ")
    assert_refused(project, reason)


@pytest.mark.parametrize("folder", ["", ".", "./", "././/", "..", " "])
def test_the_project_root_is_refused(project: Project, folder: str) -> None:
    project.write({"pyproject.toml": f'[tool.cacheunit]\nbuild = "{folder}"\n'})
    assert_refused(project, f'pyproject.toml:2: "build" must be a folder below the project root, not "{folder}"')


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("vendor/.git/HEAD", '"vendor" is a repository of its own (it has .git)'),
        ("vendor/.git", '"vendor" is a repository of its own (it has .git)'),  # of a submodule
        ("vendor/pyvenv.cfg", '"vendor" is a virtual environment (it has pyvenv.cfg)'),
    ],
)
@pytest.mark.parametrize("folder", ["vendor", "vendor/lib/x"])
@pytest.mark.parametrize("key", KEYS)
def test_a_folder_of_another_program_is_refused(
    project: Project, key: str, folder: str, mark: str, reason: str
) -> None:
    project.write({"cacheunit.toml": f'{key} = "{folder}"\n', mark: "x\n"})
    assert_refused(project, f'cacheunit.toml:1: "{key}" must not be "{folder}": {reason}')


@pytest.mark.parametrize("target", [".git", "vendor/x", "../outside", "out", ".", "templates", "templates/x", "real"])
@pytest.mark.parametrize("folder", ["out", "out/x"])
def test_a_folder_that_is_a_link_is_refused(project: Project, folder: str, target: str) -> None:
    project.write({"cacheunit.toml": f'build = "{folder}"\n', "vendor/x/y": "", ".git/HEAD": "", "real/y": ""})
    (project.root.parent / "outside").mkdir()
    project.path("out").symlink_to(target)
    assert_refused(project, "is a repository of its own" if target == "." else "link")


@pytest.mark.parametrize("folder", ["Templates", "TEMPLATES/out"])
def test_folders_that_differ_in_letter_case_are_one_folder_on_some_systems(project: Project, folder: str) -> None:
    project.write({"cacheunit.toml": f'build = "{folder}"\n'})
    assert_refused(project, f'cacheunit.toml:1: folder "{folder}" of "build" is inside folder "templates"')


@pytest.mark.parametrize("folder", ["build", "out/v1.2", "a~b", "git", "modules", "Ünter/x", "v~100000000"])
def test_other_folders_are_the_projects(project: Project, folder: str) -> None:
    project.write({"cacheunit.toml": f'build = "{folder}"\n'})
    project.build()
