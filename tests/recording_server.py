"""A server on a local port that records each request, and gives the smallest valid answer of the API that it is for."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CACHED = 7
"""The cached tokens that each answer reports."""
ANSWERS: Mapping[str, Any] = {
    "/completions": {
        "id": "c",
        "object": "text_completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "text": "Yes.", "finish_reason": "stop", "logprobs": None}],
    },
    "/chat/completions": {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 1,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": CACHED},
        },
    },
    "/responses": {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 10,
        },
    },
    "/messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 2, "cache_read_input_tokens": CACHED, "output_tokens": 1},
    },
    ":generateContent": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}}],
        "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": CACHED},
    },
    "/cachedContents": {"name": "cachedContents/recorded", "model": "models/m"},
    "/converse": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 2, "cacheReadInputTokens": CACHED, "outputTokens": 1, "totalTokens": 10},
        "metrics": {"latencyMs": 1},
    },
}
"""The answer to a request, by the end of its path; the longest end that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request as it arrived.

    Attributes:
        path: its path, percent-encoded.
        headers: its headers, their names in lower case.
        data: the bytes of its body.
    """

    path: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> Any:  # noqa: ANN401 - JSON
        """The body as JSON, its keys in the order in which they arrived."""
        return json.loads(self.data)


@dataclass(slots=True)
class Recorder:
    """The requests that a server received so far.

    Attributes:
        url: the base URL, without a path.
        requests: the requests, in order.
    """

    url: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)

    @property
    def last(self) -> RecordedRequest:
        """The last request."""
        return self.requests[-1]


class _Handler(BaseHTTPRequestHandler):
    """Records requests; each connection is closed after its answer."""

    recorder: Recorder

    def log_message(self, *_: object) -> None:
        """Prints no log."""

    def do_POST(self) -> None:
        """Records the request, and answers it."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.recorder.requests.append(RecordedRequest(path=self.path, headers=headers, data=data))
        ends = [end for end in ANSWERS if self.path.endswith(end)]
        answer = json.dumps(ANSWERS[max(ends, key=len)] if ends else {"error": {"message": "no such path"}}).encode()
        self.send_response(200 if ends else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Serves until the block ends."""
    recorder = Recorder()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"recorder": recorder}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    recorder.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
