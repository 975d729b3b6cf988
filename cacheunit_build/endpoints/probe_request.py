"""Builds the requests that `probe` sends: random words, filler of a known number of tokens, and a continuation.

No text of a project is in them. All requests have the same layout:

    part          text                                  where
    nonce         Go red two sun west ten sea blue day  system text
    filler        the the the the ...                   system text
    continuation  zebra                                 end of the system text, or else the user message
    last          Go on.                                user message, if the continuation is in the system text

The nonce comes first, so that nothing in the cache from an earlier run matches. Requests with the same `prefix_id` have
the same nonce, and so share everything up to the continuation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import PREFIX, fingerprint
from cacheunit_build.request_formats.parts import Marker, MarkerPlace, PrefixParts

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.request_formats.base import RequestFormat

FILLERS = (" the", " a", " of", " x", "\nno")
"""Candidate fillers: in most vocabularies, each repeat of one of them adds exactly one token."""

_NONCE_WORDS = (
    *(" red", " blue", " green", " black", " white", " north", " south", " east"),
    *(" west", " one", " two", " six", " ten", " day", " sun", " sea"),
)
"""One word for each hexadecimal digit of the nonce."""
_NONCE_LENGTH = 8
_CONTINUATIONS = (
    *("zebra", "river", "piano", "cloud", "tiger", "lemon", "stone", "eagle", "bread", "crown", "maple", "ocean"),
    *("queen", "horse", "paper", "glass", "music", "north", "dream", "field"),
)
_USER_MESSAGE = "Go on."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Settings of one run of `probe`.

    Attributes:
        model: name of the model, as the endpoint knows it.
        request_format: format of the requests.
        nonce: random text of this run; the words in front of every prefix are derived from it.
        max_tokens: the most input tokens to send in all requests together.
        wait: seconds to wait where the cache may be slow to serve what was sent.
    """

    model: str
    request_format: RequestFormat
    nonce: str
    max_tokens: int
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """One request of a probe.

    Attributes:
        prefix_id: picks the nonce; requests with the same number share their prefix.
        length: tokens of filler.
        continuation: number of the word that sets this request apart from others with the same prefix and length.
        continuation_in_system: whether that word ends the system text, inside the part that may be cached. Otherwise it
            is the user message.
        marker: the cache marker that the request carries; None for none.
        extension: number of the word behind the user message; None for none.
    """

    prefix_id: int
    length: int
    continuation: int
    continuation_in_system: bool
    marker: MarkerName | None = None
    extension: int | None = None


def probe_body(request: ProbeRequest, settings: ProbeSettings, filler: str) -> dict[str, Any]:
    """Returns the JSON body of a request, in the form in which artifacts are sent.

    Args:
        request: the request.
        settings: model, format and nonce.
        filler: the text that is repeated `request.length` times.
    """
    digits = fingerprint(f"{settings.nonce}/{request.prefix_id}".encode()).removeprefix(PREFIX)[:_NONCE_LENGTH]
    nonce = "".join(_NONCE_WORDS[int(digit, 16)] for digit in digits)
    continuation = _CONTINUATIONS[request.continuation % len(_CONTINUATIONS)]
    system = f"Go{nonce}{filler * request.length}" + (f" {continuation}" if request.continuation_in_system else "")
    user = _USER_MESSAGE if request.continuation_in_system else continuation
    if request.extension is not None:
        user += f" {_CONTINUATIONS[request.extension % len(_CONTINUATIONS)]}"
    request_format = settings.request_format
    places = () if request.marker is None else (Marker(place=MarkerPlace(part="system"), name=request.marker),)
    fragment = request_format.fragment(PrefixParts(blocks=(system,), markers=places))
    user = user if request_format.has_messages else f" {user}"
    return {**request_format.append_user(fragment, user), "model": settings.model}
