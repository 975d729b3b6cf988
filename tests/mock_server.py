"""A server of the caches that providers document, on a port of this machine: the one thing that the tests make up."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

from support import default_vocabulary

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"

Kind = Literal["blocks", "tokens", "breakpoints", "persisted", "none", "unreported", "repeats"]


@dataclass
class Engine:
    """One cache: what it holds, what it was sent, and how it misbehaves.

    `failures` are taken one a request before it answers: a status, "html" or "cut"; `retry_after` goes with them.
    `offset` are tokens that the server puts in front of all; `evicts` empties the cache before the request of that
    number; `text` makes numbers of its usage text. `lag` are seconds of its clock `now` until a write is readable;
    `slot` makes it hold the last request only, `whole` serve a repeat to its end; `front` tokens are always served.
    `usage` stands in for its answer; `gauges` is its `/metrics`; `refuses` are markers that it does not take, `longest`
    the most tokens; with `stalls` it does not answer before that is set.
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
    lag: float = 0.0
    now: float = 0.0
    slot: bool = False
    whole: bool = False
    front: int = 0
    usage: dict[str, Any] | None = None
    gauges: str | None = None
    refuses: tuple[str, ...] = ()
    longest: int = 1 << 20
    stalls: threading.Event | None = None
    models: tuple[str, ...] = ("mock",)
    requests: list[dict[str, Any]] = field(default_factory=list)
    held: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[tuple[int, float, tuple[int, ...]]] = field(default_factory=list)
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
        ready = [item for item in self.pending if item[0] + self.delay <= number and item[1] + self.lag <= self.now]
        self.held += [entry for _, _, entry in ready]
        self.pending = [item for item in self.pending if item not in ready]
        hit = self.hit(ids, body)
        entries = self.entries(ids, body)
        written = max((len(entry) for entry in entries if entry not in self.held), default=0) - self.offset
        if self.slot:
            self.held.clear()
        self.pending += [(number + 1, self.now, entry) for entry in entries]
        return {
            "usage": self.reported(body, max(self.front, hit - self.offset), max(0, written), len(ids) - self.offset)
        }

    def reported(self, body: dict[str, Any], hit: int, written: int, total: int) -> object:
        """Its usage, in the form of the request."""
        if self.usage is not None:
            return self.usage.get("usage")
        if self.kind == "unreported":
            return {"prompt_tokens": total, "prompt_tokens_details": None}
        output = {"output_tokens": 500}  # it goes on, whatever it was asked for
        if "system" in body:
            written = written if self.kind == "breakpoints" else 0
            split = {"input_tokens": total - hit - written, "cache_creation_input_tokens": written}
            return {**split, "cache_read_input_tokens": hit, **output}
        numbers = str(hit) if self.text else hit
        counted = str(total) if self.text else total
        if "input" in body:
            return {"input_tokens": counted, "input_tokens_details": {"cached_tokens": numbers}, **output}
        return {"prompt_tokens": counted, "prompt_tokens_details": {"cached_tokens": numbers}, "completion_tokens": 500}

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        """How many tokens the cache serves."""
        best = 0
        for held in self.held:
            same = common_prefix(held, tuple(ids))
            if self.whole and same == len(ids):
                return same
            if self.kind == "blocks":
                same = min(same, len(ids) - 1) // self.unit * self.unit
            elif self.kind == "tokens":
                same = min(same, len(ids) - 1)
            elif self.kind == "breakpoints":  # a block is known as a whole
                same = len(held) if held == self.marked_part(body) else 0
            elif self.kind in ("persisted", "repeats"):
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
            entry = self.marked_part(body)
            return [entry] if self.marked(body) and len(entry) >= self.minimum else []
        if self.kind != "persisted":
            return [ids]
        known = [entry for _, _, entry in self.pending] + self.held
        shared = [ids[: common_prefix(entry, ids)] for entry in known]
        return list(dict.fromkeys([ids, *(entry for entry in shared if len(entry) >= self.unit)]))

    def marked_part(self, body: dict[str, Any]) -> tuple[int, ...]:
        """What stands in front of the user's words, where artifacts carry their marker."""
        place = "input" if "input" in body else "messages"
        return self.ids({**body, place: body[place][:-1]})[:-1]

    @staticmethod
    def marked(body: dict[str, Any]) -> bool:
        """Whether a request carries a cache marker."""
        return any(f'"{marker}": {{' in json.dumps(body) for marker in ("cache_control", "prompt_cache_breakpoint"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits for the client to acknowledge its head
    engine: Engine

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """The models."""
        if self.path == "/metrics" and self.engine.gauges is not None:
            self._send(200, self.engine.gauges.encode(), "text/plain")
            return
        found = self.path == "/v1/models"
        self._reply(200 if found else 404, {"data": [{"id": name} for name in self.engine.models]} if found else {})

    def do_POST(self) -> None:
        """A request for tokens, or for the model."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.engine.stalls is not None:
            self.engine.stalls.wait(10)
        key, given = self.engine.key, self.headers.get("Authorization")
        if self.path.endswith("/tokenize"):
            text = body.get("content", body.get("prompt", ""))
            tokens = self.engine.ids(body) if "messages" in body else default_vocabulary().encode(text)
            self._reply(200, {"tokens": list(tokens)})
        elif key is not None and given != f"Bearer {key}":
            self._reply(401, {"error": {"message": f"wrong key {given}"}})
        elif self.engine.failures:
            self._fail(self.engine.failures.pop(0))
        elif body.get("model") not in self.engine.models:
            self._reply(404, {"error": {"message": "the model does not exist"}})
        elif any(f'"{marker}"' in json.dumps(body) for marker in self.engine.refuses):
            self._reply(400, {"error": {"message": "unknown field"}})
        elif len(self.engine.ids(body)) > self.engine.longest:
            self._reply(400, {"error": {"message": "too long"}})
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
        if engine.stalls is not None:
            engine.stalls.set()
        server.shutdown()
        thread.join()
        server.server_close()
