"""Decides what each file is by its content: a prompt, a file with tools, one with texts under keys, or another one."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.cli.context import read_file
from cacheunit_build.cli.scaffolding.document_keys import (
    DATA_SUFFIXES,
    parse_expression,
    prompt_like_keys,
    read_keyed_file,
    texts_at,
    value_at,
    written_keys,
)
from cacheunit_build.cli.scaffolding.names import PROMPT_SUFFIXES, TEMPLATE_SUFFIXES, stem_of
from cacheunit_build.compiler.tool_checks import known_tool_keys
from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.tools import listed_tools, parse_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cacheunit_build.cli.scaffolding.arguments import NamedFile
    from cacheunit_build.domain.document import Document, Keys
    from cacheunit_build.domain.prompt import Tool

_DOCUMENTATION = frozenset(("readme", "changelog", "license", "licence", "contributing", "code_of_conduct", "security"))
"""The names of files, without suffixes, that are about a folder."""

_CODE_SUFFIXES = frozenset(
    (
        *(".py", ".pyi", ".ipynb", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb"),
        *(".php", ".cs", ".c", ".h", ".cpp", ".hpp", ".swift", ".sh", ".bash", ".ps1", ".sql", ".css", ".html"),
        *(".csv", ".tsv", ".json5", ".jsonc", ".jsonl", ".ndjson", ".lock", ".log"),
    )
)
"""The suffixes of files that may contain prompts, and are none."""

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
_BLOCK_SCALAR = re.compile(rb":[ \t]+[|>][-+0-9]*[ \t]*(?:#.*)?\r?$")
_ESCAPED_RETURN = re.compile(rb"\\(r|x0d|u000d|U0000000d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSource:
    """A prompt, and where it stands.

    Attributes:
        file: the file that it is in.
        shown: the file, or the file and the key, for messages.
        parts: the names from which the prefix is named, without suffixes.
        line: the line of the file at which it begins.
        text: the text, with LF line ends and without a byte-order mark.
        is_template: whether the text is a Jinja template.
        carriage_returns: the line ends that were not LF.
        has_mark: whether a byte-order mark was dropped.
    """

    file: NamedFile
    shown: str
    parts: tuple[str, ...]
    line: int
    text: str
    is_template: bool
    carriage_returns: int = 0
    has_mark: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.path.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSource:
    """A file with tools.

    Attributes:
        file: the file.
        data: its bytes.
        tools: its tools.
        text_key: the key of a text beside the tools that may be a prompt; None where there is none.
    """

    file: NamedFile
    data: bytes
    tools: tuple[Tool, ...]
    text_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    """A file in a folder that is neither a prompt nor has tools.

    Attributes:
        shown: the file, for messages.
        reason: why it is left out, as the end of a sentence.
        is_notable: whether the user may have meant it, so that it is named.
    """

    shown: str
    reason: str
    is_notable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the files are, each in the order of the arguments."""

    prompts: tuple[PromptSource, ...]
    tools: tuple[ToolSource, ...]
    skipped: tuple[SkippedFile, ...]


def read_sources(files: Iterable[NamedFile], *, as_templates: bool) -> Sources:
    """Reads files, and decides what each is.

    Args:
        files: the files.
        as_templates: whether all texts are templates, and not only those in files with such a suffix.

    Raises:
        CacheunitError: every fault; a file that is named must be usable, one in a folder is skipped if it is not.
    """
    prompts: list[PromptSource] = []
    tools: list[ToolSource] = []
    skipped: list[SkippedFile] = []
    faults: list[Fault] = []
    for file in files:
        try:
            for source in _read(file):
                if isinstance(source, PromptSource):
                    prompts.append(replace(source, is_template=source.is_template or as_templates))
                elif isinstance(source, ToolSource):
                    tools.append(source)
                else:
                    skipped.append(source)
        except CacheunitError as error:
            faults += error.faults
    if faults:
        raise CacheunitError(*faults)
    return Sources(prompts=tuple(prompts), tools=tuple(tools), skipped=tuple(skipped))


def _read(file: NamedFile) -> Iterator[PromptSource | ToolSource | SkippedFile]:
    """Yields what a file is: with a key that has `*`, several prompts.

    Raises:
        CacheunitError: every fault in it.
    """
    suffix = file.path.suffix.lower()
    if file.key is not None:
        yield from _keyed_prompts(file, suffix)
    elif file.in_folder and (reason := _other_kind(file, suffix)) is not None:
        yield SkippedFile(shown=file.shown, reason=reason, is_notable=suffix not in _CODE_SUFFIXES)
    elif suffix in DATA_SUFFIXES:
        yield _data_file(file, suffix)
    else:
        yield _prompt(file, suffix)


def _other_kind(file: NamedFile, suffix: str) -> str | None:
    """Returns why a file in a folder is no prompt, by its kind and name; None where it may be one, or has data."""
    if not file.path.is_file():
        return (
            "is a link to a folder, which is not followed" if file.path.is_dir() else "is not a file that can be read"
        )
    if stem_of(file.path.name).lower() in _DOCUMENTATION:
        return "is about the folder; name it to take it as a prompt"
    if suffix in PROMPT_SUFFIXES | DATA_SUFFIXES:
        return None
    return f"has the suffix {suffix}" if suffix else "has no suffix; name it to take it as a prompt"


def _prompt(file: NamedFile, suffix: str) -> PromptSource | SkippedFile:
    """Returns the prompt in a file.

    Raises:
        CacheunitError: it is not a text, or is empty.
    """
    if suffix in _CODE_SUFFIXES:
        hint = "put the prompt into a file of its own, such as .md or .txt; tools are YAML or JSON"
        raise fail(f"not a prompt: it is a {suffix} file", path=file.shown, hint=hint)
    data = read_file(file.path)
    try:
        text = _text(data, file.shown)
    except CacheunitError as error:
        if not file.in_folder:
            raise
        return SkippedFile(shown=file.shown, reason=f"is not a prompt: {error.faults[0].message}")
    return PromptSource(
        file=file,
        shown=file.shown,
        parts=(*file.parts[:-1], stem_of(file.parts[-1])),
        line=1,
        text=text,
        is_template=suffix in TEMPLATE_SUFFIXES,
        carriage_returns=data.count(b"\r"),
        has_mark=data.startswith(b"\xef\xbb\xbf"),
    )


def _text(data: bytes, path: str) -> str:
    """Returns the text of a prompt.

    Raises:
        CacheunitError: it is not a text, or is empty.
    """
    if b"\0" in data:
        raise fail("not a text: it has a null character", path=path)
    text = decode(data, path)
    if not text.strip():
        raise fail("the file is empty", path=path)
    return text


def _data_file(file: NamedFile, suffix: str) -> ToolSource | SkippedFile:
    """Returns the tools in a YAML or JSON file; one without tools is skipped in a folder.

    Raises:
        CacheunitError: it cannot be read, its tools are not valid, or it is named and has no tools.
    """
    data = read_file(file.path)
    try:
        document = read_keyed_file(data, suffix, file.shown)
    except CacheunitError as error:
        if not file.in_folder:
            raise
        return SkippedFile(shown=file.shown, reason=f"cannot be read: {error.faults[0].message}")
    if suffix != ".toml" and _has_tools(document):
        tools = parse_tools(parse_data(data, file.shown, floats=True), known_tool_keys(()))
        _, keys = listed_tools(document)
        return ToolSource(
            file=file, data=data, tools=tools, text_key=next(iter(prompt_like_keys(document, keys)), None)
        )
    texts = prompt_like_keys(document)
    example = f"{file.shown}#{texts[0]}" if texts else None
    if file.in_folder:
        reason = "has no tools" if example is None else f'has no tools; its texts can be named, such as "{example}"'
        return SkippedFile(shown=file.shown, reason=reason, is_notable=example is not None)
    hint = f'name the key of the prompt, such as "{example}"' if example else "a prompt is a text file, such as .md"
    raise fail("has no tools, and is not a prompt", path=file.shown, hint=hint)


def _has_tools(document: Document) -> bool:
    """Returns whether the values of a file are tools, by their form.

    {"name", "inputSchema"}, {"type": "function", "function": {…}}      a tool
    a list with a tool, {"tools": […]} with one, JSON-RPC               tools
    {"name", "version"}, [{"role", "content"}], {"tools": ["search"]}   no tools
    """
    value = document.value
    if isinstance(value, dict) and "jsonrpc" in value:
        value = value.get("result")
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    return any(map(_is_tool, value)) if isinstance(value, list) else _is_tool(value)


def _is_tool(value: object) -> bool:
    """Returns whether a value has the form of a function that a model can call."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("function"), dict):
        return "name" in value["function"]
    return "name" in value and any(isinstance(value.get(key), dict) for key in _SCHEMA_KEYS)


def _keyed_prompts(file: NamedFile, suffix: str) -> Iterator[PromptSource]:
    """Yields the prompt at each key that an expression names; of several, without those that are empty.

    Raises:
        CacheunitError: the file has no keys, has no such key, or the value is no text.
    """
    if suffix not in DATA_SUFFIXES:
        raise fail('a key behind "#" needs a YAML, JSON or TOML file', path=file.shown)
    data = read_file(file.path)
    document = read_keyed_file(data, suffix, file.shown)
    found = texts_at(document, parse_expression(file.key or "", file.shown))
    filled = [keys for keys in found if value_at(document.value, keys).strip()]
    for keys in filled or found:
        text = value_at(document.value, keys)
        shown = f"{file.shown}#{written_keys(keys)}"
        if not text.strip():
            raise fail("not a prompt: it is empty", path=shown)
        yield PromptSource(
            file=file,
            shown=shown,
            parts=(*file.parts[:-1], stem_of(file.path.stem), "-".join(map(str, keys))),
            line=_first_line(data, document.line(keys) or 1),
            text=text,
            is_template=False,
            carriage_returns=_carriage_returns(data, suffix, keys),
        )


def _first_line(data: bytes, line: int) -> int:
    """Returns the line at which the text of a key begins: the one below for a block scalar (`prompt: |`)."""
    return line + 1 if _BLOCK_SCALAR.search(data.split(b"\n")[line - 1]) else line


def _carriage_returns(data: bytes, suffix: str, keys: Keys) -> int:
    r"""Returns the carriage returns that a program reads in a text, from escapes such as `\r`; the build drops them."""
    if not _ESCAPED_RETURN.search(data):
        return 0
    import yaml

    text = data.decode("utf-8-sig")
    value: Any
    try:
        if suffix == ".json":
            value = json.loads(text)
        elif suffix == ".toml":
            value = tomllib.loads(text)
        else:
            value = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text, lists and mappings
        found = value_at(value, keys)
    except (LookupError, TypeError, ValueError, yaml.YAMLError):
        return 0
    return found.count("\r") if isinstance(found, str) else 0
