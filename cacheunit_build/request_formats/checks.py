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
    is_given,
    refuse_other_values,
    with_arguments,
    without,
)
from cacheunit_build.domain.lifetimes import lifetime_seconds
from cacheunit_build.domain.model_names import is_listed_model
from cacheunit_build.request_formats.following import role_of
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
        for body in (self._format.sent(others), extra_body_of(others, self._options)):
            self._refuse_parts(body)
            refuse_other_values(body, options, prefix)
            if _MODEL not in allowed:
                self._refuse_model(body)
            for name in allowed & self._options.keys():
                fragment = without(fragment, name) if has_value(body, name) else fragment
        return fragment

    def _refuse_parts(self, body: Mapping[str, Any]) -> None:
        """Raises an error where a body would replace a frozen part."""
        parts = {self._format.messages_key, *(part for part in MANIFEST_KEYS if has_value(self._fragment, part))}
        for part in sorted(part for part in parts if is_given(body, part)):
            raise fail(f'"{part}" is frozen in prefix "{self._prefix}"', hint=self._following_hint)
        if not self._rule.is_stored:
            return
        if has_value(body, self._format.name_key):
            raise fail(f'"{self._format.name_key}" is set by request()', hint='pass cached_content="…"')
        for part in self._format.stored_keys:
            if has_value(body, part):
                message = f'the API refuses "{part}" in a request that names cached content'
                raise fail(message, hint="freeze it in the manifest, so that it is in the cached content")

    @property
    def _following_hint(self) -> str:
        """How a request gets what follows the prefix."""
        if self._format.has_messages:
            return 'pass what follows it as messages, and text that differs between requests as dynamic="…"'
        return 'pass what follows it as continuation="…"'

    def _refuse_model(self, body: Mapping[str, Any]) -> None:
        """Raises an error for a model that is not one of the target's, where these are listed."""
        key = self._format.model_key
        model = body.get(key)
        if not self._models or not has_value(body, key) or is_listed_model(str(model), self._models):
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
        self._refuse_second_in_succession(fragment, messages)
        if following.dynamic:
            fragment, messages = self._format.with_dynamic(fragment, messages, following.dynamic)
        if mark:
            lifetime = self._known_lifetime(mark) if isinstance(mark, str) else None
            messages = self._format.with_marker(messages, self._needed_marker(), lifetime)
        return self._format.append(fragment, messages)

    def naming(self, fragment: dict[str, Any], cached_content: object) -> dict[str, Any]:
        """Returns the fragment of a request, with the name of the cached content where the target needs one.

        Raises:
            CacheunitError: the name is missing, blank, or of no use to the target.
            TypeError: it is no text.
        """
        if not self._rule.is_stored:
            if cached_content is not None:
                message = f'target "{self._target}" has no cached content: its requests carry the prefix'
                raise fail(message, hint="leave out cached_content")
            return fragment
        if cached_content is None:
            message = f'request() of prefix "{self._prefix}" for {self._target} needs cached_content'
            hint = "create it with prefix.cached_content, and pass the name that the API gives it"
            raise fail(message, hint=hint)
        if not isinstance(cached_content, str):
            raise TypeError(f"cached_content must be the name, a str, not {type(cached_content).__name__}")
        if not cached_content.strip():
            raise fail("cached_content is blank", hint="pass the name that the API gave it")
        return {**fragment, self._format.name_key: cached_content}

    def arguments(self, request: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of the client's call for a request, with the other ones.

        Raises:
            CacheunitError: it has too many markers.
            TypeError: an argument would replace a mapping of the request by an object of another type.
        """
        self._refuse_too_many_markers(with_arguments(request, self._format.sent(others)))
        return self._format.arguments(request, others)

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
        keys = self._format.form.item_keys
        if isinstance(message, Mapping):
            if not any(key in message for key in keys):
                needed = " or a ".join(f'"{key}"' for key in keys[:2])
                raise fail(f"messages[{index}] needs a {needed}")
        elif not any(hasattr(message, key) for key in keys):
            kind = type(message).__name__
            raise TypeError(f"messages[{index}] must be a mapping or an object with a role, not {kind}")
        self._refuse_other_form(message, index)

    def _refuse_other_form(self, message: object, index: int) -> None:
        """Raises an error where a message has a role or a content that its API does not take."""
        form, role = self._format.form, role_of(message)
        if form.roles and role is not None and role not in form.roles:
            hint = f"its roles are {', '.join(sorted(form.roles))}"
            raise fail(
                f'messages[{index}] has the role "{role}", which format "{self._format.name}" has not', hint=hint
            )
        content = message.get(form.content_key) if isinstance(message, Mapping) else None
        if isinstance(content, str) and not form.takes_text:
            hint = 'write it as a list of blocks: [{"text": "…"}]'
            raise fail(f'messages[{index}]["{form.content_key}"] is a text', hint=hint)

    def _refuse_second_in_succession(self, fragment: Mapping[str, Any], messages: Sequence[Any]) -> None:
        """Raises an error where the first message has the role of the last example, and the API wants another."""
        examples = fragment.get(self._format.messages_key) or ()
        if not self._format.alternates or not examples or not messages:
            return
        if (role := role_of(messages[0])) == role_of(examples[-1]):
            message = f'messages[0] has the role "{role}", as the last example of the prefix "{self._prefix}" has'
            raise fail(message, hint="the API refuses that: end the examples with a message of the other")

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

    def _refuse_too_many_markers(self, request: Mapping[str, Any]) -> None:
        """Raises an error where a request carries more cache markers than its API takes."""
        bodies = (request, extra_body_of(request, self._options))
        given = [key for key in self._format.exclusive if any(has_value(body, key) for body in bodies)]
        if len(given) > 1:
            message = f'a request has "{given[0]}" and "{given[1]}", of which its API takes only one'
            frozen = next((key for key in given if key in self._fragment), None)
            raise fail(message, hint=f'"{frozen}" is frozen in the prefix' if frozen else f"leave out {given[1]}")
        if self._rule.marker is None:
            return
        count = len(self._format.markers_in(request, self._rule.marker))
        if count > self._format.most_markers:
            most = f"{self._format.most_markers} markers"
            message = f'a request of format "{self._format.name}" takes at most {most}: this one has {count}'
            raise fail(message, hint=f"leave out {self._rule.marker} in older messages")
        self._refuse_growing_lifetimes(request)

    def _refuse_growing_lifetimes(self, request: Mapping[str, Any]) -> None:
        """Raises an error where a marker asks for a longer lifetime than one in front of it."""
        default = self._rule.default_lifetime or ""
        values = self._format.markers_in(request, str(self._rule.marker))
        lifetimes = [str(value.get("ttl", default)) if isinstance(value, Mapping) else default for value in values]
        for before, after in pairwise(lifetimes):
            if (lifetime_seconds(before) or 0) < (lifetime_seconds(after) or 0):
                message = f"a cache marker with a lifetime of {after} stands behind one of {before}"
                raise fail(message, hint=f'longer lifetimes go first: set "cache: {{ttl: {after}}}" in the manifest')
