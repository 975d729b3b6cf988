"""Frames a conversation by a model's chat template, as Hugging Face's transformers does, but without its clock.

The environment is that of `transformers.utils.chat_template_utils` (version 5): sandboxed, blocks trimmed, loop
controls, `raise_exception`, and a `tojson` that neither escapes nor sorts.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Never

from jinja2 import TemplateError, nodes, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables

from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.templating.bounded_calls import require_json
from cacheunit_build.templating.bounded_environment import BoundedEnvironment
from cacheunit_build.templating.budget import LimitError
from cacheunit_build.templating.chat_template_files import read_chat_template_files
from cacheunit_build.templating.surrogates import refuse_surrogates
from cacheunit_build.templating.template_errors import template_locations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Template
    from jinja2.parser import Parser

    from cacheunit_build.domain.prompt import Conversation
    from cacheunit_build.templating.chat_template_files import ChatTemplateFiles

_CHOICE = "chat_template"
"""The argument that names the template to use, as in `apply_chat_template`."""


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
        files: the templates and the special tokens of the model.
        variables: further variables of the templates, such as `enable_thinking` or `bos_token`.

    Raises:
        CacheunitError: the template for conversations without tools is invalid.
    """

    def __init__(self, files: ChatTemplateFiles, variables: Mapping[str, Any]) -> None:
        self._files = files
        self._variables = {"documents": None, "add_generation_prompt": True, **files.special_tokens, **variables}
        environment = _environment()
        self._budget = environment.budget
        self._compiled = cache(lambda name: _compile(environment, files, name, self._variables))
        if files.chosen or "default" in files.templates:
            self._compiled(files.name_for(tools=False))

    def _template_for(self, conversation: Conversation) -> Template:
        """Returns the template that transformers takes for a conversation."""
        return self._compiled(self._files.name_for(tools=bool(conversation.tools)))

    def __call__(self, conversation: Conversation) -> str:
        """Returns the framed text of a conversation.

        Raises:
            CacheunitError: the template raises an exception, or uses what it must not; or no template is for such a
                conversation.
        """
        template = self._template_for(conversation)
        self._budget.reset()
        try:
            context = self._context(conversation)
            return refuse_surrogates(template.render(context), template, context)
        except Exception as error:  # noqa: BLE001 - a template may raise anything, and that is an error in the template
            raise _render_error(error, str(template.name)) from None

    def line_at(self, conversation: Conversation, offset: int) -> SourceLine | None:
        """Returns the line of the template that prints the character at `offset`; None behind the end of the text.

        What a macro prints is at the line that calls it.

        Args:
            conversation: a conversation that the template takes.
            offset: the index of a character in its framed text.
        """
        template = self._template_for(conversation)
        self._budget.reset()
        # The generator stands at what it printed last.
        pieces: Any = template.root_render_func(template.new_context(self._context(conversation)))
        end = 0
        for piece in pieces:
            end += len(piece)
            if end > offset:
                line = template.get_corresponding_lineno(pieces.gi_frame.f_lineno)
                return SourceLine(path=str(template.name), line=line)
        return None

    def _context(self, conversation: Conversation) -> dict[str, Any]:
        """Returns the variables of the template, as transformers sets them."""
        tools = list(conversation.tools) or None
        return {**self._variables, **conversation.options, "messages": conversation.messages(), "tools": tools}


def load_chat_template(
    data: bytes, path: str, arguments: Mapping[str, Any], read: Callable[[str], bytes | None] = lambda _: None
) -> ChatTemplate:
    """Compiles a chat template.

    Args:
        data: the bytes of a Jinja file, or of a `tokenizer_config.json` that contains template and special tokens.
        path: the path of that file, for messages.
        arguments: further variables of the template, such as `enable_thinking` or `bos_token`; and `chat_template`, the
            name of the template to use where a model has several.
        read: returns the bytes of a file by its path, None if it does not exist; called for the files that transformers
            reads from the same folder.

    Raises:
        CacheunitError: now, or when the function is called: the template is invalid, raises an exception, or uses what
            it must not.
    """
    for name in ("messages", "tools"):
        if name in arguments:
            raise fail(f'the argument "{name}" of the chat template is set by the prefix', hint="remove it")
    files = read_chat_template_files(data, path, read, arguments.get(_CHOICE))
    given = {name: value for name, value in arguments.items() if name != _CHOICE}
    return ChatTemplate(files, given)


def _compile(
    environment: BoundedEnvironment, files: ChatTemplateFiles, name: str, variables: Mapping[str, Any]
) -> Template:
    """Compiles a chat template. It must not use special tokens whose text is not known."""
    source, path = files.templates[name].text, files.templates[name].path
    try:
        parsed = environment.parse(source, name=path, filename=path)
        undeclared = find_undeclared_variables(parsed) - variables.keys()
        unknown = [node for node in parsed.find_all(nodes.Name) if node.name in undeclared]
        unknown = [node for node in unknown if files.is_undecided(node.name)]
        if unknown:
            raise _unknown_token(unknown[0], path)
        code = environment.compile(source, name=path, filename=path)
        return environment.template_class.from_code(environment, code, environment.make_globals(None))
    except TemplateError as error:
        raise fail(error.message or str(error), path=path, line=getattr(error, "lineno", None)) from None


def _unknown_token(node: nodes.Name, path: str) -> CacheunitError:
    """Returns the error for a special token that transformers may print, while the files do not show its text."""
    hint = f'set it: arguments = {{{node.name} = "…"}}, or name a tokenizer_config.json that has it (null for none)'
    return fail(f'the chat template uses "{node.name}", which is not set', path=path, line=node.lineno, hint=hint)


def _render_error(error: Exception, path: str) -> CacheunitError:
    """Returns the error to report for an exception that a chat template raised."""
    message = str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
    message = "nested too deeply" if isinstance(error, RecursionError) else message
    line = next((line for _, line in reversed(template_locations(error))), None)
    hint = error.hint if isinstance(error, LimitError) else None
    return fail(f"the chat template failed: {message}", path=path, line=line, hint=hint)


def _environment() -> BoundedEnvironment:
    """Makes the environment of transformers, without randomness and clock."""
    environment = BoundedEnvironment(
        {"tojson": _tojson},
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, "jinja2.ext.loopcontrols"],
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _no_clock
    return environment


def _raise(message: str) -> Never:
    """Lets a template refuse a conversation: `raise_exception`."""
    raise TemplateError(message)


def _no_clock(_format: str) -> Never:
    """Refuses `strftime_now`."""
    raise SecurityError("strftime_now reads the clock, and the prefix would change with it")


@pass_environment
def _tojson(  # noqa: PLR0913, PLR0917 - the signature of transformers
    environment: BoundedEnvironment,
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Formats a value as JSON, with the parameters and defaults of transformers."""
    require_json(value, indent, environment.budget)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
