"""Jinja's sandbox with bounds: what a template does is counted before it happens, and only plain data becomes text."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sized
from functools import wraps
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateSyntaxError
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.filters import make_attrgetter
from jinja2.runtime import BlockReference, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing
from markupsafe import Markup

from cacheunit_build.templating.bounded_calls import PASSING_FILTERS, check_filter, check_method, check_result
from cacheunit_build.templating.budget import (
    CALL_STEPS,
    CHARACTERS_PER_STEP,
    ITEM_CHARACTERS,
    MAX_BITS,
    MAX_STEPS,
    LimitError,
    RenderBudget,
)
from cacheunit_build.templating.plain_data import check_number, refuse_object, text_size, type_name
from cacheunit_build.templating.template_compiler import BoundedGenerator, parse_template
from cacheunit_build.templating.text_formatting import format_method, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jinja2 import nodes
    from jinja2.runtime import Context

NONDETERMINISTIC = {"filters": ("random", "pprint"), "globals": ("lipsum",)}
"""Jinja's filters and globals whose output differs from run to run, and which are removed."""

_COMPARING_TESTS = frozenset(
    ("eq", "==", "equalto", "ne", "!=", "lt", "<", "lessthan", "le", "<=", "gt", ">", "greaterthan", "ge", ">=", "in")
)


_NO_CONTEXT: Any = None
"""Operators do not use the variables."""

_SLOW_TEST = 8
"""How many times longer than a comparison it takes to see whether a text is lower or upper case."""


class CalledValueError(UndefinedError):
    """A template calls a value, which is no function, or a method that the value does not have.

    Attributes:
        name: the name of the missing method; None if the value itself is called.
        value: the value.
    """

    def __init__(self, *, name: str | None, value: object) -> None:
        called = "called like a function" if name is None else f'asked for a method "{name}"'
        super().__init__(f"{type_name(value)} is {called}, but values are plain data without methods of their own")
        self.name = name
        self.value = value


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which each render has a budget, and only plain data can become text.

    Args:
        filters: filters that replace those of Jinja.
        options: options of Jinja's environment.

    Attributes:
        budget: counts the steps, characters and depth of the render that is going on; one thread renders at a time.
        python_spelling: whether values are printed as Python spells them, as transformers does.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    code_generator_class = BoundedGenerator
    python_spelling = True

    def __init__(self, filters: Mapping[str, Callable[..., Any]], **options: Any) -> None:
        self.budget = RenderBudget()
        super().__init__(optimized=False, finalize=self.printable, **options)
        self.concat: Any = self._concat  # Jinja joins the output of macros and blocks by this attribute
        self.globals["range"] = self._range
        # Without these names, a template that uses one fails with its line, and a hint says why.
        for name in NONDETERMINISTIC["filters"]:
            del self.filters[name]
        for name in NONDETERMINISTIC["globals"]:
            del self.globals[name]
        self.filters |= {"format": self._format, "sum": self._sum, **filters}
        self.filters = {name: _bounded_filter(name, apply, self.budget) for name, apply in self.filters.items()}
        tests: Any = self.tests
        self.tests = {name: _bounded_test(name, apply, self.budget) for name, apply in tests.items()}

    # What Jinja calls to compile a template.

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return parse_template(self, source, name, filename)

    def compile(self, source: Any, name: str | None = None, filename: str | None = None, *options: Any) -> Any:  # noqa: ANN401
        """Compiles a template; what Python itself cannot compile is an error in the template."""
        try:
            return super().compile(source, name, filename, *options)
        except (RecursionError, MemoryError):
            raise TemplateSyntaxError("nested too deeply", 1, name, filename) from None
        except (SyntaxError, ValueError) as error:
            raise TemplateSyntaxError(f"not valid: {getattr(error, 'msg', error)}", 1, name, filename) from None

    # What compiled templates call.

    def printable(self, value: Any) -> Any:  # noqa: ANN401
        """Returns a value that can be printed; its size is counted."""
        if type(value) is not str:
            self.budget.require(text_size(value, self.budget))
        return value

    def concat_values(self, values: Iterable[object]) -> str:
        """Joins values, each formatted as if it was printed on its own: the result of `~`."""
        return self._concat([str(self.printable(value)) for value in values])

    def _concat(self, texts: Iterable[str]) -> str:
        """Joins texts: the output of a template, a macro or a block."""
        parts = []
        for text in texts:
            try:
                self.budget.create(len(text))
            except LimitError as error:
                if isinstance(texts, Generator):
                    texts.throw(error)  # so that its traceback shows the line that prints the text
                raise
            parts.append(text)
        return self.join_texts(parts)

    def join_texts(self, texts: Iterable[str]) -> str:
        """Joins texts that are counted."""
        return "".join(texts)

    def comparable(self, value: Any) -> Any:  # noqa: ANN401
        """Returns a value that is compared or hashed next, after counting everything in it."""
        if isinstance(value, str):
            self.budget.scan(len(value))
        elif isinstance(value, Sized):
            self.budget.scan(_compared_size(value, self.budget))
        return value

    def hashable(self, value: Any) -> Any:  # noqa: ANN401
        """Returns a value that is hashed next as a key of a mapping."""
        if isinstance(value, int):
            self.budget.hash_number(value)
        return self.comparable(value)

    def contains(self, item: Any, container: Any) -> bool:  # noqa: ANN401
        """Returns whether an item is in a container: `item in container`."""
        self.comparable(item)
        if isinstance(container, str):
            self.budget.scan(len(container))
        elif isinstance(container, Iterator):
            container = list(self.budget.counted(container))
        elif isinstance(container, Collection) and not isinstance(container, dict):
            if isinstance(item, str) and len(item) >= CHARACTERS_PER_STEP and not isinstance(container, range):
                # Texts are compared only where they are equally long.
                equal = sum(isinstance(other, str) and len(other) == len(item) for other in container)
                self.budget.scan(equal * len(item))
            elif not isinstance(item, str | int | float | None):
                self.comparable(container)
            self.budget.step(len(container) // CALL_STEPS)
        return item in container

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401
        """Returns an item of a list or mapping: `obj[argument]`."""
        return super().getitem(obj, self.comparable(argument))

    def slice(self, value: Any, part: slice) -> Any:  # noqa: ANN401
        """Returns a part of a text or list: `value[1:n]`."""
        if isinstance(value, Sized):
            size = len(range(*part.indices(len(value)))) if _has_integers(part) else 0
            self.budget.create(size if isinstance(value, str) else ITEM_CHARACTERS * size)
        return value[part]

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Evaluates an operator, or raises `LimitError` if the result would be too large."""
        if operator == "%" and isinstance(left, str):
            return percent(left, right, self.budget, python_spelling=self.python_spelling)
        if operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            size = len(left) + len(right)
            size *= ITEM_CHARACTERS if isinstance(left, list | tuple) else 6 if isinstance(left, Markup) else 1
            self.budget.create(size)
            return super().call_binop(context, operator, left, right)
        if operator == "*":
            self.budget.create(_product_size(left, right))
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else 0
            bits = left.bit_length() + right.bit_length() if operator == "*" else bits
            if bits > 2 * MAX_BITS:
                raise LimitError(f"computes an integer of more than {MAX_BITS:,} bits")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int):
            check_number(result, self.budget)
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:  # noqa: ANN401
        """Returns a bounded method if a value is the method `format` or `format_map` of a text, else None."""
        if isinstance(value, MethodType | BuiltinMethodType) and value.__name__ in ("format", "format_map"):
            text = value.__self__
            if isinstance(text, str):
                return format_method(self, text, value.__name__, self.budget, python_spelling=self.python_spelling)
        return None

    def call(self, context: Context, function: Any, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        """Calls a macro, function or method within the budget."""
        self.budget.step(CALL_STEPS + len(arguments) + len(options))
        if isinstance(function, Macro | BlockReference | LoopContext):
            depth = self.budget.enter()
            try:
                return super().call(context, function, *arguments, **options)
            finally:
                self.budget.leave(depth)
        owner = getattr(function, "__self__", None)
        if owner is dict or isinstance(owner, str | int | float | dict | list | tuple | range):
            own_options = {key: value for key, value in options.items() if not key.startswith("_")}
            arguments = check_method(owner, function.__name__, arguments, own_options, self.budget)
            result = super().call(context, function, *arguments, **options)
            if result is not owner:
                check_result(result, self.budget)
            return result
        if isinstance(function, Undefined):
            self.refuse_call(function)
        elif isinstance(function, str | int | float | dict | list | tuple | None):
            raise CalledValueError(name=None, value=function)
        elif not isinstance(function, type):
            for value in arguments:
                self.comparable(value)  # loop.changed() compares values
        elif arguments and issubclass(function, dict | Namespace):
            arguments = (self._read(arguments[0]), *arguments[1:])
        return super().call(context, function, *arguments, **options)

    def refuse_call(self, function: Undefined) -> None:
        """Raises an error for the call of an undefined name, if it has a better message than Jinja."""
        owner, name = function._undefined_obj, function._undefined_name  # noqa: SLF001 - Jinja shows them nowhere else
        if owner is not missing and is_value(owner) and function._undefined_exception is not SecurityError:  # noqa: SLF001
            raise CalledValueError(name=str(name), value=owner)

    def _read(self, values: Any) -> Any:  # noqa: ANN401
        """Returns the pairs that a mapping is made of, counted."""
        values = list(self.budget.counted(values)) if isinstance(values, Iterator) else values
        self.budget.create(text_size(values, self.budget))
        return values

    def _range(self, *arguments: int) -> range:
        """Returns the built-in `range` of the arguments, if a loop over it can end within the budget."""
        items = range(*arguments)
        if len(items) > MAX_STEPS:
            raise LimitError(f"a range of more than {MAX_STEPS:,} steps")
        return items

    def _sum(self, values: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:  # noqa: ANN401
        """The filter `sum`: adds from left to right, since Python 3.12 and later round sums of floats differently."""
        if isinstance(start, str):
            raise TypeError("sum adds numbers and lists; join texts by |join")
        for value in values if attribute is None else map(make_attrgetter(self, attribute), values):
            start = self.call_binop(_NO_CONTEXT, "+", start, value)
        return start

    def _format(self, value: object, /, *arguments: Any, **options: Any) -> str:
        """The filter `format`: `value % arguments`."""
        if arguments and options:
            raise TypeError("format takes positional or named arguments, not both")
        text = value if isinstance(value, str) else str(self.printable(value))
        return percent(text, options or arguments, self.budget, python_spelling=self.python_spelling)


def is_value(value: object) -> bool:
    """Returns whether a value is plain data, such as that of a variable."""
    return isinstance(value, str | int | float | dict | list | tuple | None)


def _has_integers(part: slice) -> bool:
    """Returns whether the bounds of a slice are integers; Python says what is wrong with others."""
    return part.step != 0 and all(isinstance(bound, int | None) for bound in (part.start, part.stop, part.step))


def _compared_size(value: object, budget: RenderBudget) -> int:
    """Returns the size of a list or mapping that is compared; 0 for an object of Jinja, compared by identity."""
    return text_size(value, budget) if isinstance(value, dict | list | tuple) else 0


def _product_size(left: object, right: object) -> int:
    """Returns the characters that a repeated text or list counts; 0 for a product of numbers."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | list | tuple) and isinstance(times, int):
            return len(sequence) * max(times, 0) * (1 if isinstance(sequence, str) else ITEM_CHARACTERS)
    return 0


def _bounded_filter(name: str, apply: Callable[..., Any], budget: RenderBudget) -> Callable[..., Any]:
    """Wraps a filter, so that it checks the budget before it runs, and takes plain data only."""
    position = value_position(apply)

    @wraps(apply)
    def bounded(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        budget.step(CALL_STEPS)
        if len(arguments) <= position:  # passed by name; Jinja's filters have names of their own for it
            raise TypeError(f"{name} needs a value")
        value, more = arguments[position], arguments[position + 1 :]
        if name not in PASSING_FILTERS:
            refuse_object(value)
            for argument in (*more, *options.values()):
                refuse_object(argument)
        checked = check_filter(name, value, more, options, budget)
        result = apply(*arguments[:position], checked, *more, **options)
        if result is not value and name not in PASSING_FILTERS:
            check_result(result, budget)
        return result

    return bounded


def _bounded_test(name: str, apply: Callable[..., Any], budget: RenderBudget) -> Callable[..., Any]:
    """Wraps a test such as `is eq`, so that it counts what it compares."""
    position = value_position(apply)

    @wraps(apply)
    def bounded(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        budget.step(CALL_STEPS)
        for value in arguments[position:]:
            if isinstance(value, str):
                budget.scan(len(value) * (1 if name in _COMPARING_TESTS else _SLOW_TEST))
            elif name in _COMPARING_TESTS and isinstance(value, Sized):
                budget.scan(_compared_size(value, budget))
        return apply(*arguments, **options)

    return bounded


def value_position(apply: Callable[..., Any]) -> int:
    """Returns the position of the value among a filter's arguments: after the context, if the filter takes that."""
    return 1 if hasattr(apply, "jinja_pass_arg") else 0
