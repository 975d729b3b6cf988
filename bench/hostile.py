"""Kills builds, and lets writing fail: no file is ever torn, and a failed build changes nothing.

Usage: python bench/hostile.py [CACHEUNIT] [--kills N] [--faults N] [--prefixes N] [--json FILE]

Faults: a file system without space, one without inodes (both tmpfs, which needs root), and a limit on the size of
files (RLIMIT_FSIZE).

Exit codes: 0 nothing was torn or lost, 1 something was, 2 not possible here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from power_cut import LOCK, PARTIAL, changed_at, outputs, write_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Files = Mapping[str, bytes]

VERSIONS = ("Answer in the language of the question.\n", "Answer in no other language than that of the question.\n")
INPUT_ERROR = 2
PAGE = 4096
ROOMY = 64 << 20


def main() -> int:
    """Runs the trials and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="Kills builds, and lets writing fail.")
    installed = Path(sysconfig.get_path("scripts")) / "cacheunit"
    parser.add_argument("cacheunit", nargs="?", type=Path, default=installed, help="the program to try")
    parser.add_argument("--kills", type=int, default=300, metavar="N", help="builds to kill (300)")
    parser.add_argument("--faults", type=int, default=50, metavar="N", help="builds for each kind of fault (50)")
    parser.add_argument("--prefixes", type=int, default=30, metavar="N", help="prefixes of the project (30)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random times (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or sys.platform != "linux":
        print("error: needs Linux and root", file=sys.stderr)
        return 2
    rows: list[Row] = []
    print(
        "| builds | trials | outcome | torn files | mixed with a new lock | not as before | left over | not repaired |"
    )
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, _tmpfs(Path(folder)):
        bench = Bench(Path(folder).resolve(), arguments)
        for name, trials, act in (
            ("killed at any time", arguments.kills // 3, bench.kill_anywhere),
            ("killed while writing", arguments.kills // 3, bench.kill_while_writing),
            ("first builds, killed while writing", arguments.kills // 3, bench.kill_first_build),
            ("no space", arguments.faults, bench.without_space),
            ("no inodes", arguments.faults, bench.without_inodes),
            ("limit of file size", arguments.faults, bench.with_small_files),
        ):
            rows.append(bench.repeat(name, trials, act))
            print(rows[-1].line(), flush=True)
    if arguments.json:
        report = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if any(row.faults for row in rows) else 0


@contextlib.contextmanager
def _tmpfs(folder: Path) -> Iterator[None]:
    """Mounts a file system in memory on a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "none", folder], check=True)  # noqa: S607
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)  # noqa: S607


@dataclass(slots=True)
class Row:
    """The results of one kind of trials.

    Attributes:
        name: the label of the row.
        outcomes: how many builds ended in which way.
        torn: files that are neither of the version before nor of that after the build.
        mixed: artifacts that are not as a new lock says.
        changed: builds that failed with an error, and changed something.
        left_over: builds that failed with an error, and left temporary files; for a killed one, after the next build.
        not_repaired: builds after which the next one did not make everything as it should be.
        errors: the first line of an unexpected output.
    """

    name: str
    trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    torn: int = 0
    mixed: int = 0
    changed: int = 0
    left_over: int = 0
    not_repaired: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """The number of things that must not happen."""
        return self.torn + self.mixed + self.changed + self.left_over + self.not_repaired + len(self.errors)

    def line(self) -> str:
        """Returns the row of the table."""
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        numbers = (self.torn, self.mixed, self.changed, self.left_over, self.not_repaired)
        errors = "".join(f"\n  unexpected: {error}" for error in dict.fromkeys(self.errors))
        return f"| {' | '.join(map(str, [self.name, self.trials, outcomes, *numbers]))} |{errors}"


class Bench:
    """A project with two versions of its outputs, in a file system of its own.

    Attributes:
        root: the project.
        version: the version of the sources, 0 or 1; the outputs are of the other one, or there are none.
    """

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._program = arguments.cacheunit.resolve()
        self._random = random.Random(arguments.seed)  # noqa: S311 - times and sizes, not secrets
        cache = str(folder / "cache")
        self._environment = {**os.environ, "CACHEUNIT_CACHE_DIR": cache, "XDG_CACHE_HOME": cache}
        self.root = folder / "project"
        write_project(self.root, arguments.prefixes)
        self._versions: list[Files] = []
        self._seconds = 0.0
        self._writing = 0.0
        self.version = 0
        for version in (0, 1):
            self._set_version(version)
            begun = time.perf_counter()
            process = self._start()
            self._wait_for_change("build", process)
            writing = time.perf_counter()
            self._wait_for_change(LOCK, process)
            self._writing = time.perf_counter() - writing
            process.communicate()
            self._seconds = time.perf_counter() - begun
            self._versions.append(outputs(self.root))

    def _set_version(self, version: int) -> None:
        self.version = version
        (self.root / PARTIAL).write_text(VERSIONS[version])

    def _start(self, *limits: str) -> subprocess.Popen[str]:
        """Starts a build as a process group of its own, with limits as options of prlimit."""
        return subprocess.Popen(
            [*(["prlimit", *limits] if limits else []), self._program, "build"],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def _wait_for_change(self, path: str, process: subprocess.Popen[str]) -> None:
        """Returns when the build has changed a file or the entries of a folder, or has ended."""
        before = changed_at(self.root / path)
        while process.poll() is None and changed_at(self.root / path) == before:
            time.sleep(0.0002)

    def repeat(self, name: str, trials: int, act: Callable[[Row], None]) -> Row:
        """Builds the other version several times, as `act` does it, and judges what is left."""
        row = Row(name)
        for _ in range(trials):
            self._set_version(1 - self.version)
            act(row)
            row.trials += 1
            process = self._start()
            error = process.communicate()[1]
            if process.returncode:
                row.errors.append(f"the next build: {error.strip()[-200:]}")
            row.not_repaired += outputs(self.root) != self._versions[self.version]
            row.left_over += self._temporary_files() > 0
        return row

    def _temporary_files(self) -> int:
        return sum(
            1 for path in [*self.root.glob(".*"), *(self.root / "build").rglob(".*")] if path.name.endswith("tmp")
        )

    # Kills

    def kill_anywhere(self, row: Row) -> None:
        """Kills a build at any time."""
        self._kill(row, self._start(), self._random.uniform(0, self._seconds))

    def kill_while_writing(self, row: Row) -> None:
        """Kills a build at a time between its first file and a little after its lock."""
        process = self._start()
        self._wait_for_change("build", process)
        self._kill(row, process, self._random.uniform(0, 1.2 * self._writing))

    def kill_first_build(self, row: Row) -> None:
        """Removes lock and artifacts, and kills a build as `kill_while_writing` does."""
        shutil.rmtree(self.root / "build")
        (self.root / LOCK).unlink()
        self.kill_while_writing(row)

    def _kill(self, row: Row, process: subprocess.Popen[str], seconds: float) -> None:
        had_lock = (self.root / LOCK).exists()
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        left, new = outputs(self.root), self._versions[self.version]
        old = self._versions[1 - self.version] if had_lock else {}
        lock = left.get(LOCK)
        state = "torn lock"
        if lock in (old.get(LOCK), new[LOCK]):
            state = "new lock" if lock == new[LOCK] else "old lock" if had_lock else "no lock"
        row.outcomes[state] += 1
        row.torn += sum(1 for name, data in left.items() if data not in (old.get(name), new.get(name)))
        row.mixed += sum(1 for name in new if left.get(name) != new[name]) if state == "new lock" else 0

    # Faults

    def without_space(self, row: Row) -> None:
        """Builds with a number of free pages that is too small, or nearly."""
        needed = sum(len(data) // PAGE + 1 for data in self._versions[self.version].values())
        free = self._random.randrange(needed + needed // 4)
        ballast = self._folder / "ballast"
        with ballast.open("wb") as handle:
            space = os.statvfs(self._folder)
            with contextlib.suppress(OSError):
                os.posix_fallocate(handle.fileno(), 0, max(PAGE, (space.f_bavail - free) * PAGE))
        self._build(row)
        ballast.unlink()

    def without_inodes(self, row: Row) -> None:
        """Builds with a number of free inodes that is too small, or nearly."""
        free = self._random.randrange(len(self._versions[self.version]) + 10)
        used = os.statvfs(self._folder).f_files - os.statvfs(self._folder).f_ffree
        self._remount(f"nr_inodes={used + free}")
        self._build(row)
        self._remount("nr_inodes=100000")

    def _remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self._folder], check=True)  # noqa: S607

    def with_small_files(self, row: Row) -> None:
        """Builds with a limit on the size of files that is too small, or nearly."""
        largest = max(len(data) for data in self._versions[self.version].values())
        size = self._random.randrange(largest + largest // 10)
        self._build(row, f"--fsize={size}")

    def _build(self, row: Row, *limits: str) -> None:
        """Builds, and judges what is left: all is new, or the build fails with an error and nothing changed."""
        before = outputs(self.root)
        process = self._start(*limits)
        error = process.communicate()[1]
        after = outputs(self.root)
        if process.returncode == 0:
            row.outcomes["built"] += 1
            row.torn += after != self._versions[self.version]
            return
        row.outcomes[f"exit code {process.returncode}"] += 1
        row.changed += after != before
        row.torn += sum(
            1 for name, data in after.items() if data not in (before.get(name), self._versions[self.version].get(name))
        )
        row.left_over += self._temporary_files() > 0
        if process.returncode != INPUT_ERROR or "Traceback" in error:
            row.errors.append(error.strip().rpartition("\n")[2][:200] or f"exit code {process.returncode}")


if __name__ == "__main__":
    sys.exit(main())
