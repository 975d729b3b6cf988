"""A server of the caches that providers document, on a port of this machine: the one thing that the tests make up."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

from tests_support import default_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"

Kind = Literal["blocks", "tokens", "breakpoints", "persisted", "none", "unreported"]


@dataclass
class Engine:
    """One cache: what it holds, what it was sent, and how it misbehaves.

    `failures` are taken one a request before it answers: a status, "html" or "cut"; `retry_after` goes with them.
    `offset` are tokens that the server puts in front of all; `evicts` empties the cache before the request of that
    number; `text` makes numbers of its usage text.
    """

    kind: Kind = "blocks"
    unit: int = 128
    minimum: int = 0
    offset: int = 0
    key: str | None = None
    failures: list[int | str] = field(default_factory=list)
    retry_after: str = "0"
    evicts: int | None = None
    text: bool = False
    delay: int = 0
    models: tuple[str, ...] = ("mock",)
    requests: list[dict[str, Any]] = field(default_factory=list)
    held: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    url: str = ""

    def ids(self, body: dict[str, Any]) -> tuple[int, ...]:
        """The tokens of a request, in the frame of the default target."""
        if "prompt" in body:
            text = START + body["prompt"]
        else:
            said = [f"{json.dumps(tool)}\n" for tool in body.get("tools", ())]
            said += [block["text"] for block in body.get("system", ())]
            for message in body.get("messages", body.get("input", ())):
                content = message["content"]
                content = content if isinstance(content, str) else "".join(block["text"] for block in content)
                said.append((USER if message["role"] == "user" else "") + content)
            text = START + "".join(said) + ASSISTANT
        return (*([7] * self.offset), *default_vocabulary().encode(text))

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Serves from the cache by the rule, then fills it."""
        number = len(self.requests)
        self.requests.append(body)
        if self.evicts == number:
            self.held.clear()
            self.pending.clear()
        ids = self.ids(body)
        self.held += [entry for since, entry in self.pending if since + self.delay <= number]
        self.pending = [(since, entry) for since, entry in self.pending if since + self.delay > number]
        hit = self.hit(ids, body)
        self.pending += [(number + 1, entry) for entry in self.entries(ids, body)]
        hit = max(0, hit - self.offset)
        total = len(ids) - self.offset
        if self.kind == "unreported":
            return {"usage": {"prompt_tokens": total, "prompt_tokens_details": None}}
        if "system" in body or body.get("anthropic"):
            return {
                "usage": {"input_tokens": total - hit, "cache_read_input_tokens": hit, "cache_creation_input_tokens": 0}
            }
        numbers = str(hit) if self.text else hit
        return {"usage": {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": numbers}}}

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        """How many tokens the cache serves."""
        best = 0
        for held in self.held:
            same = 0
            while same < min(len(held), len(ids)) and held[same] == ids[same]:
                same += 1
            if self.kind == "blocks":
                same = min(same, len(ids) - 1) // self.unit * self.unit
            elif self.kind == "tokens":
                same = min(same, len(ids) - 1)
            elif self.kind in ("breakpoints", "persisted"):
                same = len(held) if same == len(held) else 0
            best = max(best, same if same >= self.minimum else 0)
        if self.kind == "persisted":
            best -= best % self.unit
        if self.kind == "breakpoints" and not self.marked(body):
            best = 0
        return 0 if self.kind == "none" else best

    def entries(self, ids: tuple[int, ...], body: dict[str, Any]) -> list[tuple[int, ...]]:
        """What a request leaves in the cache."""
        if self.kind == "breakpoints":
            marked = self.marked(body)
            return [self.ids({**body, "messages": []})[:-1]] if marked and len(ids) >= self.minimum else []
        if self.kind != "persisted":
            return [ids]
        known = [entry for _, entry in self.pending] + self.held
        shared = []
        for entry in known:
            same = 0
            while same < min(len(entry), len(ids)) and entry[same] == ids[same]:
                same += 1
            shared.append(ids[:same])
        return [ids, *(entry for entry in shared if len(entry) > self.unit)]

    @staticmethod
    def marked(body: dict[str, Any]) -> bool:
        """Whether a request carries a cache marker."""
        return '"cache_control"' in json.dumps(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """The models."""
        found = self.path == "/v1/models"
        self._reply(200 if found else 404, {"data": [{"id": name} for name in self.engine.models]} if found else {})

    def do_POST(self) -> None:
        """A request for tokens, or for the model."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, given = self.engine.key, self.headers.get("Authorization")
        if self.path.endswith("/tokenize"):
            self._reply(200, {"tokens": default_vocabulary().encode(body.get("content", body.get("prompt", "")))})
        elif key is not None and given != f"Bearer {key}":
            self._reply(401, {"error": {"message": f"wrong key {given}"}})
        elif self.engine.failures:
            self._fail(self.engine.failures.pop(0))
        elif body.get("model") not in self.engine.models:
            self._reply(404, {"error": {"message": "the model does not exist"}})
        else:
            self._reply(200, self.engine.answer(body))

    def _fail(self, failure: int | str) -> None:
        if isinstance(failure, int):
            self._reply(failure, {"error": {"message": "not now"}})
        elif failure == "html":
            self._send(200, b"<!doctype html><p>Welcome", "text/html")
        else:
            self._send(200, b'{"usage": {"prompt_tok')

    def _reply(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value).encode())

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", self.engine.retry_after)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """The engine at its `url`, until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"engine": engine}))
    server.daemon_threads = False  # so that closing waits for them
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    engine.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
