"""Recorded counts: asked for, written, taken by builds, and scaled for edited prefixes.

The mock of the providers counts with a vocabulary of its own and its own framing, so every number here has its truth.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from count_server import Provider, counting
from hypothesis import given
from hypothesis import strategies as st
from mock_server import Engine, serving
from sdk_clients import client, close_clients, configure

from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.recorded_count import EstimatedRequest, RecordedCount, RecordedCounts
from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.endpoints.calibrate import Question, static_count
from cacheunit_build.lockfile.counts import counts_bytes, parse_counts
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import CommandResult, Project

    from cacheunit_build.domain.errors import Fault

RULES = "".join(f"Rule {number}: keep the answer short, and name the source of each claim.\n" for number in range(90))
COUNTS = "cacheunit.counts"
FORMS = ("anthropic-messages", "openai-responses", "gemini", "bedrock-converse")
BASES = {"anthropic-messages": ("anthropic-1024", "/v1"), "openai-responses": ("openai", "/v1")} | {
    "gemini": ("gemini", "/v1beta"),
    "bedrock-converse": ("bedrock-converse-1024", ""),
}
"""The target of each format, and the path of the base URL that its users give."""
TOOL = {
    "name": "find_order",
    "description": "Finds an order by its number.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]},
}


def settings(form: str, keys: str = 'count_model = "mock-1"') -> str:
    """Returns settings with one target of a format, whose estimates are made with DeepSeek's vocabulary."""
    tokenizer = 'tokenizer = {estimate = "deepseek-v4", margin = 0.35, scaled_margin = 0.1}'
    return f'targets = ["t"]\n[target.t]\nextends = "{BASES[form][0]}"\n{tokenizer}\n{keys}\n'


FILES = {
    "prefixes/a.yaml": "system: a.j2\n",
    "prefixes/b.yaml": "system: [a.j2, b.j2]\ntools: [tools/find.json]\nmatrix: {locale: [de, en]}\n",
    "prefixes/c.yaml": "system: a.j2\nexamples:\n- {role: user, text: 'Why?'}\n- {role: assistant, text: 'So.'}\n",
    "templates/a.j2": f"You are careful.\n{RULES}",
    "templates/b.j2": "Answer in {{ locale }}.\n",
    "tools/find.json": json.dumps([TOOL]),
}


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project of one prefix for Anthropic's format."""
    files = {path: data for path, data in FILES.items() if path in ("prefixes/a.yaml", "templates/a.j2")}
    project.write({**files, "cacheunit.toml": settings("anthropic-messages")})
    return project


@pytest.fixture
def provider() -> Iterator[Provider]:
    with counting(Provider()) as served:
        yield served


def calibrate(project: Project, provider: Provider, *arguments: str, path: str = "/v1") -> CommandResult:
    return project.run("calibrate", "--url", provider.url + path, *arguments)


def lines(project: Project) -> list[dict[str, Any]]:
    """Returns the recorded counts of a project."""
    version, *counts = map(json.loads, project.read(COUNTS).decode().splitlines())
    assert version == {"version": 1}
    return counts


def entries(project: Project) -> dict[str, dict[str, Any]]:
    """Returns the lock entry of each prefix, of a project with one target."""
    prefixes = json.loads(project.read("cacheunit.lock"))["prefixes"]
    return {name: next(iter(by_target.values())) for name, by_target in prefixes.items()}


def truth(project: Project, prefix: str, form: str, target: str = "t") -> int:
    """Returns how many tokens the mock counts in front of the user's words that follow a built prefix."""
    fragment = FORMATS[form].counted(json.loads(project.read(f"build/{prefix}/{target}.json")))
    counter = Provider()
    counter.count(FORMATS[form].append_user(fragment, "a"))
    return counter.fronts[-1]


def bounds(entry: dict[str, Any]) -> tuple[int, int]:
    """Returns the fewest and the most tokens that a lock entry allows."""
    count = TokenCount(tokens=entry["tokens"], margin=entry.get("margin", 0.0))
    return count.low, count.high


def test_the_recorded_numbers_of_every_provider_are_within_their_margin(
    project: Project, provider: Provider, form: str
) -> None:
    project.write({**FILES, "cacheunit.toml": settings(form)})
    project.build()
    before = entries(project)
    ran = calibrate(project, provider, path=BASES[form][1])
    assert (ran.code, ran.err) == (0, ""), ran.err
    assert len(provider.requests) == 1 + len(before), "one request without a prefix, and one for each prefix"
    project.build()
    after = entries(project)
    assert [entry["counted"] for entry in after.values()] == ["recorded"] * 4
    for name, entry in after.items():
        static = truth(project, name, form)
        low, high = bounds(entry)
        assert low <= static <= high, name
        assert high - low <= 2 * 4, "half of the 7 tokens that frame one letter, rounded up, to each side"
        assert high - low < (bounds(before[name])[1] - bounds(before[name])[0]) / 50
        assert entry["padding"] == 0
        ends_with_system = form != "openai-responses" or name != "c"  # else the last marker is on a message
        if ends_with_system and "markers" in entry:
            assert entry["markers"][-1] == entry["tokens"]
    assert "recorded from the provider on" in project.run("-v", "build").out
    assert project.check()["ok"]


def test_an_edited_prefix_is_scaled_and_the_others_stay_as_they_are(
    project: Project, provider: Provider, form: str
) -> None:
    project.write({**FILES, "cacheunit.toml": settings(form)})
    calibrate(project, provider, path=BASES[form][1])
    project.build()
    before = entries(project)
    project.edit("templates/b.j2", "Answer", f"{RULES[:1500].replace('answer', 'reply')}\nAnswer")
    project.build()
    after = entries(project)
    assert {name for name in after if after[name] != before[name]} == {"b@locale=de", "b@locale=en"}
    for name in ("b@locale=de", "b@locale=en"):
        entry = after[name]
        assert (entry["counted"], 0.1 <= entry["margin"] < 0.11) == ("estimate", True)
        assert bounds(entry)[0] <= truth(project, name, form) <= bounds(entry)[1]
    calibrate(project, provider, path=BASES[form][1])
    project.build()
    assert {entry["counted"] for entry in entries(project).values()} == {"recorded"}
    assert len(lines(project)) == 4, "the counts of former bytes are gone"


def test_keys_and_lifetimes_are_no_tokens(project: Project, provider: Provider) -> None:
    project.write({**FILES, "cacheunit.toml": settings("openai-responses")})
    calibrate(project, provider)
    project.write({"cacheunit.toml": f'project = "acme"\n{settings("openai-responses")}'})
    project.edit("prefixes/a.yaml", "system", "cache: {ttl: 12h}\nsystem")
    project.build()
    assert {entry["counted"] for entry in entries(project).values()} == {"recorded"}


def test_only_what_has_no_count_is_asked_for(shop: Project, provider: Provider) -> None:
    assert calibrate(shop, provider).code == 0
    asked = len(provider.requests)
    counts = shop.read(COUNTS)
    ran = calibrate(shop, provider)
    assert (ran.code, ran.out) == (0, "nothing to count; 1 recorded already\n")
    assert (len(provider.requests), shop.read(COUNTS)) == (asked, counts)


def test_a_dry_run_sends_and_writes_nothing(shop: Project, provider: Provider) -> None:
    before = shop.files()
    ran = calibrate(shop, provider, "--dry-run")
    assert (ran.code, "2 requests for 1 artifact; nothing was sent" in ran.out) == (0, True)
    assert (provider.requests, shop.files()) == ([], before)


def test_gemini_is_sent_the_whole_request_and_not_its_contents_alone(project: Project, provider: Provider) -> None:
    project.write({**FILES, "cacheunit.toml": settings("gemini")})
    calibrate(project, provider, "b@locale=de", path="/v1beta")
    path, body = provider.requests[-1]
    assert (path, list(body)) == ("/v1beta/models/mock-1:countTokens", ["generateContentRequest"])
    request = body["generateContentRequest"]
    assert request["model"] == "models/mock-1"
    assert {"systemInstruction", "tools", "contents"} <= request.keys()


SDK_COUNTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "anthropic-messages": lambda request: client("anthropic").messages.count_tokens(**request),
    "openai-responses": lambda request: client("openai").responses.input_tokens.count(**request),
    "bedrock-converse": lambda request: client("aws").count_tokens(
        modelId="mock-1", input={"converse": {key: value for key, value in request.items() if key != "model"}}
    ),
}
"""The call of a vendor's client that counts a request."""


@pytest.fixture
def clients(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Points the vendors' own clients at the provider."""
    client.cache_clear()
    configure(monkeypatch, provider.url)
    yield
    close_clients()


@pytest.mark.slow
@pytest.mark.usefixtures("clients")
def test_the_vendors_own_clients_ask_the_same(project: Project, provider: Provider) -> None:
    for form, count in SDK_COUNTS.items():
        project.write({**FILES, "cacheunit.toml": settings(form)})
        project.build()
        calibrate(project, provider, "b@locale=de", path=BASES[form][1])
        asked = provider.requests[-1]
        fragment = FORMATS[form].counted(json.loads(project.read("build/b@locale=de/t.json")))
        keys = {"prompt_cache_key", "prompt_cache_options"}
        request = FORMATS[form].append_user({key: value for key, value in fragment.items() if key not in keys}, "a")
        count({**request, "model": "mock-1"})
        assert provider.requests[-1] == asked, form
        assert provider.fronts[-1] == provider.fronts[-2]


def test_a_marker_that_the_count_removes_does_not_change_what_was_counted(project: Project, provider: Provider) -> None:
    # The estimate may be enough for a marker, the count is not: without it, the bytes of the request are others.
    short = f"You are careful.\n{RULES[:3600]}"
    project.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": short})
    project.write({"cacheunit.toml": settings("anthropic-messages")})
    project.build()
    assert entries(project)["a"]["markers"]
    calibrate(project, provider)
    project.build()
    entry = entries(project)["a"]
    assert (entry["counted"], entry.get("markers", [])) == ("recorded", [])
    assert bounds(entry)[1] < 1024
    assert "nothing to count" in calibrate(project, provider).out
    assert project.check()["ok"]


def test_a_change_of_the_counts_is_a_change_of_the_sources(shop: Project, provider: Provider) -> None:
    shop.build()
    assert shop.check()["ok"]
    calibrate(shop, provider)
    (drift,) = shop.check()["drift"]
    assert (drift["kind"], drift["because"]) == ("changed", [COUNTS])
    assert "1 built" in shop.build().out
    assert "0 built" in shop.build().out
    shop.path(COUNTS).unlink()
    assert shop.drift() == [("changed", "a")]


def test_watch_builds_again_when_the_counts_change(shop: Project, provider: Provider) -> None:
    session = WatchSession(WatchedProject(Context(shop.root, quiet=True, verbose=False).project()).reopen)
    session.build()
    assert COUNTS in session.paths().files
    calibrate(shop, provider)
    assert session.build().result.written == {("a", "t")}
    assert session.build().result.written == frozenset()


def test_the_order_of_lines_decides_nothing(project: Project, provider: Provider) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    calibrate(project, provider)
    project.build()
    lock = project.read("cacheunit.lock")
    version, *counts = project.read(COUNTS).splitlines(keepends=True)
    assert counts == sorted(counts)
    project.write({COUNTS: version + b"".join(reversed(counts)).replace(b"\n", b"\r\n")})
    project.build()
    assert project.read("cacheunit.lock") == lock


def test_git_merges_the_counts_of_two_branches_by_line(project: Project, provider: Provider, tmp_path: Path) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    calibrate(project, provider)
    base = project.read(COUNTS)
    edits = {"prefixes/a.yaml": ("system: a.j2", "system: [a.j2, a.j2]"), "prefixes/c.yaml": ("So.", "Therefore.")}
    sides = []
    for path, edit in edits.items():
        original = project.read(path)
        project.edit(path, *edit)
        calibrate(project, provider)
        sides.append(project.read(COUNTS))
        project.write({path: original, COUNTS: base})
    files = [tmp_path / name for name in ("ours", "base", "theirs")]
    for file, data in zip(files, (sides[0], base, sides[1]), strict=True):
        file.write_bytes(data)
    merged = subprocess.run(["git", "merge-file", "-p", *files], capture_output=True, check=True).stdout
    ours, theirs, both = (
        {json.loads(line).get("prefix"): line for line in data.splitlines()} for data in (*sides, merged)
    )
    assert both == {**theirs, "a": ours["a"]}
    assert ours["a"] != theirs["a"]
    assert ours["c"] != theirs["c"]


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"path": "/v2"}, "answers 404: no such route", "its route would be messages/count_tokens"),
        ({"key": "right"}, "answers 401: invalid key", "set the API key in CACHEUNIT_API_KEY"),
        ({"models": ("other",)}, "answers 404: the model mock-1 does not exist", '"count_model" of target "t"'),
        ({"failures": [{"object": "nothing"}]}, 'no whole number in "input_tokens"', "--url names"),
        ({"failures": [{"input_tokens": "12"}]}, 'no whole number in "input_tokens"', "--url names"),
        ({"failures": [{"input_tokens": True}]}, 'no whole number in "input_tokens"', "--url names"),
        ({"failures": [{"input_tokens": 0}]}, 'no whole number in "input_tokens"', "--url names"),
        ({"failures": [[5]]}, 'no whole number in "input_tokens"', "--url names"),
        ({"failures": [{"input_tokens": 10**10}]}, 'no whole number in "input_tokens"', "--url names"),
        (
            {"failures": [{"input_tokens": 8}, {"input_tokens": 9}]},
            "9 tokens cannot be right",
            "does the endpoint count",
        ),
        ({"failures": [429] * 4}, "answers 429: not now", "try again later, or name fewer prefixes"),
        ({"failures": [{"input_tokens": 9000}]}, "cannot both be right", "does the endpoint count system text"),
        ({"offline": True}, "cannot reach", "is the server running?"),
    ],
)
def test_what_goes_wrong_at_the_provider_is_one_error_and_nothing_is_written(
    shop: Project, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str, hint: str
) -> None:
    monkeypatch.setattr("cacheunit_build.adapters.system.http_endpoint._sleep", lambda _: None)
    known = {key: value for key, value in changes.items() if key not in ("path", "offline")}
    before = shop.files()
    with counting(Provider(**known)) as provider:
        url = provider.url + changes.get("path", "/v1")
        if not changes.get("offline"):
            ran = shop.run("calibrate", "--url", url)
    if changes.get("offline"):
        ran = shop.run("calibrate", "--url", url)
    assert ran.code == 2
    assert ran.err.count("error: ") == 1
    assert message in ran.err
    assert hint in ran.err
    assert "a for t" in ran.err
    assert shop.files() == before


def test_nothing_is_sent_if_too_many_requests_are_needed(shop: Project, provider: Provider) -> None:
    ran = calibrate(shop, provider, "--max-requests", "1")
    hint = "hint: raise --max-requests, or name fewer prefixes\n"
    assert ran.err == f"error: 2 requests are needed, but --max-requests allows 1\n\n{hint}"
    assert (ran.code, provider.requests) == (2, [])
    assert calibrate(shop, provider, "--max-requests", "2").code == 0


def test_a_run_that_fails_records_nothing_and_keeps_what_is_known(project: Project) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    with counting(Provider()) as provider:
        calibrate(project, provider, "a")
        known = project.read(COUNTS)
        provider.failures = [{"input_tokens": 8}, {"input_tokens": 2000}, {}]
        assert calibrate(project, provider).code == 2
        assert project.read(COUNTS) == known
        calibrate(project, provider)
    assert known.splitlines()[1] in project.read(COUNTS).splitlines()
    assert len(lines(project)) == 4


def test_the_key_comes_from_the_environment(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNT_KEY", "right")
    with counting(Provider(key="right")) as provider:
        assert calibrate(shop, provider, "--key-env", "COUNT_KEY").code == 0


@pytest.mark.parametrize(
    ("toml", "message", "hint"),
    [
        (settings("anthropic-messages", 'models = ["x", "y"]'), 'target "t" is for 2 models', "count_model"),
        (settings("bedrock-converse", "models = []"), 'target "t" names no model', "count_model"),
        ('targets = ["groq"]', 'format "openai-chat" has no route that counts', "gemini or openai-responses"),
        (
            settings("openai-responses").replace('["t"]', '["t", "u"]')
            + '[target.u]\nextends = "anthropic-1024"\ncount_model = "mock-1"\n',
            "several providers are selected: t, u",
            "choose one with --target",
        ),
    ],
)
def test_a_target_that_cannot_be_counted_is_refused_with_a_hint(
    shop: Project, provider: Provider, toml: str, message: str, hint: str
) -> None:
    shop.write({"cacheunit.toml": toml})
    ran = calibrate(shop, provider)
    assert (ran.code, message in ran.err, hint in ran.err) == (2, True, True), ran.err
    assert provider.requests == []


def test_a_target_with_one_model_takes_its_counts(shop: Project, provider: Provider) -> None:
    shop.write({"cacheunit.toml": settings("anthropic-messages", 'models = ["mock-1"]')})
    assert calibrate(shop, provider).code == 0
    assert [line["model"] for line in lines(shop)] == ["mock-1"]


def test_counts_of_another_model_are_not_taken(shop: Project, provider: Provider) -> None:
    calibrate(shop, provider)
    shop.write({"cacheunit.toml": settings("anthropic-messages", 'count_model = "mock-2"')})
    shop.build()
    assert (entries(shop)["a"]["counted"], entries(shop)["a"]["margin"]) == ("estimate", 0.35)


def test_an_api_whose_url_depends_on_the_region_needs_it(shop: Project) -> None:
    shop.write({"cacheunit.toml": settings("bedrock-converse")})
    ran = shop.run("calibrate")
    assert (ran.code, "hint: give it with --url" in ran.err) == (2, True)


def test_an_empty_url_is_not_the_providers(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheunit_build.adapters.system.http_client.HttpClient.send", lambda *_: pytest.fail("sent"))
    ran = shop.run("calibrate", "--url", "")  # such as that of a variable that is not set
    assert (ran.code, "the URL is not a valid API URL" in ran.err) == (2, True)


def test_targets_with_their_own_vocabulary_and_without_a_route_are_left_out(shop: Project, provider: Provider) -> None:
    shop.write({"cacheunit.toml": settings("anthropic-messages").replace('["t"]', '["t", "deepseek-v4", "groq"]')})
    ran = calibrate(shop, provider)
    assert "1 artifact counted; 1 exact without a provider, 1 of an API without such a route" in ran.out


def test_secrets_are_not_sent(shop: Project, provider: Provider) -> None:
    pytest.importorskip("detect_secrets")
    shop.edit("templates/a.j2", "You are careful.", "Key: AKIA" + "IOSFODNN7EXAMPLQ")
    ran = calibrate(shop, provider)
    assert (ran.code, provider.requests) == (2, [])


LINE: dict[str, Any] = {
    "prefix": "a",
    "target": "t",
    "model": "mock-1",
    "request": f"sha256:{'0' * 64}",
    "tokens": 1000,
    "margin": 4,
    "how": "counted",
    "day": "2026-12-01",
    "estimate": 900,
    "vocabulary": f"sha256:{'1' * 64}",
    "tools": False,
}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "do not begin with their version"),
        ('{"version": 2}\n', 1, "version 2; this cacheunit reads version 1"),
        ('{"version": "1"}\n', 1, "do not begin with their version"),
        ('{"version": true}\n', 1, "do not begin with their version"),
        ('{"version": 1}\n<<<<<<< HEAD\n', 2, "merge-conflict markers"),
        ('{"version": 1}\n\n{"prefix"\n', 3, "JSON"),
        ('{"version": 1}\n[]\n', 2, "must be"),
        ([{"tokens": -1}], 2, '"tokens" must be greater than or equal to 1'),
        ([{"tokens": "12"}], 2, '"tokens" must be a whole number'),
        ([{"tokens": 12.5}], 2, '"tokens" must be a whole number'),
        ([{"margin": 1000}], 2, "a margin of 1000 for 1000 tokens"),
        ([{"margin": -1}], 2, '"margin" must be greater than or equal to 0'),
        ([{"how": "guessed"}], 2, "\"how\" must be 'counted' or 'reported'"),
        ([{"day": "yesterday"}], 2, '"day" must match pattern'),
        ([{"request": "sha256:1"}], 2, '"request" must match pattern'),
        ([{"price": 1}], 2, 'unknown key "price"'),
        ([{}, {"tokens": 1001}], 3, "the same bytes are in line 2"),
    ],
)
def test_a_broken_counts_file_is_one_error_with_its_line(
    shop: Project, text: str | list[dict[str, Any]], line: int, message: str
) -> None:
    if isinstance(text, list):
        text = "\n".join(['{"version": 1}', *(json.dumps({**LINE, **change}) for change in text)])
    shop.write({COUNTS: text})
    for arguments in (["build"], ["check"], ["calibrate", "--dry-run"]):
        ran = shop.run(*arguments)
        assert ran.code == 2
        assert ran.err.count("error: ") == 1, ran.err
        assert f"error: {COUNTS}:{line}: " in ran.err
        assert message in ran.err
        assert "hint: " in ran.err
    assert not shop.path("cacheunit.lock").exists()


def test_a_project_of_exact_counts_reads_no_counts_file(shop: Project) -> None:
    shop.write({"cacheunit.toml": 'targets = ["deepseek-v4"]', COUNTS: "broken"})
    shop.build()


def test_check_requires_counts_on_demand(shop: Project, provider: Provider) -> None:
    shop.build()
    assert shop.run("check").code == 0
    ran = shop.run("check", "--require-counts")
    assert (ran.code, "estimate  a  t  ~" in ran.out, "cacheunit calibrate" in ran.err) == (1, True, True)
    report = shop.run("check", "--require-counts", "--format", "json")
    assert (report.code, report.json["ok"], [item["prefix"] for item in report.json["estimates"]]) == (1, False, ["a"])
    assert "### 1 estimate" in shop.run("check", "--require-counts", "--format", "markdown").out
    calibrate(shop, provider)
    shop.build()
    assert shop.run("check", "--require-counts").code == 0


def test_diff_of_a_recording_changes_no_cache(shop: Project, provider: Provider, tmp_path: Path) -> None:
    shop.build()
    old = tmp_path / "old"
    old.mkdir()
    for path, data in shop.files().items():
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (old / path).write_bytes(data)
    calibrate(shop, provider)
    shop.build()
    for against in (old, old / "cacheunit.lock"):
        (change,) = shop.run("diff", "--against", against, "--format", "json").json["changes"]
        assert change["still_cached"] == change["tokens"]["new"] != change["tokens"]["old"]
        assert (change["recomputed"], change["first_change"]) == (0, None)


def test_diff_of_an_edit_counts_what_stays_cached_as_the_provider_does(
    project: Project, provider: Provider, tmp_path: Path
) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    calibrate(project, provider)
    project.build()
    old = tmp_path / "old"
    old.mkdir()
    for path, data in project.files().items():
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (old / path).write_bytes(data)
    project.edit("templates/b.j2", "Answer", "Always answer")
    changes = project.run("diff", "--against", old, "--format", "json").json["changes"]
    (change,) = [item for item in changes if item["prefix"] == "b@locale=de"]
    former = entries(project)["b@locale=de"]["markers"]
    project.build()
    now = entries(project)["b@locale=de"]["markers"]
    shared = now[-2]
    assert former[:-1] == now[:-1], "what did not change has the same numbers"
    assert change["still_cached"] == shared, "the marker behind the shared text, at the same scale"
    assert change["recomputed"] == change["tokens"]["new"] - shared


def test_verify_records_what_responses_report_at_the_marker(shop: Project) -> None:
    shop.build()
    with serving(Engine(kind="breakpoints", models=("mock-1",))) as engine:
        ran = shop.run("verify", engine.url, "--wait", "0", "--record")
    assert ran.code == 0, ran.err
    (line,) = lines(shop)
    assert (line["how"], line["margin"]) == ("reported", 0)
    assert line["tokens"] == len(engine.marked_part(engine.requests[0]))
    shop.build()
    entry = entries(shop)["a"]
    assert (entry["tokens"], entry["counted"], entry.get("margin", 0), entry["markers"]) == (
        *(line["tokens"], "recorded", 0),
        [line["tokens"]],
    )
    assert shop.run("explain", "a").out.count(f"predicted  {line['tokens']:,} tokens from a warm cache") == 1


def test_verify_records_nothing_that_two_responses_do_not_agree_on(shop: Project) -> None:
    shop.build()
    with serving(Engine(kind="breakpoints", models=("mock-1",), hits={1: 1200, 2: 1200, 3: 1200})) as engine:
        ran = shop.run("verify", engine.url, "--wait", "0", "--record")
    assert "not recorded" in ran.err
    assert not shop.path(COUNTS).exists()


@pytest.mark.parametrize(
    ("usage", "recorded"),
    [
        ({"cache_read_input_tokens": 1200}, {"a"}),  # a single marker: where else would a hit end?
        ({"cache_read_input_tokens": 1 << 40}, set()),
        ({"cache_read_input_tokens": 1200, "cache_creation_input_tokens": 1}, set()),
    ],
)
def test_a_hit_alone_is_recorded_only_of_a_single_marker(
    project: Project, usage: dict[str, int], recorded: set[str]
) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    project.build()
    body = {"usage": {"input_tokens": 9, "output_tokens": 1, **usage}}
    with serving(Engine(kind="breakpoints", models=("mock-1",), usage=body)) as engine:
        project.run("verify", engine.url, "a", "b", "--wait", "0", "--record")
    counts = lines(project) if project.path(COUNTS).exists() else []
    assert {line["prefix"] for line in counts} == recorded, "b has a marker behind the shared text too"


@pytest.mark.parametrize(
    ("toml", "model", "message"),
    [
        (settings("anthropic-messages"), "other", "takes the counts of mock-1, not of other"),
        (settings("anthropic-messages", 'models = ["x", "y"]'), "mock-1", "none is chosen to count with"),
        ('targets = ["deepseek-v4"]', "mock-1", "there is nothing to record"),
        ('targets = ["groq"]', "mock-1", "has no cache markers"),
    ],
)
def test_verify_refuses_to_record_what_no_response_can_tell(shop: Project, toml: str, model: str, message: str) -> None:
    shop.write({"cacheunit.toml": toml})
    shop.build()
    with serving(Engine(kind="breakpoints", models=(model,))) as engine:
        ran = shop.run("verify", engine.url, "--wait", "0", "--record", "--model", model)
    assert (ran.code, message in ran.err) == (2, True), ran.err
    assert engine.requests == []


def test_a_recorded_count_without_margin_is_not_padded(shop: Project) -> None:
    # Padding would change the bytes that were counted, and so the count.
    units = (
        'request = "anthropic-messages"\ncache = {kind = "blocks", unit = 128, minimum = 0, read = 0.1, write = 1.0}'
    )
    shop.write({"cacheunit.toml": settings("openai-responses", f'count_model = "mock-1"\n{units}')})
    shop.write({COUNTS: counts_bytes(RecordedCounts([recorded_of(shop, tokens=1300)]))})
    shop.build()
    entry = entries(shop)["a"]
    assert (entry["tokens"], entry["counted"], entry["padding"]) == (1300, "recorded", 0)
    assert "it is that of the unpadded text, so nothing is padded" in shop.run("-v", "build").out


def recorded_of(project: Project, *, tokens: int, margin: int = 0) -> RecordedCount:
    """Returns a count of the only prefix of a project, as a provider might give it."""
    asked = project.run("calibrate", "--dry-run", "--format", "json").json["asked"][0]
    keys = {key: asked[key] for key in ("prefix", "target", "model", "estimate", "request")}
    line = {**LINE, **keys, "tokens": tokens, "margin": margin}
    return RecordedCount(**line)


@given(st.integers(1, 3_000_000), st.data())
def test_the_margin_in_the_lock_has_the_bounds_of_the_recorded_one(tokens: int, data: st.DataObject) -> None:
    margin = data.draw(st.integers(0, min(tokens - 1, 50)))
    count = RecordedCount(**{**LINE, "tokens": tokens, "margin": margin})
    counted = TokenCount(tokens=tokens, margin=count.share)
    assert (counted.low, counted.high) == (tokens - margin, tokens + margin)


@given(front=st.integers(0, 20), end=st.integers(0, 20), prefix=st.integers(1, 5000), role=st.integers(0, 20))
def test_the_bounds_hold_for_any_framing(front: int, end: int, prefix: int, role: int) -> None:
    # static tokens: start and prefix, then the role marker of the user; then the letter, and what stands behind it
    static, alone = front + prefix + role, front + role + 1 + end
    question = Question(
        **{key: LINE[key] for key in ("prefix", "target", "model", "estimate", "request", "vocabulary", "tools")},
        fragment={},
        request_format=FORMATS["anthropic-messages"],
        recorded=None,
    )
    count = static_count(question, static + 1 + end, alone, "2026-12-01")
    assert count.tokens - count.margin <= static <= count.tokens + count.margin
    assert count.margin <= (front + role + end + 1) // 2


def counted(estimate: int, counts: list[RecordedCount], **changes: Any) -> tuple[int, float, str]:
    """Returns tokens, margin and origin of a prefix of so many estimated tokens, with these recorded counts."""
    values: dict[str, Any] = {"vocabulary": LINE["vocabulary"], "margins": (0.35, 0.1), "model": "mock-1"}
    request = EstimatedRequest(**{"body": b"{}", "estimate": estimate, **values, **changes})
    result = request.counted("a", "t", RecordedCounts(counts))
    return result.tokens, result.margin, result.counted


def test_an_estimate_is_scaled_by_the_last_count_of_a_prefix_of_like_length() -> None:
    last = RecordedCount(**{**LINE, "tokens": 1200, "estimate": 1000, "margin": 0})
    first = replace(last, day="2026-11-30", request=f"sha256:{'2' * 64}", tokens=50)
    assert counted(1100, [last, first]) == (1320, 0.1, "estimate")
    assert counted(1100, [replace(last, margin=6), first]) == (1320, 0.105, "estimate")
    assert counted(2000, [last]) == (2400, 0.1, "estimate")
    assert counted(2001, [last]) == (2001, 0.35, "estimate"), "twice as long: another text"
    assert counted(499, [last]) == (499, 0.35, "estimate")
    assert counted(1100, [replace(last, vocabulary=f"sha256:{'3' * 64}")]) == (1100, 0.35, "estimate")
    assert counted(1100, [replace(last, tools=True)]) == (1100, 0.35, "estimate"), "the preamble of tools is gone"
    assert counted(1100, [last], tools=True) == (1100, 0.35, "estimate")
    assert counted(1100, [replace(last, prefix="b")]) == (1100, 0.35, "estimate")
    assert counted(1100, [last], margins=(0.35, None)) == (1100, 0.35, "estimate")
    assert counted(1100, [last], model=None) == (1100, 0.35, "estimate")


def test_an_estimate_is_scaled_only_where_that_makes_it_better() -> None:
    # a default system message that the provider adds only without a prefix: 1,000 tokens, counted as 500 ±499
    wide = RecordedCount(**{**LINE, "tokens": 500, "estimate": 1000, "margin": 499})
    assert counted(1000, [wide]) == (1000, 0.35, "estimate")
    assert counted(1000, [replace(wide, tokens=1000, margin=249)]) == (1000, 0.349, "estimate")
    assert counted(1100, [replace(wide, tokens=900, margin=225)]) == (1100, 0.35, "estimate")


def test_the_text_in_front_of_tools_does_not_grow_with_the_prefix() -> None:
    # 1,000 tokens and a preamble of 400: an edit of 100 tokens is 110, or 115 at most, and not 140
    last = RecordedCount(**{**LINE, "tokens": 1400, "estimate": 1000, "margin": 0, "tools": True})
    assert counted(1100, [last], tools=True) == (1510, 0.1, "estimate")
    assert counted(1100, [replace(last, tokens=1050)], tools=True) == (1155, 0.1, "estimate")
    assert counted(1100, [replace(last, tokens=700)], tools=True) == (790, 0.1, "estimate")
    assert counted(1100, [replace(last, tokens=700, tools=False)]) == (770, 0.1, "estimate")


def test_a_marker_in_front_of_the_end_is_where_the_provider_counts_it(project: Project, provider: Provider) -> None:
    project.write({**FILES, "cacheunit.toml": settings("anthropic-messages")})
    calibrate(project, provider)
    project.build()
    request = json.loads(project.read("build/b@locale=de/t.json"))
    (shared, _) = entries(project)["b@locale=de"]["markers"]
    fragment = FORMATS["anthropic-messages"].counted({**request, "system": request["system"][:1]})
    provider.count(FORMATS["anthropic-messages"].append_user(fragment, "a"))
    true = provider.fronts[-1] - provider.role - provider.end
    assert abs(shared - true) < 0.02 * true


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 400), st.booleans())
def test_a_scale_gives_the_recorded_count_and_goes_back(tokens: int, estimate: int, inner: int, tools: bool) -> None:
    line = {**LINE, "tokens": tokens, "estimate": estimate, "margin": 0, "tools": tools}
    request = EstimatedRequest(
        body=b"{}", estimate=estimate, vocabulary=LINE["vocabulary"], margins=(0.5, 0.15), model="mock-1", tools=tools
    )
    count = RecordedCount(**{**line, "request": request.request})
    scale = request.counted("a", "t", RecordedCounts([count])).scale
    position = min(inner, estimate)
    assert scale(estimate) == tokens
    assert scale(0) == 0
    assert scale(position) <= tokens
    if tools and scale(position):
        assert abs(scale.inverse(scale(position)) - position) <= 1


def test_what_is_written_is_read_again() -> None:
    counts = RecordedCounts(RecordedCount(**{**LINE, "prefix": f"ü/{name}"}) for name in "cab")
    data = counts_bytes(counts)
    assert parse_counts(data, COUNTS).counts == counts.counts
    assert [json.loads(line).get("prefix") for line in data.splitlines()] == [None, "ü/a", "ü/b", "ü/c"]


_PIECES = st.sampled_from([*'{}[]:,"\n\0ü1', "true", "version", *LINE, *map(str, LINE.values())])
_TEXTS = st.lists(_PIECES, max_size=40).map(lambda parts: "".join(parts).encode())


@given(st.binary(max_size=80) | _TEXTS, st.booleans())
def test_any_bytes_are_counts_or_an_error_at_the_file(data: bytes, after_the_version: bool) -> None:
    data = b'{"version": 1}\n' * after_the_version + data
    faults: tuple[Fault, ...] = ()
    try:
        counts = parse_counts(data, COUNTS)
    except CacheunitError as error:
        faults = error.faults
    else:
        assert parse_counts(counts_bytes(counts), COUNTS).counts == counts.counts
    assert {fault.path for fault in faults} <= {COUNTS}
