"""The targets of `fuzz.py` that parse files of a project."""

from __future__ import annotations

import json
import re
from typing import Any

from fuzz_base import PROJECTS, ROOT, Target, require, require_text, seed_files

from cacheunit_build.domain.errors import CacheunitError

# YAML, JSON, TOML


def _require_lines(document: Any, data: bytes) -> None:  # noqa: ANN401 - a Document
    last = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    require(all(1 <= line <= last for line in document.lines.values()), "a line is not in the file")


_SAME_IN_YAML = re.compile(r"[\n -~\xa0-\u2027\u202a-\ud7ff]*")
"""Characters that YAML allows as they are."""
_SHORT_KEY = 100


def _is_same_in_yaml(value: Any) -> bool:  # noqa: ANN401 - any value of a file
    if isinstance(value, dict):
        return all(len(key) < _SHORT_KEY and key != "<<" for key in value) and all(
            _is_same_in_yaml(item) for pair in value.items() for item in pair
        )
    if isinstance(value, list):
        return all(map(_is_same_in_yaml, value))
    return not isinstance(value, str) or _SAME_IN_YAML.fullmatch(value) is not None


def run_yaml(data: bytes) -> None:
    """Reads YAML; its value, written as JSON, is the same YAML value."""
    from cacheunit_build.parsing.yaml import read_yaml

    document = read_yaml(data, "f.yaml")
    require_text(document.value)
    _require_lines(document, data)
    read_yaml(data, "f.yaml", floats=True)
    if document.value is not None and _is_same_in_yaml(document.value):
        written = json.dumps(document.value, ensure_ascii=False).encode()
        require(read_yaml(written, "f.yaml").value == document.value, "another value after a round trip")


def run_json(data: bytes) -> None:
    """Reads JSON; its value, written again, is the same value."""
    from cacheunit_build.parsing.json import read_json

    document = read_json(data, "f.json")
    require_text(document.value)
    _require_lines(document, data)
    require(read_json(data, "f.json", lines=False).value == document.value, "another value without lines")
    written = json.dumps(document.value).encode()
    require(read_json(written, "f.json").value == document.value, "another value after a round trip")


def run_manifest(data: bytes) -> None:
    """Reads a manifest and expands its matrix."""
    from cacheunit_build.parsing.manifest import parse_manifest
    from cacheunit_build.parsing.matrix import MOST_VARIANTS
    from cacheunit_build.parsing.variants import expand
    from cacheunit_build.targets.loader import known_targets

    manifest = parse_manifest(data, name="p", path="prefixes/p.yaml")
    targets = manifest.targets or ("deepseek-v4",)
    variants = expand(manifest, {name: known_targets()["deepseek-v4"] for name in targets})
    require(len(variants) <= MOST_VARIANTS, "more variants than allowed")
    require(len({variant.name for variant in variants}) == len(variants), "two variants have one name")
    require_text([variant.name for variant in variants])


def run_settings(data: bytes) -> None:
    """Reads settings and their targets; byte 0 decides between pyproject.toml, cacheunit.toml and both."""
    from cacheunit_build.domain.settings_file import find_settings
    from cacheunit_build.parsing.settings import parse_settings, required_version_fault
    from cacheunit_build.targets.loader import all_targets

    kind, rest = data[:1], data[1:]
    files = {b"p": (rest, None), b"b": (rest, rest)}.get(kind, (None, rest))
    try:
        document, table_keys = find_settings(*files)
        if isinstance(document.value, dict):
            required_version_fault(document, table_keys, "0.2.0")
    except CacheunitError:
        document = None
    settings = parse_settings(*files)
    require(document is not None, "find_settings refuses what parse_settings reads")
    all_targets(settings)


# Lock, tools


def run_lock(data: bytes) -> None:
    """Reads a lock; one of the present version, written again, is the same lock in canonical bytes."""
    from cacheunit_build.domain.file_names import LOCK_VERSION
    from cacheunit_build.lockfile.format import lock_bytes, parse_lock

    lock = parse_lock(data, "cacheunit.lock")
    if lock.version == LOCK_VERSION:
        written = lock_bytes(lock)
        again = parse_lock(written, "cacheunit.lock")
        require((again.entries, again.targets) == (lock.entries, lock.targets), "another lock after a round trip")
        require(lock_bytes(again) == written, "other bytes after a round trip")


def run_tools(data: bytes) -> None:
    """Reads a tool file, JSON or (byte 0 is y) YAML; the canonical form, in each vendor's form, is the same tools."""
    from cacheunit_build.parsing.json import read_json
    from cacheunit_build.parsing.tools import parse_tools
    from cacheunit_build.parsing.yaml import read_yaml

    is_yaml, rest = data[:1] == b"y", data[1:]
    document = read_yaml(rest, "t.yaml", floats=True) if is_yaml else read_json(rest, "t.json")
    tools = parse_tools(document)
    for schema_key in ("parameters", "input_schema", "inputSchema"):
        values = [
            tool.hosted
            or {"name": tool.name, "description": tool.description, schema_key: dict(tool.schema)}
            | ({} if tool.strict is None else {"strict": tool.strict})
            for tool in tools
        ]
        written = json.dumps(values, ensure_ascii=False).encode()
        again = parse_tools(read_json(written, "t.json"))
        forms = [[(tool.name, tool.description, json.dumps([tool.schema, tool.hosted]), tool.strict) for tool in some]
                 for some in (tools, again)]  # fmt: skip
        require(forms[0] == forms[1], "other tools after a round trip")


# Chat templates

_CHAT_FILES = ("m/tokenizer_config.json", "m/chat_template.json", "other.json", "m/chat_template.jinja", "a.jinja")


def _chat_template(data: bytes) -> Any:  # noqa: ANN401 - a ChatTemplate
    """Loads a chat template: byte 0 chooses the file's name, byte 1 what is beside it, byte 2 the arguments."""
    from cacheunit_build.templating.chat_template import load_chat_template

    name, beside, choice = (*data[:3], 0, 0, 0)[:3]
    content = data[3:]
    others = {b"\x01": content, b"\x02": b"{{ messages }}", b"\x03": b'{"bos_token": "<s>"}', b"\x04": b"\xff"}
    arguments = [
        {},
        {"chat_template": "tool_use"},
        {"chat_template": content.decode("latin-1")[:20], "bos_token": "<s>"},
    ]
    path = _CHAT_FILES[name % len(_CHAT_FILES)]
    return load_chat_template(
        content, path, arguments[choice % len(arguments)], lambda _: others.get(bytes([beside % 8]))
    )


def run_chat_files(data: bytes) -> None:
    """Reads and compiles chat templates."""
    _chat_template(data)


def run_chat_render(data: bytes) -> None:
    """Reads, compiles and renders chat templates, and finds the line of each tenth character."""
    from cacheunit_build.domain.prompt import Conversation, Turn

    template = _chat_template(data)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    for tools in ((), (tool,)):
        conversation = Conversation(
            system="Be kind.",
            tools=tools,
            turns=(Turn(role="user", text="Hi"), Turn(role="assistant", text="Hello")),
            following=({"role": "user", "content": "And now?"},),
        )
        text = template(conversation)
        require(isinstance(text, str), "a framed text that is no text")
        require_text(text)
        require(template(conversation) == text, "another text the second time")
        for offset in range(0, min(len(text), 100), 10):
            template.line_at(conversation, offset)


_JINJA = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message['content'] | trim }}\n{% endfor %}"
    "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_MACROS = (
    "{% macro show(x, y=2) %}{{ x|string ~ y }}{% endmacro %}{% set ns = namespace(n=0) %}"
    "{%- for m in messages if m.role != 'tool' -%}{% set ns.n = ns.n + 1 %}{{ show(m.content[:4]) }}{% break %}"
    "{%- endfor -%}{{ raise_exception('no') if ns.n > 9 }}{% generation %}x{% endgeneration %}"
)


def _chat_seeds() -> list[bytes]:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": _JINJA, "add_bos_token": True}
    several = [{"name": "default", "template": _JINJA}, {"name": "tool_use", "template": _MACROS}]
    configs = [config, {**config, "chat_template": several, "tokenizer_class": "LlamaTokenizer"},
               {"chat_template": {"default": _JINJA}, "extra_special_tokens": {"image_token": "<i>"},
                "added_tokens_decoder": {"0": {"content": "<s>"}}}]  # fmt: skip
    contents = [json.dumps(value).encode() for value in configs]
    contents += [path.read_bytes() for path in sorted(PROJECTS.glob("*/**/*config*.json"))]
    texts = [
        _JINJA.encode(),
        _MACROS.encode(),
        *(path.read_bytes() for path in sorted(PROJECTS.glob("frame-*/**/*.jinja"))),
    ]
    heads = [bytes([name, beside, choice]) for name in (0, 1) for beside, choice in ((0, 0), (2, 1))]
    seeds = [head + content for head in heads for content in contents]
    return seeds + [bytes([name, beside, 0]) + text for name, beside in ((3, 1), (4, 0)) for text in texts]


# Seeds


def _lock_seeds() -> list[bytes]:
    return [(ROOT / "cacheunit.lock").read_bytes(), *seed_files("cacheunit.lock")]


def _yaml_seeds() -> list[bytes]:
    return seed_files("*.yaml")


def _json_seeds() -> list[bytes]:
    return seed_files("*.json", "cacheunit.lock")


def _settings_seeds() -> list[bytes]:
    own = [b"c" + data for data in seed_files("cacheunit.toml")]
    shipped = sorted((ROOT / "cacheunit_build/targets").glob("*.toml"))
    own += [b"c[target.x]\n" + re.sub(rb"(?m)^(\[+)", rb"\1target.x.", path.read_bytes()) for path in shipped]
    return own + [b"p" + data for data in seed_files("pyproject.toml")]


def _tool_seeds() -> list[bytes]:
    return [b"j" + data for data in seed_files("tools/*.json", "*tool*.json")] + [
        b"y" + data for data in seed_files("tools/*.yaml")
    ]


def _words(text: str) -> list[str]:
    """Returns the words of a text, in which escapes stand for characters."""
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape").split("\u00a6")


_YAML_WORDS = (
    r"system: ¦tools:\n- ¦matrix:\n  a: [1, 2]\n¦  exclude:\n  - {a: 1, target: '*'}\n¦  include: [{a: 3}]\n¦"
    r"strip: ¦x-a: ¦variables: ¦options: ¦padding: ¦examples:\n- ¦<<: *a¦&a ¦*a¦? ¦: ¦- ¦"
    r"|\n ¦>-\n ¦'¦\"¦[¦{¦#¦---\n¦...\n¦!!str ¦!!python/object:x ¦null¦~¦1e999¦\u2028¦\u0085¦\\ud800¦\\ud83d\\ude00¦"
    r"\ufeff¦\r¦\x00"
)
_TOML_WORDS = (
    r"[target.x]\n¦[[target.x.options]]\n¦extends = ¦[tool.cacheunit]\n¦request = ¦inf¦1e999¦\"\"\"¦'''¦"
    r"07:32:00¦1979-05-27¦{a = 1}¦[[¦]]¦a.b.c = 1\n¦\\ud800¦required-version = "
)
PARSERS: dict[str, Target] = {
    "yaml": Target(run_yaml, _yaml_seeds, "text", words=_words(_YAML_WORDS)),
    "json": Target(run_json, _json_seeds, "json"),
    "manifest": Target(run_manifest, _yaml_seeds, "text", words=_words(_YAML_WORDS)),
    "settings": Target(run_settings, _settings_seeds, "text", head=1, words=_words(_TOML_WORDS)),
    "lock": Target(run_lock, _lock_seeds, "json"),
    "tools": Target(run_tools, _tool_seeds, "json", head=1),
    "chat-files": Target(run_chat_files, _chat_seeds, "json", head=3),
    "chat-render": Target(run_chat_render, _chat_seeds, "json", head=3),
}
