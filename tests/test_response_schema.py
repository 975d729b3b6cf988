"""A response schema in a file: how each format sends it, where it is frozen, its faults, and its changes."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import load
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.response_schema import parse_response_schema

if TYPE_CHECKING:
    from conftest import Project

WRITTEN = {
    "required": ["title", "author"],
    "properties": {"title": {"type": "string", "description": "d"}, "author": {"type": "string"}},
    "type": "object",
    "additionalProperties": False,
}
CANONICAL = (
    '{"additionalProperties":false,"properties":{"title":{"description":"d","type":"string"},"author":{"type":"string"}},'
    '"required":["author","title"],"type":"object"}'
)


@pytest.fixture
def sources(project: Project) -> Project:
    """Returns a project with a response schema, for targets of all formats that take one."""
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [openai, openai-legacy, anthropic-1024, gemini]\n"
            "options:\n  response_schema: schemas/book.v2.json\n",
            "templates/a.md.j2": "Be kind.\n",
            "schemas/book.v2.json": json.dumps(WRITTEN, indent=1),
        }
    )
    return project


def fragment(project: Project, target: str) -> Any:  # noqa: ANN401 - a request fragment
    """Returns the request fragment of prefix a."""
    return json.loads(project.read(f"build/a/{target}.json"))


def test_each_format_sends_the_schema_in_its_own_way(sources: Project) -> None:
    sources.build()
    schema = json.loads(CANONICAL)
    named = {"name": "book_v2", "schema": schema, "strict": True}
    assert fragment(sources, "openai")["text"] == {"format": {"type": "json_schema", **named}}
    assert fragment(sources, "openai-legacy")["response_format"] == {"type": "json_schema", "json_schema": named}
    assert fragment(sources, "anthropic-1024")["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    for target in ("openai", "openai-legacy", "anthropic-1024"):
        assert CANONICAL in sources.read(f"build/a/{target}.json").decode()


def test_where_the_target_lists_no_option_for_it_the_plan_says_that_it_is_not_frozen(sources: Project) -> None:
    sources.build()
    assert set(fragment(sources, "gemini")) == {"systemInstruction"}
    explained = sources.run("explain", "a", "--format", "json").json["artifacts"]
    notes = {
        item["target"]: "the response schema is not frozen: the target lists no" in item["reason"] for item in explained
    }
    assert notes == {"openai": False, "openai-legacy": False, "anthropic-1024": False, "gemini": True}


def test_a_format_without_a_place_for_it_says_so(project: Project) -> None:
    target = '[target.own]\nextends = "deepseek-v4"\nrequest = "text"\n'
    project.write(
        {
            "cacheunit.toml": target,
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [own]\noptions: {response_schema: s.json}\n",
            "templates/a.md.j2": "Be kind.\n",
            "s.json": "{}\n".replace("{}", json.dumps(WRITTEN)),
        }
    )
    project.build()
    assert "not frozen: format text has no place for one" in project.run("explain", "a").out


def test_the_frozen_schema_counts_and_another_one_is_refused_at_run_time(sources: Project) -> None:
    sources.build()
    with_schema = load("a", target="openai", root=str(sources.root))
    with pytest.raises(CacheunitError, match=r'"text.format" is frozen'):
        with_schema.request([{"role": "user", "content": "Hi"}], text={"format": {"type": "text"}})
    request = with_schema.request(
        [{"role": "user", "content": "Hi"}], text={"verbosity": "low"}, allow=("text.verbosity",)
    )
    assert (request["text"]["verbosity"], request["text"]["format"]["name"]) == ("low", "book_v2")
    sources.edit("prefixes/a.yaml", "options:\n  response_schema: schemas/book.v2.json\n", "")
    sources.build()
    assert load("a", target="openai", root=str(sources.root)).tokens < with_schema.tokens


def test_the_order_of_keys_changes_no_byte_and_that_of_properties_does(sources: Project) -> None:
    sources.build()
    before = sources.read("build/a/openai.json")
    reordered = {**dict(reversed(WRITTEN.items())), "required": ["author", "title"]}
    sources.write({"schemas/book.v2.json": json.dumps(reordered)})
    sources.build()
    assert sources.read("build/a/openai.json") == before
    properties = dict(reversed(json.loads(CANONICAL)["properties"].items()))
    sources.write({"schemas/book.v2.json": json.dumps({**WRITTEN, "properties": properties})})
    sources.build()
    assert sources.read("build/a/openai.json") != before


def test_the_file_is_an_input_and_check_and_diff_name_it(sources: Project) -> None:
    sources.build()
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "built")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", sources.root, *identity, *arguments], check=True)
    sources.edit("schemas/book.v2.json", '"description": "d"', '"description": "e"')
    drift = sources.check("--target", "openai")["drift"]
    assert [(item["kind"], item["because"]) for item in drift] == [("changed", ["schemas/book.v2.json"])]
    ran = sources.run("diff", "--target", "openai", "--format", "json")
    (change,) = ran.json["changes"]
    assert change["first_change"]["part"] == "options"
    assert change["first_change"]["source"] == {"path": "schemas/book.v2.json", "line": 9}


def test_yaml_is_the_same_as_json(sources: Project) -> None:
    sources.build()
    before = sources.read("build/a/openai.json")
    properties = "properties:\n  title: {type: string, description: d}\n  author: {type: string}\n"
    text = f"type: object\nadditionalProperties: false\n{properties}required: [title, author]\n"
    sources.write({"schemas/book.v2.yaml": text})
    sources.edit("prefixes/a.yaml", "v2.json", "v2.yaml")
    sources.build()
    assert sources.read("build/a/openai.json") == before


@pytest.mark.parametrize(
    ("files", "place", "message"),
    [
        ({}, "prefixes/a.yaml:4", 'there is no file "schemas/none.json"'),
        ({"schemas/none.json": "[]"}, "schemas/none.json", "a response schema must be a mapping"),
        ({"schemas/none.json": "{}"}, "schemas/none.json", "a response schema must be a mapping"),
        ({"schemas/none.json": '{\n"type": "objekt"\n}'}, "schemas/none.json:2", "not valid JSON Schema at type"),
        ({"schemas/none.json": "{"}, "schemas/none.json:1", "not valid JSON"),
        (
            {"schemas/none.json": '{"type": "array"}'},
            "schemas/none.json",
            'target "openai" refuses a response schema without "type": "object" at its root',
        ),
    ],
)
def test_a_wrong_schema_stops_the_build_at_its_place(
    sources: Project, files: dict[str, str], place: str, message: str
) -> None:
    sources.edit("prefixes/a.yaml", "book.v2.json", "none.json")
    sources.write(dict(files))
    ran = sources.run("build")
    assert (ran.code, sources.path("build").exists()) == (2, False)
    assert f"error: {place}" in ran.err
    assert message in ran.err


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
            [
                'the object at the root of the response schema: it lacks "additionalProperties": false',
                'the object at the root of the response schema: "required" lacks "b"',
            ],
        ),
        (
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["a"],
                "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": ["object", "null"]}]}}},
            },
            ['the object at properties.a.items.anyOf.0 of the response schema: it lacks "additionalProperties": false'],
        ),
    ],
)
def test_an_object_that_strict_schemas_do_not_take_is_a_fault(
    sources: Project, schema: object, messages: list[str]
) -> None:
    sources.write({"schemas/book.v2.json": json.dumps(schema)})
    errors = sources.run("build", "--target", "openai", "--format", "json").json["errors"]
    assert [error["message"] for error in errors] == [f'target "openai" refuses {message}' for message in messages]
    assert sources.run("build", "--target", "anthropic-1024").code == 0


@pytest.mark.parametrize("value", ["{type: object}", "5", "[a.json]", "../a.json", "/a.json"])
def test_a_value_that_is_no_path_in_the_project_is_a_fault_at_its_line(sources: Project, value: str) -> None:
    sources.edit("prefixes/a.yaml", "schemas/book.v2.json", value)
    ran = sources.run("build")
    assert (ran.code, ran.err.startswith("error: prefixes/a.yaml:4: ")) == (2, True), ran.err


@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("text: {format: {type: text}}", "openai"),
        ("text.format: {type: text}", "openai"),
        ("response_format: {type: text}", "openai-legacy"),
        ("output_config: {format: {type: json_schema}}", "anthropic-1024"),
    ],
)
def test_the_same_option_written_out_beside_it_is_a_fault(sources: Project, option: str, target: str) -> None:
    sources.edit("prefixes/a.yaml", "options:\n", f"options:\n  {option}\n")
    ran = sources.run("build")
    assert ran.code == 2
    assert "error: prefixes/a.yaml:4: " in ran.err
    assert f'and "response_schema" set the same for target "{target}"' in ran.err


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/answer.json", "answer"),
        ("answer v1.2.json", "answer_v1_2"),
        ("é.json", "response"),
        ("x" * 90 + ".yaml", "x" * 64),
    ],
)
def test_a_schema_is_named_after_its_file(path: str, name: str) -> None:
    assert parse_response_schema(read_json(b'{"type": "object"}', path)).name == name
