"""Fuzzes what reads files and answers, guided by coverage: nothing but the documented errors may come out.

Usage: python bench/fuzz.py TARGET [--seconds N] [--keep FOLDER]

Needs atheris: pip install atheris. Each distinct failure is printed once, minimized, as a Python literal: an exception
that is not a CacheunitError, a property that does not hold (the modules `fuzz_*.py` have them), more than 5 s of
processor time, more than 512 MiB of memory, or the death of the process. Inputs are kept in a temporary folder.

Exit codes: 0 nothing failed, 1 something did, 2 atheris is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fuzz_align import ALIGNMENT
from fuzz_base import atheris
from fuzz_data import DATA
from fuzz_mutator import Mutator, minimized
from fuzz_parsers import PARSERS

from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from fuzz_base import Target

TARGETS = {**PARSERS, **DATA, **ALIGNMENT}
MOST_SECONDS = 5
"""Processor time for one input."""
MOST_BYTES = 1 << 29
MOST_INPUT = 1 << 16
MOST_RESTARTS = 20
MINIMIZE_SECONDS = 20
WAIT_SECONDS = 120
"""A process may take so much longer than it should, to end what it tries."""
MOST_SHOWN = 1_500
_COUNTERS = struct.Struct("<QQd")
"""Executions, inputs that were read without an error, and the seconds of the slowest input."""
_SIZE_BYTES = 4
"""The bytes of the size of the input that is tried, in front of it, in the file `current`."""


def main() -> int:
    """Fuzzes one target, and prints what failed; returns the exit code."""
    parser = argparse.ArgumentParser(description="Fuzzes one target, guided by coverage.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600, metavar="N", help="how long (600)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for corpus and failures (a temporary one)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("error: atheris is not installed\n\nhint: pip install atheris", file=sys.stderr)
        return 2
    folder: Path = arguments.keep or Path(tempfile.mkdtemp(prefix=f"fuzz-{arguments.target}-"))
    folder = folder.resolve()
    if arguments.child:
        Child(arguments.target, folder).fuzz(arguments.seconds)
        return 0
    return supervise(arguments.target, folder, arguments.seconds)


def supervise(name: str, folder: Path, seconds: int) -> int:
    """Runs the fuzzer in a process of its own, again where that dies; prints what failed, and returns the exit code."""
    for part in ("corpus", "died"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(TARGETS[name].seeds()):
        (folder / f"corpus/seed-{index}").write_bytes(seed)
    (folder / "counters").write_bytes(_COUNTERS.pack(0, 0, 0.0))
    (folder / "current").write_bytes(bytes(_SIZE_BYTES + MOST_INPUT))
    begun = time.monotonic()
    codes: list[int] = []
    while (left := seconds - (time.monotonic() - begun)) > 1 and len(codes) <= MOST_RESTARTS:
        command = [sys.executable, __file__, name, "--child", "--seconds", str(int(left)), "--keep", str(folder)]
        with (folder / "log").open("ab") as log:
            codes.append(_exit_code(command, log, left + WAIT_SECONDS))
        if codes[-1]:
            data = (folder / "current").read_bytes()
            size = int.from_bytes(data[:_SIZE_BYTES], "little")
            (folder / f"died/{len(codes)}").write_bytes(data[_SIZE_BYTES : _SIZE_BYTES + size])
    runs, accepted, slowest = _COUNTERS.unpack((folder / "counters").read_bytes())
    elapsed = time.monotonic() - begun
    failures = _failures(folder)
    died = sorted((folder / "died").iterdir())
    print(
        f"{name}: {runs:,} executions in {elapsed:,.0f} s, {accepted:,} read, slowest {slowest:.1f} s; "
        f"{len(failures)} distinct failures, {len(died)} deaths of the process (exit codes {codes}); in {folder}"
    )
    for failure in failures:
        print(f"\n{failure.times:,} x {failure.error}\n  at {failure.place}")
        print(f"  {_shown(name, bytes.fromhex(failure.data))}")
    for path in died:
        print(f"\ndied: {path.name}\n  {_shown(name, path.read_bytes())}")
    return 1 if failures or died else 0


def _exit_code(command: list[str], log: BinaryIO, seconds: float) -> int:
    """Runs a process; kills it after some seconds, since one without memory may wait for ever."""
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _shown(name: str, data: bytes) -> str:
    literal = repr(TARGETS[name].shown(data))
    return literal if len(literal) <= MOST_SHOWN else f"{literal[:MOST_SHOWN]}… ({len(data):,} bytes)"


# Failures


@dataclass(slots=True, kw_only=True)
class Failure:
    """A distinct failure.

    Attributes:
        kind: the type of the error and where it was raised; equal for what is the same failure.
        error: the error as text.
        place: the innermost function of the package.
        data: the smallest input that is known, in hexadecimal.
        times: how often it was seen.
    """

    kind: str
    error: str
    place: str
    data: str
    times: int = 1


def _failures(folder: Path) -> list[Failure]:
    path = folder / "failures.json"
    return [Failure(**values) for values in json.loads(path.read_text())] if path.exists() else []


class HangError(BaseException):
    """An input takes too long. No `Exception`, so that nothing takes it for an error of a template."""


def _described(error: BaseException) -> tuple[str, str, str]:
    """Returns the kind, the text and the place of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "cacheunit_build" in frame.filename] or list(frames)[-1:]
    innermost = own[-1]
    file = innermost.filename.rpartition("cacheunit_build/")[2]
    place = f"{file}:{innermost.lineno} {innermost.name}"
    name = type(error).__name__
    text = f"{name}: {str(error)[:300]}"
    if name == "PropertyError":
        return str(error), text, place
    where = file if isinstance(error, HangError | RecursionError | MemoryError) else f"{file} {innermost.name}"
    return f"{name} {where}", text, place


# The process that fuzzes


class Child:
    """Fuzzes one target in this process.

    Attributes:
        folder: where corpus, counters and failures are.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self._name = name
        self._target: Target = TARGETS[name]
        self._failures = {failure.kind: failure for failure in _failures(folder)}
        self._random = random.Random(int(time.time()))  # noqa: S311 - mutations
        self._seeds = self._target.seeds()
        with (folder / "counters").open("r+b") as counters, (folder / "current").open("r+b") as current:
            self._counters = mmap.mmap(counters.fileno(), _COUNTERS.size)
            self._current = mmap.mmap(current.fileno(), _SIZE_BYTES + MOST_INPUT)

    def fuzz(self, seconds: int) -> None:
        """Fuzzes for some seconds; does not return."""
        fuzzer = atheris()
        os.nice(10)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, resource.RLIM_INFINITY))
        signal.signal(signal.SIGPROF, _stop)
        packages = ["cacheunit_build", "tomllib", "jsonschema", "yaml"]
        with fuzzer.instrument_imports(include=packages, enable_loader_override=False):
            for seed in self._seeds:
                with contextlib.suppress(BaseException):
                    self._run(seed)  # imports what it needs
        options = [
            f"-max_total_time={seconds}",
            f"-max_len={MOST_INPUT}",
            "-timeout=120",  # of the clock, for what does not return to Python; beside other work
            "-rss_limit_mb=6000",  # RLIMIT_AS comes first
            "-report_slow_units=1000",
            "-len_control=20",
            "-verbosity=0",
            f"-artifact_prefix={self.folder}/log-",
        ]
        arguments = [sys.argv[0], *options, str(self.folder / "corpus")]
        fuzzer.Setup(arguments, self._one_input, custom_mutator=Mutator(self._target, self._seeds, self._random))
        fuzzer.Fuzz()

    def _one_input(self, data: bytes) -> None:
        begun = time.process_time()
        accepted = 0
        self._current[: _SIZE_BYTES + len(data)] = len(data).to_bytes(_SIZE_BYTES, "little") + data
        try:
            accepted = self._run(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            self._add(error, data)
        runs, read, slowest = _COUNTERS.unpack(self._counters)
        slowest = max(slowest, time.process_time() - begun) if accepted else slowest
        self._counters[:] = _COUNTERS.pack(runs + 1, read + accepted, slowest)

    def _run(self, data: bytes) -> int:
        """Reads an input; returns whether it is valid."""
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        try:
            self._target.run(data)
        except CacheunitError:
            return 0
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return 1

    def _add(self, error: BaseException, data: bytes) -> None:
        """Keeps a failure; a new one is minimized."""
        kind, text, place = _described(error)
        known = self._failures.get(kind)
        error.__traceback__ = None
        if known is not None:
            known.times += 1
            if len(data) * 2 < len(known.data):
                known.data = data.hex()
        else:
            seconds = 3 * MOST_SECONDS if isinstance(error, HangError) else MINIMIZE_SECONDS
            small = minimized(data, self._target.head, lambda smaller: self._kind(smaller) == kind, seconds)
            self._failures[kind] = Failure(kind=kind, error=text, place=place, data=small.hex())
            values = [asdict(failure) for failure in self._failures.values()]
            (self.folder / "failures.json").write_text(json.dumps(values))
        if known is not None and known.times % 20 == 0:
            values = [asdict(failure) for failure in self._failures.values()]
            (self.folder / "failures.json").write_text(json.dumps(values))

    def _kind(self, data: bytes) -> str | None:
        """Returns the kind of failure of an input; None where it does not fail."""
        try:
            self._run(data)
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            return _described(error)[0]
        return None


def _stop(_signal: int, _frame: object) -> None:
    raise HangError(f"more than {MOST_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
