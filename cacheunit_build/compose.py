"""Rendered + Target -> Request, and a request with its padding -> the exact bytes of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.fingerprint import canonical_json
from cacheunit_build.model import Request

if TYPE_CHECKING:
    from cacheunit_build.model import Rendered, Target


def compose(rendered: Rendered, target: Target) -> Request:
    """The request that `target` receives, in its frame."""
    return Request(format=target.request, system=rendered.system, before=target.frame.before, after=target.frame.after)


def freeze_text(request: Request, padding: str) -> bytes:
    """The bytes of `build/<prefix>/<target>.txt`: the system text and its padding."""
    return (request.system + padding).encode()


def freeze_fragment(request: Request, padding: str) -> bytes:
    """The bytes of `build/<prefix>/<target>.json`: what a client merges into each request, as canonical JSON."""
    return canonical_json(_FRAGMENTS[request.format](request.system + padding))


def _openai_chat(system: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}]}


def _openai_responses(system: str) -> dict[str, Any]:
    return {"input": [{"role": "developer", "content": [{"type": "input_text", "text": system}]}]}


def _anthropic_messages(system: str) -> dict[str, Any]:
    return {"system": [{"type": "text", "text": system}]}


def _text(system: str) -> dict[str, Any]:
    return {"prompt": system}


_FRAGMENTS = {
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic-messages": _anthropic_messages,
    "text": _text,
}
