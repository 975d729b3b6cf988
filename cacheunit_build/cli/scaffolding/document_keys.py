"""Finds texts in a YAML, JSON or TOML file by the keys that lead to them.

agent.system_template      the value of a key in a mapping
agents[0].prompt           an item of a list; `agents.0.prompt` is the same
"a.b".prompt               a key with a dot, in quotes
agents.*.prompt            the prompts of all agents; values that have no such text are left out
agent.*_template           the values of all keys that end in _template
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.domain.document import Document, Keys

DATA_SUFFIXES = frozenset((".json", ".yaml", ".yml", ".toml"))
"""The suffixes of files that have keys."""

_PART = re.compile(r"\[(?P<index>\d{1,9}|\*)\]|\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<plain>[^.\[\]\"']+)")
_PLAIN_KEY = re.compile(r"[^.\[\]\"'*#\s]+")
_LONG_TEXT = 80
"""Characters from which a text on one line may be a prompt."""
_MOST_LISTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPart:
    """One part of an expression: a key, an index, or a pattern of keys.

    Attributes:
        text: the key, the index or the pattern, as written.
        is_pattern: whether it has a `*`, which stands for any characters.
    """

    text: str
    is_pattern: bool


def read_keyed_file(data: bytes, suffix: str, path: str) -> Document:
    """Returns the value of a file, by its suffix, one of `DATA_SUFFIXES`.

    Raises:
        CacheunitError: every fault in the file.
    """
    if suffix == ".json":
        return read_json(data, path)
    return read_toml(data, path) if suffix == ".toml" else read_yaml(data, path, floats=True)


def parse_expression(expression: str, path: str) -> tuple[KeyPart, ...]:
    """Returns the parts of an expression such as `agents[0].prompt`.

    Raises:
        CacheunitError: it is empty or not of that form.
    """
    parts: list[KeyPart] = []
    position = 0
    while position < len(expression):
        if parts and expression[position] == ".":
            position += 1
        elif parts and expression[position] != "[":
            break
        match = _PART.match(expression, position)
        if match is None:
            break
        text = next(group for group in match.groups() if group is not None)
        parts.append(KeyPart(text=text, is_pattern="*" in text and match.lastgroup in {"index", "plain"}))
        position = match.end()
    if not parts or position < len(expression):
        message = f'"{shortened(expression)}" is not the key of a value' if expression else 'there is no key behind "#"'
        raise fail(message, path=path, hint='write it as agent.prompt, agents[0].prompt, agents.*.prompt or "a.b".c')
    return tuple(parts)


def texts_at(document: Document, parts: Sequence[KeyPart]) -> list[Keys]:
    """Returns the keys that lead to each text that an expression names, in the order of the file.

    Raises:
        CacheunitError: there is no such key, or its value is no text; names the line of the nearest value.
    """
    found = list(_texts(document, parts, (), document.value))
    if not found:
        expression = ".".join(part.text for part in parts)
        raise fail(f'no text in the file is at "{expression}"', path=document.path, hint=_texts_hint(document, ()))
    return found


def value_at(value: Any, keys: Keys) -> Any:  # noqa: ANN401 - any value of a file
    """Returns the value that keys and indexes lead to."""
    for key in keys:
        value = value[key]
    return value


def written_keys(keys: Sequence[str | int]) -> str:
    """Returns keys and indexes as an expression: `("agents", 0, "a.b")` as `agents[0]."a.b"`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        quote = "'" if '"' in key else '"'
        written = key if _PLAIN_KEY.fullmatch(key) else f"{quote}{key}{quote}"
        text += f".{written}" if text else written
    return text


def prompt_like_keys(document: Document, without: Keys | None = None) -> list[str]:
    """Returns the key expressions of texts that are probably prompts: long texts, and texts of several lines.

    Args:
        document: the file.
        without: keys below which no text is one.
    """
    texts = ((keys, text) for keys, text in _all_texts(document.value, ()) if _may_be_prompt(text))
    return [written_keys(keys) for keys, _ in texts if without is None or keys[: len(without)] != without]


def _texts(document: Document, parts: Sequence[KeyPart], keys: Keys, value: object) -> Iterator[Keys]:
    """Yields the keys of each text below a value.

    Raises:
        CacheunitError: there is none.
    """
    if not parts:
        if not isinstance(value, str):
            message = f'the value of "{written_keys(keys)}" is {_kind(value)}, not a text'
            raise fail(message, path=document.path, line=document.line(keys), hint=_texts_hint(document, keys))
        yield keys
        return
    part, *others = parts
    if not part.is_pattern:
        key = _key_in(document, part.text, keys, value)
        yield from _texts(document, others, (*keys, key), _children(value)[key])
        return
    for key, child in _children(value).items():
        if not fnmatchcase(str(key), part.text.replace("[", "[[]")):
            continue
        try:
            yield from _texts(document, others, (*keys, key), child)
        except CacheunitError:
            continue  # another item may have the text


def _children(value: object) -> Mapping[str | int, Any]:
    """Returns the values in a mapping or a list by key or index; none for other values."""
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else {}


def _key_in(document: Document, text: str, keys: Keys, value: object) -> str | int:
    """Returns a key of a mapping, or an index of a list, that is written as `text`.

    Raises:
        CacheunitError: the value has no such key.
    """
    place = f' in "{written_keys(keys)}"' if keys else ""
    line = document.line(keys)
    if isinstance(value, list):
        if text.isascii() and text.isdecimal() and int(text) < len(value):
            return int(text)
        hint = f"its items are 0 to {len(value) - 1}" if value else None
        raise fail(f'no item "{shortened(text)}"{place}, {_kind(value)}', path=document.path, line=line, hint=hint)
    if isinstance(value, dict):
        if text in value:
            return text
        hint = did_you_mean(text, value) or _listed("its keys are", [written_keys((key,)) for key in value])
        raise fail(f'no key "{shortened(text)}"{place}', path=document.path, line=line, hint=hint)
    subject = f'"{written_keys(keys)}"' if keys else "the file"
    raise fail(f'no key "{shortened(text)}": {subject} is {_kind(value)}', path=document.path, line=line)


def _kind(value: object) -> str:
    """Returns what a value is, for messages."""
    if isinstance(value, list):
        return f"a list of {len(value)} {'item' if len(value) == 1 else 'items'}"
    if value is None:
        return "empty"
    kinds = ((str, "a text"), (bool, "a boolean"), (dict, "a mapping"), ((int, float), "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "a date")


def _texts_hint(document: Document, keys: Keys) -> str | None:
    """Returns a hint that lists the texts below some keys that may be prompts; None where there are none."""
    below = _all_texts(value_at(document.value, keys), keys)
    texts = [written_keys(text_keys) for text_keys, text in below if text_keys != keys and _may_be_prompt(text)]
    return _listed("its longer texts are", texts)


def _listed(start: str, names: Sequence[str]) -> str | None:
    """Returns a hint with the first names of a list; None for an empty one."""
    more = ", …" if len(names) > _MOST_LISTED else ""
    return f"{start} {', '.join(map(shortened, names[:_MOST_LISTED]))}{more}" if names else None


def _all_texts(value: object, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yields the keys and the text of each text below a value."""
    if isinstance(value, str):
        yield keys, value
    for key, child in _children(value).items():
        yield from _all_texts(child, (*keys, key))


def _may_be_prompt(text: str) -> bool:
    return "\n" in text.strip() or len(text) >= _LONG_TEXT
