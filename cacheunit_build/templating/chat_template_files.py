"""Reads a model's chat templates and special tokens from its files, as `from_pretrained` of transformers (version 5).

A file with another name than those that transformers looks for stands alone:

    file of the target       read beside it, in the same folder
    chat_template.jinja      additional_chat_templates/NAME.jinja
    tokenizer_config.json    the same, and chat_template.jinja; special_tokens_map.json for older models
    anything.jinja           nothing
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import did_you_mean, fail
from cacheunit_build.parsing.json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Read = Callable[[str], bytes | None]

CONFIG_FILE = "tokenizer_config.json"
TEMPLATE_FILE = "chat_template.jinja"
PROCESSOR_FILE = "chat_template.json"
"""An older file of multimodal models, which has a template but no special tokens."""

_MORE_TEMPLATES = "additional_chat_templates"
_DEFAULT, _WITH_TOOLS = "default", "tool_use"
_GENERIC_CLASSES = (None, "PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", "PythonBackend")
"""Values of `tokenizer_class` whose class sets no special token by itself; LlamaTokenizer, for example, does."""
_FILE_STEM = re.compile(r"[\w-]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSource:
    """The text of a chat template, and the file that it is from."""

    text: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplateFiles:
    """What a model's files say about its chat templates.

    Attributes:
        path: the file that the target names.
        templates: the chat templates by name; a single one is named "default".
        special_tokens: the texts of the special tokens by name, such as `bos_token`.
        decided_tokens: the names of the special tokens that the files decide, be it that there is none; None if that
            holds for every name. Any other token may have a text that transformers prints and the files do not show.
        chosen: the name of the template that the target's arguments choose; None to choose as transformers does.
    """

    path: str
    templates: Mapping[str, TemplateSource]
    special_tokens: Mapping[str, str]
    decided_tokens: Collection[str] | None
    chosen: str | None

    def name_for(self, *, tools: bool) -> str:
        """Returns the name of the template that transformers takes for a conversation with or without tools.

        Raises:
            CacheunitError: there are several, and none of them is for such conversations.
        """
        if self.chosen is not None:
            return self.chosen
        if tools and _WITH_TOOLS in self.templates:
            return _WITH_TOOLS
        if _DEFAULT in self.templates:
            return _DEFAULT
        names = sorted(self.templates)
        hint = f'choose one by its name: arguments = {{chat_template = "{names[0]}"}}'
        message = f"has no chat template for {'this prefix' if tools else 'prefixes without tools'}"
        raise fail(f'{message}: none is named "default" ({", ".join(names)})', path=self.path, hint=hint)

    def is_undecided(self, name: str) -> bool:
        """Returns whether a variable is a special token whose text the files do not decide."""
        return name.endswith("_token") and self.decided_tokens is not None and name not in self.decided_tokens


def read_chat_template_files(data: bytes, path: str, read: Read, chosen: object = None) -> ChatTemplateFiles:
    """Reads the file that a target names, and those that transformers reads with it.

    Args:
        data: the bytes of the named file.
        path: its path.
        read: returns the bytes of another file; None if it does not exist.
        chosen: the name of the template to use; None to choose as transformers does.

    Raises:
        CacheunitError: there is no chat template, none with the chosen name, or a file is not valid.
    """
    folder, slash, name = path.rpartition("/")
    config = _mapping(data, path) if path.endswith(".json") else None
    beside = folder + slash
    templates = {} if config is None else _templates_of(config, path)
    # Template files replace those of the config, all of them.
    templates = _template_files(data, path, beside, read, chosen) or templates
    if not templates:
        hint = f"newer models keep it in {TEMPLATE_FILE}, some in {PROCESSOR_FILE}: copy that file too, or name it"
        raise fail('has no "chat_template"', path=path, hint=hint)
    if chosen is not None and not (isinstance(chosen, str) and chosen in templates):
        hint = did_you_mean(str(chosen), templates) or f"its templates are {', '.join(sorted(templates))}"
        raise fail(f'has no chat template named "{chosen}"', path=path, hint=hint)
    if config is not None and name == CONFIG_FILE and "added_tokens_decoder" not in config:
        config |= _special_tokens_map(f"{beside}special_tokens_map.json", read)
    tokens = {} if config is None else _special_tokens(config)
    return ChatTemplateFiles(
        path=path,
        templates=templates,
        special_tokens={key: text for key, text in tokens.items() if text is not None},
        decided_tokens=_decided_tokens(config, tokens, name),
        chosen=None if chosen is None else str(chosen),
    )


def _templates_of(config: Mapping[str, Any], path: str) -> dict[str, TemplateSource]:
    """Returns the templates of the key `chat_template`: one text, or a list of {"name": "default", "template": "…"}.

    Raises:
        CacheunitError: it is of another form.
    """
    value = config.get("chat_template")
    if isinstance(value, str):
        value = {_DEFAULT: value}
    elif isinstance(value, list):
        pairs = [(item.get("name"), item.get("template")) if isinstance(item, dict) else (None, None) for item in value]
        if not all(isinstance(name, str) for name, _ in pairs):
            raise fail('an item of "chat_template" has no "name" that is text', path=path)
        value = dict(pairs)
    elif value is None:
        value = {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise fail('"chat_template" must be text, or a list of templates with "name" and "template"', path=path)
    return {name: TemplateSource(text=text, path=path) for name, text in value.items()}


def _template_files(data: bytes, path: str, beside: str, read: Read, chosen: object) -> dict[str, TemplateSource]:
    """Returns the templates that are Jinja files: the named one, and those that transformers reads beside it."""
    name = path.removeprefix(beside)
    found = {} if path.endswith(".json") else {_DEFAULT: _source(data, path)}
    if name not in (CONFIG_FILE, TEMPLATE_FILE):
        return found
    named = [chosen] if isinstance(chosen, str) and _FILE_STEM.fullmatch(chosen) else []
    names = dict.fromkeys([_DEFAULT, _WITH_TOOLS, *named])
    files = [(_DEFAULT, f"{beside}{TEMPLATE_FILE}")] if name == CONFIG_FILE else []
    files += [(more, f"{beside}{_MORE_TEMPLATES}/{more}.jinja") for more in names]
    for template, file in files:
        content = read(file)
        if content is not None:
            found[template] = _source(content, file)
    return found


def _source(data: bytes, path: str) -> TemplateSource:
    """Returns the template in a Jinja file.

    Raises:
        CacheunitError: it is not UTF-8, or begins with a byte order mark, which transformers would put into the prompt.
    """
    if data.startswith(_BYTE_ORDER_MARK):
        message = "begins with a byte order mark, which transformers would put in front of the prompt"
        raise fail(message, path=path, line=1, hint="save it as UTF-8 without a byte order mark")
    return TemplateSource(text=decode(data, path), path=path)


def _special_tokens_map(path: str, read: Read) -> dict[str, Any]:
    """Returns the special tokens of older models, which override those of the config; none if there is no such file."""
    data = read(path)
    return {} if data is None else _mapping(data, path)


def _mapping(data: bytes, path: str) -> dict[str, Any]:
    """Returns the mapping in a JSON file.

    Raises:
        CacheunitError: it is not JSON, or no mapping.
    """
    value = read_json(data, path).value
    if not isinstance(value, dict):
        raise fail("must be a mapping", path=path, line=1)
    return value


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the text of each special token of a config; None for one that is null.

    These are the keys that end in `_token`, and the named tokens of `extra_special_tokens`. Neither a list there nor
    `additional_special_tokens` has names for a template to use.
    """
    extra = config.get("extra_special_tokens")
    values = {key: value for key, value in config.items() if key.endswith("_token")}
    values |= extra if isinstance(extra, dict) else {}
    # A special token is a text, or {"content": "<s>", …}; "add_bos_token" is neither.
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in values.items()}
    return {key: text for key, text in texts.items() if text is None or isinstance(text, str)}


def _decided_tokens(
    config: Mapping[str, Any] | None, tokens: Mapping[str, str | None], name: str
) -> Collection[str] | None:
    """Returns the names of the special tokens that the files decide; None if they decide all of them."""
    if config is None or name == PROCESSOR_FILE:
        return ()
    return None if config.get("tokenizer_class") in _GENERIC_CLASSES else tuple(tokens)
