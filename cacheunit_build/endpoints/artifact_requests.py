"""Sends one locked artifact to an endpoint, each time with another user message, and reads its token ids there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.endpoint import Endpoint
    from cacheunit_build.domain.usage import Usage

_WORDS = (
    *("Apples", "Bridges", "Clouds", "Deserts", "Engines", "Forests", "Gardens", "Harbors", "Islands", "Journals"),
    *("Kitchens", "Ladders", "Markets", "Numbers", "Oceans", "Quarries", "Rivers", "Stations", "Tunnels", "Valleys"),
)
USER_MESSAGES = (
    "Please say in one word what this is about.",
    "42 is the answer; what was the question?",
    "\nAnd once more, on a new line: is all well?",
    "Über alles andere reden wir später.",
    "那么,请用一句话回答。",
    "- a list\n- of two items",
    *(f"{word} are not mentioned, or are they?" for word in _WORDS),
)
"""The user messages that follow a prefix; no two of them begin with the same character, and so with the same token."""


class ArtifactRequests:
    """The requests that one artifact makes at one endpoint; request number 0 is the first one.

    Attributes:
        artifact: the artifact.
        rule: the cache rule of its target.
    """

    def __init__(self, artifact: Artifact, loaded: LoadedTarget, endpoint: Endpoint, model: str) -> None:
        self.artifact = artifact
        self.rule = loaded.target.cache
        self._tokenizer = loaded.tokenizer
        self._format = loaded.request_format
        self._endpoint = endpoint
        self._model = model

    def send(self, number: int, wait: float = 0.0) -> Usage:
        """Sends the request with this number after `wait` seconds; returns the usage that the endpoint reports."""
        self._endpoint.wait(wait)
        return self._endpoint.send(self._format.route, self._body(number))

    def target_ids(self, following: str = "") -> list[int]:
        """Returns the token ids of the framed prefix and a text that follows it, by the target's tokenizer."""
        return list(self._tokenizer.encode(self.artifact.framed_prefix + following))

    def server_ids(self, following: str = "") -> Sequence[int] | None:
        """Returns the token ids of the framed prefix and a text that follows it, by the server's tokenizer.

        A start token that the server adds by itself is left out. None where the server has no route for that.
        """
        ids = self._endpoint.tokenize(self._model, self.artifact.framed_prefix + following)
        if ids is None:
            return None
        start = self.target_ids()[:1]
        return list(ids)[1:] if list(ids)[1:2] == start != list(ids)[:1] else list(ids)

    def server_request_ids(self, number: int) -> Sequence[int] | None:
        """Returns the token ids that the server's model reads for a request; None where the server does not tell."""
        if self._format.has_chat_template:
            return self._endpoint.tokenize_chat(self._body(number))
        return None if self._format.has_messages else self.server_ids(user_message(number))

    def keeps_all_tokens(self, number: int) -> bool:
        """Returns whether no token of the framed prefix merges with the user message, by the target's tokenizer."""
        framed = self.target_ids()
        return self.target_ids(user_message(number))[: len(framed)] == framed

    def _body(self, number: int) -> dict[str, Any]:
        """Returns the JSON body of the request with this number."""
        fragment = json.loads(self.artifact.request)
        return {**self._format.append_user(fragment, user_message(number)), "model": self._model}


def user_message(number: int) -> str:
    """Returns the user message of the request with this number."""
    return USER_MESSAGES[number % len(USER_MESSAGES)]
