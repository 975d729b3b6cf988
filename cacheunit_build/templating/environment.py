"""The Jinja environment for prompts, in which the same sources always render to the same text.

It is sandboxed and strict about undefined names, and has no randomness, no clock and no memory addresses. Templates are
trusted code: the sandbox limits mistakes, it is no defence against attacks.
"""

from __future__ import annotations

import json
import re
import threading
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, BytecodeCache, StrictUndefined, TemplateNotFound, nodes, pass_environment
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateRuntimeError, UndefinedError
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from cacheunit_build.parsing.json import SpelledFloat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from jinja2.bccache import Bucket
    from jinja2.compiler import Frame

    FindTemplate = Callable[[str, str | None], str | None]
    """Name of a template, and of the template that refers to it (None at the top) -> its text; None if missing."""

NONDETERMINISTIC = {"filters": ("random", "pprint"), "globals": ("lipsum",)}
"""Jinja's filters and globals whose output differs from run to run, and which are removed."""

MAX_STEPS = 1_000_000
"""The most items that all calls of `range` in one render may have together."""

MAX_CHARACTERS = 64_000_000
"""The most characters that one template may render to, and that one multiplication may result in."""

_MAX_EXPONENT = 1_000


class StepBudget:
    """A `range` for templates that fails when the items of all calls in one render exceed `MAX_STEPS`."""

    def __init__(self) -> None:
        self._local = threading.local()

    def reset(self) -> None:
        """Starts a new render in this thread."""
        self._local.steps = 0

    def range(self, *arguments: int) -> range:
        """Returns the built-in `range` of the arguments, as long as the budget lasts."""
        items = range(*arguments)
        self._local.steps = getattr(self._local, "steps", 0) + len(items)
        if self._local.steps > MAX_STEPS:
            raise SecurityError(f"loops of more than {MAX_STEPS:,} steps")
        return items


class MissingNameError(UndefinedError):
    """A template uses a variable, attribute or key that does not exist.

    Attributes:
        name: what is missing.
        owner: the value that was asked for it; None for a variable.
    """

    def __init__(self, message: str, *, name: object, owner: object) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class _Context(Context):
    """The variables of a render; reports to the environment which ones templates use."""

    def resolve_or_missing(self, key: str) -> Any:  # noqa: ANN401
        """Returns the value of a variable, and records that it was used."""
        used: set[str] = self.environment.used_variables  # type: ignore[attr-defined]
        used.add(key)
        return super().resolve_or_missing(key)


class _StrictUndefined(StrictUndefined):
    """An undefined value whose use raises `MissingNameError`."""

    def __init__(self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: Any = None) -> None:  # noqa: ANN401
        error: Any = partial(MissingNameError, name=name, owner=None if obj is missing else obj)
        super().__init__(hint, obj, name, exc or error)


class ConcatGenerator(CodeGenerator):
    """Compiles `a ~ b` to a call of `environment.concat_values`, which formats its parts like printed values."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        """Writes the call, `environment.concat_values((a, b, ))`."""
        self.write("environment.concat_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which a text or list cannot be repeated without limit, nor an exponent be large."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Evaluates an operator, or raises `SecurityError` if the result would be too large."""
        if operator == "**" and isinstance(right, int) and right > _MAX_EXPONENT:
            raise SecurityError(f"an exponent above {_MAX_EXPONENT:,}")
        if operator == "*" and _product_size(left, right) > MAX_CHARACTERS:
            raise SecurityError(f"a product of more than {MAX_CHARACTERS:,} items")
        return super().call_binop(context, operator, left, right)


def _product_size(left: object, right: object) -> int:
    """Returns the length of a repeated text or list; 0 for a product of numbers."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | list | tuple) and isinstance(times, int):
            return len(sequence) * times
    return 0


class DeterministicEnvironment(BoundedEnvironment):
    """The environment for prompt templates.

    It caches no loaded template: Jinja does not ask the loader for a cached one, and each include and import of each
    render must be recorded. Only compiled code is kept, by the text of the template.

    Args:
        find: returns the text of a template; called for each include and import.

    Attributes:
        referrers: name of a template that is about to be loaded -> the template that refers to it.
        used_variables: the variables that templates have used.
        budget: the steps that are left for `range`.
    """

    intercepted_binops = frozenset({"*", "**", "-", "%"})
    code_generator_class = ConcatGenerator
    context_class = _Context

    def __init__(self, find: FindTemplate) -> None:
        super().__init__(
            loader=_Loader(find, self),
            bytecode_cache=_CodeCache(),
            cache_size=0,
            undefined=_StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            finalize=format_value,
        )
        self.referrers: dict[str, str] = {}
        self.used_variables: set[str] = set()
        self.budget = StepBudget()
        self.globals["range"] = self.budget.range
        # Without these names, a template that uses one fails with its line, and a hint says why.
        for name in NONDETERMINISTIC["filters"]:
            del self.filters[name]
        for name in NONDETERMINISTIC["globals"]:
            del self.globals[name]
        self.filters.update({name: _formatting_its_value(self.filters[name]) for name in TEXT_FILTERS})
        self.filters.update(tojson=_tojson, join=_join)

    def join_path(self, template: str, parent: str) -> str:
        """Returns the name unchanged, since names are relative to the template folder; records who refers to it."""
        self.referrers[template] = parent
        return template

    def concat_values(self, values: Iterable[object]) -> str:
        """Joins values, each formatted as if it was printed on its own: the result of `~` and `|join`."""
        return "".join(map(format_value, values))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Evaluates an operator; formats the values of `%` like printed ones, and refuses sets, which have no order."""
        # '%s' % true is "true", as {{ true }} is; and d.keys() - ['x'] would be a set.
        if operator == "%" and isinstance(left, str):
            right = _format_arguments(left, right)
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, set | frozenset):
            raise SecurityError("a set has no order; select from a list instead")
        return result


def _format_arguments(pattern: str, values: Any) -> Any:  # noqa: ANN401
    """Formats the values of `pattern % values` like printed ones; numbers stay numbers, for patterns such as `%03d`."""
    if isinstance(values, tuple):
        return tuple(_format_arguments("", value) for value in values)
    if isinstance(values, dict) and "%(" in pattern:
        return {name: _format_arguments("", value) for name, value in values.items()}
    number = isinstance(values, int | float) and not isinstance(values, bool | SpelledFloat)
    return values if number else format_value(values)


class _Loader(BaseLoader):
    """Loads templates through a function, which also gets the name of the template that refers to them."""

    def __init__(self, find: FindTemplate, environment: DeterministicEnvironment) -> None:
        self._find = find
        self._environment = environment

    def get_source(self, _environment: object, template: str) -> tuple[str, str, None]:
        """Returns the text, and the name as the file name: tracebacks then show template and line."""
        # Jinja calls join_path, which records the referrer, for include, import and extends, not for the top template.
        text = self._find(template, self._environment.referrers.pop(template, None))
        if text is None:
            raise TemplateNotFound(template)
        return text, template, None


class _CodeCache(BytecodeCache):
    """Keeps compiled templates in memory, by their name and the checksum of their text."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Puts the code of a template that was compiled before into Jinja's bucket."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the code of a template that was just compiled."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


def format_value(value: object) -> str:
    """Formats a value for printing, never as Python spells it.

    | value | text |
    | --- | --- |
    | a text, a number | itself; a float as its source spells it |
    | True, False | true, false |
    | None, a mapping, a list, anything else | `TemplateRuntimeError` |
    """
    if isinstance(value, str | Undefined):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise TemplateRuntimeError("prints null; give it a value, or use |default('', true)")
    raise TemplateRuntimeError(f"prints {type_name(value)}; use |join, |tojson or one of its fields")


def type_name(value: object) -> str:
    """Returns the type of a template's value for a message: "a mapping", "a list", "a text"."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    names = {"Macro": "a macro, not called", "str": "a text", "int": "a number", "bool": "a boolean"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")


TEXT_FILTERS = (
    *("capitalize", "center", "e", "escape", "forceescape", "format", "indent", "lower", "replace", "string"),
    *("striptags", "title", "trim", "truncate", "upper", "urlize", "wordcount", "wordwrap"),
)
"""Jinja's filters that take a text; here any value that they are applied to is formatted first."""


def value_position(apply: Callable[..., Any]) -> int:
    """Returns the position of the value among a filter's arguments: after the context, if the filter takes that."""
    return 1 if hasattr(apply, "jinja_pass_arg") else 0


def _formatting_its_value(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a text filter, so that the value it is applied to is formatted as if it was printed."""
    position = value_position(apply)

    @wraps(apply)
    def wrapped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        value = arguments[position]
        text = value if isinstance(value, str) else format_value(value)
        return apply(*arguments[:position], text, *arguments[position + 1 :], **options)

    return wrapped


@pass_environment
def _join(
    environment: DeterministicEnvironment, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    """Jinja's filter `join`, with each item formatted as if it was printed."""
    items = value if attribute is None else [environment.getitem(item, attribute) for item in value]
    # [a, b, c] with ", " -> a ", " b ", " c: the first separator is dropped.
    parts: list[object] = []
    for item in items:
        parts += [str(d), item]
    return environment.concat_values(parts[1:])


def _tojson(value: object, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """Formats a value as JSON: keys in source order, no unnecessary escapes, floats as their source spells them."""
    floats: list[str] = []

    def hold(value: Any) -> Any:  # noqa: ANN401
        """Replaces each float by a placeholder, since the json module cannot keep its spelling."""
        if isinstance(value, SpelledFloat):
            floats.append(str(value))
            return f"{_PLACEHOLDER}{len(floats) - 1}"
        if isinstance(value, dict):
            return {key: hold(item) for key, item in value.items()}
        return [hold(item) for item in value] if isinstance(value, list | tuple) else value

    # 3.10 becomes "<placeholder>0" in the JSON text, and that, with its quotes, becomes 3.10 again.
    text = json.dumps(hold(value), ensure_ascii=False, indent=indent, sort_keys=sort_keys, allow_nan=False)
    return re.sub(f'"{_PLACEHOLDER}(\\d+)"', lambda match: floats[int(match[1])], text) if floats else text


_PLACEHOLDER = "\ue000cacheunit float "
