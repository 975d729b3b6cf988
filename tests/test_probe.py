"""`probe`: the rule of a server is found from what it reports; its cache is made up, requests and answers are real."""

from __future__ import annotations

import threading
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mock_server import Engine, serving

from cacheunit_build.endpoints.metrics import Gauges, read_gauges
from cacheunit_build.endpoints.rule_fit import Grid, fit_exact, fit_grid
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Project, Ran

MOST = 40
"""Requests that a rule may take."""
CHAT, ANTHROPIC, RESPONSES, TEXT = "openai-chat", "anthropic-messages", "openai-responses", "text"


@pytest.fixture
def empty(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """No project: none is needed."""
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)
    return project


def probe(project: Project, engine: Engine, *arguments: str, form: str = CHAT, model: str = "mock") -> Ran:
    """A probe whose waits pass on the server's clock only."""

    def pause(seconds: float) -> None:
        engine.now += seconds

    with serving(engine), pytest.MonkeyPatch.context() as patch:
        patch.setattr("cacheunit_build.adapters.system.http_endpoint._pause", pause)
        return project.run("probe", engine.url, "--model", model, "--request", form, "--format", "json", *arguments)


def rule(ran: Ran, *keys: str) -> dict[str, Any]:
    """Those numbers of a rule that was found, whose table is held against it."""
    assert (ran.code, ran.err) == (0, "")
    report = ran.json
    assert report["requests"] <= MOST
    document = tomllib.loads(report["target"])
    (name,) = document["target"]
    target = all_targets(parse_settings(None, report["target"].encode()))[name]
    assert (
        target.cache.kind,
        target.cache.unit,
        target.cache.minimum,
        target.cache.warm_up_requests,
        target.cache.marker,
    ) == (*(report["kind"], report["unit"], report["minimum"], report["warm_up_requests"], report["marker"]),)
    assert {item.grade for item in target.cache.evidence} == {"measured"}
    return {key: report[key] for key in keys}


RULES = {
    "blocks of 16": (Engine(unit=16), CHAT, {"kind": "blocks", "unit": 16, "minimum": 0, "offset": 0}),
    "blocks of 32": (Engine(unit=32), TEXT, {"kind": "blocks", "unit": 32, "minimum": 0, "offset": 0}),
    "blocks of 128": (
        Engine(unit=128),
        RESPONSES,
        {"kind": "blocks", "unit": 128, "minimum": 0, "warm_up_requests": 1},
    ),
    "blocks in Anthropic's form": (
        Engine(unit=32),
        ANTHROPIC,
        {"kind": "blocks", "unit": 32, "minimum": 0, "marker": None},
    ),
    "blocks of 128 behind hidden tokens, from 1,024 on": (
        Engine(unit=128, offset=37, minimum=1024),
        CHAT,
        {"kind": "blocks", "unit": 128, "minimum": 1024 - 37, "offset": 37},
    ),
    "blocks as long as the prompt": (Engine(unit=1552), CHAT, {"kind": "blocks", "unit": 1552, "minimum": 0}),
    "breakpoints from 1,024 on": (
        Engine(kind="breakpoints", minimum=1024),
        ANTHROPIC,
        {"kind": "breakpoints", "unit": None, "minimum": 1024, "marker": "cache_control", "warm_up_requests": 1},
    ),
    "breakpoints from 2,000 on": (
        Engine(kind="breakpoints", minimum=2000),
        ANTHROPIC,
        {"kind": "breakpoints", "minimum": 2000, "marker": "cache_control"},
    ),
    "breakpoints that a chat marks": (
        Engine(kind="breakpoints", minimum=1024),
        CHAT,
        {"kind": "breakpoints", "minimum": 1024, "marker": "cache_control"},
    ),
    "breakpoints of another name": (
        Engine(kind="breakpoints", minimum=1024, refuses=("cache_control",)),
        CHAT,
        {"kind": "breakpoints", "minimum": 1024, "marker": "prompt_cache_breakpoint"},
    ),
    "persisted units with a floor of 128": (
        Engine(kind="persisted", unit=128),
        CHAT,
        {"kind": "blocks", "unit": 128, "minimum": 0, "warm_up_requests": 2, "delay": 0, "last_token": "served"},
    ),
    "persisted some seconds later": (
        Engine(kind="persisted", unit=128, lag=2.0),
        CHAT,
        {"kind": "blocks", "unit": 128, "warm_up_requests": 2, "delay": 5},
    ),
    "blocks some seconds later": (
        Engine(unit=64, lag=3.0),
        CHAT,
        {"kind": "blocks", "unit": 64, "warm_up_requests": 1, "delay": 5},
    ),
    "tokens": (
        Engine(kind="tokens"),
        CHAT,
        {"kind": "tokens", "unit": None, "minimum": 0, "offset": 0, "last_token": "recomputed"},
    ),
    "tokens, one request held": (
        Engine(kind="tokens", slot=True),
        TEXT,
        {"kind": "tokens", "minimum": 0, "warm_up_requests": 1},
    ),
    "tokens from 333 on": (Engine(kind="tokens", minimum=333), TEXT, {"kind": "tokens", "minimum": 333}),
    "tokens from 333 on, one request held": (
        Engine(kind="tokens", minimum=333, slot=True),
        TEXT,
        {"kind": "tokens", "minimum": 333},
    ),
    "blocks, repeats served whole": (
        Engine(unit=256, whole=True),
        CHAT,
        {"kind": "blocks", "unit": 256, "last_token": "served", "verbatim": "more"},
    ),
    "blocks, the last one computed anew": (
        Engine(unit=32),
        CHAT,
        {"kind": "blocks", "last_token": "recomputed", "verbatim": "same"},
    ),
    "numbers as text": (Engine(unit=32, text=True), CHAT, {"kind": "blocks", "unit": 32}),
}


@pytest.mark.parametrize(("engine", "form", "expected"), RULES.values(), ids=RULES)
def test_a_rule_is_found(empty: Project, engine: Engine, form: str, expected: dict[str, Any]) -> None:
    assert rule(probe(empty, engine, form=form), *expected) == expected


@pytest.mark.parametrize("when", [3, 4, 6, 7, 10, 13, 17])
@pytest.mark.parametrize("kind", ["blocks", "persisted"])
def test_a_cache_that_is_emptied_in_the_middle_misleads_nobody(empty: Project, kind: Any, when: int) -> None:  # noqa: ANN401
    report = probe(empty, Engine(kind=kind, unit=128, evicts=when)).json
    assert (report["kind"], report["unit"], report["minimum"]) in (("blocks", 128, 0), ("unknown", None, None))
    assert report["warm_up_requests"] == (1 if kind == "blocks" else 2)
    assert report["notes"] == []


class Forgetful(Engine):
    """A server of which two answers in `nth` come from a machine that holds nothing."""

    nth = 5

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        return 0 if len(self.requests) % self.nth < 2 else super().hit(ids, body)


@pytest.mark.parametrize("nth", [8, 9, 10, 11, 13])
@pytest.mark.parametrize("kind", ["blocks", "persisted", "tokens"])
def test_a_server_that_forgets_now_and_then_is_never_given_another_rule(empty: Project, kind: Any, nth: int) -> None:  # noqa: ANN401
    engine = Forgetful(kind=kind, unit=128, minimum=1024)
    engine.nth = nth
    report = probe(empty, engine).json
    found = ("tokens", None) if kind == "tokens" else ("blocks", 128)
    assert (report["kind"], report["unit"]) in (found, ("unknown", None))
    assert report["minimum"] in (1024, None)


def test_a_cache_that_is_warm_already_does_not_help(empty: Project) -> None:
    engine = Engine(unit=32)
    first, second = (rule(probe(empty, engine), "kind", "unit", "minimum", "observations") for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (Engine(kind="none"), "nothing was ever served"),
        (Engine(kind="none", front=12), "nothing was ever served"),
        (Engine(kind="unreported"), "does not report tokens that come from a cache"),
        (Engine(kind="repeats"), "only a request that is repeated word for word is served"),
        (Engine(usage={}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": None}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": {"prompt_tokens": "many"}}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": {"prompt_tokens": 7}}), "lengths cannot be stepped by tokens"),
        (Engine(minimum=9000), "nothing was ever served"),
    ],
    ids=[
        "none",
        "what stands in front only",
        "unreported",
        "repeats",
        "no usage",
        "null",
        "text",
        "always the same",
        "a higher minimum",
    ],
)
def test_what_cannot_be_known_is_unknown_with_its_reason(empty: Project, engine: Engine, reason: str) -> None:
    ran = probe(empty, engine)
    assert (ran.code, ran.err) == (1, "")
    report = ran.json
    assert [report[key] for key in ("kind", "unit", "minimum", "target")] == ["unknown", None, None, ""]
    assert reason in report["reason"]
    assert report["requests"] <= MOST


@pytest.mark.parametrize("failures", [[500], [429, 503], ["cut"], [200, 500, "cut", 429]])
def test_a_server_that_is_busy_or_breaks_off_is_asked_again(empty: Project, failures: list[int | str]) -> None:
    engine = Engine(unit=32, failures=failures[1:] if failures[0] == 200 else list(failures), retry_after="7")
    assert rule(probe(empty, engine), "kind", "unit") == {"kind": "blocks", "unit": 32}
    assert engine.now >= 7 * sum(isinstance(failure, int) and failure != 200 for failure in failures)


def test_a_short_context_ends_the_climb(empty: Project) -> None:
    report = probe(empty, Engine(kind="none", longest=2000)).json
    assert (report["kind"], "too long" in report["notes"][0]) == ("unknown", True)
    ran = probe(empty, Engine(longest=500))
    assert (ran.code, ran.output, "too long" in ran.err) == (2, b"", True)


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (Engine(failures=["html"] * 9), "answers HTML, not JSON"),
        (Engine(models=()), "the model does not exist"),
        (Engine(key="secret"), "answers 401"),
        (Engine(failures=[500] * 9), "answers 500"),
        (Engine(failures=["cut"] * 9), "broke off in the middle"),
    ],
    ids=["html", "no model", "no key", "500 for ever", "cut for ever"],
)
def test_an_endpoint_that_is_of_no_use(empty: Project, engine: Engine, told: str) -> None:
    ran = probe(empty, engine)
    assert (ran.code, ran.output) == (2, b"")
    assert told in ran.err


def test_an_endpoint_that_is_down_or_slow_and_addresses_that_are_none(empty: Project) -> None:
    down = empty.run("probe", "http://127.0.0.1:9/v1", "--model", "m")
    assert (down.code, "cannot reach http://127.0.0.1:9/v1" in down.err) == (2, True)
    slow = probe(empty, Engine(stalls=threading.Event()), "--timeout", "0.1")
    assert (slow.code, "does not answer within 0.1 s" in slow.err) == (2, True)
    for url in ("localhost:8000", "ftp://x/v1", "http://", "http://[::1", "http://a b/v1"):
        ran = empty.run("probe", url, "--model", "m")
        assert (ran.code, "is no URL of an API" in ran.err) == (2, True), url
    for url in ("https://me:hidden@127.0.0.1:9/v1", "https://127.0.0.1:9/v1?key=hidden"):
        ran = empty.run("probe", url, "--model", "m")
        assert (ran.code, "hidden" in ran.err) == (2, False)
    assert empty.run("probe", "http://127.0.0.1:9/v1").code == 2


def test_a_key_comes_from_the_environment_and_is_never_printed(empty: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "sk-right")
    ran = probe(empty, Engine(unit=32, key="sk-right"), "--key-env", "MINE")
    assert (ran.code, "sk-right" in ran.out + ran.err) == (0, False)
    monkeypatch.setenv("MINE", "sk-wrong")
    ran = probe(empty, Engine(key="sk-right"), "--key-env", "MINE")
    assert (ran.code, "sk-wrong" in ran.out + ran.err) == (2, False)


@pytest.mark.parametrize("bounds", [(1, 10**6), (5, 10**6), (16, 10**6), (80, 500), (80, 5000), (80, 20_000)])
def test_bounds_hold_and_what_is_known_by_then_is_said(empty: Project, bounds: tuple[int, int]) -> None:
    engine = Engine(unit=128, offset=37, minimum=1024)
    ran = probe(empty, engine, "--max-requests", str(bounds[0]), "--max-tokens", str(bounds[1]))
    assert len(engine.requests) <= bounds[0]
    assert sum(len(engine.ids(body)) - engine.offset for body in engine.requests) <= bounds[1]
    report = ran.json
    assert report["tokens_sent"] == sum(len(engine.ids(body)) - engine.offset for body in engine.requests)
    assert "are needed" in report["reason"]
    assert ran.code == (1 if report["kind"] == "unknown" else 0)
    if report["kind"] != "unknown":
        assert (report["unit"], report["minimum"]) == (128, None)


def test_a_dry_run_sends_nothing_and_names_the_price(empty: Project) -> None:
    own = '[target.own]\nextends = "anthropic-1024"\nmodels = ["mock"]\nprice = {input = 3}\n'
    empty.write({"cacheunit.toml": own})
    engine = Engine()
    ran = probe(empty, engine, "--dry-run", "--max-requests", "10", "--max-tokens", "100000", form=ANTHROPIC)
    assert (ran.code, engine.requests) == (0, [])
    cost = {"input_token_prices": 125_000.0, "money": 0.375, "currency": "USD"}
    assert ran.json == {"requests": 10, "tokens": 100_000, "output": 1, "cost": cost}
    text = empty.run("probe", "http://127.0.0.1:9/v1", "--model", "mock", "--dry-run", "--max-tokens", "100000")
    assert "at most 125,000 prices of an uncached input token" in text.out
    assert "0.3750 USD" in text.out
    unpriced = empty.run("probe", "http://127.0.0.1:9/v1", "--model", "other", "--dry-run", "--max-tokens", "9000")
    assert "at most 9,000 prices of an uncached input token; and the output" in unpriced.out


def test_what_is_sent_is_small_in_output_new_each_time_and_nothing_of_the_project(empty: Project) -> None:
    empty.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": "Confidential.\n"})
    first, second = Engine(unit=32), Engine(unit=32)
    for engine in (first, second):
        assert probe(empty, engine).code == 0
        assert {body["max_tokens"] for body in engine.requests} == {1}
        assert "Confidential" not in str(engine.requests)
    starts = [{body["messages"][0]["content"][:30] for body in engine.requests} for engine in (first, second)]
    assert starts[0] & starts[1] == set()


def test_a_known_model_is_extended_and_its_measured_target_again(empty: Project) -> None:
    engine = Engine(unit=64, models=("deepseek-v4-pro",))
    report = probe(empty, engine, model="deepseek-v4-pro").json
    empty.write({"cacheunit.toml": report["target"]})
    target = all_targets(parse_settings(None, report["target"].encode()))["deepseek-v4-pro-measured"]
    assert (target.cache.unit, target.cache.warm_up_requests, target.cache.read) == (64, 1, 0.02)
    assert target.tokenizer is not None
    empty.write({"prefixes/a.yaml": "system: a.j2\ntargets: [deepseek-v4-pro-measured]\n", "templates/a.j2": "Hi.\n"})
    empty.built()
    again = probe(empty, engine, model="deepseek-v4-pro").json["target"]
    assert 'extends = "deepseek-v4"' in again


def test_a_measured_target_does_not_extend_itself(empty: Project) -> None:
    empty.write({"cacheunit.toml": probe(empty, Engine(unit=64)).json["target"]})
    again = probe(empty, Engine(unit=32)).json["target"]
    assert ("extends" in again, "unit = 32" in again) == (False, True)


GAUGES = """# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
vllm:cache_config_info{{block_size="{unit}",enable_prefix_caching="True",prefix_match_unit="None"}} 1.0
vllm:prefix_cache_hits_total{{engine="0",model_name="mock"}} 1e+09
"""


def test_metrics_that_say_something_else_are_named(empty: Project) -> None:
    notes = probe(empty, Engine(unit=32, gauges=GAUGES.format(unit=16))).json["notes"]
    assert notes[0] == "/metrics names units of 16 tokens, and 32 were measured"
    assert notes[1].startswith("/metrics counts 0 tokens served, and the answers report ")
    silent = probe(empty, Engine(kind="unreported", gauges=GAUGES.format(unit=32))).json
    assert silent["notes"] == ["/metrics names units of 32 tokens, which was not measured"]
    assert read_gauges(GAUGES.format(unit=32)) == Gauges(unit=32, hits=10**9)
    assert read_gauges("vllm:prefix_cache_hits_total NaN\n") == read_gauges(None) == Gauges(unit=None, hits=None)


def test_the_text_says_what_is_known_and_what_is_not(empty: Project) -> None:
    with serving(Engine(unit=128)) as engine:
        ran = empty.run("probe", engine.url, "--model", "mock", "--wait", "0")
    assert ran.code == 0
    assert "unit        128 tokens" in ran.out
    assert '[target.mock-measured.cache]\nkind = "blocks"\nunit = 128\nminimum = 0\nwarm_up_requests = 1\n' in ran.out
    with serving(Engine(kind="none")) as engine:
        ran = empty.run("probe", engine.url, "--model", "mock", "--wait", "0")
    assert (ran.code, "unknown: nothing was ever served" in ran.out, "[target" in ran.out) == (1, True, False)


def served(length: int, unit: int, ahead: int, offset: int, minimum: int) -> int:
    """What a server of that rule serves, and reports."""
    shared = length + ahead
    whole = (shared + offset) // unit * unit - offset
    return max(0, whole) if shared >= minimum else 0


@given(
    unit=st.integers(1, 300),
    ahead=st.integers(0, 40),
    hidden=st.integers(0, 600),
    minimum=st.integers(0, 900),
    lengths=st.sets(st.integers(0, 1000), max_size=12),
    adapters=st.sets(st.integers(0, 60), max_size=4),
)
def test_a_fit_gives_the_rule_back_or_says_unknown(
    *, unit: int, ahead: int, hidden: int, minimum: int, lengths: set[int], adapters: set[int]
) -> None:
    beside = {count * unit - hidden - ahead + step for count in edges for step in (-1, 0)}
    tried = {length for length in lengths | beside | {minimum - ahead, minimum - ahead - 1} if 0 <= length <= 1000}
    hits = {length: served(length, unit, ahead, hidden, minimum) for length in tried}
    found = fit_grid(hits)
    if isinstance(found, Grid):
        assert (found.unit, found.offset, found.ahead) == (unit, hidden % unit, ahead)
        assert all(found.hit(length) == hit for length, hit in hits.items() if hit)
        if found.minimum is not None:
            for length in range(1000):  # it says of each length, but those shorter than were sent, what is served
                is_served = length + ahead >= found.minimum and found.hit(length) > 0
                assert is_served == (served(length, unit, ahead, hidden, minimum) > 0)


@given(ahead=st.integers(0, 40), minimum=st.integers(0, 900), lengths=st.sets(st.integers(0, 1000), max_size=8))
def test_so_does_one_of_whole_prefixes(ahead: int, minimum: int, lengths: set[int]) -> None:
    found = fit_exact({length: served(length, 1, ahead, 0, minimum) for length in lengths})
    if isinstance(found, Grid):
        assert found.ahead == ahead
        assert found.minimum is None or found.minimum == minimum or (found.minimum == 0 and minimum <= ahead)


@given(noise=st.integers(1, 500), at=st.integers(0, 37))
def test_numbers_that_contradict_one_another_are_no_rule(noise: int, at: int) -> None:
    lengths = [32 * count - 10 - step for count in range(1, 20) for step in (0, 1)]
    hits = {length: served(length, 32, 10, 0, 0) for length in lengths}
    assert isinstance(fit_grid(hits), Grid)
    assert not isinstance(fit_grid({**hits, 1000: 0}), Grid)
    length = sorted(hits)[at]
    assert not isinstance(fit_grid({**hits, length: hits[length] + noise}), Grid)
