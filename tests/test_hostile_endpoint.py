"""An endpoint that answers without end, too slowly, or with the API key costs a bounded time and shows no key."""

from __future__ import annotations

import base64
import gzip
import json
import re
import socket
import threading
import traceback
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cacheunit_build.adapters.system import http_client
from cacheunit_build.adapters.system.http_endpoint import EndpointLimits, HttpEndpoint
from cacheunit_build.adapters.system.secret_mask import MASK, SecretMask
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.endpoints.metrics import parse_metrics
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from conftest import Project

KEY = "sk-proj-A1/b2+c3\"d4'e5\\f6&g7%h8"
# The server closes after each answer: without this header, a retry may meet the connection before its end arrives.
CLOSE = "Connection: close"
OK = f"HTTP/1.1 200 OK\r\n{CLOSE}\r\n".encode()


@contextmanager
def serving(answer: Callable[[], Iterable[bytes]]) -> Iterator[str]:
    """Answers each connection with what `answer` yields; yields the URL."""
    stopped = threading.Event()

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            read_request(connection)
            for part in answer():
                if stopped.is_set():
                    return
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)  # closed at once, what is on its way may be lost
            connection.settimeout(5)
            while connection.recv(65536):
                pass

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            stopped.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)


def read_request(connection: socket.socket) -> None:
    """Reads a whole request: what is left of one breaks the connection before the client has the answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    missing = (0 if length is None else int(length[1])) - len(body)
    while missing > 0:
        missing -= len(connection.recv(65536))


def response(body: bytes, *headers: str, status: int = 200) -> list[bytes]:
    """Returns a whole response."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", CLOSE, *headers, "", ""]
    return ["\r\n".join(lines).encode() + body]


def drip(data: bytes) -> Iterator[bytes]:
    """Yields a byte of the data now and then, without end."""
    for index in count():
        yield data[index % len(data)].to_bytes()
        threading.Event().wait(0.01)


def send(url: str, *, key: str | None = KEY, timeout: float = 0.02) -> CacheunitError:
    """Sends a request, and returns the error that it ends with."""
    with (
        pytest.raises(CacheunitError) as caught,
        HttpEndpoint(url, EndpointLimits(max_requests=9, timeout=timeout), key=key) as endpoint,
    ):
        endpoint.send(FORMATS["openai-chat"].route, {"model": "m"})
    return caught.value


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Returns the seconds that the client waited, which take no time."""
    waits: list[float] = []
    monkeypatch.setattr("cacheunit_build.adapters.system.http_endpoint._sleep", waits.append)
    return waits


ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "status line": lambda: drip(b"HTTP/1.1 2"),
    "header": lambda: chain_of(OK, b"X: ", drip(b"x")),
    "headers in between": lambda: chain_of(drip(b"HTTP/1.1 100 Continue\r\n\r\n")),
    "body": lambda: chain_of(OK, b"Content-Length: 1000000\r\n\r\n{", drip(b" ")),
    "chunks": lambda: chain_of(OK, b"Transfer-Encoding: chunked\r\n\r\n", drip(b"1\r\n \r\n")),
    "events": lambda: chain_of(OK, b"Content-Type: text/event-stream\r\n\r\n", drip(b"data: {}\n\n")),
    "error": lambda: chain_of(b"HTTP/1.1 400 X\r\n\r\n", drip(b"x")),
    "nothing": lambda: (b"" for _ in drip(b"x")),
}


def chain_of(*parts: bytes | Iterator[bytes]) -> Iterator[bytes]:
    """Yields bytes, and what iterators yield."""
    for part in parts:
        yield from [part] if isinstance(part, bytes) else part


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_that_drips_without_end_is_given_up(name: str, slept: list[float]) -> None:
    with serving(ENDLESS[name]) as url:
        error = send(url)
    assert str(error) == f"{url}/chat/completions does not answer within 0.02 s"
    assert slept == [1, 2, 4]


FAST: dict[str, tuple[Callable[[], Iterable[bytes]], str]] = {
    "body": (lambda: chain_of(OK, b"\r\n", (b" " * 65536 for _ in count())), "more than 16 MiB"),
    "error": (lambda: chain_of(b"HTTP/1.1 500 X\r\n\r\n", (b" " * 65536 for _ in count())), "more than 16 MiB"),
    "header": (lambda: chain_of(OK, b"X: ", (b"x" * 65536 for _ in count())), "closed the connection"),
    "headers": (lambda: chain_of(OK, (b"X: x\r\n" * 999 for _ in count())), "closed the connection"),
    "gzip": (
        lambda: response(gzip.compress(bytes(17 << 20)), "Content-Encoding: gzip"),
        "more than 16 MiB",
    ),
    "not gzip": (lambda: response(b"{}", "Content-Encoding: gzip"), "a body that is not gzip"),
    "brotli": (lambda: response(b"{}", "Content-Encoding: br"), "an encoding that is not supported"),
    "gzip twice": (lambda: response(b"{}", "Content-Encoding: gzip, gzip"), "an encoding that is not supported"),
    "deep": (lambda: response(b"[" * 200_000), "JSON that is nested too deeply"),
    "deep, closed": (lambda: response(b'{"a":' * 300 + b"1" + b"}" * 300), "JSON that is nested too deeply"),
    "deep error": (lambda: response(b"[" * 900 + b"]" * 900, status=400), "answers 400"),
    "redirect": (lambda: response(b"", "Location: http://127.0.0.1:9/", status=307), "redirects are not followed"),
    "no body": (lambda: response(b"", status=403), "answers 403: no reason is given"),
    "long number": (lambda: response(b"1" * 5000), "incomplete JSON"),
    "not UTF-8": (lambda: response(b'"\xff'), "incomplete JSON"),
}


@pytest.mark.parametrize("name", FAST)
@pytest.mark.usefixtures("slept")
def test_an_answer_over_a_limit_is_an_error(name: str) -> None:
    answer, message = FAST[name]
    with serving(answer) as url:
        error = send(url, timeout=20)
    assert message in str(error)
    assert len(str(error)) < 600


def test_a_packed_answer_within_the_limit_is_read() -> None:
    packed = gzip.compress(b'{"usage": {"prompt_tokens": 7}}')
    with (
        serving(lambda: response(packed, "Content-Encoding: gzip")) as url,
        HttpEndpoint(url, EndpointLimits(max_requests=1, timeout=20)) as endpoint,
    ):
        assert endpoint.send(FORMATS["openai-chat"].route, {"model": "m\udcff"}).prompt == 7


@pytest.mark.parametrize(("seconds", "waits"), [("3600", []), ("inf", []), ("61", []), ("60", [60, 60, 60])])
def test_a_server_that_asks_to_wait_longer_than_a_minute_is_not_waited_for(
    seconds: str, waits: list[float], slept: list[float]
) -> None:
    with serving(lambda: response(b"{}", f"Retry-After: {seconds}", status=429)) as url:
        error = send(url, timeout=20)
    assert slept == waits
    assert ("it asks to wait longer than 60 s" in str(error)) == (not waits)


def test_a_list_of_models_may_hold_anything() -> None:
    body = json.dumps({"data": [5, None, "xidx", [], {}, {"id": 5}, {"id": "m"}]}).encode()
    with (
        serving(lambda: response(body)) as url,
        HttpEndpoint(url, EndpointLimits(max_requests=1, timeout=20)) as endpoint,
    ):
        assert endpoint.models() == ["m"]


def test_a_page_of_metrics_over_the_limit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_BYTES", 100)
    with (
        serving(lambda: response(b"x" * 101)) as url,
        HttpEndpoint(url, EndpointLimits(max_requests=1, timeout=20)) as endpoint,
    ):
        assert endpoint.metrics() is None


@pytest.mark.parametrize(
    "labels", ["a" * 1_000_000, 'a="\\"' * 200_000, f'block_size="{"9" * 5000}"', 'block_size="0"']
)
def test_a_page_of_metrics_may_have_lines_of_any_length(labels: str) -> None:
    page = (
        f"vllm:cache_config_info{{{labels}}} 1\nvllm:prefix_cache_hits{{{labels}}} 1\nvllm:prefix_cache_hits_total 7\n"
    )
    metrics = parse_metrics(page)
    assert (metrics.unit, (metrics.hit_tokens or 0) >= 7) == (None, True)


# The key


def spellings(key: str) -> list[str]:
    """Returns a key in the spellings of URLs, JSON, Python, HTML, base64 and hexadecimal, and parts of it."""
    basic = [base64.b64encode(f"{user}{key}{end}".encode()).decode() for user in ("", "a:", "me:") for end in ("", "x")]
    return [
        *(key, key.upper(), quote(key), quote(quote(key, safe=""), safe=""), json.dumps(key), repr(key), ascii(key)),
        *("".join(f"\\u{ord(c):04X}" for c in key), "".join(f"\\x{ord(c):02x}" for c in key)),
        *("".join(f"&#{ord(c)};" for c in key), key.replace("&", "&amp;"), json.dumps(json.dumps(key))),
        *(
            *basic,
            *(base64.urlsafe_b64encode(part.encode()).decode() for part in (key, f"u:{key}")),
            key.encode().hex(),
        ),
        *(key[:6], key[-6:], key[3:12], f"{key[:8]}*****{key[-4:]}", f"{key[:7]}...{key[-3:]}", f"{key}\n", f" {key}"),
        *(f"https://me:{key}@host/", f"https://host/?key={quote(key)}&x=1", f"Bearer {key}", f"'{key[:20]}"),
    ]


def shows_part(text: str, key: str) -> bool:
    """Whether a text has six characters of a key in a row."""
    return any(key[index : index + 6].lower() in text.lower() for index in range(len(key) - 5))


@pytest.mark.parametrize("as_json", [True, False])
def test_a_key_that_a_server_repeats_is_not_shown(slept: list[float], *, as_json: bool) -> None:
    bodies: list[bytes] = []
    with (
        serving(lambda: response(bodies[-1], "Connection: close", status=401)) as url,
        HttpEndpoint(url, EndpointLimits(max_requests=99, timeout=20), key=KEY) as endpoint,
    ):
        for spelled in spellings(KEY):
            text = f"Incorrect API key provided: {spelled}. You can find yours at https://example.com/keys"
            bodies.append((json.dumps({"error": {"message": text}}) if as_json else text).encode())
            with pytest.raises(CacheunitError) as caught:
                endpoint.send(FORMATS["openai-chat"].route, {"model": "m"})
            assert MASK in str(caught.value)
            for shown in (
                str(caught.value),
                "".join(traceback.format_exception(caught.value)),
                repr(caught.value.faults),
            ):
                assert not shows_part(shown, KEY)
                assert spelled.strip() not in shown
            assert caught.value.__context__ is None
    assert slept == []


@settings(max_examples=30)
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=60), st.text(), st.text())
@example("%41%42%43", "%25", "")
@example("\\\\\\\\\\\\u0041", "\\", "\\")
@example("&amp;&amp;", "&", "")
@example("00000:", "%", "")
def test_no_six_characters_of_a_key_are_left(key: str, before: str, after: str) -> None:
    mask = SecretMask([key])
    for text in (f"{before}{key}{after}", f"{before}{quote(key, safe='')}{after}", f"{before}{json.dumps(key)}{after}"):
        masked = mask(text)
        assert MASK in masked
        assert not shows_part(masked.replace(MASK, "\0"), key)


def test_a_short_key_is_masked_where_it_is_a_word() -> None:
    mask = SecretMask(["x1", ""])
    assert mask("key x1 (x1) in max1, ax1") == "key *** (***) in max1, ax1"
    assert SecretMask([""])("no secret") == "no secret"


@pytest.mark.parametrize(
    ("failure", "code"),
    [(RuntimeError(f"boom {KEY}"), 70), (UnicodeError(f"Bearer {quote(KEY)}"), 70), (ValueError("boom"), 70)],
)
def test_the_traceback_of_a_bug_shows_no_key(
    project: Project, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: int
) -> None:
    def fail(*_: object) -> None:
        raise KeyError(KEY[2:]) from failure

    monkeypatch.setenv("CACHEUNIT_API_KEY", KEY)
    monkeypatch.setattr("cacheunit_build.adapters.system.http_client.HttpClient.send", fail)
    ran = project.run("probe", "http://127.0.0.1:9", "--model", "m")
    assert (ran.code, "test_hostile_endpoint.py" in ran.err) == (code, True)
    assert not shows_part(ran.out + ran.err, KEY)


@pytest.mark.parametrize(
    "arguments",
    [
        (KEY,),
        (f"http://127.0.0.1:9/v1/{quote(KEY)}",),
        (f"http://{quote(KEY)}@127.0.0.1:9/v1",),
        (f"ftp://me:{quote(KEY)}@127.0.0.1:9/v1",),
        (f"http://127.0.0.1:9/v1?key={quote(KEY)}",),
        (f"http://127.0.0.1:9/v1#{quote(KEY)}",),
        (f"http://127.0.0.1:9/\udcff{KEY}",),
        ("http://127.0.0.1:9/v1", "--key-env", KEY),
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CACHEUNIT_API_KEY", KEY)
    ran = project.run("probe", *arguments, "--model", "m")
    assert (ran.code, ran.out) == (2, "")
    assert not shows_part(ran.err, KEY)
    assert not shows_part(ran.err, quote(KEY))


@pytest.mark.parametrize(
    "proxy", ["http://me:hidden-word@127.0.0.1:9", "http://hidden-word@[::", "x://me:hidden-word@h"]
)
def test_the_password_of_a_proxy_is_not_shown(project: Project, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    ran = project.run("probe", "http://api.example:9/v1", "--model", "m")
    assert (ran.code, ran.out, "hidden" in ran.err) == (2, "", False)


def test_certificates_that_do_not_exist_are_an_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/x.pem")
    ran = project.run("probe", "http://127.0.0.1:9/v1", "--model", "m")
    assert (ran.code, ran.out) == (2, "")
    assert re.match(r"error: .*(certificates|cannot reach)", ran.err)


@pytest.mark.parametrize("option", ["--timeout", "--wait"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "-1"])
def test_a_time_that_cannot_be_waited_for_is_an_error(project: Project, option: str, seconds: str) -> None:
    ran = project.run("probe", "http://127.0.0.1:9/v1", "--model", "m", option, seconds)
    assert (ran.code, ran.out, option in ran.err) == (2, "", True)
