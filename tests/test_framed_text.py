"""The text that a model reads is divided into parts, cache units and source lines, and no character is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.diff.framed_text import FramedText, framed_text
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.selection import Selection

if TYPE_CHECKING:
    from conftest import Project

    from cacheunit_build.domain.artifact import Artifact

TOOLS = (
    '[{"type": "function", "function": {"name": "find", "description": "Find a page.", "parameters": {"type": "object",'
    ' "properties": {}}}},\n{"type": "function", "function": {"name": "order", "parameters": {"type": "object",'
    ' "properties": {}}}}]\n'
)


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project of one prefix with tools, two partials and an example, and one of an estimate."""
    project.write(
        {
            "cacheunit.toml": 'targets = ["deepseek-v4"]\n',
            "prefixes/agent.yaml": "system: agent.j2\npadding: always\ntools: [tools.json]\n"
            "examples:\n- {role: user, text: 日本?}\n- {role: assistant, text: Yes.}\n",
            "prefixes/guess.yaml": "system: agent.j2\ntargets: [openai]\n",
            "templates/agent.j2": "You are kind.\n{% include 'rules.j2' %}\n日本語で答える。\n",
            "templates/rules.j2": "Never guess.\nName your sources.\n",
            "tools.json": TOOLS,
        }
    )
    return project


def divided(project: Project, name: str, still_cached: int | None = None) -> tuple[Artifact, FramedText]:
    """Returns an artifact of a project, and its text in parts."""
    context = Context(project.root, quiet=True, verbose=False)
    adapters = context.adapters()
    compiled = compile_or_fail(adapters, Selection(names=(name,)))
    (artifact,) = compiled.artifacts
    return artifact, framed_text(Snapshot(compiled, adapters.files), artifact, still_cached)


def text_of(text: FramedText, part: str) -> str:
    """Returns the characters of one part."""
    return "".join(run.text for line in text.lines for run in line.runs if run.part == part)


def test_every_character_of_the_framed_prefix_is_in_one_run(shop: Project) -> None:
    for name in ("agent", "guess"):
        artifact, text = divided(shop, name)
        assert "".join(run.text for line in text.lines for run in line.runs) == artifact.framed_prefix
        assert all(line.runs[-1].text.endswith("\n") for line in text.lines[:-1])


def test_the_parts_are_those_of_the_request(shop: Project) -> None:
    artifact, text = divided(shop, "agent")
    assert text_of(text, "system") + text_of(text, "padding") == artifact.text.decode()
    assert text_of(text, "padding") == artifact.padding_text != ""
    assert text_of(text, "examples") == "日本?Yes."
    assert "Find a page." in text_of(text, "tools")
    assert "kind" not in text_of(text, "tools")
    assert text_of(text, "frame").startswith("<｜begin▁of▁sentence｜>")


def test_units_have_as_many_tokens_as_the_target_says(shop: Project) -> None:
    artifact, text = divided(shop, "agent")
    assert len(text.offsets) - 1 >= artifact.entry.tokens
    runs = [run for line in text.lines for run in line.runs]
    firsts = {run.unit: run.token for run in reversed(runs) if run.unit is not None}
    assert firsts == {unit: unit * 128 for unit in range(artifact.entry.tokens // 128)}
    assert [run.is_static for run in runs] == [run.token < artifact.entry.tokens for run in runs]


def test_the_tokens_of_an_old_entry_are_cached_and_the_others_are_not(shop: Project) -> None:
    _, text = divided(shop, "agent", 128)
    for line in text.lines:
        for run in line.runs:
            assert run.is_cached == (None if not run.is_static else run.token < 128)
    _, unknown = divided(shop, "agent")
    assert {run.is_cached for line in unknown.lines for run in line.runs} == {None}


def test_each_line_has_the_source_that_it_comes_from_and_what_brings_it_in(shop: Project) -> None:
    _, text = divided(shop, "agent")
    places = {
        "".join(run.text for run in line.runs).strip(): [f"{source.path}:{source.line}" for source in line.sources]
        for line in text.lines
    }
    assert places["Name your sources."] == ["templates/rules.j2:2", "templates/agent.j2:2", "prefixes/agent.yaml:1"]
    assert places["日本語で答える。"][0] == "templates/agent.j2:3"
    (order,) = (sources for line, sources in places.items() if '"name": "order"' in line)
    assert order == ["tools.json:2", "prefixes/agent.yaml:3"]


def test_an_estimate_has_no_units(shop: Project) -> None:
    _, text = divided(shop, "guess")
    assert text.offsets == ()
    assert {(run.unit, run.is_cached) for line in text.lines for run in line.runs} == {(None, None)}
