"""The server of the live page: who gets an answer, what it says, and how it begins and ends."""

from __future__ import annotations

import asyncio
import builtins
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from served_page import SHOP, live_page
from test_watch_screen import commit, git

from cacheunit_build.diff.framed_text import FramedText, TextLine, TextRun
from cacheunit_build.domain.editors import EDITORS, editor_link
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.serve.app import PAGE_FILES, live_app
from cacheunit_build.serve.live_state import LiveState
from cacheunit_build.serve.security import HEADERS, Access
from cacheunit_build.serve.token_text import CHUNK_TOKENS, token_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conftest import Project
    from served_page import LivePage

PORT = 4599
TOKEN = "a-secret"  # noqa: S105 - of this test
HOST = f"127.0.0.1:{PORT}"
ACCESS = Access(port=PORT, token=TOKEN)
COOKIE = f"{ACCESS.cookie}={TOKEN}"
MOST_BYTES = 200_000


def answer(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Returns the answer of the application to one request, made with these headers."""
    app = live_app(LiveState("/project", "one", lambda: None), ACCESS)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{HOST}") as client:
            return await client.request(method, path, headers={key.replace("_", "-"): headers[key] for key in headers})

    return asyncio.run(ask())


# Who gets an answer


def test_the_address_with_the_token_gives_the_page_and_a_cookie_for_everything_else() -> None:
    page = answer(f"/?token={TOKEN}")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["set-cookie"] == f"{COOKIE}; Path=/; HttpOnly; SameSite=Strict"
    state = answer("/state", cookie=COOKIE)
    assert state.status_code == 200
    assert "set-cookie" not in state.headers


@pytest.mark.parametrize("path", ["/", "/state", "/page.js", "/events", "/text?prefix=a&target=b&number=1"])
@pytest.mark.parametrize("credential", [{}, {"cookie": f"{ACCESS.cookie}=other"}, {"cookie": f"other={TOKEN}"}])
def test_without_the_token_nothing_is_answered(path: str, credential: dict[str, str]) -> None:
    refused = answer(path, **credential)
    assert refused.status_code == 403
    assert refused.text == "Open the address that cacheunit watch printed."
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    "address", ["/?token=", "/?token=other", "/?token=%C3%A4", f"/state?token={TOKEN}", f"/?Token={TOKEN}"]
)
def test_only_the_page_takes_the_token_and_only_the_right_one(address: str) -> None:
    assert answer(address).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", f"127.0.0.1.evil.example:{PORT}", ""]
)
def test_another_host_is_refused_as_after_dns_rebinding(host: str) -> None:
    assert answer(f"/?token={TOKEN}", host=host).status_code == 403
    assert answer("/state", host=host, cookie=COOKIE).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "[::1]", "LOCALHOST"])
def test_each_name_of_the_loopback_interface_is_this_server(host: str) -> None:
    assert answer("/state", host=f"{host}:{PORT}", cookie=COOKIE).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"http://localhost:{PORT}"},
        {"origin": f"https://{HOST}"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_request_from_another_site_is_refused(headers: dict[str, str]) -> None:
    assert answer("/state", cookie=COOKIE, **headers).status_code == 403
    assert answer("/state", cookie=COOKIE, origin=f"http://{HOST}", sec_fetch_site="same-origin").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_the_page_can_only_be_read(method: str) -> None:
    refused = answer("/state", method, cookie=COOKIE)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path", ["/..%2f..%2fetc/passwd", "/page/page.js", "/%2e%2e/app.py", "/cacheunit.toml", "/page.js/"]
)
def test_no_other_file_is_served(path: str) -> None:
    assert answer(path, cookie=COOKIE).status_code in (307, 404)


@pytest.mark.parametrize("path", [f"/?token={TOKEN}", "/state", "/page.js", "/nothing", "/text?number=x"])
def test_every_answer_has_the_headers_of_security(path: str) -> None:
    for credential in ({}, {"cookie": COOKIE}):
        headers = answer(path, **credential).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_the_page_is_light_and_has_no_style_or_script_of_its_own() -> None:
    bodies = {path: answer(path, cookie=COOKIE).text for path in PAGE_FILES}
    assert sum(len(body.encode()) for body in bodies.values()) < MOST_BYTES
    page = bodies["/"]
    assert "style=" not in page
    assert "onclick" not in page
    assert page.count("<script") == 1
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in bodies["/page.js"]


# What it says


class Client:
    """A client of a page that is served."""

    def __init__(self, live: LivePage) -> None:
        self.page = httpx.Client(base_url=live.server.address.partition("?")[0], trust_env=False)
        self.page.get(live.server.address).raise_for_status()

    def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - JSON
        answered = self.page.get(path, params=query)
        answered.raise_for_status()
        return answered.json()

    def text(self, prefix: str, target: str) -> tuple[Any, list[Any]]:
        """Returns the index of a text, and its chunks."""
        query = {"prefix": prefix, "target": target, "number": self.get("state")["number"]}
        index = self.get("text", **query)
        return index, [self.get("chunk", chunk=number, **query) for number in range(len(index["chunks"]))]


@pytest.fixture
def shop(project: Project) -> Iterator[tuple[Project, LivePage, Client]]:
    """Returns a project, its page that is served, and a client of that."""
    project.write(SHOP)
    with live_page(project) as live:
        client = Client(live)
        yield project, live, client
        client.page.close()


def test_a_text_has_the_tokens_that_show_prints(shop: tuple[Project, LivePage, Client]) -> None:
    project, _, client = shop
    for target in ("small", "large"):
        index, chunks = client.text("shop/agent@city=Paris", target)
        shown = project.run("show", "shop/agent@city=Paris", "--target", target, "--tokens", "--format", "json").json
        assert [number for chunk in chunks for number in chunk["ids"]] == [token["id"] for token in shown["tokens"]]
        assert (index["tokens"], index["static"], index["unit"]) == (
            *(len(shown["tokens"]), shown["static"], shown["unit"]),
        )


def test_a_row_has_the_chain_of_its_sources(shop: tuple[Project, LivePage, Client]) -> None:
    _, _, client = shop
    _, (chunk, *_) = client.text("shop/review", "small")
    row = next(row for row in chunk["rows"] if "Rule" in "".join(row["texts"]))
    assert chunk["sources"][row["source"]] == [
        {"path": "templates/rules.j2", "line": 1},
        {"path": "templates/review.j2", "line": 2},
        {"path": "prefixes/shop/review.yaml", "line": 1},
    ]


def test_each_token_has_its_own_source(project: Project) -> None:
    project.write({**SHOP, "templates/review.j2": "You review\n{%- include 'guess.j2' %} Then stop.\n"})
    with live_page(project) as live:
        client = Client(live)
        _, (chunk,) = client.text("shop/review", "small")
        client.page.close()
    first: dict[str, list[Any]] = {}
    for row in chunk["rows"]:
        chains = [chunk["sources"][source] for count, source in row["sources"] for _ in range(count)]
        first |= {text: chain[:1] for text, chain in zip(row["texts"], chains, strict=True)}
    assert first[" review"] == [{"path": "templates/review.j2", "line": 1}]
    assert first[" since"] == [{"path": "templates/guess.j2", "line": 1}]
    assert first[" stop"] == [{"path": "templates/review.j2", "line": 2}]
    assert first["<｜User｜>"] == []


def test_what_belongs_to_another_state_is_no_answer(shop: tuple[Project, LivePage, Client]) -> None:
    project, live, client = shop
    query = {"prefix": "shop/review", "target": "small", "number": client.get("state")["number"]}
    assert client.get("text", **query) is not None
    assert client.get("text", **{**query, "prefix": "../../etc"}) is None
    assert client.get("chunk", **query, chunk=99) is None
    assert client.get("chunk", **query, chunk=-1) is None
    assert client.page.get("text", params={**query, "number": "x"}).status_code == 400
    project.edit("templates/rules.j2", "Rule 0", "Rule zero")
    live.build()
    for path in ("text", "chunk", "lint"):
        assert client.get(path, **query) is None


def test_faults_leave_the_last_good_state_and_its_texts(shop: tuple[Project, LivePage, Client]) -> None:
    project, live, client = shop
    good = client.get("state")
    project.edit("templates/review.j2", "answers.", "answers{{ nothing }}.")
    live.build()
    state = client.get("state")
    assert [fault["place"] for fault in state["faults"]] == ["templates/review.j2:1"]
    assert (state["rows"], state["good_at"]) == (good["rows"], good["good_at"])
    assert "nothing" not in "".join("".join(row["texts"]) for row in client.text("shop/review", "small")[1][0]["rows"])


def test_a_state_has_the_changes_of_the_last_save_with_their_cost(shop: tuple[Project, LivePage, Client]) -> None:
    project, live, client = shop
    before = client.get("state")
    assert before["change"] == 0
    project.edit("templates/rules.j2", "Rule 7: name", "Rule 7: give")
    live.build()
    state = client.get("state")
    assert (state["change"], state["number"]) == (1, before["number"] + 1)
    save, head = state["comparisons"][:2]
    item = next(item for item in save["items"] if item["prefix"] == "shop/review")
    assert (item["kind"], item["place"]["text"], item["what"]) == ("changed", "templates/rules.j2:8", "text edited")
    assert item["cached"] == item["token"] // 8 * 8
    assert [piece["kind"] for piece in save["changes"]["templates/rules.j2:8"][0]] == ["same", "old", "new", "same"]
    assert "repository" in head["problem"]
    live.build()
    assert client.get("state")["change"] == 1  # nothing changed since


def test_on_a_branch_a_state_is_compared_with_where_the_main_branch_was_left(project: Project) -> None:
    project.write(SHOP)
    git(project.root, "init", "-q", "-b", "main")
    commit(project)
    with live_page(project) as live:
        client = Client(live)
        assert [item["name"] for item in client.get("state")["comparisons"]] == ["save", "head"]
        git(project.root, "checkout", "-qb", "topic")
        project.edit("templates/review.j2", "You review", "You check")
        commit(project)
        project.edit("templates/guess.j2", "You guess", "You suppose")
        live.build()
        save, head, main = client.get("state")["comparisons"]
        client.page.close()
    assert head["title"].startswith("HEAD (")
    assert main["title"].startswith("main (merge base ")
    changed = [{item["prefix"] for item in comparison["items"]} for comparison in (save, head, main)]
    assert changed == [{"guess", "shop/review"}, {"guess"}, {"guess", "shop/review"}]


def test_lint_finds_what_the_command_finds_in_that_prefix(shop: tuple[Project, LivePage, Client]) -> None:
    project, _, client = shop
    found = client.get("lint", prefix="guess", target="small", number=client.get("state")["number"])
    expected = project.run("lint", "guess", "--format", "json").json["findings"]
    assert {(item["code"], item["path"], item["line"]) for item in found["items"]} == {
        (item["code"], item["path"], item["line"]) for item in expected
    }
    assert found["items"]


def test_names_with_invisible_characters_are_shown_as_escapes(project: Project) -> None:
    project.write({**SHOP, "templates/agent.j2": "{{ '\u202e' }}{{ nothing\u202e }}"})
    with live_page(project) as live:
        client = Client(live)
        state = client.page.get("state").text
        client.page.close()
    assert "\u202e" not in state
    assert "\\u202e" not in state.replace("\\\\u202e", "")


def test_events_tell_the_number_of_each_state_and_end_with_the_server(project: Project) -> None:
    project.write(SHOP)
    numbers = []
    with live_page(project) as live:
        client = Client(live)
        with client.page.stream("GET", "events") as events:
            lines = (line for line in events.iter_lines() if line.startswith(("id:", "data:")))
            numbers += [next(lines), next(lines)]
            live.build()
            numbers += [next(lines), next(lines)]
    assert numbers == ["id: 1", "data: 1", "id: 2", "data: 2"]
    client.page.close()


# Rows of tokens


def line(*texts: str, part: Any = "system") -> TextLine:  # noqa: ANN401 - one of the literals
    """Returns a line of runs."""
    runs = tuple(TextRun(text=text, part=part, token=0, unit=0, is_static=True, is_cached=None) for text in texts)
    return TextLine(runs=runs, sources=(SourceLine(path="a.j2", line=1),))


def rows(lines: Sequence[TextLine], offsets: Sequence[int]) -> list[tuple[int | None, bool, tuple[str, ...]]]:
    """Returns token, begins and texts of each row."""
    text = FramedText(lines=tuple(lines), offsets=tuple(offsets))
    chunks = token_text(text, range(len(offsets) - 1)).chunks
    return [(row.token, row.begins, row.texts) for chunk in chunks for row in chunk]


@pytest.mark.parametrize(
    ("lines", "offsets", "expected"),
    [
        ((line("Be kind.\n"), line("\n"), line("Go")), (0, 2, 7, 10, 12), [
            (0, True, ("Be", " kind", ".")), (2, False, ("↵",)), (3, True, ("Go",)),
        ]),
        ((line("日a"),), (0, 1, 1, 2), [(0, True, ("日", "", "a"))]),
        ((line("a日"),), (0, 1, 2, 2), [(0, True, ("a", "日", ""))]),
        ((line("a\n"), line("日")), (0, 2, 3, 3), [(0, True, ("a",)), (1, True, ("日", ""))]),
        ((line("a\tb \x1b\u202e \n"),), (0, 3, 7), [(0, True, ("a→b", " ⟨U+001B⟩⟨U+202E⟩·"))]),
    ],
)  # fmt: skip
def test_a_row_has_the_tokens_of_its_line(
    lines: Sequence[TextLine], offsets: Sequence[int], expected: list[tuple[int, bool, tuple[str, ...]]]
) -> None:
    assert rows(lines, offsets) == expected


def test_a_very_long_line_is_several_rows_and_chunks() -> None:
    count = 2 * CHUNK_TOKENS + 5
    text = FramedText(lines=(line("ab" * count),), offsets=tuple(range(0, 2 * count + 1, 2)))
    divided = token_text(text, range(count))
    assert [item["token"] for item in divided.index()] == [0, CHUNK_TOKENS, 2 * CHUNK_TOKENS]
    assert [row.is_continued for chunk in divided.chunks for row in chunk] == [False, True, True]
    assert sum(len(row.texts) for chunk in divided.chunks for row in chunk) == count
    assert divided.chunk(2)["ids"] == tuple(range(2 * CHUNK_TOKENS, count))


def test_a_token_that_began_in_the_line_before_is_no_token_of_a_very_long_line() -> None:
    count = CHUNK_TOKENS + 5
    lines = (line("x\n"), line("ab" * count))
    expected = [(0, True, 1), (0, False, CHUNK_TOKENS), (CHUNK_TOKENS, True, 5)]
    offsets = (0, *range(4, 2 * count + 3, 2))
    assert [(token, begins, len(texts)) for token, begins, texts in rows(lines, offsets)] == expected


def test_a_text_without_tokens_is_shown_by_line() -> None:
    text = FramedText(lines=(line("One\n"), line("x" * 9_000)), offsets=())
    divided = token_text(text, ())
    assert [row.texts[0][:3] for chunk in divided.chunks for row in chunk] == ["One", "xxx", "xxx", "xxx"]
    assert divided.ids == ()


# The editor


def test_a_source_line_opens_in_the_editor_of_the_settings(project: Project) -> None:
    assert editor_link(EDITORS["vscode"], "/home/me/a b", "x.j2", "7") == "vscode://file/home/me/a%20b/x.j2:7"
    assert editor_link(EDITORS["idea"], "C:/work", "x.j2", "7") == "idea://open?file=/C:/work/x.j2&line=7"
    project.write(
        {**SHOP, "cacheunit.toml": SHOP["cacheunit.toml"].replace("editor://open?file={path}&line={line}", "zed")}
    )
    with live_page(project) as live:
        client = Client(live)
        assert client.get("state")["editor"] == f"zed://file{project.root.as_posix()}/{{path}}:{{line}}"
        client.page.close()


@pytest.mark.parametrize(
    ("editor", "message", "hint"),
    [
        ("vscod", 'unknown editor "vscod"', 'did you mean "vscode"?'),
        ("javascript:alert({path})", "is opened by the browser itself, not by an editor", "for example"),
        ("https://evil.example/{path}", "is opened by the browser itself, not by an editor", "for example"),
        ("JavaScript:alert({path})", "is not the address of an editor", "for example"),
        ("ed://open?file={file}", "must have {path}, may have {line}", "for example"),
        ("ed://{path} x", "is not the address of an editor", "for example"),
    ],
)
def test_an_editor_that_is_none_is_a_fault_of_the_settings(
    project: Project, editor: str, message: str, hint: str
) -> None:
    project.write({**SHOP, "cacheunit.toml": f'[watch]\neditor = "{editor}"\n'})
    ran = project.run("build")
    assert ran.code == 2
    assert ran.err.startswith("error: cacheunit.toml:2: ")
    assert message in ran.err
    assert f"hint: {hint}" in ran.err
    assert not project.path("cacheunit.lock").exists()


# The command


def test_a_port_that_is_taken_is_an_error(project: Project) -> None:
    project.write(SHOP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = project.run("watch", "--serve", f"{port}")
    assert ran.code == 2
    assert ran.err == (
        f"error: port {port} is already in use\n\nhint: --serve 0 uses any free port; --serve PORT another one\n"
    )
    assert not project.path("cacheunit.lock").exists()


def test_only_the_loopback_interface_is_listened_at(shop: tuple[Project, LivePage, Client]) -> None:
    port = int(shop[1].server.address.rpartition(":")[2].partition("/")[0])
    with pytest.raises(OSError, match=r"refused|unreachable|timed out|assign"):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_a_missing_extra_is_an_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(SHOP)
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the original
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    ran = project.run("watch", "--serve", "0")
    assert ran.code == 2
    assert "--serve needs the package uvicorn, which is not installed" in ran.err
    assert 'hint: pip install "cacheunit-build[serve]"' in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--serve", "shop/agent"), '"shop/agent" is not a port: put names of prefixes in front of --serve'),
        (("--serve", "70000"), "70000 is not in the range 0<=x<=65535"),
    ],
)
def test_a_port_that_is_none_is_an_error(project: Project, arguments: tuple[str, ...], message: str) -> None:
    project.write(SHOP)
    ran = project.run("watch", *arguments)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.slow
def test_the_command_prints_the_address_serves_and_ends_at_an_interrupt(project: Project) -> None:
    project.write(SHOP)
    program = [sys.executable, "-u", "-c", "from cacheunit_build.cli.main import main; main()"]
    process = subprocess.Popen(
        [*program, "-C", project.root, "watch", "--serve", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    timeout = threading.Timer(60, process.kill)
    timeout.start()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = process.stderr.readline().removeprefix("live page: ").strip()
        assert address.startswith("http://127.0.0.1:")
        assert "built: 7 artifacts" in process.stdout.readline()
        with httpx.Client(base_url=address.partition("?")[0], trust_env=False) as client:
            assert client.get("state").status_code == 403
            client.get(address).raise_for_status()
            with client.stream("GET", "events") as events:
                assert next(events.iter_lines()).startswith("id: ")
                process.send_signal(signal.SIGINT)
                assert process.wait() == 130
        assert process.stderr.read() == "watching for changes\n"
    finally:
        timeout.cancel()
        process.kill()
        process.communicate()
