"""Money in reports: by the price of a target or of a model, with the day of the data; never in an artifact or lock."""

from __future__ import annotations

import datetime as dt
import re
import socket
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.system import model_prices
from cacheunit_build.adapters.system.model_prices import price_list
from cacheunit_build.domain.prices import PriceList, TargetPrices
from cacheunit_build.domain.target import Target
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import Project

OWN = '[target.own]\nextends = "anthropic-1024"\nmodels = ["model-a"]\n'
TEXT = "Answer in one sentence, and name the order that you speak of.\n" * 200


@dataclass
class Listed:
    """A price list of two models."""

    source: str = "a list 1.0, data of 2026-11-03"

    def input_price(self, model: str) -> float | None:
        return {"model-a": 4.0, "gpt-5.2": 1.5, "claude-sonnet-5": 3.0}.get(model)

    def models(self) -> Sequence[str]:
        return ("model-a", "gpt-5.2", "claude-sonnet-5", "gpt-9")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[PriceList | None], None]:
    """Returns a function that installs a price list, or none."""

    def install(prices: PriceList | None) -> None:
        monkeypatch.setattr(model_prices, "price_list", lambda: prices)

    install(Listed())
    return install


@pytest.fixture
def changed(project: Project, tmp_path: Path) -> tuple[Project, Path]:
    """Returns a built project for one target with one model, and a copy of its sources before a change."""
    sources = {"prefixes/a.yaml": "system: a.j2\ntargets: [own]\n", "templates/a.j2": TEXT, "cacheunit.toml": OWN}
    project.write(sources)
    project.build()
    copy = tmp_path / "copy"
    for path, text in sources.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text)
    project.edit("templates/a.j2", TEXT, TEXT + "Be kind.\n" * 40)
    return project, copy


def diff(project: Project, copy: Path, *arguments: str) -> Any:  # noqa: ANN401 - a report
    """Returns the money of the only change, after a run of `diff` that may remark nothing."""
    ran = project.run("diff", "--against", copy, "--format", "json", *arguments)
    assert (ran.code, ran.err) == (1, "")
    (change,) = ran.json["changes"]
    return change["cost"]


@pytest.mark.usefixtures("listed")
def test_diff_shows_money_by_the_only_model_of_a_target_with_the_day_of_the_data(changed: tuple[Project, Path]) -> None:
    cost = diff(*changed)
    assert cost["per_million"] > 0
    assert cost["money"] == {
        "one_time": pytest.approx(cost["one_time"] * 4 / 1_000_000),
        "once": pytest.approx(cost["one_time"] * 4 / 1_000_000),
        "per_million": pytest.approx(cost["per_million"] * 4 / 1_000_000),
        "currency": "USD",
        "model": "model-a",
        "source": "a list 1.0, data of 2026-11-03",
    }
    project, copy = changed
    line = "own: 4.0 USD for a million uncached input tokens, model-a (a list 1.0, data of 2026-11-03)"
    for form in ("text", "markdown"):
        assert line in re.sub(r"[\\`]", "", project.run("diff", "--against", copy, "--format", form).out)


@pytest.mark.usefixtures("listed")
def test_the_price_of_the_project_wins(changed: tuple[Project, Path]) -> None:
    project, copy = changed
    project.write({"cacheunit.toml": OWN + 'price = {input = 2, currency = "EUR"}\n'})
    for arguments in ((), ("--model", "model-a")):
        money = diff(project, copy, *arguments)["money"]
        assert (money["currency"], "model" in money) == ("EUR", False)
    assert "price      2.0 EUR for a million" in project.run("explain", "a").out


@pytest.mark.usefixtures("listed")
def test_explain_shows_what_a_request_costs_cold_and_warm(changed: tuple[Project, Path]) -> None:
    project, _ = changed
    (artifact,) = project.run("explain", "a", "--model", "model-a", "--format", "json").json["artifacts"]
    tokens, cost = artifact["tokens"], artifact["cost"]
    assert (cost["uncached"], cost["cold"], cost["warm"]) == pytest.approx((tokens, tokens * 1.25, tokens * 0.1))
    assert cost["money"]["warm"] == pytest.approx(tokens * 0.1 * 4 / 1_000_000)
    assert (cost["money"]["currency"], cost["money"]["model"]) == ("USD", "model-a")
    text = project.run("explain", "a").out
    assert f"~{tokens * 0.1 * 4:,.4g} USD per 1M requests from a warm cache" in text
    assert "model-a (a list 1.0, data of 2026-11-03)" in text


def test_without_a_price_there_is_silence_unless_money_was_asked_for(
    changed: tuple[Project, Path], listed: Callable[[PriceList | None], None]
) -> None:
    project, copy = changed
    listed(None)
    assert diff(project, copy)["money"] is None
    ran = project.run("diff", "--against", copy, "--model", "model-a")
    assert (ran.code, ran.err) == (
        1,
        'note: prices of models are not installed; pip install "cacheunit-build[prices]"\n',
    )
    explained = project.run("explain", "a", "--model", "model-a")
    assert (explained.code, explained.err) == (0, ran.err)
    assert "money" not in explained.out


@pytest.mark.parametrize(
    ("targets", "model", "note"),
    [
        ("openai-legacy", "gpt-5.22", 'no target here lists the model "gpt-5.22"; did you mean "gpt-5.2"?'),
        ("openai-legacy", "gpt-5.4", 'there is no price of "gpt-5.4" (a list 1.0, data of 2026-11-03); did you mean'),
        ("groq", "model-b", 'there is no price of "model-b" (a list 1.0, data of 2026-11-03); did you mean "model-a"?'),
        ("openai", "x", 'no target here lists the model "x"'),
    ],
)
@pytest.mark.usefixtures("listed")
def test_an_unknown_model_is_a_note_with_a_similar_name(project: Project, targets: str, model: str, note: str) -> None:
    project.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [{targets}]\n", "templates/a.j2": TEXT})
    ran = project.run("explain", "a", "--model", model)
    assert ran.code == 0
    assert ran.err.startswith(f"note: {note}")
    assert ran.err.count("\n") == 1


def test_a_model_prices_the_targets_that_list_it_in_any_spelling_and_those_that_list_none() -> None:
    known = known_targets()
    prices = TargetPrices(Listed, "claude-sonnet-5")
    priced = {name for name, target in known.items() if prices.of(target) is not None}
    assert "anthropic-1024" in priced
    assert priced >= {name for name, target in known.items() if not target.model_ids}
    assert not priced & {"openai", "openai-legacy", "deepseek-v4", "anthropic-512"}
    assert not list(prices.notes(known.values()))


def test_several_models_and_none_asked_for_load_no_price_list() -> None:
    def load() -> PriceList | None:
        raise AssertionError

    prices = TargetPrices(load)
    target = Target(name="t", request="text", model_ids=("a", "b"))
    assert prices.of(target) is None
    assert not list(prices.notes([target]))
    counted = TargetPrices(Listed).of(replace(target, model_ids=("a", "model-a"), count_model="model-a"))
    assert counted is not None
    assert counted[0].input == 4


@pytest.mark.usefixtures("listed")
def test_money_stands_in_no_lock_and_changes_no_byte(changed: tuple[Project, Path]) -> None:
    project, copy = changed
    project.build()
    before = project.files()
    diff(project, copy, "--model", "model-a")
    project.run("explain", "a", "--model", "model-a")
    project.write({"cacheunit.toml": OWN + "price = {input = 9}\n"})
    project.build()
    assert {path: data for path, data in project.files().items() if path != "cacheunit.toml"} == {
        path: data for path, data in before.items() if path != "cacheunit.toml"
    }


@pytest.mark.usefixtures("listed")
def test_sharing_and_a_model_exclude_each_other(changed: tuple[Project, Path]) -> None:
    ran = changed[0].run("explain", "--sharing", "--model", "model-a")
    assert (ran.code, "it excludes --model" in ran.err) == (2, True)


def test_calibrate_shows_what_the_counted_tokens_cost(
    changed: tuple[Project, Path], listed: Callable[[PriceList | None], None]
) -> None:
    project, _ = changed
    report = project.run("calibrate", "--dry-run", "--format", "json").json
    price = {"target": "own", "model": "model-a", "input": 4.0, "currency": "USD"}
    assert report["prices"] == [price | {"source": "a list 1.0, data of 2026-11-03"}]
    text = project.run("calibrate", "--dry-run").out
    assert f"~{report['asked'][0]['estimate'] * 4 / 1_000_000:.4g} USD\n" in text
    assert "own: 4.0 USD for a million uncached input tokens, model-a (a list 1.0, data of 2026-11-03)\n" in text
    listed(None)
    assert "USD" not in project.run("calibrate", "--dry-run").out


# The package genai-prices


def test_the_installed_prices_need_no_network_and_name_their_day(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    prices = price_list(dt.date(2026, 12, 1))
    assert prices is not None
    assert re.fullmatch(r"genai-prices \d+\.\d+\.\d+, data of 20\d\d-\d\d-\d\d", prices.source)
    assert prices.input_price("gpt-4o") == 2.5
    assert prices.input_price("openai/gpt-4o") == 2.5
    assert prices.input_price("Claude Sonnet 4.5") == prices.input_price("claude-sonnet-4-5") == 3
    assert prices.input_price("no-such-model") is None
    assert prices.input_price("no/such/model") is None
    assert "gpt-4o" in prices.models()


def test_a_price_is_that_of_the_day() -> None:
    early, late = price_list(dt.date(2026, 1, 1)), price_list(dt.date(2026, 12, 1))
    assert early is not None
    assert late is not None
    assert early.input_price("deepseek-v4-pro") != late.input_price("deepseek-v4-pro")


def test_without_the_package_there_is_no_price_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert price_list() is None
