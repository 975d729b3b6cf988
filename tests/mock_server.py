"""A mock server on a local port, with the kinds of caches that providers document."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from support import default_vocabulary

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"

_MODEL_IN_PATH = re.compile(r"/(?:models/([^/:]+):generateContent|model/([^/]+)/converse)$")

Kind = Literal["blocks", "tokens", "breakpoints", "persisted", "none", "unreported", "repeats"]


@dataclass
class Engine:
    """One mock engine: its cache rule, its faults, what it was sent, and what its cache holds.

    Attributes:
        kind: how the cache works; `persisted` stores requests and what two of them share, `repeats` serves exact
            repeats only, `unreported` leaves cached tokens out of its usage.
        unit: tokens in one cache unit.
        minimum: the fewest tokens that are served.
        dropped_units: the last units that requests share and that are computed again all the same.
        hits: number of a request -> the tokens that it is served, whatever the cache holds.
        merges_after: a text whose last four tokens become one, another one for each text that follows it.
        offset: tokens that the server puts in front of every request, and does not count.
        key: the API key that it requires; None for none.
        failures: one for each request before it answers normally: a status, `html` or `cut`.
        retry_after: value of the header that comes with every response.
        evicts: number of the request before which the cache is emptied.
        numbers_as_text: whether the numbers in its usage are strings.
        lag: seconds of its clock until a write is readable.
        now: its clock, in seconds; tests move it.
        slot: whether the cache holds the last request only.
        serves_last_token: whether an exact repeat is served to its end.
        always_cached: tokens that are reported as cached for every request.
        usage: a body that replaces its answers.
        metrics: the text of `/metrics`; None where there is no such page.
        refused_markers: cache markers that it does not accept.
        longest: the most tokens of a request.
        stalls: no request is answered before this is set.
        models: names of the models that it serves.
        requests: the bodies of all requests so far.
        held: token ids of all readable cache entries.
        pending: writes that are not readable yet: number of the request, time, token ids.
        url: base URL while it is served.
    """

    kind: Kind = "blocks"
    unit: int = 128
    minimum: int = 0
    dropped_units: int = 0
    hits: dict[int, int] = field(default_factory=dict)
    merges_after: str = ""
    offset: int = 0
    key: str | None = None
    failures: list[int | str] = field(default_factory=list)
    retry_after: str = "0"
    evicts: int | None = None
    numbers_as_text: bool = False
    lag: float = 0.0
    now: float = 0.0
    slot: bool = False
    serves_last_token: bool = False
    always_cached: int = 0
    usage: dict[str, Any] | None = None
    metrics: str | None = None
    refused_markers: tuple[str, ...] = ()
    longest: int = 1 << 20
    stalls: threading.Event | None = None
    models: tuple[str, ...] = ("mock",)
    requests: list[dict[str, Any]] = field(default_factory=list)
    held: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[tuple[int, float, tuple[int, ...]]] = field(default_factory=list)
    url: str = ""

    def ids(self, body: dict[str, Any]) -> tuple[int, ...]:
        """Returns the token ids of a request in the frame of the default target."""
        if "prompt" in body:
            text = START + body["prompt"]
        else:
            tools = body.get("tools", body.get("toolConfig", {}).get("tools", ()))
            parts = [f"{json.dumps(tool)}\n" for tool in tools if "cachePoint" not in tool]
            parts.append(_text(body.get("system", body.get("systemInstruction", {}).get("parts", ()))))
            messages = body[messages_key(body)]
            parts += [(USER if message["role"] == "user" else "") + _text(_content(message)) for message in messages]
            text = START + "".join(parts) + ASSISTANT
        return (*([7] * self.offset), *self.encode(text))

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text, in the default vocabulary except where tokens merge."""
        before, merged, after = text.partition(self.merges_after) if self.merges_after else (text, "", "")
        if not after:
            return default_vocabulary().encode(text)
        return [*default_vocabulary().encode(before + merged)[:-4], len(after), *default_vocabulary().encode(after)]

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answers a request: serves it from the cache, then writes it to the cache."""
        number = len(self.requests)
        self.requests.append(body)
        if self.evicts == number:
            self.held.clear()
            self.pending.clear()
        ids = self.ids(body)
        ready = [item for item in self.pending if item[0] <= number and item[1] + self.lag <= self.now]
        self.held += [entry for _, _, entry in ready]
        self.pending = [item for item in self.pending if item not in ready]
        hit = self.hits.get(number, self.hit(ids, body))
        entries = self.entries(ids, body)
        written = max((len(entry) for entry in entries if entry not in self.held), default=0) - self.offset
        if self.slot:
            self.held.clear()
        self.pending += [(number + 1, self.now, entry) for entry in entries]
        reported = self.reported(
            body, max(self.always_cached, hit - self.offset), max(0, written), len(ids) - self.offset
        )
        return {"usageMetadata" if "contents" in body else "usage": reported}

    def reported(self, body: dict[str, Any], hit: int, written: int, total: int) -> object:
        """Returns the usage in the form of the request."""
        if self.usage is not None:
            return self.usage.get("usage")
        if self.kind == "unreported":
            return {"prompt_tokens": total, "prompt_tokens_details": None}
        output = {"output_tokens": 500}  # more than was asked for, as some servers do
        if "contents" in body:
            return {"promptTokenCount": total, "cachedContentTokenCount": hit, "candidatesTokenCount": 500}
        if "inferenceConfig" in body:
            split = {"inputTokens": total - hit - written, "cacheReadInputTokens": hit, "outputTokens": 500}
            return {**split, "cacheWriteInputTokens": written}
        if "system" in body:
            written = written if self.kind == "breakpoints" else 0
            split = {"input_tokens": total - hit - written, "cache_creation_input_tokens": written}
            return {**split, "cache_read_input_tokens": hit, **output}
        cached = str(hit) if self.numbers_as_text else hit
        prompt = str(total) if self.numbers_as_text else total
        if "input" in body:
            return {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached}, **output}
        return {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens": 500}

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        """Returns the tokens that the cache serves of a request."""
        if self.kind == "none" or (self.kind == "breakpoints" and not self.marked(body)):
            return 0
        if self.serves_last_token and any(common_prefix(held, tuple(ids)) == len(ids) for held in self.held):
            return len(ids)
        best = max((self.hit_of_entry(held, ids, body) for held in self.held), default=0)
        if self.kind == "persisted":
            best = max(0, best // self.unit - self.dropped_units) * self.unit
        return best

    def hit_of_entry(self, held: tuple[int, ...], ids: Sequence[int], body: dict[str, Any]) -> int:
        """Returns the tokens that one cache entry serves of a request; 0 if they are fewer than the minimum."""
        shared = common_prefix(held, tuple(ids))
        if self.kind == "blocks":
            shared = min(shared, len(ids) - 1) // self.unit * self.unit
        elif self.kind == "tokens":
            shared = min(shared, len(ids) - 1)
        elif self.kind == "breakpoints":  # the hash of a block covers all of it
            shared = len(held) if held == self.marked_part(body) else 0
        elif self.kind in ("persisted", "repeats"):
            shared = len(held) if shared == len(held) else 0
        dropped = self.dropped_units * self.unit if self.kind == "blocks" else 0
        return max(0, shared - dropped) if shared >= self.minimum else 0

    def entries(self, ids: tuple[int, ...], body: dict[str, Any]) -> list[tuple[int, ...]]:
        """Returns the token ids of the entries that a request writes to the cache."""
        if self.kind == "breakpoints":
            entry = self.marked_part(body)
            return [entry] if self.marked(body) and len(entry) >= self.minimum else []
        if self.kind != "persisted":
            return [ids]
        known = [entry for _, _, entry in self.pending] + self.held
        shared = [ids[: common_prefix(entry, ids)] for entry in known]
        return list(dict.fromkeys([ids, *(entry for entry in shared if len(entry) >= self.unit)]))

    def marked_part(self, body: dict[str, Any]) -> tuple[int, ...]:
        """Returns the token ids up to the marker: all but the user message."""
        place = messages_key(body)
        return self.ids({**body, place: body[place][:-1]})[:-1]

    @staticmethod
    def marked(body: dict[str, Any]) -> bool:
        """Whether a request carries a cache marker."""
        markers = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
        return any(f'"{marker}": {{' in json.dumps(body) for marker in markers)


def messages_key(body: dict[str, Any]) -> str:
    """Returns the key of the messages of a request."""
    return next((key for key in ("input", "contents") if key in body), "messages")


def _content(message: dict[str, Any]) -> Any:  # noqa: ANN401 - text, or a list of blocks
    """Returns the content of a message."""
    return message.get("parts", message.get("content"))


def _text(content: str | list[dict[str, Any]]) -> str:
    """Returns the text of a content, without markers that are blocks of their own."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


class _Handler(BaseHTTPRequestHandler):
    """Handles the routes of the mock server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each response waits until the client acknowledges its headers
    engine: Engine

    def log_message(self, *_: object) -> None:
        """Prints no log."""

    def do_GET(self) -> None:
        """Answers `/v1/models` and `/metrics`."""
        if self.path == "/metrics" and self.engine.metrics is not None:
            self._send(200, self.engine.metrics.encode(), "text/plain")
            return
        if self.path == "/v1/models":
            self._reply(200, {"data": [{"id": name} for name in self.engine.models]})
        else:
            self._reply(404, {})

    def do_POST(self) -> None:
        """Answers `/tokenize`, and requests to the model."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        in_path = _MODEL_IN_PATH.search(self.path)
        if in_path is not None:
            body["model"] = unquote(in_path[1] or in_path[2])
        if self.engine.stalls is not None:
            self.engine.stalls.wait(10)
        key, authorization = self.engine.key, self.headers.get("Authorization")
        if ":generateContent" in self.path:
            authorization = f"Bearer {self.headers.get('x-goog-api-key')}"
        if self.path.endswith("/tokenize"):
            text = body.get("content", body.get("prompt", ""))
            tokens = self.engine.ids(body) if "messages" in body else self.engine.encode(text)
            self._reply(200, {"tokens": list(tokens)})
        elif key is not None and authorization != f"Bearer {key}":
            self._reply(401, {"error": {"message": f"wrong key {authorization}"}})
        elif self.engine.failures:
            self._fail(self.engine.failures.pop(0))
        elif body.get("model") not in self.engine.models:
            self._reply(404, {"error": {"message": "the model does not exist"}})
        elif any(f'"{marker}"' in json.dumps(body) for marker in self.engine.refused_markers):
            self._reply(400, {"error": {"message": "unknown field"}})
        elif len(self.engine.ids(body)) > self.engine.longest:
            self._reply(400, {"error": {"message": "too long"}})
        else:
            self._reply(200, self.engine.answer(body))

    def _fail(self, failure: int | str) -> None:
        """Answers with an error status, an HTML page, or half of a response."""
        if isinstance(failure, int):
            self._reply(failure, {"error": {"message": "not now"}})
        elif failure == "html":
            self._send(200, b"<!doctype html><p>Welcome", "text/html")
        else:
            self._send(200, b'{"usage": {"prompt_tok')

    def _reply(self, status: int, value: object) -> None:
        """Answers with JSON."""
        self._send(status, json.dumps(value).encode())

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        """Sends a whole response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", self.engine.retry_after)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """Serves an engine at its `url` until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"engine": engine}))
    server.daemon_threads = False  # closing then waits for them
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
