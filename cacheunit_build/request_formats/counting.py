"""How providers are asked for the tokens of a request, without running a model.

Each format with such a route has a `CountRoute`. The routes count whole requests, framing included (the sources are at
the routes): what of that is static is worked out in `endpoints.calibrate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.front_options import nested
from cacheunit_build.domain.recorded_count import MOST_TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cacheunit_build.domain.endpoint_route import EndpointRoute

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRoute:
    """The route of an API that counts the tokens of a request.

    Attributes:
        route: where the question is sent.
        url: the base URL of the API; None where it depends on the region or the account.
        keys: the keys of a request that the route takes, and that decide the count.
        answer_key: the key of the answer that has the number.
        inside: the dotted name under which the request is in the body; empty where it is the body itself.
        model_prefix: what stands in front of the name of the model in the body.
        model_in_body: whether the request in the body has the model.
    """

    route: EndpointRoute
    url: str | None
    keys: frozenset[str]
    answer_key: str
    inside: str = ""
    model_prefix: str = ""
    model_in_body: bool = True

    def body(self, request: Mapping[str, Any], model: str) -> Json:
        """Returns the body that asks for the tokens of a request to a model."""
        counted = {key: value for key, value in request.items() if key in self.keys}
        if self.model_in_body:
            counted["model"] = self.model_prefix + model.removeprefix(self.model_prefix)
        return nested({self.inside: counted}) if self.inside else counted

    def answer(self, value: object) -> int | None:
        """Returns the number in an answer; None where there is no whole number that can be one of tokens."""
        number = value.get(self.answer_key) if isinstance(value, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            return None
        return number if 0 < number <= MOST_TOKENS else None


def without_markers(request: Mapping[str, Any], markers: Collection[str], paths: Collection[str]) -> Json:
    """Returns a request without cache markers, which are no tokens.

    Args:
        request: the request, or its fragment.
        markers: the keys of markers.
        paths: the dotted names of the lists whose entries, and the lists in these, may carry one.
    """
    bare = dict(request)
    for path in paths:
        key, _, rest = path.partition(".")
        value = bare.get(key)
        if rest and isinstance(value, dict):
            bare[key] = without_markers(value, markers, (rest,))
        elif isinstance(value, list):
            bare[key] = _without_markers(value, markers)
    return bare


def _without_markers(blocks: list[Any], markers: Collection[str]) -> list[Any]:
    """Returns blocks without markers; one that is nothing but a marker is left out."""
    bare: list[Any] = []
    for block in blocks:
        if not isinstance(block, dict):
            bare.append(block)
        elif not block or not block.keys() <= set(markers):
            kept = {key: value for key, value in block.items() if key not in markers}
            content = kept.get("content")
            bare.append({**kept, "content": _without_markers(content, markers)} if isinstance(content, list) else kept)
    return bare
