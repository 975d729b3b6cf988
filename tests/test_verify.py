"""Tests `verify` against a mock server: HTTP requests are real, the cache behind them is simulated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mock_server import USER, Engine, serving

from cacheunit_build.endpoints.artifact_requests import USER_MESSAGES

if TYPE_CHECKING:
    from conftest import CommandResult, Project

LONG = "".join(f"Rule {number}: keep the answer short, and name the source of each claim.\n" for number in range(30))
SETTINGS = """
targets = ["steady"]
[target.steady]
extends = "deepseek-v4"
cache = {best_effort = false}
[target.claude]
extends = "anthropic-512"
[target.google]
extends = "steady"
request = "gemini"
[target.converse]
extends = "bedrock-converse-1024"
cache = {minimum = 16}
[target.explicit]
extends = "gemini-explicit"
[target.own]
extends = "deepseek-v4"
request = "text"
frame = {before = "<｜begin▁of▁sentence｜>"}
cache = {kind = "tokens", read = 0.1}
[target.open]
extends = "steady"
request = "text"
frame = {before = "<｜begin▁of▁sentence｜>"}
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
    return [item for item in ran.json["results"] if item["verdict"] != "warm-up"]


def test_the_page_has_the_numbers_of_the_report_and_a_file_that_cannot_be_written_costs_no_request(
    built: Project,
) -> None:
    engine = Engine()
    with serving(engine):
        ran = built.run("verify", engine.url, "--format", "html", "-o", "missing/verify.html")
    assert (ran.code, engine.requests) == (2, [])
    assert 'cannot write "missing/verify.html": its folder does not exist' in ran.err
    with serving(engine):
        ran = built.run("verify", engine.url, "--wait", "0", "--format", "html", "-o", "verify.html")
    assert (ran.code, ran.out) == (0, "")
    page = built.read("verify.html").decode()
    assert "2 as predicted" in page
    tokens = [item["tokens"] // 128 * 128 for item in built.run("build", "--format", "json").json["artifacts"]]
    assert [f'aria-label="predicted {count:,}, observed {count:,}"' in page for count in tokens] == [True, True]


@pytest.mark.parametrize(
    ("target", "engine", "limit"),
    [
        ("google", Engine(key="key"), {"generationConfig": {"maxOutputTokens": 1}}),
        ("converse", Engine(kind="breakpoints", key="key"), {"inferenceConfig": {"maxTokens": 1}}),
    ],
)
def test_a_model_in_the_path_is_verified_too(
    built: Project, monkeypatch: pytest.MonkeyPatch, target: str, engine: Engine, limit: dict[str, Any]
) -> None:
    built.write({"prefixes/c.yaml": f"system: a.j2\ntargets: [{target}]\n"})
    built.build()
    monkeypatch.setenv("CACHEUNIT_API_KEY", "key")
    (result,) = compared(verify(built, engine, "c", "--model", "mock"))
    assert (result["verdict"], abs(result["observed"] - result["predicted"]) < 4) == ("as predicted", True)
    assert result["predicted"] > 128
    assert all(request.items() >= limit.items() for request in engine.requests)


def test_a_target_that_stores_prefixes_is_not_verified(built: Project) -> None:
    built.write({"prefixes/c.yaml": "system: a.j2\ntargets: [explicit]\n"})
    built.build()
    engine = Engine()
    ran = verify(built, engine, "c", "--model", "mock")
    assert (ran.code, engine.requests) == (2, [])
    assert 'target "explicit" stores prefixes at the provider' in ran.err


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


def test_a_hit_that_is_no_multiple_of_the_unit_is_reported_as_that(built: Project) -> None:
    (result,) = compared(verify(built, Engine(unit=100), "a"))
    assert (result["verdict"], result["cause"]) == ("differs", "the hit of 500 tokens is not a multiple of 128")


@pytest.mark.parametrize("target", ["steady", "open"])
def test_a_server_that_drops_a_unit_is_reported_by_its_hits_and_the_rule_field(built: Project, target: str) -> None:
    built.edit("prefixes/a.yaml", "system", f"targets: [{target}]\nsystem")
    built.build()
    dropping = Engine(dropped_units=1)
    (result,) = compared(verify(built, dropping, "a"))
    assert (result["verdict"], result["predicted"] - result["observed"]) == ("differs", 128)
    assert result["cause"] == "each of 2 requests hit 1 unit less than predicted"
    assert result["facts"][1] == "1 unit less than predicted"
    assert "set dropped_units = 1" in result["hint"]
    assert '"cacheunit probe"' in result["hint"]
    built.edit("cacheunit.toml", "best_effort = false", "best_effort = false, dropped_units = 1")
    built.build()
    assert [item["verdict"] for item in compared(verify(built, Engine(dropped_units=1), "a"))] == ["as predicted"]
    (more,) = compared(verify(built, Engine(), "a"))
    assert more["cause"] == "each of 2 requests hit 1 unit more than predicted"
    assert "set dropped_units = 0" in more["hint"]


@pytest.mark.parametrize(
    ("engine", "facts"),
    [
        (Engine(kind="none"), ["no cached tokens in requests 3 to 4"]),
        (Engine(hits={1: 0, 2: 256, 3: 128}), ["cached tokens of requests 3 to 4: 256, 128", "3 units less"]),
        (Engine(minimum=5_000), ["no cached tokens in requests 3 to 4"]),
    ],
    ids=["no cache", "different hits", "a higher minimum"],
)
def test_a_cause_that_was_not_tested_is_not_reported(built: Project, engine: Engine, facts: list[str]) -> None:
    (result,) = compared(verify(built, engine, "a"))
    assert (result["verdict"], result["cause"]) == ("differs", None)
    assert [fact[: len(expected)] for fact, expected in zip(result["facts"], facts, strict=True)] == facts
    assert '"cacheunit probe"' in result["hint"]
    assert ("--wait" in result["hint"]) == (result["observed"] == 0)


def test_one_request_does_not_show_that_every_request_hits_less(built: Project) -> None:
    (result,) = compared(verify(built, Engine(dropped_units=1), "a", "--attempts", "2"))
    assert (result["verdict"], result["cause"]) == ("differs", None)


def test_fewer_attempts_than_the_warm_up_needs_are_refused_before_anything_is_sent(built: Project) -> None:
    with serving(Engine()) as engine:
        ran = built.run("verify", engine.url, "--attempts", "1")
    assert (ran.code, engine.requests) == (2, [])
    assert 'target "steady" needs 2 warm-up requests; attempts: 1' in ran.err
    assert "hint: set --attempts to 2 or more" in ran.err


def test_no_more_requests_are_sent_than_attempts_allow(built: Project) -> None:
    engine = Engine(kind="none")
    compared(verify(built, engine, "a", "--attempts", "2"))
    assert len(engine.requests) == 1 + 2


class OtherVocabulary(Engine):
    """A server with another vocabulary: every 100th token is two there."""

    def encode(self, text: str) -> list[int]:
        ids = super().encode(text)
        return [item for index, token in enumerate(ids) for item in ([token, 3] if index % 100 == 99 else [token])]


def test_a_different_tokenizer_is_recognized_by_the_token_ids_of_the_server(built: Project) -> None:
    built.edit("prefixes/a.yaml", "system", "padding: always\nsystem")
    built.build()
    (result,) = compared(verify(built, OtherVocabulary(unit=512), "a"))
    assert (result["verdict"], result["predicted"], result["observed"]) == ("differs", 640, 512)
    assert result["cause"] == (
        "different tokenizer: 646 tokens on the server, 640 in the target, other ids from token 100 on"
    )
    assert result["hint"] == "set the target's tokenizer to that of the server"


@pytest.mark.parametrize("target", ["steady", "open"])
def test_tokens_that_merge_with_the_user_message_are_shown_by_the_token_ids_of_the_server(
    built: Project, target: str
) -> None:
    built.edit("prefixes/a.yaml", "system", f"targets: [{target}]\npadding: always\nsystem")
    built.build()
    end = USER if target == "steady" else built.path("build/a/open.txt").read_text("utf-8")
    (result,) = compared(verify(built, Engine(merges_after=end), "a"))
    assert (result["verdict"], result["predicted"] - result["observed"]) == ("differs", 128)
    assert result["cause"].startswith(
        "tokens merge with the user message: on the server, request 1 differs from token "
    )
    assert result["hint"] == "end the frame with a control token"


def test_a_different_chat_template_is_recognized_by_the_token_ids_of_the_server(built: Project) -> None:
    built.write(
        {
            "cacheunit.toml": f'{SETTINGS}[target.other]\nextends = "steady"\n[target.other.frame]\n'
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
            assert [item["verdict"] for item in ran.json["results"]] == ["warm-up", "as predicted"]
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
    ran = verify(built, engine, "a", "--key-env", "sk-in-place-of-a-name")
    assert (ran.code, "sk-in" in ran.err, "that --key-env names is not set" in ran.err) == (2, False, True)


@pytest.mark.parametrize("key", ["sk-right\n", "sk right", "sk-Я"])
def test_a_key_that_no_header_can_hold_is_an_error_and_is_not_printed(
    built: Project, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("CACHEUNIT_API_KEY", key)
    ran = verify(built, Engine(key="sk-right"), "a")
    assert (ran.code, "sk" in ran.err + ran.out) == (2, False)
    assert "the API key has a space, a line end or a character that is not ASCII" in ran.err


def test_every_artifact_that_does_not_match_the_lock_is_reported(built: Project) -> None:
    built.write({"build/a/steady.txt": b"edited", "build/a/steady.json": b"edited"})
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
    built.write({"build/a/steady.txt": b"edited"})
    ran = verify(built, Engine(), "a")
    assert (ran.code, "build/a/steady.txt: the artifact does not match the lock" in ran.err) == (2, True)
    built.build()
    built.edit("templates/a.j2", "careful", "careless")
    assert "a for steady does not match the lock" in verify(built, Engine(), "a").err
    built.path("cacheunit.lock").unlink()
    assert "there is no cacheunit.lock" in verify(built, Engine(), "a").err


def test_one_endpoint_takes_the_artifacts_of_one_target(built: Project) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [steady, claude, own]\nsystem")
    built.edit("templates/b.j2", "You are quick.", f"You are quick.\n{LONG}{LONG}")
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
    with serving(Engine(dropped_units=1)) as dropping:
        ran = built.run("verify", dropping.url, "a", "--warm", "--wait", "0")
    assert (ran.code, "cached in part after 4 requests" in ran.out) == (1, True)


def test_numbers_in_strings_are_read_as_numbers(built: Project) -> None:
    assert [item["verdict"] for item in compared(verify(built, Engine(numbers_as_text=True), "a"))] == ["as predicted"]


def test_an_estimate_near_the_minimum_is_unknown_with_the_reason(built: Project) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [claude]\nsystem")
    built.build()
    ran = verify(built, Engine(kind="breakpoints", minimum=512), "b")
    (result,) = compared(ran)
    assert (ran.code, result["verdict"], result["predicted"]) == (0, "unknown", None)
    assert "includes the minimum of 512, so it is unknown whether anything is cached" in result["cause"]


def test_a_prefix_below_the_minimum_is_as_predicted_if_nothing_is_served(built: Project) -> None:
    built.write({"templates/b.j2": "You are quick.\n"})
    built.edit("cacheunit.toml", "best_effort = false", "best_effort = false, minimum = 5000")
    built.edit("prefixes/b.yaml", "system", "targets: [claude, steady]\nsystem")
    built.build()
    for target, engine in (("claude", Engine(kind="breakpoints", minimum=512)), ("steady", Engine(minimum=5000))):
        (result,) = compared(verify(built, engine, "b", "--target", target))
        assert (result["verdict"], result["predicted"], result["observed"]) == ("as predicted", 0, 0)
    for engine in (
        Engine(unit=16),
        Engine(kind="persisted"),
    ):  # the second one serves the third request at the earliest
        (served,) = compared(verify(built, engine, "a"))
        assert (served["verdict"], served["predicted"], served["observed"] > 0) == ("differs", 0, True)


@pytest.mark.parametrize(("hit", "verdict"), [(768, "as predicted"), (700, "differs"), (256, "differs")])
def test_a_hit_within_the_margin_of_an_estimate_is_still_whole_units(built: Project, hit: int, verdict: str) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [kimi]\nsystem")
    built.edit("templates/b.j2", "You are quick.", f"You are quick.\n{LONG}")
    built.build()
    (result,) = compared(verify(built, Engine(hits=dict.fromkeys(range(9), hit)), "b"))
    assert (result["verdict"], result["observed"]) == (verdict, hit)
    assert result["cause"] == ("the hit of 700 tokens is not a multiple of 256" if hit == 700 else None)


def test_unstable_tokens_that_no_user_message_changed_may_fill_a_unit(built: Project) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [open]\nsystem")
    built.build()
    (explained,) = built.run("explain", "b", "--format", "json").json["artifacts"]
    assert explained["unstable"] > 0
    unit = explained["tokens"] + explained["unstable"]
    built.edit("cacheunit.toml", "best_effort = false", f"best_effort = false, warm_up_requests = 1, unit = {unit}")
    built.build()
    (result,) = compared(verify(built, Engine(unit=unit), "b"))
    assert (result["verdict"], result["predicted"], result["observed"]) == ("as predicted", 0, unit)


def test_tokens_that_only_later_turns_change_are_predicted_for_requests_of_one_turn(built: Project) -> None:
    later = "{% if messages|length > 2 %}Later.{% endif %}"
    turns = "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{% endif %}{{ m.content }}{% endfor %}"
    built.write({"own.jinja": f"<｜begin▁of▁sentence｜>{later}{turns}<｜Assistant｜>"})
    own = '[target.turns]\nextends = "steady"\nframe = {chat_template = "own.jinja"}\n'
    built.write({"cacheunit.toml": SETTINGS + own})
    built.edit("prefixes/b.yaml", "system", "targets: [turns]\nsystem")
    built.build()
    (explained,) = built.run("explain", "b", "--format", "json").json["artifacts"]
    assert explained["tokens"] < 128 < explained["later_turns"]["first_turn"]
    (result,) = compared(verify(built, Engine(), "b"))
    assert (result["verdict"], result["predicted"], result["observed"]) == ("as predicted", 512, 512)


def test_a_usage_that_contradicts_itself_is_unknown_with_the_contradiction(built: Project) -> None:
    usage = {"prompt_tokens": 2000, "prompt_cache_hit_tokens": 900, "cached_tokens": 640}
    ran = verify(built, Engine(usage={"usage": usage}), "a")
    (result,) = compared(ran)
    assert (ran.code, result["verdict"], result["observed"]) == (0, "unknown", None)
    assert result["cause"].startswith("the usage that the endpoint reports contradicts itself: ")
    assert "prompt_cache_hit_tokens is 900, but" in result["cause"]


def test_no_two_user_messages_begin_alike() -> None:
    assert len({message[0] for message in USER_MESSAGES}) == len(USER_MESSAGES)


@pytest.fixture
def best_effort(built: Project) -> Project:
    """Artifacts for DeepSeek's API, which guarantees no hits, and needs two requests to warm up."""
    built.edit("cacheunit.toml", 'targets = ["steady"]', 'targets = ["deepseek-v4"]')
    built.build()
    return built


@pytest.mark.parametrize(
    ("hits", "arguments", "verdict", "met"),
    [
        ({}, (), "as predicted", (5, 5)),
        ({3: 0, 5: 0}, (), "as predicted", (3, 5)),
        ({3: 0, 5: 0}, ("--min-share", "0.7"), "not hit", (3, 5)),
        ({3: 0, 4: 256, 5: 0}, (), "not hit", (2, 5)),
        ({2: 0}, ("--attempts", "8", "--min-share", "0.875"), "as predicted", (7, 8)),
        (dict.fromkeys(range(9), 0), ("--min-share", "0"), "as predicted", (0, 5)),
        ({4: 100}, (), "differs", (4, 5)),
    ],
    ids=["all", "some miss", "too few", "a part", "more attempts", "none needed", "no whole units"],
)
def test_a_best_effort_cache_is_judged_by_the_share_of_requests_that_hit(
    best_effort: Project, hits: dict[int, int], arguments: tuple[str, ...], verdict: str, met: tuple[int, int]
) -> None:
    engine = Engine(kind="persisted", hits=hits)
    (result,) = compared(verify(best_effort, engine, "a", *arguments))
    assert (result["verdict"], result["hits"], result["requests"]) == (verdict, *met)
    assert result["share"] == met[0] / met[1]
    assert result["facts"][0] == f"{met[0]} of {met[1]} requests hit as predicted"
    assert len(engine.requests) == 2 + met[1]
    assert len({json.dumps(request) for request in engine.requests}) == len(engine.requests)


def test_misses_of_a_best_effort_cache_are_no_difference_but_fail(best_effort: Project) -> None:
    with serving(Engine(kind="none")) as engine:
        ran = best_effort.run("verify", engine.url, "a", "--wait", "0")
    assert (ran.code, "0 of 5 requests hit as predicted" in ran.out, "differs" in ran.out) == (1, True, False)
    assert ran.out.rstrip().splitlines()[-1].startswith("hint: ")


def test_one_hit_warms_a_best_effort_cache(best_effort: Project) -> None:
    engine = Engine(kind="persisted", hits={2: 0, 3: 0})
    with serving(engine):
        ran = best_effort.run("verify", engine.url, "a", "--warm", "--wait", "0")
    assert (ran.code, ran.out, len(engine.requests)) == (0, "a  deepseek-v4  cached after 4 requests\n", 5)
    with serving(Engine(kind="none")) as cold:
        ran = best_effort.run("verify", cold.url, "a", "--warm", "--wait", "0")
    assert (ran.code, "not cached after 7 requests" in ran.out) == (1, True)


def test_a_cache_that_is_not_best_effort_has_no_share(built: Project) -> None:
    engine = Engine()
    (result,) = compared(verify(built, engine, "a"))
    assert (result["hits"], result["requests"], result["share"], len(engine.requests)) == (None, None, None, 2)
