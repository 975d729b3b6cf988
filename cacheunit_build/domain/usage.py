"""Reads the cached tokens from the usage that a response reports, in the form of any supported provider.

Providers, gateways and libraries report the same number in several fields. Equal numbers agree, and a 0 beside a
positive number is the default of a gateway that does not know the field. Two positive numbers that differ are a
contradiction: the number is then unknown, and `contradictions` has the reason. The fields are in `usage_fields.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.usage_fields import (
    HIT_FIELDS,
    INPUT_FIELDS,
    PROMPT_BREAKDOWNS,
    PROMPT_FIELDS,
    PROVIDER_SIGNS,
    SEPARATE_SIGNS,
    TOTAL_SIGNS,
    UNCACHED_FIELDS,
    WRITTEN_FIELDS,
    Container,
    FieldValue,
    containers_of,
    items_of,
    may_report,
    response_id,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_EVENTS = 100_000
MAX_READ_EVENTS = 20_000
"""The most events of one stream that may report tokens; each is read field by field, which takes 0.1 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The input tokens that a response reports; None for a number that it does not report, or reports inconsistently.

    Attributes:
        hit: tokens read from the cache.
        written: tokens written to the cache.
        prompt: tokens of the whole prompt, cached or not.
        contradictions: a sentence for each pair of fields that cannot both be right.
    """

    hit: int | None
    written: int | None
    prompt: int | None
    contradictions: tuple[str, ...] = ()


_NOTHING = Usage(hit=None, written=None, prompt=None)


def read_usage(value: object) -> Usage:
    """Reads the usage from a response, from its usage object, or from the events of a stream.

    Takes mappings, objects of a client library, and lists or tuples of events. Raises no `Exception`, whatever the
    value is; an exit or an interrupt of the program while it is read passes through. More than 100,000 events, or 100
    items of a detail, are not read.

    {"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1280}}}  hit 1280, prompt 1500
    {"input_tokens": 20, "cache_read_input_tokens": 1280}                                 hit 1280, prompt 1300
    {"prompt_cache_hit_tokens": 0, "prompt_tokens_details": {"cached_tokens": 900}}       hit 900
    {"prompt_cache_hit_tokens": 640, "prompt_tokens_details": {"cached_tokens": 900}}     hit None, a contradiction
    None                                                                                  all None
    """
    events = items_of(value, _MAX_EVENTS)
    return _read_response(value) if events is None else _read_stream(events)


def _read_response(response: object) -> Usage:
    """Reads the usage from one response, or from one event of a stream."""
    containers = containers_of(response)
    hit, hit_contradictions = _reconcile(_values(containers, HIT_FIELDS))
    written, written_contradictions = _reconcile(_values(containers, WRITTEN_FIELDS))
    contradictions = hit_contradictions + written_contradictions
    cached = None if contradictions else [value for value in (hit, written) if value is not None]
    prompt, prompt_contradictions = _reconcile(_prompt_values(containers, cached, hit))
    contradictions += prompt_contradictions
    if prompt is not None and prompt.tokens == 0 and any(value.tokens for value in cached or ()):
        prompt = None  # the default of a gateway
    if prompt is not None:
        if hit is not None and hit.tokens > prompt.tokens:
            contradictions.append(f"{hit}, more than the whole prompt: {prompt}")
            hit = prompt = None
        elif written is not None and written.tokens > prompt.tokens:
            contradictions.append(f"{written}, more than the whole prompt: {prompt}")
            written = prompt = None
        elif hit is not None and cached and (impossible := _impossible_sum(containers, cached, prompt)):
            contradictions.append(impossible)
            hit = written = prompt = None
    return Usage(
        hit=hit.tokens if hit else None,
        written=written.tokens if written else None,
        prompt=prompt.tokens if prompt else None,
        contradictions=tuple(contradictions),
    )


def _values(containers: Sequence[Container], fields: Sequence[str]) -> list[FieldValue]:
    """Returns the numbers that the parts of a response report in these fields."""
    return [value for container in containers for value in container.values(fields)]


def _reconcile(values: Sequence[FieldValue]) -> tuple[FieldValue | None, list[str]]:
    """Returns the value that the fields agree on, or a sentence for each one that contradicts the first.

    a 640, b 640    a 640
    a 0, b 640      b 640: a 0 is the default of a gateway
    a 640, b 900    None, "a is 640, but b is 900"
    nothing         None
    """
    positive = [value for value in values if value.tokens]
    if not positive:
        return (values[0] if values else None), []
    first = positive[0]
    others: dict[int, FieldValue] = {}
    for value in positive:
        others.setdefault(value.tokens, value)
    others.pop(first.tokens)
    return (None if others else first), [f"{first}, but {value}" for value in others.values()]


def _prompt_values(
    containers: Sequence[Container], cached: list[FieldValue] | None, hit: FieldValue | None
) -> list[FieldValue]:
    """Returns the numbers of tokens of the whole prompt; totals where there are any, else sums.

    Args:
        containers: the parts of the response.
        cached: the tokens read from the cache and written to it; None where they contradict one another.
        hit: the tokens read from the cache.
    """
    totals = _values(containers, PROMPT_FIELDS)
    for container in containers:
        totals += _input_values(container, cached)
    if totals:
        return totals
    sums = _values(containers, PROMPT_BREAKDOWNS)
    if cached is not None and hit is not None:
        sums += [_sum_of([value, *cached]) for value in _values(containers, UNCACHED_FIELDS)]
    return sums


def _input_values(container: Container, cached: list[FieldValue] | None) -> list[FieldValue]:
    """Returns the tokens of the whole prompt by the fields `input_tokens` and `inputTokens`.

    beside it                            it counts                           whole prompt
    input_tokens_details and the like    the whole prompt                    as reported
    cachedInputTokens (AI SDK 5)         as the provider does, not known     not read
    cache_read_input_tokens and so on    what is not cached and not written  with both added
    nothing                              the whole prompt                    as reported
    """
    values = container.values(INPUT_FIELDS)
    if not values or container.has_any(TOTAL_SIGNS):
        return values
    if container.has_any(PROVIDER_SIGNS):
        return []
    if not container.has_any(SEPARATE_SIGNS):
        return values
    return [] if cached is None else [_sum_of([value, *cached]) for value in values]


def _sum_of(values: Sequence[FieldValue]) -> FieldValue:
    """Returns the sum of the values, named after those that are not 0."""
    named = [value.name for value in values if value.tokens] or [values[0].name]
    return FieldValue(" + ".join(named), sum(value.tokens for value in values))


def _impossible_sum(containers: Sequence[Container], cached: list[FieldValue], prompt: FieldValue) -> str | None:
    """Returns why the cached tokens cannot be right with this prompt; None if they can.

    hit  written  not cached  prompt  result
    640  -        360         1,000   None
    640  100      360         1,000   None: what is not cached has what is written
    640  100      260         1,000   None
    640  -        0           1,000   None: a 0 is the default of a gateway
    640  -        10          1,000   hit + not cached is 650
    900  900      -           1,000   hit + written is 1,800

    Args:
        containers: the parts of the response.
        cached: the tokens read from the cache, then those written to it where they are reported.
        prompt: the tokens of the whole prompt.
    """
    hit, total = cached[0], _sum_of(cached)
    if total.tokens > prompt.tokens:
        return f"{total}, more than the whole prompt: {prompt}"
    for uncached in _values(containers, UNCACHED_FIELDS):
        sums = [_sum_of([hit, uncached]), _sum_of([*cached, uncached])]
        if uncached.tokens and prompt.tokens not in [value.tokens for value in sums]:
            return f"{sums[-1]}, but {prompt}"
    return None


def _read_stream(events: Sequence[object]) -> Usage:
    """Combines the usage that the events of one stream report."""
    promising = [event for event in events if may_report(event)]
    if len(promising) > MAX_READ_EVENTS:
        reason = f"{len(promising):,} events may report tokens, more than the {MAX_READ_EVENTS:,} that are read"
        return replace(_NOTHING, contradictions=(reason,))
    readings = [(event, _read_response(event)) for event in promising]
    reporting = [(event, usage) for event, usage in readings if usage != _NOTHING]
    responses = {response_id(event) for event, _ in reporting} - {None}
    if len(responses) > 1:
        reason = f"the list has the usage of {len(responses):,} responses, so no number is that of one"
        return replace(_NOTHING, contradictions=(reason,))
    usages = [usage for _, usage in reporting]
    hit, hit_contradictions = _last_count("cached", [(usage.hit, usage.contradictions) for usage in usages])
    written, written_contradictions = _last_count(
        "written", [(usage.written, usage.contradictions) for usage in usages]
    )
    # An event without cached tokens may leave them out of its prompt: message_delta of Anthropic.
    complete = [usage.prompt for usage in usages if usage.hit is not None and usage.prompt]
    prompts = complete or [usage.prompt for usage in usages if usage.prompt is not None]
    prompt = prompts[-1] if prompts else None
    contradictions = [sentence for usage in usages for sentence in usage.contradictions]
    contradictions += hit_contradictions + written_contradictions
    if hit is not None and prompt is not None and hit > prompt:
        contradictions.append(f"the stream reports {hit:,} cached tokens, but {prompt:,} in the whole prompt")
        hit = prompt = None
    return Usage(hit=hit, written=written, prompt=prompt, contradictions=tuple(dict.fromkeys(contradictions)))


def _last_count(label: str, counts: Sequence[tuple[int | None, tuple[str, ...]]]) -> tuple[int | None, list[str]]:
    """Returns the last positive count of a stream, else 0 or None, and a sentence where its counts fall.

    The counts of a stream are cumulative. The count is None where an event contradicts itself and has no count.

    Args:
        label: what is counted.
        counts: the count of each event, and the contradictions within that event.
    """
    if any(count is None and contradictions for count, contradictions in counts):
        return None, []
    reported = [count for count, _ in counts if count is not None]
    positive = [count for count in reported if count]
    if not positive:
        return (0 if reported else None), []
    if positive != sorted(positive):
        return None, [
            f"an event of the stream reports {max(positive):,} {label} tokens, but the last one {positive[-1]:,}"
        ]
    return positive[-1], []
