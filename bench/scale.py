"""Measures how builds grow: time, memory and sizes, from 100 to 100,000 prefixes and from 1 to 20 targets.

Usage: python bench/scale.py [CORPUS] [--sizes N...] [--targets N...] [--columns NAME...] [--limit SECONDS]
       [--repeats N] [--folder FOLDER] [--nginx PROGRAM] [--json FILE]

Texts are short, and the same in each run: beginnings of the corpus, or else built-in sentences. Prefixes are in folders
of 1,000. Needs Linux, whose /proc tells the memory of processes. Columns that this version of cacheunit or this machine
does not have are left out, and named: `cluster` needs `build --scheduler` and the package distributed, `remote` needs
`build --no-remote` and nginx.

Exit codes: 0 measured, 1 a command failed or two ways to build gave different locks, 2 bad arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import zlib
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TARGETS = (
    "deepseek-v4",
    "openai",
    "anthropic-1024",
    "gemini",
    "kimi",
    "openai-legacy",
    "anthropic-512",
    "anthropic-2048",
    "anthropic-4096",
    "bedrock-1024",
    "bedrock-4096",
    "bedrock-converse-1024",
    "bedrock-converse-4096",
    "bedrock-nova",
    "deepseek-v4.1",
    "gemini-2.5",
    "groq",
    "mistral",
    "qwen",
    "qwen-explicit",
)
"""Targets that need no extra package beyond the extra `test`; the first five have five request formats."""

SENTENCES = (
    "Answer in the language of the question, and keep to what was asked.",
    "Name the source of each claim, with the page where there is one.",
    "Say so when you do not know, and offer to look it up.",
    "Refunds are made within 14 days, to the card that was charged.",
    "Never promise a date that the order system does not show.",
    "Prices include tax; quote them with the currency of the customer.",
    "Hand over to a person when the customer asks for one twice.",
    "Keep personal data out of the answer, names included.",
    "Quote code in a block, and say which version it is for.",
    "Ask one question at a time, and wait for the answer.",
    "Use short sentences; a list has five items at most.",
    "Check the opening hours of the shop before you name them.",
    "Do not repeat the question, and do not apologise for delays of others.",
)
SENTENCES_EACH = 4
SHARED = "Answer in the language of the question. Say so when you do not know, and name the source of each claim.\n" * 4
PLAIN = '{{ text }}\n{% include "shared.md.j2" %}'
SHORT_CHARACTERS = 300
FOLDER_SIZE = 1_000
"""Prefixes in one folder: hosts of repositories recommend at most a few thousand entries in one."""

WORKERS = 2
ENOUGH_SECONDS = 10.0
"""No further sample is taken after so many seconds of samples."""

FEW = 1_000
"""With fewer artifacts, the start of the program takes most of the time, which says nothing of larger projects."""

DIFFERENT = 1
"""The exit code of a comparison that finds differences."""

STARTER = """\
import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = used.ru_utime + used.ru_stime
print(json.dumps({"code": code, "wall": wall, "cpu": cpu, "largest": used.ru_maxrss / 1024}))
"""
"""Runs a program and prints what it used. It is a small process: a new one begins with the memory of its parent."""

NGINX = """\
daemon off;
{user}worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_max_body_size 0;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {folder}/files;
    location / {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""

CACHE, REMOTE, WRITE = "CACHEUNIT_CACHE_DIR", "CACHEUNIT_REMOTE_CACHE", "CACHEUNIT_CACHE_WRITE"
UNSET = (REMOTE, WRITE, "CACHEUNIT_NO_REMOTE", "CACHEUNIT_SCHEDULER", "PYTHONDONTWRITEBYTECODE")
"""Variables of the user that would change what is measured. An installed program has its modules compiled."""


def main() -> int:
    """Measures and prints tables; returns the exit code."""
    arguments = parse_arguments()
    for name in UNSET:
        os.environ.pop(name, None)
    texts = read_texts(arguments.corpus) if arguments.corpus else ()
    if arguments.corpus and not texts:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    cases = list(measure_cases(arguments, texts))
    tables = (time_table, memory_table, size_table, growth_table)
    print(f"commit {commit()}\n")
    print("\n\n".join("\n".join(table(cases)) for table in tables))
    for case in cases:
        for kind, fault in case.faults.items():
            print(f"\nFAILED {case.prefixes:,} prefixes × {case.targets}, {kind}: {fault}")
    if arguments.json:
        report = {"commit": commit(), "python": sys.version.split()[0], "cases": [asdict(case) for case in cases]}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if any(case.faults for case in cases) else 0


def parse_arguments() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Measures how builds grow.")
    parser.add_argument("corpus", nargs="?", type=Path, help="folder with prompts/*.md; default: built-in sentences")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1_000, 10_000, 100_000], metavar="N")
    parser.add_argument("--targets", nargs="+", type=int, default=[1, 5, 20], metavar="N", choices=range(1, 21))
    parser.add_argument(
        "--columns",
        nargs="+",
        choices=COLUMNS,
        default=list(COLUMNS),
        metavar="NAME",
        help=f"measure only these: {', '.join(COLUMNS)}",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=900,
        metavar="SECONDS",
        help="leave out projects whose cold builds are expected to take more CPU seconds in all (900)",
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="samples of runs that are short (3)")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where projects are created, such as /dev/shm")
    parser.add_argument("--nginx", type=Path, metavar="PROGRAM", help="the nginx program, if it is not on the PATH")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, with every sample")
    return parser.parse_args()


# Results


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run used.

    Attributes:
        wall: its seconds.
        cpu: its CPU seconds, those of all its processes and of cluster workers.
        largest: the peak memory of its largest process in MB.
        together: the peak memory of all its processes together in MB, with shared pages counted once; sampled.
    """

    wall: float
    cpu: float
    largest: float
    together: float


@dataclass(slots=True)
class Case:
    """A project and what was measured of it.

    Attributes:
        prefixes: the number of its prefixes.
        targets: the number of its targets.
        samples: the samples of each kind of run.
        sizes: the size of each output: bytes, or the number of files, folders and lines.
        faults: the first line of the error of each run that failed, by its kind.
    """

    prefixes: int
    targets: int
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def artifacts(self) -> int:
        """The number of its artifacts."""
        return self.prefixes * self.targets

    def median(self, kind: str, value: str) -> float | None:
        """Returns the median of a value of a kind of run; None where there is none."""
        samples = self.samples.get(kind)
        return statistics.median(getattr(sample, value) for sample in samples) if samples else None


# Projects


@dataclass(frozen=True, slots=True)
class Project:
    """A project in a folder, with a cache of its own.

    Attributes:
        root: its folder.
        cache: the folder of the cache.
        edited: the file of which edits change the first line.
    """

    root: Path
    cache: Path
    edited: Path

    def remove_outputs(self) -> None:
        """Removes the outputs and the cache, and waits until this is on the disk."""
        for folder in (self.root / "build", self.cache):
            shutil.rmtree(folder, ignore_errors=True)
        self.lock.unlink(missing_ok=True)
        os.sync()

    @property
    def lock(self) -> Path:
        """The lock."""
        return self.root / "cacheunit.lock"

    def edit(self, number: int) -> None:
        """Changes the first line of one text."""
        rest = self.edited.read_text(encoding="utf-8").partition("\n")[2]
        self.edited.write_text(f"# Edited {number} times\n{rest}", encoding="utf-8", newline="\n")


def read_texts(corpus: Path) -> tuple[str, ...]:
    """Returns the texts of a corpus."""
    paths = (path for path in sorted((corpus / "prompts").glob("*.md")) if path.stem != "LICENSE")
    return tuple(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def short_text(index: int, texts: Sequence[str]) -> str:
    """Returns a text of 250 to 330 characters, another one for each index."""
    if texts:
        size = len(texts)
        return texts[index % size][:SHORT_CHARACTERS] + texts[(index + 1 + index // size) % size][:30]
    steps = range(SENTENCES_EACH)
    picked = [SENTENCES[(index + step * (1 + index // len(SENTENCES))) % len(SENTENCES)] for step in steps]
    return f"You are the assistant of team {index}. {' '.join(picked)}"


def make_project(folder: Path, prefixes: int, targets: int, texts: Sequence[str]) -> Project:
    """Creates a project in which each text is a data file that a template prints, before a shared partial."""
    root = folder / "project"
    (root / "templates").mkdir(parents=True)
    write(root / "templates/plain.md.j2", PLAIN)
    write(root / "templates/shared.md.j2", SHARED)
    write(root / "cacheunit.toml", f"targets = {json.dumps(TARGETS[:targets])}\n")
    for index in range(prefixes):
        name = name_of(index)
        if index % FOLDER_SIZE == 0:
            for kind in ("texts", "prefixes"):
                (root / kind / name).parent.mkdir(parents=True)
        write(root / f"texts/{name}.md", f"# Prefix {index}\n{short_text(index, texts)}\n")
        write(root / f"prefixes/{name}.yaml", f"system: plain.md.j2\ndata: {{text: texts/{name}.md}}\n")
    return Project(root, folder / "cache", root / f"texts/{name_of(prefixes // 2)}.md")


def name_of(index: int) -> str:
    """Returns the name of a prefix."""
    return f"team{index // FOLDER_SIZE:03}/p{index:06}"


def write(path: Path, text: str) -> None:
    """Writes a text file, in UTF-8 and with LF line ends."""
    path.write_text(text, encoding="utf-8", newline="\n")


def output_sizes(project: Project) -> dict[str, int]:
    """Returns the sizes of the lock, of `build/` and of what the cache has of the project."""
    lock = project.lock.read_bytes()
    sizes = {"lock": len(lock), "lock lines": lock.count(b"\n"), "lock compressed": len(zlib.compress(lock))}
    del lock
    sizes |= dict.fromkeys(("build", "build on disk", "build files", "build folders", "record", "stamp", "reports"), 0)
    for folder, _, names in os.walk(project.root / "build"):
        sizes["build folders"] += 1
        sizes["build files"] += len(names)
        for name in names:
            status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - millions of files
            sizes["build"] += status.st_size
            sizes["build on disk"] += status.st_blocks * 512
    for path in project.cache.glob("projects/*/*"):
        kind = next((kind for kind in ("record", "stamp") if path.name.startswith(kind)), "reports")
        sizes[kind] += path.stat().st_size
    return sizes


# Running


@dataclass(slots=True)
class Bench:
    """What the cases are measured with.

    Attributes:
        arguments: the arguments of the command line.
        cluster: the address of a scheduler, where there is one, and the processes of the cluster.
        nginx: the nginx program, where there is one.
        edits: the number of edits so far, so that each differs.
    """

    arguments: argparse.Namespace
    cluster: tuple[str, Sequence[int]] | None
    nginx: str | None
    edits: int = 0

    def command(self, project: Project, *arguments: str) -> list[str]:
        """Returns the command line of cacheunit in a project."""
        return [tool("cacheunit"), "-C", str(project.root), *arguments]

    def sample(self, case: Case, kind: str, project: Project, *arguments: str, **options: str) -> Sample | None:
        """Runs cacheunit and notes what it used, or its error.

        Args:
            case: where it is noted.
            kind: the kind of run.
            project: the project.
            arguments: the arguments of the program.
            options: further environment variables.
        """
        pids = self.cluster[1] if self.cluster and kind == "cluster" else ()
        environment = {**os.environ, CACHE: str(project.cache), **options}
        result = run_measured(self.command(project, *arguments), environment, pids, differs=kind.startswith("diff"))
        if isinstance(result, str):
            case.faults[kind] = result
            return None
        case.samples.setdefault(kind, []).append(result)
        return result

    def repeat(self, run: Callable[[], Sample | None]) -> None:
        """Runs until there are enough samples, or one failed, or they took long enough."""
        spent = 0.0
        for _ in range(self.arguments.repeats):
            result = run()
            spent += result.wall if result else ENOUGH_SECONDS
            if spent >= ENOUGH_SECONDS:
                return

    def edit(self, project: Project) -> None:
        """Edits one text."""
        self.edits += 1
        project.edit(self.edits)


def run_measured(
    command: Sequence[str], environment: Mapping[str, str], others: Sequence[int], *, differs: bool
) -> Sample | str:
    """Runs a program; returns what it used, or the first line of its error.

    Args:
        command: the program and its arguments.
        environment: its environment variables.
        others: further processes that work for it, and whose time and memory are counted.
        differs: whether it may exit with the code of a comparison that finds differences.
    """
    before = cpu_seconds(others)
    starter = [sys.executable, "-I", "-S", "-c", STARTER, *command]
    with (
        subprocess.Popen(starter, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        MemorySampler(process.pid, others) as memory,
    ):
        output, errors = process.communicate()
    used = json.loads(output)
    if used["code"] not in ((0, DIFFERENT) if differs else (0,)):
        return errors.decode(errors="replace").strip().partition("\n")[0] or f"exit code {used['code']}"
    cpu = used["cpu"] + cpu_seconds(others) - before
    return Sample(used["wall"], cpu, used["largest"], max(memory.peak, used["largest"]))


class MemorySampler:
    """Samples the memory of all processes that a process started, shared pages counted once, in a thread.

    Args:
        parent: the process; it is not counted.
        others: further processes that are counted.

    Attributes:
        peak: the largest sum in MB.
    """

    def __init__(self, parent: int, others: Sequence[int]) -> None:
        self.peak = 0.0
        self._parent = parent
        self._others = others
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        pause = 0.02
        while not self._done.wait(pause):
            start = time.perf_counter()
            pids = [
                *descendants(self._parent),
                *(pid for other in self._others for pid in (other, *descendants(other))),
            ]
            self.peak = max(self.peak, sum(map(proportional_memory, pids)))
            pause = max(0.05, 20 * (time.perf_counter() - start))  # at most a twentieth of one core


def descendants(pid: int) -> Iterator[int]:
    """Yields the processes that a process started, and those that these did."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                yield child
                yield from descendants(child)


def proportional_memory(pid: int) -> float:
    """Returns the memory of a process in MB, in which a page that n processes share counts as an n-th."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pids: Sequence[int]) -> float:
    """Returns the CPU seconds that processes used so far, without those that they started."""
    ticks = 0
    for pid in pids:
        values = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def tool(name: str) -> str:
    """Returns the path of a program in this Python environment, or on the PATH."""
    path = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if path is None:
        raise SystemExit(f"error: {name} is not installed")
    return path


def commit() -> str:
    """Returns the commit of the measured package, with `-dirty` if files were changed since."""
    package = importlib.util.find_spec("cacheunit_build")
    folder = str(Path(package.origin or "").parent) if package else "."
    describe = [tool("git"), "-C", folder, "describe", "--always", "--dirty"]
    return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


# Columns


def measure_one(bench: Bench, case: Case, project: Project) -> None:
    """Measures cold builds with one job."""
    measure_cold(bench, case, project, "one", "--jobs", "1")


def measure_two(bench: Bench, case: Case, project: Project) -> None:
    """Measures cold builds with two jobs."""
    measure_cold(bench, case, project, "two", "--jobs", str(WORKERS))


def measure_cluster(bench: Bench, case: Case, project: Project) -> None:
    """Measures cold builds on a cluster of two worker processes on this machine."""
    if bench.cluster:
        measure_cold(bench, case, project, "cluster", "--scheduler", bench.cluster[0])


def measure_cold(bench: Bench, case: Case, project: Project, kind: str, *options: str) -> None:
    """Measures cold builds with some options."""

    def run() -> Sample | None:
        project.remove_outputs()
        return bench.sample(case, kind, project, "build", *options)

    bench.repeat(run)


def measure_remote(bench: Bench, case: Case, project: Project) -> None:
    """Measures a build that fills a shared cache, and builds of others that read it."""
    if not bench.nginx:
        return
    with served_cache(bench.nginx, project.root.parent / "remote") as url:
        project.remove_outputs()
        bench.sample(case, "fill", project, "build", **{REMOTE: url, WRITE: "1"})

        def run() -> Sample | None:
            project.remove_outputs()
            return bench.sample(case, "remote", project, "build", **{REMOTE: url})

        bench.repeat(run)


def measure_no_op(bench: Bench, case: Case, project: Project) -> None:
    """Measures builds with nothing to do."""
    ensure_built(bench, project)
    bench.repeat(lambda: bench.sample(case, "no-op", project, "build"))


def measure_check(bench: Bench, case: Case, project: Project) -> None:
    """Measures checks that find no difference."""
    ensure_built(bench, project)
    bench.repeat(lambda: bench.sample(case, "check", project, "check"))


def measure_edit(bench: Bench, case: Case, project: Project) -> None:
    """Measures builds after an edit of one text."""
    ensure_built(bench, project)

    def run() -> Sample | None:
        bench.edit(project)
        return bench.sample(case, "edit", project, "build")

    bench.repeat(run)


def measure_diff(bench: Bench, case: Case, project: Project) -> None:
    """Measures comparisons with the lock before one text was edited."""
    ensure_built(bench, project)
    old = project.root.parent / "before.lock"
    shutil.copyfile(project.lock, old)
    bench.edit(project)
    bench.repeat(lambda: bench.sample(case, "diff", project, "diff", "--against", str(old)))


def measure_git_diff(bench: Bench, case: Case, project: Project) -> None:
    """Measures comparisons with the last commit, in which all files are, after one text was edited."""
    ensure_built(bench, project)
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0")
    for arguments in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "all")):
        subprocess.run([tool("git"), "-C", str(project.root), *arguments], check=True)
    case.sizes["git"] = sum(path.stat().st_size for path in (project.root / ".git").rglob("*") if path.is_file())
    bench.edit(project)
    bench.repeat(lambda: bench.sample(case, "diff-git", project, "diff", "--against", "HEAD"))


def ensure_built(bench: Bench, project: Project) -> None:
    """Builds a project here, twice, since files that were just written are read again by the next run."""
    environment = {**os.environ, CACHE: str(project.cache)}
    options = ("--no-remote",) if has_option("--no-remote") else ()
    for _ in range(2):
        subprocess.run(bench.command(project, "build", *options), env=environment, capture_output=True, check=False)


COLUMNS: dict[str, Callable[[Bench, Case, Project], None]] = {
    "one": measure_one,
    "two": measure_two,
    "cluster": measure_cluster,
    "remote": measure_remote,
    "no-op": measure_no_op,
    "check": measure_check,
    "edit": measure_edit,
    "diff": measure_diff,
    "diff-git": measure_git_diff,
}
COLD = ("one", "two", "cluster", "remote")
TITLES = {
    "one": "1 job",
    "two": "2 jobs",
    "cluster": "cluster, 2 workers",
    "fill": "filling a remote",
    "remote": "warm remote",
    "no-op": "no-op build",
    "check": "check",
    "edit": "1 text edited",
    "diff": "diff with a lock",
    "diff-git": "diff with HEAD",
}


def measure_cases(arguments: argparse.Namespace, texts: Sequence[str]) -> Iterator[Case]:
    """Yields what was measured of each project; those that would take too long are left out, and named."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(local_cluster()) if "cluster" in arguments.columns and has_cluster() else None
        nginx = (str(arguments.nginx or "") or shutil.which("nginx")) if has_option("--no-remote") else None
        for name, there in (("cluster", cluster), ("remote", nginx)):
            if name in arguments.columns and not there:
                note(f"column {name} is left out: it is not possible with this version, or here")
        bench = Bench(arguments, cluster, nginx)
        per_artifact = 0.0
        for targets in sorted(arguments.targets):
            for prefixes in sorted(arguments.sizes):
                case = Case(prefixes, targets)
                expected = per_artifact * case.artifacts * sum(name in COLD for name in arguments.columns)
                if expected > arguments.limit:
                    note(
                        f"{prefixes:,} prefixes × {targets} are left out: some {expected:,.0f} CPU seconds are expected"
                    )
                    continue
                measure_case(bench, case, texts)
                seconds = [case.median(kind, "cpu") or 0.0 for kind in COLD]
                per_artifact = max(seconds) / max(case.artifacts, FEW)
                yield case


def measure_case(bench: Bench, case: Case, texts: Sequence[str]) -> None:
    """Creates a project, and measures each column of it."""
    with tempfile.TemporaryDirectory(dir=bench.arguments.folder) as folder:
        project = make_project(Path(folder).resolve(), case.prefixes, case.targets, texts)
        locks = set()
        for name, measure in COLUMNS.items():  # the cold ones first, since later ones edit a text
            if name in bench.arguments.columns:
                measure(bench, case, project)
                if project.lock.exists() and name in COLD:
                    case.sizes = case.sizes or output_sizes(project)
                    locks.add(hashlib.sha256(project.lock.read_bytes()).hexdigest())
                    if len(locks) > 1:
                        case.faults[name] = "the lock differs from that of another way to build"
        note(f"{case.prefixes:,} prefixes × {case.targets}: {case.faults or 'measured'}")


def note(text: str) -> None:
    """Prints a remark on progress."""
    print(text, file=sys.stderr, flush=True)


# Clusters and shared caches


def has_option(option: str) -> bool:
    """Returns whether `cacheunit build` has an option."""
    return option in subprocess.run([tool("cacheunit"), "build", "--help"], capture_output=True, text=True).stdout  # noqa: PLW1510 - no help, no option


def has_cluster() -> bool:
    """Returns whether builds on a cluster are possible."""
    return importlib.util.find_spec("distributed") is not None and has_option("--scheduler")


@contextlib.contextmanager
def local_cluster() -> Iterator[tuple[str, Sequence[int]]]:
    """Starts a scheduler of dask and two worker processes without a shared folder; yields its address and them."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m"]
    scheduler = [*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [*dask, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(1 + WORKERS)]
        commands = [scheduler, *([*worker, "--local-directory", folder] for folder in folders[1:])]
        pids = [
            stack.enter_context(background(command, Path(folder)))
            for command, folder in zip(commands, folders, strict=True)
        ]
        wait = f"from distributed import Client; Client({address!r}).wait_for_workers({WORKERS}, timeout=60)"
        subprocess.run([sys.executable, "-c", wait], check=True, capture_output=True)
        yield address, pids


@contextlib.contextmanager
def served_cache(nginx: str, folder: Path) -> Iterator[str]:
    """Serves an empty folder by nginx with WebDAV; yields its URL."""
    (folder / "files").mkdir(parents=True)
    port = free_port()
    user = "user root;\n" if os.geteuid() == 0 else ""  # the workers of root's nginx could not write here otherwise
    write(folder / "nginx.conf", NGINX.format(folder=folder, port=port, user=user))
    with background([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")], folder):
        deadline = time.monotonic() + 10
        while not is_listening(port):
            if time.monotonic() > deadline:
                raise SystemExit(f"error: nginx does not start: {(folder / 'error.log').read_text(encoding='utf-8')}")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    shutil.rmtree(folder)


@contextlib.contextmanager
def background(command: Sequence[str], folder: Path) -> Iterator[int]:
    """Runs a program in a folder, with a cache of its own, as long as needed; yields its process id."""
    environment = {**os.environ, "PYTHONPATH": absolute_python_path(), CACHE: str(folder / "cache")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def absolute_python_path() -> str:
    """Returns the Python path of this process for processes in other folders."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(str(Path(part).resolve()) for part in parts if part)


def free_port() -> int:
    """Returns a port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_listening(port: int) -> bool:
    """Returns whether a program of this machine listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


# Tables


def time_table(cases: Sequence[Case]) -> Iterator[str]:
    """Yields a table of seconds."""

    def cell(case: Case, kind: str) -> str:
        wall, cpu = case.median(kind, "wall"), case.median(kind, "cpu")
        return case.faults.get(kind, "") and "failed" if wall is None else f"{wall:,.2f} ({cpu:,.2f})"

    yield "Seconds, and CPU seconds in brackets:\n"
    yield from kind_table(cases, cell)


def memory_table(cases: Sequence[Case]) -> Iterator[str]:
    """Yields a table of peak memory."""

    def cell(case: Case, kind: str) -> str:
        together, largest = case.median(kind, "together"), case.median(kind, "largest")
        return "" if together is None else f"{together:,.0f} ({largest:,.0f})"

    yield "Peak memory of all processes together in MB, and of the largest one in brackets:\n"
    yield from kind_table(cases, cell)


def kind_table(cases: Sequence[Case], cell: Callable[[Case, str], str]) -> Iterator[str]:
    """Yields a table with a row for each case and a column for each kind of run that any case has."""
    kinds = [kind for kind in TITLES if any(kind in case.samples or kind in case.faults for case in cases)]
    yield f"| prefixes | targets | {' | '.join(TITLES[kind] for kind in kinds)} |"
    yield f"| ---: | ---: |{' ---: |' * len(kinds)}"
    for case in cases:
        yield f"| {case.prefixes:,} | {case.targets} | {' | '.join(cell(case, kind) for kind in kinds)} |"


def size_table(cases: Sequence[Case]) -> Iterator[str]:
    """Yields a table of the sizes of outputs."""
    sizes = ["lock", "lock compressed", "build", "build on disk", "record", "stamp", "reports"]
    sizes += ["git"] * any("git" in case.sizes for case in cases)
    yield "Sizes in MB (1,000,000 bytes), except where the title says so:\n"
    counts = ("lock lines", "build files", "build folders")
    yield f"| prefixes | targets | lock, bytes an artifact | {' | '.join((*sizes, *counts))} |"
    yield f"| ---: | ---: | ---: |{' ---: |' * (len(sizes) + len(counts))}"
    for case in cases:
        if case.sizes:
            each = f"{case.sizes['lock'] / case.artifacts:,.0f}"
            cells = [f"{case.sizes[size] / 1_000_000:,.2f}" if size in case.sizes else "" for size in sizes]
            cells += [f"{case.sizes[count]:,}" for count in counts]
            yield f"| {case.prefixes:,} | {case.targets} | {each} | {' | '.join(cells)} |"


def growth_table(cases: Sequence[Case]) -> Iterator[str]:
    """Yields a table of growth: the power of the number of prefixes with which time and memory grow."""
    kinds = [kind for kind in TITLES if any(kind in case.samples for case in cases)]
    yield "Growth, as the power of the number of prefixes: of CPU seconds, and of memory in brackets:\n"
    yield f"| from | to | targets | {' | '.join(TITLES[kind] for kind in kinds)} |"
    yield f"| ---: | ---: | ---: |{' ---: |' * len(kinds)}"
    for one, other in pairwise(cases):
        if one.targets == other.targets:
            cells = (
                " ".join(
                    filter(None, (exponent(one, other, kind, "cpu"), exponent(one, other, kind, "together", "({})")))
                )
                for kind in kinds
            )
            yield f"| {one.prefixes:,} | {other.prefixes:,} | {one.targets} | {' | '.join(cells)} |"


def exponent(one: Case, other: Case, kind: str, value: str, style: str = "{}") -> str:
    """Returns the power with which a value grows from one case to another; nothing where one has none."""
    first, last = one.median(kind, value), other.median(kind, value)
    if not first or not last:
        return ""
    return style.format(f"{math.log(last / first) / math.log(other.prefixes / one.prefixes):.2f}")


if __name__ == "__main__":
    sys.exit(main())
