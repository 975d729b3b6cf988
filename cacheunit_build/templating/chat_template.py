"""A model's chat template, rendered as Hugging Face's transformers renders it, without its clock.

The environment is that of `transformers.utils.chat_template_utils` (version 5): sandboxed, blocks trimmed, loop
controls, `raise_exception`, a `tojson` that neither escapes nor sorts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Never

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import fail
from cacheunit_build.parsing.json import read_json
from cacheunit_build.templating.environment import BoundedEnvironment, StepBudget, template_places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2.parser import Parser

    from cacheunit_build.domain.prompt import Conversation


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; here it only prints them."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja wants it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def chat_template(data: bytes, path: str, arguments: Mapping[str, Any]) -> Callable[[Conversation], str]:
    """What turns a conversation into the text that a model reads.

    Args:
        data: the bytes of a Jinja file, or of a `tokenizer_config.json` that holds the template and special tokens.
        path: where they come from, for messages.
        arguments: further variables of the template, such as `enable_thinking` or `bos_token`.

    Raises:
        CacheunitError: now, or when the result is called: the template is broken, raises, or reads what it must not.
    """
    source, tokens = _from_config(data, path) if path.endswith(".json") else (decode(data, path), {})
    budget = StepBudget()
    environment = _environment(budget)
    values = {**tokens, **arguments}
    try:
        parsed = environment.parse(source, name=path, filename=path)
        if not path.endswith(".json") and "bos_token" in find_undeclared_variables(parsed) - values.keys():
            hint = 'give it: arguments = {bos_token = "…"}, or name the tokenizer_config.json'
            raise fail('the chat template prints "bos_token", which is not known', path=path, hint=hint)
        code = environment.compile(source, name=path, filename=path)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
    except RecursionError:
        raise fail("the chat template is nested too deep to be read", path=path) from None
    except TemplateError as error:
        raise fail(str(error), path=path, line=getattr(error, "lineno", None)) from None

    def framed(conversation: Conversation) -> str:
        budget.restart()
        try:
            return template.render(
                messages=conversation.messages(),
                tools=list(conversation.tools) or None,
                documents=None,
                add_generation_prompt=True,
                **values,
            )
        except Exception as error:  # noqa: BLE001 - whatever a template raises is a fault of the template
            message = str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
            message = "recursion without end" if isinstance(error, RecursionError) else message
            line = next((line for _, line in reversed(template_places(error))), None)
            raise fail(f"the chat template failed: {message}", path=path, line=line) from None

    return framed


def _environment(budget: StepBudget) -> BoundedEnvironment:
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
    """The template and the special tokens of a tokenizer_config.json."""
    config = read_json(data, path).value
    template = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(template, list):
        named = {item.get("name"): item.get("template") for item in template if isinstance(item, dict)}
        template = named.get("default")
    if not isinstance(template, str):
        raise fail('has no "chat_template"', path=path, hint="newer models keep it in chat_template.jinja")
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in config.items()}
    return template, {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def _raise(message: str) -> Never:
    raise TemplateError(message)


def _no_clock(_format: str) -> Never:
    raise SecurityError("strftime_now reads the clock, and the prefix would change with it")


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the signature of transformers
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
