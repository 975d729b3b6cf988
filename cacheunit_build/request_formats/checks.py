"""Checks of a request made from a frozen prefix: what it may set beside the fragment, and what may follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.front_options import allowed_names, has_value, refuse_other_values, without
from cacheunit_build.domain.model_names import is_listed_model
from cacheunit_build.request_formats.following import marker_count
from cacheunit_build.request_formats.formats import FORMATS

_PARTS = frozenset({"input", "messages", "prompt", "system", "tools"})
"""The keys of a fragment that hold the parts of a prefix; the others are frozen options."""
_MODEL = "model"
_NO_MESSAGES = str | bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What follows a prefix in one request.

    Attributes:
        messages: the messages; None where there are none.
        continuation: the text that follows, for the format `text`.
        dynamic: a text that differs between requests, in front of all that.
    """

    messages: Sequence[Any] | None
    continuation: str = ""
    dynamic: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError where one of the values has the wrong type."""
        for name, text in (("continuation", self.continuation), ("dynamic", self.dynamic)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a str, not {type(text).__name__}")
        messages: object = self.messages
        if messages is None:
            return
        if isinstance(messages, _NO_MESSAGES) or not isinstance(messages, Sequence):
            raise TypeError(f"messages must be a list of messages, not {type(messages).__name__}")
        for index, message in enumerate(messages):
            if not isinstance(message, Mapping) and not hasattr(message, "role") and not hasattr(message, "type"):
                given = type(message).__name__
                raise TypeError(f"messages[{index}] must be a mapping or an object with a role, not {given}")


class RequestChecks:
    """The checks of requests made from one prefix.

    Args:
        prefix: the name of the prefix.
        target: the name of its target.
        identity: the entry of its target in the lock.
        fragment: its frozen fragment.
    """

    def __init__(self, prefix: str, target: str, identity: Mapping[str, Any], fragment: dict[str, Any]) -> None:
        self._prefix = prefix
        self._target = target
        self._fragment = fragment
        self._format = FORMATS[identity["format"]]
        self._marker = identity["cache"].get("marker")
        self._options: Mapping[str, Any] = identity.get("options", {})
        self._models: Sequence[str] = identity.get("models", ())

    def fragment_for(self, others: Mapping[str, Any], allow: object) -> dict[str, Any]:
        """Returns the fragment for a request with these other arguments, without options that they may set otherwise.

        Raises:
            CacheunitError: an argument would replace a frozen part, change what stands in front of it, or name a model
                that is not the target's.
            TypeError: `allow` is not a tuple of names.
        """
        allowed = allowed_names(allow, {*self._options, _MODEL})
        options = {name: option for name, option in self._options.items() if name not in allowed}
        fragment = self._fragment
        has_examples = self._format.has_examples(fragment)
        for body in (others, others.get("extra_body") or {}):
            self._refuse_parts(body)
            refuse_other_values(body, options, self._fragment, prefix=self._prefix, has_examples=has_examples)
            if _MODEL not in allowed:
                self._refuse_model(body)
            for name in allowed & self._options.keys():
                fragment = without(fragment, name) if has_value(body, name) else fragment
        return fragment

    def _refuse_parts(self, body: Mapping[str, Any]) -> None:
        """Raises an error where a body would replace a frozen part; what follows it belongs into the messages."""
        parts = (self._fragment.keys() & _PARTS) | {self._format.messages_key}
        for part in sorted(parts & body.keys()):
            raise fail(f'"{part}" is frozen in prefix "{self._prefix}"', hint="put what follows it into messages")

    def _refuse_model(self, body: Mapping[str, Any]) -> None:
        """Raises an error for a model that is not one of the target's, where these are listed."""
        model = body.get(_MODEL)
        if not self._models or not has_value(body, _MODEL) or is_listed_model(str(model), self._models):
            return
        listed = ", ".join(self._models)
        message = f'model "{model}" is not one of those of target "{self._target}", whose cache and tokens were counted'
        hint = f'the models are {listed}; compile the prefix for a target with this model, or pass allow=("model",)'
        raise fail(message, hint=hint)

    def with_following(self, fragment: dict[str, Any], following: Following, *, mark: bool) -> dict[str, Any]:
        """Returns a request: the fragment with what follows it, with the marker of the conversation if `mark`.

        Raises:
            CacheunitError: what follows is in the form of another format, or there is no place for text or marker.
        """
        has_messages = self._format.has_messages
        if has_messages != (following.messages is not None) or (has_messages and following.continuation):
            wanted = "messages, and no continuation" if has_messages else "continuation, and no messages"
            raise fail(f'request() of prefix "{self._prefix}" for {self._target} needs {wanted}')
        messages: Sequence[Any] = [following.continuation] if following.messages is None else following.messages
        if following.dynamic:
            fragment, messages = self._format.with_dynamic(fragment, messages, following.dynamic)
        if mark:
            messages = self._format.with_marker(messages, self._needed_marker())
        return self._format.append(fragment, messages)

    def _needed_marker(self) -> Any:  # noqa: ANN401 - a name from the lock
        if self._marker is None:
            message = f'target "{self._target}" has no cache marker: it needs none for the conversation to be cached'
            raise fail(message, hint="leave out conversation_marker")
        return self._marker

    def refuse_too_many_markers(self, request: Mapping[str, Any]) -> None:
        """Raises an error where a request carries more cache markers than its API takes."""
        count = marker_count(request, self._format.messages_key, str(self._marker))
        if count > self._format.most_markers:
            most = f"{self._format.most_markers} markers"
            message = f'a request of format "{self._format.name}" takes at most {most}: this one has {count}'
            raise fail(message, hint=f"leave out {self._marker} in older messages")
