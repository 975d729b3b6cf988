"""Formats a measured cache rule as text, as JSON, and as a target for the project's settings."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.escaping import toml_string
from cacheunit_build.reports.formatting import plural, with_former_keys
from cacheunit_build.reports.layout import Block, Table, Verbatim

if TYPE_CHECKING:
    from cacheunit_build.domain.target import FormatName, Price, Target
    from cacheunit_build.endpoints.probe import ProbeResult

_VERBATIM = {
    None: "unknown",
    "same": "served as much as a request with another continuation",
    "more": "served more than a request with another continuation",
    "less": "served less than a request with another continuation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """Where and when a rule was measured.

    Attributes:
        host: host of the endpoint.
        model: name of the model.
        request_format: format of the requests.
        date: day of the measurement, as YYYY-MM-DD.
        known_target: the target that lists this model; None where there is none.
    """

    host: str
    model: str
    request_format: FormatName
    date: str
    known_target: Target | None


def probe_json(result: ProbeResult, context: ProbeContext) -> dict[str, Any]:
    """Returns the JSON report of `probe`; `primes` is the former name of `warm_up_requests`."""
    report = with_former_keys(asdict(result), {"primes": "warm_up_requests"})
    return {**report, "target": target_toml(result, context)}


def probe_blocks(result: ProbeResult, context: ProbeContext) -> list[Block]:
    """Returns what is known about the rule, what is not, and the target as TOML."""
    requests = result.warm_up_requests
    rows = [
        ("kind", result.kind),
        ("unit", _tokens(result.unit) if result.kind in ("blocks", "unknown") else "none: any length is served"),
        ("minimum", _tokens_or_none(result.minimum)),
        ("offset", _tokens_or_none(result.offset)),
        ("marker", "unknown" if result.kind == "unknown" else result.marker or "not needed"),
        ("warm-up", "unknown" if requests is None else plural(requests, "request")),
        ("delay", _delay(result.delay)),
        ("dropped", _dropped(result)),
        ("last token", _last_token(result)),
        ("repeat", _VERBATIM[result.verbatim]),
        ("sent", f"{plural(result.requests, 'request')}, {plural(result.tokens_sent, 'token')}"),
    ]
    paragraphs: list[Block] = [Table(rows=rows), *([f"note: {note}"] for note in result.notes)]
    if result.reason:
        paragraphs.append([f"{'unknown' if result.kind == 'unknown' else 'not measured'}: {result.reason}"])
    return [*paragraphs, Verbatim(target_toml(result, context).rstrip("\n").split("\n"))]


def _dropped(result: ProbeResult) -> str:
    """Returns how many of the last units that two requests share are computed again."""
    if result.dropped_units is None:
        return "unknown"
    return f"{_dropped_text(result.dropped_units)} of what two requests share" if result.dropped_units else "none"


def _dropped_text(units: int) -> str:
    """Returns the units that are dropped as text, such as `the last unit` or `the last 2 units`."""
    return "the last unit" if units == 1 else f"the last {units} units"


def _last_token(result: ProbeResult) -> str:
    """Returns what happens to the last token of a request that is repeated exactly."""
    if result.kind == "breakpoints":
        return "never served: it follows the marked prefix"
    texts = {
        None: "unknown",
        "served": "served: a request of whole units is served to its end",
        "recomputed": "recomputed"
        + (": an exact repeat of whole units loses its last one" if result.kind == "blocks" else ""),
    }
    return texts[result.last_token]


def _tokens(count: int | None) -> str:
    """Returns a number of tokens as text."""
    return "unknown" if count is None else f"{count:,} tokens"


def _tokens_or_none(count: int | None) -> str:
    """Returns a number of tokens as text, `none` for 0."""
    return "none" if count == 0 else _tokens(count)


def _delay(seconds: float | None) -> str:
    """Returns the time after which a write is readable."""
    if seconds is None:
        return "unknown"
    return f"at most {seconds:g} s" if seconds else "none"


def target_toml(result: ProbeResult, context: ProbeContext) -> str:
    """Returns a target table for `cacheunit.toml`, with the measurement as evidence; empty if the rule is unknown.

    It extends the known target of the model where that fits. What cannot be measured is left as a comment.
    """
    if result.kind == "unknown":
        return ""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', context.model).strip('-._') or 'model'}-measured"
    table = f"target.{toml_string(name) if '.' in name else name}"
    base = _extendable_target(name, result, context)
    lines = [
        "# For cacheunit.toml; in pyproject.toml, each table begins with tool.cacheunit.",
        *_target_lines(table, base, context),
        *_cache_lines(table, base, result),
        *_evidence_lines(table, result, context),
    ]
    return "\n".join(lines) + "\n"


def _extendable_target(name: str, result: ProbeResult, context: ProbeContext) -> Target | None:
    """Returns the known target, if the measured target of this name can extend it.

    It cannot extend itself, nor a target of another request format, nor one whose marker it would have to remove.
    """
    known = context.known_target
    if known is None or known.name == name or known.request != context.request_format:
        return None
    return known if known.cache.marker in (None, result.marker) else None


def _target_lines(table: str, base: Target | None, context: ProbeContext) -> list[str]:
    """Returns the target table itself, with a comment for the tokenizer if no base has one."""
    lines = [f"[{table}]"]
    if base is not None:
        lines.append(f"extends = {toml_string(base.name)}")
    lines += [
        f"description = {toml_string(f'{context.model} at {context.host}')}",
        f"model_ids = [{toml_string(context.model)}]",
        f"request = {toml_string(context.request_format)}",
        "",
    ]
    if base is None or base.tokenizer is None:
        lines += [
            "# To be added: the tokenizer and the frame (docs/targets.md), such as",
            f"# [{table}.tokenizer]",
            '# path = "models/ours/tokenizer.json"',
            "",
        ]
    return lines


def _cache_lines(table: str, base: Target | None, result: ProbeResult) -> list[str]:
    """Returns the table of the cache rule."""
    numbers = {"unit": result.unit, "minimum": result.minimum, "warm_up_requests": result.warm_up_requests}
    lines = [f"[{table}.cache]", f"kind = {toml_string(result.kind)}"]
    if result.dropped_units or (base is not None and base.cache.dropped_units and result.dropped_units is not None):
        numbers["dropped_units"] = result.dropped_units
    lines += [f"{key} = {number}" for key, number in numbers.items() if number is not None]
    if result.marker is not None:
        lines.append(f"marker = {toml_string(result.marker)}")
    if base is None:
        lines.append(
            "# To be added: read and write, the prices of a cached and of a written token relative to an uncached one"
        )
    if result.offset:
        lines.append(
            f"# To be added to frame.before: the {result.offset} tokens, or whole units more, that the server adds"
        )
    return lines


def _evidence_lines(table: str, result: ProbeResult, context: ProbeContext) -> list[str]:
    """Returns a table of evidence for each claim."""
    source = f"cacheunit probe of {context.host}, model {context.model}"
    lines = []
    for claim in _claims(result):
        lines += [
            "",
            f"[[{table}.cache.evidence]]",
            f"claim = {toml_string(claim)}",
            'grade = "measured"',
            f"checked = {context.date}",
            f"source = {toml_string(source)}",
        ]
    return lines


def _claims(result: ProbeResult) -> list[str]:
    """Returns what was measured, one sentence for each fact."""
    claims = [_kind_claim(result)]
    if result.offset:
        claims.append(f"units begin {result.offset} tokens, or whole units more, in front of the counted tokens")
    if result.minimum:
        claims.append(f"a prefix of {result.minimum:,} tokens is served, one of a token less is not")
    elif result.minimum == 0:
        shortest = min((item.shared or 0 for item in result.observations if item.hit), default=0)
        claims.append(f"no minimum was seen: a prefix of {shortest:,} tokens is served")
    if result.dropped_units:
        verb = "is" if result.dropped_units == 1 else "are"
        claims.append(f"{_dropped_text(result.dropped_units)} that two requests share {verb} computed again")
    if result.marker is not None:
        claims.append(f"nothing is served without {result.marker}")
    if result.warm_up_requests is not None:
        readable = f"after at most {result.delay:g} s" if result.delay else "immediately"
        claims.append(
            f"served from request {result.warm_up_requests + 1} on, each with another continuation; "
            f"a write is readable {readable}"
        )
    if result.last_token is not None:
        claims.append(f"the last token is {_last_token(result)}")
    return claims


def _kind_claim(result: ProbeResult) -> str:
    """Returns the sentence about the kind of rule."""
    lengths = f"at each of {len(result.observations)} lengths"
    if result.kind == "blocks":
        return f"reported hits are whole units of {result.unit} tokens, {lengths}"
    if result.kind == "tokens":
        return f"a common prefix is served to the token, {lengths}"
    return f"a prefix is served as a whole, to the token, or not at all, {lengths}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBudget:
    """The most that a probe sends, and its price.

    Attributes:
        requests: the most requests.
        tokens: the most input tokens, in all.
        output: the most output tokens that each request asks for.
        write: price of a token that is written to the cache, relative to an uncached one.
        price: price of uncached tokens; None where it is unknown.
    """

    requests: int
    tokens: int
    output: int
    write: float
    price: Price | None

    @property
    def input_cost(self) -> float:
        """The highest cost of the input, in prices of an uncached token."""
        return self.tokens * self.write


def dry_run_blocks(budget: ProbeBudget, content: str) -> list[Block]:
    """Returns what a probe would send at most, and what that would cost.

    Args:
        budget: the limits and prices.
        content: describes the requests.
    """
    cost = f"at most the price of {budget.input_cost:,.0f} uncached input tokens"
    if budget.write != 1:
        cost += f", if each token is written to the cache at {budget.write:g} times the price"
    if budget.price is not None:
        cost += f": {budget.input_cost * budget.price.input / MILLION:,.4f} {budget.price.currency}"
    rows = [
        ("requests", f"at most {budget.requests:,}"),
        ("input", f"at most {budget.tokens:,} tokens in all"),
        ("output", f"limited to {plural(budget.output, 'token')} per request, if the server keeps to it"),
        ("cost", f"{cost}; plus the output"),
        ("content", content),
    ]
    return [Table(rows=rows), ["nothing was sent"]]


def dry_run_json(budget: ProbeBudget) -> dict[str, Any]:
    """Returns the JSON report of `probe --dry-run`; `money` is null where no price is known."""
    price = budget.price
    return {
        "requests": budget.requests,
        "tokens": budget.tokens,
        "output": budget.output,
        "cost": {
            "input_token_prices": budget.input_cost,
            "money": None if price is None else budget.input_cost * price.input / MILLION,
            "currency": None if price is None else price.currency,
        },
    }
