"""Tests `probe` against a mock server: HTTP requests are real, the cache behind them is simulated."""

from __future__ import annotations

import json
import threading
import tomllib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mock_server import Engine, serving

from cacheunit_build.adapters.system.http_endpoint import EndpointLimits, HttpEndpoint
from cacheunit_build.domain.endpoint import RequestRefusedError
from cacheunit_build.endpoints.metrics import ServerMetrics, parse_metrics
from cacheunit_build.endpoints.rule_fit import fit_grid, fit_whole_prefixes
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.targets.loader import all_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import CommandResult, Project
    from mock_server import Kind

MAX_REQUESTS = 40
"""Requests that the measurement of a rule may take."""
MAX_REQUESTS_WITH_DROPPED_UNITS = 70
"""Requests that it may take where the server computes units again: its boundaries are not where they are expected."""
CHAT, ANTHROPIC, RESPONSES, TEXT = "openai-chat", "anthropic-messages", "openai-responses", "text"


@pytest.fixture
def empty_project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty folder, since `probe` needs no project."""
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)
    return project


def probe(project: Project, engine: Engine, *arguments: str, form: str = CHAT, model: str = "mock") -> CommandResult:
    """Runs `probe`; its waits move the clock of the mock server only."""

    def sleep(seconds: float) -> None:
        engine.now += seconds

    with serving(engine), pytest.MonkeyPatch.context() as patch:
        patch.setattr("cacheunit_build.adapters.system.http_endpoint._sleep", sleep)
        return project.run("probe", engine.url, "--model", model, "--request", form, "--format", "json", *arguments)


def measured_rule(ran: CommandResult, *keys: str) -> dict[str, Any]:
    """Returns these values of a report, after checking that its target has the reported rule."""
    assert (ran.code, ran.err) == (0, "")
    report = ran.json
    assert report["requests"] <= (MAX_REQUESTS_WITH_DROPPED_UNITS if report["dropped_units"] else MAX_REQUESTS)
    document = tomllib.loads(report["target"])
    (name,) = document["target"]
    target = all_targets(parse_settings(None, report["target"].encode()))[name]
    assert (
        target.cache.kind,
        target.cache.unit,
        target.cache.minimum,
        target.cache.warm_up_requests,
        target.cache.marker,
        target.cache.dropped_units,
    ) == (
        *(report["kind"], report["unit"], report["minimum"], report["warm_up_requests"], report["marker"]),
        report["dropped_units"],
    )
    assert {item.grade for item in target.cache.evidence} == {"measured"}
    return {key: report[key] for key in keys}


class Reluctant(Engine):
    """A server that serves an exact repeat a unit less than other requests."""

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        is_repeat = any(held == tuple(ids) for held in self.held)
        return max(0, super().hit(ids, body) - is_repeat * self.unit)


class Contradictory(Engine):
    """A server that serves a system text that it knows a unit less than a shorter part of it."""

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        is_known = any(body["messages"][0] == earlier["messages"][0] for earlier in self.requests[:-1])
        return max(0, super().hit(ids, body) - is_known * self.unit)


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
    "blocks in Gemini's form": (
        Engine(unit=32),
        "gemini",
        {"kind": "blocks", "unit": 32, "minimum": 0, "marker": None},
    ),
    "breakpoints of Converse": (
        Engine(kind="breakpoints", minimum=1024),
        "bedrock-converse",
        {"kind": "breakpoints", "minimum": 1024, "marker": "cachePoint"},
    ),
    "blocks of 128 behind uncounted tokens, minimum 1,024": (
        Engine(unit=128, offset=37, minimum=1024),
        CHAT,
        {"kind": "blocks", "unit": 128, "minimum": 1024 - 37, "offset": 37},
    ),
    "blocks as long as the prompt": (Engine(unit=1552), CHAT, {"kind": "blocks", "unit": 1552, "minimum": 0}),
    "breakpoints, minimum 1,024": (
        Engine(kind="breakpoints", minimum=1024),
        ANTHROPIC,
        {"kind": "breakpoints", "unit": None, "minimum": 1024, "marker": "cache_control", "warm_up_requests": 1},
    ),
    "breakpoints, minimum 2,000": (
        Engine(kind="breakpoints", minimum=2000),
        ANTHROPIC,
        {"kind": "breakpoints", "minimum": 2000, "marker": "cache_control"},
    ),
    "breakpoints in chat format": (
        Engine(kind="breakpoints", minimum=1024),
        CHAT,
        {"kind": "breakpoints", "minimum": 1024, "marker": "cache_control"},
    ),
    "breakpoints with another marker": (
        Engine(kind="breakpoints", minimum=1024, refused_markers=("cache_control",)),
        CHAT,
        {"kind": "breakpoints", "minimum": 1024, "marker": "prompt_cache_breakpoint"},
    ),
    "persisted units of 128": (
        Engine(kind="persisted", unit=128),
        CHAT,
        {"kind": "blocks", "unit": 128, "minimum": 0, "warm_up_requests": 2, "delay": 0, "last_token": "served"},
    ),
    "persisted after some seconds": (
        Engine(kind="persisted", unit=128, lag=2.0),
        CHAT,
        {"kind": "blocks", "unit": 128, "warm_up_requests": 2, "delay": 5},
    ),
    "blocks after some seconds": (
        Engine(unit=64, lag=3.0),
        CHAT,
        {"kind": "blocks", "unit": 64, "warm_up_requests": 1, "delay": 5},
    ),
    "tokens": (
        Engine(kind="tokens"),
        CHAT,
        {"kind": "tokens", "unit": None, "minimum": 0, "offset": 0, "last_token": "recomputed"},
    ),
    "tokens, one slot": (
        Engine(kind="tokens", slot=True),
        TEXT,
        {"kind": "tokens", "minimum": 0, "warm_up_requests": 1},
    ),
    "tokens, minimum 333": (Engine(kind="tokens", minimum=333), TEXT, {"kind": "tokens", "minimum": 333}),
    "tokens, minimum 333, one slot": (
        Engine(kind="tokens", minimum=333, slot=True),
        TEXT,
        {"kind": "tokens", "minimum": 333},
    ),
    "blocks, repeats served to their end": (
        Engine(unit=256, serves_last_token=True),
        CHAT,
        {"kind": "blocks", "unit": 256, "last_token": "served", "verbatim": "more"},
    ),
    "blocks, last one recomputed": (
        Engine(unit=32),
        CHAT,
        {"kind": "blocks", "last_token": "recomputed", "verbatim": "same"},
    ),
    "blocks of 16, one dropped": (
        Engine(unit=16, dropped_units=1),
        CHAT,
        {
            "kind": "blocks",
            "unit": 16,
            "minimum": 0,
            "dropped_units": 1,
            "last_token": "recomputed",
            "verbatim": "same",
        },
    ),
    "blocks of 8, one dropped": (
        Engine(unit=8, dropped_units=1),
        CHAT,
        {"kind": "blocks", "unit": 8, "minimum": 0, "dropped_units": 1, "verbatim": "same"},
    ),
    "blocks of 32, one dropped": (
        Engine(unit=32, dropped_units=1),
        TEXT,
        {"kind": "blocks", "unit": 32, "minimum": 0, "dropped_units": 1, "verbatim": "same"},
    ),
    "blocks of 128, one dropped": (
        Engine(unit=128, dropped_units=1),
        RESPONSES,
        {"kind": "blocks", "unit": 128, "minimum": 0, "dropped_units": 1, "last_token": "recomputed"},
    ),
    "blocks of 256, two dropped": (
        Engine(unit=256, dropped_units=2),
        ANTHROPIC,
        {"kind": "blocks", "unit": 256, "minimum": 0, "dropped_units": 2, "verbatim": "same"},
    ),
    "blocks of 128 behind uncounted tokens, minimum 1,024, one dropped": (
        Engine(unit=128, offset=37, minimum=1024, dropped_units=1),
        CHAT,
        {"kind": "blocks", "unit": 128, "minimum": 1024 - 37, "offset": 37, "dropped_units": 1},
    ),
    "blocks of 1,072, one dropped": (
        Engine(unit=1072, dropped_units=1),
        CHAT,
        {"kind": "blocks", "unit": 1072, "minimum": 0, "dropped_units": 1},
    ),
    "blocks, one dropped, repeats served to their end": (
        Engine(unit=64, dropped_units=1, serves_last_token=True),
        CHAT,
        {"kind": "blocks", "unit": 64, "dropped_units": 1, "last_token": "served", "verbatim": "more"},
    ),
    "persisted units, one dropped after some seconds": (
        Engine(kind="persisted", unit=64, dropped_units=1, lag=2.0),
        CHAT,
        {"kind": "blocks", "unit": 64, "dropped_units": 1, "warm_up_requests": 2},
    ),
    "blocks, repeats served less": (
        Reluctant(unit=64),
        CHAT,
        {"kind": "blocks", "unit": 64, "dropped_units": 0, "last_token": "recomputed", "verbatim": "less"},
    ),
    "no unit dropped": (Engine(unit=64), CHAT, {"kind": "blocks", "dropped_units": 0}),
    "numbers as text": (Engine(unit=32, numbers_as_text=True), CHAT, {"kind": "blocks", "unit": 32}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "form", "expected"), RULES.values(), ids=RULES)
def test_probe_finds_the_rule_of_each_kind_of_cache(
    empty_project: Project, engine: Engine, form: str, expected: dict[str, Any]
) -> None:
    assert measured_rule(probe(empty_project, engine, form=form), *expected) == expected


@pytest.mark.slow
@pytest.mark.parametrize("when", [3, 4, 6, 7, 10, 13, 17])
@pytest.mark.parametrize("kind", ["blocks", "persisted"])
def test_an_eviction_during_the_probe_never_leads_to_a_wrong_rule(
    empty_project: Project, kind: Kind, when: int
) -> None:
    report = probe(empty_project, Engine(kind=kind, unit=128, evicts=when)).json
    assert (report["kind"], report["unit"], report["minimum"]) in (("blocks", 128, 0), ("unknown", None, None))
    assert report["warm_up_requests"] == (1 if kind == "blocks" else 2)
    assert report["notes"] == []


class Forgetful(Engine):
    """A server of which two in `period` responses come from a machine with an empty cache."""

    period = 5

    def hit(self, ids: Sequence[int], body: dict[str, Any]) -> int:
        return 0 if len(self.requests) % self.period < 2 else super().hit(ids, body)


@pytest.mark.slow
@pytest.mark.parametrize("period", [8, 9, 10, 11, 13])
@pytest.mark.parametrize("kind", ["blocks", "persisted", "tokens"])
def test_a_server_that_misses_now_and_then_never_gets_a_wrong_rule(
    empty_project: Project, kind: Kind, period: int
) -> None:
    engine = Forgetful(kind=kind, unit=128, minimum=1024)
    engine.period = period
    report = probe(empty_project, engine).json
    actual = ("tokens", None) if kind == "tokens" else ("blocks", 128)
    assert (report["kind"], report["unit"]) in (actual, ("unknown", None))
    assert report["minimum"] in (1024, None)


def test_a_second_probe_measures_the_same_despite_the_warm_cache(empty_project: Project) -> None:
    engine = Engine(unit=32)
    first, second = (
        measured_rule(probe(empty_project, engine), "kind", "unit", "minimum", "observations") for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (Engine(kind="none"), "nothing was served from a cache"),
        (Engine(kind="none", always_cached=12), "nothing was served from a cache"),
        (Engine(kind="unreported"), "does not report cached tokens"),
        (Engine(kind="repeats"), "only an exact repeat of a request is served"),
        (Engine(usage={}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": None}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": {"prompt_tokens": "many"}}), "does not report the tokens of a prompt"),
        (Engine(usage={"usage": {"prompt_tokens": 7}}), "prefix lengths cannot be controlled"),
        (
            Engine(usage={"usage": {"prompt_tokens": 7, "cached_tokens": 4, "cache_read_input_tokens": 5}}),
            "contradicts itself: usage.cache_read_input_tokens is 5, but usage.cached_tokens is 4",
        ),
        (Engine(minimum=9000), "nothing was served from a cache"),
    ],
    ids=[
        "none",
        "provider text only",
        "unreported",
        "repeats",
        "no usage",
        "null",
        "text",
        "always the same",
        "a contradiction",
        "a higher minimum",
    ],
)
def test_a_rule_that_cannot_be_measured_is_unknown_with_a_reason(
    empty_project: Project, engine: Engine, reason: str
) -> None:
    ran = probe(empty_project, engine)
    assert (ran.code, ran.err) == (1, "")
    report = ran.json
    assert [report[key] for key in ("kind", "unit", "minimum", "target")] == ["unknown", None, None, ""]
    assert reason in report["reason"]
    assert report["requests"] <= MAX_REQUESTS


@pytest.mark.parametrize("failures", [[500], [429, 503], ["cut"], [200, 500, "cut", 429]])
def test_a_busy_server_is_retried(empty_project: Project, failures: list[int | str]) -> None:
    engine = Engine(unit=32, failures=failures[1:] if failures[0] == 200 else list(failures), retry_after="7")
    assert measured_rule(probe(empty_project, engine), "kind", "unit") == {"kind": "blocks", "unit": 32}
    assert engine.now >= 7 * sum(isinstance(failure, int) and failure != 200 for failure in failures)


def test_a_refusal_of_long_requests_ends_the_search(empty_project: Project) -> None:
    report = probe(empty_project, Engine(kind="none", longest=2000)).json
    assert (report["kind"], "too long" in report["notes"][0]) == ("unknown", True)
    ran = probe(empty_project, Engine(longest=500))
    assert (ran.code, ran.output, "too long" in ran.err) == (2, b"", True)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Engine(failures=["html"] * 9), "answers with HTML, not JSON"),
        (Engine(models=()), "the model does not exist"),
        (Engine(key="secret"), "answers 401"),
        (Engine(failures=[500] * 9), "answers 500"),
        (Engine(failures=["cut"] * 9), "incomplete JSON"),
    ],
    ids=["html", "no model", "no key", "500 for ever", "cut for ever"],
)
def test_an_endpoint_that_cannot_be_used_is_an_error(empty_project: Project, engine: Engine, message: str) -> None:
    ran = probe(empty_project, engine)
    assert (ran.code, ran.output) == (2, b"")
    assert message in ran.err


@pytest.mark.slow
def test_an_endpoint_that_is_down_or_slow_and_invalid_urls_are_errors(empty_project: Project) -> None:
    down = empty_project.run("probe", "http://127.0.0.1:9/v1", "--model", "m")
    assert (down.code, "cannot reach http://127.0.0.1:9/v1" in down.err) == (2, True)
    slow = probe(empty_project, Engine(stalls=threading.Event()), "--timeout", "0.1")
    assert (slow.code, "does not answer within 0.1 s" in slow.err) == (2, True)
    for url in ("localhost:8000", "ftp://x/v1", "http://", "http://[::1", "http://a b/v1"):
        ran = empty_project.run("probe", url, "--model", "m")
        assert (ran.code, "is not a valid API URL" in ran.err) == (2, True), url
    for url in (
        "https://me:hidden@127.0.0.1:9/v1",
        "https://127.0.0.1:9/v1?key=hidden",
        "https://127.0.0.1:9/v1#hidden",
    ):
        ran = empty_project.run("probe", url, "--model", "m")
        assert (ran.code, "hidden" in ran.err) == (2, False)
    assert empty_project.run("probe", "http://127.0.0.1:9/v1").code == 2


def test_a_key_comes_from_the_environment_and_is_never_printed(
    empty_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-right")
    ran = probe(empty_project, Engine(unit=32, key="sk-right"), "--key-env", "OWN_KEY")
    assert (ran.code, "sk-right" in ran.out + ran.err) == (0, False)
    monkeypatch.setenv("OWN_KEY", "sk-wrong")
    ran = probe(empty_project, Engine(key="sk-right"), "--key-env", "OWN_KEY")
    assert (ran.code, "sk-wrong" in ran.out + ran.err) == (2, False)


@pytest.mark.parametrize(
    ("max_requests", "max_tokens"), [(1, 10**6), (5, 10**6), (16, 10**6), (80, 500), (80, 5000), (80, 20_000)]
)
def test_limits_hold_and_the_report_has_what_is_known_by_then(
    empty_project: Project, max_requests: int, max_tokens: int
) -> None:
    engine = Engine(unit=128, offset=37, minimum=1024)
    ran = probe(empty_project, engine, "--max-requests", str(max_requests), "--max-tokens", str(max_tokens))
    assert len(engine.requests) <= max_requests
    assert sum(len(engine.ids(body)) - engine.offset for body in engine.requests) <= max_tokens
    report = ran.json
    assert report["tokens_sent"] == sum(len(engine.ids(body)) - engine.offset for body in engine.requests)
    assert "are needed" in report["reason"]
    assert ran.code == (1 if report["kind"] == "unknown" else 0)
    if report["kind"] != "unknown":
        assert (report["unit"], report["minimum"]) == (128, None)


def test_a_dry_run_sends_nothing_and_shows_the_cost(empty_project: Project) -> None:
    own = '[target.own]\nextends = "anthropic-1024"\nmodels = ["mock"]\nprice = {input = 3}\n'
    empty_project.write({"cacheunit.toml": own})
    engine = Engine()
    ran = probe(empty_project, engine, "--dry-run", "--max-requests", "10", "--max-tokens", "100000", form=ANTHROPIC)
    assert (ran.code, engine.requests) == (0, [])
    cost = {"input_token_prices": 125_000.0, "money": 0.375, "currency": "USD"}
    assert ran.json == {"requests": 10, "tokens": 100_000, "output": 1, "cost": cost}
    text = empty_project.run("probe", "http://127.0.0.1:9/v1", "--model", "mock", "--dry-run", "--max-tokens", "100000")
    assert "at most the price of 125,000 uncached input tokens" in text.out
    assert "0.3750 USD" in text.out
    unpriced = empty_project.run(
        "probe", "http://127.0.0.1:9/v1", "--model", "other", "--dry-run", "--max-tokens", "9000"
    )
    assert "at most the price of 9,000 uncached input tokens; plus the output" in unpriced.out


def test_requests_ask_for_one_token_are_new_each_time_and_hold_no_text_of_the_project(empty_project: Project) -> None:
    empty_project.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": "Confidential.\n"})
    first, second = Engine(unit=32), Engine(unit=32)
    for engine in (first, second):
        assert probe(empty_project, engine).code == 0
        assert {body["max_tokens"] for body in engine.requests} == {1}
        assert "Confidential" not in str(engine.requests)
    starts = [{body["messages"][0]["content"][:30] for body in engine.requests} for engine in (first, second)]
    assert starts[0] & starts[1] == set()


def send_to(
    monkeypatch: pytest.MonkeyPatch, form: str, accepted_limit: str | None
) -> tuple[list[httpx.Request], int | None]:
    """Sends a request in this format to a server that accepts only one key for the limit of output.

    Returns:
        The requests that the server got, and the tokens of the prompt that it reported.
    """
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if accepted_limit in json.loads(request.content):
            return httpx.Response(200, stream=httpx.ByteStream(b'{"prompt_tokens": 7}'))
        error = b'{"error": {"message": "unsupported; use max_completion_tokens"}}'
        return httpx.Response(400, stream=httpx.ByteStream(error))

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    monkeypatch.setattr("cacheunit_build.adapters.system.http_client._async_client", lambda: client)
    with HttpEndpoint("http://host", EndpointLimits(max_requests=9, timeout=1), key="sk-1") as endpoint:
        return requests, endpoint.send(FORMATS[form].route, {"model": "m"}).prompt


@pytest.mark.parametrize(
    ("form", "path", "limit", "headers"),
    [
        (CHAT, "/v1/chat/completions", {"max_tokens": 1}, {"authorization": "Bearer sk-1"}),
        (RESPONSES, "/v1/responses", {"max_output_tokens": 16}, {"authorization": "Bearer sk-1"}),
        (ANTHROPIC, "/v1/messages", {"max_tokens": 1}, {"x-api-key": "sk-1", "anthropic-version": "2023-06-01"}),
        (TEXT, "/v1/completions", {"max_tokens": 1}, {"authorization": "Bearer sk-1"}),
    ],
)
def test_each_format_has_its_own_path_output_limit_and_headers(
    monkeypatch: pytest.MonkeyPatch, form: str, path: str, limit: dict[str, int], headers: dict[str, str]
) -> None:
    (request,), prompt = send_to(monkeypatch, form, accepted_limit=next(iter(limit)))
    assert (request.url.path, json.loads(request.content), prompt) == (path, {**limit, "model": "m"}, 7)
    names = ("authorization", "x-api-key", "anthropic-version")
    assert {name: request.headers[name] for name in names if name in request.headers} == headers


def test_a_chat_model_that_asks_for_the_newer_output_limit_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, prompt = send_to(monkeypatch, CHAT, accepted_limit="max_completion_tokens")
    limits = [{"max_tokens": 1, "model": "m"}, {"max_completion_tokens": 1, "model": "m"}]
    assert ([json.loads(request.content) for request in requests], prompt) == (limits, 7)


@pytest.mark.parametrize("form", [CHAT, RESPONSES])
def test_a_model_that_refuses_every_output_limit_is_an_error(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    with pytest.raises(RequestRefusedError, match="answers 400: unsupported"):
        send_to(monkeypatch, form, accepted_limit=None)


def test_a_measured_target_extends_the_known_target_of_its_model(empty_project: Project) -> None:
    engine = Engine(unit=64, models=("deepseek-v4-pro",))
    report = probe(empty_project, engine, model="deepseek-v4-pro").json
    empty_project.write({"cacheunit.toml": report["target"]})
    target = all_targets(parse_settings(None, report["target"].encode()))["deepseek-v4-pro-measured"]
    assert (target.cache.unit, target.cache.warm_up_requests, target.cache.read) == (64, 1, 0.0333)
    assert target.tokenizer is not None
    empty_project.write(
        {"prefixes/a.yaml": "system: a.j2\ntargets: [deepseek-v4-pro-measured]\n", "templates/a.j2": "Hi.\n"}
    )
    empty_project.build()
    again = probe(empty_project, engine, model="deepseek-v4-pro").json["target"]
    assert 'extends = "deepseek-v4"' in again


def test_a_measured_target_does_not_extend_itself(empty_project: Project) -> None:
    empty_project.write({"cacheunit.toml": probe(empty_project, Engine(unit=64)).json["target"]})
    again = probe(empty_project, Engine(unit=32)).json["target"]
    assert ("extends" in again, "unit = 32" in again) == (False, True)


METRICS = """# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
vllm:cache_config_info{{block_size="{unit}",enable_prefix_caching="True",prefix_match_unit="None"}} 1.0
vllm:prefix_cache_hits_total{{engine="0",model_name="mock"}} 1e+09
"""


def test_metrics_that_contradict_the_measurement_are_noted(empty_project: Project) -> None:
    notes = probe(empty_project, Engine(unit=32, metrics=METRICS.format(unit=16))).json["notes"]
    assert notes[0] == "/metrics reports a unit of 16 tokens, but 32 were measured"
    assert notes[1].startswith("/metrics counts 0 cached tokens, but the responses report ")
    silent = probe(empty_project, Engine(kind="unreported", metrics=METRICS.format(unit=32))).json
    assert silent["notes"] == ["/metrics reports a unit of 32 tokens, which could not be measured"]
    assert parse_metrics(METRICS.format(unit=32)) == ServerMetrics(unit=32, hit_tokens=10**9)
    assert (
        parse_metrics("vllm:prefix_cache_hits_total NaN\n")
        == parse_metrics(None)
        == ServerMetrics(unit=None, hit_tokens=None)
    )


def test_the_text_report_shows_the_rule_or_why_it_is_unknown(empty_project: Project) -> None:
    with serving(Engine(unit=128)) as engine:
        ran = empty_project.run("probe", engine.url, "--model", "mock", "--wait", "0")
    assert ran.code == 0
    assert "unit        128 tokens" in ran.out
    assert '[target.mock-measured.cache]\nkind = "blocks"\nunit = 128\nminimum = 0\nwarm_up_requests = 1\n' in ran.out
    with serving(Engine(kind="none")) as engine:
        ran = empty_project.run("probe", engine.url, "--model", "mock", "--wait", "0")
    assert (ran.code, "unknown: nothing was served from a cache" in ran.out, "[target" in ran.out) == (1, True, False)


def served_tokens(length: int, unit: int, leading_tokens: int, offset: int, minimum: int) -> int:
    """Returns the hit that a server with this rule reports."""
    shared = length + leading_tokens
    whole = (shared + offset) // unit * unit - offset
    return max(0, whole) if shared >= minimum else 0


def test_the_target_of_a_server_that_drops_a_unit_says_so_with_its_evidence(empty_project: Project) -> None:
    with serving(Engine(unit=32, dropped_units=1)) as engine:
        ran = empty_project.run("probe", engine.url, "--model", "mock", "--wait", "0")
    assert "dropped     the last unit of what two requests share" in ran.out
    assert "last token  recomputed: an exact repeat of whole units loses its last one" in ran.out
    assert "\nwarm_up_requests = 1\ndropped_units = 1\n" in ran.out
    assert 'claim = "the last unit that two requests share is computed again"' in ran.out
    target = probe(empty_project, Engine(unit=32)).json["target"]
    assert "dropped_units" not in target
    dropping = probe(empty_project, Engine(unit=32, dropped_units=1)).json["target"]
    empty_project.write({"cacheunit.toml": dropping.replace("mock-measured", "known")})
    assert "\ndropped_units = 0\n" in probe(empty_project, Engine(unit=32)).json["target"]


def test_dropped_units_that_contradict_the_measured_lengths_are_unknown(empty_project: Project) -> None:
    report = probe(empty_project, Contradictory(unit=128)).json
    assert (report["kind"], report["unit"], report["dropped_units"]) == ("blocks", 128, None)
    assert report["notes"] == ["it could not be measured whether the last units of a prefix are computed again"]
    assert "dropped_units" not in report["target"]


def test_dropped_units_are_unknown_where_a_limit_ends_the_probe_before(empty_project: Project) -> None:
    report = probe(empty_project, Engine(unit=32, dropped_units=1), "--max-requests", "22").json
    assert (report["kind"], report["unit"], report["dropped_units"]) == ("blocks", 32, None)
    assert "are needed" in report["reason"]


@given(
    unit=st.integers(1, 300),
    leading_tokens=st.integers(0, 40),
    uncounted=st.integers(0, 600),
    minimum=st.integers(0, 900),
    lengths=st.sets(st.integers(0, 1000), max_size=12),
    boundaries=st.sets(st.integers(0, 60), max_size=4),
)
def test_a_fit_returns_the_rule_behind_the_hits_or_none(
    *, unit: int, leading_tokens: int, uncounted: int, minimum: int, lengths: set[int], boundaries: set[int]
) -> None:
    beside = {count * unit - uncounted - leading_tokens + step for count in boundaries for step in (-1, 0)}
    tried = {
        length
        for length in lengths | beside | {minimum - leading_tokens, minimum - leading_tokens - 1}
        if 0 <= length <= 1000
    }
    hits = {length: served_tokens(length, unit, leading_tokens, uncounted, minimum) for length in tried}
    grid = fit_grid(hits).grid
    if grid is not None:
        assert (grid.unit, grid.offset, grid.leading_tokens) == (unit, uncounted % unit, leading_tokens)
        assert all(grid.hit(length) == hit for length, hit in hits.items() if hit)
        if grid.minimum is not None:
            for length in range(1000):  # the rule holds for all lengths, not only for the measured ones
                is_served = length + leading_tokens >= grid.minimum and grid.hit(length) > 0
                assert is_served == (served_tokens(length, unit, leading_tokens, uncounted, minimum) > 0)


@given(
    leading_tokens=st.integers(0, 40), minimum=st.integers(0, 900), lengths=st.sets(st.integers(0, 1000), max_size=8)
)
def test_a_fit_of_whole_prefixes_returns_the_rule_behind_the_hits_or_none(
    leading_tokens: int, minimum: int, lengths: set[int]
) -> None:
    grid = fit_whole_prefixes({length: served_tokens(length, 1, leading_tokens, 0, minimum) for length in lengths}).grid
    if grid is not None:
        assert grid.leading_tokens == leading_tokens
        assert grid.minimum is None or grid.minimum == minimum or (grid.minimum == 0 and minimum <= leading_tokens)


@given(noise=st.integers(1, 500), at=st.integers(0, 37))
def test_hits_that_contradict_each_other_fit_no_rule(noise: int, at: int) -> None:
    lengths = [32 * count - 10 - step for count in range(1, 20) for step in (0, 1)]
    hits = {length: served_tokens(length, 32, 10, 0, 0) for length in lengths}
    assert fit_grid(hits).grid is not None
    assert fit_grid({**hits, 1000: 0}).grid is None
    length = sorted(hits)[at]
    assert fit_grid({**hits, length: hits[length] + noise}).grid is None
