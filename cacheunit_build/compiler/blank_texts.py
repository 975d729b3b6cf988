"""Refuses texts without a visible character, which providers do not take."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name

if TYPE_CHECKING:
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered


def blank_texts(variant: Variant, rendered: Rendered) -> list[Fault]:
    """Returns a fault for a system text and for each example without a visible character, which providers refuse."""
    manifest = variant.manifest
    faults = []
    if manifest.system and _is_blank(rendered.system):
        faults.append(manifest.fault(f"{readable_name(variant.name)}: the system text is blank", "system"))
    for index, (example, turn) in enumerate(zip(manifest.examples, rendered.turns, strict=True)):
        if _is_blank(turn.text) and not (turn.calls and example.template is None and example.text is None):
            key = "text" if example.template is None else "template"
            message = f"{readable_name(variant.name)}: the text of example {index + 1} is blank"
            faults.append(
                manifest.fault(message, "examples", index, key, hint="providers refuse blank messages: remove it")
            )
    return faults


def _is_blank(text: str) -> bool:
    """Returns whether a text has no visible character: nothing but white space, control and format characters."""
    return all(character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in text)
