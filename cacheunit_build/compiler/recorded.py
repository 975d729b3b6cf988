"""Makes the request that a provider is asked to count from the parts of a prefix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.markers import marker_places
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.domain.recorded_count import EstimatedRequest
from cacheunit_build.request_formats.parts import Marker

if TYPE_CHECKING:
    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.prompt import StaticTokens
    from cacheunit_build.request_formats.parts import PrefixParts


def estimated_request(
    parts: PrefixParts, shared_blocks: int, loaded: LoadedTarget, static: StaticTokens
) -> EstimatedRequest:
    """Returns what a provider is asked to count of a prefix.

    Which markers a request carries depends on the count, and whether its text is one block or several on the markers.
    So that the count does not decide which bytes are counted, these are the blocks of a request with all its markers.

    Args:
        parts: the parts of the prefix, without markers.
        shared_blocks: how many blocks of the system text all variants share.
        loaded: the target.
        static: the static tokens by the vocabulary of the estimate.
    """
    target, request_format = loaded.target, loaded.request_format
    name = target.cache.marker
    places = {} if name is None else marker_places(parts, shared_blocks, request_format)
    markers = tuple(Marker(place=place, name=name) for place in places.values() if name is not None)
    fragment = request_format.fragment(replace(parts, markers=markers, fields={}))
    spec = target.tokenizer
    return EstimatedRequest(
        body=compact_json(request_format.counted(fragment)),
        estimate=static.tokens,
        vocabulary=loaded.tokenizer.identity,
        margins=(static.margin, None if spec is None else spec.scaled_margin),
        model=target.counted_model,
        tools=bool(parts.tools),
    )
