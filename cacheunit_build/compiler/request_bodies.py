"""Makes the frozen bodies of one artifact from the parts of its prefix, and the fingerprint of each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import compact_json, fingerprint, joined_json
from cacheunit_build.domain.prompt import chat_message
from cacheunit_build.request_formats.parts import PrefixParts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.prompt import Rendered, Tool


def prefix_parts(
    rendered: Rendered, padding: str, tools: Sequence[Tool], options: Mapping[str, Any], fields: Mapping[str, Any]
) -> PrefixParts:
    """Returns the parts of a request, without markers; the padding ends the last block of the system text."""
    blocks = rendered.blocks
    return PrefixParts(
        blocks=(*blocks[:-1], blocks[-1] + padding) if blocks else (),
        tools=tools,
        turns=rendered.turns,
        options=options,
        fields=fields,
    )


def frozen_bodies(loaded: LoadedTarget, parts: PrefixParts) -> tuple[bytes, bytes | None]:
    """Returns the request fragment, and the body that stores the prefix where a target needs one, as JSON."""
    if not loaded.target.cache.is_stored:
        return _body_json(loaded, parts, loaded.request_format.fragment(parts)), None
    content, request = loaded.request_format.stored(parts)
    return compact_json(request), _body_json(loaded, parts, content)


def _body_json(loaded: LoadedTarget, parts: PrefixParts, body: Mapping[str, Any]) -> bytes:
    """Returns a body as JSON; the JSON of its tools is cached where none of them has a marker."""
    key = loaded.request_format.tools_path.partition(".")[0]
    if not body.get(key) or any(marker.place.part == "tools" for marker in parts.markers):
        return compact_json(body)
    if any(name.partition(".")[0] == key for name in (*parts.options, *parts.fields)):
        return compact_json(body)  # toolConfig of Converse has tools and an option
    tools_json = loaded.per_tools.get(parts.tools, f"JSON of {key}", lambda: compact_json(body[key]))
    return joined_json({name: tools_json if name == key else compact_json(value) for name, value in body.items()})


def segment_fingerprints(
    rendered: Rendered, tools_json: bytes, padding: str, options: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """Returns the fingerprint of each part that a prefix has: system text, padding, tools, examples, options."""
    messages = [chat_message(turn, json_arguments=True) for turn in rendered.turns]
    parts = {
        "system": rendered.system.encode(),
        "padding": padding.encode(),
        "tools": tools_json,
        "examples": compact_json(messages) if messages else b"",
        "options": compact_json(options) if options else b"",
    }
    return {name: fingerprint(data) for name, data in parts.items() if data}
