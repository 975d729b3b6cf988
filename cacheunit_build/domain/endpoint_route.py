"""The route of an API that takes requests: what an HTTP client needs to know about their format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRoute:
    """The route of an API that takes requests of one format.

    Attributes:
        path: the path below the base URL of the API.
        output_limit_key: the key of a request that limits the tokens of its output.
        newer_output_limit_key: the key that some models require instead; None where all take the first one.
        output_tokens: the lowest limit of output that providers accept.
        headers: the headers that every request needs, such as the version of the API; without the API key.
        key_header: the header that carries the API key. In `Authorization`, the key is a bearer token.
    """

    path: str
    output_limit_key: str = "max_tokens"
    newer_output_limit_key: str | None = None
    output_tokens: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: str = "Authorization"
