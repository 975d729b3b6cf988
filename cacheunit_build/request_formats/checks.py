"""Checks of a request made from a frozen prefix: what it may set beside the fragment, and what may follow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.front_options import (
    MANIFEST_KEYS,
    SYSTEM_MESSAGE,
    FrozenPrefix,
    allowed_names,
    extra_body_of,
    has_value,
    refuse_other_values,
    without,
)
from cacheunit_build.domain.lifetimes import lifetime_seconds
from cacheunit_build.domain.model_names import is_listed_model
from cacheunit_build.request_formats.following import markers_of, role_of
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import CacheRule

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
        """Raises TypeError where a text has the wrong type, and CacheunitError where the dynamic one is blank."""
        for name, text in (("continuation", self.continuation), ("dynamic", self.dynamic)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a str, not {type(text).__name__}")
        if self.dynamic and not self.dynamic.strip():
            raise fail("dynamic is blank", hint="leave it out")


class RequestChecks:
    """The checks of requests made from one prefix.

    Args:
        key: the prefix or variant, and the target.
        locked: the identity of its target in the lock, and the cache rule in it.
        fragment: its frozen fragment.
        exact: whether its tokens are counted exactly.
    """

    def __init__(
        self,
        key: tuple[str, str],
        locked: tuple[Mapping[str, Any], CacheRule],
        fragment: dict[str, Any],
        *,
        exact: bool,
    ) -> None:
        self._prefix, self._target = key
        identity, rule = locked
        self._fragment = fragment
        self._exact = exact
        self._format = FORMATS[identity["format"]]
        self._rule = rule
        self._options: Mapping[str, Any] = identity.get("options", {})
        self._models: Sequence[str] = identity.get("models", ())

    def fragment_for(self, others: Mapping[str, Any], allow: object) -> dict[str, Any]:
        """Returns the fragment for a request with these other arguments, without options that they may set otherwise.

        Raises:
            CacheunitError: an argument would replace a frozen part, change what stands in front of it, or name a model
                that is not the target's.
            TypeError: `allow` is not a tuple, list or set of names, or a value has the wrong type.
        """
        allowed = allowed_names(allow, {*self._options, _MODEL})
        options = {name: option for name, option in self._options.items() if name not in allowed}
        fragment = self._fragment
        has_examples = self._format.has_examples(fragment)
        prefix = FrozenPrefix(name=self._prefix, fragment=fragment, has_examples=has_examples, exact=self._exact)
        for body in (others, extra_body_of(others, self._options)):
            self._refuse_parts(body)
            refuse_other_values(body, options, prefix)
            if _MODEL not in allowed:
                self._refuse_model(body)
            for name in allowed & self._options.keys():
                fragment = without(fragment, name) if has_value(body, name) else fragment
        return fragment

    def _refuse_parts(self, body: Mapping[str, Any]) -> None:
        """Raises an error where a body would replace a frozen part."""
        parts = (self._fragment.keys() & MANIFEST_KEYS.keys()) | {self._format.messages_key}
        for part in sorted(parts & body.keys()):
            raise fail(f'"{part}" is frozen in prefix "{self._prefix}"', hint=self._following_hint)

    @property
    def _following_hint(self) -> str:
        """How a request gets what follows the prefix."""
        if self._format.has_messages:
            return 'pass what follows it as messages, and text that differs between requests as dynamic="…"'
        return 'pass what follows it as continuation="…"'

    def _refuse_model(self, body: Mapping[str, Any]) -> None:
        """Raises an error for a model that is not one of the target's, where these are listed."""
        model = body.get(_MODEL)
        if not self._models or not has_value(body, _MODEL) or is_listed_model(str(model), self._models):
            return
        listed = ", ".join(self._models)
        message = f'model "{model}" is not one of those of target "{self._target}", whose cache and tokens were counted'
        hint = f'the models are {listed}; compile the prefix for a target with this model, or pass allow=("model",)'
        raise fail(message, hint=hint)

    def with_following(
        self, fragment: dict[str, Any], following: Following, *, mark: bool | str, allow: Collection[str] = ()
    ) -> dict[str, Any]:
        """Returns a request: the fragment with what follows it, with the marker of the conversation if `mark`.

        A text is the lifetime of that marker.

        Raises:
            CacheunitError: what follows is in the form of another format or changes the prefix, or there is no place
                for text or marker.
            TypeError: the messages, or the content of one, have the wrong type.
        """
        messages = self._messages(following)
        if SYSTEM_MESSAGE in self._options and SYSTEM_MESSAGE not in allow:
            self._refuse_system_messages(messages)
        if following.dynamic:
            fragment, messages = self._format.with_dynamic(fragment, messages, following.dynamic)
        if mark:
            lifetime = self._known_lifetime(mark) if isinstance(mark, str) else None
            messages = self._format.with_marker(messages, self._needed_marker(), lifetime)
        return self._format.append(fragment, messages)

    def _messages(self, following: Following) -> Sequence[Any]:
        """Returns the messages that follow the prefix; for a format without messages, the continuation.

        Raises:
            CacheunitError: they are in the form of another format, or a message lacks its role.
            TypeError: they are no list, or a message is neither a mapping nor a client's object.
        """
        messages: object = following.messages
        if not self._format.has_messages:
            if messages is not None:
                message = f'format "{self._format.name}" of target "{self._target}" has no messages'
                raise fail(message, hint=self._following_hint)
            return [following.continuation]
        if messages is None or following.continuation:
            message = f'request() of prefix "{self._prefix}" for {self._target} needs messages, and no continuation'
            raise fail(message)
        if isinstance(messages, _NO_MESSAGES) or not isinstance(messages, Sequence):
            raise TypeError(f"messages must be a list of messages, not {type(messages).__name__}")
        for index, message in enumerate(messages):
            self._refuse_without_role(message, index)
        return messages

    def _refuse_without_role(self, message: object, index: int) -> None:
        """Raises an error where a message has none of the keys that make it one."""
        keys = self._format.item_keys
        if isinstance(message, Mapping):
            if not any(key in message for key in keys):
                needed = " or a ".join(f'"{key}"' for key in keys[:2])
                raise fail(f"messages[{index}] needs a {needed}")
        elif not any(hasattr(message, key) for key in keys):
            kind = type(message).__name__
            raise TypeError(f"messages[{index}] must be a mapping or an object with a role, not {kind}")

    def _refuse_system_messages(self, messages: Sequence[Any]) -> None:
        """Raises an error where a message is one that the chat template puts in front of the prefix."""
        if any(role_of(message) in ("system", "developer") for message in messages):
            message = (
                f'a system message in messages would change the prefix "{self._prefix}": '
                "the chat template puts it in front"
            )
            raise fail(message, hint=f'send it as a message of the user, or pass allow=("{SYSTEM_MESSAGE}",)')

    def _known_lifetime(self, lifetime: str) -> str:
        """Returns a lifetime that the target has.

        Raises:
            CacheunitError: it has not.
        """
        if not self._rule.has_lifetime(lifetime):
            known = ", ".join(self._rule.lifetimes)
            hint = f"its lifetimes are {known}" if known else "pass conversation_marker=True"
            raise fail(f'target "{self._target}" has no lifetime of {lifetime!r}', hint=hint)
        return lifetime

    def _needed_marker(self) -> Any:  # noqa: ANN401 - a name from the lock
        if self._rule.marker is None:
            raise fail(f'target "{self._target}" uses no cache markers', hint="leave out conversation_marker")
        return self._rule.marker

    def refuse_too_many_markers(self, request: Mapping[str, Any]) -> None:
        """Raises an error where a request carries more cache markers than its API takes."""
        bodies = (request, extra_body_of(request, self._options))
        given = [key for key in self._format.exclusive if any(has_value(body, key) for body in bodies)]
        if len(given) > 1:
            message = f'a request has "{given[0]}" and "{given[1]}", of which its API takes only one'
            frozen = next((key for key in given if key in self._fragment), None)
            raise fail(message, hint=f'"{frozen}" is frozen in the prefix' if frozen else f"leave out {given[1]}")
        if self._rule.marker is None:
            return
        count = len(markers_of(request, self._format.messages_key, self._rule.marker))
        if count > self._format.most_markers:
            most = f"{self._format.most_markers} markers"
            message = f'a request of format "{self._format.name}" takes at most {most}: this one has {count}'
            raise fail(message, hint=f"leave out {self._rule.marker} in older messages")
        self._refuse_growing_lifetimes(request)

    def _refuse_growing_lifetimes(self, request: Mapping[str, Any]) -> None:
        """Raises an error where a marker asks for a longer lifetime than one in front of it."""
        default = self._rule.default_lifetime or ""
        values = markers_of(request, self._format.messages_key, str(self._rule.marker))
        lifetimes = [str(value.get("ttl", default)) if isinstance(value, Mapping) else default for value in values]
        for before, after in pairwise(lifetimes):
            if (lifetime_seconds(before) or 0) < (lifetime_seconds(after) or 0):
                message = f"a cache marker with a lifetime of {after} stands behind one of {before}"
                raise fail(message, hint=f'longer lifetimes go first: set "cache: {{ttl: {after}}}" in the manifest')
