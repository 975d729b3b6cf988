"""Makes a dataclass from JSON values that anybody may have written. Standard library only, as `load` needs it.

The annotations of the fields decide, with their limits, as they do for pydantic: nothing is converted but lists into
tuples and texts into dates, and unknown keys are refused. What is refused here, `parsing.validation` gives to pydantic,
whose errors have places; so this may refuse more than pydantic does, but not less.
"""

from __future__ import annotations

import datetime as dt  # noqa: TID251 - the type of a date; no clock is read
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cacheunit_build.domain.document import shortened

if TYPE_CHECKING:
    from cacheunit_build.domain.constraints import Limits

T = TypeVar("T")

_Parser = Callable[[Any], Any]
"""Returns the value of a field for a value of JSON; raises ValueError where it is not one."""
_PARSERS: dict[type, tuple[Mapping[str, _Parser], frozenset[str]]] = {}
"""The parsers of the dataclasses so far, since evaluating annotations takes long."""


def from_json(kind: type[T], data: object) -> T:
    """Returns an instance of a dataclass with the values of a JSON object.

    Raises:
        ValueError: a key is unknown or missing, or a value is not of the type or within the limits of its field.
    """
    if kind not in _PARSERS:
        _PARSERS[kind] = _parsers(kind)
    parsers, required = _PARSERS[kind]
    values = _checked(isinstance(data, dict), data)
    missing = required - values.keys()
    if missing:
        raise ValueError(f'"{min(missing)}" is missing')
    parsed = {}
    for name, value in values.items():
        if name not in parsers:
            raise ValueError(f'unknown key "{name}"')
        try:
            parsed[name] = parsers[name](value)
        except ValueError as error:
            raise ValueError(f'"{name}": {error}') from None
    return kind(**parsed)


def _parsers(kind: type) -> tuple[Mapping[str, _Parser], frozenset[str]]:
    """Returns the parser of each field of a dataclass, and the names of the fields that have no default."""
    hints = get_type_hints(kind, include_extras=True)
    required = {item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING}
    return {item.name: _parser(hints[item.name]) for item in fields(kind)}, frozenset(required)


def _parser(hint: Any) -> _Parser:  # noqa: ANN401 - an annotation
    """Returns the parser of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _float
    if hint is dt.date:
        return _date
    if origin is Literal:
        return lambda value: _checked(isinstance(value, str) and value in arguments, value)
    if origin is Annotated:
        return _limited(_parser(arguments[0]), arguments[1])
    if origin in (Union, UnionType):
        parser = _member([_parser(item) for item in arguments if item is not NoneType])
        return parser if NoneType not in arguments else lambda value: None if value is None else parser(value)
    if origin is tuple:
        parser = _parser(arguments[0])
        return lambda value: tuple(parser(item) for item in _checked(isinstance(value, list), value))
    if origin is Mapping:
        parser = _parser(arguments[1])
        return lambda value: {key: parser(item) for key, item in _checked(isinstance(value, dict), value).items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(from_json, hint)
    return lambda value: _checked(type(value) is hint, value)


def _member(parsers: Sequence[_Parser]) -> _Parser:
    """Returns the parser of a union: that of the first member that accepts a value."""
    *others, last = parsers

    def parse(value: Any) -> Any:  # noqa: ANN401 - a value of JSON
        for parser in others:
            try:
                return parser(value)
            except ValueError:
                continue
        return last(value)

    return parse if others else last


def _checked(is_valid: bool, value: Any) -> Any:  # noqa: ANN401, FBT001 - a value of JSON
    """Returns the value if it is valid; else raises ValueError."""
    if not is_valid:
        raise ValueError(f"invalid value {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """Returns a value as messages show it."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return shortened(repr(value)) if isinstance(value, str | float) or value is None else shortened(f"{value}")


def _date(value: Any) -> dt.date:  # noqa: ANN401 - a value of JSON
    date = dt.date.fromisoformat(_checked(isinstance(value, str), value))
    return _checked(date.isoformat() == value, date)  # type: ignore[no-any-return]


def _float(value: Any) -> float:  # noqa: ANN401 - a value of JSON
    try:
        number = float(_checked(type(value) in (int, float), value))
    except OverflowError:
        raise ValueError("a number is too large") from None
    return _checked(math.isfinite(number), number)  # type: ignore[no-any-return]


def _limited(parser: _Parser, limits: Limits) -> _Parser:
    """Returns the parser of a field that has limits."""
    bounds = ((le, limits.ge), (lt, limits.gt), (ge, limits.le), (gt, limits.lt))
    checks: list[Callable[[Any], object]] = [partial(holds, bound) for holds, bound in bounds if bound is not None]
    shortest = limits.min_length
    if shortest is not None:
        checks.append(lambda value: len(value) >= shortest)
    if limits.pattern is not None:
        checks.append(re.compile(limits.pattern).fullmatch)

    def parse(value: Any) -> Any:  # noqa: ANN401 - a value of JSON
        parsed = parser(value)
        for check in checks:
            if not check(parsed):
                _checked(False, parsed)  # noqa: FBT003 - raises
        return parsed

    return parse
