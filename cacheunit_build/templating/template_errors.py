"""Turns an exception that a template raised into an error message with file, line and hint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, TemplateNotFound, TemplatesNotFound, TemplateSyntaxError
from jinja2.exceptions import SecurityError

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail
from cacheunit_build.templating.bounded_environment import NONDETERMINISTIC, CalledValueError
from cacheunit_build.templating.budget import MAX_DEPTH, DepthError, LimitError
from cacheunit_build.templating.environment import MissingNameError
from cacheunit_build.templating.plain_data import type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_LONGEST_MESSAGE = 500
_PYTHON_NAME = re.compile(r"(?:\w+\.)*_?(?:sync_)?(?:do_)?(\w+\(\))")
"""The name of a function in an error of Python: `sync_do_groupby()`, `BoundedEnvironment._range()`."""
_CHANGING_METHODS = (
    *("append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"),
)
_CHANGES = (
    "a template cannot change values: start with {% set ns = namespace(items=[]) %}, "
    "and add by {% set ns.items = ns.items + [item] %}"
)
_QUOTED = re.compile(r"'(\w+)'")
_RAW = "to print braces as they are, put {% raw %} in front of the text and {% endraw %} behind it"
# Handlebars and Mustache: {{#each}}, {{/if}}, {{> partial}}, {{^empty}}, {{&raw}}, {{!-- comment --}}, {{{triple}}},
# {{@index}}; GitHub Actions: ${{ x }}; Go and n8n: {{ .Values }}, {{ $json }}; JavaScript: {{ x?.y }}, {{ a && b }}.
_FOREIGN_SYNTAX = re.compile(r"\$\{\{|\{\{[-~]?\s*[#/>^&!@.$?]|\{\{\{(?!\s*['\"\w]+\s*:)|\{\{[^}]*(?:\?\.|&&|\|\|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRender:
    """What was being rendered when a template raised an exception.

    Attributes:
        folder: the template folder, relative to the project root.
        template: the name of the template that was rendered.
        variables: the variables of the render.
        origins: the file that each variable comes from.
        read: returns the bytes of a file, for hints.
        templates: returns the names of all templates, for hints.
        filters: the names of the environment's filters.
        tests: the names of its tests, as in `is defined`.
    """

    folder: str
    template: str
    variables: Mapping[str, Any]
    origins: Mapping[str, str]
    read: Callable[[str], bytes | None]
    templates: Callable[[], Collection[str]]
    filters: Collection[str]
    tests: Collection[str]

    def origin_of(self, value: object) -> str | None:
        """Returns the variable that contains a value, and its file: `"tools" of data/tools.yaml`; None if none does."""
        if isinstance(value, int | float | None):
            return None  # equal numbers are often one object to Python
        for name, variable in self.variables.items():
            pending = [variable]
            while pending:
                part = pending.pop()
                if part is value:
                    return f'"{name}" of {self.origins[name]}' if name in self.origins else f'"{name}"'
                if isinstance(part, dict):
                    pending += part.values()
                elif isinstance(part, list):
                    pending += part
        return None


def template_locations(error: BaseException) -> list[tuple[str, int]]:
    """Returns template name and line of each template in the traceback of an error, outermost first.

    Jinja rewrites tracebacks so that frames of compiled templates have the template's file name and line.
    """
    locations = []
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            locations.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return locations


def explain_template_error(error: Exception, render: FailedRender) -> CacheunitError:
    """Returns the error to report for an exception that a template raised, with file, line and hint."""
    path, line = _location(error, render)
    if isinstance(error, CacheunitError):
        return CacheunitError(*error.faults_at(path, line))
    message, hint = _describe(error, render)
    message = _PYTHON_NAME.sub(r"\1", message)[:_LONGEST_MESSAGE]
    if line is not None and path is not None and isinstance(error, TemplateSyntaxError | MissingNameError):
        lines = (render.read(path) or b"").decode("utf-8", "replace").split("\n")
        if _FOREIGN_SYNTAX.search("".join(lines[line - 1 : line])):
            hint = f"this looks like the syntax of another template language; {_RAW}"
    return fail(message, path=path, line=line, hint=hint)


def _location(error: Exception, render: FailedRender) -> tuple[str | None, int | None]:
    """Returns path and line of an error: of the innermost template in the traceback, or of the syntax error.

    In a cycle of templates, the innermost one is as good as any other, so the first one of the cycle is used.
    """
    if isinstance(error, TemplateSyntaxError):
        return f"{render.folder}/{error.name or render.template}", error.lineno
    locations = template_locations(error)
    if isinstance(error, DepthError) and error.cycle:
        locations = [location for location in locations if location[0] == error.cycle[0]][:1]
    return (f"{render.folder}/{locations[-1][0]}", locations[-1][1]) if locations else (None, None)


# Message and hint, by type of exception; the most specific function is called.


@singledispatch
def _describe(error: Exception, _render: FailedRender) -> tuple[str, str | None]:
    """Describes an exception that is none of Jinja's."""
    return f"{type(error).__name__}: {error}", None


@_describe.register(TemplateError)
def _describe_template_error(error: TemplateError, _render: FailedRender) -> tuple[str, str | None]:
    return str(error), None


@_describe.register(SecurityError)
def _describe_security_error(error: SecurityError, _render: FailedRender) -> tuple[str, str | None]:
    changes = re.search(rf"'({'|'.join(_CHANGING_METHODS)})' of '(?:list|dict)'", str(error))
    return str(error), _CHANGES if changes else None


@_describe.register(RecursionError)
def _describe_recursion(_error: RecursionError, _render: FailedRender) -> tuple[str, str | None]:
    return "nested too deeply", "call or include less from within each other"


@_describe.register(LimitError)
def _describe_limit(error: LimitError, _render: FailedRender) -> tuple[str, str | None]:
    return str(error), error.hint


@_describe.register(DepthError)
def _describe_depth(error: DepthError, _render: FailedRender) -> tuple[str, str | None]:
    if error.cycle:
        return f"templates include each other in a cycle: {' -> '.join(error.cycle)}", error.hint
    if error.templates:
        first, last = " -> ".join(error.templates[:2]), error.templates[-1]
        message = f"templates load each other more than {MAX_DEPTH} deep: {first} -> ... -> {last}"
        return message, "include from fewer levels"
    return str(error), error.hint


@_describe.register(CalledValueError)
def _describe_called_value(error: CalledValueError, render: FailedRender) -> tuple[str, str | None]:
    origin = render.origin_of(error.value)
    use = "print its fields, or write a macro that takes it"
    return str(error), f"it comes from the variable {origin}: {use}" if origin else use


@_describe.register(TemplatesNotFound)
def _describe_missing_templates(error: TemplatesNotFound, _render: FailedRender) -> tuple[str, str | None]:
    if not error.templates:
        return "the name of the template is null, or a list without names", None
    return f"none of the templates {', '.join(map(str, error.templates))} exists", None


@_describe.register(TemplateNotFound)
def _describe_missing_template(error: TemplateNotFound, render: FailedRender) -> tuple[str, str | None]:
    return f'there is no template "{shortened(str(error.name))}"', did_you_mean(str(error.name), render.templates())


@_describe.register(MissingNameError)
def _describe_missing_name(error: MissingNameError, render: FailedRender) -> tuple[str, str | None]:
    if error.name is None:
        return str(error).rstrip("."), 'test it before, as in "{% if … is defined %}", or use |default("")'
    name = shortened(str(error.name))
    if error.owner is not None:
        keys = map(str, error.owner) if isinstance(error.owner, dict) else ()
        return f'"{name}" is undefined: {type_name(error.owner)} has no such key', did_you_mean(name, keys)
    # A variable that exists is undefined only in a macro that was imported without context.
    message = f'"{name}" is undefined'
    if name in render.variables:
        return message, 'import the template "with context", or pass the variable as an argument'
    return message, _removed_name_hint(name) or did_you_mean(name, map(str, render.variables))


@_describe.register(TemplateSyntaxError)
def _describe_syntax_error(error: TemplateSyntaxError, render: FailedRender) -> tuple[str, str | None]:
    message = str(error.message)
    if "unknown tag 'do'" in message:
        return message, _CHANGES
    if "named '" not in message:
        return message, _RAW
    # "No filter named 'lowwer'.", "No test named 'evne'."
    names = render.filters if "filter named" in message else render.tests
    hints = (_removed_name_hint(name) or did_you_mean(name, names) for name in _QUOTED.findall(message))
    return message, next(filter(None, hints), None)


def _removed_name_hint(name: str) -> str | None:
    """Returns a hint if `name` is a filter or global of Jinja that was removed from the environment."""
    removed = any(name in names for names in NONDETERMINISTIC.values())
    return f'"{name}" is not available: its output differs from build to build' if removed else None
