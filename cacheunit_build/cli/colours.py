"""Colours of reports on a terminal."""

from __future__ import annotations

import re

import click

_COLOURS = {
    "green": ("added", "built", "fixed", "ok", "ok:"),
    "red": ("removed", "missing", "edited", "refused", "error", "error:", "differs"),
    "yellow": ("changed", "warning", "tokenizer", "profile", "unknown", "orphan"),
    "cyan": ("renamed", "info"),
}
"""The words that have a colour as the first of a line or as a cell of a table."""

_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}
_LINE_COLOURS = {"+": "green", "-": "red", "@@": "cyan"}
"""The colour of a line of a text diff: green for added (+), red for removed (-), cyan for a header (@@)."""

_CHANGED_WORDS = re.compile(r"\[-(?P<old>.*?)-\]|\{\+(?P<new>.*?)\+\}")
"""Words that were removed from a line, and words that were added."""


class Colours:
    """Paints a report: words with a fixed meaning, headers, and text diffs."""

    def line(self, text: str) -> str:
        """Returns a line, coloured by its first word, or in its changed words."""
        word = text.split(" ", 1)[0]
        if word in _COLOUR_OF:
            return click.style(word, fg=_COLOUR_OF[word]) + text[len(word) :]
        return _CHANGED_WORDS.sub(lambda match: click.style(match[0], fg="red" if match["old"] else "green"), text)

    def verbatim(self, text: str) -> str:
        """Returns a line, coloured as a line of a text diff."""
        colour = next((colour for start, colour in _LINE_COLOURS.items() if text.startswith(start)), None)
        return text if colour is None else click.style(text, fg=colour)

    def cell(self, text: str) -> str:
        """Returns a cell, coloured if it is a word with a fixed meaning."""
        return click.style(text, fg=_COLOUR_OF[text]) if text in _COLOUR_OF else text

    def header(self, text: str) -> str:
        """Returns a cell of a header in bold letters."""
        return click.style(text, bold=True)


def painted_fault(line: str) -> str:
    """Returns a line of a fault with `error:` in red and `hint:` in bold letters."""
    for word, colour in (("error:", "red"), ("hint:", None)):
        if line.startswith(word):
            return click.style(word, fg=colour, bold=True) + line[len(word) :]
    return line
