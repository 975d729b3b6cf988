"""A remote cache gives back what was stored in it; whatever is wrong with it costs a bounded time, and is a miss."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import socket
import threading
import time
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cache_server import CacheServer, Request, serving
from nginx_server import PASSWORD, USER, nginx
from remote_results import CONTEXT, manifest, result

from cacheunit_build.adapters.remote_cache import connection_pool, health
from cacheunit_build.adapters.remote_cache.access import remote_access
from cacheunit_build.adapters.remote_cache.action_result import parse_action_result
from cacheunit_build.adapters.remote_cache.remote import HttpRemoteCache
from cacheunit_build.adapters.storage.toolchain import software
from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.build_record import prefix_record
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.remote_cache import (
    CacheableManifest,
    CacheContext,
    CachedManifest,
    RemoteUse,
    deciding_settings,
    parse_listing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from conftest import Project

    from cacheunit_build.domain.artifact import Artifact

WRITE = {"CACHEUNIT_CACHE_WRITE": "1"}
OPENED: list[HttpRemoteCache] = []
TIMEOUT = 0.3
SOON = 5.0
"""Seconds that a lookup may take which meets a time limit of 0.3 s: many times what it takes on a busy machine."""


def remote(url: str, timeout: float = 10.0, /, **variables: str) -> HttpRemoteCache:
    """Returns the remote cache at a URL that the environment names."""
    access = remote_access("", {"CACHEUNIT_REMOTE_CACHE": url, "NETRC": "/nonexistent", **variables}, timeout)
    assert access is not None
    cache = HttpRemoteCache(access)
    OPENED.append(cache)
    return cache


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Closes what the test opened."""
    yield
    while OPENED:
        OPENED.pop().close()


def inputs_of(*results: CachedManifest) -> Callable[[str], str | None]:
    """Returns a function to the fingerprint of each file that the results were made from."""
    inputs: dict[str, str | None] = {}
    for item in results:
        inputs |= item.record.inputs
    return inputs.get


def found(cache: HttpRemoteCache, *results: CachedManifest) -> Mapping[str, CachedManifest]:
    """Returns what a cache has of the manifests of results, with their files."""
    return cache.find([item.manifest for item in results], inputs_of(*results))


def filled(url: str, *results: CachedManifest) -> None:
    """Stores results."""
    writer = remote(url, **WRITE)
    writer.store(results)
    assert (writer.use.stored, writer.remarks) == (len(results), ())


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as state:
        yield state


RESULT = result(manifest())
RESULTS = tuple(result(manifest(number)) for number in range(40))


def test_nginx_gives_back_what_was_stored(tmp_path: Path) -> None:
    with nginx(tmp_path) as running:
        writer = remote(f"{running.url}some/path", **WRITE)
        assert found(writer, *RESULTS) == {}
        writer.store(RESULTS)
        reader = remote(f"{running.url}some/path")
        assert found(reader, *RESULTS) == {item.manifest.path: item for item in RESULTS}
        assert (writer.use, reader.use) == (RemoteUse(missing=40, stored=40), RemoteUse(found=40))
        assert (writer.remarks, reader.remarks) == ((), ())
        assert {path.parent.name for path in running.files.rglob("*") if path.is_file()} == {"ac", "cas"}
        assert not list((tmp_path / "tmp").rglob("0*"))


def test_the_documented_server_lets_all_read_and_one_user_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nginx(tmp_path, encrypted=True, protected=True) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate))
        anonymous = remote(running.url, **WRITE)
        anonymous.store([RESULT])
        assert anonymous.use.stored == 0
        assert anonymous.remarks == (
            f"nothing more is stored in the remote cache {running.url[:-1]}: it answers 401 Unauthorized",
        )
        writer = remote(running.url, **WRITE, CACHEUNIT_CACHE_USER=USER, CACHEUNIT_CACHE_PASSWORD=PASSWORD)
        writer.store([RESULT])
        assert (writer.use.stored, writer.remarks) == (1, ())
        reader = remote(running.url)
        assert found(reader, RESULT) == {RESULT.manifest.path: RESULT}
        monkeypatch.delenv("SSL_CERT_FILE")
        distrusting = remote(running.url)
        assert found(distrusting, RESULT, *RESULTS) == {}
        (told,) = distrusting.remarks
        assert told.endswith("3 failures in a row: its certificate is not valid: self-signed certificate")


def test_a_server_that_is_killed_midway_is_a_miss_from_then_on(tmp_path: Path) -> None:
    with nginx(tmp_path) as running:
        filled(running.url, *RESULTS)
        reader, inputs = remote(running.url), inputs_of(*RESULTS)
        asked = threading.Event()

        def fingerprint_of(path: str) -> str | None:
            if not asked.is_set():
                asked.set()
                running.process.send_signal(signal.SIGTERM)  # the workers end at once
                running.process.wait()
            return inputs(path)

        some = reader.find([item.manifest for item in RESULTS], fingerprint_of)
        assert len(some) < len(RESULTS)
        assert all(some[path] in RESULTS for path in some)
        assert "is not used any more in this run: 3 failures in a row: " in "".join(reader.remarks)


def artifact_contents(artifacts: Iterable[Artifact]) -> dict[str, bytes]:
    """Returns fingerprint -> bytes of every file of compiled artifacts."""
    contents: dict[str, bytes] = {}
    for artifact in artifacts:
        fingerprints = locked_files(artifact.key, artifact.entry, "")
        contents |= {fingerprints[path]: data for path, data in artifact.files("").items()}
    return contents


def compiled_results(project: Project) -> tuple[list[CachedManifest], Callable[[str], str | None]]:
    """Compiles a project; returns the results of its manifests, and a function to the fingerprints of its files."""
    adapters = Context(project.root, quiet=True, verbose=False).adapters()
    compiled = compile_or_fail(adapters)
    context = CacheContext(
        software=software(), settings=deciding_settings(compiled.settings), identities=compiled.identities
    )
    results = []
    for path, records in compiled.complete.items():
        of = CacheableManifest(
            name=records[0].prefix.partition("@")[0],
            path=path,
            fingerprint=str(adapters.files.fingerprint(path)),
            context=context,
        )
        record = prefix_record(records, compiled.identities)
        artifacts = [artifact for artifact in compiled.artifacts if artifact.record in records]
        results.append(CachedManifest(manifest=of, record=record, contents=artifact_contents(artifacts)))
    return results, adapters.files.fingerprint


def test_what_a_build_compiled_is_found_until_one_of_its_files_changes(project: Project, server: CacheServer) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\nmatrix:\n  locale: [de, en]\n",
            "prefixes/b.yaml": "system: b.md.j2\n",
            "templates/a.md.j2": "Words.{% include 'more.md.j2' ignore missing %}",
            "templates/b.md.j2": "Other words.",
        }
    )
    first, fingerprint_of = compiled_results(project)
    filled(server.url, *first)
    assert found(remote(server.url), *first).keys() == {"prefixes/a.yaml", "prefixes/b.yaml"}
    again = remote(server.url).find([item.manifest for item in first], fingerprint_of)
    assert list(again.values()) == first
    project.write({"templates/more.md.j2": " And more."})  # which was looked for, and absent
    second, fingerprint_of = compiled_results(project)
    assert remote(server.url).find([item.manifest for item in second], fingerprint_of).keys() == {"prefixes/b.yaml"}
    filled(server.url, *second)
    both = remote(server.url)
    assert list(both.find([item.manifest for item in second], fingerprint_of).values()) == second
    assert found(both, *first) == {item.manifest.path: item for item in first}  # as on another branch


def test_the_last_build_takes_two_requests_and_an_older_one_three(server: CacheServer) -> None:
    old, new = result(manifest(), text=b"old"), result(manifest(), text=b"new")
    filled(server.url, old)
    filled(server.url, new)
    for item, number in ((new, 2), (old, 3)):
        server.requests.clear()
        assert found(remote(server.url), item) == {item.manifest.path: item}
        assert len(server.requests) == number


def test_builds_with_other_paths_are_listed_beside_each_other(server: CacheServer) -> None:
    several = [result(manifest(), {f"templates/{number}.j2": fingerprint(b"x")}) for number in range(4)]
    for item in several:
        filled(server.url, item)
    for item in several:
        assert found(remote(server.url), item) == {item.manifest.path: item}
    entry = parse_action_result(server.stored[f"/ac/{several[0].manifest.key}"])
    assert entry is not None
    assert len(parse_listing(entry.stdout)) == len(several)


@pytest.mark.parametrize("other", [{"python": "cpython 4"}, {**CONTEXT.software, "jinja2": "other"}])
def test_other_software_finds_nothing(server: CacheServer, other: dict[str, str]) -> None:
    filled(server.url, RESULT)
    of = manifest(context=replace(CONTEXT, software=other))
    reader = remote(server.url)
    assert reader.find([of], inputs_of(RESULT)) == {}
    assert (reader.use, reader.remarks) == (RemoteUse(missing=1), ())


def test_blobs_are_stored_before_what_names_them(server: CacheServer) -> None:
    filled(server.url, RESULT)
    kinds = [path.split("/")[1] for path in server.paths("PUT")]
    assert kinds == ["cas", "ac", "ac"]
    named, listed = (parse_action_result(server.stored[path]) for path in server.paths("PUT")[1:])
    assert named is not None
    assert named.blob is not None
    assert server.paths("PUT")[0] == f"/cas/{named.blob.sha256}"
    assert listed is not None
    assert server.paths("PUT")[2] == f"/ac/{RESULT.manifest.key}"
    assert all("Content-Length" in headers for method, _, headers in server.requests if method == "PUT")


def test_nothing_is_stored_without_leave(server: CacheServer) -> None:
    reader = remote(server.url)
    assert not reader.writes
    reader.store([RESULT])
    assert server.requests == []


def test_a_result_that_others_cannot_find_is_not_stored(server: CacheServer) -> None:
    writer = remote(server.url, **WRITE)
    writer.store([result(manifest(), {".env": fingerprint(b"x")})])
    assert (server.requests, writer.use.stored) == ([], 0)


def answering(status: int, data: bytes = b"", **headers: str) -> Callable[[Request], bool]:
    """Returns a fault: every request gets this answer."""

    def fault(request: Request) -> bool:
        request.answer(status, data, **headers)
        return True

    return fault


def sending(*parts: bytes) -> Callable[[Request], bool]:
    """Returns a fault: every request gets these bytes, and nothing more until the end of the test."""

    def fault(request: Request) -> bool:
        for part in parts:
            request.send(part)
        request.wait()
        return True

    return fault


def dribbling(request: Request) -> bool:
    """Sends a byte from time to time, so that no single read takes long."""
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not request.state.stopped.wait(0.01):
        request.send(b"a")
    return True


def dribbling_headers(request: Request) -> bool:
    """Sends a header from time to time."""
    request.send(b"HTTP/1.1 100 Continue\r\n")
    while not request.state.stopped.wait(0.01):
        request.send(b"\r\nHTTP/1.1 100 Continue\r\n")
    return True


def endless(request: Request) -> bool:
    """Sends without end."""
    request.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not request.state.stopped.is_set():
        request.send(b"10000\r\n" + bytes(65536) + b"\r\n")
    return True


def half(request: Request) -> bool:
    """Sends half an answer, and breaks off."""
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    request.close_connection = True
    return True


def no_body(request: Request) -> bool:
    """Breaks off behind the headers."""
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    request.close_connection = True
    return True


def reset(request: Request) -> bool:
    """Breaks off without an answer."""
    request.reset()
    return True


FAULTS: dict[str, tuple[Callable[[Request], bool], str]] = {
    "no answer": (sending(), "no whole answer within 0.3 s"),
    "half a status line": (sending(b"HTTP/1"), "no whole answer within 0.3 s"),
    "a slow body": (dribbling, "no whole answer within 0.3 s"),
    "slow headers": (dribbling_headers, "no whole answer within 0.3 s"),
    "an endless body": (endless, "it answers with more than 1 MiB"),
    "half an answer": (half, "it closed the connection before the end of an answer"),
    "an answer without its body": (no_body, "it closed the connection before the end of an answer"),
    "a reset": (reset, "connection reset by peer"),
    "no HTTP": (sending(b"SSH-2.0-OpenSSH\r\n"), "its answer is not valid HTTP"),
    "a redirect": (
        answering(302, Location="http://127.0.0.1:9/elsewhere"),
        "it redirects (302 Found), which is not followed",
    ),
    "401": (answering(401), "it answers 401 Unauthorized"),
    "429": (answering(429), "it answers 429 Too Many Requests"),
    "503": (answering(503), "it answers 503 Service Unavailable"),
    "an unknown status": (answering(599, reason="\x1b[2J secret"), "it answers 599"),
    "what is no gzip": (
        answering(200, b"plain", Content_Encoding="gzip"),
        "it answers with a body that is not gzip, as its header says",
    ),
    "an unknown encoding": (
        answering(200, b"x", Content_Encoding="br"),
        "it answers in an encoding that is not supported",
    ),
    "no entry": (answering(200, b"<html>"), "an entry is not valid"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_server_that_fails_is_dropped_and_told_once(
    server: CacheServer, fault: Callable[[Request], bool], reason: str
) -> None:
    server.fault = fault
    reader, begun = remote(server.url, TIMEOUT), time.monotonic()
    assert found(reader, *RESULTS) == {}
    assert time.monotonic() - begun < SOON
    assert reader.use == RemoteUse(missing=40)
    assert f"the remote cache {server.url} is not used any more in this run: 3 failures in a row: {reason}" in (
        reader.remarks
    )
    asked = len(server.requests)
    assert found(reader, RESULT) == {}
    assert len(server.requests) == asked


def test_an_endless_answer_that_is_wanted_is_cut_at_its_size(server: CacheServer) -> None:
    filled(server.url, RESULT)
    server.fault = lambda request: "/cas/" in request.path and endless(request)
    reader = remote(server.url, TIMEOUT)
    assert found(reader, RESULT) == {}
    assert reader.remarks[0].startswith(f"the remote cache {server.url} failed: it answers with more than")


def test_one_failure_is_a_miss_and_the_rest_is_found(server: CacheServer) -> None:
    filled(server.url, *RESULTS)
    failures = iter([True])
    server.fault = lambda request: next(failures, False) and answering(500)(request)
    reader = remote(server.url)
    assert len(found(reader, *RESULTS)) == len(RESULTS) - 1
    assert reader.remarks == (f"the remote cache {server.url} failed: it answers 500 Internal Server Error",)


def test_a_connection_that_was_closed_meanwhile_is_opened_again(server: CacheServer) -> None:
    filled(server.url, RESULT)
    reader = remote(server.url)
    assert found(reader, RESULT)

    def close_first(request: Request) -> bool:
        server.fault = lambda _: False
        return reset(request)

    server.fault = close_first
    assert found(reader, RESULT)
    assert reader.remarks == ()


def test_403_is_taken_for_absent_and_told_once(server: CacheServer) -> None:
    filled(server.url, RESULT)
    server.fault = lambda request: request.path not in server.stored and answering(403)(request)
    reader = remote(server.url)
    assert found(reader, *RESULTS) == {RESULT.manifest.path: RESULT}
    assert reader.remarks == (
        f"the remote cache {server.url} answers 403 Forbidden: taken for an entry that is not there",
    )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_answer_that_was_packed_once_more_is_read(server: CacheServer, encoding: str) -> None:
    filled(server.url, RESULT)

    def pack(request: Request) -> bool:
        data = server.stored[request.path]
        packed = gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
        return answering(200, packed, Content_Encoding=encoding)(request)

    server.fault = pack
    assert found(remote(server.url), RESULT) == {RESULT.manifest.path: RESULT}


def poisoned_bytes(server: CacheServer) -> None:
    for path, data in server.stored.items():
        if path.startswith("/cas/"):
            server.stored[path] = data[:-1] + bytes([data[-1] ^ 1])


def shorter_bytes(server: CacheServer) -> None:
    server.stored = {path: data[:-9] if "/cas/" in path else data for path, data in server.stored.items()}


def exchanged(server: CacheServer) -> None:
    """Gives each manifest the listing of another one."""
    keys = [f"/ac/{item.manifest.key}" for item in RESULTS]
    listings = [server.stored[key] for key in keys]
    server.stored |= dict(zip(keys, [*listings[1:], listings[0]], strict=True))


@pytest.mark.parametrize("poison", [poisoned_bytes, shorter_bytes])
def test_poisoned_blobs_are_misses_and_drop_the_server(
    server: CacheServer, poison: Callable[[CacheServer], None]
) -> None:
    filled(server.url, *RESULTS)
    poison(server)
    reader = remote(server.url)
    assert found(reader, *RESULTS) == {}
    what = "a blob has other bytes than its name says"
    assert reader.remarks == (
        f"the remote cache {server.url} is not used any more in this run: 3 failures in a row: {what}",
    )


def test_results_of_other_manifests_are_misses(server: CacheServer) -> None:
    filled(server.url, *RESULTS)
    exchanged(server)
    assert found(remote(server.url), *RESULTS) == {}


def test_a_forged_blob_with_the_right_digest_is_a_miss(server: CacheServer) -> None:
    """One who may write, but stores what no build makes: the artifacts of another manifest under this one's keys."""
    foreign = replace(result(manifest(1), dict(RESULT.record.inputs)), manifest=RESULT.manifest)
    assert foreign.is_cacheable
    filled(server.url, foreign)
    reader = remote(server.url)
    assert found(reader, foreign) == {}
    assert reader.remarks == (f"the remote cache {server.url} failed: a blob is not a result of its manifest",)


def test_a_listing_does_not_make_a_build_read_other_files(server: CacheServer) -> None:
    filled(server.url, RESULT)
    asked: list[str] = []
    key = f"/ac/{RESULT.manifest.key}"
    server.stored[key] = server.stored[key].replace(b"templates/a.md.j2", b"../../../etc/pass")

    def fingerprint_of(path: str) -> str | None:
        asked.append(path)
        return None

    assert remote(server.url).find([RESULT.manifest], fingerprint_of) == {}
    assert asked == []


@pytest.mark.parametrize("status", [401, 403, 405, 413, 500, 507])
def test_a_refused_put_ends_storing_and_is_told_once(server: CacheServer, status: int) -> None:
    server.fault = lambda request: request.command == "PUT" and answering(status)(request)
    writer = remote(server.url, **WRITE)
    assert found(writer, RESULT) == {}
    writer.store(RESULTS)
    assert not writer.writes
    assert writer.use.stored == 0
    assert len(server.paths("PUT")) <= connection_pool.CONNECTIONS
    (told,) = writer.remarks
    assert told.startswith(f"nothing more is stored in the remote cache {server.url}: it answers {status} ")
    put = len(server.paths("PUT"))
    writer.store(RESULTS)
    assert len(server.paths("PUT")) == put


@pytest.mark.parametrize("fault", [sending(), reset, half], ids=["no answer", "reset", "half"])
def test_a_put_without_answer_ends_storing(server: CacheServer, fault: Callable[[Request], bool]) -> None:
    server.fault = lambda request: request.command == "PUT" and fault(request)
    writer, begun = remote(server.url, TIMEOUT, **WRITE), time.monotonic()
    writer.store(RESULTS)
    assert time.monotonic() - begun < SOON
    assert writer.use.stored == 0
    assert len(writer.remarks) == 1
    assert found(writer, RESULT) == {}


def test_what_is_stored_is_taken_from_an_iterator_while_there_is_a_server(server: CacheServer) -> None:
    taken: list[CachedManifest] = []

    def lazily(items: Sequence[CachedManifest]) -> Iterator[CachedManifest]:
        for item in items:
            taken.append(item)
            yield item

    server.fault = answering(507)
    remote(server.url, **WRITE).store(lazily(RESULTS))
    assert len(taken) < len(RESULTS)


def test_no_server_at_that_address_is_a_miss() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        reader = remote(f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert found(reader, *RESULTS) == {}
    assert reader.remarks[-1].endswith("3 failures in a row: connection refused")


def test_a_slow_server_is_dropped_when_it_has_cost_more_than_it_is_worth(
    server: CacheServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [result(manifest(number)) for number in range(400)]
    filled(server.url, *many)
    monkeypatch.setattr(health, "MOST_SECONDS", 0.3)
    monkeypatch.setattr(health, "SECONDS_A_RESULT", 0.0)

    def slowly(request: Request) -> bool:
        request.wait(0.05)
        return False

    server.fault = slowly
    reader, begun = remote(server.url), time.monotonic()
    some = found(reader, *many)
    assert time.monotonic() - begun < SOON
    assert 0 < len(some) < len(many)
    assert reader.remarks[-1].endswith("it is too slow: 0.3 s more were spent than its results are worth")


def test_a_slow_server_is_worth_some_time_for_each_result(server: CacheServer, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(server.url, *RESULTS)
    monkeypatch.setattr(health, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(health, "SECONDS_A_RESULT", 10.0)

    def slowly(request: Request) -> bool:
        request.wait(0.05)
        return False

    server.fault = slowly
    reader = remote(server.url)
    assert len(found(reader, *RESULTS)) == len(RESULTS)
    assert reader.remarks == ()


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "_GRACE", 0.2)
    ended = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        ended.wait()
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    reader, begun = remote("https://cache.example.com", TIMEOUT), time.monotonic()
    try:
        assert found(reader, *RESULTS) == {}
        assert time.monotonic() - begun < SOON
        assert reader.remarks == (
            "the remote cache https://cache.example.com is not used any more in this run: it does not answer",
        )
    finally:
        ended.set()


def test_a_bug_in_a_job_is_raised_and_not_taken_for_a_miss(server: CacheServer) -> None:
    filled(server.url, RESULT)

    def broken(_: str) -> str:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        remote(server.url).find([RESULT.manifest], broken)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_server_without_encryption_behind_https_is_a_miss(server: CacheServer) -> None:
    reader = remote(server.url.replace("http:", "https:"), TIMEOUT)
    assert found(reader, *RESULTS) == {}
    assert "failures in a row: " in reader.remarks[-1]


def test_no_text_of_a_server_is_told(server: CacheServer) -> None:
    secret = "tok-123456789-abcdef"  # noqa: S105 - made up
    server.fault = lambda request: answering(
        302, request.headers["Authorization"].encode(), Location=f"http://x/{secret}", reason=f"said {secret}"
    )(request)
    reader = remote(server.url, CACHEUNIT_CACHE_TOKEN=secret, **WRITE)
    found(reader, *RESULTS)
    reader.store([RESULT])
    assert server.requests[0][2]["Authorization"] == f"Bearer {secret}"
    assert reader.remarks
    assert secret not in json.dumps(reader.remarks)
    assert "said" not in json.dumps(reader.remarks)
