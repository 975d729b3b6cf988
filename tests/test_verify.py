"""`verify`: what a server reports, held against the prediction; the server's cache is made up, the rest is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mock_server import Engine, serving

if TYPE_CHECKING:
    from conftest import Project, Ran

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
    project.built()
    return project


def verify(project: Project, engine: Engine, *arguments: str) -> Ran:
    with serving(engine):
        return project.run("verify", engine.url, *arguments, "--wait", "0", "--format", "json")


def compared(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == (0 if ran.json["ok"] else 1), ran.err
    return [item for item in ran.json["results"] if item["verdict"] != "primed"]


def test_blocks_are_as_predicted_on_the_second_request(built: Project) -> None:
    engine = Engine()
    results = compared(verify(built, engine))
    entry = {item["prefix"]: item for item in built.run("build", "--format", "json").json["artifacts"]}
    assert {item["prefix"]: item["predicted"] for item in results} == {
        name: number["tokens"] // 128 * 128 for name, number in entry.items()
    }
    assert [(item["verdict"], item["observed"] == item["predicted"]) for item in results] == [
        ("as predicted", True)
    ] * 2
    assert len(engine.requests) == 4
    assert {request["max_tokens"] for request in engine.requests} == {1}


def test_persisted_units_need_a_third_request(built: Project) -> None:
    results = compared(verify(built, Engine(kind="persisted")))
    assert {(item["continuation"], item["verdict"]) for item in results} == {(2, "as predicted")}


def test_another_unit_is_a_difference_with_its_cause(built: Project) -> None:
    results = compared(verify(built, Engine(unit=100), "a"))
    assert [item["verdict"] for item in results] == ["differs"]
    assert "no multiple of 128" in results[0]["cause"]
    (larger,) = compared(verify(built, Engine(unit=384), "b"))
    assert "a larger unit, another chat template, or evicted" in larger["cause"]
    (none,) = compared(verify(built, Engine(kind="none"), "a"))
    assert (none["observed"], none["cause"].startswith("cold:")) == (0, True)


def test_another_chat_template_is_found_by_the_tokens_that_the_server_reads(built: Project) -> None:
    built.write(
        {
            "cacheunit.toml": '[target.other]\nextends = "deepseek-v4"\n[target.other.frame]\n'
            f'before = "<｜begin▁of▁sentence｜>{"Reason well. " * 60}"\nafter = "<｜User｜>"\n',
            "prefixes/a.yaml": "targets: [other]\nsystem: a.j2\n",
        }
    )
    built.built()
    (found,) = compared(verify(built, Engine(), "a"))
    assert found["verdict"] == "differs"
    assert found["cause"] == (
        "the chat template is not the target's frame: from token 1 on, the server reads another text"
    )


def test_a_server_that_does_not_report_is_unknown_and_no_failure(built: Project) -> None:
    ran = verify(built, Engine(kind="unreported"), "a")
    assert ran.code == 0
    assert [(item["verdict"], item["observed"]) for item in compared(ran)] == [("unknown", None)]


def test_a_cache_that_is_warm_already_and_one_that_forgets(built: Project) -> None:
    engine = Engine()
    with serving(engine):
        for _ in range(2):
            ran = built.run("verify", engine.url, "a", "--wait", "0", "--format", "json")
            assert [item["verdict"] for item in ran.json["results"]] == ["primed", "as predicted"]
        assert ran.json["results"][0]["observed"] > 0
    forgetful = Engine(evicts=1)
    assert [item["continuation"] for item in compared(verify(built, forgetful, "a"))] == [2]


@pytest.mark.parametrize("failures", [[500], [429, 503], ["cut"], [529, "cut", 500]])
def test_a_server_that_is_busy_or_breaks_off_is_asked_again(
    built: Project, failures: list[int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("cacheunit_build.adapters.system.http_endpoint._pause", slept.append)
    ran = verify(built, Engine(failures=list(failures), retry_after="3"), "a")
    assert [item["verdict"] for item in compared(ran)] == ["as predicted"]
    waited = [3.0 if isinstance(failure, int) else 2.0**index for index, failure in enumerate(failures)]
    assert [seconds for seconds in slept if seconds] == waited


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (Engine(failures=["html"] * 9), "answers HTML, not JSON"),
        (Engine(models=()), "the model does not exist"),
        (Engine(failures=[400]), "answers 400: not now"),
        (Engine(key="secret"), "answers 401"),
    ],
    ids=["html", "no model", "400", "no key"],
)
def test_a_server_that_is_of_no_use(built: Project, engine: Engine, told: str) -> None:
    ran = verify(built, engine, "a")
    assert (ran.code, ran.output) == (2, b"")
    assert told in ran.err


def test_a_key_comes_from_the_environment_and_is_never_printed(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(key="sk-right")
    monkeypatch.setenv("CACHEUNIT_API_KEY", "sk-right")
    assert verify(built, engine, "a").code == 0
    monkeypatch.setenv("MINE", "sk-wrong")
    ran = verify(built, engine, "a", "--key-env", "MINE")
    assert (ran.code, "sk-wrong" in ran.err + ran.out) == (2, False)
    assert "Bearer ***" in ran.err
    assert "there is no key" in verify(built, engine, "a", "--key-env", "NONE").err


def test_addresses_that_are_none_and_bounds(built: Project) -> None:
    for url in ("localhost:8000", "ftp://x/v1", "http://"):
        ran = built.run("verify", url)
        assert (ran.code, "is no URL of an API" in ran.err) == (2, True)
    down = built.run("verify", "http://127.0.0.1:9/v1", "a")
    assert (down.code, "cannot reach http://127.0.0.1:9/v1" in down.err) == (2, True)
    bounded = verify(built, Engine(), "--max-requests", "3")
    assert (bounded.code, "more than 3 requests are needed" in bounded.err) == (2, True)


def test_only_what_was_locked_is_sent(built: Project) -> None:
    built.write({"build/a/deepseek-v4.txt": b"edited"})
    ran = verify(built, Engine(), "a")
    assert (ran.code, "build/a/deepseek-v4.txt: the artifact is not what was locked" in ran.err) == (2, True)
    built.built()
    built.edit("templates/a.j2", "careful", "careless")
    assert "a for deepseek-v4 is not as locked" in verify(built, Engine(), "a").err
    built.path("cacheunit.lock").unlink()
    assert "there is no cacheunit.lock" in verify(built, Engine(), "a").err


def test_one_address_speaks_for_one_target(built: Project) -> None:
    built.edit("prefixes/b.yaml", "system", "targets: [deepseek-v4, claude, own]\nsystem")
    built.built()
    assert "--target" in verify(built, Engine()).err
    text = compared(verify(built, Engine(kind="tokens"), "b", "--target", "own"))
    assert [item["verdict"] for item in text] == ["as predicted"]
    estimate = compared(verify(built, Engine(kind="breakpoints", minimum=512), "b", "--target", "claude"))
    assert [item["verdict"] for item in estimate] == ["as predicted"]


def test_warming_says_after_how_many_requests_it_is_warm(built: Project) -> None:
    engine = Engine(kind="persisted")
    with serving(engine):
        ran = built.run("verify", engine.url, "--warm", "--wait", "0")
    assert (ran.code, ran.out.count("warm after 2 requests")) == (0, 2)
    with serving(Engine(kind="none")) as cold:
        ran = built.run("verify", cold.url, "a", "--warm", "--wait", "0")
    assert (ran.code, "not warm after 4 requests" in ran.out) == (1, True)


def test_numbers_as_text_are_numbers(built: Project) -> None:
    assert [item["verdict"] for item in compared(verify(built, Engine(text=True), "a"))] == ["as predicted"]
