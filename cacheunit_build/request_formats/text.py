"""The request format of plain text completions: one prompt, without messages or tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import RequestFormat, body
from cacheunit_build.request_formats.following import BLANK_LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.request_formats.parts import Json, MarkerPlace, PrefixParts


class Text(RequestFormat):
    """The `prompt` of a completion, which the continuation is appended to."""

    name = "text"
    route = EndpointRoute(path="completions")
    messages_key = "prompt"
    has_messages = False

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `prompt`, the system text."""
        return body(parts, prompt=parts.system)

    def last_markable(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns None: a prompt has no marker."""
        del parts
        return None

    def content_blocks(self, fragment: Json) -> tuple[str, ...]:
        """Returns the prompt as the only block, as JSON."""
        return (json.dumps(fragment["prompt"], ensure_ascii=False),)

    def marked_blocks(self, fragment: Json) -> tuple[int, ...]:
        """Returns none: a prompt has no marker."""
        del fragment
        return ()

    def with_dynamic(self, fragment: Json, messages: Sequence[Any], text: str) -> tuple[Json, Sequence[Any]]:
        """Returns the text in front of the continuation, with a blank line between them."""
        continuation = "".join(messages)
        return fragment, [BLANK_LINE.join(part for part in (text, continuation) if part)]

    def append(self, fragment: Json, messages: Sequence[Any]) -> Json:
        """Returns a request whose prompt ends with the texts `messages`."""
        return {**fragment, "prompt": "".join([fragment["prompt"], *messages])}

    def append_user(self, fragment: Json, text: str) -> Json:
        """Returns a request whose prompt ends with `text`."""
        return self.append(fragment, [text])
