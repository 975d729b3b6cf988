"""Jinja, made to give the same text for the same sources: sandboxed, strict, without chance, clock or addresses.

Templates are trusted code: the sandbox keeps mistakes from spreading, it is no wall against malice.
"""

from __future__ import annotations

import json
import re
import threading
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, BytecodeCache, StrictUndefined, TemplateNotFound, nodes, pass_eval_context
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateRuntimeError, UndefinedError
from jinja2.filters import do_join
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from cacheunit_build.parsing.json import SpelledFloat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from jinja2.bccache import Bucket
    from jinja2.compiler import Frame
    from jinja2.nodes import EvalContext

NOT_FROZEN = {"filters": ("random", "pprint"), "globals": ("lipsum",)}
"""Names of Jinja's that give another text each time, and so do not exist here."""

MOST_STEPS = 1_000_000
"""The most items that all `range` of one environment's render may give together."""

MOST_CHARACTERS = 64_000_000
"""The most characters that one template or one multiplication may give."""

_MOST_EXPONENT = 1_000


class StepBudget:
    """A `range` for templates that ends what would not end: all its items in one render are counted together."""

    def __init__(self) -> None:
        self._local = threading.local()

    def restart(self) -> None:
        """A new render begins, in this thread."""
        self._local.steps = 0

    def range(self, *arguments: int) -> range:
        """As the built-in one, while the budget lasts."""
        items = range(*arguments)
        self._local.steps = getattr(self._local, "steps", 0) + len(items)
        if self._local.steps > MOST_STEPS:
            raise SecurityError(f"loops of more than {MOST_STEPS:,} steps")
        return items


def template_places(error: BaseException) -> list[tuple[str, int]]:
    """Template name and line of each step, outermost first, in a traceback that Jinja has rewritten."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            places.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return places


class MissingNameError(UndefinedError):
    """A name or attribute that is not there; `owner` is what was asked for it, None for the variables themselves."""

    def __init__(self, message: str, *, name: object, owner: object) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class _Context(Context):
    """Tells the environment which variables a template asks for."""

    def resolve_or_missing(self, key: str) -> Any:  # noqa: ANN401
        """The value of a name; noted as asked for."""
        asked: set[str] = self.environment.asked  # type: ignore[attr-defined]
        asked.add(key)
        return super().resolve_or_missing(key)


class _Strict(StrictUndefined):
    def __init__(self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: Any = None) -> None:  # noqa: ANN401
        error: Any = partial(MissingNameError, name=name, owner=None if obj is missing else obj)
        super().__init__(hint, obj, name, exc or error)


class Generator(CodeGenerator):
    """Compiles `a ~ b` so that its parts are printed as they would be alone."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        """Writes a call of `concatenated`."""
        self.write("environment.concatenated((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, in which no operator gives without bound."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Refuses what would have no end."""
        if operator == "**" and isinstance(right, int) and right > _MOST_EXPONENT:
            raise SecurityError(f"a power above {_MOST_EXPONENT}")
        if operator == "*" and _product_size(left, right) > MOST_CHARACTERS:
            raise SecurityError(f"a product above {MOST_CHARACTERS} items")
        return super().call_binop(context, operator, left, right)


class FrozenEnvironment(BoundedEnvironment):
    """Loads every template anew through `find`, so that each include and import of each render is asked for.

    Args:
        find: name of a template and of the template that names it (None at the top) -> its text, None where absent.
    """

    intercepted_binops = frozenset({"*", "**", "-", "%"})
    code_generator_class = Generator
    context_class = _Context

    def __init__(self, find: Callable[[str, str | None], str | None]) -> None:
        super().__init__(
            loader=_Loader(find, self),
            bytecode_cache=_Codes(),
            cache_size=0,
            undefined=_Strict,
            autoescape=False,
            keep_trailing_newline=True,
            finalize=printed,
        )
        self.asked_by: dict[str, str] = {}
        self.asked: set[str] = set()
        self.budget = StepBudget()
        self.globals["range"] = self.budget.range
        for name in NOT_FROZEN["filters"]:
            del self.filters[name]
        for name in NOT_FROZEN["globals"]:
            del self.globals[name]
        self.filters.update({name: _of_text(self.filters[name]) for name in TEXT_FILTERS})
        self.filters.update(tojson=_tojson, join=_join)

    def join_path(self, template: str, parent: str) -> str:
        """Every name is relative to the template folder; notes who asks for it."""
        self.asked_by[template] = parent
        return template

    def concatenated(self, parts: Iterable[object]) -> str:
        """What `~` gives."""
        return "".join(map(printed, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Refuses what would have no order; formats values as they are printed."""
        if operator == "%" and isinstance(left, str):
            right = _format_values(left, right)
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, set | frozenset):
            raise SecurityError("a set has no order; select from a list instead")
        return result


def _format_values(pattern: str, values: Any) -> Any:  # noqa: ANN401
    """The values of `pattern % values`, each as it would be printed alone; numbers stay numbers."""
    if isinstance(values, tuple):
        return tuple(_format_values("", value) for value in values)
    if isinstance(values, dict) and "%(" in pattern:
        return {name: _format_values("", value) for name, value in values.items()}
    number = isinstance(values, int | float) and not isinstance(values, bool | SpelledFloat)
    return values if number else printed(values)


def _product_size(left: object, right: object) -> int:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | list | tuple) and isinstance(times, int):
            return len(many) * times
    return 0


class _Loader(BaseLoader):
    def __init__(self, find: Callable[[str, str | None], str | None], environment: FrozenEnvironment) -> None:
        self._find = find
        self._environment = environment

    def get_source(self, _environment: object, template: str) -> tuple[str, str, None]:
        """The text; the name as file name, so that a traceback says where in which template."""
        text = self._find(template, self._environment.asked_by.pop(template, None))
        if text is None:
            raise TemplateNotFound(template)
        return text, template, None


class _Codes(BytecodeCache):
    """CompiledProject templates, kept by the text they were compiled from."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


def printed(value: object) -> str:
    """A value as it stands in the text: texts, numbers and booleans only, never Python's spelling of something."""
    if isinstance(value, str | Undefined):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise TemplateRuntimeError("prints null; give it a value, or use |default('', true)")
    raise TemplateRuntimeError(f"prints {kind_of(value)}; use |join, |tojson or one of its fields")


def kind_of(value: object) -> str:
    """What a template's value is, in the words of templates."""
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
"""Filters that take a text: they are given a value as it would be printed."""


def _of_text(apply: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of texts that takes its value as it would be printed."""
    place = 1 if hasattr(apply, "jinja_pass_arg") else 0

    @wraps(apply)
    def filtered(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        given = list(arguments)
        given[place] = given[place] if isinstance(given[place], str) else printed(given[place])
        return apply(*given, **options)

    return filtered


@pass_eval_context
def _join(context: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Jinja's `join`, its items printed as they would be alone."""
    items = value if attribute is None else [context.environment.getitem(item, attribute) for item in value]
    return str(do_join(context, [printed(item) for item in items], d))


def _tojson(value: object, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """JSON as a model should read it: keys in the order of the source, no escapes but JSON's own, floats as typed."""
    floats: list[str] = []
    text = json.dumps(_held(value, floats), ensure_ascii=False, indent=indent, sort_keys=sort_keys, allow_nan=False)
    return re.sub(f'"{_HOLDER}(\\d+)"', lambda match: floats[int(match[1])], text) if floats else text


_HOLDER = "\ue000cacheunit float "


def _held(value: Any, floats: list[str]) -> Any:  # noqa: ANN401
    """`value` with a place-holder for each float that keeps its spelling."""
    if isinstance(value, SpelledFloat):
        floats.append(str(value))
        return f"{_HOLDER}{len(floats) - 1}"
    if isinstance(value, dict):
        return {key: _held(item, floats) for key, item in value.items()}
    return [_held(item, floats) for item in value] if isinstance(value, list | tuple) else value
