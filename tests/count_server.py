"""A mock of the routes that count tokens: one server for all providers, whose vocabulary no estimate is made with."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary

ROUTES = {
    r"/v1/messages/count_tokens": "input_tokens",
    r"/v1/responses/input_tokens": "input_tokens",
    r"/v1beta/models/([^/:]+):countTokens": "totalTokens",
    r"/model/([^/]+)/count-tokens": "inputTokens",
}
"""The pattern of each path, and the key of its answer."""
KEYS = {
    "messages": {"messages", "model", "system", "tools", "tool_choice", "thinking", "output_config"},
    "input": {"input", "model", "tools", "tool_choice", "reasoning", "text", "parallel_tool_calls"},
    "contents": {"contents", "model", "systemInstruction", "tools", "toolConfig", "generationConfig"},
    "converse": {"messages", "system", "toolConfig", "additionalModelRequestFields"},
}
"""The keys of a request that each provider takes here, by the key that tells them apart."""


@cache
def vocabulary() -> Vocabulary:
    """Returns the vocabulary that counts: OpenAI's, while estimates are made with DeepSeek's."""
    return LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding="o200k_base"))


@dataclass
class Provider:
    """A provider that counts.

    Attributes:
        front: tokens in front of every request.
        role: tokens of a role marker, in front of each message.
        end: tokens behind each message.
        behind: tokens behind the last message, in front of the answer.
        preamble: tokens in front of tools.
        key: the API key that it requires, in any header; None for none.
        models: the models that it has.
        failures: one for each request before it answers normally: a status, or an answer.
        requests: path and body of all requests so far.
        fronts: the tokens in front of the user's words of each request that was counted: what is to be recorded.
        url: URL without a path, while it is served.
    """

    front: int = 1
    role: int = 3
    end: int = 1
    behind: int = 2
    preamble: int = 400
    key: str | None = None
    models: tuple[str, ...] = ("mock-1",)
    failures: list[Any] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fronts: list[int] = field(default_factory=list)
    url: str = ""

    def count(self, request: dict[str, Any]) -> int:
        """Returns the tokens of a whole request, and notes those in front of the user's words."""
        tools = request.get("tools") or request.get("toolConfig", {}).get("tools")
        front = self.front + (self.preamble + self.tokens(json.dumps(tools)) if tools else 0)
        system = request.get("system") or request.get("systemInstruction")
        messages = [*([{"content": system}] if system else [])]
        messages += request.get("messages") or request.get("input") or request.get("contents") or []
        *former, last = [self.tokens(text_of(message)) for message in messages]
        front += sum(self.role + tokens + self.end for tokens in former) + self.role
        self.fronts.append(front)
        return front + last + self.end + self.behind

    @staticmethod
    def tokens(text: str) -> int:
        """Returns the tokens of a text."""
        return len(vocabulary().encode(text))


def text_of(value: object) -> str:
    """Returns all texts in a message of any format, one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(text_of, value))
    if not isinstance(value, dict):
        return ""
    known = [value[key] for key in ("content", "parts", "text") if key in value]
    return "".join(map(text_of, known)) if known else json.dumps(value)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: Provider

    def log_message(self, *_: object) -> None:
        """Prints no log."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.provider.requests.append((self.path, body))
        self._reply(*self._answer(body))

    def _answer(self, body: dict[str, Any]) -> tuple[int, object]:
        """Returns the status and the answer to a request."""
        matches = [(match, key) for route, key in ROUTES.items() if (match := re.fullmatch(route, self.path))]
        if not matches:
            return 404, {"error": {"message": "no such route"}}
        keys = {self.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key")}
        keys.add(self.headers.get("Authorization", "").removeprefix("Bearer "))
        if self.provider.key is not None and self.provider.key not in keys:
            return 401, {"error": {"message": "invalid key"}}
        if self.provider.failures:
            failure = self.provider.failures.pop(0)
            return (failure, {"error": {"message": "not now"}}) if isinstance(failure, int) else (200, failure)
        (match, answer_key), *_ = matches
        request = body.get("generateContentRequest") or body.get("input", {}) if answer_key != "input_tokens" else body
        request = request.get("converse", request)
        path_model = next(iter(match.groups()), None)
        model = str(request.get("model", path_model)).removeprefix("models/")
        if model not in self.provider.models or path_model not in (None, model):
            return 404, {"error": {"message": f"the model {model} does not exist"}}
        kind = "converse" if answer_key == "inputTokens" else next(key for key in KEYS if key in request)
        if unknown := request.keys() - KEYS[kind]:
            return 400, {"error": {"message": f"unknown parameter: {sorted(unknown)}"}}
        if re.search(r'"(cache_control|prompt_cache_breakpoint|cachePoint)"', json.dumps(request)):
            return 400, {"error": {"message": "a cache marker"}}
        return 200, {answer_key: self.provider.count(request)}

    def _reply(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def counting(provider: Provider) -> Iterator[Provider]:
    """Serves a provider at its `url` until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"provider": provider}))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
