"""A model's own Python encoder, from a file that the project names."""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
import threading
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, fail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.domain.prompt import Conversation

_TALKING = threading.RLock()
"""Standard output is one for all threads: two that redirect it at once may each put back what the other set."""


def python_encoder(
    source: bytes, path: str, function: str, arguments: Mapping[str, Any]
) -> Callable[[Conversation], str]:
    """Runs `source`, the bytes of the file at `path`, and wraps its function of that name.

    The function takes the messages, and `arguments` by name. Tools go to its parameter `tools`; where it has none, to
    the key `tools` of the first message, a system one.

    Raises:
        CacheunitError: now, or when the result is called: the file or the function fails, or gives no text.
    """
    name = f"cacheunit_encoder_{abs(hash((path, source))):x}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    try:
        with _TALKING, contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 - the user names this file to be run
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file raises is a fault of the file
        raise _failed(error, path, "cannot be loaded") from None
    encode = getattr(module, function, None)
    if not callable(encode):
        raise fail(f'has no function "{function}"', path=path)
    try:
        takes_tools = "tools" in inspect.signature(encode).parameters
    except ValueError:  # a built-in function need not tell
        takes_tools = False

    def framed(conversation: Conversation) -> str:
        messages, keywords = _call(conversation, takes_tools=takes_tools)
        try:
            with _TALKING, contextlib.redirect_stdout(sys.stderr):  # what it prints is talk, no part of a report
                text = encode(messages, **keywords, **arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the same
            raise _failed(error, path, f'"{function}" failed') from None
        if not isinstance(text, str):
            raise fail(f'"{function}" gives {type(text).__name__}, not text', path=path)
        return text

    return framed


def _call(conversation: Conversation, *, takes_tools: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    messages = conversation.messages()
    tools: list[Any] = copy.deepcopy(list(conversation.tools))
    if takes_tools:
        return messages, {"tools": tools or None}
    if tools:
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0]["tools"] = tools
    return messages, {}


def _failed(error: BaseException, path: str, what: str) -> CacheunitError:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = lines[-1] if lines else error.lineno if isinstance(error, SyntaxError) else None
    return fail(f"{what}: {type(error).__name__}: {error}", path=path, line=line)
