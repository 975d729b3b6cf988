"""The Jinja environment for prompts, in which the same sources always render to the same text.

It is sandboxed, bounded and strict about undefined names, and has no randomness, no clock and no memory addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, StrictUndefined, TemplateNotFound, pass_environment, pass_eval_context
from jinja2.exceptions import SecurityError, TemplateRuntimeError, UndefinedError
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Undefined
from jinja2.utils import missing

from cacheunit_build.parsing.json import SpelledFloat
from cacheunit_build.templating.bounded_calls import require_json
from cacheunit_build.templating.bounded_environment import BoundedEnvironment, value_position
from cacheunit_build.templating.budget import TEMPLATE_STEPS
from cacheunit_build.templating.plain_data import format_value, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from jinja2 import Environment, Template
    from jinja2.nodes import EvalContext

    FindTemplate = Callable[[str, str | None], str | None]
    """Name of a template, and of the template that refers to it (None at the top) -> its text; None if missing."""


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


class DeterministicEnvironment(BoundedEnvironment):
    """The environment for prompt templates.

    It caches no loaded template: Jinja does not ask the loader for a cached one, and each include and import of each
    render must be recorded. Only the functions of compiled templates are kept, by the text of the template.

    Args:
        find: returns the text of a template; called for each include and import.

    Attributes:
        referrers: name of a template that is about to be loaded -> the template that refers to it.
        used_variables: the variables that templates have used.
    """

    context_class = _Context
    python_spelling = False
    printable = staticmethod(format_value)

    def __init__(self, find: FindTemplate) -> None:
        filters = {name: _formatting_its_value(name, FILTERS[name]) for name in TEXT_FILTERS}
        filters |= {"format": self._format, "tojson": _tojson, "join": _join, "urlencode": _urlencode}
        super().__init__(
            filters | {"xmlattr": _xmlattr},
            loader=_Loader(find, self),
            cache_size=0,
            undefined=_StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.loopcontrols"],
        )
        self.referrers: dict[str, str] = {}
        self.used_variables: set[str] = set()

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Returns the names that a template has without variables: those of the environment, which nothing changes."""
        return super().make_globals(d) if d else self.globals  # Jinja would make a chain of mappings for each template

    def join_path(self, template: str, parent: str) -> str:
        """Returns the name unchanged, since names are relative to the template folder; records who refers to it."""
        if not isinstance(template, str | Undefined):
            raise TemplateRuntimeError(f"the name of a template must be text, not {type_name(template)}")
        self.referrers[template] = parent
        return template

    def select_template(self, names: Any, *options: Any) -> Any:  # noqa: ANN401
        """Loads the first template of a list that exists."""
        if names and not isinstance(names, list | tuple | Undefined):
            names = [names]  # no name, which join_path tells
        return super().select_template(names, *options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Evaluates an operator; refuses sets, which have no order, as d.keys() - ['x'] would be."""
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, set | frozenset):
            raise SecurityError("a set has no order; select from a list instead")
        return result


class _Loader(BaseLoader):
    """Loads templates through a function, which also gets the name of the template that refers to them."""

    def __init__(self, find: FindTemplate, environment: DeterministicEnvironment) -> None:
        self._find = find
        self._environment = environment
        self._modules: dict[tuple[str, str], MutableMapping[str, Any]] = {}  # by the name and the text of a template

    def load(
        self,
        environment: Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 - Jinja's name
    ) -> Template:
        """Returns a template of the present text, whose functions are compiled once for all templates of that text.

        The template itself is new, since it keeps what it exports once it was imported.
        """
        source, filename, _ = self.get_source(environment, name)
        names = environment.make_globals(None) if globals is None else globals
        module = self._modules.get((name, source))
        if module is not None:
            return environment.template_class.from_module_dict(environment, module, names)
        code = environment.compile(source, name, filename)
        template = environment.template_class.from_code(environment, code, names)
        self._modules[name, source] = template.root_render_func.__globals__
        return template

    def get_source(self, _environment: object, template: str) -> tuple[str, str, None]:
        """Returns the text, and the name as the file name: tracebacks then show template and line."""
        self._environment.budget.step(TEMPLATE_STEPS)
        # Jinja calls join_path, which records the referrer, for include, import and extends, not for the top template.
        text = self._find(template, self._environment.referrers.pop(template, None))
        if text is None:
            raise TemplateNotFound(template)
        self._environment.budget.scan(len(text))
        return text, template, None


TEXT_FILTERS = (
    *("capitalize", "center", "e", "escape", "forceescape", "indent", "lower", "replace", "safe", "string"),
    *("striptags", "title", "trim", "truncate", "upper", "urlize", "wordcount", "wordwrap"),
)
"""Jinja's filters that take a text; here any value that they are applied to is formatted first."""

_TEXT_ARGUMENTS: dict[str, tuple[tuple[int, str], ...]] = {
    "replace": ((0, "old"), (1, "new")),
    "urlize": ((2, "target"), (3, "rel")),
    "wordwrap": ((2, "wrapstring"),),
}
"""Arguments of these filters that become text too, by position and name."""


def _formatting_its_value(name: str, apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a text filter, so that its value and its texts are formatted as if they were printed."""
    position = value_position(apply)
    texts = _TEXT_ARGUMENTS.get(name, ())

    @wraps(apply)
    def wrapped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        given = list(arguments)
        given[position] = _as_text(given[position])
        for index, key in texts:
            if index + position + 1 < len(given):
                given[index + position + 1] = _as_text(given[index + position + 1])
            elif options.get(key) is not None:
                options[key] = _as_text(options[key])
        return apply(*given, **options)

    return wrapped


def _as_text(value: Any) -> str:  # noqa: ANN401
    """Returns a text as it is, with its traced lines or its mark as escaped; anything else as it is printed."""
    return value if isinstance(value, str) else format_value(value)


def _urlencode(value: Any) -> str:  # noqa: ANN401
    """Jinja's filter `urlencode`, with keys and values formatted as if they were printed."""
    encode: Callable[[Any], str] = FILTERS["urlencode"]
    if isinstance(value, dict):
        value = value.items()
    elif not isinstance(value, Iterable) or isinstance(value, str):
        return encode(_as_text(value))
    return encode([(_as_text(key), _as_text(item)) for key, item in value])


@pass_eval_context
def _xmlattr(eval_context: EvalContext, d: Mapping[str, Any], autospace: bool = True) -> str:  # noqa: FBT001, FBT002
    """Jinja's filter `xmlattr`, with the values formatted as if they were printed; null is left out."""
    texts = {key: _as_text(item) for key, item in d.items() if item is not None and not isinstance(item, Undefined)}
    result: str = FILTERS["xmlattr"](eval_context, texts, autospace)
    return result


@pass_environment
def _join(
    environment: DeterministicEnvironment, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    """Jinja's filter `join`, with each item formatted as if it was printed."""
    items = value if attribute is None else [environment.getitem(item, attribute) for item in value]
    # [a, b, c] with ", " -> a ", " b ", " c: the first separator is dropped.
    parts: list[object] = []
    for item in items:
        parts += [d, item]
    return environment.concat_values(parts[1:])


@pass_environment
def _tojson(
    environment: DeterministicEnvironment, value: object, indent: int | str | None = None, *, sort_keys: bool = False
) -> str:
    """Formats a value as JSON: keys in source order, no unnecessary escapes, floats as their source spells them."""
    require_json(value, indent, environment.budget)
    floats: list[str] = []

    def hold(value: Any) -> Any:  # noqa: ANN401
        """Replaces each float by a placeholder, since the json module cannot keep its spelling."""
        if isinstance(value, Undefined):
            return str(value)  # raises an error with its name
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
