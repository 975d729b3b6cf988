"""`init` makes projects of existing prompts and tools: it keeps every character, or says what it changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.cli.scaffolding.document_keys import parse_expression, texts_at, written_keys
from cacheunit_build.cli.scaffolding.integrations import (
    ProjectPlace,
    github_workflow,
    gitlab_pipeline,
    hook_config,
    hook_exclude,
)
from cacheunit_build.cli.scaffolding.names import prefix_name, stem_of
from cacheunit_build.cli.scaffolding.new_files import manifest_text
from cacheunit_build.cli.scaffolding.partials import templates_with_partials
from cacheunit_build.cli.scaffolding.prefixes import NewPrefix
from cacheunit_build.cli.scaffolding.shared_text import Passage, shared_passages, similar_blocks
from cacheunit_build.cli.scaffolding.template_text import TemplateNames, literal_template, rendered
from cacheunit_build.domain.document import Document
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.templating.environment import DeterministicEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import CommandResult, Project

    from cacheunit_build.domain.document import Keys

DOCS = Path(__file__).parent.parent / "docs"
SETTINGS = {"cacheunit.toml": 'targets = ["anthropic-1024"]\n'}
"""A target whose count is an estimate, which is never padded: artifacts have the text of the prompt alone."""


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def given_files(tmp_path: Path, project: Project) -> Path:
    """Returns a folder for the files that `init` gets, outside of the project."""
    project.write(SETTINGS)
    (tmp_path / "given").mkdir()
    return tmp_path / "given"


def manifests(project: Project) -> dict[str, dict[str, object]]:
    """Returns the value of each manifest by the name of its prefix."""
    paths = sorted(project.path("prefixes").rglob("*.yaml"))
    names = [path.relative_to(project.path("prefixes")).with_suffix("").as_posix() for path in paths]
    return {name: yaml.safe_load(path.read_bytes()) for name, path in zip(names, paths, strict=True)}


def built_texts(project: Project) -> dict[str, str]:
    """Builds, and returns the system text of each prefix."""
    assert project.run("build").code == 0
    return {name: project.read(f"build/{name}/anthropic-1024.txt").decode() for name in manifests(project)}


def succeeded(ran: CommandResult) -> str:
    """Returns what a run that succeeds prints as remarks."""
    assert ran.code == 0, ran.err
    return ran.err


def refused(project: Project, *arguments: str | Path) -> str:
    """Returns the errors of a run that is refused, and asserts that it wrote nothing."""
    before = project.snapshot()
    ran = project.run("init", *arguments)
    assert (ran.code, ran.out, project.snapshot()) == (2, "", before), ran.out
    return ran.err


# Texts and names


@given(st.text(st.sampled_from("{}%#-'\"\\ab\n ") | st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
def test_the_template_for_any_text_renders_to_that_text(text: str) -> None:
    environment = DeterministicEnvironment(lambda _name, _parent: literal_template(text))
    assert environment.get_template("t").render() == text


@given(
    st.lists(st.from_regex(r"[A-Za-z0-9äß日][ -~ä日]{0,20}", fullmatch=True), min_size=1, max_size=3),
    st.lists(st.from_regex(r"[ -!#-\[\]-~日]{1,20}\.json", fullmatch=True), max_size=3),
)
def test_the_manifest_for_any_names_is_valid(stems: list[str], tools: list[str]) -> None:
    name = "/".join(map(prefix_name, stems))
    tools = [path for path in tools if ".." not in path.split("/") and not path.startswith("/") and ":" not in path]
    names = TemplateNames(variables=("product",), templates=())
    prefix = NewPrefix(name=name, source=SimpleNamespace(), names=names, tools=tuple(tools))  # type: ignore[arg-type]
    manifest = parse_manifest(manifest_text(prefix).encode(), name=name, path="p.yaml")
    assert (manifest.system, list(manifest.tools), manifest.variables) == ((f"{name}.md.j2",), tools, {})


def test_a_file_name_without_letters_and_digits_is_refused() -> None:
    with pytest.raises(CacheunitError, match='"!!!" is not usable as the name of a prefix'):
        prefix_name("!!!")


@pytest.mark.parametrize(
    ("file_name", "stem"),
    [
        ("Agent.md", "Agent"),
        ("agent.md.j2", "agent"),
        ("review.instructions.md", "review"),
        ("v1.2.txt", "v1.2"),
        ("agent.user.md", "agent.user"),
        ("PROMPT", "PROMPT"),
        (".md", ".md"),
    ],
)
def test_suffixes_of_prompts_are_no_part_of_names(file_name: str, stem: str) -> None:
    assert stem_of(file_name) == stem


# Files and folders


def test_a_folder_gives_a_prefix_for_each_prompt_in_it_named_by_its_path(project: Project, given_files: Path) -> None:
    prompts = {"top.md": "Top.\n", "support/Agent.md": "Agent.\n", "support/eu/agent.instructions.md": "EU.\n"}
    others = {
        ".hidden/a.md": "x",
        "node_modules/a.md": "x",
        "support/.a.md": "x",
        "venv/pyvenv.cfg": "",
        "venv/a.md": "x",
    }
    write(given_files, {**prompts, **others})
    assert "skipped" not in succeeded(project.run("init", given_files))
    assert built_texts(project) == {"top": "Top.\n", "support/agent": "Agent.\n", "support/eu/agent": "EU.\n"}


def test_in_its_own_folder_init_leaves_out_the_folders_of_the_project(project: Project) -> None:
    project.write({**SETTINGS, "prompts/a.md": "A.\n", "templates/partials/x.md": "x", "build/b.txt": "x"})
    assert project.run("init", ".").code == 0
    assert built_texts(project) == {"prompts/a": "A.\n"}


def test_files_of_one_name_in_several_folders_are_told_apart_by_their_folders(
    project: Project, given_files: Path
) -> None:
    write(given_files, {"a/system.md": "A.\n", "b/c/system.md": "C.\n", "b/other.md": "O.\n"})
    files = [given_files / path for path in ("a/system.md", "b/c/system.md", "b/other.md")]
    assert project.run("init", *files).code == 0
    assert built_texts(project) == {"a/system": "A.\n", "b/c/system": "C.\n", "other": "O.\n"}


def test_a_file_is_taken_once_however_often_it_is_named(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n"})
    assert project.run("init", given_files / "a.md", given_files, given_files / "a.md").code == 0
    assert list(manifests(project)) == ["a"]


def test_other_files_of_a_folder_are_skipped_with_the_reason(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "README.md": "x", "LICENSE": "x", "empty.txt": " \n", "b.py": "x"})
    write(
        given_files, {"null.md": b"a\0", "latin.txt": b"caf\xe9", "half.json": "{", "config.yaml": "p: |\n  a\n  b\n"}
    )
    write(given_files, {"package.json": '{"name": "x", "version": "1"}'})
    remarks = succeeded(project.run("-v", "init", given_files))
    reasons = dict(re.findall(rf"^skipped  {re.escape(str(given_files))}/(\S+): (.*)$", remarks, re.MULTILINE))
    assert reasons == {
        "README.md": "it is about the folder; name it to take it as a prompt",
        "LICENSE": "it is about the folder; name it to take it as a prompt",
        "empty.txt": "it is not a prompt: the file is empty",
        "null.md": "it is not a prompt: not a text: it has a null character",
        "latin.txt": "it is not a prompt: not UTF-8: byte 0xe9 at offset 3",
        "b.py": "it has the suffix .py",
        "package.json": "it has no tools",
        "half.json": reasons["half.json"],
        "config.yaml": f'it has no tools; its texts can be named, such as "{given_files}/config.yaml#p"',
    }
    assert reasons["half.json"].startswith("it cannot be read: not valid JSON")
    assert list(manifests(project)) == ["a"]


def test_files_that_cannot_be_meant_are_counted(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", **{f"{number}.py": "x" for number in range(9)}})
    assert "skipped  9 files (-v lists them)" in project.run("init", given_files).err


def test_every_file_that_is_named_has_to_be_usable(project: Project, given_files: Path) -> None:
    files: dict[str, str | bytes]
    files = {"a.py": "x", "null.md": b"\0", "empty.md": "", "latin.txt": b"\n\xe9", "package.json": '{"name": "x"}'}
    write(given_files, files)
    errors = refused(project, *(given_files / path for path in (*files, "none.md")))
    for message in (
        "a.py: not a prompt: it is a .py file",
        "null.md: not a text: it has a null character",
        "empty.md: the file is empty",
        "latin.txt:2: not UTF-8",
        "package.json: has no tools, and is not a prompt",
        'none.md": No such file or directory',
    ):
        assert message in errors
    assert errors.count("error:") == len(files) + 1


def test_a_folder_without_a_prompt_is_an_error(project: Project, given_files: Path) -> None:
    write(given_files, {"config.yaml": "agent:\n  prompt: |\n    One.\n    Two.\n"})
    errors = refused(project, given_files)
    assert "there is no prompt in what was named" in errors
    assert 'config.yaml#agent.prompt"' in errors


def test_what_is_no_file_and_what_a_link_leads_to_is_not_read_in_a_folder(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "deep/b.md": "B.\n"})
    (given_files / "link").symlink_to(given_files / "deep")
    (given_files / "broken.md").symlink_to("nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(given_files / "pipe.md")
    remarks = succeeded(project.run("init", given_files))
    assert f"skipped  {given_files}/link: it is a link to a folder, which is not followed" in remarks
    assert f"skipped  {given_files}/broken.md: it is not a file that can be read" in remarks
    assert list(manifests(project)) == ["a", "deep/b"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_names_that_are_not_utf8_are_refused(project: Project, given_files: Path) -> None:
    write(given_files, {"p.md": "P.\n"})
    for name, data in ((b"a\xff.md", b"A.\n"), (b"t\xff.json", b'{"name": "t", "inputSchema": {}}')):
        project.path(os.fsdecode(name)).write_bytes(data)
    assert r'"a\xff" is not usable as the name of a prefix: it is not UTF-8' in refused(
        project, os.fsdecode(b"a\xff.md")
    )
    errors = refused(project, given_files / "p.md", os.fsdecode(b"t\xff.json"))
    assert r"t\xff.json: the name is not UTF-8" in errors


# Tools

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
TOOL_FILES = {
    "openai.json": {"type": "function", "function": {"name": "a", "parameters": SCHEMA}},
    "flat.json": [{"type": "function", "name": "b", "parameters": SCHEMA}],
    "anthropic.json": {"name": "c", "description": "C.", "input_schema": SCHEMA},
    "mcp.json": {"tools": [{"name": "d", "inputSchema": SCHEMA}, {"name": "e"}]},
    "rpc.json": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "f", "inputSchema": SCHEMA}]}},
    "hosted.yaml": [{"name": "g", "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"}],
}


def test_tool_files_are_known_by_their_content_and_go_to_the_prompt(project: Project, given_files: Path) -> None:
    write(given_files, {"agent.md": "Agent.\n", **{path: json.dumps(value) for path, value in TOOL_FILES.items()}})
    remarks = succeeded(project.run("init", *sorted(given_files.iterdir())))
    assert "note: 8 tools of 6 files: in the manifest of agent" in remarks
    assert manifests(project)["agent"]["tools"] == [f"tools/{path}" for path in sorted(TOOL_FILES)]
    assert built_texts(project) == {"agent": "Agent.\n"}
    request = json.loads(project.read("build/agent/anthropic-1024.json"))
    assert sorted(tool["name"] for tool in request["tools"]) == [*"abcdefg", "web_search"]


def test_a_request_gives_its_tools_and_its_prompt_by_key(project: Project, given_files: Path) -> None:
    request = {
        "model": "m",
        "messages": [{"role": "system", "content": "One.\nTwo."}],
        "tools": TOOL_FILES["flat.json"],
    }
    write(given_files, {"request.json": json.dumps(request)})
    file = given_files / "request.json"
    remarks = succeeded(project.run("init", file, f"{file}#messages[0].content"))
    assert f'note: {file}: only its tools are taken; "{file}#messages[0].content" is a text in it' in remarks
    assert manifests(project)["request/messages-0-content"]["tools"] == ["tools/request.json"]
    assert built_texts(project) == {"request/messages-0-content": "One.\nTwo."}


def test_names_of_tools_in_the_configuration_of_an_agent_are_no_tools(project: Project, given_files: Path) -> None:
    write(given_files, {"agent.yaml": "tools: [search, {name: fetch}]\nprompt: |\n  One.\n  Two.\n", "a.md": "A.\n"})
    remarks = succeeded(project.run("init", given_files))
    assert f'agent.yaml: it has no tools; its texts can be named, such as "{given_files}/agent.yaml#prompt"' in remarks
    assert project.run("init", f"{given_files}/agent.yaml#prompt").code == 0


def test_tool_files_of_the_project_stay_where_they_are(project: Project, given_files: Path) -> None:
    tool = json.dumps(TOOL_FILES["anthropic.json"])
    project.write({"schemas/c.json": tool, "a.md": "A.\n", "build/o.json": json.dumps(TOOL_FILES["openai.json"])})
    write(given_files, {"d.json": json.dumps(TOOL_FILES["mcp.json"])})
    assert project.run("init", "a.md", "schemas", given_files / "d.json", "build/o.json").code == 0
    assert manifests(project)["a"]["tools"] == ["schemas/c.json", "tools/d.json", "tools/o.json"]
    assert project.read("tools/d.json") == (given_files / "d.json").read_bytes()
    assert not project.path("tools/c.json").exists()


def test_links_in_an_argument_change_nothing(project: Project, tmp_path: Path) -> None:
    tool = json.dumps(TOOL_FILES["anthropic.json"])
    project.write({**SETTINGS, "agent/a.md": "A.\n", "agent/c.json": tool, "templates/t.md": "x"})
    (tmp_path / "link").symlink_to(project.root)
    assert project.run("init", tmp_path / "link").code == 0
    assert {name: manifest["tools"] for name, manifest in manifests(project).items()} == {"agent/a": ["agent/c.json"]}


TWO_AGENTS = {
    "support/agent.md": "Support.\n",
    "support/tools/find.json": json.dumps(TOOL_FILES["anthropic.json"]),
    "sales/agent.md": "Sales.\n",
    "sales/other.md": "Other.\n",
    "sales/quote.json": json.dumps(TOOL_FILES["openai.json"]),
}


def test_tools_go_to_the_prompts_beside_them_or_in_the_nearest_folder_above(
    project: Project, given_files: Path
) -> None:
    write(given_files, TWO_AGENTS)
    remarks = succeeded(project.run("init", given_files))
    tools = {name: manifest.get("tools") for name, manifest in manifests(project).items()}
    sales = ["tools/quote.json"]
    assert tools == {"sales/agent": sales, "sales/other": sales, "support/agent": ["tools/find.json"]}
    assert "note: 1 tool of 1 file: in the manifests of sales/agent, sales/other" in remarks


def test_tools_that_stand_beside_no_prompt_go_to_all(project: Project, given_files: Path) -> None:
    write(given_files, {"prompts/a.md": "A.\n", "prompts/b.md": "B.\n", "tools/c.json": TWO_AGENTS["sales/quote.json"]})
    remarks = succeeded(project.run("init", given_files / "prompts", given_files / "tools"))
    assert [manifest["tools"] for manifest in manifests(project).values()] == [["tools/c.json"]] * 2
    assert "note: 1 tool of 1 file: in every manifest; --tools-for NAME gives them to some prefixes only" in remarks


def test_tools_go_to_the_prefixes_that_are_named(project: Project, given_files: Path) -> None:
    write(given_files, TWO_AGENTS)
    assert project.run("init", given_files, "--tools-for", "*/agent").code == 0
    tools = {name: manifest.get("tools") for name, manifest in manifests(project).items()}
    both = ["tools/quote.json", "tools/find.json"]
    assert tools == {"sales/agent": both, "sales/other": None, "support/agent": both}


def test_a_name_for_tools_that_matches_no_prefix_is_an_error(project: Project, given_files: Path) -> None:
    write(given_files, TWO_AGENTS)
    errors = refused(project, given_files, "--tools-for", "sales/agnet")
    assert '--tools-for "sales/agnet" matches none of the new prefixes' in errors
    assert 'hint: did you mean "sales/agent"?' in errors
    assert "--tools-for is given, and no file with tools" in refused(
        project, given_files / "sales/agent.md", "--tools-for", "agent"
    )


def test_tools_that_are_not_valid_are_errors_also_in_a_folder(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "t.json": '[{"name": "x",\n"input_schema": {"type": "array"}}]'})
    assert 't.json:2: the schema of a tool must have "type": "object"' in refused(project, given_files)


def test_two_tools_of_one_name_for_one_prefix_are_an_error(project: Project, given_files: Path) -> None:
    tool = json.dumps(TOOL_FILES["anthropic.json"])
    write(given_files, {"a.md": "A.\n", "c.json": tool, "d.json": tool})
    assert 'prefix "a" would have two tools "c"; the other is in' in refused(project, given_files)


def test_two_files_that_would_be_copied_to_one_place_are_an_error(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "x/t.json": json.dumps(TOOL_FILES["openai.json"])})
    write(given_files, {"y/t.json": json.dumps(TOOL_FILES["mcp.json"])})
    assert refused(project, given_files).count("another file would be copied to tools/t.json too") == 2


def test_tools_without_a_prompt_are_an_error(project: Project, given_files: Path) -> None:
    write(given_files, {"t.json": json.dumps(TOOL_FILES["openai.json"])})
    assert "the files have tools only, and no prompt" in refused(project, given_files)


def test_an_existing_tool_file_is_never_replaced(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "t.json": json.dumps(TOOL_FILES["openai.json"])})
    project.write({"tools/t.json": "mine"})
    assert "error: tools/t.json: already exists" in refused(project, given_files)
    project.write({"tools/t.json": (given_files / "t.json").read_bytes()})
    assert project.run("init", given_files).code == 0


# Prompts at keys

CONFIGS = {
    "block.yaml": ("agent:\n  system_template: |\n    Hi {{ x }}.\n\n      Deep: #1\n", "Hi {{ x }}.\n\n  Deep: #1\n"),
    "kept.yaml": ("agent: {x: 1}\nagent2:\n  system_template: |+\n    Hi.\n\n\n", "Hi.\n\n\n"),
    "stripped.yml": ("agent:\n  system_template: |-\n    Hi.\n", "Hi."),
    "folded.yaml": ("agent:\n  system_template: >\n    Hi\n    you.\n", "Hi you.\n"),
    "quoted.yaml": ('agent:\n  system_template: "Hi\\n\\u00e9"\n', "Hi\n\u00e9"),
    "crlf.yaml": ("agent:\r\n  system_template: |\r\n    Hi.\r\n    You.\r\n", "Hi.\nYou.\n"),
    "plain.yaml": ("agent:\n  system_template: no\n", "no"),
    "a.json": ('{"agent": {"system_template": "Hi\\n{% x"}}', "Hi\n{% x"),
    "a.toml": ('[agent]\nsystem_template = """\nHi.\n"""\n', "Hi.\n"),
}


@pytest.mark.parametrize("path", CONFIGS)
def test_the_text_at_a_key_becomes_a_prompt_to_the_character(project: Project, given_files: Path, path: str) -> None:
    text, expected = CONFIGS[path]
    write(given_files, {path: text})
    key = "agent2" if "agent2" in text else "agent"
    succeeded(project.run("init", f"{given_files / path}#{key}.system_template"))
    assert built_texts(project) == {f"{Path(path).stem}/{key}-system-template": expected}


AGENTS = """\
"a.b": {prompt: Dotted.}
agents:
  - {name: one, prompt: One., model: m}
  - {name: two, prompt: Two.}
  - {name: three}
more: {"*": Star., first_template: First., second_template: Second., limit: 0.5, list: [1, 2]}
"""


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ('"a.b".prompt', ["Dotted."]),
        ("'a.b'.prompt", ["Dotted."]),
        ("agents[1].prompt", ["Two."]),
        ("agents.1.prompt", ["Two."]),
        ("agents.*.prompt", ["One.", "Two."]),
        ("agents[*].prompt", ["One.", "Two."]),
        ("more.*_template", ["First.", "Second."]),
        ('more."*"', ["Star."]),
        ("more.*", ["First.", "Second.", "Star."]),
    ],
)
def test_a_key_may_have_indexes_quotes_and_patterns(
    project: Project, given_files: Path, key: str, texts: list[str]
) -> None:
    write(given_files, {"config.yaml": AGENTS})
    assert project.run("init", f"{given_files}/config.yaml#{key}").code == 0
    assert sorted(built_texts(project).values()) == texts


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("agent.x", ':1: no key "agent"', 'did you mean "agents"?'),
        ("zzz", ':1: no key "zzz"', 'its keys are "a.b", agents, more'),
        ("agents.5.x", ':2: no item "5" in "agents", a list of 3 items', "its items are 0 to 2"),
        ("agents[2].promt", ':5: no key "promt" in "agents[2]"', "its keys are name"),
        ("agents[0].name.x", ':3: no key "x": "agents[0].name" is a text', None),
        ("agents", ':2: the value of "agents" is a list of 3 items, not a text', None),
        ("more.limit", ':6: the value of "more.limit" is a number, not a text', None),
        ("agents.*.zzz", ': no text in the file is at "agents.*.zzz"', None),
        ("", ': there is no key behind "#"', "write it as agent.prompt"),
        ("agents[", ': "agents[" is not the key of a value', "write it as agent.prompt"),
        ("a..b", ': "a..b" is not the key of a value', "write it as agent.prompt"),
    ],
)
def test_a_wrong_key_is_an_error_with_the_line_of_the_nearest_value(
    project: Project, given_files: Path, key: str, message: str, hint: str | None
) -> None:
    write(given_files, {"config.yaml": AGENTS})
    errors = refused(project, f"{given_files}/config.yaml#{key}")
    assert f"config.yaml{message}\n" in errors
    assert ("hint:" in errors) == (hint is not None)
    assert f"hint: {hint}" in errors or hint is None


def nested_keys() -> st.SearchStrategy[object]:
    """Returns mappings and lists with texts in them; no key has both kinds of quotes."""
    key = st.text(st.sampled_from('a.*[]#0 -"é'), max_size=3) | st.sampled_from(["a'b", "0", "'"])
    return st.recursive(
        st.text(max_size=2), lambda inner: st.dictionaries(key, inner, max_size=3) | st.lists(inner, max_size=2)
    )


@given(nested_keys())
def test_each_text_of_a_file_is_found_by_its_expression(value: object) -> None:
    document = Document(path="f.yaml", value=value)

    def texts(part: object, keys: Keys = ()) -> list[Keys]:
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        return (
            [keys] if isinstance(part, str) else [found for key, item in items for found in texts(item, (*keys, key))]
        )

    for keys in filter(None, texts(value)):
        assert texts_at(document, parse_expression(written_keys(keys), "f.yaml")) == [keys]


@given(st.text(st.sampled_from("a.*[]\"'0 b"), max_size=8))
def test_any_expression_finds_texts_or_is_an_error(expression: str) -> None:
    document = Document(path="f.yaml", value={"a": ["x", {"b": "y", "0": "z"}], "b": {"a.b": "w"}, "n": 1})
    try:
        found = texts_at(document, parse_expression(expression, "f.yaml"))
    except CacheunitError:
        return
    assert found


def test_a_key_of_another_file_is_an_error(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "b#c.md": "B.\n"})
    assert 'a.md: a key behind "#" needs a YAML, JSON or TOML file' in refused(project, f"{given_files}/a.md#x")
    assert project.run("init", given_files / "b#c.md").code == 0


def test_a_file_with_texts_under_keys_needs_the_key(project: Project, given_files: Path) -> None:
    write(given_files, {"chat.json": json.dumps([{"role": "system", "content": "You are helpful.\nBe kind."}])})
    errors = refused(project, given_files / "chat.json")
    assert "has no tools, and is not a prompt" in errors
    assert f'hint: name the key of the prompt, such as "{given_files}/chat.json#[0].content"' in errors
    assert project.run("init", f"{given_files}/chat.json#[0].content").code == 0


# What is changed is said


def test_line_ends_and_a_byte_order_mark_are_changed_and_said(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": b"\xef\xbb\xbfOne\r\nTwo\r\n", "b.md": "Clean.\n"})
    write(given_files, {"c.json": '{"p": "One\\r\\nTwo"}'})
    remarks = succeeded(project.run("init", given_files / "a.md", given_files / "b.md", f"{given_files}/c.json#p"))
    assert f"note: {given_files}/a.md: 2 line ends changed to LF" in remarks
    assert f"note: {given_files}/a.md: 1 byte-order mark dropped" in remarks
    assert f"note: {given_files}/c.json#p: 1 line end changed to LF" in remarks
    assert "b.md" not in remarks
    assert built_texts(project) == {"a": "One\nTwo\n", "b": "Clean.\n", "c/p": "One\nTwo"}


def test_delimiters_and_front_matter_are_kept_and_said(project: Project, given_files: Path) -> None:
    text = "---\napplyTo: '**'\n---\n\nHi {{ name }}, {% x %}\n"
    write(given_files, {"a.md": text, "rule.md": "---\nA rule.\n"})
    remarks = succeeded(project.run("init", given_files))
    kept = "2 delimiters ({{, {% or {#) kept as text; for a Jinja template, run init with --template"
    assert f"note: {given_files}/a.md: {kept}" in remarks
    assert f'note: {given_files}/a.md: 1 block of front matter kept; "strip: front-matter" in the manifest' in remarks
    assert "rule.md" not in remarks
    assert built_texts(project)["a"] == text


def test_a_decomposed_name_is_composed_and_said(project: Project, given_files: Path) -> None:
    name = unicodedata.normalize("NFD", "café.md")
    write(given_files, {name: "A.\n"})
    assert "name changed to composed characters (NFC)" in project.run("init", given_files / name).err
    assert list(manifests(project)) == ["café"]


def test_a_change_of_many_prompts_is_one_line_unless_verbose(project: Project, given_files: Path) -> None:
    write(given_files, {f"{number}.md": "a\r\nb\r\n" for number in range(6)})
    remarks = succeeded(project.run("init", given_files, "--dry-run"))
    assert "note: 6 prompts: 12 line ends changed to LF (-v lists them)" in remarks
    assert project.run("-v", "init", given_files).err.count(": 2 line ends changed to LF") == 6


# Templates


@pytest.mark.parametrize("options", [("a.md.j2",), ("a.md", "--template"), ("config.yaml#a", "--template")])
def test_a_template_is_taken_as_it_is_and_builds_once_its_variables_have_values(
    project: Project, given_files: Path, options: tuple[str, ...]
) -> None:
    text = "{% set greeting = 'Hi' %}{{ greeting }} {{ name }}, {{ range(2)|join }}, {{ place }}.\n"
    block = f"a: |\n  {text}"
    write(given_files, {options[0].partition("#")[0]: block if "#" in options[0] else text})
    remarks = succeeded(project.run("init", given_files / options[0], *options[1:]))
    assert "before a build, give the variables in its manifest a value: name, place" in remarks
    (name,) = manifests(project)
    manifest, template = f"prefixes/{name}.yaml", f"templates/{name}.md.j2"
    assert project.read(template).decode() == text
    failed = project.run("build")
    assert (failed.code, f'{template}:1: "name" is undefined' in failed.err) == (2, True), "no value is made up"
    commented = project.read(manifest).decode()
    filled = commented.replace("# variables: #", "variables: #").replace("#   name:", "  name: Ada")
    project.write({manifest: filled.replace("#   place:", "  place: Ulm")})
    assert built_texts(project) == {name: "Hi Ada, 01, Ulm.\n"}


def test_a_template_with_a_syntax_error_is_an_error_with_its_line(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md.j2": "One.\n{% if %}\n", "config.yaml": "x: 1\nprompt: |\n  One.\n  {{ two\n"})
    errors = refused(project, given_files / "a.md.j2", f"{given_files}/config.yaml#prompt", "--template")
    assert "a.md.j2:2: not a valid template: " in errors
    assert "config.yaml#prompt:4: not a valid template: " in errors


def test_the_templates_that_a_template_includes_are_named_if_they_are_missing(
    project: Project, given_files: Path
) -> None:
    project.write({"templates/there.j2": "There.\n"})
    write(given_files, {"a.md.j2": "{% include 'there.j2' %}{% from 'b.j2' import x %}{% include ['c.j2', n] %}\n"})
    write(given_files, {"b.md.j2": "{% include 'd.j2' ignore missing %}\n"})
    remarks = succeeded(project.run("init", given_files))
    assert 'a.md.j2: add what it includes to the folder of templates: "b.j2", "c.j2"' in remarks
    assert '"d.j2"' not in remarks


# Passages that several prompts share

LONG = "# Tone\n" + "".join(f"- Rule {number} of the house: be kind, be brief.\n" for number in range(8))
OTHER = "# Safety\n" + "".join(f"- Never reveal secret {number} of {{{{ company }}}}.\n" for number in range(8))

blocks = st.sampled_from(
    ["One.", "Two {{ x }}.", "{", "{% a %}", "  indented\n  twice", LONG.strip(), OTHER.strip(), "}"]
)
texts = st.lists(st.tuples(blocks, st.sampled_from(["\n\n", "\n\n\n", "\n \n", "\n"])), min_size=1, max_size=6)


@given(st.lists(st.tuples(texts, st.booleans()), min_size=2, max_size=4))
def test_templates_with_partials_render_to_exactly_the_prompts(
    prompts: list[tuple[list[tuple[str, str]], bool]],
) -> None:
    given_texts = {}
    for number, (parts, has_end) in enumerate(prompts):
        text = "".join(f"{block}{gap}" for block, gap in parts)
        given_texts[str(number)] = text if has_end else text.rstrip("\n") or "x"
    templates, partials = templates_with_partials(given_texts, shared_passages(given_texts), lambda _name: False)
    for name, text in given_texts.items():
        assert rendered({**partials, "": templates[name]}, "") == text
    assert all(any(f"'{partial}'" in template for template in templates.values()) for partial in partials)


def test_a_passage_goes_as_far_as_the_same_prompts_have_the_same_blocks() -> None:
    both, three = f"{LONG}\n{OTHER}", f"{LONG}\nEnd.\n"
    found = shared_passages({"a": f"A.\n\n{both}", "b": f"B.\n\n{both}\nB.\n", "c": f"C.\n\n{three}"})
    assert [(passage.text, sorted(passage.starts)) for passage in found] == [
        (LONG, ["a", "b", "c"]),
        (OTHER, ["a", "b"]),
    ]
    assert found[0].starts == {"a": 4, "b": 4, "c": 4}
    same = shared_passages({"a": f"A.\n\n{both}", "b": both})
    assert [passage.text for passage in same] == [both]


def test_a_passage_ends_where_a_gap_differs_or_other_prompts_have_the_next_block_too() -> None:
    both = f"{LONG}\n{OTHER}"
    gaps = shared_passages({"a": both, "b": f"{LONG}\n\n{OTHER}"})
    assert {passage.text for passage in gaps} == {LONG, OTHER}
    alone = shared_passages({"a": both, "b": both, "c": f"C.\n\n{OTHER}"})
    assert {(passage.text, len(passage.starts)) for passage in alone} == {(LONG, 2), (OTHER, 3)}


def test_a_text_that_partials_would_change_is_written_without_them() -> None:
    wrong = Passage(text="other", starts={"a": 0})
    assert templates_with_partials({"a": "A text."}, [wrong], lambda _name: False) == ({"a": "A text."}, {})


def test_blocks_with_nearly_the_same_words_are_found() -> None:
    changed = LONG.replace("Rule 3 of", "Rule three of")
    groups = similar_blocks({"a": f"A.\n\n{LONG}", "b": f"B.\n\n{changed}", "c": OTHER, "d": LONG})
    assert [group.places for group in groups] == [(("a", 4), ("b", 4))]


SHARING = {
    "a.md": f"You sell.\n\n{LONG}\n{OTHER}",
    "b.md": f"You rent.\n\n{LONG}\n{OTHER}\nEnd.\n",
    "c.md": f"You repair.\n\n{LONG.replace('Rule 3', 'Rule 33')}\nEnd.\n",
}


def test_shared_passages_are_told_with_their_places_and_tokens(project: Project, given_files: Path) -> None:
    write(given_files, SHARING)
    remarks = succeeded(project.run("init", given_files))
    places = f"{given_files}/a.md:3, {given_files}/b.md:3"
    assert re.search(rf'note: "# Tone" \(19 lines, \d{{3}} tokens\) is the same in 2 prompts: {places}\n', remarks)
    assert "hint: remove what was created and run init with --partials" in remarks
    assert f'note: "# Tone" is nearly the same in 2 prompts: {given_files}/a.md:3, {given_files}/c.md:3' in remarks
    assert not project.path("templates/partials").exists()


def test_partials_are_written_once_and_included(project: Project, given_files: Path) -> None:
    write(given_files, SHARING)
    project.write({"templates/partials/tone.md.j2": "mine"})
    assert "--partials" not in succeeded(project.run("init", given_files, "--partials"))
    template = project.read("templates/a.md.j2").decode()
    assert template == "You sell.\n\n{% include 'partials/tone-2.md.j2' %}"
    assert project.read("templates/partials/tone-2.md.j2").decode() == literal_template(f"{LONG}\n{OTHER}")
    assert built_texts(project) == {Path(path).stem: text for path, text in SHARING.items()}


# Manifests, hooks, CI, formatters


def test_manifests_name_the_schema_that_the_project_has(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\n", "deep/er/b.md": "B.\n"})
    assert project.run("init", given_files).code == 0
    for path in ("prefixes/a.yaml", "prefixes/deep/er/b.yaml"):
        line = project.read(path).decode().splitlines()[0]
        name = line.removeprefix("# yaml-language-server: $schema=")
        schema = (project.path(path).parent / name).resolve()
        assert schema == project.path("prefixes/manifest.schema.json").resolve()
    assert project.read("prefixes/manifest.schema.json") == project.run("schema", "manifest").output
    project.build()
    assert project.check()["ok"]
    assert "schema" not in project.run("lint").out


def test_a_schema_of_another_release_is_kept_and_said(project: Project) -> None:
    project.write({"prefixes/manifest.schema.json": "{}\n"})
    remarks = succeeded(project.run("init"))
    assert 'refresh it by "cacheunit schema manifest > prefixes/manifest.schema.json"' in remarks
    assert project.read("prefixes/manifest.schema.json") == b"{}\n"


def test_the_folders_of_the_settings_are_used(project: Project, given_files: Path) -> None:
    project.write({"cacheunit.toml": 'prefixes = "m"\ntemplates = "t"\nbuild = "out"\n'})
    write(given_files, {"a.md": "A.\n"})
    ran = project.run("init", given_files)
    assert {"created  m/a.yaml", "created  t/a.md.j2"} < set(ran.out.splitlines())
    assert b"out/** -text" in project.read(".gitattributes")


def documented(language: str, mark: str) -> str:
    """Returns the block of docs/pipelines.md that begins with a comment."""
    text = (DOCS / "pipelines.md").read_text(encoding="utf-8")
    return text.split(f"```{language}\n{mark}\n")[1].split("```")[0]


PLACE = ProjectPlace(build="build", subfolder="", release="0.2.0")


def test_the_ci_file_and_the_hook_are_those_of_the_documentation() -> None:
    assert github_workflow(PLACE) == documented("yaml", "# .github/workflows/cacheunit.yml")
    hooks = yaml.safe_load(hook_config(PLACE))
    assert hook_exclude(PLACE) in (DOCS / "pipelines.md").read_text(encoding="utf-8").replace("\\|", "|")
    assert hooks.pop("exclude") == r"^(build/|cacheunit\.lock$)"
    assert hooks == yaml.safe_load(documented("yaml", "# .pre-commit-config.yaml"))


@pytest.mark.parametrize(
    ("option", "path"), [("github", ".github/workflows/cacheunit.yml"), ("gitlab", ".gitlab-ci.yml")]
)
def test_hook_and_ci_file_are_created_or_the_lines_to_add_are_printed(project: Project, option: str, path: str) -> None:
    ran = project.run("init", "--hook", "--ci", option)
    assert {f"created  {path}", "created  .pre-commit-config.yaml"} < set(ran.out.splitlines())
    assert "replace OWNER/cacheunit by the repository" in ran.err
    commands = project.read(path).decode()
    assert isinstance(yaml.safe_load(commands), dict)
    project.write({path: "mine: {}\n", ".pre-commit-config.yaml": "repos: []\n"})
    again = project.run("init", "--hook", "--ci", option)
    assert (again.code, project.read(path), project.read(".pre-commit-config.yaml")) == (
        0,
        b"mine: {}\n",
        b"repos: []\n",
    )
    assert f"note: {path} already exists; add to it:\n{commands}" in again.err
    assert "note: .pre-commit-config.yaml already exists; add to it:\nexclude: ^(build/" in again.err
    assert "prefixes/support.yaml" not in again.out, "no second example"


def test_the_gitlab_file_includes_the_jobs_and_names_the_package_and_the_folder() -> None:
    place = ProjectPlace(build="build", subfolder="services/bot/", release="0.2.0", extras=("hf",))
    assert yaml.safe_load(gitlab_pipeline(place)) == yaml.safe_load(documented("yaml", "# .gitlab-ci.yml"))


def test_below_the_top_of_a_repository_hook_and_ci_are_printed_for_the_top(project: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    project.path("sub").mkdir()
    ran = project.cacheunit("-C", project.path("sub"), "init", "--hook", "--ci", "github")
    assert ran.code == 0, ran.err
    assert "the project is in sub of its repository; at the top, create or extend .pre-commit-config.yaml:" in ran.err
    assert "args: [-C, sub, check]" in ran.err
    assert r"exclude: ^(sub/build/|sub/cacheunit\.lock$)" in ran.err
    assert "working-directory: sub #" in ran.err
    assert not project.path("sub/.pre-commit-config.yaml").exists()


def test_formatters_of_the_project_get_the_lines_that_keep_them_from_artifacts(project: Project) -> None:
    files = {".editorconfig": "[*]\nend_of_line = unset\n", ".prettierignore": "build/\n"}
    project.write({**files, ".pre-commit-config.yaml": "exclude: ^(build/|x)\nrepos: []\n"})
    remarks = succeeded(project.run("init"))
    keys = ("insert_final_newline", "trim_trailing_whitespace", "end_of_line")
    section = "".join(["[{build/**,cacheunit.lock}]\n", *(f"{key} = unset\n" for key in keys)])
    assert f"note: .editorconfig already exists; add to it:\n{section}" in remarks
    assert "note: .prettierignore already exists; add to it:\ncacheunit.lock\n" in remarks
    assert ".pre-commit-config.yaml" not in remarks
    assert section in (DOCS / "pipelines.md").read_text(encoding="utf-8").replace("          # in .editorconfig", "")


def test_a_dry_run_writes_nothing(project: Project, given_files: Path) -> None:
    write(given_files, {"a.md": "A.\r\n"})
    before = project.files()
    ran = project.run("init", given_files, "--hook", "--dry-run")
    assert (ran.code, project.files()) == (0, before)
    assert {"would create  prefixes/a.yaml", "would create  .pre-commit-config.yaml"} < set(ran.out.splitlines())
    assert "1 line end changed to LF" in ran.err
    assert ran.err.endswith("\nnothing is written (--dry-run)\n")


def test_the_session_of_the_documentation_is_the_actual_output(project: Project) -> None:
    (session,) = re.findall(
        r"```console\n\$ cacheunit (.*?)\n(.*?)```", (DOCS / "init.md").read_text("utf-8"), re.DOTALL
    )
    tool = json.dumps(TOOL_FILES["openai.json"])
    config = "agents:\n  review:\n    prompt: Review {{ x }}.\n  other: {model: m}\n"
    project.write(
        {"prompts/support/agent.md": b"A.\r\nB.\r\n", "prompts/README.md": "x", "prompts/support/t.json": tool}
    )
    project.write({"config.yaml": config})
    ran = project.run(*(word.strip("'") for word in session[0].split()))
    assert ran.out + ran.err == session[1]


def test_of_several_keys_the_empty_ones_are_left_out(project: Project) -> None:
    project.write({"c.yaml": 'agents:\n  a:\n    prompt: "You are A."\n  b:\n    prompt: ""\n'})
    assert project.run("init", "c.yaml#agents.*.prompt").code == 0
    assert [path for path in project.files() if path.endswith(".md.j2")] == ["templates/c/agents-a-prompt.md.j2"]
    ran = project.run("init", "c.yaml#agents.b.prompt")
    assert (ran.code, "not a prompt: it is empty" in ran.err) == (2, True)
