"""Makes the frozen bodies of one artifact from the parts of its prefix, and the fingerprint of each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import compact_json, fingerprint
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
        return compact_json(loaded.request_format.fragment(parts)), None
    content, request = loaded.request_format.stored(parts)
    return compact_json(request), compact_json(content)


def segment_fingerprints(
    rendered: Rendered, tools: Sequence[Mapping[str, Any]], padding: str, options: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """Returns the fingerprint of each part that a prefix has: system text, padding, tools, examples, options."""
    messages = [chat_message(turn, json_arguments=True) for turn in rendered.turns]
    parts = {
        "system": rendered.system.encode(),
        "padding": padding.encode(),
        "tools": compact_json(list(tools)) if tools else b"",
        "examples": compact_json(messages) if messages else b"",
        "options": compact_json(options) if options else b"",
    }
    return {name: fingerprint(data) for name, data in parts.items() if data}
