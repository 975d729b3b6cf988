"""What people try first works, or says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.runtime import loading

if TYPE_CHECKING:
    from conftest import Project

TOOL = """\
[{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}]
"""


@pytest.fixture
def agents(project: Project) -> Project:
    """Returns a project of four prefixes in two folders, one with variants, for two targets."""
    settings = 'targets = ["deepseek-v4", "small"]\n[target.small]\nextends = "deepseek-v4"\ncache = {unit = 16}\n'
    project.write(
        {
            "cacheunit.toml": settings,
            "prefixes/support/agent.yaml": "system: agent.j2\nmatrix: {language: [en, 日本語]}\n",
            "prefixes/support/desk.yaml": "system: rules.j2\n",
            "prefixes/review/summary.yaml": "system: rules.j2\n",
            "prefixes/solo.yaml": "system: rules.j2\n",
            "templates/agent.j2": "You answer in {{ language }}. {% include 'rules.j2' %}",
            "templates/rules.j2": "Never guess, and name your sources.\n",
        }
    )
    project.build()
    return project


def names(project: Project, *arguments: str) -> set[str]:
    """Returns the prefixes that a build of these names reports."""
    return {item["prefix"] for item in project.run("build", *arguments, "--format", "json").json["artifacts"]}


def test_the_default_target_counts_tools_exactly(project: Project) -> None:
    files = {"prefixes/a.yaml": "system: a.j2\ntools: [tools.json]\n", "templates/a.j2": "You find things.\n"}
    project.write({**files, "tools.json": TOOL})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert (artifact["target"], artifact["counted"], artifact["margin"]) == ("deepseek-v4", "exact", 0)


def test_check_looks_at_each_target_that_is_named(agents: Project) -> None:
    agents.path("build/solo/deepseek-v4.txt").unlink()
    assert agents.run("check", "--target", "deepseek-v4", "--target", "small").code == 1
    assert agents.run("check", "--target", "small").code == 0


@pytest.mark.parametrize("name", ["support", "support/", "support/**", "support/*"])
def test_folders_and_globs_are_names(agents: Project, name: str) -> None:
    assert {prefix.partition("@")[0] for prefix in names(agents, name)} == {"support/agent", "support/desk"}


def test_options_stand_behind_the_command_too(agents: Project) -> None:
    assert agents.run("build", "-q").code == agents.run("-q", "build").code == 0


def test_a_build_with_nothing_to_do_prints_one_line(agents: Project) -> None:
    assert agents.build().out.count("\n") == 1


def test_a_known_target_is_changed_in_place(agents: Project) -> None:
    small = '[target.small]\nextends = "deepseek-v4"\n'
    frame = f'targets = ["deepseek-v4"]\n{small}[target.deepseek-v4.frame]\nbefore = "<s>"\nafter = "<u>"\n'
    agents.write({"cacheunit.toml": frame})
    tokens = agents.run("build", "--format", "json").json["artifacts"][0]["tokens"]
    agents.write({"cacheunit.toml": frame.replace("<s>", "<s> and much more than that")})
    assert agents.run("build", "--format", "json").json["artifacts"][0]["tokens"] > tokens


def test_ids_of_api_models_are_targets(agents: Project) -> None:
    agents.write({"prefixes/solo.yaml": "system: rules.j2\ntargets: [claude-sonnet-4-5, gpt-5.2]\n"})
    ran = agents.run("check", "solo")
    assert "unknown target" not in ran.err
    agents.write({"prefixes/solo.yaml": "system: rules.j2\ntargets: [claude-sonet-4-5]\n"})
    ran = agents.run("check", "solo")
    assert (ran.code, 'did you mean "claude-sonnet-4-5"?' in ran.err) == (2, True)


def test_an_encoder_with_a_hash_is_not_run_where_nothing_changed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"prefixes/a.yaml": "system: a.j2\ntools: [tools.json]\n", "templates/a.j2": "You find things.\n"}
    project.write({**files, "tools.json": TOOL})
    project.build()

    def fail(*_: object) -> None:
        raise AssertionError("the encoder is loaded")

    monkeypatch.setattr("cacheunit_build.cli.project_code.encoder_loader", lambda *_, **__: fail)
    assert project.run("check").code == 0


def test_values_of_variants_are_written_as_people_write_them(agents: Project) -> None:
    ran = agents.run("show", "support/agent@language=日本語", "--target", "small")
    assert ran.out.startswith("You answer in 日本語.")


def test_load_without_a_variant_names_the_axes(agents: Project) -> None:
    with pytest.raises(CacheunitError, match=r"has variants: set language="):
        loading.load("support/agent", root=agents.root, target="small")


def test_a_template_that_calls_a_method_is_told_where_its_value_comes_from(agents: Project) -> None:
    agents.write(
        {
            "prefixes/solo.yaml": "system: solo.j2\nvariables: {tool: {name: find}}\n",
            "templates/solo.j2": "{{ tool.to_prompt() }}",
        }
    )
    error = agents.run("build").err
    assert "templates/solo.j2:1: " in error
    assert "values are plain data without methods" in error
    assert 'the variable "tool" of prefixes/solo.yaml' in error
