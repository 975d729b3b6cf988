"""Loads a model's own Python encoder, a function in a file that the project names."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import sys
import threading
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, fail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from cacheunit_build.domain.prompt import Conversation
    from cacheunit_build.domain.protocols import EncoderLoader

_LONGEST_REASON = 300
"""The most characters of an encoder's exception in a message."""
_STDOUT_LOCK = threading.RLock()
"""Held while standard output is redirected: all threads share it, and two that redirect it at once may each restore
what the other one set."""


def load_python_encoder(
    source: bytes, path: str, function: str, arguments: Mapping[str, Any]
) -> Callable[[Conversation], str]:
    """Runs a Python file, and returns its encoder, which makes the text of a conversation.

    The function is called with the messages, and with `arguments` by name. Tools are passed to its parameter `tools`;
    if it has none, they are put under the key `tools` of the first message, a system message. What it prints goes to
    standard error, since standard output is for reports.

    Args:
        source: the bytes of the file.
        path: the path of the file, for messages.
        function: the name of the function, or of an object that can be called.
        arguments: passed to the function by name.

    Raises:
        CacheunitError: now, or when the encoder is called: the file or the function fails, or does not return text.
    """
    encode = _load_function(source, path, function)
    # DeepSeek's encoder has no such parameter, and reads the tools from the system message.
    try:
        takes_tools = "tools" in inspect.signature(encode).parameters
    except ValueError:  # a built-in function may have no signature
        takes_tools = False

    def frame(conversation: Conversation) -> str:
        messages, keywords = _encoder_arguments(conversation, takes_tools=takes_tools)
        try:
            with _STDOUT_LOCK, contextlib.redirect_stdout(sys.stderr):
                text = encode(messages, **keywords, **{**arguments, **conversation.options})
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything, and that is its error
            raise _encoder_error(error, path, f'"{function}" failed') from None
        if not isinstance(text, str):
            raise fail(f'"{function}" returns {type(text).__name__}, not str', path=path)
        return _plain_text(text, path, function)

    return frame


def trusted_encoder_loader(trusted: Collection[str], reason: str, hint: str) -> EncoderLoader:
    """Returns a loader that runs only files that are trusted, and refuses every other one before it is compiled.

    Args:
        trusted: the SHA-256 of each file that may run.
        reason: who refuses the others, for the message.
        hint: how to allow them.
    """

    def load(source: bytes, path: str, function: str, arguments: Mapping[str, Any]) -> Callable[[Conversation], str]:
        digest = hashlib.sha256(source).hexdigest()
        if digest not in trusted:
            message = f"{reason} refuses to run this Python file (sha256 {digest})"
            raise fail(message, path=path, hint=hint)
        return load_python_encoder(source, path, function, arguments)

    return load


def _load_function(source: bytes, path: str, function: str) -> Callable[..., Any]:
    """Runs the file as a module with a name of its own, and returns its function."""
    name = f"cacheunit_encoder_{abs(hash((path, source))):x}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look up the module of their class there
    try:
        with _STDOUT_LOCK, contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user names this file to be run
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, and that is its error
        raise _encoder_error(error, path, "cannot be loaded") from None
    encode = getattr(module, function, None)
    if not callable(encode):
        raise fail(f'has no function "{function}"', path=path)
    return encode  # type: ignore[no-any-return]


def _plain_text(text: str, path: str, function: str) -> str:
    """Returns the text of an encoder as a plain one: a class derived from str may have a length of its own.

    Raises:
        CacheunitError: it has half of a surrogate pair, which no tokenizer can read.
    """
    plain = str.__str__(text)
    try:
        plain.encode()
    except UnicodeEncodeError as error:
        message = f'"{function}" returns half of a surrogate pair, {plain[error.start]!r}, which is not a character'
        raise fail(message, path=path) from None
    return plain


def _encoder_arguments(conversation: Conversation, *, takes_tools: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the messages and the keyword arguments for an encoder; copies, so that it may change them.

    | the function | tools | messages | keywords |
    | --- | --- | --- | --- |
    | takes `tools` | T | as they are | tools=T |
    | takes `tools` | none | as they are | tools=None |
    | does not | T | the first one, a system message, has the key `tools` | none |
    | does not | none | as they are | none |
    """
    messages = conversation.messages()
    tools: list[Any] = copy.deepcopy(list(conversation.tools))
    if takes_tools:
        return messages, {"tools": tools or None}
    if tools:
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0]["tools"] = tools
    return messages, {}


def _encoder_error(error: BaseException, path: str, action: str) -> CacheunitError:
    """Returns the error to report for an exception of user code, with the innermost line of the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = lines[-1] if lines else error.lineno if isinstance(error, SyntaxError) else None
    return fail(f"{action}: {type(error).__name__}: {_reason(error)}", path=path, line=line)


def _reason(error: BaseException) -> str:
    """Returns the text of an exception, shortened; its `__str__` may be user code that fails too."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - user code
        return "its text cannot be shown"
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 1]}…"
