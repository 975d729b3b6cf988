"""Source files are parsed strictly: scalars keep their text, and every fault and key has its line."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError, did_you_mean
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.yaml import read_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def yaml_value(text: str) -> object:
    """Returns the value of a YAML text."""
    return read_yaml(text.encode(), "a.yaml").value


@pytest.mark.parametrize(
    "scalar",
    ["no", "yes", "on", "off", "3.10", "010", "2024-01-01", "1e3", "12:30", "1_000", "0x1F", "+5", "-0", ".5", "="],
)
def test_a_yaml_scalar_keeps_its_characters(scalar: str) -> None:
    assert yaml_value(f"a: {scalar}") == {"a": scalar}


@pytest.mark.parametrize(
    ("scalar", "value"),
    [("true", True), ("False", False), ("TRUE", True), ("12", 12), ("-7", -7), ("0", 0), ("null", None), ("", None)],
)
def test_integers_booleans_and_nulls_in_yaml_become_values(scalar: str, value: object) -> None:
    parsed = yaml_value(f"a: {scalar}")
    assert parsed == {"a": value}
    assert type(parsed["a"]) is type(value)


@pytest.mark.parametrize("quoted", ['"true"', "'12'", '"null"', "!!str 12", "|-\n  12"])
def test_a_quoted_yaml_scalar_is_text(quoted: str) -> None:
    assert isinstance(yaml_value(f"a: {quoted}")["a"], str)  # type: ignore[index]


def test_an_integer_with_too_many_digits_stays_text() -> None:
    assert yaml_value("a: 12345678901234567890") == {"a": "12345678901234567890"}


def test_yaml_keys_are_always_text() -> None:
    assert yaml_value("on: 1\n2: 2\nnull: 3") == {"on": 1, "2": 2, "null": 3}


def test_keys_of_a_mapping_override_those_of_its_merge_key() -> None:
    assert yaml_value("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}")["b"] == {"x": 1, "y": 3}  # type: ignore[index]


@given(VALUES)
def test_json_values_and_quoted_yaml_texts_are_read_back_unchanged(value: object) -> None:
    text = json.dumps(value, ensure_ascii=True)
    assert read_json(text.encode(), "a.json").value == value
    quoted = yaml.safe_dump(value, default_style='"') if isinstance(value, str) else None
    if quoted is not None and "\t" not in quoted:
        assert yaml_value(quoted) == value


@given(VALUES)
def test_the_python_and_the_c_parser_of_yaml_agree(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    if "\t" not in text:
        assert yaml.compose(text, yaml.SafeLoader) is None or yaml.serialize(
            yaml.compose(text, yaml.SafeLoader)
        ) == yaml.serialize(yaml.compose(text, yaml.CSafeLoader))


def faults(data: bytes, name: str = "a.yaml") -> list[tuple[int | None, str]]:
    """Returns line and message of each fault of a file, whose name decides how it is read."""
    reader = {"yaml": read_yaml, "json": read_json, "toml": read_toml}[name.rpartition(".")[2]]
    with pytest.raises(CacheunitError) as caught:
        reader(data, name)
    assert all(fault.path == name for fault in caught.value.faults)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_all_duplicate_keys_and_tags_are_reported_at_once_with_their_lines() -> None:
    assert faults(b"a: 1\nb: {c: 1, c: 2}\na: 3\nd: !x 1\n") == [
        (2, 'duplicate key "c", first on line 2'),
        (3, 'duplicate key "a", first on line 1'),
        (4, 'tag "!x" is not allowed'),
    ]


@pytest.mark.parametrize("data", [b"a:\n\t- x", b"a: |\n  \tx", b"a: 1\nb:\t2"])
def test_a_tab_is_reported_with_its_line(data: bytes) -> None:
    assert faults(data) == [(2, "tab character: YAML parsers treat tabs differently")]


def test_too_many_or_recursive_aliases_are_faults() -> None:
    nine_aliases = ", ".join(["*a{0}"] * 9)
    bomb = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{nine_aliases.format(n - 1)}]\n" for n in range(1, 10))
    assert faults(bomb.encode())[0][1] == "aliases repeat more than 100,000 values"
    assert faults(b"x: 1\na: &a\n  b: *a") == [(2, "an alias refers to a value that contains it")]
    assert faults(b"x: 1\na: &a\n  <<: *a") == [(2, "an alias refers to a value that contains it")]
    allowed = "a: &a {x: 1}\nb: [" + ", ".join(["*a"] * 20) + "]"
    assert len(yaml_value(allowed)["b"]) == 20  # type: ignore[index]


@pytest.mark.parametrize("nested", ["[" * 5000, "{a: " * 5000, "- " * 3000 + "x"])
def test_too_deep_nesting_is_a_fault_and_no_crash(nested: str) -> None:
    assert len(faults(f"a:\n  {nested}".encode())) == 1


def test_json_faults_have_their_lines() -> None:
    assert faults(b'{"a": 1,\n "b": {"a": 2},\n "a": 3}', "a.json") == [(3, 'duplicate key "a"')]
    assert faults(b'{"a": [1,\n NaN]}', "a.json") == [(2, "NaN is not a JSON number")]
    assert faults(b'{"a": "\\ud800"}', "a.json") == [(1, "\\ud800 is half of a surrogate pair, not a character")]
    assert faults(b'{"a":\n', "a.json")[0][0] == 2


def test_a_duplicate_key_in_json_is_reported_on_its_own_line() -> None:
    assert faults(b'{"a": 1,\n "a": {"b": 1,\n "b": 2}}', "a.json") == [(3, 'duplicate key "b"')]


def test_only_half_of_a_surrogate_pair_is_refused_on_its_own_line() -> None:
    text = b'["\\ud83d\\ude80",\n "\\\\ud800",\n "\\ude80"]'
    assert faults(text, "a.json") == [(3, "\\ude80 is half of a surrogate pair, not a character")]
    assert read_json(text.replace(b',\n "\\ude80"', b""), "a.json").value == ["\U0001f680", "\\ud800"]


def test_a_merged_mapping_with_a_tag_is_a_fault() -> None:
    assert faults(b"b: {<<: !x {a: 1}}") == [(1, 'tag "!x" is not allowed')]


def test_merged_mappings_keep_their_order() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {z: 3, y: 4, w: 5}\nc: {<<: [*a, *b], y: 6, v: 7}"
    assert list(yaml_value(text)["c"].items()) == [("x", 1), ("z", 3), ("w", 5), ("y", 6), ("v", 7)]  # type: ignore[index]


def test_json_floats_keep_their_text_and_calculate_as_numbers() -> None:
    value = read_json(b'{"a": 1.50, "b": 1e3}', "a.json").value
    assert (str(value["a"]), str(value["b"]), value["a"] + value["b"]) == ("1.50", "1e3", 1001.5)


def test_every_key_of_a_json_file_has_its_line() -> None:
    lines = read_json(b'{"a": [1,\n  {"b": "x",\n "c": [\n [], "y"]}],\n"d": {"e":\n null}}', "a.json").lines
    assert lines["a", 1, "c", 1] == 4
    assert (lines["a",], lines["a", 1, "b"], lines["d",], lines["d", "e"]) == (1, 2, 5, 5)


def test_toml_faults_and_keys_have_their_lines() -> None:
    assert faults(b"a = 1\nb =\n", "a.toml")[0][0] == 2
    lines = read_toml(b'a = 1\n[t."x y"]\nb.c = 2\n[[l]]\nd = 1\n[[l]]\nd = 2\n', "a.toml").lines
    assert (lines["a",], lines["t", "x y"], lines["t", "x y", "b", "c"], lines["l", 1, "d"]) == (1, 2, 3, 7)


def test_text_is_decoded_strictly_and_its_line_ends_become_lf() -> None:
    assert decode(b"\xef\xbb\xbfa\r\nb\rc\n", "t") == "a\nb\nc\n"
    with pytest.raises(CacheunitError, match="t:2: not UTF-8: byte 0xff at offset 4"):
        decode(b"abc\n\xff", "t")


@pytest.mark.parametrize(("path", "normalized"), [("a/b", "a/b"), ("./a//b/.", "a/b"), ("e\u0301/x", "\u00e9/x")])
def test_a_path_is_normalized(path: str, normalized: str) -> None:
    assert normal_path(path) == normalized


@pytest.mark.parametrize("path", ["", ".", "/a", "C:\\a", "C:a", "a\\b", "../a", "a/../b", "a\x00b", "a\nb"])
def test_a_path_that_is_invalid_or_not_below_the_root_is_refused(path: str) -> None:
    with pytest.raises(CacheunitError):
        normal_path(path)


def test_a_hint_names_a_similar_word_and_no_other() -> None:
    assert did_you_mean("templat", ["template", "tools"]) == 'did you mean "template"?'
    assert did_you_mean("TOOLS", ["template", "tools"]) == 'did you mean "tools"?'
    assert did_you_mean("xyz", ["template", "tools"]) is None
