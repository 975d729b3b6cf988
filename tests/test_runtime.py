"""`load` returns exactly what is locked, and refuses artifacts that do not match the lock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from cacheunit_build import CacheunitError, IntegrityError, load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

SETTINGS = """
targets = ["deepseek-v4"]
build = "frozen"
[target.plain]
extends = "deepseek-v4"
request = "text"
[target.anthropic]
extends = "anthropic-512"
[target.responses]
extends = "openai"
"""
FILES = {
    "cacheunit.toml": SETTINGS,
    "prefixes/one.yaml": "system: a.j2\nvariables: {locale: '-', beta: '-'}\npadding: always\n",
    "prefixes/many.yaml": """
system: a.j2
targets: [deepseek-v4, plain, anthropic, responses]
variables: {locale: '-', beta: '-'}
""",
    "prefixes/tools.yaml": "tools: [t.json]\ntargets: [responses]\n",
    "prefixes/agent.yaml": "system: a.j2\nmatrix: {locale: [de, 'zh/CN'], beta: [true, false]}\n",
    "templates/a.j2": "Be brief, {{ locale }} {{ beta }}.\n",
    "t.json": '{"name": "now", "parameters": {"type": "object", "properties": {}}}',
}


@pytest.fixture
def locked(project: Project) -> Project:
    """Returns a built project with prefixes for several request formats."""
    project.write(FILES)
    project.build()
    return project


def test_load_returns_the_text_of_the_artifact_and_the_numbers_of_the_lock(locked: Project) -> None:
    prefix = load("one", root=locked.root)
    assert prefix.text.encode() == locked.read("frozen/one/deepseek-v4.txt")
    assert (prefix.target, prefix.tokens, prefix.counted) == ("deepseek-v4", 128, "exact")
    assert prefix.fingerprint in locked.read("cacheunit.lock").decode()
    assert load("one", root=locked.root) is prefix


def test_a_request_contains_the_fragment_then_the_messages_then_other_arguments(locked: Project) -> None:
    user = {"role": "user", "content": "Hi"}
    chat = load("one", root=locked.root).request([user], model="deepseek-v4-pro", temperature=0)
    text = load("one", root=locked.root).text
    assert chat == {
        "messages": [{"role": "system", "content": text}, user],
        "model": "deepseek-v4-pro",
        "temperature": 0,
    }
    anthropic = load("many", target="anthropic", root=locked.root).request(messages=[user])
    assert anthropic["messages"] == [user]
    assert anthropic["system"][0]["text"].startswith("Be brief")
    responses = load("many", target="responses", root=locked.root).request(messages=[user])
    assert [item["role"] for item in responses["input"]] == ["developer", "user"]
    assert load("tools", root=locked.root).request(messages=[user])["input"] == [user]
    plain = load("many", target="plain", root=locked.root)
    assert plain.request(continuation="Hi") == {"prompt": plain.text + "Hi"}


def test_a_changed_request_does_not_change_later_requests(locked: Project) -> None:
    prefix = load("one", root=locked.root)
    first = prefix.request(messages=[])
    first["messages"][0]["content"] = "changed"
    assert prefix.request(messages=[])["messages"][0]["content"] == prefix.text
    with pytest.raises(AttributeError, match="frozen"):
        prefix.text = "changed"
    with pytest.raises(AttributeError, match="frozen"):
        del prefix.text


def test_a_request_refuses_frozen_keys_and_arguments_of_another_format(locked: Project) -> None:
    with pytest.raises(CacheunitError, match='"tools" is frozen'):
        load("tools", root=locked.root).request(messages=[], tools=[])
    with pytest.raises(CacheunitError, match="needs messages"):
        load("one", root=locked.root).request(continuation="x")
    with pytest.raises(CacheunitError, match="has no messages"):
        load("many", target="plain", root=locked.root).request(messages=[])


def test_nothing_that_is_to_follow_a_prefix_is_dropped(locked: Project) -> None:
    with pytest.raises(CacheunitError, match="needs messages, and no continuation"):
        load("one", root=locked.root).request([], continuation="lost")
    with pytest.raises(CacheunitError, match='"input" is frozen'):
        load("tools", root=locked.root).request([], input=["replaced"])


def test_equal_artifacts_of_two_projects_keep_the_units_of_their_locks(locked: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(locked.root, other)
    lock = json.loads((other / "cacheunit.lock").read_bytes())
    lock["targets"]["deepseek-v4"]["cache"]["unit"] = 1 << 20
    (other / "cacheunit.lock").write_text(json.dumps(lock), encoding="utf-8")
    first, second = load("one", root=locked.root), load("one", root=other)
    assert (first.predicted, second.predicted) == (first.tokens, 0)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("cacheunit.lock", '{"version": 2, "targets": {}, "prefixes": 3}'),
        ("cacheunit.lock", '{"version": 2, "targets": {}, "prefixes": {"one": {"deepseek-v4": {"tokens": 3}}}}'),
        ("cacheunit.lock", '{"version": "2", "targets": {}, "prefixes": {}}'),
        ("pyproject.toml", "[tool]\ncacheunit = 3\n"),
    ],
)
def test_a_broken_lock_or_settings_file_is_an_error_of_this_package(locked: Project, path: str, text: str) -> None:
    locked.path("cacheunit.toml").unlink(missing_ok=True)
    locked.write({path: text})
    with pytest.raises(CacheunitError):
        load("one", root=locked.root)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("prefixes", "one", "deepseek-v4", "tokns"), 3, 'unknown key "tokns"'),
        (("prefixes", "one", "deepseek-v4", "margin"), "0.5", "\"margin\": invalid value '0.5'"),
        (("prefixes", "one", "deepseek-v4", "markers"), [-1], '"markers": invalid value -1'),
        (("prefixes", "one", "deepseek-v4", "text"), 3, '"text": invalid value 3'),
        (("targets", "deepseek-v4", "format"), "openai", 'unknown format "openai"'),
        (("targets", "deepseek-v4", "options"), ["tools"], '"options": invalid value a list'),
        (("targets", "deepseek-v4", "models"), "all", "\"models\": invalid value 'all'"),
        (("targets", "deepseek-v4", "cache", "unit"), -1, '"cache": "unit": invalid value -1'),
        (("targets", "deepseek-v4", "cache", "kind"), "tokens", '"cache": has a "unit", which only kind "blocks" has'),
        (("targets", "deepseek-v4", "cache", "marker"), "cache-control", "\"marker\": invalid value 'cache-control'"),
    ],
)
def test_a_lock_edited_by_hand_is_refused_by_load_and_not_later(
    locked: Project, keys: tuple[str, ...], value: object, message: str
) -> None:
    load("one", root=locked.root)
    lock = json.loads(locked.read("cacheunit.lock"))
    table = lock
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    locked.write({"cacheunit.lock": json.dumps(lock)})
    with pytest.raises(CacheunitError) as caught:
        load("one", root=locked.root)
    (fault,) = caught.value.faults
    assert fault.message.startswith("the lock is broken: ")
    assert message in fault.message
    assert (fault.path, fault.hint) == (str(locked.root / "cacheunit.lock"), 'run "cacheunit build"')


def test_a_variant_is_selected_by_name_or_by_axes(locked: Project) -> None:
    by_axes = load("agent", root=locked.root, locale="zh/CN", beta=True)
    assert by_axes is load("agent@beta=true,locale=zh%2FCN", root=locked.root)
    with pytest.raises(CacheunitError, match='did you mean "agent@beta=true,locale=de"'):
        load("agent", root=locked.root, locale="dee", beta=True)


@pytest.mark.parametrize("path", ["frozen/one/deepseek-v4.txt", "frozen/one/deepseek-v4.json"])
def test_an_artifact_edited_after_the_lock_is_refused_with_both_fingerprints(locked: Project, path: str) -> None:
    load("one", root=locked.root)
    locked.path(path).write_bytes(locked.read(path) + b" ")
    with pytest.raises(IntegrityError, match=r"expected sha256:\w{64}, found sha256:\w{64}") as caught:
        load("one", root=locked.root)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("oen", None, 'did you mean "one"'),
        ("many", None, "one of anthropic, deepseek-v4, plain, responses"),
        ("many", "plane", 'did you mean "plain"'),
    ],
)
def test_an_unknown_prefix_or_target_is_an_error_that_names_similar_ones(
    locked: Project, name: str, target: str | None, message: str
) -> None:
    with pytest.raises(CacheunitError) as caught:
        load(name, target=target, root=locked.root)
    assert message in str(caught.value)


def test_a_missing_artifact_and_a_missing_newer_or_broken_lock_are_errors(locked: Project, tmp_path: Path) -> None:
    locked.path("frozen/one/deepseek-v4.txt").unlink()
    with pytest.raises(CacheunitError, match="cannot be read"):
        load("one", root=locked.root)
    with pytest.raises(CacheunitError, match=r"there is no cacheunit\.lock"):
        load("one", root=tmp_path)
    locked.write({"cacheunit.lock": '{"version": 3, "targets": {}, "prefixes": {}}'})
    with pytest.raises(CacheunitError, match="has version 3"):
        load("one", root=locked.root)
    locked.write({"cacheunit.lock": '{"version": 1, "targets": {}, "prefixes": {}}'})
    with pytest.raises(CacheunitError, match=r'has version 1(.|\n)*run "cacheunit build" to rewrite it'):
        load("one", root=locked.root)
    locked.write({"cacheunit.lock": "{"})
    with pytest.raises(CacheunitError, match="the lock is broken"):
        load("one", root=locked.root)


def test_the_project_is_in_the_nearest_folder_above_the_working_folder(
    locked: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(locked.path("templates"))
    assert load("one").text.startswith("Be brief")


def test_all_threads_get_the_same_prefix_object(locked: Project) -> None:
    with ThreadPoolExecutor(8) as pool:
        prefixes = list(pool.map(lambda _: load("one", root=locked.root), range(64)))
    assert {id(prefix) for prefix in prefixes} == {id(load("one", root=locked.root))}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_keeps_the_loaded_prefix(locked: Project) -> None:
    """Servers fork after loading. The fork is in a process of its own, since this one has threads."""
    code = (
        "import os, sys; from cacheunit_build import load\n"
        f"prefix = load('one', root={str(locked.root)!r})\n"
        "child = os.fork()\n"
        f"again = load('one', root={str(locked.root)!r})\n"
        "if not child: os._exit(0 if again is prefix and again.request([])['messages'] else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), again is prefix)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["0", "True"]


def test_prefixes_are_loaded_from_package_data_zipped_or_not(locked: Project, tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path, data in locked.files().items():
            packed.writestr(f"app/prompts/{path}", data)
    zipped = zipfile.Path(archive, "app/prompts/")
    assert (
        load("one", root=zipped).text == load("one", root=locked.root).text == load("one", root=str(locked.root)).text
    )
    assert load("one", root=zipped).predicted == 128
    with pytest.raises(CacheunitError, match=r"there is no cacheunit\.lock"):
        load("one", root=zipfile.Path(archive, "app/"))


def test_loading_needs_the_standard_library_only(locked: Project) -> None:
    code = f"import sys; from cacheunit_build import load; load('one', root={str(locked.root)!r}); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in process.stdout.split()}
    assert loaded & {"click", "jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "watchdog"} == set()


@pytest.mark.parametrize("name", ["cacheunit.toml", "pyproject.toml"])
def test_settings_that_are_not_valid_toml_are_an_error(locked: Project, name: str) -> None:
    locked.write({name: "build = [\n"})
    with pytest.raises(CacheunitError, match=f"{name}:.*not valid TOML"):
        load("one", root=str(locked.root))
