"""The lines that hooks, CI systems, git and formatters need for a project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

OWNER = "OWNER/cacheunit"
"""The placeholder for the GitHub repository of cacheunit in generated hook and CI files."""

CI_FILES = {"github": ".github/workflows/cacheunit.yml", "gitlab": ".gitlab-ci.yml"}
HOOK_FILE = ".pre-commit-config.yaml"

_DEFAULT_BUILD = "build"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlace:
    """What the lines depend on.

    Attributes:
        build: the folder of artifacts.
        subfolder: the path of the project in its repository, with a slash at its end; empty at the top.
        release: the release of cacheunit, such as `0.2.0`.
        extras: the extras that its targets need.
    """

    build: str
    subfolder: str
    release: str
    extras: Sequence[str] = ()

    @property
    def folder(self) -> str:
        """The path of the project in its repository, `.` at the top."""
        return self.subfolder.rstrip("/") or "."

    @property
    def requirement(self) -> str:
        """What pip installs."""
        return f"cacheunit-build{self._bracketed_extras}=={self.release}"

    @property
    def _bracketed_extras(self) -> str:
        return f"[{','.join(self.extras)}]" if self.extras else ""


def attributes(place: ProjectPlace) -> str:
    """Returns `.gitattributes`."""
    return f"""\
# The bytes of artifacts are fingerprinted: no conversion of line ends, and no merge by line.
{place.build}/** -text -merge linguist-generated
{LOCK_FILE} -text linguist-generated
"""


def hook_exclude(place: ProjectPlace) -> str:
    """Returns the line that keeps hooks from changing artifacts."""
    artifacts, lock = (re.escape(f"{place.subfolder}{path}") for path in (f"{place.build}/", LOCK_FILE))
    return f"exclude: ^({artifacts}|{lock}$)"


def hook_config(place: ProjectPlace) -> str:
    """Returns `.pre-commit-config.yaml`, with the hook that checks the lock."""
    return f"""\
default_install_hook_types: [pre-commit, pre-merge-commit]
{hook_exclude(place)}
repos:
{hook_repository(place)}"""


def hook_repository(place: ProjectPlace) -> str:
    """Returns the entry of the hook below `repos`."""
    arguments = f"\n        args: [-C, {_quoted(place.folder)}, check]" if place.subfolder else ""
    extras = f'\n        additional_dependencies: ["{place.requirement}"]' if place.extras else ""
    return f"""\
  - repo: https://github.com/{OWNER}
    rev: v{place.release}
    hooks:
      - id: cacheunit-check{arguments}{extras}
"""


def github_workflow(place: ProjectPlace) -> str:
    """Returns the workflow for GitHub that checks the lock and shows what a pull request changes."""
    extras = f"\n          extras: {','.join(place.extras)}" if place.extras else ""
    return f"""\
name: cacheunit
on:
  pull_request:
  push:
    branches: [main] # two pull requests may each be up to date, and the merge of both stale
permissions:
  contents: read
jobs:
  cacheunit:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v6
        with:
          fetch-depth: 0 # "diff" compares with the base branch
      - uses: actions/setup-python@v6
        with:
          python-version: "3.13"
      - uses: {OWNER}/.github/actions/cacheunit@v{place.release}
        with:
          working-directory: {_quoted(place.folder)} # the project's folder{extras}
"""


def gitlab_pipeline(place: ProjectPlace) -> str:
    """Returns the configuration for GitLab that includes the jobs of `clients/gitlab`, with what this project needs."""
    folder = f"\n    CACHEUNIT_PROJECT: {_quoted(place.folder)}" if place.subfolder else ""
    file = "clients/gitlab/cacheunit.gitlab-ci.yml"
    return f"""\
include:
  - remote: https://raw.githubusercontent.com/{OWNER}/v{place.release}/{file}

.cacheunit:
  variables:
    CACHEUNIT_INSTALL: "{place.requirement}"{folder}
"""


CI_TEXTS = {"github": github_workflow, "gitlab": gitlab_pipeline}


def formatter_lines(place: ProjectPlace) -> dict[str, list[str]]:
    """Returns the lines that keep formatters from changing artifacts, by the file that they belong into."""
    return {
        ".editorconfig": [
            f"[{{{place.build}/**,{LOCK_FILE}}}]",
            "insert_final_newline = unset",
            "trim_trailing_whitespace = unset",
            "end_of_line = unset",
        ],
        ".prettierignore": [f"{place.build}/", LOCK_FILE],
    }


def missing_lines(wanted: Sequence[str], existing: str) -> list[str]:
    """Returns the lines, comments left out, that a file is to have and does not; of a section, all or none."""
    lines = [line.strip() for line in existing.splitlines()]
    wanted = [line for line in wanted if line and not line.startswith("#")]
    if wanted[0].startswith("["):
        return [] if wanted[0] in lines else list(wanted)
    return [line for line in wanted if line not in lines]


def missing_hook_lines(place: ProjectPlace, existing: str, *, hook: bool) -> list[str]:
    """Returns the lines that a configuration of hooks is to have and does not.

    Args:
        place: what the lines depend on.
        existing: the file.
        hook: whether the hook is wanted.
    """
    excludes = any(re.match(rf"exclude:.*{re.escape(place.build)}", line) for line in existing.splitlines())
    lines = [] if excludes else [hook_exclude(place)]
    return [*lines, *hook_repository(place).splitlines()] if hook and "cacheunit-" not in existing else lines


def _quoted(path: str) -> str:
    """Returns a path as a value of YAML and a word of a shell."""
    return path if re.fullmatch(r"[\w./-]+", path, re.ASCII) else f'"{path}"'
