"""Tests why the hits of an artifact differ from the prediction. A cause that was not tested is not reported.

hits (unit 128, predicted 1,024)   tested with                     cause
768, 768, 768                      the server's /tokenize          different tokenizer, different chat template,
                                                                   or tokens that merge with the user message
1,000                              arithmetic                      the hit is not a multiple of 128
896, 896, 896                      several user messages           each of 3 requests hit 1 unit less than predicted
0, 768, 0                          -                               none: only the facts
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.cache_rule import MOST_DROPPED_UNITS
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.endpoints.artifact_requests import user_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.endpoints.artifact_requests import ArtifactRequests
    from cacheunit_build.endpoints.expected_hit import ExpectedHit

_FEWEST_EQUAL_HITS = 2
"""The fewest requests with the same hit that show a rule, and not an accident."""
_MOST_TOKENIZED = 4
"""The most requests of which the server is asked for the token ids."""
_PROBE = '"cacheunit probe" measures the cache rule of the endpoint'


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is known about hits that differ from the prediction.

    Attributes:
        cause: the cause, as far as it was tested; None where no test showed one.
        facts: what was observed, one sentence each.
        hint: what to try next.
    """

    cause: str | None
    facts: tuple[str, ...]
    hint: str


def explain_difference(requests: ArtifactRequests, expected: ExpectedHit, hits: Mapping[int, int]) -> Difference:
    """Returns the facts about hits that differ from the prediction, and the cause that a test shows.

    Args:
        requests: the requests of the artifact; sends further ones to the tokenizer of the server.
        expected: the hits that were predicted.
        hits: number of each request that is compared -> the hit that it reported.
    """
    facts = _facts(expected, hits)
    tokens_cause = _tokens_cause(requests, expected, hits)
    if tokens_cause is not None:
        cause, hint = tokens_cause
        return Difference(cause=cause, facts=facts, hint=hint)
    off_unit = next((hit for hit in hits.values() if hit % expected.unit), None)
    if off_unit is not None:
        cause = f"the hit of {off_unit:,} tokens is not a multiple of {expected.unit}"
        return Difference(cause=cause, facts=facts, hint=_PROBE)
    units = _constant_units(requests, expected, hits)
    if units is None:
        wait = "" if max(hits.values()) else "; a longer --wait leaves it more time to write"
        return Difference(cause=None, facts=facts, hint=f"{_PROBE}{wait}")
    cause = f"each of {len(hits)} requests hit {_units(units)} than predicted"
    dropped = requests.rule.dropped_units + units
    is_valid = 0 <= dropped <= MOST_DROPPED_UNITS
    field = f"; if it recomputes the last units, set dropped_units = {dropped} in the target's cache rule"
    return Difference(cause=cause, facts=facts, hint=f"{_PROBE}{field if is_valid else ''}")


def _facts(expected: ExpectedHit, hits: Mapping[int, int]) -> tuple[str, ...]:
    """Returns the hits of all compared requests, and how far the last one is from the prediction."""
    first, last = min(hits) + 1, max(hits) + 1
    numbers = f"request {first}" if first == last else f"requests {first} to {last}"
    if not any(hits.values()):
        return (f"no cached tokens in {numbers}",)
    listed = ", ".join(f"{hit:,}" for hit in hits.values())
    facts = [f"cached tokens of {numbers}: {listed}"]
    missing = (expected.tokens or 0) - hits[max(hits)]
    if expected.low == expected.tokens and missing:
        units, rest = divmod(abs(missing), expected.unit)
        is_whole = expected.unit > 1 and not rest
        how_far = _units(units if missing > 0 else -units) if is_whole else _compared(missing, "token")
        facts.append(f"{how_far} than predicted")
    return tuple(facts)


def _units(fewer: int) -> str:
    """Returns a difference in units as text, such as `1 unit less` or `2 units more`."""
    return _compared(fewer, "unit")


def _compared(fewer: int, noun: str) -> str:
    """Returns a difference as text; a negative one is `more`."""
    count = abs(fewer)
    return f"{count:,} {noun}{'s' * (count != 1)} {'less' if fewer > 0 else 'more'}"


def _tokens_cause(requests: ArtifactRequests, expected: ExpectedHit, hits: Mapping[int, int]) -> tuple[str, str] | None:
    """Compares the server's token ids with the target's; returns how they differ, and a hint.

    None where they agree, the server does not show its ids, or the target's count is an estimate.
    """
    if requests.artifact.estimated is not None:
        return None
    target, server = requests.target_ids(), requests.server_ids()
    if server is None:
        return None
    if list(server) != target:
        counts = f"{len(server):,} tokens on the server, {len(target):,} in the target"
        cause = f"different tokenizer: {counts}, other ids from token {common_prefix(server, target):,} on"
        return cause, "set the target's tokenizer to that of the server"
    static = target[: requests.artifact.entry.tokens]
    shared: dict[int, int] = {}
    for number in sorted({0, *hits})[:_MOST_TOKENIZED]:
        ids = requests.server_request_ids(number)
        if ids is None:
            return None
        shared[number] = common_prefix(static, list(ids))
    number = min(shared, key=lambda number: shared[number])
    served = requests.rule.reusable(shared[number], requests.artifact.entry.markers)
    explains_hit = served is not None and served < expected.low
    return _divergence_cause(requests, static, number, shared[number]) if explains_hit else None


def _divergence_cause(
    requests: ArtifactRequests, static: Sequence[int], number: int, first: int
) -> tuple[str, str] | None:
    """Returns why the token ids of a request differ from the static ones, and a hint.

    The user message is put directly behind the framed prefix, without the server's chat template. If the server's
    tokenizer gives the same different ids for that text, the tokens merge. Otherwise the template made the difference.

    Args:
        requests: the requests.
        static: the static token ids of the target.
        number: the number of the request.
        first: index of its first token that differs.
    """
    without_template = requests.server_ids(user_message(number))
    if without_template is None:
        return None
    if common_prefix(static, without_template) == first:
        cause = f"tokens merge with the user message: on the server, request {number + 1} differs from token {first:,}"
        return f"{cause} on", "end the frame with a control token"
    cause = f"different chat template: the server's text differs from the target's frame from token {first:,} on"
    return cause, "set the target's chat_template to that of the server"


def _constant_units(requests: ArtifactRequests, expected: ExpectedHit, hits: Mapping[int, int]) -> int | None:
    """Returns how many units less than predicted every request hits; None where the hits do not show that.

    At least two user messages must agree, and one of them must leave all tokens in front of it as they are: then no
    merged token can be the reason.
    """
    different = set(hits.values())
    if (
        requests.artifact.estimated is not None
        or expected.unit == 1
        or len(hits) < _FEWEST_EQUAL_HITS
        or len(different) > 1
    ):
        return None
    (hit,) = different
    if not hit or not any(requests.keeps_all_tokens(number) for number in hits):
        return None
    return ((expected.tokens or 0) - hit) // expected.unit
