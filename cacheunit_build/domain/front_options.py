"""Request options that change the front of a request: their values in a body, and whether a request may set them.

An option is named by the key of its value; a dot leads into a mapping:

    name              value in {"reasoning": {"effort": "high"}, "tools": []}
    reasoning.effort  "high"
    tools             []
    verbosity         left out
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail

TEMPLATE_VARIABLES = "chat_template_kwargs"
"""The option whose items are variables of the chat template."""

RESPONSE_SCHEMA = "response_schema"
"""The option of a manifest that is a file with a JSON Schema; no request has it."""

SYSTEM_MESSAGE = "system_message"
"""The name under which the lock says that a later system message changes the prefix."""

EFFECTS: Mapping[str, str] = {
    "front": "puts text in front of the prefix, so nothing of it is served from the cache",
    "text": "changes the text of the prefix",
    "examples": "changes what stands in front of the examples",
    "cache": "has a separate cache for each value",
}
"""What an option does, by its effect; a sentence adds the subject."""

MANIFEST_KEYS: Mapping[str, str] = {
    "tools": "tools",
    "functions": "tools",
    "system": "system",
    "instructions": "system",
    "prompt": "system",
    "messages": "examples",
    "input": "examples",
    "systemInstruction": "system",
    "contents": "examples",
    "toolConfig.tools": "tools",
}
"""The key of a manifest for each name in a request under which a part of the prefix is."""

_LEFT_OUT = object()
_NOT_SET = frozenset({"NotGiven", "Omit"})
"""The classes of the values by which OpenAI's and Anthropic's clients mark an argument as left out."""
_STORED = frozenset({"conversation", "previous_response_id", "prompt", "cachedContent"})
"""Options whose values name what the provider stores: no manifest freezes that."""
_TEXT_FORMAT = "text_format"
"""The argument of OpenAI's client that it sends as another option, `text.format`."""
_NO_MEMBERS = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset, type)
"""The types of values that have neither items by key nor attributes of a client's object."""
_TEXT_OR_MAPPING = frozenset({"container"})
"""Keys that take a text too: the id of a container, in Anthropic's API."""
_EXTRA_BODY = "extra_body"
"""The argument of clients whose items are added to the body."""
_LONGEST_SHOWN = 60


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of a request body that sets these options.

    Keys from names are sorted; those inside of a value stay in their order, which providers may answer in.
    """
    body: dict[str, Any] = {}
    for name, value in sorted(options.items()):
        for key in reversed(name.split(".")):
            value = {key: value}  # noqa: PLW2901 - from the innermost key to the outermost
        body = merged(body, value)
    return body


def split_by_name(body: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Splits a request body into the values of known options, by option name, and the names of all other keys.

    names: reasoning.effort, text
    body:  {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"format": {}}}
    ->     {"reasoning.effort": "high", "text": {"format": {}}}, ["reasoning.summary"]
    """
    values: dict[str, Any] = {}
    others: list[str] = []
    for name, value in _named_values(body, "", names):
        if name in names:
            values[name] = value
        else:
            others.append(name)
    return dict(sorted(values.items())), others


def _named_values(body: Mapping[str, Any], path: str, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yields the values of known options, and those of other keys that are no mapping with items, by dotted name."""
    for key, value in body.items():
        name = f"{path}{key}"
        if name not in names and isinstance(value, Mapping) and value:
            yield from _named_values(value, f"{name}.", names)
        else:
            yield name, value


def has_value(body: object, name: str) -> bool:
    """Returns whether a request body sets an option; None and the clients' marks for a missing argument do not."""
    return _is_set(value_at(body, name))


def is_given(body: object, name: str) -> bool:
    """Returns whether a request body has an option at all, whatever its value."""
    return value_at(body, name) is not _LEFT_OUT


def _is_set(value: object) -> bool:
    return value is not _LEFT_OUT and value is not None and type(value).__name__ not in _NOT_SET


def without(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a body without one option; mappings that become empty are removed."""
    key, _, rest = name.partition(".")
    kept = {other: value for other, value in body.items() if other != key}
    inner = without(body[key], rest) if rest and isinstance(body.get(key), Mapping) else {}
    return {**kept, key: inner} if inner else kept


def value_at(body: object, name: str) -> Any:  # noqa: ANN401 - a value of JSON
    """Returns the value under a dotted name, in mappings and in objects with attributes."""
    value: Any = body
    for key in name.split("."):
        value = value.get(key, _LEFT_OUT) if isinstance(value, Mapping) else getattr(value, key, _LEFT_OUT)
    return value


def agrees(value: object, known: object) -> bool:
    """Returns whether a value of JSON is the same as a known one; a mapping may leave out items of the known one.

    value              known              result
    high               high               True
    1                  true               False
    {type: disabled}   {type: disabled}   True
    {}                 {type: disabled}   True
    {type: enabled}    {type: disabled}   False
    """
    if isinstance(value, Mapping) and isinstance(known, Mapping):
        return all(key in known and agrees(item, known[key]) for key, item in value.items())
    if isinstance(value, list | tuple) and isinstance(known, list | tuple):
        return len(value) == len(known) and all(
            agrees(item, other) and agrees(other, item) for item, other in zip(value, known, strict=True)
        )
    return isinstance(value, bool) == isinstance(known, bool) and value == known


def merged(frozen: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns both mappings merged; a value of `new` replaces one of `frozen`, unless it is None or left out."""
    result = dict(frozen)
    for key, value in new.items():
        old = frozen.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        elif key not in frozen or _is_set(value):
            result[key] = value
    return result


def with_arguments(body: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the other arguments of a call to a request body.

    Keys of `extra_body` that the body has are merged with it, since clients let extra_body replace them.

    Raises:
        TypeError: an argument would replace a mapping of the body by an object of another type.
    """
    for key, value in others.items():
        if isinstance(body.get(key), Mapping) and _is_set(value) and not isinstance(value, Mapping):
            raise TypeError(f'"{key}" must be a mapping, not {type(value).__name__}: a part of it is frozen')
    request = merged(body, others)
    extra = others.get(_EXTRA_BODY)
    if isinstance(extra, Mapping):
        request[_EXTRA_BODY] = merged({key: body[key] for key in extra.keys() & body.keys()}, extra)
    return request


def extra_body_of(others: Mapping[str, Any], options: Collection[str]) -> Mapping[str, Any]:
    """Returns the `extra_body` of a call, which its client merges into the body; empty where it is left out.

    Args:
        others: the arguments of the call.
        options: the names of the target's options. Only where one of them begins with `extra_body`, as in Google's API,
            a body has that key, so that an `extra_body` may have it too.

    Raises:
        TypeError: it is not a mapping.
        CacheunitError: it has another `extra_body`, which the client would send as it is.
    """
    extra = others.get(_EXTRA_BODY)
    if not _is_set(extra):
        return {}
    if not isinstance(extra, Mapping):
        raise TypeError(f"{_EXTRA_BODY} must be a mapping, not {type(extra).__name__}")
    if _EXTRA_BODY in extra and not any(name.startswith(f"{_EXTRA_BODY}.") for name in options):
        message = f"{_EXTRA_BODY} has a key {_EXTRA_BODY}, which would be sent as it is"
        raise fail(message, hint=f"move its items into the outer {_EXTRA_BODY}")
    return extra


def allowed_names(allow: object, known: Collection[str]) -> frozenset[str]:
    """Returns the names in `allow`.

    Raises:
        TypeError: it is not a tuple, list or set of names.
        CacheunitError: one of the names is not known, which would hide a misspelt one.
    """
    if not isinstance(allow, tuple | list | set | frozenset) or not all(isinstance(name, str) for name in allow):
        raise TypeError(f"allow must be a tuple, list or set of names, not {allow!r}")
    for name in sorted(allow):
        if name not in known:
            listed = f"the names are {', '.join(sorted(known))}" if known else "this target lists no option"
            raise fail(
                f'allow has "{name}", which is not an option of this target', hint=did_you_mean(name, known) or listed
            )
    return frozenset(allow)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPrefix:
    """The prefix that a request is made from.

    Attributes:
        name: prefix or variant.
        fragment: its frozen fragment.
        has_examples: whether it has worked examples.
        exact: whether its tokens are counted exactly.
    """

    name: str
    fragment: Mapping[str, Any]
    has_examples: bool
    exact: bool


def refuse_other_values(
    body: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]], prefix: FrozenPrefix
) -> None:
    """Raises an error for the first option that a request sets to another value than that of the frozen prefix.

    Args:
        body: what the request sets.
        options: effect and neutral values of each option, by name, as the lock has them.
        prefix: the frozen prefix.

    Raises:
        CacheunitError: it names the option, its effect, and what would help.
        TypeError: a value that should hold an option cannot hold it, such as a text for `reasoning.effort`.
    """
    for name, option in options.items():
        _refuse_without_members(body, name)
        if not has_value(body, name):
            continue
        is_frozen, value = has_value(prefix.fragment, name), value_at(body, name)
        known: Sequence[Any] = [value_at(prefix.fragment, name)] if is_frozen else option.get("neutral", ())
        unaffected = option["effect"] == "examples" and not prefix.has_examples and not is_frozen
        if not unaffected and not any(agrees(value, item) for item in known):
            raise _refused(name, option["effect"], value, prefix)


def _refuse_without_members(body: Mapping[str, Any], name: str) -> None:
    """Raises TypeError where a value on the way to a dotted name is neither a mapping nor an object with attributes."""
    keys = name.split(".")
    for length in range(1, len(keys)):
        path = ".".join(keys[:length])
        value = value_at(body, path)
        if not _is_set(value) or (path in _TEXT_OR_MAPPING and isinstance(value, str)):
            return
        if isinstance(value, _NO_MEMBERS):
            raise TypeError(f'"{path}" must be a mapping, not {type(value).__name__}: it holds the option "{name}"')


def _refused(name: str, effect: str, value: object, prefix: FrozenPrefix) -> CacheunitError:
    """Returns the error for an option with another value than the frozen one, or than those that change nothing."""
    allow_hint = f'pass allow=("{name}",)'
    if has_value(prefix.fragment, name):
        frozen = _shown(value_at(prefix.fragment, name))
        message = f'"{name}" is frozen as {frozen} in prefix "{prefix.name}", not {_shown(value)}'
        hint = f'leave it out, change it in "options" of the manifest, or {allow_hint}'
        return fail(f"{message}: the option {EFFECTS[effect]}", hint=hint)
    message = f'prefix "{prefix.name}" was not built for this value of "{name}", which {EFFECTS[effect]}'
    freeze_hint = _freeze_hint(name, effect, exact=prefix.exact)
    return fail(message, hint=f"{freeze_hint}, or {allow_hint}" if freeze_hint else allow_hint)


def not_frozen(name: str) -> tuple[str, str] | None:
    """Returns why no manifest can freeze the value of an option, and what helps; None where one can."""
    if name.partition(".")[0] in _STORED:
        return f'option "{name}" names what the provider stores, which no build can freeze', "leave it out"
    if name == _TEXT_FORMAT:
        return f'option "{name}" is an argument of a client, not of the API', 'set "response_schema" or "text.format"'
    return None


def _freeze_hint(name: str, effect: str, *, exact: bool) -> str:
    """Returns how a manifest would freeze an option; empty where none can."""
    if name in _STORED:
        return ""
    if name == _TEXT_FORMAT:
        return 'freeze its schema as "text.format" in "options" of the manifest'
    key = MANIFEST_KEYS.get(name, "options")
    counted = exact and effect != "cache" and key != "system"
    condition = " (an exact count needs a chat_template or encoder for that)" if counted else ""
    return f'freeze it in "{key}" of the manifest{condition}'


def _shown(value: object) -> str:
    """Returns a value for a message; a long one only by its type."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"another {type(value).__name__}"
