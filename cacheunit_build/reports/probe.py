"""A measured cache rule -> text, JSON, and a target to paste into a project's settings."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.data import with_former_keys
from cacheunit_build.reports.table import columns

if TYPE_CHECKING:
    from cacheunit_build.domain.target import FormatName, Price, Target
    from cacheunit_build.endpoints.probe import ProbeResult

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """What was measured, where and when: `known` is the target that has this model already."""

    host: str
    model: str
    form: FormatName
    day: str
    known: Target | None


def probed_data(probed: ProbeResult, place: ProbeContext) -> dict[str, Any]:
    """The report of `probe`."""
    data = asdict(probed)
    del data["ahead"]
    data = with_former_keys(data, {"primes": "warm_up_requests"})
    return {**data, "target": target_toml(probed, place)}


def probed_text(probed: ProbeResult, place: ProbeContext) -> str:
    """What is known, what is not, and the target."""
    facts = [
        ("kind", probed.kind),
        ("unit", _tokens(probed.unit) if probed.kind in ("blocks", "unknown") else "none: served to the token"),
        ("minimum", "none" if probed.minimum == 0 else _tokens(probed.minimum)),
        ("offset", "none" if probed.offset == 0 else _tokens(probed.offset)),
        ("marker", "unknown" if probed.kind == "unknown" else probed.marker or "none is needed"),
        ("served", "unknown" if probed.warm_up_requests is None else f"from request {probed.warm_up_requests + 1} on"),
        ("readable", _delay(probed.delay)),
        ("last token", _last(probed)),
        ("verbatim", _VERBATIM[probed.verbatim]),
        ("sent", f"{probed.requests:,} requests, {probed.tokens_sent:,} tokens"),
    ]
    parts = [columns(facts), *(f"note: {note}" for note in probed.notes)]
    if probed.reason:
        parts.append(f"{'unknown' if probed.kind == 'unknown' else 'not measured'}: {probed.reason}")
    target = target_toml(probed, place)
    return "\n\n".join([*parts, target.rstrip("\n")] if target else parts)


_VERBATIM = {
    None: "unknown",
    "same": "a verbatim repeat is served as one that goes on differently",
    "more": "a verbatim repeat is served more than one that goes on differently",
    "less": "a verbatim repeat is served less than one that goes on differently",
}


def _last(probed: ProbeResult) -> str:
    """What becomes of the last token of a request that is sent again."""
    if probed.last_token is None:
        return "unknown" if probed.kind != "breakpoints" else "never part of what is served"
    lost = ": a request that is nothing but whole units loses its last one" if probed.kind == "blocks" else ""
    told = {
        "served": "served: a request that is nothing but whole units is served whole",
        "recomputed": f"computed anew{lost}",
    }
    return told[probed.last_token]


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} tokens"


def _delay(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"after {seconds:g} s at the latest" if seconds else "at once"


def target_toml(probed: ProbeResult, place: ProbeContext) -> str:
    """A table of `cacheunit.toml` with the measured rule as evidence; empty where the rule is unknown."""
    if probed.kind == "unknown":
        return ""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', place.model).strip('-._') or 'model'}-measured"
    table = f"target.{_text(name) if '.' in name else name}"
    known = place.known
    extends = known is not None and known.name != name and _fits(known, probed, place)
    lines = ["# For cacheunit.toml; in pyproject.toml, each table begins with tool.cacheunit.", f"[{table}]"]
    if known is not None and extends:
        lines += [f"extends = {_text(known.name)}"]
    lines += [
        f"description = {_text(f'{place.model} at {place.host}')}",
        f"models = [{_text(place.model)}]",
        f"request = {_text(place.form)}",
        "",
    ]
    if not extends or known is None or known.tokenizer is None:
        lines += ["# To be added: its vocabulary and its frame (docs/targets.md), such as", f"# [{table}.tokenizer]"]
        lines += ['# path = "models/ours/tokenizer.json"', ""]
    lines += [f"[{table}.cache]", f"kind = {_text(probed.kind)}"]
    numbers = {"unit": probed.unit, "minimum": probed.minimum, "warm_up_requests": probed.warm_up_requests}
    lines += [f"{key} = {number}" for key, number in numbers.items() if number is not None]
    if probed.marker is not None:
        lines += [f"marker = {_text(probed.marker)}"]
    if not extends:
        lines += [
            "# To be added: read and write, the prices of a cached and of a written token in units of an uncached one"
        ]
    if probed.offset:
        lines += [
            f"# frame.before must hold the {probed.offset} tokens, or a whole unit more, that the server puts in front"
        ]
    for claim in _claims(probed):
        lines += ["", f"[[{table}.cache.evidence]]", f"claim = {_text(claim)}", 'grade = "measured"']
        lines += [
            f"checked = {place.day}",
            f"source = {_text(f'cacheunit probe of {place.host}, model {place.model}')}",
        ]
    return "\n".join(lines) + "\n"


def _fits(known: Target, probed: ProbeResult, place: ProbeContext) -> bool:
    """Whether a measured rule can stand on a known target: nothing of that one's would have to be taken away."""
    return known.request == place.form and known.cache.marker in (None, probed.marker)


def _claims(probed: ProbeResult) -> list[str]:
    """What was measured, a sentence each."""
    count = len(probed.observations)
    claims = {
        "blocks": f"reported hits are whole units of {probed.unit} tokens, at each of {count} lengths that were tried",
        "tokens": f"any common prefix is served to the token, at each of {count} lengths that were tried",
        "breakpoints": f"a prefix is served whole or not at all, to the token, at each of {count} lengths",
    }
    said = [claims[probed.kind]]
    if probed.offset:
        said.append(f"the units begin {probed.offset} tokens, or whole units more, in front of what is counted")
    if probed.minimum:
        said.append(f"{probed.minimum:,} tokens are served, one less is not")
    elif probed.minimum == 0 and probed.ahead is not None:
        lowest = min((item.shared or 0 for item in probed.observations if item.hit), default=0)
        said.append(f"no minimum was seen: a prefix of {lowest:,} tokens is served")
    if probed.marker is not None:
        said.append(f"without {probed.marker} nothing is served")
    if probed.warm_up_requests is not None:
        wait = f"after {probed.delay:g} s at the latest" if probed.delay else "at once"
        said.append(
            f"request {probed.warm_up_requests + 1} that goes on differently is the first one served; a write is readable {wait}"
        )
    if probed.last_token is not None:
        said.append(f"the last token is {_last(probed)}")
    return said


def _text(value: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """What a probe sends at most; `write` is the price of a written token in units of an uncached one."""

    requests: int
    tokens: int
    output: int
    write: float
    price: Price | None


def dry_text(most: Most, example: str) -> str:
    """What would be sent at most."""
    prices = most.tokens * most.write
    cost = f"at most {prices:,.0f} prices of an uncached input token"
    if most.write != 1:
        cost += f", if each is written to the cache at {most.write:g}"
    if most.price is not None:
        cost += f": {prices * most.price.input / _MILLION:,.4f} {most.price.currency}"
    facts = [
        ("requests", f"at most {most.requests:,}"),
        ("tokens", f"at most {most.tokens:,} of input, in all"),
        ("output", f"{most.output} asked for each request"),
        ("cost", f"{cost}; and the output"),
        ("content", example),
    ]
    return f"{columns(facts)}\n\nnothing was sent"


def dry_data(most: Most) -> dict[str, Any]:
    """The same as data; `money` is None where no price is known."""
    prices = most.tokens * most.write
    money = None if most.price is None else prices * most.price.input / _MILLION
    currency = None if most.price is None else most.price.currency
    return {
        "requests": most.requests,
        "tokens": most.tokens,
        "output": most.output,
        "cost": {"input_token_prices": prices, "money": money, "currency": currency},
    }
