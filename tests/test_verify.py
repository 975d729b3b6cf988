"""Tests `verify` against a mock server: HTTP requests are real, the cache behind them is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mock_server import Engine, serving

if TYPE_CHECKING:
    from conftest import CommandResult, Project

LONG = "".join(f"Rule {number}: keep the answer short, and name the source of each claim.\n" for number in range(30))
SETTINGS = """
targets = ["deepseek-v4"]
[target.claude]
extends = "anthropic-512"
[target.own]
extends = "deepseek-v4"
request = "text"
frame = {before = "<｜begin▁of▁sentence｜>"}
cache = {kind = "tokens", read = 0.1}
"""


@pytest.fixture
def built(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "prefixes/a.yaml": "system: a.j2\n",
            "prefixes/b.yaml": "system: b.j2\npadding: 'off'\n",
            "templates/a.j2": f"You are careful.\n{LONG}",
            "templates/b.j2": f"You are quick.\n{LONG}",
        }
    )
    project.build()
    return project


def verify(project: Project, engine: Engine, *arguments: str) -> CommandResult:
    with serving(engine):
        return project.run("verify", engine.url, *arguments, "--wait", "0", "--format", "json")


def compared(ran: CommandResult) -> list[dict[str, Any]]:
    """Returns the results with a prediction, after checking that the exit code fits the report."""
    assert ran.code == (0 if ran.json["ok"] else 1), ran.err
    return [item for item in ran.json["results"] if item["verdict"] != "primed"]


def test_hits_of_whole_units_are_as_predicted_on_the_second_request(built: Project) -> None:
    engine = Engine()
    results = compared(verify(built, engine))
    artifacts = {item["prefix"]: item for item in built.run("build", "--format", "json").json["artifacts"]}
    assert {item["prefix"]: item["predicted"] for item in results} == {
        name: artifact["tokens"] // 128 * 128 for name, artifact in artifacts.items()
    }
    assert [(item["verdict"], item["observed"] == item["predicted"]) for item in results] == [
        ("as predicted", True)
    ] * 2
    assert len(engine.requests) == 4
    assert {request["max_tokens"] for request in engine.requests} == {1}


def test_a_cache_that_persists_shared_prefixes_needs_a_third_request(built: Project) -> None:
    results = compared(verify(built, Engine(kind="persisted")))
    assert {(item["continuation"], item["verdict"]) for item in results} == {(2, "as predicted")}


def test_a_difference_is_reported_with_its_likely_cause(built: Project) -> None:
    results = compared(verify(built, Engine(unit=100), "a"))
    assert [item["verdict"] for item in results] == ["differs"]
    assert "not a multiple of 128" in results[0]["cause"]
    (larger,) = compared(verify(built, Engine(unit=384), "b"))
    assert "a larger unit, a different chat template, or eviction" in larger["cause"]
    (none,) = compared(verify(built, Engine(kind="none"), "a"))
    assert (none["observed"], none["cause"].startswith("cold:")) == (0, True)


def test_a_different_chat_template_is_recognized_by_the_token_ids_of_the_server(built: Project) -> None:
    built.write(
        {
            "cacheunit.toml": '[target.other]\nextends = "deepseek-v4"\n[target.other.frame]\n'
            f'before = "<｜begin▁of▁sentence｜>{"Reason well. " * 60}"\nafter = "<｜User｜>"\n',
            "prefixes/a.yaml": "targets: [other]\nsystem: a.j2\n",
        }
    )
    built.build()
    (result,) = compared(verify(built, Engine(), "a"))
    assert result["verdict"] == "differs"
    assert result["cause"] == (
        "different chat template: the server's text differs from the target's frame from token 1 on"
    )


def test_a_server_that_reports_no_cached_tokens_is_unknown_not_a_failure(built: Project) -> None:
    ran = verify(built, Engine(kind="unreported"), "a")
    assert ran.code == 0
    assert [(item["verdict"], item["observed"]) for item in compared(ran)] == [("unknown", None)]


def test_a_warm_cache_and_an_eviction_do_not_change_the_verdict(built: Project) -> None:
    engine = Engine()
    with serving(engine):
        for _ in range(2):
            ran = built.run("verify", engine.url, "a", "--wait", "0", "--format", "json")
            assert [item["verdict"] for item in ran.json["results"]] == ["primed", "as predicted"]
        assert ran.json["results"][0]["observed"] > 0
    forgetful = Engine(evicts=1)
    assert [item["continuation"] for item in compared(verify(built, forgetful, "a"))] == [2]


@pytest.mark.parametrize("failures", [[500], [429, 503], ["cut"], [529, "cut", 500]])
def test_a_busy_server_is_retried_after_the_time_that_it_names(
    built: Project, failures: list[int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("cacheunit_build.adapters.system.http_endpoint._sleep", slept.append)
    ran = verify(built, Engine(failures=list(failures), retry_after="3"), "a")
    assert [item["verdict"] for item in compared(ran)] == ["as predicted"]
    waited = [3.0 if isinstance(failure, int) else 2.0**index for index, failure in enumerate(failures)]
    assert [seconds for seconds in slept if seconds] == waited


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Engine(failures=["html"] * 9), "answers with HTML, not JSON"),
        (Engine(models=()), "the model does not exist"),
        (Engine(failures=[400]), "answers 400: not now"),
        (Engine(key="secret"), "answers 401"),
    ],
    ids=["html", "no model", "400", "no key"],
)
def test_an_endpoint_that_cannot_be_used_is_an_error(built: Project, engine: Engine, message: str) -> None:
    ran = verify(built, engine, "a")
    assert (ran.code, ran.output) == (2, b"")
    assert message in ran.err


def test_a_key_comes_from_the_environment_and_is_never_printed(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(key="sk-right")
    monkeypatch.setenv("CACHEUNIT_API_KEY", "sk-right")
    assert verify(built, engine, "a").code == 0
    monkeypatch.setenv("OWN_KEY", "sk-wrong")
    ran = verify(built, engine, "a", "--key-env", "OWN_KEY")
    assert (ran.code, "sk-wrong" in ran.err + ran.out) == (2, False)
    assert "Bearer ***" in ran.err
    assert '"NONE" is not set' in verify(built, engine, "a", "--key-env", "NONE").err


@pytest.mark.parametrize("key", ["sk-right\n", "sk right", "sk-Я"])
def test_a_key_that_no_header_can_hold_is_an_error_and_is_not_printed(
    built: Project, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("CACHEUNIT_API_KEY", key)
    ran = verify(built, Engine(key="sk-right"), "a")
    assert (ran.code, "sk" in ran.err + ran.out) == (2, False)
    assert "the API key has a space, a line end or a character that is not ASCII" in ran.err


def test_every_artifact_that_does_not_match_the_lock_is_reported(built: Project) -> None:
    built.write({"build/a/deepseek-v4.txt": b"edited", "build/a/deepseek-v4.json": b"edited"})
    assert verify(built, Engine(), "a").err.count("the artifact does not match the lock") == 2


def test_invalid_urls_and_reached_limits_are_errors(built: Project) -> None:
    for url in ("localhost:8000", "ftp://x/v1", "http://"):
        ran = built.run("verify", url)
        assert (ran.code, "is not a valid API URL" in ran.err) == (2, True)
    down = built.run("verify", "http://127.0.0.1:9/v1", "a")
    assert (down.code, "cannot reach http://127.0.0.1:9/v1" in down.err) == (2, True)
    limited = verify(built, Engine(), "--max-requests", "3")
    assert (limited.code, "more than 3 requests are needed" in limited.err) == (2, True)


def test_only_artifacts_that_match_the_lock_are_sent(built: Project) -> None:
    built.write({"build/a/deepseek-v4.txt": b"edited"})
    ran = verify(built, Engine(), "a")
    assert (ran.code, "build/a/deepseek-v4.txt: the artifact does not match the lock" in ran.err) == (2, True)
    built.build()
    built.edit("templates/a.j2", "careful", "careless")
    assert "a for deepseek-v4 does not match the lock" in verify(built, Engine(), "a").err
    built.path("cacheunit.lock").unlink()
    assert "there is no cacheunit.lock" in verify(built, Engine(), "a").err


def test_one_endpoint_takes_the_artifacts_of_one_target(built: Project) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [deepseek-v4, claude, own]\nsystem")
    built.build()
    assert "--target" in verify(built, Engine()).err
    text = compared(verify(built, Engine(kind="tokens"), "b", "--target", "own"))
    assert [item["verdict"] for item in text] == ["as predicted"]
    estimate = compared(verify(built, Engine(kind="breakpoints", minimum=512), "b", "--target", "claude"))
    assert [item["verdict"] for item in estimate] == ["as predicted"]


def test_warm_reports_after_how_many_requests_each_artifact_is_cached(built: Project) -> None:
    engine = Engine(kind="persisted")
    with serving(engine):
        ran = built.run("verify", engine.url, "--warm", "--wait", "0")
    assert (ran.code, ran.out.count("  cached after 2 requests")) == (0, 2)
    with serving(Engine(kind="none")) as cold:
        ran = built.run("verify", cold.url, "a", "--warm", "--wait", "0")
    assert (ran.code, "not cached after 4 requests" in ran.out) == (1, True)


def test_numbers_in_strings_are_read_as_numbers(built: Project) -> None:
    assert [item["verdict"] for item in compared(verify(built, Engine(numbers_as_text=True), "a"))] == ["as predicted"]
