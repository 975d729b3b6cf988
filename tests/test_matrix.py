"""The matrix of a manifest leaves out and adds combinations, for all targets or for some, as in CI systems."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import expanded

from cacheunit_build import load
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.manifest import manifest_schema, parse_manifest
from cacheunit_build.parsing.variants import expand
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from conftest import Project

EXISTS = 'remove the entry, exclude the combination first, or name other targets with "target"'
TARGETS = ("anthropic-1024", "openai", "gemini")
AXES = "family: [claude, gpt], mode: [plan, act]"
PROJECT = {
    "cacheunit.toml": 'targets = ["one", "two"]\n'
    + "".join(
        f'[target.{name}]\nextends = "deepseek-v4"\n[target.{name}.cache]\nunit = 16\n' for name in ("one", "two")
    ),
    "templates/a.md.j2": "{{ family }} in mode {{ mode }}.\n",
    "prefixes/p.yaml": f"system: a.md.j2\nmatrix:\n  {AXES.replace(', mode', chr(10) + '  mode')}\n",
}
EXCLUDED = "  exclude:\n    - {family: gpt, mode: plan}\n    - {family: claude, target: two}\n"
INCLUDED = "  include:\n    - {family: gemini, mode: act, target: two}\n"


def variants(matrix: str) -> dict[str, list[str]]:
    """Returns the axis values of each variant -> its targets."""
    manifest = parse_manifest(f"system: a\nmatrix: {{{matrix}}}\n".encode(), name="p", path="prefixes/p.yaml")
    expansion = expanded(manifest, *TARGETS)
    return {" ".join(map(str, variant.axes.values())): list(variant.targets) for variant in expansion}


def faults(matrix: str, *targets: str) -> list[str]:
    """Returns line, message and hint of each fault of a matrix that is written on several lines."""
    with pytest.raises(CacheunitError) as caught:
        expanded(parse_manifest(f"matrix:\n{matrix}".encode(), name="p", path="prefixes/p.yaml"), *targets or TARGETS)
    return [f"{fault.line}: {fault.message} | {fault.hint}" for fault in caught.value.faults]


def axes_and(entries: str) -> str:
    """Returns a matrix whose axes are on the lines 2 and 3, and then these lines."""
    return f"  family: [claude, gpt]\n  mode: [plan, act]\n{entries}\nsystem: a\n"


def built(project: Project) -> dict[str, list[str]]:
    """Returns the variants that `build` reports, by target."""
    report = project.run("build", "--format", "json").json
    assert report["errors"] == []
    result: dict[str, list[str]] = {}
    for artifact in report["artifacts"]:
        result.setdefault(artifact["target"], []).append(artifact["prefix"].partition("@")[2])
    return result


def test_exclude_removes_the_combinations_that_match_all_its_values() -> None:
    every = list(TARGETS)
    assert variants(f"{AXES}, exclude: [{{family: gpt, mode: plan}}]") == {
        "claude plan": every, "claude act": every, "gpt act": every,
    }  # fmt: skip
    assert list(variants(f"{AXES}, exclude: [{{mode: plan}}]")) == ["claude act", "gpt act"]
    assert list(variants(f"{AXES}, exclude: [{{family: [claude, gpt], mode: [plan]}}]")) == ["claude act", "gpt act"]


def test_exclude_with_a_target_removes_them_for_the_targets_that_it_names_alone() -> None:
    entries = "{family: claude, target: 'o*'}, {family: gpt, target: [gemini, '*c-[0-9]*']}"
    assert variants(f"{AXES}, exclude: [{entries}]") == {
        "claude plan": ["anthropic-1024", "gemini"], "claude act": ["anthropic-1024", "gemini"],
        "gpt plan": ["openai"], "gpt act": ["openai"],
    }  # fmt: skip


def test_a_combination_without_a_target_is_no_variant() -> None:
    matrix = (
        f"{AXES}, exclude: [{{family: gpt, target: openai}}, {{family: gpt, mode: act, target: [anthropic*, gemini]}}]"
    )
    assert list(variants(matrix)) == ["claude plan", "claude act", "gpt plan"]


def test_include_adds_combinations_of_known_or_new_values_after_all_others() -> None:
    entries = "{family: gemini, mode: act, target: gemini}, {mode: plan, family: gpt, target: openai}"
    assert variants(f"{AXES}, exclude: [{{family: gpt}}], include: [{entries}]") == {
        "claude plan": list(TARGETS), "claude act": list(TARGETS), "gemini act": ["gemini"], "gpt plan": ["openai"],
    }  # fmt: skip


def test_include_can_bring_back_an_excluded_combination_for_another_target() -> None:
    matrix = f"{AXES}, exclude: [{{target: openai}}], include: [{{family: gpt, mode: act, target: openai}}]"
    assert variants(matrix)["gpt act"] == list(TARGETS)
    assert variants(matrix)["gpt plan"] == ["anthropic-1024", "gemini"]


@pytest.mark.parametrize("pattern", ["MODEL", "OTHER", "NAME", "MODEL*", "NAME*"])
def test_a_target_is_matched_by_its_name_its_models_and_what_the_manifest_calls_it(pattern: str) -> None:
    target = next(target for target in known_targets().values() if len(target.model_ids) > 1)
    model, other, *_ = target.model_ids
    pattern = pattern.replace("MODEL", model).replace("OTHER", other).replace("NAME", target.name)
    text = f"system: a\ntargets: [{model}]\nmatrix: {{m: [1, 2], exclude: [{{m: 1, target: '{pattern}'}}]}}"
    manifest = parse_manifest(text.encode(), name="p", path="prefixes/p.yaml")
    ((variant),) = expand(manifest, {model: target})
    assert (variant.axes, variant.targets) == ({"m": 2}, (target.name,))


def test_values_of_different_types_that_python_takes_for_equal_are_told_apart() -> None:
    assert variants("n: [1, true, 0, false], exclude: [{n: true}, {n: 0}]") == {
        "1": list(TARGETS),
        "False": list(TARGETS),
    }


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            "  exclude: [{family: [claude, gpt]}]",
            "4: every combination is excluded | leave one for at least one target",
        ),
        (
            "  exclude: [{mode: plan}, {mode: act, target: '*'}]",
            "4: every combination is excluded | leave one for at least one target",
        ),
        (
            "  exclude:\n  - {mode: plan}\n  - {mode: acts}",
            '6: axis "mode" has no value "acts", so nothing is excluded | did you mean "act"?',
        ),
        (
            "  exclude: [{mode: zz}]",
            '4: axis "mode" has no value "zz", so nothing is excluded | its values are plan, act',
        ),
        ("  exclude: [{modes: act}]", '4: the matrix has no axis "modes" | did you mean "mode"?'),
        ("  exclude: [{targets: openai}]", '4: the matrix has no axis "targets" | did you mean "target"?'),
        (
            "  include: [{q: act, family: gpt, mode: act2}]",
            '4: the matrix has no axis "q" | it has family, mode, target',
        ),
        (
            "  exclude:\n  - mode: act\n    target: [gemini, openia]",
            '6: "openia" matches no target of the manifest | did you mean "openai"?',
        ),
        (
            "  exclude: [{mode: act, target: 'OPENAI*'}]",
            '4: "OPENAI*" matches no target of the manifest | its targets are anthropic-1024, openai, gemini',
        ),
        (
            "  exclude: [{mode: act, target: vllm}]",
            '4: "vllm" matches no target of the manifest | its targets are anthropic-1024, openai, gemini',
        ),
        ("  exclude: [{}]", "4: the entry names no axis and no target | name the values that are left out"),
        ("  exclude: [{mode: []}]", '4: "mode" must not be empty | None'),
        ("  exclude: [{mode: [act, act]}]", '4: "mode" names the value "act" twice | None'),
        ("  exclude: [{mode: {a: b}}]", '4: a value of axis "mode" is not text, number or boolean | None'),
        ("  exclude: [{mode: }]", '4: a value of axis "mode" is not text, number or boolean | None'),
        ('  exclude: [{mode: ""}]', '4: a value of axis "mode" is empty | None'),
        ("  exclude: {mode: act}", '4: "matrix.exclude" must be a list | None'),
        (
            "  exclude: [plan, act]",
            '4: "matrix.exclude" must be a list of mappings | it lists combinations, and cannot name an axis',
        ),
        (
            "  exclude: [{mode: act, target: 3}]",
            '4: "target" must be the name of a target, a glob, or a list of them | None',
        ),
        ("  exclude: [{mode: act, target: []}]", '4: "target" must not be empty | None'),
        (
            "  exclude: [{mode: act, target: [openai, openai]}]",
            '4: target "openai" is named twice | remove one of them',
        ),
        (
            "  exclude:\n  - {mode: act}\n  - {mode: [act]}",
            "6: the entry repeats the one on line 5 | remove one of them",
        ),
        (
            "  include: [{family: gemini}]",
            '4: axis "mode" not given | an included combination has a value for each axis',
        ),
        (
            "  include: [{family: gemini, mode: [act, plan]}]",
            '4: "mode" must be one value | add an entry for each value',
        ),
        (
            "  include: [{family: gpt, mode: act}]",
            f'4: variant "p@family=gpt,mode=act" already exists for target "anthropic-1024" | {EXISTS}',
        ),
        (
            "  exclude: [{mode: act, target: openai}]\n  include: [{family: gpt, mode: act, target: [gemini, openai]}]",
            f'5: variant "p@family=gpt,mode=act" already exists for target "gemini" | {EXISTS}',
        ),
        (
            "  include: [{family: g, mode: x}, {mode: x, family: g}]",
            "4: the entry repeats the one on line 4 | remove one of them",
        ),
        (
            "  include: [{family: GPT, mode: act}]",
            (
                '4: values "gpt" and "GPT" of axis "family" differ only in letter case'
                " | use another value: on some systems, their folders are one"
            ),
        ),
        (
            "  n: [1]\n  include: [{family: gpt, mode: act, n: '1'}]",
            '5: axis "n" has the value "1" already, as a number, not text | write both alike',
        ),
        (
            "  target: [x]\n  exclude: [{mode: act}]",
            '5: axis "target" is not possible together with "exclude" | rename it: "target" names targets there',
        ),
    ],
)
def test_an_entry_that_is_wrong_or_changes_nothing_is_one_fault_at_its_line(entries: str, expected: str) -> None:
    assert faults(axes_and(entries)) == [expected]


def test_an_entry_with_several_faults_has_one_for_each() -> None:
    assert faults(axes_and("  include:\n  - {}\n  - {family: x, mode: y}\n  - {mode: y, family: x}")) == [
        '5: axes "family", "mode" not given | an included combination has a value for each axis',
        "7: the entry repeats the one on line 6 | remove one of them",
    ]


def test_a_matrix_of_entries_alone_is_refused() -> None:
    assert faults("  include: [{family: gpt}]\nsystem: a\n") == [
        '2: "matrix.include" needs an axis | give the matrix an axis: a name with a list of values'
    ]


def test_an_axis_may_be_named_target_as_long_as_no_entry_needs_that_word() -> None:
    assert list(variants("target: [x, y]")) == ["x", "y"]


def test_all_faults_of_all_entries_are_reported_with_their_lines() -> None:
    entries = "  exclude:\n  - {mode: acts}\n  - {family: gpt, target: [a, b]}\n  - 3\n  include:\n  - {family: x}"
    assert [fault.partition(":")[0] for fault in faults(axes_and(entries))] == ["5", "7", "9"]
    entries = "  exclude:\n  - {family: gpt, target: [a, b]}\n  include:\n  - {family: x, mode: act, target: c}"
    assert [fault.partition(":")[0] for fault in faults(axes_and(entries))] == ["5", "5", "7"]


def test_a_folder_of_an_included_combination_is_held_to_the_rules_of_all_folders() -> None:
    ((long),) = faults(axes_and(f"  include: [{{family: gpt, mode: {'x' * 300}}}]"))
    assert long.startswith("4: the name of a variant is too long: 318 bytes")
    ((dot),) = faults(axes_and('  include: [{family: gpt, mode: "x."}]'))
    assert dot.startswith('4: value "x." of axis "mode" ends with a dot, which Windows removes')


def test_very_many_combinations_and_entries_are_counted_and_not_built() -> None:
    many = ", ".join(f"a{index}: [x, y]" for index in range(12))
    values = ", ".join(f"a{index}: x" for index in range(12))
    assert len(variants(f"{many}, exclude: [{{{values}}}]")) == 4095
    new = values.replace("a0: x", "a0: z")
    ((over),) = faults(f"  {many.replace(', a', chr(10) + '  a')}\n  include: [{{{new}}}]\nsystem: a\n")
    assert over.startswith("1: the matrix has 4097 variants, more than 4096")
    entries = ", ".join(f"{{a: x{index}}}" for index in range(1_001))
    assert faults(f"  a: [x]\n  exclude: [{entries}]\nsystem: a\n") == [
        '3: "matrix.exclude" has 1,001 entries, more than 1,000 | None'
    ]
    wrong = ", ".join(f"{{a: y{index}, target: t{index}}}" for index in range(1_000))
    assert len(faults(f"  a: [x]\n  exclude: [{wrong}]\nsystem: a\n")) == 51
    globs = ", ".join(f"t{index}*" for index in range(1_001))
    assert faults(f"  a: [x]\n  exclude: [{{target: [{globs}]}}]\nsystem: a\n") == [
        '3: "matrix.exclude" names 1,001 targets, more than 1,000 | None'
    ]


def test_the_json_schema_knows_exclude_and_include() -> None:
    matrix = manifest_schema()["properties"]["matrix"]
    assert matrix["properties"].keys() == {"exclude", "include"}
    assert matrix["properties"]["include"]["items"]["additionalProperties"] == {
        "type": ["string", "integer", "boolean"]
    }
    json.dumps(matrix)


VALUES = st.lists(st.sampled_from(["x", "y", 1, True, 0]), min_size=1, max_size=3, unique_by=lambda v: str(v).lower())


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, Any]:
    """Returns a matrix of two axes with entries that name their values."""
    axes: dict[str, Any] = {"a": draw(VALUES), "b": draw(VALUES)}
    target = st.sampled_from(["openai", "*", "g*", "[!o]*"])
    exclude = st.fixed_dictionaries(
        {"target": target},
        optional={name: st.lists(st.sampled_from(values), min_size=1, unique_by=repr) for name, values in axes.items()},
    )
    include = st.fixed_dictionaries(
        {"target": target, **{name: st.sampled_from([*values, "new"]) for name, values in axes.items()}}
    )
    return {**axes, "exclude": draw(st.lists(exclude, max_size=3)), "include": draw(st.lists(include, max_size=2))}


def expected_artifacts(matrix: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the values and the target of each artifact of a matrix, one by one; one may be there twice."""
    artifacts = [
        (repr(a), repr(b), target)
        for a in matrix["a"]
        for b in matrix["b"]
        for target in TARGETS
        if not any(
            fnmatchcase(target, entry["target"])
            and repr(a) in map(repr, entry.get("a", [a]))
            and repr(b) in map(repr, entry.get("b", [b]))
            for entry in matrix["exclude"]
        )
    ]
    artifacts += [
        (repr(entry["a"]), repr(entry["b"]), target)
        for entry in matrix["include"]
        for target in TARGETS
        if fnmatchcase(target, entry["target"])
    ]
    return sorted((f"{a} {b}", target) for a, b, target in artifacts)


@given(matrices())
def test_a_matrix_gives_the_artifacts_that_its_entries_leave_and_add(matrix: dict[str, Any]) -> None:
    expected = expected_artifacts(matrix)
    manifest_text = json.dumps({"system": "a", "matrix": matrix}).encode()
    try:
        variants = expanded(parse_manifest(manifest_text, name="p", path="prefixes/p.yaml"), *TARGETS)
    except CacheunitError as error:
        repeated = any("repeats the one" in fault.message for fault in error.faults)
        assert repeated or not expected or len(set(expected)) < len(expected)
        return
    artifacts = [(" ".join(map(repr, item.axes.values())), target) for item in variants for target in item.targets]
    assert sorted(artifacts) == expected


# In a project


def test_build_compiles_each_combination_for_its_targets_and_check_agrees(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{EXCLUDED}{INCLUDED}")
    assert built(project) == {
        "one": ["family=claude,mode=act", "family=claude,mode=plan", "family=gpt,mode=act"],
        "two": ["family=gemini,mode=act", "family=gpt,mode=act"],
    }
    assert project.read("build/p@family=gemini,mode=act/two.txt").startswith(b"gemini in mode act.\n")
    assert project.drift() == []
    assert "up to date" in project.run("build").out or project.run("build").code == 0
    assert project.run("build", "--locked").code == 0
    assert project.run("diff").out == ""


def test_an_artifact_that_becomes_excluded_is_drift_for_check_and_removed_by_build(project: Project) -> None:
    project.write(PROJECT)
    project.build()
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{EXCLUDED}")
    gone = ["p@family=claude,mode=act", "p@family=claude,mode=plan", "p@family=gpt,mode=plan", "p@family=gpt,mode=plan"]
    assert project.drift() == [("removed", name) for name in gone]
    report = project.run("build", "--format", "json").json
    assert [item["prefix"] for item in report["removed"]] == gone
    assert [path for path in project.files("build") if "plan" in path] == [
        "build/p@family=claude,mode=plan/one.json", "build/p@family=claude,mode=plan/one.txt",
    ]  # fmt: skip
    assert project.drift() == []


def test_parts_are_built_by_variant_and_target_and_a_missing_combination_is_an_error(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{EXCLUDED}{INCLUDED}")
    project.build()
    assert project.run("check", "p@family=gpt,mode=act", "--target", "two").code == 0
    project.edit("templates/a.md.j2", "in mode", "in the mode")
    project.build("p", "--target", "two")
    assert {name for _, name in project.drift()} == {
        "p@family=claude,mode=act", "p@family=claude,mode=plan", "p@family=gpt,mode=act",
    }  # fmt: skip
    project.build("p@family=claude,mode=act", "p@family=claude,mode=plan", "p@family=gpt,mode=act")
    assert project.drift() == []
    missing = project.run("build", "p@family=gpt,mode=plan")
    assert (missing.code, missing.err.splitlines()[0]) == (2, 'error: there is no variant "p@family=gpt,mode=plan"')
    other = project.run("build", "p@family=claude,mode=act", "--target", "two")
    assert (other.code, other.err.splitlines()[0]) == (2, 'error: nothing is compiled for target "two"')


def test_sources_of_an_included_value_are_shown_at_its_entry(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{INCLUDED}")
    shown = project.run("show", "p@family=gemini,mode=act", "--target", "two", "--sources")
    assert shown.code == 0, shown.err
    assert "prefixes/p.yaml:6" in shown.out


def test_a_target_may_be_left_without_any_combination(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", "act]\n  exclude: [{target: two}]\n")
    assert built(project).keys() == {"one"}
    assert project.drift() == []
    assert {item["status"] for item in project.run("build", "--format", "json").json["artifacts"]} == {"unchanged"}


def test_lint_of_one_target_does_not_judge_what_only_other_variants_use(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{EXCLUDED}{INCLUDED}")
    project.edit("templates/a.md.j2", "{{ mode }}", "{% if family == 'claude' %}{{ mode }}{% endif %}")
    assert "CU501" not in project.run("lint").out
    assert "CU501" not in project.run("lint", "--target", "two").out


SHARED = "".join(f"Rule {index}: answer in short and plain sentences, and name the source.\n" for index in range(60))


def test_lint_compares_the_variants_of_one_target_alone(project: Project) -> None:
    project.write(PROJECT)
    start = "{% if family == 'gpt' %}You are another one.\n\n{% endif %}"
    project.write({"templates/a.md.j2": f"{start}{SHARED}\n{{{{ family }}}} in mode {{{{ mode }}}}.\n"})
    assert "CU405" in project.run("lint").out
    apart = "  exclude:\n    - {family: gpt, target: one}\n    - {family: claude, target: two}\n"
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{apart}")
    ran = project.run("lint")
    assert (ran.code, "CU405" in ran.out) == (0, False)


def test_lint_compares_prefixes_by_the_first_variant_for_their_target(project: Project) -> None:
    project.write(PROJECT)
    project.write({"templates/a.md.j2": f"{{{{ family }}}} in mode {{{{ mode }}}}.\n\n{SHARED}"})
    project.write({"prefixes/q.yaml": "system: q.md\ntargets: [two]\n", "templates/q.md": f"Alone.\n\n{SHARED}"})
    project.edit("prefixes/p.yaml", "act]\n", "act]\n  exclude: [{family: claude, target: two}]\n")
    found = project.run("lint", "--select", "CU406", "--format", "json").json["findings"]
    assert [item["message"].partition(" diverge")[0] for item in found] == ["p@family=gpt,mode=plan and q"]


def test_load_names_the_values_that_go_with_those_given(project: Project) -> None:
    project.write(PROJECT)
    project.edit("prefixes/p.yaml", "act]\n", f"act]\n{EXCLUDED}{INCLUDED}")
    project.build()
    assert load("p", root=str(project.root), family="gemini", mode="act").target == "two"
    with pytest.raises(CacheunitError) as caught:
        load("p", root=str(project.root), family="gpt")
    assert caught.value.faults[0].hint == "family is one of gpt; mode is one of act"
    with pytest.raises(CacheunitError) as caught:
        load("p", root=str(project.root))
    assert caught.value.faults[0].hint == "family is one of claude, gemini, gpt; mode is one of act, plan"
    with pytest.raises(CacheunitError, match='no prefix "p@family=gpt,mode=plan" is locked'):
        load("p", root=str(project.root), family="gpt", mode="plan")
    with pytest.raises(CacheunitError) as caught:
        load("p", root=str(project.root), target="two", family="claude", mode="act")
    assert caught.value.faults[0].hint == "it is locked for one"
