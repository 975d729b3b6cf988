r"""Shows text from outside as text: on terminals and in logs, in JSON, Markdown, and GitHub's workflow commands.

Text from outside is what this program does not write itself: names, paths, values, and messages of servers, git and
Python. None of it may move a cursor, begin a line, be read as a command, or become a link.

text                  one_line               markdown_text             workflow_message
a line end            a\nb                   a\\nb                     a\nb
an escape character   \x1b[2J                \\x1b\[2J                 \x1b[2J
##vso[task.abort]     #\x23vso[task.abort]   \#\\x23vso\[task.abort\]  #\x23vso[task.abort]
*50 %* of @team       *50 %* of @team        \*50 %\* of `@team`       *50 %25* of @team
"""

from __future__ import annotations

import json
import re

_LOG_COMMAND = re.compile(r"##(?=[\w.-]*\[)")
"""What begins a command anywhere in a line of a log: `##[error]` of GitHub, `##vso[…]` of Azure, `##teamcity[…]`."""
_LINE_COMMAND = "::"
"""What begins a command of GitHub at the start of a line, behind any spaces."""
_SHOWN_SPACES = "\u3000"
"""White space other than U+0020 that is shown as it is: the space of Chinese and Japanese texts."""
_NOT_ASCII = re.compile(r"[^\n -~]+")

_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#~^"} | {"&": "&amp;", "|": "&#124;"})
_LINKED = re.compile(r"@[\w-]|#\d|\bGH-\d|://|\bwww\.|\b(?:mailto|xmpp):|:[\w+-]+:|\$", re.IGNORECASE)
"""What GitHub turns into mentions, links, emoji and formulas, however Markdown escapes it; never in code."""
_BLOCK_START = re.compile(r"[-+]|\d{1,9}(?=[.)]$)")


def one_line(text: str) -> str:
    """Returns a text on one line: characters that are not printable, and the start of a log's command, as escapes.

    That includes line ends, control characters, invisible and bidirectional ones, and lone surrogates.
    """
    if not text.isprintable():
        text = "".join(c if _is_shown(c) else c.encode("unicode_escape").decode() for c in text)
    return _LOG_COMMAND.sub("#\\\\x23", text)


def output_line(text: str) -> str:
    """Returns `one_line`, with a `::` at its start escaped too, for a line of an output that may be a CI log."""
    line = one_line(text)
    start = line.lstrip()
    return f"{line[: len(line) - len(start)]}\\x3a{start[1:]}" if start.startswith(_LINE_COMMAND) else line


def many_lines(text: str) -> str:
    """Returns a text for a terminal: its line ends and tabs are kept, everything else is as in `one_line`."""
    return "\n".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def json_text(value: object, indent: int | None = 2) -> str:
    """Returns a value as JSON, with escapes of JSON for what `one_line` escapes; on one line where `indent` is None."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _LOG_COMMAND.sub("#\\\\u0023", _NOT_ASCII.sub(lambda match: _json_escaped(match[0]), text))


def toml_string(text: str) -> str:
    """Returns a text as a string of TOML, with what `one_line` escapes as its escapes; a lone surrogate as `?`."""
    quoted = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    escaped = "".join(c if _is_shown(c) else f"\\U{ord(c):08x}" for c in quoted)
    return _LOG_COMMAND.sub("#\\\\u0023", escaped)


def markdown_text(text: str) -> str:
    """Returns Markdown that shows a text on one line, as `one_line` does, in a paragraph, a list or a table.

    Words that GitHub would turn into a mention or a link become code.
    """
    words = [word for word in one_line(text).split(" ") if word]
    shown = [code_span(word) if _LINKED.search(word) else word.translate(_MARKDOWN) for word in words]
    if shown and not _LINKED.search(words[0]):
        start = _BLOCK_START.match(words[0])
        shown[0] = shown[0] if start is None else _with_escaped_start(shown[0], start)
    return " ".join(shown)


def code_span(text: str) -> str:
    """Returns Markdown that shows a text as code, as `one_line` does; empty for an empty text."""
    # In a table, `\|` is a bar, and Markdown parsers do not agree on a backslash in front of it.
    code = one_line(text).replace("\\|", "\\x7c")
    fence = "`" * (max(map(len, re.findall("`+", code)), default=0) + 1)
    space = " " if code[:1] in ("`", " ") or code[-1:] in ("`", " ") else ""
    return f"{fence}{space}{code}{space}{fence}" if code else ""


def workflow_message(*lines: str) -> str:
    """Returns the message of a workflow command, of one or several lines."""
    return "%0A".join(one_line(line).replace("%", "%25") for line in lines)


def workflow_property(text: str) -> str:
    """Returns the value of a property of a workflow command."""
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in _SHOWN_SPACES


def _json_escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if _is_shown(c) else f"\\u{ord(c):04x}" if c <= "\uffff" else json.dumps(c)[1:-1] for c in text)


def _with_escaped_start(word: str, start: re.Match[str]) -> str:
    """Returns a first word that would begin a list or a rule, with a backslash in front of what makes it one."""
    return f"{start[0]}\\{word[start.end() :]}" if start[0].isdigit() else f"\\{word}"
