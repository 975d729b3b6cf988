"""Compiles templates to code that counts its steps, and checks what Jinja's own code does without asking.

The tree of a template is bounded first, since parser, code generator and Python all recurse into it. Then a call of
`environment.budget.step` is put in front of every body that can run many times: of loops, macros, blocks, and branches.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, operators
from jinja2.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jinja2 import Environment
    from jinja2.compiler import Frame

MAX_NESTING = 40
"""How deep tags, brackets and the like may be nested in the source of a template."""

MAX_CHAIN = 150
"""How many operations may follow one another in an expression, such as `a + b + c` or `a|f|g|h`."""

MAX_PARTS = 30_000
"""The most tags and parts of expressions in one template."""

_MAX_TAGS = 10_000
_TAG = re.compile(r"\{[{%#]")
_UNCLOSED = re.compile(r"(\{#[-+]?|\{%[-+]?\s*raw\s*-?%\})\n?\Z")

_MAX_LOOPS = 19
"""How many loops Python can nest, with one block to spare."""

_MAX_BRANCHES = 300

_BODIES: dict[type[nodes.Node], tuple[str, ...]] = {
    nodes.For: ("body",),
    nodes.Macro: ("body",),
    nodes.CallBlock: ("body",),
    nodes.Block: ("body",),
    nodes.If: ("body", "else_"),
}
"""The bodies that count their own steps, by type of tag."""

_NESTED_PARTS = 3
"""How many of the parser's bounded methods are called for one bracket."""


class BoundedParser(Parser):
    """Jinja's parser with limits on nesting and size, which are the same on every machine."""

    _depth = 0
    _parts = 0

    def parse_primary(self, *arguments: Any, **options: Any) -> nodes.Expr:
        r"""Parses a name, literal or bracket; the halves of a surrogate pair, as in '\ud83d\ude00', are joined."""
        line = self.stream.current.lineno
        self._parts += 1
        if self._parts > MAX_PARTS:
            self.fail(f"the template has more than {MAX_PARTS:,} parts of expressions")
        node = super().parse_primary(*arguments, **options)
        if isinstance(node, nodes.Const) and isinstance(node.value, str) and not node.value.isascii():
            try:
                node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                self.fail("a text contains half of a surrogate pair, which is not a character", line)
        if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
            self.fail("a number is too large", line)
        return node

    def _nest(self, parse: Callable[..., Any], weight: int, *arguments: Any) -> Any:  # noqa: ANN401
        """Calls a method of the parser one level deeper."""
        self._depth += weight
        if self._depth > MAX_NESTING * _NESTED_PARTS:
            self.fail(f"nested more than {MAX_NESTING} deep")
        result = parse(*arguments)
        self._depth -= weight
        return result

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        """Parses a tag."""
        return self._nest(super().parse_statement, _NESTED_PARTS)  # type: ignore[no-any-return]

    def parse_condexpr(self) -> nodes.Expr:
        """Parses an expression."""
        return self._nest(super().parse_condexpr, 1)  # type: ignore[no-any-return]

    def parse_not(self) -> nodes.Expr:
        """Parses an expression in front of which `not` may stand."""
        return self._nest(super().parse_not, 1)  # type: ignore[no-any-return]

    def parse_unary(self, with_filter: bool = True) -> nodes.Expr:  # noqa: FBT001, FBT002 - Jinja's signature
        """Parses an expression in front of which a sign may stand."""
        return self._nest(super().parse_unary, 1, with_filter)  # type: ignore[no-any-return]


def parse_template(environment: Environment, source: str, name: str | None, filename: str | None) -> nodes.Template:
    """Parses a template, checks its bounds, and lets its bodies count their steps.

    Raises:
        TemplateSyntaxError: the template is not valid, or exceeds a bound.
    """
    parser = BoundedParser(environment, source, name, filename)
    for number, match in enumerate(_TAG.finditer(source)):
        if number >= _MAX_TAGS:
            line = source.count("\n", 0, match.start()) + 1
            parser.fail(f"the template has more than {_MAX_TAGS:,} tags", line)
    unclosed = _UNCLOSED.search(source)
    if unclosed:  # Jinja misses only these, which nothing follows
        parser.fail(f'"{unclosed[1]}" is not closed', source.count("\n", 0, unclosed.start()) + 1)
    try:
        template = parser.parse()
    except RecursionError:
        parser.fail("nested too deeply")
    except ValueError:
        parser.fail("a number has too many digits")
    _check_bounds(template, parser)
    for tag in template.find_all(tuple(_BODIES)):
        _count_steps(tag)
    return template


def _check_bounds(template: nodes.Template, parser: Parser) -> None:
    """Checks the size of a template, and how deep its parts are nested; without recursion."""
    parts = 0
    pending: list[tuple[nodes.Node, int, int]] = [(template, 0, 0)]
    line = 1
    while pending:
        node, depth, loops = pending.pop()
        line = getattr(node, "lineno", None) or line
        parts += 1
        if parts > MAX_PARTS:
            parser.fail(f"the template has more than {MAX_PARTS:,} tags and parts of expressions", line)
        if depth > MAX_CHAIN:
            parser.fail(f"more than {MAX_CHAIN} operations follow one another", line)
        if loops > _MAX_LOOPS:
            parser.fail(f"loops are nested more than {_MAX_LOOPS} deep", line)
        if isinstance(node, nodes.Break | nodes.Continue) and not loops:
            parser.fail(f"{type(node).__name__.lower()} is not in a loop", line)
        if isinstance(node, nodes.If) and len(node.elif_) > _MAX_BRANCHES:
            parser.fail(f"more than {_MAX_BRANCHES} branches of one condition", line)
        if isinstance(node, nodes.For):
            loops += 1
        elif isinstance(node, nodes.Macro | nodes.CallBlock | nodes.Block):
            loops = 0
        pending += [(child, depth + 1, loops) for child in node.iter_child_nodes()]


def _count_steps(tag: nodes.Node) -> None:
    """Puts a call that counts steps in front of each body of a tag, and into the condition of a loop."""
    for name in _BODIES[type(tag)]:
        body = getattr(tag, name)
        if body or name == "body":
            body.insert(0, nodes.ExprStmt(_step(1 + sum(_weight(part) for part in body)), lineno=tag.lineno))
    if isinstance(tag, nodes.For) and tag.test is not None:
        tag.test = nodes.Or(_step(_weight(tag.test) + 1), tag.test, lineno=tag.lineno)  # a step is None


def _is_text(node: nodes.Expr) -> bool:
    """Returns whether an expression is a literal text."""
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _step(steps: int) -> nodes.Expr:
    """Returns an expression that counts steps: the compiler writes `environment.` and this name."""
    return nodes.EnvironmentAttribute(f"budget.step({steps})")


def _weight(node: nodes.Node) -> int:
    """Returns the number of parts of a tag or expression, without the bodies that count by themselves."""
    return 1 + sum(_weight(part) for part in node.iter_child_nodes(exclude=_BODIES.get(type(node))))


class BoundedGenerator(CodeGenerator):
    """Generates code that calls the environment for what Jinja's code does by itself.

    | template | code |
    | --- | --- |
    | `a ~ b` | `environment.concat_values((a, b, ))` |
    | `a[1:n]` | `environment.slice(a, slice(1, n, None))` |
    | `a in b` | `environment.contains(a, b)` |
    | `a == b` | `(environment.comparable(a) == environment.comparable(b))` |
    | `{k: v}` | `{environment.hashable(k): v}` |

    Nothing but literals is evaluated while a template is compiled.
    """

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:  # noqa: ANN401
        if not isinstance(node, nodes.TemplateData | nodes.Const):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    # The names of the methods are Jinja's.

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:  # noqa: N802
        """Writes an assignment; its line comes first, since Jinja checks the target before."""
        self.newline(node)
        super().visit_Assign(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """Writes the call that joins texts."""
        self.write("environment.concat_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        """Writes the call that takes a slice."""
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.slice(")
        self.visit(node.node, frame)
        self.write(", slice(")
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            if bound is None:
                self.write("None")
            else:
                self.visit(bound, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        """Writes a comparison of values whose size is counted first."""
        operator = node.ops[0]
        if len(node.ops) == 1 and operator.op in ("in", "notin"):
            self.write("(not " if operator.op == "notin" else "(")
            self.write("environment.contains(")
            self.visit(node.expr, frame)
            self.write(", ")
            self.visit(operator.expr, frame)
            self.write("))")
            return
        literal = len(node.ops) == 1 and any(isinstance(part, nodes.Const) for part in (node.expr, operator.expr))
        self.write("(")
        self._visit_comparable(node.expr, frame, literal=literal)
        for part in node.ops:
            self.write(f" {operators[part.op]} ")
            self._visit_comparable(part.expr, frame, literal=literal)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        """Writes a mapping whose keys are counted before they are hashed."""
        self.write("{")
        for item in node.items:
            self._visit_comparable(item.key, frame, literal=_is_text(item.key), call="hashable")
            self.write(": ")
            self.visit(item.value, frame)
            self.write(", ")
        self.write("}")

    def _visit_comparable(self, node: nodes.Expr, frame: Frame, *, literal: bool, call: str = "comparable") -> None:
        """Writes an operand of a comparison; nothing needs to be counted if it, or the other one, is a literal."""
        if not literal:
            self.write(f"environment.{call}(")
        self.visit(node, frame)
        if not literal:
            self.write(")")

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:  # noqa: N802
        """Writes an include, one level deeper."""
        for _ in self._one_level_deeper(node):
            super().visit_Include(node, frame)

    def visit_Import(self, node: nodes.Import, frame: Frame) -> None:  # noqa: N802
        """Writes an import, one level deeper."""
        for _ in self._one_level_deeper(node):
            super().visit_Import(node, frame)

    def visit_FromImport(self, node: nodes.FromImport, frame: Frame) -> None:  # noqa: N802
        """Writes an import of names, one level deeper."""
        for _ in self._one_level_deeper(node):
            super().visit_FromImport(node, frame)

    def visit_Extends(self, node: nodes.Extends, frame: Frame) -> None:  # noqa: N802
        """Writes `extends`; the parent is rendered last, and so its level never ends."""
        self.writeline(f"environment.budget.enter({self.name!r})", node)
        super().visit_Extends(node, frame)

    def _one_level_deeper(self, node: nodes.Node) -> Iterator[None]:
        """Writes the calls before and after a tag that loads another template."""
        depth = self.temporary_identifier()
        self.writeline(f"{depth} = environment.budget.enter({self.name!r})", node)
        yield
        self.writeline(f"environment.budget.leave({depth})")
