"""Plain data: the values that a template may print, and their text.

Plain data are texts, numbers, booleans, null, lists and mappings. Functions, methods, macros and Jinja's own objects
are not: as text, they are addresses in memory.
"""

from __future__ import annotations

import math
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Undefined

from cacheunit_build.templating.budget import ITEM_CHARACTERS, MAX_BITS, MAX_DEPTH, LimitError

if TYPE_CHECKING:
    from cacheunit_build.templating.budget import RenderBudget

_SCALARS = (str, int, float, type(None), Undefined)
_LISTS = (list, tuple, KeysView, ValuesView, ItemsView)
_CONTAINERS = (dict, *_LISTS)
_NUMBER_CHARACTERS = 24
"""No spelling of a float, boolean or small integer is longer."""


def format_value(value: object) -> str:
    """Formats a value for printing, never as Python spells it.

    | value | text |
    | --- | --- |
    | a text, an integer | itself |
    | a float | as its source spells it; a computed one by the fewest digits that give it back |
    | True, False | true, false |
    | None, infinity, a mapping, a list, anything else | `TemplateRuntimeError` |
    """
    if isinstance(value, str | Undefined):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateRuntimeError(f"prints {value!r}, which is not a number")
        return str(value)
    if value is None:
        raise TemplateRuntimeError("prints null; give it a value, or use |default('', true)")
    use = "call it with ()" if callable(value) else "use |join, |tojson or one of its fields"
    raise TemplateRuntimeError(f"prints {type_name(value)}; {use}")


_TYPE_NAMES = {
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
    "NoneType": "null",
    "Macro": "an uncalled macro",
    "BlockReference": "an uncalled block",
    "LoopContext": "a loop",
    "Cycler": "a cycler",
    "Joiner": "a joiner",
    "Namespace": "a namespace",
    "TemplateReference": "a template",
    "TemplateModule": "an imported template",
}


def type_name(value: object) -> str:
    """Returns the type of a template's value for a message: "a mapping", "a list", "a text"."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return "a text"
    other = "an uncalled function" if callable(value) else f"a {type(value).__name__}"
    return _TYPE_NAMES.get(type(value).__name__, other)


def is_plain(value: object) -> bool:
    """Returns whether a value is plain data, or something that yields items: a filter's result, a range."""
    return isinstance(value, (*_SCALARS, *_CONTAINERS, range, Iterator))


def refuse_object(value: object) -> None:
    """Raises an error if a value is not plain data; items of a list are checked where they become text."""
    if not is_plain(value):
        raise TemplateRuntimeError(f"uses {type_name(value)} as text; only plain data can become text")


def text_size(value: Any, budget: RenderBudget) -> int:  # noqa: ANN401
    """Returns about how many characters a value has as text, with everything in it; counts steps for each part."""
    return measure(value, budget)[0]


def measure(value: Any, budget: RenderBudget) -> tuple[int, int, int]:  # noqa: ANN401
    """Returns the characters of a value as text, the number of its parts, and its depth; counts steps for each part.

    The same list may be in a value many times: [[a, a], [a, a]] counts as four. The check is made before a value is
    printed, compared or hashed, since none of these operations can be stopped.

    Raises:
        LimitError: the value is nested too deeply, or is too large.
        TemplateRuntimeError: it contains something that is not plain data.
    """
    size = parts = deepest = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        part, depth = pending.pop()
        parts, deepest = parts + 1, max(deepest, depth)
        if isinstance(part, str):
            size += len(part) + ITEM_CHARACTERS
        elif isinstance(part, int):
            size += _NUMBER_CHARACTERS + part.bit_length() // 3
            budget.hash_number(part)
        elif isinstance(part, _CONTAINERS):
            if depth > MAX_DEPTH:
                raise LimitError(f"a value is nested more than {MAX_DEPTH} deep")
            budget.step(2 * len(part) + 1)
            size += ITEM_CHARACTERS * (len(part) + 1)
            pending += [(item, depth + 1) for item in part]
            if isinstance(part, dict):
                pending += [(item, depth + 1) for item in part.values()]
        elif isinstance(part, _SCALARS):
            size += _NUMBER_CHARACTERS
        elif isinstance(part, range):
            size += 3 * _NUMBER_CHARACTERS
        else:
            raise TemplateRuntimeError(f"prints {type_name(part)}; only plain data can become text")
    return size, parts, deepest


def check_number(value: object, budget: RenderBudget) -> None:
    """Raises an error if a value is an integer that is too large; counts the steps of computing a large one."""
    if isinstance(value, int):
        bits = value.bit_length()
        if bits > MAX_BITS:
            raise LimitError(f"computes an integer of more than {MAX_BITS:,} bits")
        budget.step(bits // 64)
