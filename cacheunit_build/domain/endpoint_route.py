"""The route of an API that takes requests: what an HTTP client needs to know about their format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.front_options import merged, nested

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODEL = "{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRoute:
    """The route of an API that takes requests of one format.

    Attributes:
        path: the path below the base URL of the API; `{model}` in it is the model, which is then not in the body.
        version: the path of the base URL where the user gives none.
        output_limit_key: the name of the value of a request that limits the tokens of its output; a dot leads into a
            mapping.
        newer_output_limit_key: the key that some models require instead; None where all take the first one.
        output_tokens: the lowest limit of output that providers accept.
        headers: the headers that every request needs, such as the version of the API; without the API key.
        key_header: the header that carries the API key. In `Authorization`, the key is a bearer token.
    """

    path: str
    version: str = "v1"
    output_limit_key: str = "max_tokens"
    newer_output_limit_key: str | None = None
    output_tokens: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: str = "Authorization"

    def path_for(self, model: str) -> str:
        """Returns the path of requests to a model.

        model/{model}/converse           us.amazon.nova:0     model/us.amazon.nova%3A0/converse
        models/{model}:generateContent   models/gemini-3      models/gemini-3:generateContent
        """
        from urllib.parse import quote

        collection = self.path.partition(_MODEL)[0]
        return self.path.replace(_MODEL, quote(model.removeprefix(collection), safe="", errors="replace"))

    def sent(self, body: Mapping[str, Any], limit_key: str) -> dict[str, Any]:
        """Returns the body that is sent, with the lowest limit of output, and without a model that is in the path."""
        kept = {key: value for key, value in body.items() if key != "model" or _MODEL not in self.path}
        return merged(nested({limit_key: self.output_tokens}), kept)
