"""Frames a conversation by a model's chat template, as Hugging Face's transformers does, but without its clock.

The environment is that of `transformers.utils.chat_template_utils` (version 5): sandboxed, blocks trimmed, loop
controls, `raise_exception`, and a `tojson` that neither escapes nor sorts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Never

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.parsing.json import read_json
from cacheunit_build.templating.environment import BoundedEnvironment, StepBudget
from cacheunit_build.templating.template_errors import template_locations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Template
    from jinja2.parser import Parser

    from cacheunit_build.domain.prompt import Conversation


class _Generation(Extension):
    """The tag `{% generation %}`, which marks the assistant's words for training; here it only prints them."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja wants it

    def parse(self, parser: Parser) -> nodes.Node:
        """Parses the tag and its body to a plain scope."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    """A compiled chat template: a function that turns a conversation into the text that the model reads.

    Args:
        template: the compiled template.
        budget: what limits its steps.
        variables: its further variables, such as `enable_thinking` or `bos_token`.
        path: the file that it is from.
    """

    def __init__(self, template: Template, budget: StepBudget, variables: Mapping[str, Any], path: str) -> None:
        self._template = template
        self._budget = budget
        self._variables = variables
        self._path = path

    def __call__(self, conversation: Conversation) -> str:
        """Returns the framed text of a conversation.

        Raises:
            CacheunitError: the template raises an exception, or uses what it must not.
        """
        self._budget.reset()
        try:
            return self._template.render(self._context(conversation))
        except Exception as error:  # noqa: BLE001 - a template may raise anything, and that is an error in the template
            raise _render_error(error, self._path) from None

    def line_at(self, conversation: Conversation, offset: int) -> SourceLine | None:
        """Returns the line of the template that prints the character at `offset`; None behind the end of the text.

        What a macro prints is at the line that calls it.

        Args:
            conversation: a conversation that the template takes.
            offset: the index of a character in its framed text.
        """
        self._budget.reset()
        # The generator stands at what it printed last.
        pieces: Any = self._template.root_render_func(self._template.new_context(self._context(conversation)))
        end = 0
        for piece in pieces:
            end += len(piece)
            if end > offset:
                line = self._template.get_corresponding_lineno(pieces.gi_frame.f_lineno)
                return SourceLine(path=self._path, line=line)
        return None

    def _context(self, conversation: Conversation) -> dict[str, Any]:
        """Returns the variables of the template, as transformers sets them."""
        return {
            "messages": conversation.messages(),
            "tools": list(conversation.tools) or None,
            "documents": None,
            "add_generation_prompt": True,
            **self._variables,
            **conversation.options,
        }


def load_chat_template(data: bytes, path: str, arguments: Mapping[str, Any]) -> ChatTemplate:
    """Compiles a chat template.

    Args:
        data: the bytes of a Jinja file, or of a `tokenizer_config.json` that contains template and special tokens.
        path: the path of that file, for messages.
        arguments: further variables of the template, such as `enable_thinking` or `bos_token`.

    Raises:
        CacheunitError: now, or when the function is called: the template is invalid, raises an exception, or uses what
            it must not.
    """
    source, tokens = _from_config(data, path) if path.endswith(".json") else (decode(data, path), {})
    budget = StepBudget()
    environment = _environment(budget)
    variables = {**tokens, **arguments}
    return ChatTemplate(_compile(environment, source, path, variables), budget, variables, path)


def _compile(environment: BoundedEnvironment, source: str, path: str, variables: Mapping[str, Any]) -> Template:
    """Compiles a chat template.

    One from a Jinja file must not use `bos_token` unless it is among the variables: transformers gets that token from
    the `tokenizer_config.json`, which was not read.
    """
    try:
        parsed = environment.parse(source, name=path, filename=path)
        if not path.endswith(".json") and "bos_token" in find_undeclared_variables(parsed) - variables.keys():
            hint = 'set it: arguments = {bos_token = "…"}, or name the tokenizer_config.json instead'
            raise fail('the chat template prints "bos_token", which is not set', path=path, hint=hint)
        code = environment.compile(source, name=path, filename=path)
        return environment.template_class.from_code(environment, code, environment.make_globals(None))
    except RecursionError:
        raise fail("the chat template is nested too deeply", path=path) from None
    except (SyntaxError, ValueError) as error:  # "break" outside of a loop, too many nested loops, a huge number
        raise fail(f"the chat template is not valid: {getattr(error, 'msg', error)}", path=path) from None
    except TemplateError as error:
        raise fail(str(error), path=path, line=getattr(error, "lineno", None)) from None


def _render_error(error: Exception, path: str) -> CacheunitError:
    """Returns the error to report for an exception that a chat template raised."""
    message = str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
    message = "recursion without end" if isinstance(error, RecursionError) else message
    line = next((line for _, line in reversed(template_locations(error))), None)
    return fail(f"the chat template failed: {message}", path=path, line=line)


def _environment(budget: StepBudget) -> BoundedEnvironment:
    """Makes the environment of transformers, without randomness and clock."""
    environment = BoundedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    del environment.filters["random"], environment.globals["lipsum"]
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _no_clock
    environment.globals["range"] = budget.range
    return environment


def _from_config(data: bytes, path: str) -> tuple[str, dict[str, str]]:
    """Returns the template and the special tokens of a `tokenizer_config.json`."""
    config = read_json(data, path).value
    template = config.get("chat_template") if isinstance(config, dict) else None
    # One template, or a list of {"name": "default", "template": "…"}.
    if isinstance(template, list):
        named = (item for item in template if isinstance(item, dict) and item.get("name") == "default")
        template = next(named, {}).get("template")
    if not isinstance(template, str):
        raise fail('has no "chat_template"', path=path, hint="newer models keep it in chat_template.jinja")
    # A special token is a text, or {"content": "<s>", …}.
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in config.items()}
    return template, {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def _raise(message: str) -> Never:
    """Lets a template refuse a conversation: `raise_exception`."""
    raise TemplateError(message)


def _no_clock(_format: str) -> Never:
    """Refuses `strftime_now`."""
    raise SecurityError("strftime_now reads the clock, and the prefix would change with it")


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the signature of transformers
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Formats a value as JSON, with the parameters and defaults of transformers."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
