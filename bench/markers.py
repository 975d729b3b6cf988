"""Compares the cache markers that `cacheunit` places with one marker at the end, and with the best places.

Usage: python bench/markers.py [CORPUS] [--tokens FACTOR] [--refresh-inner] [--only savings|edits] [--json FILE]

Exit codes: 0 no family costs more than with one marker, and `diff` agrees with the simulation; 1 otherwise; 2 the
corpus does not exist.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from marker_edits import SMALL, check_diff
from marker_families import FAMILIES, TARGETS, Corpus, Family, file_name, reference_count, write_family
from marker_simulation import ANTHROPIC, OPENAI, Prefix, Request, Rules, Usage, read_fragment, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Count = Callable[[str], int]

ROOT = Path(__file__).resolve().parent.parent
RULES = {"anthropic-1024": ANTHROPIC, "openai": OPENAI}
GAPS = {"20 s": 20.0, "2 min": 120.0, "10 min": 600.0}
"""The seconds between the beginnings of two conversations."""
DETAILS = {"anthropic-1024": "2 min", "openai": "10 min"}
"""The gap whose numbers are printed in full."""
TURN_GAP = 40.0
TURNS = (60, 250, 40, 250, 40)
"""The tokens of the messages of a conversation: user, assistant, user, assistant, user."""
CONVERSATIONS = 48
SEED = 13
MOST_MARKERS = 3
MOST_PLACES = 12
"""Of more blocks than these, only the last of those that the same variants share is tried."""
ROUNDING = 1e-6
OWN = "support/agent"


def main() -> int:
    """Builds the families, replays the traffic, checks `diff`; returns the exit code."""
    arguments = parse_arguments()
    if not (arguments.corpus / "prompts").is_dir():
        print(f"error: no folder prompts in {arguments.corpus}", file=sys.stderr)
        return 2
    plain = reference_count()
    rules = {name: replace(rule, refresh_inner=arguments.refresh_inner) for name, rule in RULES.items()}
    corpus = Corpus(arguments.corpus, plain)
    results: list[Result] = []
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        root, edited = Path(folder) / "project", Path(folder) / "edits/project"
        if arguments.only != "edits":
            make_project(root, corpus, FAMILIES, own=True)
            results += compare(root, rules, lambda text: round(arguments.tokens * plain(text)))
            faults += [f"{item.name} for {item.target}, {item.gap}: costs more" for item in results if item.loses]
        if arguments.only != "savings":
            make_project(edited, corpus, SMALL)
            faults += check_diff(edited, rules, corpus, run, plain)
    for fault in faults:
        print(f"FAILED {fault}")
    if arguments.json:
        rows = json.dumps([asdict(item) for item in results], indent=2)
        arguments.json.write_text(f"{rows}\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


def parse_arguments() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(description="What several cache markers save.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus")
    parser.add_argument("--tokens", type=float, default=1.0, metavar="FACTOR", help="tokens for each of the estimate")
    parser.add_argument("--refresh-inner", action="store_true", help="a use keeps shorter entries inside alive too")
    parser.add_argument("--only", choices=("savings", "edits"), help="only one of the two parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    return parser.parse_args()


# Building


def make_project(root: Path, corpus: Corpus, families: Sequence[Family], *, own: bool = False) -> None:
    """Creates and builds a project of families, and of this repository's prefix with variants."""
    for family in families:
        write_family(root, family, corpus)
    if own:
        shutil.copytree(ROOT / "templates", root / "templates", dirs_exist_ok=True)
        manifest = (ROOT / f"prefixes/{OWN}.yaml").read_text(encoding="utf-8")
        path = root / f"prefixes/{OWN}.yaml"
        path.parent.mkdir()
        path.write_text(f"targets: {json.dumps(TARGETS)}\n{manifest}", encoding="utf-8")
    (root / "cacheunit.toml").touch()
    run(root, "build")


def run(root: Path, *arguments: str, codes: Sequence[int] = (0,)) -> str:
    """Runs the program; returns what it prints.

    Raises:
        RuntimeError: it has another exit code.
    """
    cache = {"CACHEUNIT_CACHE_DIR": str(root.parent / "cache")}
    command = [sys.executable, "-m", "cacheunit_build", "-C", str(root), "-q", *arguments]
    result = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **cache})
    if result.returncode not in codes:
        raise RuntimeError(f"{arguments[0]} exits {result.returncode}: {result.stderr.decode()}")
    return result.stdout.decode()


def read_prefixes(root: Path, name: str, target: str, count: Count) -> list[Prefix]:
    """Returns the variants of a manifest for a target; none where it is not built for that."""
    files = sorted((root / "build" / name).parent.glob(f"{Path(name).name}@*/{target}.json"))
    return [read_fragment(file.parent.name, file.read_bytes(), count) for file in files]


# Traffic


def traffic(prefixes: Sequence[Prefix], gap: float, *, shuffled: bool) -> list[Request]:
    """Returns the requests of conversations with the variants, in rounds or in a random order, by time."""
    order = [index % len(prefixes) for index in range(max(CONVERSATIONS, 2 * len(prefixes)))]
    if shuffled:
        random.Random(SEED).shuffle(order)  # noqa: S311 - not for secrets
    requests = [
        Request(
            prefix=prefixes[variant],
            at=number * gap + turn * TURN_GAP,
            conversation=number,
            messages=TURNS[: 2 * turn + 1],
        )
        for number, variant in enumerate(order)
        for turn in range(len(TURNS) // 2 + 1)
    ]
    return sorted(requests, key=lambda request: (request.at, request.conversation))


def with_places(requests: Sequence[Request], ends: Callable[[Prefix], Sequence[int]]) -> list[Request]:
    """Returns requests whose prefixes have markers behind those blocks."""
    prefixes = {request.prefix.name: request.prefix for request in requests}
    marked = {name: prefix.with_markers(ends(prefix)) for name, prefix in prefixes.items()}
    return [replace(request, prefix=marked[request.prefix.name]) for request in requests]


def places(prefixes: Sequence[Prefix]) -> list[int]:
    """Returns behind which blocks a marker is tried.

    Of blocks that the same variants share, an entry behind the last one serves what one further in front serves.
    """
    most = min(len(prefix.blocks) for prefix in prefixes)
    ends = [end for end, can in enumerate(prefixes[0].markable[:most], 1) if can]
    if len(ends) <= MOST_PLACES:
        return ends
    sharing = {end: len({prefix.blocks[:end] for prefix in prefixes}) for end in ends}
    return [end for end in ends if sharing.get(end + 1) != sharing[end]]


def best(rules: Rules, requests: Sequence[Request], ends: Sequence[int]) -> tuple[float, tuple[int, ...]]:
    """Returns the least that any places of a few markers cost, and these."""
    tried = [chosen for number in range(MOST_MARKERS + 1) for chosen in itertools.combinations(ends, number)]
    costs = [(replay(rules, with_places(requests, lambda _, c=chosen: c)).cost, chosen) for chosen in tried]  # type: ignore[misc]
    return min(costs, key=lambda item: (round(item[0], 3), len(item[1])))


# Comparing


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What three placements cost for one family and gap, in both orders of requests together.

    Attributes:
        name: the family.
        target: the target.
        gap: the time between two conversations.
        variants: the number of variants.
        shared: the tokens that all variants begin with.
        static: the static tokens of the first variant.
        markers: behind which blocks the markers of the first variant stand.
        one: the numbers with only the last marker.
        ours: the numbers with all markers.
        best: the cost with the best places.
        best_markers: these places, for each order.
    """

    name: str
    target: str
    gap: str
    variants: int
    shared: int
    static: int
    markers: list[int]
    one: Usage
    ours: Usage
    best: float
    best_markers: list[tuple[int, ...]]

    @property
    def saved(self) -> float:
        """The share of the cost that the markers save."""
        return 1 - self.ours.cost / self.one.cost

    @property
    def most_saved(self) -> float:
        """The share of the cost that the best places save."""
        return 1 - self.best / self.one.cost

    @property
    def loses(self) -> bool:
        """Whether one marker costs less."""
        return self.saved < -ROUNDING


def compare(root: Path, rules: dict[str, Rules], count: Count) -> Iterator[Result]:
    """Yields the results of all families, and prints a table of each target."""
    for target in TARGETS:
        results: list[Result] = []
        for name in [OWN, *(file_name(family) for family in FAMILIES)]:
            prefixes = read_prefixes(root, name, target, count)
            results += [compare_one(name, prefixes, (target, rules[target]), gap) for gap in GAPS if prefixes]
        show(target, results)
        yield from results


def compare_one(name: str, prefixes: Sequence[Prefix], target: tuple[str, Rules], gap: str) -> Result:
    """Returns the numbers of the three placements for one gap, of both orders together."""
    ours, one, least = Usage(), Usage(), 0.0
    chosen: list[tuple[int, ...]] = []
    for shuffled in (False, True):
        requests = traffic(prefixes, GAPS[gap], shuffled=shuffled)
        ours.add(replay(target[1], requests))
        one.add(replay(target[1], with_places(requests, lambda prefix: list(prefix.markers)[-1:])))
        cost, ends = best(target[1], requests, places(prefixes))
        least += cost
        chosen.append(ends)
    shared = [len(set(blocks)) == 1 for blocks in zip(*(prefix.blocks for prefix in prefixes), strict=False)]
    return Result(
        name=name,
        target=target[0],
        gap=gap,
        variants=len(prefixes),
        shared=sum(prefixes[0].tokens[: shared.index(False)]),
        static=sum(prefixes[0].tokens),
        markers=list(prefixes[0].markers),
        one=one,
        ours=ours,
        best=least,
        best_markers=chosen,
    )


def show(target: str, results: Sequence[Result]) -> None:
    """Prints what is saved at each gap, then the tokens of one gap."""
    print(f"\n{target}: cost saved against one marker (by the best places)\n")
    print("| family | variants | shared tokens | static tokens | " + " | ".join(GAPS) + " |")
    print("| --- |" + " ---: |" * (3 + len(GAPS)))
    for name in dict.fromkeys(item.name for item in results):
        rows = [item for item in results if item.name == name]
        cells = [f"{item.saved:.1%} ({item.most_saved:.1%})" for item in rows]
        first = rows[0]
        print(f"| {name} | {first.variants} | {first.shared:,} | {first.static:,} | " + " | ".join(cells) + " |")
    print(f"\n{target}, {DETAILS[target]}: thousands of tokens, with one marker → with all; cost in uncached tokens\n")
    print("| family | requests | written | read | cost | cost, best places |")
    print("| --- |" + " ---: |" * 5)
    for item in results:
        if item.gap == DETAILS[target]:
            numbers = [(usage.written, usage.read, usage.cost) for usage in (item.one, item.ours)]
            cells = [f"{before / 1000:,.0f} → {after / 1000:,.0f}" for before, after in zip(*numbers, strict=True)]
            print(f"| {item.name} | {item.ours.requests} | {' | '.join(cells)} | {item.best / 1000:,.0f} |")
    uncached = sum(item.ours.uncached for item in results)
    print(
        f"\nUncached tokens of all families: {sum(item.one.uncached for item in results):,} → {uncached:,}", flush=True
    )


if __name__ == "__main__":
    sys.exit(main())
