"""Selection: which artifacts names, folders, globs, targets and `--changed-since` stand for, in every command."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import click.shell_completion
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_fast_path import run_program

from cacheunit_build import CacheunitError, load
from cacheunit_build.cli import main as cli
from cacheunit_build.cli.fast_path import unchanged_output
from cacheunit_build.domain.file_names import readable_name, variant_name
from cacheunit_build.domain.recorded_count import RecordedCount, RecordedCounts
from cacheunit_build.domain.selection import NamePattern, axis_patterns, is_path_match, literal_glob
from cacheunit_build.lockfile.counts import counts_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CommandResult, Project

TARGETS = """
[target.small]
extends = "deepseek-v4"
cache.unit = 16
[target.small-too]
extends = "small"
"""
JA, EN = "support/agent@language=%E6%97%A5%E6%9C%AC%E8%AA%9E", "support/agent@language=en"
DE, AT, FR = "team/agent@locale=de,plan=a%2Cb", "team/agent@locale=de-AT,plan=a%2Cb", "team/agent@locale=fr,plan=a%2Cb"
ALL = ["a[1]", "solo", JA, EN, "support/eu/desk", DE, AT, FR]
NAMED = [
    ("build",),
    ("check",),
    ("diff", "--against", "cacheunit.lock"),
    ("lint",),
    ("explain",),
    ("show",),
    ("watch",),
]


@pytest.fixture
def office(project: Project) -> Project:
    """Returns a built project with folders and variants."""
    names = ("solo", "support/agent", "support/eu/desk", "team/agent", "a[1]")
    project.write({f"templates/{name}.j2": f"You work for {name}.\n" for name in names})
    project.write({f"prefixes/{name}.yaml": f"system: '{name}.j2'\n" for name in names})
    project.write({"prefixes/solo.yaml": "system: solo.j2\ntargets: [deepseek-v4, small, small-too]\n"})
    project.write({"prefixes/support/agent.yaml": "system: support/agent.j2\nmatrix: {language: [日本語, en]}\n"})
    matrix = "matrix: {locale: [de, de-AT, fr], plan: ['a,b']}\n"
    project.write({"prefixes/team/agent.yaml": f"system: team/agent.j2\n{matrix}", "cacheunit.toml": TARGETS})
    project.build()
    return project


def selected(project: Project, *arguments: str) -> list[str]:
    """Returns the prefixes that `build` with these arguments is about, each once, after `check` with the same ones."""
    verified = project.check(*arguments)["verified"]
    ran = project.run("build", *arguments, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.json["artifacts"]) == verified
    return list(dict.fromkeys(item["prefix"] for item in ran.json["artifacts"]))


# Names


@pytest.mark.parametrize(
    ("names", "prefixes"),
    [
        (["solo"], ["solo"]),
        (["support"], [JA, EN, "support/eu/desk"]),
        (["support/"], [JA, EN, "support/eu/desk"]),
        (["support/*"], [JA, EN]),
        (["support/**"], [JA, EN, "support/eu/desk"]),
        (["support/eu/"], ["support/eu/desk"]),
        (["*/eu"], []),
        (["*/eu/"], ["support/eu/desk"]),
        (["*"], ["a[1]", "solo"]),
        (["**"], ALL),
        (["**/agent"], [JA, EN, DE, AT, FR]),
        (["s?lo", "support/e*/d[a-f]sk"], ["solo", "support/eu/desk"]),
        (["support/agent"], [JA, EN]),
        (["support/agent@language=日本語"], [JA]),
        ([JA], [JA]),
        (["*/agent@locale=de*"], [DE, AT]),
        (["team/agent@plan=a,b,locale=fr"], [FR]),
        (["team@locale=fr"], [FR]),
        (["team/agent@locale=??"], [DE, FR]),
        (["**@*=en"], [EN]),
        (["a[1]"], ["a[1]"]),
        (["support", "support/agent@language=en", "solo"], ["solo", JA, EN, "support/eu/desk"]),
    ],
)
def test_a_name_is_a_prefix_a_variant_a_folder_or_a_glob(
    office: Project, names: list[str], prefixes: list[str]
) -> None:
    if prefixes:
        assert selected(office, *names) == prefixes
    else:
        assert office.run("build", *names).code == 2


def test_a_folder_with_brackets_in_its_name_is_no_glob(office: Project) -> None:
    office.write({f"prefixes/{folder}/x.yaml": "system: solo.j2\n" for folder in ("b[1]", "b1")})
    office.build()
    assert selected(office, "b[1]") == selected(office, "b[1]/") == ["b[1]/x"]


def test_a_prefix_comes_before_a_folder_of_its_name(office: Project) -> None:
    office.write({"prefixes/support.yaml": "system: solo.j2\n"})
    office.build()
    assert selected(office, "support") == ["support"]
    assert selected(office, "support/") == [JA, EN, "support/eu/desk"]


@pytest.mark.parametrize("command", NAMED, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("suport", 'no prefix "suport" under prefixes/\n\nhint: did you mean "support"?'),
        ("suport/**", 'no prefix under prefixes/ matches "suport/**"\n\nhint: did you mean "support"?'),
        ("prefixes/solo.yaml", 'no prefix "prefixes/solo.yaml" under prefixes/\n\nhint: did you mean "solo"?'),
        ("/", 'no prefix "/" under prefixes/'),
        ("", 'no prefix "" under prefixes/'),
        ("x\x1b[31m*", 'no prefix under prefixes/ matches "x\\x1b[31m*"'),
    ],
)
def test_a_name_that_selects_nothing_is_one_error_with_a_similar_name(
    office: Project, command: tuple[str, ...], name: str, error: str
) -> None:
    before = office.snapshot()
    ran = office.run(*command, name)
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {error}\n" if command != ("build",) else ran.err)
    assert f"error: {error}\n" in ran.err
    assert office.snapshot() == before


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "support/agent@language=日本",
            'there is no variant "support/agent@language=日本"\n\nhint: did you mean "support/agent@language=日本語"?',
        ),
        (
            "team/agent@",
            'there is no variant "team/agent@"\n\nhint: a variant is named like "team/agent@locale=de,plan=a,b"',
        ),
        ("team@city=*", 'no variant matches "team@city=*"\n\nhint: a variant is named like "team/agent@locale=de,'),
        ("solo@*", 'no variant matches "solo@*"\n\nhint: the selected prefixes have no variants'),
    ],
)
def test_a_variant_that_does_not_exist_is_an_error(office: Project, name: str, error: str) -> None:
    for command in ("build", "check", "show"):
        ran = office.run(command, name)
        assert (ran.code, ran.err.count("error: "), f"error: {error}" in ran.err) == (2, 1, True), ran.err


def test_every_wrong_name_is_reported_at_once(office: Project) -> None:
    ran = office.run("check", "nope", "solo", "*/never", "--target", "smal", "--target", "x*")
    assert (ran.code, ran.err.count("error: ")) == (2, 4)


def test_a_build_of_a_folder_leaves_the_entries_of_others_and_removes_what_is_gone_from_it(office: Project) -> None:
    office.edit("templates/solo.j2", "You", "We")
    office.edit("templates/support/agent.j2", "You", "We")
    office.edit("prefixes/support/agent.yaml", ", en", "")
    report = office.run("build", "support", "--format", "json").json
    assert [item["prefix"] for item in report["removed"]] == [EN]
    assert [item["prefix"] for item in report["artifacts"] if item["status"] == "built"] == [JA]
    assert office.drift() == [("changed", "solo")] * 3
    office.path("prefixes/support/eu/desk.yaml").unlink()
    assert ("removed", "support/eu/desk") in office.drift("support/")
    assert office.run("build", "support/**").code == 0
    assert ("removed", "support/eu/desk") not in office.drift()


def test_the_choices_for_show_are_named_as_people_write_them(office: Project) -> None:
    ran = office.run("show", "support")
    assert (ran.code, '"support" has 3 artifacts\n\nhint: name one of support/agent@language=en, ' in ran.err) == (
        2,
        True,
    )
    assert office.run("show", "support/e*").code == 2
    assert office.run("show", "support/eu").output == office.read("build/support/eu/desk/deepseek-v4.txt")


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a", "b", "a/b/c", "xa/b"]),
        ("**/b", ["b", "a/b", "a/a/b"], ["a", "b/a", "ab"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a", "ab"]),
        ("a*", ["a", "ab"], ["a/b", "A", "ba"]),
        ("[ab]/?", ["a/x", "b/y"], ["c/x", "a/xy", "a"]),
        ("**/**/x", ["x", "a/x", "a/b/x"], ["a"]),
    ],
)
def test_a_wildcard_matches_no_slash_and_two_stars_match_folders(
    glob: str, matching: list[str], others: list[str]
) -> None:
    assert [path for path in (*matching, *others) if is_path_match(path, glob)] == matching


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("[a]*?")
def test_a_literal_glob_matches_its_own_path_only(path: str) -> None:
    assert is_path_match(path, literal_glob(path)) or "**" in path.split("/")
    assert not is_path_match(f"{path}x", literal_glob(path)) or "**" in path.split("/")


# Values as people write them


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=6), min_size=1))
@example({"a": "x,b=y", "b": " 100% "})
@example({"a": "日本語", "b": "\u202e\n"})
def test_the_readable_name_of_a_variant_selects_that_variant(axes: dict[str, str]) -> None:
    try:
        name = variant_name("p", axes)
    except UnicodeEncodeError:
        return
    readable = readable_name(name)
    assert readable.isprintable()
    patterns = axis_patterns(readable.partition("@")[2])
    if not any(wildcard in readable for wildcard in "*?["):
        assert NamePattern(name=readable, base="p", is_glob=False, axes=patterns).matches(name)
        other = variant_name("p", {**axes, min(axes): "another"})
        assert not NamePattern(name=readable, base="p", is_glob=False, axes=patterns).matches(other)


def test_reports_show_values_as_people_write_them_and_files_keep_their_names(office: Project) -> None:
    office.edit("templates/support/agent.j2", "You", "We")
    shown, escaped = "support/agent@language=日本語", JA
    for command in (
        ("-v", "check", "support"),
        ("-v", "build", "support"),
        ("-v", "explain", "support"),
        ("-v", "build"),
    ):
        ran = office.run(*command)
        assert (shown in ran.out, "%E6" in ran.out) == (True, False), command
    assert escaped in office.read("cacheunit.lock").decode()
    assert f"build/{escaped}/deepseek-v4.txt" in office.files()
    assert office.run("show", shown).output == office.read(f"build/{escaped}/deepseek-v4.txt")
    assert escaped in [item["prefix"] for item in office.run("build", "--format", "json").json["artifacts"]]


def test_load_takes_values_as_people_write_them(office: Project) -> None:
    for dev in (False, True):
        for name in ("support/agent@language=日本語", JA):
            prefix = load(name, root=str(office.root), dev=dev)
            assert prefix.text == office.read(f"build/{JA}/deepseek-v4.txt").decode()
        with pytest.raises(CacheunitError, match="is locked"):
            load("support/agent@language=日*", root=str(office.root), dev=dev)
    assert load("team/agent@locale=fr,plan=a,b", root=str(office.root)).text.startswith("You work")


# Targets


def test_several_targets_are_all_checked(office: Project) -> None:
    """With only the last one, a check passed in silence."""
    stored = office.read("build/solo/small.txt")
    for targets in (("small", "deepseek-v4"), ("deepseek-v4", "small"), ("small*", "deepseek-v4")):
        office.write({"build/solo/small.txt": stored + b"x"})
        arguments = [word for target in targets for word in ("--target", target)]
        assert office.drift(*arguments) == [("edited", "solo")]
        office.write({"build/solo/small.txt": stored})
        assert office.drift(*arguments) == []


def test_a_glob_of_targets_selects_those_that_prefixes_use(office: Project) -> None:
    keys = {(item["prefix"], item["target"]) for item in build_json(office, "--target", "small*")}
    assert keys == {("solo", "small"), ("solo", "small-too")}
    assert selected(office, "--target", "deepseek-v4-pro") == ALL  # the name of a model


def build_json(project: Project, *arguments: str) -> list[dict[str, str]]:
    """Returns the artifacts in the JSON report of `build`."""
    artifacts: list[dict[str, str]] = project.run("build", *arguments, "--format", "json").json["artifacts"]
    return artifacts


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--target", "smal"], 'unknown target "smal"\n\nhint: did you mean "small"?'),
        (["--target", "smal*"], None),
        (["--target", "smoll*"], 'no target matches "smoll*"\n\nhint: did you mean "small"?'),
        (["--target", "q?z"], 'no target matches "q?z"\n\nhint: "cacheunit targets" lists the known ones'),
        (["--target", "small", "--target", "vllm"], 'nothing is compiled for target "vllm"'),
        (["solo", "support", "--target", "small"], 'nothing of "support" is compiled for target "small"'),
    ],
)
def test_a_target_that_selects_nothing_is_an_error(office: Project, arguments: list[str], error: str | None) -> None:
    for command in ("build", "check"):
        ran = office.run(command, *arguments)
        assert ran.code == (2 if error else 0)
        assert (error or "") in ran.err
        assert ran.err.count("error: ") == bool(error)


@pytest.mark.parametrize("command", ["count", "pad"])
def test_a_text_has_one_target(office: Project, command: str) -> None:
    ran = office.run(command, "--target", "small", "--target", "deepseek-v4", stdin=b"x")
    assert (ran.code, "'--target': can be given only once here" in ran.err) == (2, True)


# --changed-since


def git(folder: Path, *arguments: str) -> None:
    """Runs git in a folder."""
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def committed(office: Project) -> Project:
    """Returns the project, committed to git."""
    git(office.root, "init", "-q", "-b", "main")
    git(office.root, "add", "-A")
    git(office.root, "commit", "-qm", "first")
    return office


def explained(project: Project, *arguments: str) -> list[str]:
    """Returns the prefixes that `explain` explains, each once."""
    ran = project.run("explain", *arguments, "--format", "json")
    assert ran.code == 0, ran.err
    return list(dict.fromkeys(item["prefix"] for item in ran.json["artifacts"]))


def test_changed_since_selects_prefixes_with_inputs_that_changed(committed: Project) -> None:
    committed.write({"templates/support/agent.j2": "Changed.\n", "prefixes/new.yaml": "system: solo.j2\n"})
    committed.edit("templates/solo.j2", "You work", "Your api_key is sk-1, you work \u200b")
    assert explained(committed, "--changed-since", "HEAD") == ["new", "solo", JA, EN]
    assert explained(committed, "support", "--changed-since", "HEAD") == [JA, EN]
    assert explained(committed, "--changed-since", "HEAD", "--target", "small") == ["solo"]
    findings = committed.run("lint", "--changed-since", "HEAD", "--format", "json").json["findings"]
    assert "solo" in {name for item in findings for name in item["prefixes"]}
    git(committed.root, "add", "-A")
    git(committed.root, "commit", "-qm", "second")
    assert explained(committed, "--changed-since", "HEAD~1") == ["new", "solo", JA, EN]


def test_changed_settings_change_every_prefix(committed: Project) -> None:
    committed.edit("cacheunit.toml", "[target.small]", "gate = []\n[target.small]")
    assert explained(committed, "--changed-since", "HEAD") == []
    committed.edit("cacheunit.toml", "unit = 16", "unit = 32")
    assert explained(committed, "--changed-since", "HEAD") == ALL


def test_a_recorded_count_changes_the_artifact_that_it_counts(committed: Project) -> None:
    prompts = {f"prefixes/{name}.yaml": "system: solo.j2\ntargets: [openai]\n" for name in ("one", "two")}
    counts = [
        RecordedCount(
            prefix=name, target="openai", model="m", request=f"sha256:{'0' * 64}", tokens=5, margin=0, how="counted",
            day="2026-12-01", estimate=5, vocabulary=f"sha256:{'1' * 64}",
        )
        for name in ("one", "two")
    ]  # fmt: skip
    committed.write({**prompts, "cacheunit.counts": counts_bytes(RecordedCounts(counts[:1]))})
    git(committed.root, "add", "-A")
    git(committed.root, "commit", "-qm", "counted")
    committed.write({"cacheunit.counts": counts_bytes(RecordedCounts(counts))})
    assert explained(committed, "--changed-since", "HEAD") == ["two"]


def test_verify_sends_nothing_where_nothing_changed(committed: Project) -> None:
    ran = committed.run("verify", "http://127.0.0.1:9", "--changed-since", "HEAD", "--format", "json")
    assert (ran.code, ran.json) == (0, {"ok": True, "results": []})
    ran = committed.run("verify", "http://127.0.0.1:9", "--changed-since", "HEAD")
    assert (ran.code, ran.out, "no selected prefix changed since" in ran.err) == (0, "", True)


@pytest.mark.parametrize("command", ["lint", "explain"])
def test_where_nothing_changed_nothing_is_looked_at(committed: Project, command: str) -> None:
    committed.edit("templates/solo.j2", "You", "We \u200b")
    ran = committed.run(command, "support", "--changed-since", "main")
    assert ran.code == 0
    assert ran.err.startswith("note: no selected prefix changed since main (")
    assert "solo" not in ran.out


@pytest.mark.parametrize("command", ["lint", "explain", "verify"])
def test_a_revision_that_does_not_exist_is_an_error(committed: Project, command: str) -> None:
    url = ("http://127.0.0.1:9",) if command == "verify" else ()
    for name, hint in (("mian", 'did you mean "main"?'), ("", "expected a branch"), ("--all", "expected a branch")):
        ran = committed.run(command, *url, "--changed-since", name)
        assert (ran.code, ran.out) == (2, "")
        assert f'error: there is no revision "{name}"\n\nhint: {hint}' in ran.err


def test_explain_needs_a_name_or_a_revision(office: Project) -> None:
    ran = office.run("explain")
    assert (ran.code, "Missing argument 'NAME'" in ran.err) == (2, True)


# Options before and behind the command


@pytest.mark.parametrize("place", [0, 1])
def test_the_options_of_every_command_stand_before_or_behind_it(office: Project, place: int) -> None:
    def run(command: str, *options: str) -> CommandResult:
        words = [*options, command] if place == 0 else [command, *options]
        return office.cacheunit(*words)

    root = str(office.root)
    assert run("check", "-C", root).code == 0
    assert "pad" in run("build", "-C", root, "-v").out
    office.write({"build/gone/small.txt": "x", "build/gone/small.json": "{}"})
    assert "warning: " in run("build", "-C", root).err
    assert run("build", "-C", root, "-q").err == ""
    assert run("build", "-C", root, "--quiet", "--no-project-code").err == ""
    assert run("check", "-C", "nowhere").code == 2


def test_behind_the_command_a_folder_replaces_one_before_it(office: Project, tmp_path: Path) -> None:
    assert office.cacheunit("-C", tmp_path, "check", "-C", office.root).code == 0
    assert office.cacheunit("-C", office.root, "check", "-C", tmp_path).code == 2


def test_the_commands_of_a_group_take_the_options_too(
    office: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # if the option had no effect, this repository would be set up
    git(office.root, "init", "-q")
    for words in (("git", "setup", "-C", office.root), ("git", "-C", office.root, "setup")):
        assert office.cacheunit(*words).code == 0
        assert b"merge=cacheunit" in office.read(".gitattributes")


def test_the_fast_path_reads_the_same_command_lines(office: Project) -> None:
    folder = str(office.root)
    for arguments in (
        ["check", "-q"],
        ["-q", "check", "-C", folder, "--no-project-code"],
        ["check", "--format=json", "-q"],
    ):
        output = unchanged_output(folder, arguments)
        assert f"{output}\n" == office.run(*arguments).out
        assert run_program(office, *arguments)[:2] == (0, f"{output}\n")
    for other in (["check", "-v"], ["check", "check"], ["--format", "json", "check"], ["check", "-C"], ["check", "--"]):
        assert unchanged_output(str(office.root), other) is None


def test_the_bare_command_prints_its_help(office: Project) -> None:
    ran = office.cacheunit()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: cacheunit [OPTIONS] COMMAND")
    assert "error" not in ran.err.partition("\n")[0]


# Reports


def test_a_build_lists_what_changed_and_counts_the_rest(office: Project) -> None:
    summary = "10 artifacts, 1,088 static tokens"
    total = office.build().out
    assert total == total.splitlines()[0] + "\n"
    assert total.endswith("0 built, 10 unchanged; lock unchanged\n"), summary
    assert len(office.run("build", "-v").out.splitlines()) == 23  # two lines for each artifact
    assert len(build_json(office)) == 10
    office.edit("templates/support/eu/desk.j2", "You", "We")
    header, row, blank, counts = office.build().out.splitlines()
    assert (header.split()[0], row.split()[0], blank) == ("prefix", "support/eu/desk", "")
    assert counts.endswith("1 built, 9 unchanged; lock written")


def test_show_tokens_reports_json(office: Project) -> None:
    report = office.run("show", "solo", "--target", "small", "--tokens", "--format", "json").json
    entry = {item["target"]: item for item in build_json(office, "solo")}["small"]
    assert (report["prefix"], report["target"], report["static"]) == ("solo", "small", entry["tokens"])
    text = "".join(token["text"] for token in report["tokens"])
    assert office.read("build/solo/small.txt").decode() in text
    padding = report["padding"]
    filler = report["tokens"][padding["start"] : padding["end"]]
    assert {token["text"] for token in filler} == {" ."}
    assert len(filler) == padding["tokens"] == entry["padding"]
    assert {type(token["id"]) for token in report["tokens"]} == {int}


def test_a_token_of_a_part_of_a_character_has_bytes(office: Project) -> None:
    office.write({"templates/solo.j2": "𓀀𓂀 you are.\n"})
    tokens = office.run("show", "solo", "--target", "small", "--tokens", "--format", "json").json["tokens"]
    whole = b"".join(
        token["text"].encode() if token["text"] is not None else bytes.fromhex(token["bytes"]) for token in tokens
    )
    assert "𓀀𓂀 you are.".encode() in whole
    assert any(token["text"] is None for token in tokens)


@pytest.mark.parametrize("option", [(), ("--request",), ("--sources",)])
def test_only_tokens_have_a_json_report(office: Project, option: tuple[str, ...]) -> None:
    ran = office.run("show", "support/eu/desk", *option, "--format", "json")
    assert (ran.code, ran.out, "--format json is the format of --tokens" in ran.err) == (2, "", True)


def test_explain_of_several_targets_shows_once_what_they_share(office: Project) -> None:
    office.edit("templates/solo.j2", "You", "We")
    text = office.run("explain", "solo").out
    assert text.count("    templates/solo.j2  sha256:") == 2  # an input, and changed
    assert text.count("  changed since the lock\n") == 1
    assert text.count("  inputs: those of solo for deepseek-v4\n") == 2
    assert text.count("  changed since the lock: those of solo for deepseek-v4\n") == 2
    assert "\n  plan " not in text  # it is in the table
    alone = office.run("explain", "solo", "--target", "small").out
    assert "those of" not in alone
    assert "\n  plan " in alone
    assert len(office.run("explain", "solo", "--format", "json").json["artifacts"][1]["inputs"]) == 2


# watch


def test_watch_builds_what_is_selected(office: Project) -> None:
    from cacheunit_build.cli.commands.watch import WatchedProject
    from cacheunit_build.cli.context import Context
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.watching.session import WatchSession

    office.edit("templates/solo.j2", "You", "We")
    office.edit("templates/support/eu/desk.j2", "You", "We")
    project = Context(office.root, quiet=True, verbose=False).project_to_build()
    session = WatchSession(WatchedProject(project).reopen, selection=Selection(names=("support/**",)))
    assert session.build().result.written == {("support/eu/desk", "deepseek-v4")}
    assert {name for _, name in office.drift()} == {"solo"}


# Completion


def completed(project: Project, *words: str) -> list[str]:
    """Returns what a shell offers for the last of the words."""
    *before, incomplete = words
    shell = click.shell_completion.ShellComplete(cli.cacheunit, {}, "cacheunit", "_CACHEUNIT_COMPLETE")
    return [item.value for item in shell.get_completions(["-C", str(project.root), *before], incomplete)]


def test_commands_prefixes_folders_and_targets_are_completed(office: Project) -> None:
    assert completed(office, "ch") == ["check"]
    assert completed(office, "build", "s") == ["solo", "support/", "support/agent", "support/eu/", "support/eu/desk"]
    assert completed(office, "show", "support/e") == ["support/eu/", "support/eu/desk"]
    assert completed(office, "check", "solo", "--target", "sm") == ["small", "small-too"]
    assert completed(office, "count", "--target", "sm") == ["small", "small-too"]
    assert "--changed-since" in completed(office, "lint", "--")
    assert "solo" not in completed(office, "nonsense", "s")


def test_a_broken_project_completes_nothing_and_prints_nothing(
    office: Project, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    office.write({"cacheunit.toml": "targets = 3\n"})
    assert completed(office, "build", "s") == []
    assert "deepseek-v4" in completed(office, "build", "--target", "deep")
    assert capsysbinary.readouterr() == (b"", b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_program_prints_the_script_of_each_shell(
    office: Project, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CACHEUNIT_COMPLETE", f"{shell}_source")
    code, out, err = run_program(office)
    assert (code, "_CACHEUNIT_COMPLETE" in out, err) == (0, True, "")
    monkeypatch.setenv("_CACHEUNIT_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "cacheunit build supp")
    monkeypatch.setenv("COMP_CWORD", "supp" if shell == "fish" else "2")
    monkeypatch.chdir(os.fspath(office.root))
    assert "support/agent" in run_program(office)[1]
