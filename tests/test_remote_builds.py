"""Builds and checks with a remote cache give what they give without one, whatever the remote cache does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cache_server import CacheServer, Request, serving
from conftest import PROJECTS, Project
from nginx_server import nginx

from cacheunit_build.adapters.remote_cache import access, remote
from cacheunit_build.adapters.system.isolated_rebuild import IsolatedRebuild
from cacheunit_build.cli.context import Context
from cacheunit_build.cli.fast_path import unchanged_output
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.domain.build_record import prefix_record
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.remote_blob import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cacheunit

    from cacheunit_build.compiler.prefix import CompiledPrefix
    from cacheunit_build.domain.remote_cache import CachedManifest

PROGRAM = (sys.executable, "-P", "-c", "from cacheunit_build.cli.entry import main; main()")
TIMEOUT = 0.3
SOON = 10.0
"""Seconds that a build may take whose requests have 0.3 s each: many times what it takes on a busy machine."""
SOURCES = {
    "cacheunit.toml": 'targets = ["deepseek-v4", "openai"]\n',
    "templates/shared.md.j2": "Answer in the language of the question.\n",
    "templates/a.md.j2": "You are {{ name }}.\n{% include 'shared.md.j2' %}",
    "templates/b.md.j2": "You repair bicycles.\n{% include 'more.md.j2' ignore missing %}",
    "prefixes/a.yaml": "system: a.md.j2\nmatrix:\n  name: [Ada, Ben]\n",
    "prefixes/b.yaml": "system: b.md.j2\n",
    "prefixes/team/c.yaml": "system: a.md.j2\nvariables: {name: Cleo}\ntargets: [deepseek-v4]\n",
}
MANIFESTS = ["prefixes/a.yaml", "prefixes/b.yaml", "prefixes/team/c.yaml"]
NOTE_FOUND = "note: 3 of 3 manifests from the remote cache\n"
NOTE_STORED = "note: 0 of 3 manifests from the remote cache; 3 stored there\n"


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as state:
        yield state


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list to which each manifest adds its path that is compiled in this process."""
    paths: list[str] = []
    original = PrefixCompiler.compile

    def compile_prefix(self: PrefixCompiler, name: str, path: str) -> CompiledPrefix:
        paths.append(path)
        return original(self, name, path)

    monkeypatch.setattr(PrefixCompiler, "compile", compile_prefix)
    return paths


@pytest.fixture
def sources(project: Project) -> Project:
    """Returns a project with several targets, variants and partials."""
    project.write(SOURCES)
    return project


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that names a remote cache in the environment, to be written or only to be read."""

    def name(url: str, *, writes: bool = False) -> None:
        monkeypatch.setenv("CACHEUNIT_REMOTE_CACHE", url)
        monkeypatch.setenv("CACHEUNIT_CACHE_WRITE", "1" if writes else "")

    return name


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each request 0.3 s."""
    monkeypatch.setattr(access, "remote_access", partial(access.remote_access, timeout=TIMEOUT))


def outputs(project: Project) -> dict[str, bytes]:
    """Returns the lock and the artifacts."""
    return {**project.files("build"), LOCK_FILE: project.read(LOCK_FILE)}


def start_anew(project: Project, *, keep_lock: bool = False) -> None:
    """Leaves what a fresh checkout has on a machine that has built nothing yet."""
    shutil.rmtree(project.path("build"), ignore_errors=True)
    if not keep_lock:
        project.path(LOCK_FILE).unlink(missing_ok=True)
    shutil.rmtree(project.cache.parent, ignore_errors=True)


def fill(project: Project, server: CacheServer, use: Callable[..., None]) -> dict[str, bytes]:
    """Builds with an empty remote cache, which is filled; returns the lock and the artifacts, and starts anew."""
    use(server.url, writes=True)
    ran = project.run("build")
    assert (ran.code, ran.err) == (0, NOTE_STORED)
    built = outputs(project)
    start_anew(project)
    use(server.url)
    server.requests.clear()
    return built


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets builds store consistent results that their sources do not give: artifacts with another text."""

    def poisoned(cached: CachedManifest) -> bytes | None:
        records, contents = [], dict(cached.contents)
        for record in cached.record.artifacts:
            text = contents[record.entry.text].replace(b"You", b"Now")
            contents[fingerprint(text)] = text
            records.append(replace(record, entry=replace(record.entry, text=fingerprint(text))))
        wanted = {digest for record in records for digest in (record.entry.text, record.entry.request)}
        kept = {digest: contents[digest] for digest in wanted}
        return pack(replace(cached, record=prefix_record(records, cached.record.identities), contents=kept))

    monkeypatch.setattr(remote, "pack", poisoned)


@pytest.mark.slow
def test_the_miniature_projects_are_built_alike_through_a_remote_cache(
    tmp_path: Path, cacheunit: Cacheunit, compiled: list[str], use: Callable[..., None]
) -> None:
    names = [lock.parent.parent.name for lock in sorted(PROJECTS.glob("*/expected/cacheunit.lock"))]
    asked_here = set()
    with nginx(tmp_path / "nginx") as running:
        for name in names:
            project = Project(root=tmp_path / name, cacheunit=cacheunit)
            shutil.copytree(PROJECTS / name, project.root, ignore=shutil.ignore_patterns("expected"), symlinks=True)
            use("")
            alone = project.run("build")
            expected = outputs(project)
            for found in (False, True):
                start_anew(project)
                use(running.url, writes=not found)
                compiled.clear()
                ran = project.run("build")
                assert (ran.code, ran.output, outputs(project)) == (0, alone.output, expected), (name, ran.err)
            if compiled:
                asked_here.add(name)
            assert project.run("check", "--no-remote").code == 0
    assert len(names) > 10
    assert asked_here == set()


def test_a_fresh_checkout_compiles_nothing_that_another_one_stored(
    sources: Project, server: CacheServer, compiled: list[str], use: Callable[..., None]
) -> None:
    built = fill(sources, server, use)
    assert sorted(compiled) == MANIFESTS
    compiled.clear()
    ran = sources.run("build", "--format", "json")
    assert (ran.code, ran.err, compiled, outputs(sources)) == (0, NOTE_FOUND, [], built)
    assert ran.json["errors"] == []
    assert server.paths("PUT") == []
    again = sources.run("build")  # from the local record
    assert (again.code, again.err, again.out.endswith("0 built, 7 unchanged; lock unchanged\n")) == (0, "", True)


def test_a_quiet_build_prints_no_note(sources: Project, server: CacheServer, use: Callable[..., None]) -> None:
    fill(sources, server, use)
    assert sources.cacheunit("-q", "-C", sources.root, "build").err == ""
    start_anew(sources)
    server.fault = reset
    assert sources.cacheunit("-q", "-C", sources.root, "build").err == ""


def test_what_was_found_is_not_stored_again_and_the_rest_is(
    sources: Project, server: CacheServer, compiled: list[str], use: Callable[..., None]
) -> None:
    fill(sources, server, use)
    use(server.url, writes=True)
    sources.edit("templates/b.md.j2", "bicycles", "shoes")
    compiled.clear()
    ran = sources.run("build")
    assert (ran.code, ran.err) == (0, "note: 2 of 3 manifests from the remote cache; 1 stored there\n")
    assert (compiled, len(server.paths("PUT"))) == (["prefixes/b.yaml"], 3)


def test_after_an_edit_of_one_partial_its_users_are_compiled(
    sources: Project, server: CacheServer, compiled: list[str], use: Callable[..., None]
) -> None:
    fill(sources, server, use)
    sources.edit("templates/shared.md.j2", "question", "user")
    compiled.clear()
    ran = sources.run("build")
    assert (ran.code, ran.err) == (0, "note: 1 of 3 manifests from the remote cache\n")
    assert compiled == ["prefixes/a.yaml", "prefixes/team/c.yaml"]
    start_anew(sources)
    sources.write({"templates/shared.md.j2": SOURCES["templates/shared.md.j2"], "templates/more.md.j2": "And shoes."})
    compiled.clear()
    assert sources.run("build").code == 0  # a file that was looked for, and absent
    assert compiled == ["prefixes/b.yaml"]
    assert sources.run("check", "--no-remote").code == 0


def test_a_part_of_what_was_stored_can_be_selected(
    sources: Project, server: CacheServer, compiled: list[str], use: Callable[..., None]
) -> None:
    built = fill(sources, server, use)
    compiled.clear()
    ran = sources.run("build", "a@name=Ben", "--target", "openai")
    assert (ran.code, ran.err) == (0, "note: 1 of 1 manifest from the remote cache\n")
    assert {path: built[path] for path in sources.files("build")} == sources.files("build")
    assert sorted(sources.files("build")) == ["build/a@name=Ben/openai.json", "build/a@name=Ben/openai.txt"]
    assert sources.run("build").code == 0
    assert (compiled, outputs(sources)) == ([], built)


def test_a_part_is_not_stored(sources: Project, server: CacheServer, use: Callable[..., None]) -> None:
    use(server.url, writes=True)
    assert sources.run("build", "--target", "openai").code == 0
    assert sources.run("build", "a@name=Ben").code == 0
    assert server.paths("PUT") == []


def test_nothing_is_stored_without_leave(sources: Project, server: CacheServer, use: Callable[..., None]) -> None:
    use(server.url)
    ran = sources.run("build")
    assert (ran.code, ran.err) == (0, "note: 0 of 3 manifests from the remote cache\n")
    assert server.paths("PUT") == []


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"prefixes/d.yaml": "system: missing.md.j2\n"}, "missing.md.j2"),
        (
            {"prefixes/d.yaml": "system: d.md.j2\n", "templates/d.md.j2": f"The key is ghp_{'aB3xK9mQ2z' * 3}7Lw4Tt"},
            "CU",
        ),
    ],
    ids=["a fault", "a secret"],
)
def test_a_build_that_is_refused_stores_nothing(
    sources: Project, server: CacheServer, use: Callable[..., None], broken: dict[str, str], told: str
) -> None:
    sources.write(broken)
    use(server.url, writes=True)
    ran = sources.run("build")
    assert (ran.code, told in ran.err) == (2, True), ran.err
    assert server.paths("PUT") == []
    assert not sources.path(LOCK_FILE).exists()


def test_what_an_encoder_of_the_project_gives_is_neither_stored_nor_looked_for(
    project: Project, server: CacheServer, use: Callable[..., None]
) -> None:
    project.write(
        {
            "cacheunit.toml": 'targets = ["mine"]\n[target.mine]\nextends = "deepseek-v4"\n'
            '[target.mine.frame]\nencoder = "model/encode.py:encode"\n',
            "model/encode.py": "def encode(messages, **_):\n"
            "    return ''.join(f\"<{item['role']}>{item['content']}\" for item in messages)\n",
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "You are helpful.",
        }
    )
    use(server.url, writes=True)
    ran = project.run("build")
    assert (ran.code, ran.err, server.requests) == (0, "", [])


def test_another_vocabulary_finds_nothing(
    sources: Project, server: CacheServer, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sources, server, use)
    original = PrefixCompiler.identities_of

    def changed(self: PrefixCompiler, name: str, path: str) -> Any:  # noqa: ANN401 - as the original
        known = original(self, name, path)
        assert known is not None
        tokenizer = fingerprint(b"another vocabulary")
        return known[0], {target: replace(identity, tokenizer=tokenizer) for target, identity in known[1].items()}

    monkeypatch.setattr(PrefixCompiler, "identities_of", changed)
    assert sources.run("build").err == "note: 0 of 3 manifests from the remote cache\n"


# What vouches for a checkout


def test_a_check_with_a_poisoned_remote_cache_fails_against_the_right_lock(
    sources: Project, server: CacheServer, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch)
    built = fill(sources, server, use)
    sources.write({LOCK_FILE: built[LOCK_FILE]})
    checked = sources.run("check", "--format", "json")
    assert (checked.code, checked.err.startswith(NOTE_FOUND)) == (1, True), checked.err
    assert {(item["kind"], item["prefix"]) for item in checked.json["drift"]} >= {("changed", "a@name=Ada")}
    locked = sources.run("build", "--locked")
    assert (locked.code, locked.err.startswith(NOTE_FOUND)) == (1, True)
    assert sources.files("build") == {}
    for arguments in (("check", "--no-remote"), ("build", "--locked", "--no-remote")):
        ran = sources.run(*arguments)
        assert (ran.code, ran.err.startswith("note: there is no") or not ran.err) == (0, True), ran.err
    assert outputs(sources) == built
    start_anew(sources)
    assert sources.run("build").code == 0  # who may write decides what others build
    poisoned = outputs(sources)
    assert b"Now are" in poisoned["build/a@name=Ada/openai.txt"]
    assert sources.run("check").code == 0  # it agrees with the remote cache that the environment names
    assert sources.run("check", "--no-remote").code == 1
    assert sources.run("build", "--no-remote").code == 0
    assert outputs(sources) == built


@pytest.mark.parametrize("command", ["check", "build"])
def test_results_of_a_remote_cache_are_compiled_once_it_is_refused(  # noqa: PLR0917 - fixtures
    sources: Project,
    server: CacheServer,
    compiled: list[str],
    use: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    fill(sources, server, use)
    sources.run("build")
    assert sources.run("build", "--no-project-code").err == ""  # from the record
    compiled.clear()
    monkeypatch.setenv("CACHEUNIT_NO_REMOTE", "1")
    assert unchanged_output(str(sources.root), [command]) is None
    ran = sources.run(command)
    assert (ran.code, ran.err, sorted(compiled)) == (0, "", MANIFESTS)


def test_the_fast_path_of_a_build_believes_a_remote_cache_and_that_of_a_check_does_not(
    sources: Project, server: CacheServer, use: Callable[..., None]
) -> None:
    fill(sources, server, use)
    sources.run("build")
    assert unchanged_output(str(sources.root), ["build"]) is not None
    assert unchanged_output(str(sources.root), ["check"]) is None
    sources.run("build", "--no-remote")
    assert unchanged_output(str(sources.root), ["check"]) is not None


def test_a_remote_cache_of_the_settings_vouches_for_nothing(
    sources: Project,
    server: CacheServer,
    compiled: list[str],
    use: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources.edit("cacheunit.toml", "\n", f'\n[cache]\nremote = "{server.url}"\n')
    fill(sources, server, use)
    monkeypatch.delenv("CACHEUNIT_REMOTE_CACHE")
    assert sources.run("build").err == NOTE_FOUND
    context = Context(sources.root, quiet=True, verbose=False)
    for believed, project in ((3, context.project_to_build(lambda _: True)), (0, context.project())):
        record = project.records.valid_record()
        assert record is not None
        assert len(record.prefixes) == believed
    server.requests.clear()
    for arguments in (("check",), ("build", "--locked"), ("diff", "--against", LOCK_FILE)):
        compiled.clear()
        ran = sources.run(*arguments)
        assert (ran.code, ran.err, sorted(compiled)) == (0, "", MANIFESTS), arguments
    assert server.requests == []


def test_a_rebuild_that_proves_the_bytes_does_not_ask_the_remote_cache_of_the_settings(
    sources: Project, server: CacheServer, use: Callable[..., None]
) -> None:
    sources.edit("cacheunit.toml", "\n", f'\n[cache]\nremote = "{server.url}"\n')
    built = fill(sources, server, use)
    contents = {path: sources.read(path) for path in SOURCES}
    rebuild = IsolatedRebuild()
    assert rebuild(rebuild.conditions[0], contents, ["build", LOCK_FILE]) == built
    assert server.requests == []


def test_a_locked_build_stores_what_it_compiled(
    sources: Project, server: CacheServer, compiled: list[str], use: Callable[..., None]
) -> None:
    sources.build()
    built = outputs(sources)
    use(server.url, writes=True)
    for note in (NOTE_STORED, NOTE_FOUND):
        start_anew(sources, keep_lock=True)
        compiled.clear()
        ran = sources.run("build", "--locked")
        assert (ran.code, ran.err, outputs(sources)) == (0, note, built)
    assert compiled == []
    server.stored.clear()
    sources.edit("templates/b.md.j2", "bicycles", "shoes")
    server.requests.clear()
    assert sources.run("build", "--locked").code == 1
    assert server.paths("PUT") == []  # what the lock does not vouch for


def test_a_check_stores_nothing(sources: Project, server: CacheServer, use: Callable[..., None]) -> None:
    sources.build()
    start_anew(sources, keep_lock=True)
    use(server.url, writes=True)
    assert sources.run("check").code == 0
    assert server.paths("PUT") == []


# A server with faults


def answering(status: int, **headers: str) -> Callable[[Request], bool]:
    def fault(request: Request) -> bool:
        request.answer(status, b"", **headers)
        return True

    return fault


def silent(request: Request) -> bool:
    request.wait()
    return True


def half(request: Request) -> bool:
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    request.close_connection = True
    return True


def reset(request: Request) -> bool:
    request.reset()
    return True


def damaged(request: Request) -> bool:
    data = request.state.stored.get(request.path, b"")
    if "/cas/" not in request.path or request.command == "PUT":
        return False
    request.answer(200, data[:-1] + bytes([data[-1] ^ 1]))
    return True


def full(request: Request) -> bool:
    return request.command == "PUT" and answering(507)(request)


DROPPED = "is not used any more in this run: 3 failures in a row: "
FAULTS: dict[str, tuple[Callable[[Request], bool], str]] = {
    "slow": (silent, f"{DROPPED}no whole answer within 0.3 s"),
    "half an answer": (half, f"{DROPPED}it closed the connection before the end of an answer"),
    "reset": (reset, f"{DROPPED}connection reset by peer"),
    "redirect": (
        answering(302, Location="http://127.0.0.1:9/"),
        f"{DROPPED}it redirects (302 Found), which is not followed",
    ),
    "403": (answering(403), "answers 403 Forbidden: taken for an entry that is not there"),
    "500": (answering(500), f"{DROPPED}it answers 500 Internal Server Error"),
    "poisoned": (damaged, f"{DROPPED}a blob has other bytes than its name says"),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("fault", "told"), FAULTS.values(), ids=FAULTS)
def test_a_build_with_a_server_that_fails_gives_the_same_bytes_in_time_and_one_note(
    sources: Project, server: CacheServer, use: Callable[..., None], fault: Callable[[Request], bool], told: str
) -> None:
    built = fill(sources, server, use)
    server.fault = fault
    begun = time.monotonic()
    ran = sources.run("build", "--format", "json")
    assert time.monotonic() - begun < SOON
    assert (ran.code, ran.err) == (0, f"note: the remote cache {server.url} {told}\n")
    assert json.loads(ran.out)["errors"] == []
    assert outputs(sources) == built
    assert sources.run("check").code == 0


def test_a_full_server_stops_no_build_and_is_told_once(
    sources: Project, server: CacheServer, use: Callable[..., None]
) -> None:
    server.fault = full
    use(server.url, writes=True)
    ran = sources.run("build")
    what = f"nothing more is stored in the remote cache {server.url}: it answers 507 Insufficient Storage"
    assert (ran.code, ran.err) == (0, f"note: {what}\n")
    assert sources.run("check", "--no-remote").code == 0


def test_a_server_that_ends_during_a_build_is_missed_from_then_on(
    sources: Project, tmp_path: Path, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with nginx(tmp_path / "nginx") as running:
        use(running.url, writes=True)
        original = PrefixCompiler.compile

        def end_server(self: PrefixCompiler, name: str, path: str) -> CompiledPrefix:
            running.process.terminate()
            running.process.wait()
            return original(self, name, path)

        monkeypatch.setattr(PrefixCompiler, "compile", end_server)
        ran = sources.run("build")
    assert ran.code == 0
    assert ran.err.startswith(f"note: nothing more is stored in the remote cache {running.url[:-1]}: ")
    assert ran.err.count("note: ") == 1
    assert sources.run("check", "--no-remote").code == 0


def test_files_that_cannot_be_read_after_the_build_do_not_make_it_fail(
    sources: Project, server: CacheServer, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.domain.errors import fail

    original = DiskFiles.read_now

    def read_now(self: DiskFiles, path: str) -> bytes | None:
        if path.endswith("openai.txt"):
            raise fail(f'cannot read "{path}"')
        return original(self, path)

    monkeypatch.setattr(DiskFiles, "read_now", read_now)
    use(server.url, writes=True)
    ran = sources.run("build")
    assert (ran.code, ran.err) == (0, "note: 0 of 3 manifests from the remote cache; 1 stored there\n")


# Several processes


FORKABLE = """\
import sys
from cacheunit_build.adapters.remote_cache.access import remote_access
from cacheunit_build.adapters.remote_cache.remote import HttpRemoteCache
from cacheunit_build.adapters.system.worker_processes import _can_fork
from remote_results import manifest, result

results = [result(manifest(number)) for number in range(32)]
cache = HttpRemoteCache(remote_access("", {"CACHEUNIT_REMOTE_CACHE": sys.argv[1], "CACHEUNIT_CACHE_WRITE": "1"}))
inputs = {path: digest for item in results for path, digest in item.record.inputs.items()}
forkable = []
for _ in range(50):
    cache.find([item.manifest for item in results], inputs.get)
    forkable.append(_can_fork())
assert not cache.remarks, cache.remarks
print(forkable.count(True))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_processes_can_be_forked_after_each_search(tmp_path: Path) -> None:
    with nginx(tmp_path / "nginx") as running:
        command = [sys.executable, "-c", FORKABLE, running.url]
        ran = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("50\n", "")


@pytest.mark.slow
def test_what_is_not_found_is_compiled_by_several_processes(
    project: Project, tmp_path: Path, use: Callable[..., None]
) -> None:
    """A half of the prefixes is found; the others are more than one process compiles alone."""
    project.write(
        {"templates/a.md.j2": "You are {{ name }}.\n", "templates/b.md.j2": "You, {{ name }}, repair shoes.\n"}
    )
    for number in range(104):
        text = f"system: {'ab'[number % 2]}.md.j2\nvariables: {{name: agent {number}}}\n"
        project.write({f"prefixes/p{number:03}.yaml": text})
    project.build("-j", "1")
    start_anew(project)

    def build(*arguments: str) -> str:
        ran = subprocess.run(
            [*PROGRAM, "build", *arguments], cwd=project.root, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stderr

    with nginx(tmp_path / "nginx") as running:
        use(running.url, writes=True)
        assert build("-j", "2") == "note: 0 of 104 manifests from the remote cache; 104 stored there\n"
        start_anew(project)
        project.edit("templates/b.md.j2", "shoes", "boots")
        assert build("-j", "2") == "note: 52 of 104 manifests from the remote cache; 52 stored there\n"
        together = outputs(project)
        start_anew(project)
        assert build("-j", "2") == "note: 104 of 104 manifests from the remote cache\n"
        assert outputs(project) == together
    start_anew(project)
    use("")
    project.build("-j", "1")
    assert outputs(project) == together
