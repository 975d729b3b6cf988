"""Manifests: their variants have names that are valid on every file system, and all faults are reported at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import expanded

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.manifest import manifest_schema, parse_manifest
from cacheunit_build.parsing.settings import parse_settings

if TYPE_CHECKING:
    from cacheunit_build.domain.manifest import Manifest


def manifest(text: str) -> Manifest:
    """Returns the parsed manifest of a prefix "p"."""
    return parse_manifest(text.encode(), name="p", path="prefixes/p.yaml")


def reported(text: str) -> list[str]:
    """Returns line and message of each fault of a manifest."""
    with pytest.raises(CacheunitError) as caught:
        manifest(text)
    return [f"{fault.line}: {fault.message}" for fault in caught.value.faults]


def test_axes_in_the_name_of_a_variant_are_sorted_by_code_point() -> None:
    parsed = manifest("system: a\nmatrix: {plan: [pro, free], locale: [en]}")
    assert [variant.name for variant in expanded(parsed)] == ["p@locale=en,plan=pro", "p@locale=en,plan=free"]
    assert expanded(parsed)[0].axes == {"locale": "en", "plan": "pro"}


def test_values_in_the_name_of_a_variant_are_valid_on_every_file_system() -> None:
    parsed = manifest('system: a\nmatrix: {v: ["a/b", "x,y=z", "ä", true, 12, "..a", "a b"]}')
    assert [variant.name for variant in expanded(parsed)] == [
        "p@v=a%2Fb", "p@v=x%2Cy%3Dz", "p@v=%C3%A4", "p@v=true", "p@v=12", "p@v=..a", "p@v=a%20b",
    ]  # fmt: skip


def test_without_a_matrix_the_only_variant_has_the_name_of_the_prefix() -> None:
    assert [variant.name for variant in expanded(manifest("system: a"))] == ["p"]


def test_all_faults_are_reported_at_once_each_with_its_line() -> None:
    text = (
        "system: 3\ntargts: [a]\nbudget: 1e3\npadding: sometimes\nvariables: [a]\ndata: {d: 5}\nexamples: [{role: x}]\n"
    )
    assert reported(text) == [
        '1: "system" must be text or a list, not 3',
        '2: unknown key "targts"',
        "3: \"budget\" must be a whole number, not '1e3'",
        "4: \"padding.mode\" must be 'auto', 'always' or 'off', not 'sometimes'",
        '5: "variables" must be a mapping',
        '6: "data.d" must be text, not 5',
        "7: \"examples[0].role\" must be 'user', 'assistant' or 'tool', not 'x'",
    ]


def test_faults_that_the_schema_cannot_express_are_reported_at_once_too() -> None:
    text = "targets: [a, a]\nvariables: {if: 1, x: 2}\ndata: {x: ../d, y: /e}\nmatrix: {m: [], n: [1, '1', [2]]}\n"
    assert reported("system: a\n" + text) == [
        '2: target "a" is named twice',
        '3: "if" is not a valid variable name',
        '4: variable "x" is in both "data" and "variables"',
        '4: path "../d" leaves its folder by ".."',
        '4: path "/e" is absolute',
        '5: axis "m" has no value',
        '5: axis "n" has the value "1" twice',
        '5: a value of axis "n" is not text, number or boolean',
    ]


def test_a_prefix_may_consist_of_tools_alone_but_not_of_nothing() -> None:
    assert manifest("tools: [t.json]").system == ()
    assert reported("description: x") == ['1: key "system" is missing']


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("{mode: off, hits_per_miss: 3}", '"padding.hits_per_miss" has no effect with "mode: off"'),
        ("{mode: always, reuses: 3}", '"padding.hits_per_miss" has no effect with "mode: always"'),
        (
            "{reuses: 3, hits_per_miss: 3}",
            '"padding.reuses" is the former name of "padding.hits_per_miss": both are set',
        ),
        ("{mode: off, floor: true, reuses: 3}", '"floor: true" and "mode: off" contradict each other'),
        ("{floor: true, reuses: 0}", '"padding.hits_per_miss" must be greater than or equal to 1, not 0'),
    ],
)
def test_padding_options_that_contradict_each_other_or_have_no_effect_are_refused(options: str, fault: str) -> None:
    assert reported(f"system: a\npadding: {options}") == [f"2: {fault}"]


def test_the_json_schema_has_every_key_and_both_short_forms() -> None:
    schema = manifest_schema()
    keys = {"description", "targets", "system", "tools", "examples", "variables", "data", "matrix", "padding", "cache"}
    assert set(schema["properties"]) == keys | {"special_tokens", "budget", "options", "strip"}
    assert {"type": "string"} in schema["properties"]["system"]["anyOf"]
    assert {"enum": ["auto", "always", "off"]} in schema["properties"]["padding"]["anyOf"]
    assert schema["additionalProperties"] is False
    json.dumps(schema)


def test_keys_that_begin_with_x_are_ignored_and_their_anchors_work() -> None:
    text = "x-common: &common {product: Acme, tone: calm}\nx-: 1\nx-targets: &t [openai]\n"
    text += "system: a\ntargets: *t\nvariables:\n  <<: *common\n  tone: brisk\n"
    parsed = manifest(text)
    assert parsed.variables == {"product": "Acme", "tone": "brisk"}
    assert parsed.targets == ("openai",)
    assert "^x-" in manifest_schema()["patternProperties"]


def test_keys_that_begin_with_x_are_still_read_within_limits_and_refused_elsewhere() -> None:
    bomb = "x-a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for name, before in zip("bcdefg", "abcdef", strict=True):
        bomb += f"x-{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    assert reported(f"{bomb}system: a\n") == ["1: aliases repeat more than 100,000 values"]
    assert reported("x-a: 1\nx-a: 2\nsystem: a\n") == ['2: duplicate key "x-a", first on line 1']
    assert reported("system: a\npadding: {x-a: 1}\nX-b: 1\nxa: 1") == [
        '2: unknown key "x-a"', '3: unknown key "X-b"', '4: unknown key "xa"',
    ]  # fmt: skip


def test_strip_names_front_matter_once() -> None:
    assert manifest("system: a\nstrip: front-matter").strip == ("front-matter",)
    assert manifest("system: a\nstrip: [front-matter]").strip == ("front-matter",)
    assert reported("system: a\nstrip: [front-matter, front-matter]") == ['2: "strip" names "front-matter" twice']
    assert reported("system: a\nstrip: comments") == ["2: \"strip[0]\" must be 'front-matter', not 'comments'"]
    assert reported("system: a\nstrip: true") == ['2: "strip" must be text or a list, not true']


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("system: 3", '1: "system" must be text or a list, not 3'),
        ("system: [[a]]", '1: "system[0]" must be text'),
        ("system: [null]", '1: "system[0]" must be text'),
        ("system: a\npadding: 3", '2: "padding" must be text or a mapping, not 3'),
        ("system: a\ncache: {ttl: 1}", '2: "cache.ttl" must be text or a mapping, not 1'),
        ("system: a\ncache: {ttl: ''}", '2: "" is not a lifetime'),
        ("system: a\ntools: t.json", "2: \"tools\" must be a list, not 't.json'"),
        ("system: a\noptions: {response_schema: null}", '2: option "response_schema" has no value'),
    ],
)
def test_a_value_of_the_wrong_type_is_one_fault_that_names_every_form(text: str, fault: str) -> None:
    assert reported(text) == [fault]


def test_settings_are_read_from_either_file_and_have_defaults() -> None:
    assert parse_settings(None, None).targets == ("deepseek-v4",)
    assert parse_settings(b'[tool.cacheunit]\nbuild = "out"\n', None).build == "out"
    assert parse_settings(b"[project]\n", b'build = "out"\n').build == "out"
    with pytest.raises(
        CacheunitError, match=r"pyproject\.toml:1: settings are in both pyproject\.toml and cacheunit\.toml"
    ):
        parse_settings(b"[tool.cacheunit]\n", b"")


def test_every_manifest_of_this_repository_has_a_description() -> None:
    root = Path(__file__).parent.parent / "prefixes"
    paths = sorted(root.rglob("*.yaml"))
    assert len(paths) >= 6
    assert all(parse_manifest(path.read_bytes(), name="p", path=str(path)).description for path in paths)


def test_a_matrix_of_any_number_of_variants_is_refused_with_a_number() -> None:
    axes = ", ".join(f"a{index}: [x, y]" for index in range(20_000))
    ((message),) = reported(f"system: a\nmatrix: {{{axes}}}")
    assert message == "2: the matrix has at least 1099511627776 variants, more than 4096"


def test_very_many_targets_and_options_are_read_in_one_pass_or_refused() -> None:
    assert reported(f"system: a\ntargets: [{'t, ' * 3000}t]")[-1] == "None: 2,950 more errors in this file"
    options = ", ".join(f"o{index}: 1" for index in range(1_001))
    assert reported(f"system: a\noptions: {{{options}}}") == ["2: 1,001 options are set, more than 1,000"]


def test_long_names_and_values_are_shortened_in_messages() -> None:
    long = "x" * 1000
    for text in (f"system: a\n{long}: 1", f"system: a\nbudget: {long}", f"system: a\ndata: {{{long}: 5}}"):
        ((message),) = reported(text)
        assert len(message) < 200
