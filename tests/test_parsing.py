"""Source files are parsed strictly: scalars keep their text, and every fault and key has its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.domain.errors import CacheunitError, did_you_mean
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.parsing import json as json_module
from cacheunit_build.parsing import yaml_nodes
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


def read(data: bytes, name: str) -> Document:
    """Reads a file, whose name decides how."""
    readers: dict[str, Any] = {"yaml": read_yaml, "json": read_json, "toml": read_toml}
    document: Document = readers[name.rpartition(".")[2]](data, name)
    return document


def faults(data: bytes, name: str = "a.yaml") -> list[tuple[int | None, str]]:
    """Returns line and message of each fault of a file, whose name decides how it is read."""
    with pytest.raises(CacheunitError) as caught:
        read(data, name)
    assert all(fault.path == name for fault in caught.value.faults)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_all_duplicate_keys_and_tags_are_reported_at_once_with_their_lines() -> None:
    assert faults(b"a: 1\nb: {c: 1, c: 2}\na: 3\nd: !x 1\n") == [
        (2, 'duplicate key "c", first on line 2'),
        (3, 'duplicate key "a", first on line 1'),
        (4, 'tag "!x" is not allowed'),
    ]


@pytest.mark.parametrize(
    "data",
    [
        *("a:\n\t- x", "a: |\n  \tx", "a: 1\nb:\t2", "a: 1\nb: x\ty", "a: 1\nb: c\t# d", "a: 1\nb: c \t# d"),
        *("a:\n- \tx", "a:\n-\tx", "a:\n [x,\ty]", "a: 1\n\t\nb: 2", "a: 'x\n\ty'", 'a: "x\n\t\n  y"', "a: x\n  \ty"),
        *("#\n{a\t: b}", "? a\n:\tb", "#\na: |\t# c\n  x", "#\na: &b\t'x'", "#\nb: !!str\t|\n  x", "#\na:\t|\n  x"),
    ],
)
def test_a_tab_that_parsers_treat_differently_is_reported_with_its_line(data: str) -> None:
    assert faults(data.encode()) == [(2, "tab character: YAML parsers treat tabs differently")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: |\n  func f() {\n  \treturn\n  }\n", "func f() {\n\treturn\n}\n"),
        ("a: |2\n  \tx\n", "\tx\n"),
        ("a: >-\n  x\n  \ty\n  z", "x\n\ty\nz"),
        ("a: |-\n  x\n  \t\n  y\t\n", "x\n\t\ny\t"),
        ("a: |- # \tnote\n  x\ty", "x\ty"),
        ("a: &b !!str |-\n  x\ty", "x\ty"),
        ("a: 'x\ty'", "x\ty"),
        ('a: "x\ty\t\n  z"', "x\ty z"),
        ("# \t\na: x # b\tc", "x"),
        ("a: x#\n#\t", "x#"),
    ],
)
def test_a_tab_that_all_parsers_agree_on_is_kept(text: str, value: str) -> None:
    assert yaml_value(text) == {"a": value}
    assert yaml.load(text, yaml.SafeLoader) == {"a": value}  # written in Python; the other one in C


PLACES_IN_YAML = (
    *("a: 1\nb: calm  # note{0}  loud: yes", "a: 1\nb: x{0}y", "a: 1\nb{0}: 1", "a: |\n  x{0}y", "#\na: 'x{0}y'"),
    *('#\na: "x{0}y"', "#\n# {0}b: 1", "#\n{0}b: 1", "#\nb: 1{0}", "a: |\n  x{0}", "#\nb: [x,{0}y]", "#\n- &b{0} x"),
)


@pytest.mark.parametrize("place", PLACES_IN_YAML)
@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_a_line_end_of_older_yaml_is_refused_everywhere(place: str, character: str) -> None:
    message = f"U+{ord(character):04X} ends a line for some YAML parsers only"
    assert faults(place.format(character).encode()) == [(2, message)]


@pytest.mark.parametrize("place", PLACES_IN_YAML)
@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x0c", "\x1b", "\x7f", "\x9b", "\ufffe"])
def test_a_control_character_in_yaml_is_refused_with_its_line(place: str, character: str) -> None:
    text = f"# é\n{place}".format(character)
    assert faults(text.encode()) == [(3, f"a character that YAML does not allow: U+{ord(character):04X}")]


def test_a_single_carriage_return_ends_a_line_and_a_second_byte_order_mark_is_refused() -> None:
    assert yaml_value("a: 1 # x\rb: |\r  c\r\n  d\r") == {"a": 1, "b": "c\nd\n"}
    assert faults(b"\xef\xbb\xbf#\n\xef\xbb\xbfa: 1") == [(2, "a character that YAML does not allow: U+FEFF")]


@pytest.mark.parametrize("text", ["a: |\n" + "  [\n" * 300, "a: '" + "[{" * 300 + "'", "# " + "[" * 300 + "\na: x"])
def test_brackets_in_texts_and_comments_of_yaml_are_text(text: str) -> None:
    assert list(yaml_value(text)) == ["a"]  # type: ignore[call-overload]


def test_a_syntax_error_behind_a_comment_that_cuts_a_text_has_a_hint() -> None:
    for text in ("a: You see\n  issue #12\n  and more\nb: 1", "a: [one #two, three]\nb: 1", "- one #2\n  two"):
        with pytest.raises(CacheunitError, match='put quotes around text that contains " #"'):
            read_yaml(text.encode(), "a.yaml")


def test_too_many_or_recursive_aliases_are_faults() -> None:
    nine_aliases = ", ".join(["*a{0}"] * 9)
    bomb = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{nine_aliases.format(n - 1)}]\n" for n in range(1, 10))
    assert faults(bomb.encode())[0][1] == "aliases repeat more than 100,000 values"
    assert faults(b"x: 1\na: &a\n  b: *a") == [(2, "an alias refers to a value that contains it")]
    assert faults(b"x: 1\na: &a\n  <<: *a") == [(2, "an alias refers to a value that contains it")]
    allowed = "a: &a {x: 1}\nb: [" + ", ".join(["*a"] * 20) + "]"
    assert len(yaml_value(allowed)["b"]) == 20  # type: ignore[index]


DEEP = [f"{part * 100_000}x" for part in ("[", '{"a": ', "{a: ", "- ", "? ", "[{a: ")]


@pytest.mark.parametrize("nested", DEEP)
def test_too_deep_yaml_is_a_fault_and_no_crash(nested: str) -> None:
    ((line, message),) = faults(f"a:\n  {nested}".encode())
    assert line == 2
    assert message in ("nested more than 100 levels deep", "not valid YAML: exceeded maximum nesting depth")


@pytest.mark.parametrize("nested", [*DEEP[:2], "[" * 101 + "]" * 101, "[" * 500 + '{"a": 1, "a": 1}' + "]" * 500])
def test_too_deep_json_is_a_fault_and_no_crash(nested: str) -> None:
    assert faults(f"\n{nested}".encode(), "a.json") == [(2, "nested more than 100 levels deep")]


def test_a_document_of_one_hundred_levels_is_read() -> None:
    nested = "[" * 100 + "]" * 100
    assert read_json(nested.encode(), "a.json").value == yaml_value(nested)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_document_with_too_many_values_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (json_module, yaml_nodes):
        monkeypatch.setattr(module, "MOST_VALUES", 300)
    assert faults(b"[1,\n" + b"1," * 300 + b"1]", name)[0][1] == "more than 200,000 values in one file"
    assert len(read(b"[" + b"1," * 298 + b"1]", name).value) == 299


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.toml"])
def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(name: str) -> None:
    limit = 1 if name == "a.toml" else 16
    assert faults(b" " * ((limit << 20) + 1), name) == [(None, f"larger than {limit} MiB")]


def test_many_faults_of_a_file_are_counted_and_texts_in_messages_shortened() -> None:
    reported = faults(b"a: 1\n" * 2_000)
    assert reported[0] == (2, 'duplicate key "a", first on line 1')
    assert reported[50:] == [(None, "1,949 more errors in this file")]
    key = "k" * 1000
    for text, name in ((f"{key}: 1\n{key}: 2", "a.yaml"), (f'{{"{key}": 1,\n"{key}": 2}}', "a.json")):
        ((line, message),) = faults(text.encode(), name)
        assert line == 2
        assert len(message) < 150


def test_aliases_of_a_long_text_are_limited_by_its_characters() -> None:
    text = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 11)}]"
    assert faults(text.encode()) == [(1, "aliases repeat more than 10,000,000 characters")]


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000])
def test_an_integer_with_too_many_digits_in_json_is_a_fault(number: str) -> None:
    assert faults(f'["{number}",\n{number}]'.encode(), "a.json") == [(2, "a number has more digits than can be read")]


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


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a = " + "[" * 100_000,
            "a = " + "{b = " * 100_000,
            "a" + ".a" * 100_000 + " = 1",
            "[" + "a." * 100_000 + "a]",
        ),
        *("a = [" + "[" * 100 + "]" * 101, 'a = {b = "]", ' + "c = [" * 100, "a" + ' . "b"' * 100 + " = 1"),
    ],
)
def test_too_deep_toml_is_a_fault_and_no_crash(text: str) -> None:
    assert faults(f"\n{text}".encode(), "a.toml") == [(2, "nested more than 100 levels deep")]


@pytest.mark.parametrize(
    "number",
    ["0x" + "f" * 5000, "0o" + "7" * 5000, "0b" + "1" * 50_000, "9" * 45_000, "-" + "9" * 5000],
    ids=lambda number: number[:3],
)
@pytest.mark.parametrize("place", ["b = {}", "b = [1, {}]", "b = {{c = {}}}"])
def test_a_number_of_toml_that_is_too_long_to_be_printed_is_a_fault(number: str, place: str) -> None:
    text = f"a = 1\n{place.format(number)}\n"
    assert faults(text.encode(), "a.toml") == [(2, "a number has more digits than can be read")]


def test_a_long_text_of_digits_of_toml_is_no_number() -> None:
    digits = "0x" + "f" * 5000
    text = f'a = \'{digits}\'\nb = "{digits}"  # {digits}\nc = """\n{digits}"""\n'
    assert list(read_toml(text.encode(), "a.toml").value.values()) == [digits] * 3


def test_dots_and_brackets_in_texts_and_comments_of_toml_are_text() -> None:
    many = "[{" * 300 + ".a" * 300
    text = f'a = "{many}"\nb = \'{many}\' # {many}\nc = """\n"{many}\\""""""\nd = \'\'\'\n{many}\'\'\'\n'
    assert list(read_toml(text.encode(), "a.toml").value) == ["a", "b", "c", "d"]


def test_keys_inside_a_text_of_toml_have_no_lines() -> None:
    document = read_toml(b'text = """\nunit = 1\n[t]\n"""\nunit = 2\n[t]\n', "a.toml")
    assert (document.line(("unit",)), document.line(("t",))) == (5, 6)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a = 1\nb = 2 # note\rc = 3", 2),
        (b"a = 1\nb = \x00", 2),
        (b"a = 1\nb = '\xff'", 2),
        (b"\na = 1\na = 2", 3),
        (b"\na = " + b"9" * 5000, 2),
        (b"a = 2026-02-30", 1),
    ],
)
def test_what_is_not_toml_is_a_fault(text: bytes, line: int | None) -> None:
    ((reported, _),) = faults(text, "a.toml")
    assert reported == line


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
