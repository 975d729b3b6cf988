"""Measures `cacheunit log` on a synthetic repository: each commit changes one prefix in a lock of many entries.

Usage: python bench/history.py [--commits N] [--entries N]

Prints one row a report. Exit code 1 if one takes longer than 5 seconds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity
from cacheunit_build.lockfile.format import lock_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GOAL = 5.0
FIRST_DAY = 1_767_225_600  # 2026-01-01
RULES = {
    "deepseek-v4": CacheRule(kind="blocks", unit=128, read=0.02, write=1.0),
    "claude-sonnet-5": CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25),
}
REPORTS: tuple[tuple[str, ...], ...] = (
    ("log",),
    ("log", "team0/agent0", "--target", "deepseek-v4"),
    ("log", "--format", "json"),
    ("log", "--format", "html"),
)


def entry(name: str, version: int, tokens: int) -> LockEntry:
    """Returns the entry of a version of a prefix."""
    text, request, ids = (fingerprint(f"{name} {version} {part}".encode()) for part in ("text", "request", "ids"))
    return LockEntry(
        tokens=tokens, counted="exact", padding=0, markers=(tokens,), text=text, request=request, token_ids=ids
    )


def versions(commits: int, entries: int) -> Iterator[bytes]:
    """Yields the bytes of each version of the lock: in each, another prefix has 7 tokens more, for all targets."""
    targets = {
        name: TargetIdentity(format="openai-chat", cache=rule, frame=fingerprint(b""), tokenizer=fingerprint(b"t"))
        for name, rule in RULES.items()
    }
    names = [f"team{index % 7}/agent{index}" for index in range(entries // len(targets))]
    lock = Lock(
        targets=targets,
        entries={(name, target): entry(name, 0, 1_300) for name in names for target in targets},
    )
    for version in range(1, commits + 1):
        yield lock_bytes(lock)
        name = names[version % len(names)]
        tokens = lock.entries[name, "deepseek-v4"].tokens + 7
        changed = {(name, target): entry(name, version, tokens) for target in targets}
        lock = replace(lock, entries={**lock.entries, **changed})


def create_repository(folder: Path, commits: int, entries: int) -> None:
    """Creates a repository with a commit for each version of the lock."""
    stream = bytearray()
    for index, data in enumerate(versions(commits, entries)):
        subject = f"Edit {index}".encode()
        stream += b"commit refs/heads/main\ncommitter A <a@b.c> %d +0000\n" % (FIRST_DAY + index * 3600 * 6)
        stream += b"data %d\n%b\nM 100644 inline cacheunit.lock\ndata %d\n%b\n" % (
            len(subject), subject, len(data), data,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", data=bytes(stream))
    git(folder, "reset", "-q", "--hard")


def git(folder: Path, *arguments: str, data: bytes = b"") -> None:
    """Runs git in a folder."""
    subprocess.run(["git", *arguments], cwd=folder, input=data, check=True)  # noqa: S607 - the user's git


def seconds(folder: Path, report: Sequence[str]) -> tuple[float, float, int]:
    """Runs the program three times; returns the medians of its seconds and of its CPU seconds, and its output's size.

    The CPU seconds are those of the program and of git; other processes do not disturb them.
    """
    took, used, size = [], [], 0
    for _ in range(3):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "cacheunit_build", "-C", str(folder), *report]
        size = len(subprocess.run(command, capture_output=True, check=True).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(time.perf_counter() - begun)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(took), statistics.median(used), size


def main() -> int:
    """Creates the repository and measures each report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=200)
    arguments = parser.parse_args()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        create_repository(folder, arguments.commits, arguments.entries)
        print("| report | seconds | CPU seconds | bytes |\n| --- | ---: | ---: | ---: |")
        for report in REPORTS:
            took, used, size = seconds(folder, report)
            slowest = max(slowest, took)
            print(f"| `{' '.join(report)}` | {took:.2f} | {used:.2f} | {size:,} |")
    return 1 if slowest > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
