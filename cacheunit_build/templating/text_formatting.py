"""Formats texts by `pattern % values` and `pattern.format(values)`, within the budget and as values are printed."""

from __future__ import annotations

import math
import re
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import TemplateRuntimeError
from jinja2.sandbox import SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup

from cacheunit_build.parsing.json import SpelledFloat
from cacheunit_build.templating.plain_data import format_value, text_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2.sandbox import SandboxedEnvironment

    from cacheunit_build.templating.budget import RenderBudget

# %s, %(name)-5.2f, %*d; group 1 is the key, 2 the width, 3 the precision, 4 the conversion.
_SPECIFIER = re.compile(r"%(?:\(([^()]*)\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_SURROGATES = range(0xD800, 0xE000)


def percent(pattern: str, values: Any, budget: RenderBudget, *, python_spelling: bool) -> str:  # noqa: ANN401
    """Returns `pattern % values`.

    Args:
        pattern: the pattern, such as "%s: %03d".
        values: a tuple, a mapping, or one value.
        budget: counts the result before it is created.
        python_spelling: whether values are spelled as Python does; else as they are printed.
    """
    specifiers = _SPECIFIER.findall(pattern)
    if any(conversion == "(" for *_, conversion in specifiers):
        raise TemplateRuntimeError("a key of a pattern contains brackets")  # its width and precision are not known
    by_name = isinstance(values, dict) and any(key for key, *_ in specifiers)
    items: Sequence[Any] = list(values.values()) if by_name else values if isinstance(values, tuple) else (values,)
    sizes = [text_size(item, budget) for item in items]
    padding = sum(int(number) for _, *numbers, _ in specifiers for number in numbers if number.isdigit())
    if any("*" in numbers for _, *numbers, _ in specifiers):
        padding += sum(abs(item) for item in items if isinstance(item, int))
    budget.require(len(pattern) + padding + (len(specifiers) * max(sizes) if by_name and sizes else sum(sizes)))
    if not python_spelling:
        values = _printed_values(specifiers, values, by_name=by_name)
    result: str = pattern % values
    budget.create(len(result))
    return result


def _printed_values(specifiers: Sequence[tuple[str, ...]], values: Any, *, by_name: bool) -> Any:  # noqa: ANN401
    """Returns the values of a pattern as texts where they are printed as such; numbers stay for `%03d`."""
    if by_name:
        conversions: dict[str, str] = {}
        for key, _, _, conversion in specifiers:
            # A key that is formatted as text and as number stays a number, unless its text differs.
            conversions[key] = conversion if conversion != "s" else conversions.get(key, "s")
        return {key: _printed(value, conversions.get(key, "s")) for key, value in values.items() if key in conversions}
    items = values if isinstance(values, tuple) else (values,)
    kinds: list[str] = []
    for _, width, precision, conversion in specifiers:
        kinds += ["d" for number in (width, precision) if number == "*"] + ([conversion] if conversion != "%" else [])
    kinds += ["s"] * (len(items) - len(kinds))
    return tuple(map(_printed, items, kinds))


def _printed(value: Any, conversion: str) -> Any:  # noqa: ANN401
    """Returns a value as the conversion of a pattern needs it."""
    if conversion in ("r", "a"):
        raise TemplateRuntimeError(f"%{conversion} prints the spelling of Python; use %s or |tojson")
    if conversion == "c" and isinstance(value, int) and value in _SURROGATES:
        raise TemplateRuntimeError(f"U+{value:04X} is half of a surrogate pair, not a character")
    return format_value(value) if conversion == "s" else _number_or_text(value)


def _number_or_text(value: Any) -> Any:  # noqa: ANN401
    """Returns a number that a pattern can format, or a text as it is; anything else as it is printed."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(value, str) or not is_number:
        return value if isinstance(value, str) else format_value(value)
    return float(value) if isinstance(value, SpelledFloat) else value


def format_method(
    environment: SandboxedEnvironment, pattern: str, name: str, budget: RenderBudget, *, python_spelling: bool
) -> Callable[..., str]:
    """Returns the method `format` or `format_map` of a text; arguments as for `percent`."""
    formatter = (
        _EscapeFormatter(environment, budget, python_spelling=python_spelling, escape=pattern.escape)
        if isinstance(pattern, Markup)
        else _Formatter(environment, budget, python_spelling=python_spelling)
    )

    def wrapper(*arguments: Any, **options: Any) -> str:
        if name == "format_map":
            if len(arguments) != 1 or options:
                raise TypeError("format_map() takes exactly one argument")
            options, arguments = arguments[0], ()
        budget.create(len(pattern))
        return type(pattern)(formatter.vformat(str.__str__(pattern), arguments, options))

    return update_wrapper(wrapper, getattr(str, name))


class _Formatter(SandboxedFormatter):
    """Formats the fields of a pattern, each within the budget."""

    def __init__(
        self, environment: SandboxedEnvironment, budget: RenderBudget, *, python_spelling: bool, **options: Any
    ) -> None:
        super().__init__(environment, **options)
        self._budget = budget
        self._python_spelling = python_spelling

    def convert_field(self, value: Any, conversion: Any) -> Any:  # noqa: ANN401
        """Applies `!s`, `!r` or `!a`."""
        if conversion is None:
            return value
        self._budget.require(text_size(value, self._budget))
        if self._python_spelling:
            return super().convert_field(value, conversion)
        if conversion != "s":
            raise TemplateRuntimeError(f"!{conversion} prints the spelling of Python; leave it out or use |tojson")
        return format_value(value)

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401
        """Formats a value by what stands behind the colon: width, precision and type."""
        size = text_size(value, self._budget) + sum(map(int, _NUMBER.findall(format_spec)))
        self._budget.require(size)
        result = self._formatted(value, format_spec)
        self._budget.create(len(result))
        return result

    def _formatted(self, value: Any, format_spec: str) -> str:  # noqa: ANN401
        """Returns the text of a value."""
        if self._python_spelling:
            return str(super().format_field(value, format_spec))
        value = _number_or_text(value) if format_spec or isinstance(value, str) else format_value(value)
        if format_spec.endswith("n"):
            raise TemplateRuntimeError("the format :n depends on the locale; use :d or :g")
        if format_spec.endswith("c") and isinstance(value, int) and value in _SURROGATES:
            raise TemplateRuntimeError(f"U+{value:04X} is half of a surrogate pair, not a character")
        return str(super().format_field(value, format_spec))


class _EscapeFormatter(_Formatter, SandboxedEscapeFormatter):
    """Formats the fields of an escaped pattern, and escapes each."""
