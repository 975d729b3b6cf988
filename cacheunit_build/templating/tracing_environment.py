"""A Jinja environment that prints text which records the source lines it comes from.

The text itself is the same as without tracing. Where a filter returns something that cannot be traced, it gets the
line of the expression that prints it.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from cacheunit_build.domain.source_map import MappedSpan, SourceLine
from cacheunit_build.templating.bounded_environment import value_position
from cacheunit_build.templating.environment import TEXT_FILTERS, DeterministicEnvironment
from cacheunit_build.templating.template_compiler import BoundedGenerator
from cacheunit_build.templating.traced_text import TracedText, add_outer_line, join_traced, trace_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jinja2.compiler import Frame

    from cacheunit_build.templating.environment import FindTemplate


class _TracingGenerator(BoundedGenerator):
    """Compiles templates so that everything they print is traced.

    For line 3 of `a.j2`, with Jinja's own code on the left:

        yield 'Be kind.'            yield environment.template_text('Be kind.', 'a.j2', 3, True)
        yield str(l_0_name)         yield environment.printed_text(str(l_0_name), 'a.j2', 3)
        yield event (an include)    yield environment.printed_text(event, 'a.j2', 3)
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._output: nodes.Expr  # the part of an output statement that is being compiled
        self._include_line = 0  # the line of the include that is being compiled; 0 if none
        self._writing: list[nodes.Node | None] = []

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        """Compiles each part of an output statement by itself: Jinja would join constants of several lines."""
        for part in node.nodes:
            self._output = part
            super().visit_Output(nodes.Output([part], lineno=part.lineno), frame)

    # The next three are Jinja's hooks for one part of an output statement: constant text, before and after a value.

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        verbatim = isinstance(self._output, nodes.TemplateData)
        text = super()._output_const_repr(group)
        return f"environment.template_text({text}, {self.name!r}, {self._output.lineno}, {verbatim})"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:  # noqa: ANN401
        self.write("environment.printed_text(")
        super()._output_child_pre(node, frame, finalize)

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:  # noqa: ANN401
        super()._output_child_post(node, frame, finalize)
        self.write(f", {self.name!r}, {node.lineno})")

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        """Starts the output of a statement, such as a call block or a filter block."""
        super().start_write(frame, node)
        self._writing.append(node)
        if node is not None:
            self.write("environment.printed_text(")

    def end_write(self, frame: Frame) -> None:
        """Ends the output of a statement."""
        node = self._writing.pop()
        if node is not None:
            self.write(f", {self.name!r}, {node.lineno})")
        super().end_write(frame)

    def simple_write(self, s: str, frame: Frame, node: nodes.Node | None = None) -> None:
        """Writes the output of an expression of the generated code; an include yields the variable `event`."""
        if s == "event" and self._include_line:
            s = f"environment.printed_text(event, {self.name!r}, {self._include_line})"
        super().simple_write(s, frame, node)

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        """Compiles an include, whose output gets the line of the statement."""
        self._include_line = node.lineno
        super().visit_Include(node, frame)
        self._include_line = 0


class TracingEnvironment(DeterministicEnvironment):
    """Renders what a `DeterministicEnvironment` renders, as traced text.

    Args:
        find: returns the text of a template; called for each include and import.
        folder: the template folder, relative to the project root.
    """

    code_generator_class = _TracingGenerator

    def __init__(self, find: FindTemplate, folder: str) -> None:
        super().__init__(find)
        self._folder = folder
        self.filters.update({name: _traced_filter(self.filters[name]) for name in TEXT_FILTERS})

    def template_text(self, text: str, name: str, line: int, verbatim: bool) -> TracedText:  # noqa: FBT001 - compiled code calls it
        """Traces a text that a template contains itself; called by compiled code."""
        chain = (SourceLine(path=f"{self._folder}/{name}", line=line),)
        return TracedText(text, [MappedSpan(length=len(text), chain=chain, verbatim=verbatim)])

    def printed_text(self, value: Any, name: str, line: int) -> Any:  # noqa: ANN401 - a value that is no text is returned as it is
        """Adds the template line that prints a text: an expression, call or include; called by compiled code."""
        if not isinstance(value, str):
            return value
        return add_outer_line(value, SourceLine(path=f"{self._folder}/{name}", line=line))

    def join_texts(self, texts: Iterable[str]) -> str:
        """Joins texts, and their source lines."""
        return join_traced(texts)


def _traced_filter(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a text filter, so that its result is traced to the text that it is applied to."""
    position = value_position(apply)

    @wraps(apply)
    def traced(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        result = apply(*arguments, **options)
        source = arguments[position]
        return trace_result(source, result) if isinstance(source, TracedText) and isinstance(result, str) else result

    return traced
