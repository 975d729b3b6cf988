"""Requests that mean nothing: a nonce, so many tokens of filler, and words that part from all others.

Nothing of a project is in them. The nonce stands in front, so that no earlier request helps; two specimens of one
family share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import PREFIX, fingerprint
from cacheunit_build.domain.prompt import Rendered
from cacheunit_build.endpoints.verify import request_body
from cacheunit_build.request_formats.fragments import freeze_fragment

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.target import FormatName

FILLERS = (" the", " a", " of", " x", "\nno")
"""Texts of which a repeat is one token more, in one vocabulary or another: which, the server's own counts say."""

_NONCE = (
    *(" red", " blue", " green", " black", " white", " north", " south", " east"),
    *(" west", " one", " two", " six", " ten", " day", " sun", " sea"),
)
_NONCE_WORDS = 8
_PARTS = (
    *("zebra", "river", "piano", "cloud", "tiger", "lemon", "stone", "eagle", "bread", "crown", "maple", "ocean"),
    *("queen", "horse", "paper", "glass", "music", "north", "dream", "field"),
)
_USER = "Go on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One request.

    `family` picks the nonce, `length` is the filler in tokens, `part` the words that part it from the others of that
    length. They stand at the end of the system text if it parts `inside`, else they are what the user says.
    """

    family: int
    length: int
    part: int
    inside: bool
    marker: MarkerName | None = None


def specimen_body(specimen: Specimen, form: FormatName, model: str, nonce: str, filler: str) -> dict[str, Any]:
    """The request, in the form in which artifacts are sent."""
    digits = fingerprint(f"{nonce}/{specimen.family}".encode()).removeprefix(PREFIX)[:_NONCE_WORDS]
    words = "".join(_NONCE[int(digit, 16)] for digit in digits)
    part = _PARTS[specimen.part % len(_PARTS)]
    system = f"Go{words}{filler * specimen.length}" + (f" {part}" if specimen.inside else "")
    user = _USER if specimen.inside else part
    rendered = Rendered(system=system, turns=(), lookups=())
    fragment = freeze_fragment(rendered, (), "", form, specimen.marker)
    return {**request_body(fragment, form, f" {user}" if form == "text" else user), "model": model}
