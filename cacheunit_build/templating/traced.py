"""Text that remembers where it came from, and Jinja made to print such text: the source map of a render.

What is printed is the same as without it. Where a filter or a method makes something that cannot be followed, the place
of the expression that prints it is all that is known.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from jinja2 import nodes, pass_eval_context

from cacheunit_build.domain.source_map import MappedSpan, SourceLine
from cacheunit_build.templating.environment import TEXT_FILTERS, FrozenEnvironment, Generator, printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jinja2.compiler import Frame
    from jinja2.nodes import EvalContext

    from cacheunit_build.domain.document import Document, Keys

_NEAR = 200  # lines of a source in which the next line of a text is looked for


class Traced(str):
    """A text with its pieces: what it is made of, in order."""

    __slots__ = ("_pieces",)
    _pieces: tuple[MappedSpan, ...]

    @classmethod
    def of(cls, text: str, pieces: Iterable[MappedSpan]) -> Self:
        """`text`, made of `pieces` that are as long together."""
        made = cls(text)
        made._pieces = tuple(pieces)
        return made

    def __str__(self) -> str:
        return self

    def __getitem__(self, key: Any) -> str:  # noqa: ANN401 - an index or a slice
        chosen = range(len(self))[key]
        if isinstance(chosen, int):
            chosen = range(chosen, chosen + 1)
        if chosen.step != 1:
            return derived(self, str.__getitem__(self, key))
        return _cut(self, chosen.start, max(chosen.start, chosen.stop))

    def __add__(self, other: str) -> str:
        return concat([self, other])

    def __radd__(self, other: str) -> str:
        return concat([other, self])


def pieces_of(text: str) -> tuple[MappedSpan, ...]:
    """The pieces of a text; one without a place where it has none."""
    return text._pieces if isinstance(text, Traced) else (MappedSpan(length=len(text), chain=()),)  # noqa: SLF001 - its own module


def concat(parts: Iterable[str]) -> Traced:
    """The parts one after the other."""
    texts = list(parts)
    return Traced.of("".join(texts), [piece for text in texts for piece in pieces_of(text)])


def brought(text: str, place: SourceLine) -> Traced:
    """The text, brought in at a further place."""
    pieces = pieces_of(text)
    further = (
        MappedSpan(length=p.length, chain=(*p.chain, place), advancing=p.advancing and bool(p.chain)) for p in pieces
    )
    return Traced.of(str.__str__(text), further)


def _cut(text: Traced, start: int, end: int) -> Traced:
    """The characters from `start` to `end`."""
    kept: list[MappedSpan] = []
    begin = 0
    whole = str.__str__(text)
    for piece in pieces_of(text):
        stop = begin + piece.length
        first, last = max(begin, start), min(stop, end)
        if first < last:
            chain = piece.chain
            if piece.advancing and chain:
                line = chain[0].line + str.count(whole, "\n", begin, first)
                chain = (SourceLine(path=chain[0].path, line=line), *chain[1:])
            kept.append(MappedSpan(length=last - first, chain=chain, advancing=piece.advancing))
        begin = stop
    return Traced.of(str.__getitem__(text, slice(start, end)), kept)


def derived(source: Traced, result: str) -> Traced:
    """`result`, which was made of `source`: a part of it, or its lines one by one; or else from its first place."""
    if isinstance(result, Traced) and all(piece.chain for piece in pieces_of(result)):
        return result
    plain = str.__str__(result)
    start = str.find(source, plain)
    if start >= 0:
        return _cut(source, start, start + len(plain))
    before, after = str.split(source, "\n"), plain.split("\n")
    if len(before) != len(after):
        first = next((piece.chain for piece in pieces_of(source)), ())
        return Traced.of(plain, [MappedSpan(length=len(plain), chain=first)])
    made: list[MappedSpan] = []
    begin = 0
    for old, new in zip(before, after, strict=True):
        line = pieces_of(_cut(source, begin, begin + len(old) + 1))
        made.append(MappedSpan(length=len(new), chain=line[0].chain if line else ()))
        made.append(MappedSpan(length=1, chain=line[-1].chain if line else ()))
        begin += len(old) + 1
    return Traced.of(plain, made[:-1])


def _following(name: str) -> Callable[..., Any]:
    """The method of a text, whose result is derived from it; parts of it one after the other."""
    method = getattr(str, name)

    @wraps(method)
    def followed(self: Traced, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        result = method(self, *arguments, **options)
        if isinstance(result, str):
            return derived(self, result)
        found, begin = [], 0
        for part in result:
            start = max(str.find(self, part, begin), begin)
            begin = start + len(part)
            found.append(_cut(self, start, begin))
        return type(result)(found)

    return followed


_FOLLOWED = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "expandtabs"),
    *("upper", "lower", "title", "capitalize", "swapcase", "casefold"),
    *("splitlines", "split", "rsplit", "partition", "rpartition"),
)
for _name in _FOLLOWED:
    setattr(Traced, _name, _following(_name))


def traced_value(document: Document, source: str, under: Keys = ()) -> Any:  # noqa: ANN401
    """The value of a document, its texts and keys with the lines of `source`, the document's file, that spell them."""
    return _Values(document, source.split("\n")).value(document.value, under)


class _Values:
    def __init__(self, document: Document, lines: Sequence[str]) -> None:
        self._document = document
        self._lines = lines

    def value(self, value: Any, keys: Keys) -> Any:  # noqa: ANN401
        if isinstance(value, dict):
            return {self._text(key, (*keys, key)): self.value(item, (*keys, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*keys, index)) for index, item in enumerate(value)]
        return self._text(value, keys) if isinstance(value, str) else value

    def _text(self, text: str, keys: Keys) -> Traced:
        """Each line of a text at the next line of the source that has it; JSON has all of them on one."""
        line = self._document.line(keys) or 1
        pieces: list[MappedSpan] = []
        parts = text.split("\n")
        for part in parts:
            line = self._next_with(part.strip(), line) if len(parts) > 1 else line
            pieces.append(MappedSpan(length=len(part) + 1, chain=(SourceLine(path=self._document.path, line=line),)))
        return _cut(Traced.of(f"{text}\n", pieces), 0, len(text))

    def _next_with(self, wanted: str, line: int) -> int:
        """The first line from `line` on that has the wanted text, `line` itself where none near has."""
        near = range(line, min(line + _NEAR, len(self._lines)) + 1)
        return next((number for number in near if wanted and wanted in self._lines[number - 1]), line)


class _TracingGenerator(Generator):
    """Compiles templates so that everything they print says where it was printed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as Jinja's
        super().__init__(*arguments, **options)
        self._child: nodes.Expr
        self._including = 0
        self._writing: list[nodes.Node | None] = []

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        for child in node.nodes:
            self._child = child
            super().visit_Output(nodes.Output([child], lineno=child.lineno), frame)

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        advancing = isinstance(self._child, nodes.TemplateData)
        text = super()._output_const_repr(group)
        return f"environment.stated({text}, {self.name!r}, {self._child.lineno}, {advancing})"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:  # noqa: ANN401
        self.write("environment.brought(")
        super()._output_child_pre(node, frame, finalize)

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:  # noqa: ANN401
        super()._output_child_post(node, frame, finalize)
        self.write(f", {self.name!r}, {node.lineno})")

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        super().start_write(frame, node)
        self._writing.append(node)
        if node is not None:
            self.write("environment.brought(")

    def end_write(self, frame: Frame) -> None:
        node = self._writing.pop()
        if node is not None:
            self.write(f", {self.name!r}, {node.lineno})")
        super().end_write(frame)

    def simple_write(self, s: str, frame: Frame, node: nodes.Node | None = None) -> None:
        if s == "event" and self._including:
            s = f"environment.brought(event, {self.name!r}, {self._including})"
        super().simple_write(s, frame, node)

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._including = node.lineno
        super().visit_Include(node, frame)
        self._including = 0


class TracedEnvironment(FrozenEnvironment):
    """Prints what a `FrozenEnvironment` prints, as traced text.

    Args:
        find: as there.
        folder: where templates live, relative to the root.
    """

    code_generator_class = _TracingGenerator

    def __init__(self, find: Callable[[str, str | None], str | None], folder: str) -> None:
        super().__init__(find)
        self._folder = folder
        self.concat: Any = concat
        self.filters.update({name: _followed(self.filters[name]) for name in TEXT_FILTERS})
        self.filters["join"] = _join

    def stated(self, text: str, name: str, line: int, advancing: bool) -> Traced:  # noqa: FBT001 - compiled code calls it
        """What a template spells itself."""
        place = SourceLine(path=f"{self._folder}/{name}", line=line)
        return Traced.of(text, [MappedSpan(length=len(text), chain=(place,), advancing=advancing)])

    def brought(self, value: Any, name: str, line: int) -> Any:  # noqa: ANN401 - what is no text stays as it is
        """What an expression, a call or an include at that line of a template brings in."""
        if not isinstance(value, str):
            return value
        return brought(value, SourceLine(path=f"{self._folder}/{name}", line=line))

    def concatenated(self, parts: Iterable[object]) -> str:
        """What `~` gives."""
        return concat(map(printed, parts))


def _followed(apply: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of texts, whose result is derived from the text that it is given."""
    place = 1 if hasattr(apply, "jinja_pass_arg") else 0

    @wraps(apply)
    def filtered(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        result = apply(*arguments, **options)
        source = arguments[place]
        return derived(source, result) if isinstance(source, Traced) and isinstance(result, str) else result

    return filtered


@pass_eval_context
def _join(context: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Jinja's `join`, with the pieces of its items."""
    items = value if attribute is None else [context.environment.getitem(item, attribute) for item in value]
    parts: list[str] = []
    for item in items:
        parts += [str(d), printed(item)]
    return concat(parts[1:])
