"""Turns the text of a prompt into a Jinja template, or checks that it is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from jinja2 import TemplateSyntaxError, meta, nodes

from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.templating.environment import DeterministicEnvironment

_Reference: TypeAlias = nodes.Include | nodes.Import | nodes.FromImport | nodes.Extends
_DELIMITER = re.compile(r"\{[{%#]")


def literal_template(text: str) -> str:
    """Returns a Jinja template that renders to exactly `text`: `Hi {{name}}` -> `Hi {{ '{{' }}name}}`."""
    return _DELIMITER.sub(lambda match: "{{ '" + match[0] + "' }}", text)


def delimiter_count(text: str) -> int:
    """Returns how many Jinja delimiters `literal_template` escapes."""
    return len(_DELIMITER.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateNames:
    """What a template refers to.

    Attributes:
        variables: the variables that it uses and does not set, sorted.
        templates: the templates that it includes, imports or extends by a fixed name, and that have to exist, sorted.
    """

    variables: tuple[str, ...]
    templates: tuple[str, ...]


def template_names(text: str, path: str, first_line: int) -> TemplateNames:
    """Returns what a template refers to.

    Args:
        text: the template.
        path: its source, for messages.
        first_line: the line of the source at which the text begins.

    Raises:
        CacheunitError: it is not a valid template.
    """
    environment = DeterministicEnvironment(lambda _name, _parent: text)
    hint = "without --template, and without a .j2 suffix, the text is taken as it is"
    try:
        environment.get_template("t")
        parsed = environment.parse(text)
    except TemplateSyntaxError as error:
        line = first_line + (error.lineno or 1) - 1
        raise fail(f"not a valid template: {error.message}", path=path, line=line, hint=hint) from None
    except CacheunitError as error:
        raise CacheunitError(*error.faults_at(path, first_line)) from None
    references: list[_Reference] = []
    for kind in (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends):
        references += parsed.find_all(kind)
    required = [node for node in references if not getattr(node, "ignore_missing", False)]
    names = {name for node in required for name in _fixed_names(node.template)}
    variables = meta.find_undeclared_variables(parsed)
    return TemplateNames(variables=tuple(sorted(variables)), templates=tuple(sorted(names)))


def _fixed_names(node: nodes.Expr) -> list[str]:
    """Returns the names of templates in the expression of an include; none for a computed one."""
    items = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    return [item.value for item in items if isinstance(item, nodes.Const) and isinstance(item.value, str)]


def rendered(templates: dict[str, str], name: str) -> str:
    """Returns the text that a template without variables renders to.

    Args:
        templates: the text of each template by name.
        name: the template.
    """
    return DeterministicEnvironment(lambda wanted, _parent: templates.get(wanted)).get_template(name).render()
