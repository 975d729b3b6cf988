"""Finds the source lines of control tokens of a target that a prefix has in its text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.prompt import Rendered

_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_DESCRIPTION = re.compile(r"^description:.*$", re.MULTILINE)


def refuse_control_tokens(
    name: str, manifest: Manifest, rendered: Rendered, tokens: Sequence[str], read: Callable[[str], bytes | None]
) -> None:
    """Raises a fault for each control token in the text of a prefix, at the first source line that has it.

    Args:
        name: the prefix and the target, as messages name them.
        manifest: the manifest of the prefix.
        rendered: its rendered texts.
        tokens: the control tokens in them.
        read: returns the bytes of a source file.
    """
    faults = []
    for token in tokens:
        message = f"{name}: the text contains the control token {token}"
        hint = 'reword it, or set "special_tokens: allow"'
        source = _source_of(token, manifest, rendered, read)
        if source is None:
            faults.append(manifest.fault(message, "system", hint=hint))
        else:
            faults.append(Fault(message=message, path=source.path, line=source.line, hint=hint))
    if faults:
        raise CacheunitError(*faults)


def _source_of(
    token: str, manifest: Manifest, rendered: Rendered, read: Callable[[str], bytes | None]
) -> SourceLine | None:
    """Returns the first source line that has a token: templates and data first, then the manifest.

    Comments of templates and the description of the manifest do not count.
    """
    first, *others = rendered.lookups
    plain_files = {*manifest.data.values(), *manifest.tools}
    for lookup in (*others, first):
        text = (read(lookup.path) or b"").decode("utf-8", "replace")
        if lookup is first:
            text = _DESCRIPTION.sub("", text)
        elif lookup.path not in plain_files:
            text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
        if token in text:
            return SourceLine(path=lookup.path, line=text.count("\n", 0, text.index(token)) + 1)
    return None
