"""Request options that change the front of a request: their values in a body, and whether a request may set them.

An option is named by the key of its value; a dot leads into a mapping:

    name              value in {"reasoning": {"effort": "high"}, "tools": []}
    reasoning.effort  "high"
    tools             []
    verbosity         left out
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail

TEMPLATE_VARIABLES = "chat_template_kwargs"
"""The option whose items are variables of the chat template."""

SYSTEM_MESSAGE = "system_message"
"""The name under which the lock says that a later system message changes the prefix."""

EFFECTS: Mapping[str, str] = {
    "front": "it puts text in front of the prefix, so that nothing of it is served from the cache",
    "text": "it changes the text of the prefix",
    "examples": "it changes what stands in front of the examples",
    "cache": "requests with another value have a cache of their own",
}
"""What another value of an option does, by its effect."""

_LEFT_OUT = object()
_NOT_SET = frozenset({"NotGiven", "Omit"})
"""The classes of the values by which OpenAI's and Anthropic's clients mark an argument as left out."""
_OWN_KEYS = {"tools": "tools", "functions": "tools", "system": "system", "instructions": "system"}
"""The key of a manifest that takes what an option would add."""
_LONGEST_SHOWN = 60


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of options, by dotted name, as the part of a request body that sets them.

    Keys from names are sorted; those inside of a value stay in their order, which providers may answer in.
    """
    body: dict[str, Any] = {}
    for name, value in sorted(options.items()):
        for key in reversed(name.split(".")):
            value = {key: value}  # noqa: PLW2901 - from the innermost key to the outermost
        body = merged(body, value)
    return body


def split_by_name(body: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Returns the values in a body by the option that they are of, and the names of those that are of no option.

    names: reasoning.effort, text
    body:  {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"format": {}}}
    ->     {"reasoning.effort": "high", "text": {"format": {}}}, ["reasoning.summary"]
    """
    values: dict[str, Any] = {}
    others: list[str] = []

    def split(part: Mapping[str, Any], path: str) -> None:
        for key, value in part.items():
            name = f"{path}{key}"
            if name in names:
                values[name] = value
            elif isinstance(value, Mapping) and value:
                split(value, f"{name}.")
            else:
                others.append(name)

    split(body, "")
    return dict(sorted(values.items())), others


def has_value(body: object, name: str) -> bool:
    """Returns whether a request body sets an option; None and the clients' marks for a missing argument do not."""
    return _is_set(_value_at(body, name))


def _is_set(value: object) -> bool:
    return value is not _LEFT_OUT and value is not None and type(value).__name__ not in _NOT_SET


def without(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a body that does not set an option, without mappings that are empty for that."""
    key, _, rest = name.partition(".")
    kept = {other: value for other, value in body.items() if other != key}
    inner = without(body[key], rest) if rest and isinstance(body.get(key), Mapping) else {}
    return {**kept, key: inner} if inner else kept


def _value_at(body: object, name: str) -> Any:  # noqa: ANN401 - a value of JSON
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


def merged(frozen: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the items of both mappings; where both have a mapping, merged; else the given value unless left out."""
    result = dict(frozen)
    for key, value in given.items():
        old = frozen.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        elif key not in frozen or _is_set(value):
            result[key] = value
    return result


def with_arguments(body: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a request: a body and further arguments of the call; an `extra_body` keeps what it has of the body.

    Raises:
        TypeError: an argument would replace a mapping of the body by an object of another type.
    """
    for key, value in others.items():
        if isinstance(body.get(key), Mapping) and _is_set(value) and not isinstance(value, Mapping):
            raise TypeError(f'"{key}" must be a mapping, not {type(value).__name__}: a part of it is frozen')
    request = merged(body, others)
    extra = others.get("extra_body")
    if isinstance(extra, Mapping):
        request["extra_body"] = merged({key: body[key] for key in extra.keys() & body.keys()}, extra)
    return request


def allowed_names(allow: object, known: Collection[str]) -> frozenset[str]:
    """Returns the names in `allow`.

    Raises:
        TypeError: it is not a tuple, list or set of names.
        CacheunitError: one of the names is not known, which would hide a misspelt one.
    """
    if not isinstance(allow, tuple | list | set | frozenset) or not all(isinstance(name, str) for name in allow):
        raise TypeError(f'allow must be a tuple of names, such as ("tools",), not {allow!r}')
    for name in sorted(allow):
        if name not in known:
            listed = f"the names are {', '.join(sorted(known))}" if known else "this target lists no option"
            raise fail(f'allow has "{name}", which no check refuses', hint=did_you_mean(name, known) or listed)
    return frozenset(allow)


def refuse_other_values(
    body: Mapping[str, Any],
    options: Mapping[str, Mapping[str, Any]],
    frozen: Mapping[str, Any],
    *,
    prefix: str,
    has_examples: bool,
) -> None:
    """Raises an error for the first option that a request sets to another value than that of the frozen prefix.

    Args:
        body: what the request sets.
        options: effect and neutral values of each option, by name, as the lock has them.
        frozen: the frozen fragment.
        prefix: the name of the prefix, for the message.
        has_examples: whether the prefix has worked examples.

    Raises:
        CacheunitError: it names the option, its effect, and what would help.
    """
    for name, option in options.items():
        if not has_value(body, name):
            continue
        is_frozen, value = has_value(frozen, name), _value_at(body, name)
        known: Sequence[Any] = [_value_at(frozen, name)] if is_frozen else option.get("neutral", ())
        unaffected = option["effect"] == "examples" and not has_examples and not is_frozen
        if not unaffected and not any(agrees(value, item) for item in known):
            raise _refused(name, option["effect"], value, known[0] if is_frozen else _LEFT_OUT, prefix)


def _refused(name: str, effect: str, value: object, frozen: object, prefix: str) -> CacheunitError:
    """Returns the error for an option with another value; `frozen` is the frozen one, if there is one."""
    insist = f'pass allow=("{name}",)'
    why = EFFECTS[effect]
    if frozen is not _LEFT_OUT:
        message = f'"{name}" is frozen as {_shown(frozen)} in prefix "{prefix}", not {_shown(value)}: {why}'
        return fail(message, hint=f'leave it out, change it in "options" of the manifest, or {insist}')
    place = f'"{_OWN_KEYS[name]}"' if name in _OWN_KEYS else '"options"'
    message = f'"{name}" does not fit prefix "{prefix}": {why}'
    return fail(message, hint=f"freeze it in {place} of the manifest, or {insist}")


def _shown(value: object) -> str:
    """Returns a value for a message; a long one only by its type."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"another {type(value).__name__}"
