"""Shows what a power cut leaves of a project: builds on an ext4 image, stops its file system at once, and recovers it.

Usage: python bench/power_cut.py [CACHEUNIT] [--trials N] [--prefixes N] [--cost N] [--mount OPTIONS] [--json FILE]

The file system is stopped by the ioctl that xfstests uses for this (EXT4_IOC_SHUTDOWN, without a flush of the log):
what was not yet written to the loop device is lost. The device itself loses nothing that it was handed, so a sync that
forgets the disk's own cache would not be noticed. Needs root, loop devices and e2fsprogs; for --cost also a C compiler.

Exit codes: 0 no fault, 1 the lock names an artifact that is not as locked, or is torn itself, 2 not possible here.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Files = Mapping[str, bytes]

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32)."""
WITHOUT_LOG_FLUSH = struct.pack("I", 2)
IMAGE_BYTES = 512 << 20
LOCK = "cacheunit.lock"
PARTIAL = "templates/shared.md.j2"
FIXED_BY_FSCK = 3
"""The highest exit code of e2fsck after which the file system is in order."""
WORDS = (
    *("answer", "before", "careful", "customer", "delivery", "english", "formal", "guide", "history", "invoice"),
    *(
        "judge",
        "knowledge",
        "language",
        "message",
        "never",
        "order",
        "polite",
        "question",
        "reason",
        "source",
        "travel",
    ),
)
NO_SYNC = """\
int fsync(int fd) { return 0; }
int fdatasync(int fd) { return 0; }
int syncfs(int fd) { return 0; }
void sync(void) { }
"""


def main() -> int:
    """Runs the trials and prints the tables; returns the exit code."""
    arguments = parse_arguments()
    missing = [name for name in ("mkfs.ext4", "e2fsck", "mount", "umount") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        print(f"error: needs root and {', '.join(missing or ['loop devices'])}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    costs: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="power-cut-") as folder:
        bench = Bench(Path(folder).resolve(), arguments)
        if arguments.trials:
            rows = run_trials(bench, arguments.trials)
        if arguments.cost:
            costs = barrier_costs(bench, arguments.cost, arguments.cost_prefixes)
    if arguments.json:
        report = {"rows": [row.as_json() for row in rows], "seconds": costs}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if any(row.faults for row in rows) else 0


def parse_arguments() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Shows what a power cut leaves of a project.")
    installed = Path(sysconfig.get_path("scripts")) / "cacheunit"
    parser.add_argument("cacheunit", nargs="?", type=Path, default=installed, help="the program to try")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="trials for each row (20)")
    parser.add_argument("--prefixes", type=int, default=100, metavar="N", help="prefixes of the project (100)")
    parser.add_argument("--cost", type=int, default=0, metavar="N", help="time N cold builds, and N without syncs")
    parser.add_argument(
        "--cost-prefixes", type=int, default=1_000, metavar="N", help="prefixes of these builds (1,000)"
    )
    parser.add_argument("--mount", default="", metavar="OPTIONS", help="ext4's mount options, such as noauto_da_alloc")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random times (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    arguments = parser.parse_args()
    arguments.cacheunit = arguments.cacheunit.resolve()
    return arguments


# Results


@dataclass(slots=True)
class Row:
    """What the trials of one kind left.

    Attributes:
        name: the label of the row.
        trials: how many there were.
        locks: how many locks were absent, old, new or torn.
        named: how many artifacts the new locks name.
        artifacts: which of these are not as locked, by what they are.
        older_lock: artifacts that differ from an old lock, or that no lock names, by what they are.
        missed: trials in which `check` found nothing although a file is not as locked.
        not_repaired: trials after which `build` did not make everything as it should be.
    """

    name: str
    trials: int = 0
    locks: Counter[str] = field(default_factory=Counter)
    named: int = 0
    artifacts: Counter[str] = field(default_factory=Counter)
    older_lock: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    not_repaired: int = 0

    @property
    def faults(self) -> int:
        """The number of things that must not happen."""
        return self.locks["torn"] + sum(self.artifacts.values()) + self.missed + self.not_repaired

    def line(self) -> str:
        """Returns the row of the table."""
        locks = ", ".join(f"{count} {state}" for state, count in sorted(self.locks.items()))
        old = ", ".join(f"{count:,} {state}" for state, count in sorted(self.older_lock.items())) or "0"
        numbers = [self.artifacts[state] for state in ("missing", "empty", "zeros", "old", "other")]
        cells = [self.name, self.trials, locks, f"{self.named:,}", *(f"{number:,}" for number in numbers), old]
        return f"| {' | '.join(map(str, [*cells, self.missed, self.not_repaired]))} |"

    def as_json(self) -> dict[str, Any]:
        """Returns the row as JSON values."""
        names = ("name", "trials", "locks", "named", "artifacts", "older_lock", "missed", "not_repaired")
        return {name: getattr(self, name) for name in names}


HEAD = """\
| power cut | trials | locks | artifacts named by a new lock | missing | empty | zeros | old | other \
| differ under an old or no lock | not noticed by check | not repaired by build |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"""


# The project and the image


def write_project(root: Path, prefixes: int) -> None:
    """Writes a project in which all prefixes include one partial; their texts are generated and all different."""
    for folder in ("prefixes", "templates"):
        (root / folder).mkdir(parents=True)
    (root / "cacheunit.toml").write_text('targets = ["deepseek-v4"]\n')
    (root / PARTIAL).write_text("Answer in the language of the question.\n")
    for index in range(prefixes):
        chosen = random.Random(index)  # noqa: S311 - the same text in each run
        lines = [" ".join(chosen.choices(WORDS, k=12)).capitalize() + "." for _ in range(40)]
        text = '{% include "shared.md.j2" %}\n' + "\n".join(lines) + "\n"
        (root / f"templates/t{index}.md.j2").write_text(text)
        (root / f"prefixes/p{index:04}.yaml").write_text(f"system: t{index}.md.j2\n")


def edit(root: Path) -> None:
    """Edits the partial, and so all artifacts."""
    (root / PARTIAL).write_text("Answer in the language of the last question, and in no other.\n")


def outputs(root: Path) -> dict[str, bytes]:
    """Returns the lock and the artifacts; temporary files of an interrupted build begin with a dot and are left out."""
    paths = [path for path in (root / "build").rglob("*") if path.is_file() and not path.name.startswith(".")]
    paths += [root / LOCK] if (root / LOCK).exists() else []
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


class Bench:
    """A folder for images, and the program to try.

    Attributes:
        mount: where an image is mounted.
        project: the project in it.
    """

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._program = arguments.cacheunit
        self._options = ",".join(filter(None, ["loop", arguments.mount]))
        self.prefixes = arguments.prefixes
        self.random = random.Random(arguments.seed)  # noqa: S311 - times to cut at, not secrets
        self.mount = folder / "mount"
        self.mount.mkdir()
        self.project = self.mount / "project"

    def environment(self) -> dict[str, str]:
        """Returns the environment of the program; its caches are in the image too."""
        cache = str(self.mount / "cache")
        return {**os.environ, "CACHEUNIT_CACHE_DIR": cache, "XDG_CACHE_HOME": cache, "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, command: str, **extra: str) -> subprocess.Popen[bytes]:
        """Starts the program in the project, as a process group of its own."""
        return subprocess.Popen(
            [self._program, command],
            cwd=self.project,
            env=self.environment() | extra,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def run(self, command: str) -> int:
        """Runs the program in the project; returns its exit code."""
        process = self.start(command)
        process.communicate()
        return process.returncode

    def build(self, **extra: str) -> None:
        """Builds the project, with more variables in the environment.

        Raises:
            RuntimeError: the build failed.
        """
        process = self.start("build", **extra)
        errors = process.communicate()[1].decode()
        if process.returncode:
            raise RuntimeError(f"{self._program} build: exit code {process.returncode}: {errors}")

    def new_image(self, prefixes: int) -> Path:
        """Returns an image with the sources of a project, and a cache warmed by a build of another project."""
        image = self._folder / f"sources-{prefixes}.img"
        with image.open("wb") as handle:
            handle.truncate(IMAGE_BYTES)
        _tool("mkfs.ext4", "-q", "-F", image)
        with self.mounted(image):
            other = self.mount / "other"
            write_project(other, 1)
            other.rename(self.project)
            self.build()
            shutil.rmtree(self.project)
            write_project(self.project, prefixes)
        return image

    def copy(self, image: Path, name: str) -> Path:
        """Returns a copy of an image."""
        copied = self._folder / f"{name}.img"
        _tool("cp", "--sparse=always", "--reflink=auto", image, copied)
        return copied

    @contextlib.contextmanager
    def mounted(self, image: Path, options: str = "") -> Iterator[None]:
        """Mounts an image; everything is on disk afterwards, unless the file system was stopped."""
        _tool("mount", "-o", ",".join(filter(None, [self._options, options])), image, self.mount)
        try:
            yield
        finally:
            _tool("umount", self.mount)

    def cut(self) -> None:
        """Stops the mounted file system: what it has not yet written is lost."""
        descriptor = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(descriptor)


def recover(image: Path) -> None:
    """Replays the journal of an image, as the next start of the machine does.

    Raises:
        RuntimeError: the file system is damaged.
    """
    code = subprocess.run(["e2fsck", "-fy", image], capture_output=True, check=False).returncode  # noqa: S607
    if code > FIXED_BY_FSCK:
        raise RuntimeError(f"e2fsck: exit code {code}")


def _tool(*command: str | Path) -> None:
    subprocess.run(command, check=True)


# Trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A build to be cut.

    Attributes:
        name: what is built.
        image: the image before the build.
        old: the outputs in it.
        new: the outputs after the build.
        seconds: how long the build takes.
        writing: how long it takes from the first file that it writes to the lock.
    """

    name: str
    image: Path
    old: Files
    new: Files
    seconds: float
    writing: float


def run_trials(bench: Bench, trials: int) -> list[Row]:
    """Cuts a first build and a rebuild: at once after it, and during it; prints and returns the rows."""
    sources = bench.new_image(bench.prefixes)
    edited = bench.copy(sources, "edited")
    with bench.mounted(edited):
        bench.build()
        edit(bench.project)
    rows = []
    print(HEAD)
    for case in (_case(bench, "first build", sources), _case(bench, "rebuild", edited)):
        rows.append(_repeat(bench, case, Row(f"after a {case.name}"), trials, cut_after_build))
        rows.append(_repeat(bench, case, Row(f"anywhere in a {case.name}"), trials, cut_anywhere))
        rows.append(_repeat(bench, case, Row(f"while a {case.name} writes"), trials, cut_while_writing))
    return rows


def _case(bench: Bench, name: str, image: Path) -> Case:
    """Returns a build of an image, which is tried and timed once on a copy."""
    copied = bench.copy(image, "timed")
    with bench.mounted(copied):
        old = outputs(bench.project)
        begun = time.perf_counter()
        process = bench.start("build")
        _wait_for_change(bench.project / "build", process)
        writing = time.perf_counter()
        _wait_for_change(bench.project / LOCK, process)
        locked = time.perf_counter()
        process.communicate()
        seconds = time.perf_counter() - begun
        new = outputs(bench.project)
    return Case(name=name, image=image, old=old, new=new, seconds=seconds, writing=locked - writing)


def _repeat(bench: Bench, case: Case, row: Row, trials: int, build_and_cut: Callable[[Bench, Case], None]) -> Row:
    """Builds and cuts several times, adds to a row what is left, and prints it."""
    for _ in range(trials):
        image = bench.copy(case.image, "trial")
        with bench.mounted(image):
            build_and_cut(bench, case)
        recover(image)
        with bench.mounted(image):
            _judge(bench, case, row)
        row.trials += 1
    print(row.line(), flush=True)
    return row


def _judge(bench: Bench, case: Case, row: Row) -> None:
    """Adds to a row what one trial left in the mounted image, then checks and builds there."""
    left = outputs(bench.project)
    lock = left.get(LOCK)
    state = "torn"
    if lock == case.old.get(LOCK):
        state = "absent" if lock is None else "old"
    elif lock == case.new[LOCK]:
        state = "new"
    row.locks[state] += 1
    locked = case.new if state == "new" else case.old
    names = [name for name in case.new if name != LOCK]
    row.named += len(names) if state == "new" else 0
    for name in names:
        data = left.get(name)
        if data == locked.get(name):
            continue
        if state == "new":
            row.artifacts[_state(data, case.old.get(name), "old")] += 1
        else:
            row.older_lock[_state(data, case.new[name], "new")] += 1
    if any(left.get(name) != locked.get(name) for name in names):
        row.missed += bench.run("check") == 0
    row.not_repaired += bench.run("build") != 0 or outputs(bench.project) != case.new


def _state(data: bytes | None, other: bytes | None, label: str) -> str:
    """Returns what an artifact is that is not as locked; `label` where it has the content of the other version."""
    if data is None or data == other:
        return "missing" if data is None else label
    return "other" if data.strip(b"\0") else "zeros" if data else "empty"


def cut_after_build(bench: Bench, _: Case) -> None:
    """Cuts as soon as a build has returned."""
    bench.build()
    bench.cut()


def cut_anywhere(bench: Bench, case: Case) -> None:
    """Cuts at a random time of a build."""
    _cut_after(bench, bench.start("build"), bench.random.uniform(0, case.seconds))


def cut_while_writing(bench: Bench, case: Case) -> None:
    """Cuts at a random time between the first file of a build and a little after its lock."""
    process = bench.start("build")
    _wait_for_change(bench.project / "build", process)
    _cut_after(bench, process, bench.random.uniform(0, 1.2 * case.writing))


def _cut_after(bench: Bench, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Cuts after some seconds, and kills the build, which can no longer write."""
    time.sleep(seconds)
    bench.cut()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _wait_for_change(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Returns when a build has changed a file or the entries of a folder, or has ended."""
    before = changed_at(path)
    while process.poll() is None and changed_at(path) == before:
        time.sleep(0.0002)


def changed_at(path: Path) -> int:
    """Returns when a file was last changed, or an entry of the folder or of one in it; 0 if it does not exist."""
    try:
        folders = [path, *(inner for inner in path.iterdir() if inner.is_dir())] if path.is_dir() else [path]
        return max(folder.stat().st_mtime_ns for folder in folders)
    except FileNotFoundError:
        return 0


# Cost


def barrier_costs(bench: Bench, repeats: int, prefixes: int) -> dict[str, list[float]]:
    """Times cold builds as they are, without any sync, and the sync of all that such a build wrote; prints medians."""
    library = bench.mount.with_name("nosync.so")
    source = library.with_suffix(".c")
    source.write_text(NO_SYNC)
    _tool("cc", "-shared", "-fPIC", "-o", library, source)
    image = bench.new_image(prefixes)
    seconds: dict[str, list[float]] = {"cold build": [], "cold build, no sync": [], "sync after it": []}
    for _ in range(repeats):
        for name, extra in (("cold build", {}), ("cold build, no sync", {"LD_PRELOAD": str(library)})):
            trial = bench.copy(image, "trial")
            _tool("sync", "-f", trial)
            with bench.mounted(trial):
                begun = time.perf_counter()
                bench.build(**extra)
                seconds[name].append(time.perf_counter() - begun)
                if extra:
                    begun = time.perf_counter()
                    _tool("sync", "-f", bench.mount)
                    seconds["sync after it"].append(time.perf_counter() - begun)
    print(f"\n| {prefixes:,} prefixes, {repeats} times | median | least | most |\n| --- | ---: | ---: | ---: |")
    for name, times in seconds.items():
        print(f"| {name} | {statistics.median(times):.2f} s | {min(times):.2f} s | {max(times):.2f} s |")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
