"""Jinja, made to give the same text for the same sources: sandboxed, strict, without chance, clock or addresses.

Templates are trusted code: the sandbox keeps mistakes from spreading, it is no wall against malice.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, BytecodeCache, StrictUndefined, TemplateNotFound
from jinja2.exceptions import SecurityError, TemplateRuntimeError, UndefinedError
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from jinja2.bccache import Bucket
    from jinja2.runtime import Context

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
        self._steps = 0

    def restart(self) -> None:
        """A new render begins."""
        self._steps = 0

    def range(self, *arguments: int) -> range:
        """As the built-in one, while the budget lasts."""
        items = range(*arguments)
        self._steps += len(items)
        if self._steps > MOST_STEPS:
            raise SecurityError(f"loops of more than {MOST_STEPS:,} steps")
        return items


def template_place(error: BaseException) -> tuple[str | None, int | None]:
    """The innermost template's name and line in a traceback that Jinja has rewritten."""
    place: tuple[str | None, int | None] = (None, None)
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return place


class MissingNameError(UndefinedError):
    """A name or attribute that is not there; `owner` is what was asked for it, None for the variables themselves."""

    def __init__(self, message: str, *, name: object, owner: object) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class _Strict(StrictUndefined):
    def __init__(self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: Any = None) -> None:  # noqa: ANN401
        error: Any = partial(MissingNameError, name=name, owner=None if obj is missing else obj)
        super().__init__(hint, obj, name, exc or error)


class FrozenEnvironment(ImmutableSandboxedEnvironment):
    """Loads every template anew through `find`, so that each include and import of each render is asked for.

    Args:
        find: name of a template and of the template that names it (None at the top) -> its text, None where absent.
    """

    intercepted_binops = frozenset({"*", "**", "-"})

    def __init__(self, find: Callable[[str, str | None], str | None]) -> None:
        super().__init__(
            loader=_Loader(find, self),
            bytecode_cache=_Codes(),
            cache_size=0,
            undefined=_Strict,
            autoescape=False,
            keep_trailing_newline=True,
            finalize=_printed,
        )
        self.asked_by: dict[str, str] = {}
        self.budget = StepBudget()
        self.globals["range"] = self.budget.range
        for name in NOT_FROZEN["filters"]:
            del self.filters[name]
        for name in NOT_FROZEN["globals"]:
            del self.globals[name]
        self.filters["tojson"] = _tojson

    def join_path(self, template: str, parent: str) -> str:
        """Every name is relative to the template folder; notes who asks for it."""
        self.asked_by[template] = parent
        return template

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Refuses what would have no order, or no end."""
        if operator == "**" and isinstance(right, int) and right > _MOST_EXPONENT:
            raise SecurityError(f"a power above {_MOST_EXPONENT}")
        if operator == "*" and _product_size(left, right) > MOST_CHARACTERS:
            raise SecurityError(f"a product above {MOST_CHARACTERS} items")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, set | frozenset):
            raise SecurityError("a set has no order; select from a list instead")
        return result


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
    """Compiled templates, kept by the text they were compiled from."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


def _printed(value: object) -> str:
    """A value as it stands in the text: texts, numbers and booleans only, never Python's spelling of something."""
    if isinstance(value, str | Undefined):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise TemplateRuntimeError("prints null; give it a value, or use |default('', true)")
    kind = "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    raise TemplateRuntimeError(f"prints {kind}; use |join, |tojson or one of its fields")


def _tojson(value: object, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """JSON as a model should read it: keys in the order of the source, no escapes but JSON's own."""
    return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys, allow_nan=False)
