"""Fixtures that many tests use: the command line in this process, projects to run it in, and golden files."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

from cacheunit_build.adapters.storage.cache_folder import CacheFolder
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.cli import main as cli

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary

# No deadline, since the first call may load a vocabulary; and the same examples at each run of CI.
settings.register_profile(
    "cacheunit",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("cacheunit")

pytest_plugins = ["chromium"]

PROJECTS = Path(__file__).parent / "projects"
_LOADED: dict[object, Vocabulary] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write the golden files instead of comparing with them",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of one run of the command line.

    Attributes:
        code: the exit code.
        output: the bytes on standard output.
        errors: the bytes on standard error.
    """

    code: int
    output: bytes
    errors: bytes

    @property
    def out(self) -> str:
        """The text on standard output."""
        return self.output.decode()

    @property
    def err(self) -> str:
        """The text on standard error."""
        return self.errors.decode()

    @property
    def json(self) -> Any:  # noqa: ANN401 - a report
        """The JSON report on standard output."""
        return json.loads(self.output)


class Cacheunit(Protocol):
    """The command line, called in this process."""

    def __call__(self, *arguments: str | Path, stdin: bytes = b"") -> CommandResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project in a folder of its own, and the command line run in it.

    Attributes:
        root: the folder.
        cacheunit: the command line; `run` calls it in the folder.
    """

    root: Path
    cacheunit: Cacheunit

    def run(self, *arguments: str | Path, stdin: bytes = b"") -> CommandResult:
        return self.cacheunit("-C", self.root, *arguments, stdin=stdin)

    def build(self, *arguments: str) -> CommandResult:
        """Builds, and asserts that the build succeeds and writes nothing to standard error."""
        ran = self.run("build", *arguments)
        assert (ran.code, ran.err) == (0, ""), ran.err
        return ran

    def check(self, *arguments: str) -> Any:  # noqa: ANN401 - a report
        """Returns the JSON report of `check`, and asserts that the exit code agrees with it."""
        ran = self.run("check", *arguments, "--format", "json")
        assert ran.code == (2 if ran.json["errors"] else 0 if ran.json["ok"] else 1)
        return ran.json

    def drift(self, *arguments: str) -> list[tuple[str, str]]:
        """Returns each difference that `check` reports: its kind, and the prefix or else the path."""
        return [(item["kind"], item["prefix"] or item["path"]) for item in self.check(*arguments)["drift"]]

    def path(self, path: str) -> Path:
        """Returns the absolute path of a file of the project."""
        return self.root / path

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file of the project."""
        return (self.root / path).read_bytes()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Writes files, creating folders as needed; text as UTF-8, with its line ends unchanged."""
        for path, data in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces a text in a file; fails if the file does not contain it."""
        text = self.read(path).decode()
        assert old in text
        self.write({path: text.replace(old, new)})

    @property
    def cache(self) -> Path:
        """The folder of the user's cache with what builds of this project recorded."""
        return Path(CacheFolder(str(self.root)).project)

    @property
    def vocabularies(self) -> Path:
        """The folder of the user's cache with parsed vocabularies."""
        return Path(CacheFolder(str(self.root)).vocabularies)

    def files(self, folder: str = "") -> dict[str, bytes]:
        """Returns the bytes of every file below `folder` by path."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file()
        }

    def snapshot(self, *paths: str) -> dict[str, tuple[int, int, bytes]]:
        """Returns the inode, modification time and bytes of every file and folder at and below `paths`.

        Without paths, of everything in the project. Two equal snapshots mean that nothing was written in between.
        """
        entries = {}
        tops = [self.root / path for path in paths or ("",)]
        for path in (*tops, *(below for top in tops for below in sorted(top.rglob("*")))):
            status = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            entries[path.relative_to(self.root).as_posix()] = (status.st_ino, status.st_mtime_ns, data)
        return entries


class _StandardInput(io.BytesIO):
    """Standard input as bytes, with its usual name."""

    name = "<stdin>"


@pytest.fixture(autouse=True)
def user_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives the test a user's cache of its own, and returns its folder."""
    folder = tmp_path_factory.mktemp("cache") / "cacheunit"
    monkeypatch.setenv("CACHEUNIT_CACHE_DIR", str(folder))
    monkeypatch.delenv("CACHEUNIT_REMOTE_CACHE", raising=False)
    return folder


@pytest.fixture
def cacheunit(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Cacheunit:
    """Returns a function that runs the command line in this process; vocabularies stay loaded between runs.

    Reports are not wrapped; a test of their layout sets COLUMNS.
    """
    monkeypatch.setenv("COLUMNS", "1000")
    load = LocalTokenizerLoader.load

    def load_once(loader: LocalTokenizerLoader, spec: Any) -> Vocabulary:  # noqa: ANN401 - the tokenizer's source
        if spec.path is not None:  # a file of the project, which may differ each time
            return load(loader, spec)
        if spec not in _LOADED:
            _LOADED[spec] = load(loader, spec)
        return _LOADED[spec]

    monkeypatch.setattr(LocalTokenizerLoader, "load", load_once)

    def run(*arguments: str | Path, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_StandardInput(stdin), encoding="utf-8"))
        capsysbinary.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        output, errors = capsysbinary.readouterr()
        return CommandResult(code=code, output=output, errors=errors)

    return run


@pytest.fixture
def project(tmp_path: Path, cacheunit: Cacheunit) -> Project:
    """Returns an empty project."""
    root = tmp_path / "project"
    root.mkdir()
    return Project(root=root, cacheunit=cacheunit)


@pytest.fixture
def copy_project(project: Project) -> Callable[[str], Project]:
    """Returns a function that copies a project of tests/projects, without its expected output, into `project`."""

    def copy(name: str) -> Project:
        shutil.copytree(PROJECTS / name, project.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected"))
        return project

    return copy


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str | Path, bytes], None]:
    """Returns a function that compares bytes with a golden file, or writes it if --rewrite-goldens is given."""

    def compare(path: str | Path, actual: bytes) -> None:
        file = PROJECTS / path
        if request.config.getoption("--rewrite-goldens"):
            if not file.is_file() or file.read_bytes() != actual:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(actual)
            return
        assert actual.decode() == (file.read_bytes().decode() if file.is_file() else None)

    return compare
