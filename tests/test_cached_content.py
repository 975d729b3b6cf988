"""Prefixes that are stored at the provider: a third file of an artifact, and requests that name it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import CacheunitError, IntegrityError, load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

CONTENT, REQUEST, TEXT = (
    "build/a/gemini-explicit.cache.json",
    "build/a/gemini-explicit.json",
    "build/a/gemini-explicit.txt",
)
USER = {"role": "user", "parts": [{"text": "Hi"}]}
NAME = "cachedContents/abc"
MANIFEST = """
system: a.j2
tools: [t.json]
examples: [{role: user, text: One?}, {role: assistant, text: Two.}]
targets: [gemini-explicit]
cache: {ttl: 90m}
options: {toolConfig: {functionCallingConfig: {mode: ANY}}}
"""


@pytest.fixture
def stored(project: Project) -> Project:
    """Returns a built project with a prefix that is stored as cached content."""
    project.write(
        {
            "prefixes/a.yaml": MANIFEST,
            "prefixes/plain.yaml": "system: a.j2\ntargets: [gemini, anthropic-512]\n",
            "templates/a.j2": "Be brief and kind.\n" * 2000 + "The end",
            "t.json": '{"name": "now", "description": "The time.", "parameters": {"type": "object"}}',
        }
    )
    project.build()
    return project


def prefix(project: Project, name: str = "a", target: str | None = None) -> Any:  # noqa: ANN401 - a prefix
    return load(name, target=target, root=str(project.root))


def refused(project: Project, **arguments: Any) -> str:
    """Returns the message and the hint with which a request is refused."""
    with pytest.raises(CacheunitError) as caught:
        prefix(project).request([USER], **arguments)
    (fault,) = caught.value.faults
    return f"{fault.message}: {fault.hint}"


# The files


def test_the_body_that_creates_it_has_everything_that_is_cached_and_the_fragment_nothing(stored: Project) -> None:
    body = json.loads(stored.read(CONTENT))
    assert list(body) == ["contents", "systemInstruction", "toolConfig", "tools", "ttl"]
    assert body["systemInstruction"] == {"parts": [{"text": stored.read(TEXT).decode()}]}
    assert [content["role"] for content in body["contents"]] == ["user", "model"]
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"description": "The time.", "name": "now", "parametersJsonSchema": {"type": "object"}}
            ]
        }
    ]
    assert (body["ttl"], body["toolConfig"]) == ("5400s", {"functionCallingConfig": {"mode": "ANY"}})
    assert stored.read(REQUEST) == b"{}\n"
    entry = json.loads(stored.read("cacheunit.lock"))["prefixes"]["a"]["gemini-explicit"]
    assert entry["lifetimes"] == ["90m"]
    (artifact,) = stored.run("explain", "a", "--format", "json").json["artifacts"]
    assert artifact["cached_content"] == entry["cached_content"]
    assert artifact["predicted"] == entry["tokens"]


def test_without_a_lifetime_the_provider_has_its_own(stored: Project) -> None:
    stored.edit("prefixes/a.yaml", "cache: {ttl: 90m}\n", "")
    stored.build()
    assert "ttl" not in json.loads(stored.read(CONTENT))


@pytest.mark.parametrize("damage", ["edit", "remove"])
def test_check_and_load_notice_a_changed_file_and_build_restores_it(stored: Project, damage: str) -> None:
    before = stored.files("build")
    assert stored.drift() == []
    if damage == "edit":
        stored.edit(CONTENT, "kind", "rude")
    else:
        stored.path(CONTENT).unlink()
    assert stored.drift() == [({"edit": "edited", "remove": "missing"}[damage], "a")]
    with pytest.raises(IntegrityError if damage == "edit" else CacheunitError, match="artifact"):
        prefix(stored)
    stored.build()
    assert stored.files("build") == before
    assert stored.drift() == []


def test_a_locked_build_writes_a_missing_file_and_refuses_an_edited_one(stored: Project) -> None:
    before = stored.files("build")
    stored.path(CONTENT).unlink()
    stored.build("--locked")
    assert stored.files("build") == before
    stored.edit(CONTENT, "kind", "rude")
    assert stored.run("build", "--locked").code == 1


@pytest.mark.parametrize("change", ["the target", "the prefix"])
def test_a_file_that_is_no_longer_wanted_is_removed_unless_it_was_edited(stored: Project, change: str) -> None:
    def remove() -> None:
        if change == "the prefix":
            stored.path("prefixes/a.yaml").unlink()
        else:  # the same name, but requests carry the prefix
            stored.write({"cacheunit.toml": '[target.mine]\nextends = "gemini"\n'})

    if change == "the target":
        stored.write({"cacheunit.toml": '[target.mine]\nextends = "gemini-explicit"\n'})
        stored.edit("prefixes/a.yaml", "[gemini-explicit]", "[mine]")
        stored.edit("prefixes/a.yaml", "cache: {ttl: 90m}\n", "")
        stored.build()
    path = CONTENT if change == "the prefix" else "build/a/mine.cache.json"
    edited = stored.read(path).replace(b"kind", b"rude")
    stored.path(path).write_bytes(edited)
    remove()
    (orphan,) = [
        item for item in stored.run("build", "--format", "json").json["orphans"] if item.endswith(".cache.json")
    ]
    assert (orphan, stored.read(path)) == (path, edited)
    assert ("orphan", path) in stored.drift()


def test_an_unedited_file_goes_with_its_artifact(stored: Project) -> None:
    stored.write({"cacheunit.toml": '[target.mine]\nextends = "gemini-explicit"\n'})
    stored.edit("prefixes/a.yaml", "[gemini-explicit]", "[mine]")
    stored.edit("prefixes/a.yaml", "cache: {ttl: 90m}\n", "")
    stored.build()
    assert set(stored.files("build/a")) == {f"build/a/mine{end}" for end in (".txt", ".json", ".cache.json")}
    stored.write({"cacheunit.toml": '[target.mine]\nextends = "gemini"\n'})
    stored.build()
    assert set(stored.files("build/a")) == {f"build/a/mine{end}" for end in (".txt", ".json")}
    assert stored.drift() == []


def test_an_unchanged_project_is_up_to_date_and_an_edit_is_seen_by_every_command(stored: Project) -> None:
    assert stored.run("build", "--format", "json").json["artifacts"][0]["status"] == "unchanged"
    stored.edit(CONTENT, "kind", "rude")
    (artifact,) = [
        item for item in stored.run("build", "--format", "json").json["artifacts"] if item["status"] == "built"
    ]
    assert artifact["prefix"] == "a"
    assert b"rude" not in stored.read(CONTENT)


def test_a_prefix_that_goes_on_after_an_old_one_is_stored_anew_as_a_whole(stored: Project, tmp_path: Path) -> None:
    stored.edit("prefixes/a.yaml", "[gemini-explicit]", "[gemini-explicit, anthropic-512]")
    stored.edit("prefixes/a.yaml", "ttl: 90m", "ttl: 1h")
    stored.edit("prefixes/a.yaml", "examples: [{role: user, text: One?}, {role: assistant, text: Two.}]\n", "")
    stored.build()
    old = shutil.copytree(stored.root, tmp_path / "old")
    more = "system: a.j2\nexamples: [{role: user, text: One?}, {role: assistant, text: Two.}]"
    stored.edit("prefixes/a.yaml", "system: a.j2", more)
    stored.build()
    changes = stored.run("diff", "--against", old, "--format", "json").json["changes"]
    by_target = {change["target"]: change for change in changes}
    assert by_target["anthropic-512"]["still_cached"] > 0
    explicit = by_target["gemini-explicit"]
    assert (explicit["still_cached"], explicit["recomputed"]) == (0, explicit["tokens"]["new"])


def test_a_lock_whose_entry_does_not_fit_its_rule_is_broken(stored: Project) -> None:
    lock = json.loads(stored.read("cacheunit.lock"))
    del lock["prefixes"]["a"]["gemini-explicit"]["cached_content"]
    stored.write({"cacheunit.lock": json.dumps(lock)})
    with pytest.raises(CacheunitError, match='"cached_content" does not fit the cache rule'):
        prefix(stored)


def test_only_a_format_that_stores_prefixes_has_the_kind(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": '[target.x]\nextends = "vllm"\ncache = {kind = "stored"}\n',
            "prefixes/a.yaml": "system: a\n",
        }
    )
    ran = project.run("build")
    assert (ran.code, 'cacheunit.toml:3: format "openai-chat" has no kind "stored"' in ran.err) == (2, True)


def test_the_name_of_a_target_is_not_that_of_such_a_file(project: Project) -> None:
    project.write({"cacheunit.toml": '[target."x.cache"]\nextends = "gemini"\n', "prefixes/a.yaml": "system: a\n"})
    ran = project.run("build")
    assert ran.code == 2
    assert '"x.cache.json" is the file of cached content of a target "x"' in ran.err


def test_too_short_a_prefix_says_that_it_is_refused(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\ntargets: [gemini-explicit]\n", "templates/a.j2": "Be kind.\n"})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["plan"] == "below-minimum"
    assert "the provider refuses to store it" in artifact["reason"]


# The requests


def test_a_request_names_it_and_repeats_nothing_of_it(stored: Project) -> None:
    found = prefix(stored)
    request = found.request([USER], cached_content=NAME, model="gemini-3.8-flash")
    assert request == {"contents": [USER], "config": {"cached_content": NAME}, "model": "gemini-3.8-flash"}
    dynamic = found.request([USER], cached_content=NAME, dynamic="Today is Monday.")
    assert dynamic["contents"][0]["parts"] == [{"text": "Today is Monday."}, {"text": "Hi"}]
    hot = found.request([USER], cached_content=NAME, config={"temperature": 1})
    assert hot["config"] == {"cached_content": NAME, "temperature": 1}


def test_the_body_is_a_new_value_and_none_for_other_targets(stored: Project) -> None:
    found = prefix(stored)
    found.cached_content["tools"].clear()
    assert found.cached_content == json.loads(stored.read(CONTENT))
    assert found.tools == ("now",)
    entry = json.loads(stored.read("cacheunit.lock"))["prefixes"]["a"]["gemini-explicit"]
    assert found.fingerprint == entry["cached_content"]  # all fragments of such prefixes may be equal
    assert prefix(stored, "plain", "gemini").cached_content is None


def test_a_request_without_the_name_is_refused(stored: Project) -> None:
    message = refused(stored)
    assert message.startswith('request() of prefix "a" for gemini-explicit needs cached_content')
    assert "prefix.cached_content" in message
    assert "blank" in refused(stored, cached_content=" ")
    with pytest.raises(TypeError, match="cached_content must be the name, a str, not dict"):
        prefix(stored).request([USER], cached_content={"name": NAME})


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"system_instruction": "Be kind."}, "systemInstruction"),
        ({"tools": [{"google_search": {}}]}, "tools"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, "toolConfig"),
        ({"http_options": {"extra_body": {"systemInstruction": {"parts": []}}}}, "systemInstruction"),
    ],
)
def test_a_request_that_would_repeat_a_part_is_refused(stored: Project, config: dict[str, Any], part: str) -> None:
    message = refused(stored, cached_content=NAME, config=config)
    assert f'the API refuses "{part}" in a request that names cached content' in message
    assert '"cachedContent" is set by request()' in refused(
        stored, cached_content=NAME, config={"cached_content": "cachedContents/other"}
    )


@pytest.mark.parametrize("target", ["gemini", "anthropic-512"])
def test_other_targets_take_no_name(stored: Project, target: str) -> None:
    message = USER if target == "gemini" else {"role": "user", "content": "Hi"}
    with pytest.raises(CacheunitError, match=f'target "{target}" has no cached content') as caught:
        prefix(stored, "plain", target).request([message], cached_content=NAME)
    assert caught.value.faults[0].hint == "leave out cached_content"


def test_what_a_response_reports_is_compared_with_the_whole_prefix(stored: Project) -> None:
    found = prefix(stored)
    usage = {"usageMetadata": {"promptTokenCount": found.tokens + 5, "cachedContentTokenCount": found.tokens}}
    assert found.observe(usage).verdict == "warm"
    assert found.observe({"usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 0}}).verdict == "cold"
