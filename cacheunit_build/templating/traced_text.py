"""Text that records the source lines it comes from: the parts of a source map.

Where an operation on a text returns something that cannot be traced, the result gets the first line of that text.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from cacheunit_build.domain.source_map import MappedSpan, SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.domain.document import Document, Keys

_MAX_LINES_AHEAD = 200
"""How many source lines ahead the next line of a value is searched for."""


class TracedText(str):
    """A text with the source lines of its characters.

    Attributes:
        spans: its spans in order; together as long as the text.
    """

    __slots__ = ("spans",)
    spans: tuple[MappedSpan, ...]

    def __new__(cls, text: str, spans: Iterable[MappedSpan]) -> Self:
        """Makes a traced text of `text`."""
        traced = super().__new__(cls, text)
        traced.spans = tuple(spans)
        return traced

    def __str__(self) -> str:
        return self  # not a plain copy, so that what formats the text keeps its spans

    def __getitem__(self, key: Any) -> str:  # noqa: ANN401 - an index or a slice
        indices = range(len(self))[key]
        if isinstance(indices, int):
            indices = range(indices, indices + 1)
        if indices.step != 1:
            return trace_result(self, str.__getitem__(self, key))
        return _slice(self, indices.start, max(indices.start, indices.stop))

    def __add__(self, other: str) -> str:
        return join_traced([self, other])

    def __radd__(self, other: str) -> str:
        return join_traced([other, self])


def spans_of(text: str) -> tuple[MappedSpan, ...]:
    """Returns the spans of a text; a plain one has a single span without source lines."""
    return text.spans if isinstance(text, TracedText) else (MappedSpan(length=len(text), chain=()),)


def join_traced(texts: Iterable[str]) -> TracedText:
    """Joins texts, and their spans."""
    parts = list(texts)
    return TracedText("".join(parts), [span for part in parts for span in spans_of(part)])


def add_outer_line(text: str, line: SourceLine) -> TracedText:
    """Adds a source line at the outer end of all chains of a text: the line that brings the text in."""
    spans = (
        MappedSpan(length=span.length, chain=(*span.chain, line), verbatim=span.verbatim and bool(span.chain))
        for span in spans_of(text)
    )
    return TracedText(str.__str__(text), spans)


def _slice(text: TracedText, start: int, end: int) -> TracedText:
    r"""Returns the characters from `start` to `end`; the line of a verbatim span moves on with its start.

    A verbatim span "a\nb\nc" from line 5, sliced from 2 on, is "b\nc" from line 6.
    """
    plain = str.__str__(text)
    spans: list[MappedSpan] = []
    span_start = 0
    for span in text.spans:
        span_end = span_start + span.length
        first, last = max(span_start, start), min(span_end, end)
        if first < last:
            chain = span.chain
            if span.verbatim and chain:
                line = chain[0].line + str.count(plain, "\n", span_start, first)
                chain = (SourceLine(path=chain[0].path, line=line), *chain[1:])
            spans.append(MappedSpan(length=last - first, chain=chain, verbatim=span.verbatim))
        span_start = span_end
    return TracedText(str.__getitem__(text, slice(start, end)), spans)


def trace_result(source: TracedText, result: str) -> TracedText:
    r"""Traces the result of an operation on a traced text.

    | result, for the source "one\ntwo" | source lines |
    | --- | --- |
    | a traced text | its own |
    | "wo", a part of the source | those of that part |
    | "ONE\nTWO", as many lines | line by line |
    | "2 lines", anything else | the first of the source, for all characters |
    """
    if isinstance(result, TracedText) and all(span.chain for span in result.spans):
        return result
    # str's own methods are called here, since those of TracedText would call this function again.
    plain = str.__str__(result)
    start = str.find(source, plain)
    if start >= 0:
        return _slice(source, start, start + len(plain))
    if str.count(source, "\n") == plain.count("\n"):
        return _trace_line_by_line(source, plain)
    first = next((span.chain for span in source.spans), ())
    return TracedText(plain, [MappedSpan(length=len(plain), chain=first)])


def _trace_line_by_line(source: TracedText, result: str) -> TracedText:
    """Traces each line of `result` to the line of `source` with the same number; both have as many lines."""
    spans: list[MappedSpan] = []
    start = 0
    for old, new in zip(str.split(source, "\n"), result.split("\n"), strict=True):
        line = _slice(source, start, start + len(old) + 1).spans
        spans.append(MappedSpan(length=len(new), chain=line[0].chain if line else ()))
        spans.append(MappedSpan(length=1, chain=line[-1].chain if line else ()))
        start += len(old) + 1
    return TracedText(result, spans[:-1])


def _traced_method(name: str) -> Callable[..., Any]:
    """Returns the method of `str` with that name, with its result traced; a list of parts is traced part by part."""
    method = getattr(str, name)

    @wraps(method)
    def traced(self: TracedText, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        result = method(self, *arguments, **options)
        if isinstance(result, str):
            return trace_result(self, result)
        # "a, b".split(", ") -> "a" from offset 0, "b" from offset 3: each part is searched after the one before.
        parts, end = [], 0
        for part in result:
            start = max(str.find(self, part, end), end)
            end = start + len(part)
            parts.append(_slice(self, start, end))
        return type(result)(parts)

    return traced


_TRACED_METHODS = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "expandtabs"),
    *("upper", "lower", "title", "capitalize", "swapcase", "casefold"),
    *("splitlines", "split", "rsplit", "partition", "rpartition"),
)
for _name in _TRACED_METHODS:
    setattr(TracedText, _name, _traced_method(_name))


def trace_value(document: Document, source: str, under: Keys = ()) -> Any:  # noqa: ANN401
    """Returns the value of a document with its texts and keys traced to the lines of its file.

    Args:
        document: the parsed file, or the part of it below the keys `under`.
        source: the text of the file.
        under: the keys that lead to the document's value.
    """
    return _ValueTracer(document, source.split("\n")).trace(document.value, under)


class _ValueTracer:
    """Traces the texts of one document to the lines of its file."""

    def __init__(self, document: Document, lines: Sequence[str]) -> None:
        self._document = document
        self._lines = lines

    def trace(self, value: Any, keys: Keys) -> Any:  # noqa: ANN401
        """Returns the value under `keys` with its texts and mapping keys traced."""
        if isinstance(value, dict):
            return {self._text(key, (*keys, key)): self.trace(item, (*keys, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.trace(item, (*keys, index)) for index, item in enumerate(value)]
        return self._text(value, keys) if isinstance(value, str) else value

    def _text(self, text: str, keys: Keys) -> TracedText:
        """Traces each line of a text to the next source line that contains it.

        A text of one line is traced to the line of its key, and so are the lines of a JSON text, which has all of them
        on one source line.
        """
        # Of "poem: |" on line 4 with "roses", "" and "violets" below, the parts get the lines 5, 5 and 7.
        line = self._document.line(keys) or 1
        spans: list[MappedSpan] = []
        parts = text.split("\n")
        for part in parts:
            line = self._next_line_with(part.strip(), line) if len(parts) > 1 else line
            spans.append(MappedSpan(length=len(part) + 1, chain=(SourceLine(path=self._document.path, line=line),)))
        return _slice(TracedText(f"{text}\n", spans), 0, len(text))

    def _next_line_with(self, wanted: str, line: int) -> int:
        """Returns the number of the first source line from `line` on that contains a text; `line` if none near does."""
        near = range(line, min(line + _MAX_LINES_AHEAD, len(self._lines)) + 1)
        return next((number for number in near if wanted and wanted in self._lines[number - 1]), line)
