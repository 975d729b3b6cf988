"""Finds the parts of a template that it prints as they stand."""

from __future__ import annotations

from functools import cache

from jinja2 import TemplateSyntaxError

from cacheunit_build.templating.environment import DeterministicEnvironment


def literal_spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each part of a template that is no code and no comment, in order.

    "Hi {{ name }}!"  ->  "Hi " and "!"

    White space that a `-` strips belongs to none. There are none where the text is no valid template.
    """
    spans: list[tuple[int, int]] = []
    offset = 0
    try:
        for _, kind, value in _environment().lexer.tokeniter(text, None):
            offset = text.index(value, offset)  # the lexer leaves out only white space that is stripped
            if kind == "data":
                spans.append((offset, offset + len(value)))
            offset += len(value)
    except (TemplateSyntaxError, ValueError):
        return []
    return spans


@cache
def _environment() -> DeterministicEnvironment:
    return DeterministicEnvironment(lambda *_: None)
