"""The checks of `platforms.py`: each gets a new project on a file system, and asserts what must hold there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from power_cut import LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEMPLATE = "templates/agent.md.j2"
ARTIFACT = "build/agent/anthropic-1024.txt"
NFC, NFD = "\u00e5", "a\u030a"
TRUSTED_AFTER = 2.3
"""Seconds after which the stat of a file is believed, even where times are recorded to two seconds."""

TIMEOUT = 120
"""Seconds that one run of the program may take."""


class SkippedError(Exception):
    """A check that is not possible on a file system, and why."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of the program printed, and its exit code."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Project:
    """A project, and the program run in it."""

    root: Path
    cache: Path

    @classmethod
    def create(cls, root: Path, cache: Path) -> Project:
        """Creates a project with one prefix."""
        project = cls(root, cache)
        root.mkdir()
        project.write("cacheunit.toml", 'targets = ["anthropic-1024"]\n')
        project.write("prefixes/agent.yaml", "system: agent.md.j2\n")
        project.write(TEMPLATE, "You are agent 0.\n")
        return project

    def start(self, *arguments: str, folder: Path | None = None) -> subprocess.Popen[str]:
        """Starts the program in the project."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "cacheunit_build", *arguments],
            cwd=folder or self.root,
            env={**os.environ, "CACHEUNIT_CACHE_DIR": str(self.cache), "GIT_CONFIG_GLOBAL": "/dev/null"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str, code: int | None = 0) -> Result:
        """Runs the program, and asserts its exit code and that it has no traceback; None for any of 0 to 2."""
        process = self.start(*arguments)
        text = process.communicate(timeout=TIMEOUT)[0]
        assert "Traceback" not in text, text
        assert process.returncode == code or (code is None and process.returncode in (0, 1, 2)), (
            f"{' '.join(arguments)}: exit code {process.returncode}: {text}"
        )
        return Result(process.returncode, text)

    def write(self, path: str, text: str) -> None:
        """Writes a file of the project, in place where it exists."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def read(self, path: str) -> str:
        """Returns a file of the project."""
        return (self.root / path).read_bytes().decode()

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """Returns the time and the bytes of all files, those of git left out."""
        files = [path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts]
        return {path.relative_to(self.root).as_posix(): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    def contents(self) -> dict[str, bytes]:
        """Returns the bytes of all files."""
        return {path: data for path, (_, data) in self.snapshot().items()}

    def git(self, *arguments: str) -> str:
        """Runs git in the project."""
        names = (
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            "-c",
            "safe.directory=*",
            "-c",
            "init.defaultBranch=main",
        )
        ran = subprocess.run(
            ["git", *names, *arguments],  # noqa: S607
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"git {' '.join(arguments)}: {ran.stderr}"
        return ran.stdout

    def assert_in_order(self, text: str | None = None) -> None:
        """Asserts that the project checks, has no temporary files, and that its one artifact has a text."""
        self.run("check")
        left = [path for path in self.contents() if "cacheunit-tmp" in path or "cacheunit-clock" in path]
        assert not left, f"left over: {left}"
        if text is not None:
            assert text in self.read(ARTIFACT), f"the artifact does not have {text!r}: {self.read(ARTIFACT)!r}"


def build_and_check(project: Project) -> None:
    """All commands work in an ordinary project."""
    other = Project(project.root.with_name(f"{project.root.name}-init"), project.cache)
    other.root.mkdir()
    other.run("init")
    other.run("build")
    other.run("check")
    project.run("build")
    project.assert_in_order("agent 0")
    project.run("lint", code=None)
    project.run("explain", "agent")
    project.run("clean")
    project.run("build")
    project.assert_in_order("agent 0")


def nothing_to_do(project: Project) -> None:
    """A build with nothing to do writes nothing, at once and later."""
    project.run("build")
    before = project.snapshot()
    for _ in range(2):
        project.run("build")
        assert project.snapshot() == before, "a build with nothing to do wrote"
    time.sleep(TRUSTED_AFTER)
    project.run("build")
    project.run("build")
    assert project.snapshot() == before, "a later build with nothing to do wrote"


def equal_edit(project: Project) -> None:
    """An edit of equal size at once after a build is found, in sources and in artifacts."""
    project.run("build")
    for number in range(1, 7):
        project.write(TEMPLATE, f"You are agent {number}.\n")
        if number % 2:
            project.run("check", code=1)
        project.run("build")
        project.assert_in_order(f"agent {number}")
    for _ in range(3):
        project.write(ARTIFACT, project.read(ARTIFACT).replace("agent", "AGENT"))
        project.run("build")
        project.assert_in_order("agent 6")


def old_time(project: Project) -> None:
    """An edit of equal size is found although the time of the file is restored, long after the last build."""
    project.run("build")
    time.sleep(TRUSTED_AFTER)
    project.run("build")
    project.run("build")
    for path in (TEMPLATE, ARTIFACT):
        status = (project.root / path).stat()
        project.write(path, project.read(path).replace("agent", "AGENT" if path == ARTIFACT else "Agent"))
        os.utime(project.root / path, ns=(status.st_atime_ns, status.st_mtime_ns))
        project.run("build")
        project.assert_in_order("Agent ")


def letter_case(project: Project) -> None:
    """Renames that change letter case only leave what the lock names, under these names."""
    project.write("Capital", "")
    if "Capital" not in _names_in(project.root):
        raise SkippedError("shows lower case")
    project.write("prefixes/agent.yaml", "system: agent.md.j2\nmatrix:\n  plan: [pro]\n")
    project.write("prefixes/deep/x.yaml", "system: agent.md.j2\n")
    project.run("build")
    for old, new in (("prefixes/agent.yaml", "prefixes/Agent.yaml"), ("prefixes/deep", "prefixes/Deep")):
        middle = project.root / "prefixes/between"
        (project.root / old).rename(middle)
        middle.rename(project.root / new)
        project.run("build")
        project.run("check")
        project.run("build")
    project.write("prefixes/Agent.yaml", "system: agent.md.j2\nmatrix:\n  plan: [PRO]\n")
    project.run("build")
    project.assert_in_order()
    names = sorted(path for path in project.contents() if path.startswith("build/"))
    wanted = ["build/Agent@plan=PRO/anthropic-1024", "build/Deep/x/anthropic-1024"]
    assert names == sorted(f"{path}.{end}" for path in wanted for end in ("json", "txt")), names
    project.write("prefixes/Agent.yaml", "system: Agent.md.j2\n")
    assert "letter case" in project.run("build", code=2).text or not (project.root / "templates/Agent.md.j2").exists()


def template_case(project: Project) -> None:
    """A template that is renamed to another letter case is no longer found by the old name."""
    project.run("build")
    middle = project.root / "templates/between"
    (project.root / TEMPLATE).rename(middle)
    middle.rename(project.root / "templates/Agent.md.j2")
    project.run("build", code=2)
    project.run("check", code=2)
    project.write("prefixes/agent.yaml", "system: Agent.md.j2\n")
    project.run("build")
    project.assert_in_order("agent 0")


def normal_forms(project: Project) -> None:
    """A name in either normal form is the same prefix, and its artifacts have one name."""
    for form in (NFC, NFD):
        project.write(f"prefixes/{form}.yaml", f"system: {NFD}.md.j2\n")
        project.write(f"templates/{form}.md.j2", f"You are {NFC}.\n")
        project.run("build")
        project.assert_in_order()
        names = {unicodedata.normalize("NFC", path) for path in project.contents()}
        assert f"build/{NFC}/anthropic-1024.txt" in names, names
        lock = project.read(LOCK)
        project.run("build")
        assert project.read(LOCK) == lock
        (project.root / f"prefixes/{form}.yaml").unlink()
        (project.root / f"templates/{form}.md.j2").unlink()
    project.run("build")
    project.assert_in_order()
    assert not [path for path in project.contents() if unicodedata.normalize("NFC", path).startswith(f"build/{NFC}")]


def git_diff(project: Project) -> None:
    """`diff` in a git repository shows the edited prefix."""
    project.run("build")
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "a")
    assert not project.git("status", "--porcelain")
    project.write(TEMPLATE, "You are agent 1.\n")
    assert "agent" in project.run("diff", "--names", "--against", "HEAD", code=None).text
    project.run("build")
    assert "agent" in project.run("diff", "--names", "--against", "HEAD", code=None).text


def line_ends(project: Project) -> None:
    """A clone with converted line ends builds the same artifacts, and `check` names the cause."""
    project.run("build")
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "a")
    clone = Project(project.root.with_name(f"{project.root.name}-clone"), project.cache)
    project.git("clone", "-q", "-c", "core.autocrlf=true", str(project.root), str(clone.root))
    assert "\r\n" in clone.read(TEMPLATE)
    text = clone.run("check", code=1).text
    assert "git converted" in text, text
    clone.run("build")
    clone.run("check")
    artifacts = {path: data for path, data in project.contents().items() if path.startswith("build/")}
    built = {path: data for path, data in clone.contents().items() if path.startswith("build/")}
    assert built == artifacts, "other artifacts"


def watch(project: Project) -> None:
    """`watch` builds after an edit, a second one, and after a save by rename."""
    project.run("build")
    for options in ([], ["--poll"]):
        process = project.start("watch", *options)
        try:
            time.sleep(1.5)
            for number in range(1, 4):
                text = f"You are agent {number}.\n"
                if number == 1:
                    project.write("templates/new.tmp", text)
                locked = project.read(LOCK)
                if number == 1:
                    (project.root / "templates/new.tmp").replace(project.root / TEMPLATE)
                else:
                    project.write(TEMPLATE, text)
                _wait_for_change(project, locked, f"{options} saw no edit {number}")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            output = process.communicate()[0]
        assert "Traceback" not in output, output
        project.assert_in_order("agent 3")
        project.write(TEMPLATE, "You are agent 0.\n")
        project.run("build")


def _wait_for_change(project: Project, lock: str, message: str) -> None:
    """Returns when the lock is another one; fails after a while."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if project.read(LOCK) != lock:
                return
        time.sleep(0.05)
    raise AssertionError(message)


def two_builds(project: Project) -> None:
    """Builds at the same time agree."""
    for number in range(8):
        project.write(f"prefixes/p{number}.yaml", "system: agent.md.j2\n")
    for number in range(3):
        project.write(TEMPLATE, f"You are agent {number}.\n")
        processes = [project.start("build") for _ in range(3)]
        texts = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0], texts
        project.assert_in_order(f"agent {number}")


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(project: Project) -> None:
    """A build killed at any time leaves whole files, and the next one completes the work."""
    for number in range(20):
        project.write(f"prefixes/p{number}.yaml", "system: agent.md.j2\n")
    project.run("build")
    for number in range(10):
        project.write(TEMPLATE, f"You are agent {number + 1}.\n")
        process = project.start("build")
        folder = project.root / "build/agent"
        seen = _names_in(folder)
        while process.poll() is None and _names_in(folder) == seen:
            time.sleep(0.001)
        time.sleep(number * 0.004)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for path, data in project.contents().items():
            whole = data.startswith(b"You are agent ") and data.endswith(b".\n")
            assert not path.endswith(".txt") or ".cacheunit-tmp" in path or whole, f"{path}: {data!r}"
    project.run("build")
    project.assert_in_order("agent 10")


def names(project: Project) -> None:
    """Names that another system cannot store are refused, and nothing is written."""
    made = []
    for name in ("con", "a:b", "x.", "nul.txt", "a|b", "trail "):
        try:
            project.write(f"prefixes/{name}.yaml", "system: agent.md.j2\n")
        except OSError:
            continue
        made.append(name)
    if not made:
        raise SkippedError("refused by it")
    present = {path.name for path in (project.root / "prefixes").iterdir()}
    if not present & {f"{name}.yaml" for name in made}:
        raise SkippedError("changed by it")
    assert "prefixes/" in project.run("build", code=2).text
    assert not (project.root / "build").exists()


def long_paths(project: Project) -> None:
    """Long paths work, or are refused with one message."""
    deep = "/".join(["d" * 60] * 6)
    try:
        project.write(f"prefixes/{deep}/x.yaml", "system: agent.md.j2\n")
    except OSError as error:
        raise SkippedError("refused by it") from error
    project.run("build")
    project.assert_in_order()
    too_deep = "/".join(["d" * 200] * 21)
    folder = os.open(project.root / "prefixes", os.O_RDONLY)
    try:
        for part in too_deep.split("/"):
            os.mkdir(part, dir_fd=folder)
            below = os.open(part, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = below
        os.close(os.open("x.yaml", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    except OSError:
        return
    finally:
        os.close(folder)
    before = project.read(LOCK)
    assert "error" in project.run("build", code=2).text
    assert project.read(LOCK) == before


def links(project: Project) -> None:
    """A template that is a link is read through; as a text file it is not the same."""
    try:
        (project.root / "templates/link.md.j2").symlink_to("agent.md.j2")
    except OSError as error:
        raise SkippedError("none") from error
    project.write("prefixes/agent.yaml", "system: link.md.j2\n")
    project.run("build")
    project.assert_in_order("agent 0")
    project.write(TEMPLATE, "You are agent 1.\n")
    project.run("check", code=1)
    project.run("build")
    project.assert_in_order("agent 1")


def read_only(project: Project) -> None:
    """On a read-only mount, `check` and a build with nothing to do work; another build changes nothing."""
    project.run("build")
    with _remounted(project.root):
        project.run("check")
        project.run("build")
        project.run("lint", code=None)
    project.write(TEMPLATE, "You are agent 1.\n")
    before = project.contents()
    with _remounted(project.root):
        project.run("check", code=1)
        assert "read-only" in project.run("build", code=2).text.lower()
    assert project.contents() == before
    project.run("build")
    project.assert_in_order("agent 1")


@contextlib.contextmanager
def _remounted(root: Path) -> Iterator[None]:
    """Mounts the project over itself, read-only."""
    for options in (["--bind", str(root)], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *options, root], check=True, capture_output=True)  # noqa: S607
    try:
        yield
    finally:
        subprocess.run(["umount", root], check=True, capture_output=True)  # noqa: S607


def other_mount(project: Project) -> None:
    """`build/` may lie on another file system than the project; then no stat there is believed."""
    here, there = project.root / "build", project.cache.with_name(f"{project.cache.name}-build")
    for folder in (here, there):
        folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", there, here], check=True, capture_output=True)  # noqa: S607
    try:
        nothing_to_do(project)
        equal_edit(project)
        old_time(project)
    finally:
        subprocess.run(["umount", here], check=True, capture_output=True)  # noqa: S607


def busy(project: Project) -> None:
    """Where a file that is open cannot be replaced, the build fails, changes nothing, and works when it is closed."""
    project.run("build")
    for number, path in enumerate((ARTIFACT, LOCK), 1):
        project.write(TEMPLATE, f"You are agent {number}.\n")
        before = project.contents()
        with (project.root / path).open("rb"):
            ran = project.run("build", code=None)
            if ran.code == 0:
                raise SkippedError("may be replaced")
            assert ran.code == 2, ran.text
            assert "as it was before" in ran.text, ran.text
            assert project.contents() == before, "something changed"
        project.run("build")
        project.assert_in_order(f"agent {number}")


def full_disk(project: Project) -> None:
    """A build on a full disk fails with one message, changes nothing, and works when there is space."""
    free = os.statvfs(project.root)
    if free.f_bavail * free.f_frsize > 1 << 30:
        raise SkippedError("too large")
    for number in range(200):
        project.write(f"prefixes/p{number}.yaml", "system: agent.md.j2\n")
    project.run("build")
    project.write(TEMPLATE, "You are agent 1.\n" + "x" * 5000)
    before = project.contents()
    filler = project.root.with_name("filler")
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as handle:
        while True:
            handle.write(bytes(1 << 16))
    try:
        with contextlib.suppress(OSError), filler.with_name("filler2").open("wb", buffering=0) as handle:
            while True:
                handle.write(bytes(512))
        text = project.run("build", code=2).text
        assert "cannot write" in text, text
        assert project.contents() == before, "something changed"
    finally:
        for name in ("filler", "filler2"):
            with contextlib.suppress(OSError):
                filler.with_name(name).unlink()
    project.run("build")
    project.assert_in_order("agent 1")


CHECKS: dict[str, Callable[[Project], None]] = {
    "commands": build_and_check,
    "nothing to do": nothing_to_do,
    "equal edit": equal_edit,
    "old time": old_time,
    "letter case": letter_case,
    "template case": template_case,
    "normal forms": normal_forms,
    "git diff": git_diff,
    "autocrlf": line_ends,
    "watch": watch,
    "builds at once": two_builds,
    "killed": killed,
    "reserved names": names,
    "long paths": long_paths,
    "links": links,
    "read-only": read_only,
    "build/ elsewhere": other_mount,
    "open files": busy,
    "full disk": full_disk,
}
