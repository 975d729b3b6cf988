"""Compares what `cacheunit diff` says stays cached after an edit with what the simulation serves."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from marker_families import FAMILIES, Corpus, Family, file_name, raw, write
from marker_simulation import Cache, Prefix, Request, read_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from marker_simulation import Rules

    Count = Callable[[str], int]
    Run = Callable[..., str]
    Edit = Callable[[Path, Family, Corpus], None]

EDITED = ("head-500", "head-1200", "head-5000, ttl shared 1h", "tools-few", "long-tail", "26-blocks-behind", "agent")
SMALL = tuple(replace(family, axes=dict.fromkeys(family.axes, 2)) for family in FAMILIES if family.name in EDITED)
"""The families that are edited, with two values an axis."""
MANY = 22
"""More blocks than are searched backwards from a marker."""


def check_diff(root: Path, rules: Mapping[str, Rules], corpus: Corpus, run: Run, count: Count) -> list[str]:
    """Prints a row for each edit; returns where the two differ."""
    old = Side.read(root, count)
    print("\n| edit | artifacts that change | still cached, all tokens | nothing | unknown | diff agrees |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    faults: list[str] = []
    for label, edit in EDITS.items():
        copy = root.parent / "edited"
        shutil.copytree(root, copy)
        for family in SMALL:
            edit(copy, family, corpus)
        changes = json.loads(run(copy, "diff", "--against", str(root), "--format", "json", codes=(0, 1)))["changes"]
        run(copy, "build")
        new = Side.read(copy, count)
        results = [result for change in changes for result in compare(change, old, new, rules)]
        shutil.rmtree(copy)
        faults += [f"{label}: {result.fault}" for result in results if result.fault]
        known = [result for result in results if result.known]
        right = sum(not result.fault for result in known)
        cells = [
            f"{len(results)}",
            f"{sum(result.served for result in known):,}",
            f"{sum(not result.served for result in known)}",
            f"{len(results) - len(known)}",
            f"{right} of {len(known)}",
        ]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One version of a project.

    Attributes:
        prefixes: the artifacts as blocks, by name and target.
        tokens: the tokens that the lock has for each marker of these.
    """

    prefixes: Mapping[tuple[str, str], Prefix]
    tokens: Mapping[tuple[str, str], Sequence[int]]

    @classmethod
    def read(cls, root: Path, count: Count) -> Side:
        """Reads lock and artifacts."""
        lock = json.loads((root / "cacheunit.lock").read_bytes())["prefixes"]
        keys = [(name, target) for name, entries in lock.items() for target in entries]
        return cls(
            prefixes={
                (name, target): read_fragment(name, (root / "build" / name / f"{target}.json").read_bytes(), count)
                for name, target in keys
            },
            tokens={(name, target): lock[name][target].get("markers", ()) for name, target in keys},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the simulation serves of a changed artifact, and the difference to `diff`, if there is one."""

    served: int
    known: bool
    fault: str = ""


def compare(change: Mapping[str, Any], old: Side, new: Side, rules: Mapping[str, Rules]) -> Iterator[Result]:
    """Yields the result of one change: the cache holds the old version, or all old artifacts where it was added."""
    key = str(change["prefix"]), str(change["target"])
    if key not in new.prefixes:
        return
    olds = [key] if key in old.prefixes else [other for other in old.prefixes if other[1] == key[1]]
    served = max(served_by(old, other, new.prefixes[key], rules[key[1]]) for other in olds)
    stated = change["still_cached"]
    if stated is None:
        yield Result(served=served, known=False)
        return
    fault = f"{key[0]} for {key[1]}: diff says {stated}, the simulation serves {served}" if stated != served else ""
    yield Result(served=served, known=True, fault=fault)


def served_by(old: Side, key: tuple[str, str], new: Prefix, rules: Rules) -> int:
    """Returns the tokens, as counted by the lock, that a cache with one old artifact serves of a new one."""
    prefix, cache = old.prefixes[key], Cache(rules)
    cache.send(Request(prefix=prefix, at=0.0, conversation=0, messages=(50,)))
    _, found = cache.send(Request(prefix=new, at=10.0, conversation=1, messages=(50,)))
    return dict(zip(prefix.markers, old.tokens[key], strict=True))[found] if found else 0


# Edits


def edit_axis(root: Path, family: Family, _: Corpus) -> None:
    """Changes the text of the first value of the last axis."""
    axis = [part for part in family.system if isinstance(part, str)][-1]
    change_text(root / "templates" / file_name(family) / f"{axis}-v0.j2")


def edit_behind(root: Path, family: Family, _: Corpus) -> None:
    """Changes the last template."""
    folder, last = root / "templates" / file_name(family), len(family.system) - 1
    if isinstance(family.system[last], int):
        change_text(folder / f"{last}.j2")
    else:
        write(folder / f"{last}.j2", "And more.\n" + (folder / f"{last}.j2").read_text(encoding="utf-8"))


def edit_head(root: Path, family: Family, _: Corpus) -> None:
    """Changes the first template that all variants share."""
    first = next(index for index, part in enumerate(family.system) if isinstance(part, int))
    change_text(root / "templates" / file_name(family) / f"{first}.j2")


def edit_tool(root: Path, family: Family, _: Corpus) -> None:
    """Changes the description of the last tool."""
    if family.tools:
        path = root / "tools" / file_name(family) / f"{family.tools - 1:02}.json"
        tool = json.loads(path.read_bytes())
        write(path, json.dumps(tool | {"description": "Careful. " + tool["description"]}))


def one_tool_more(root: Path, family: Family, corpus: Corpus) -> None:
    """Adds a tool behind the others, where there are any."""
    add_tools(root, family, corpus, 1)


def many_tools_more(root: Path, family: Family, corpus: Corpus) -> None:
    """Adds so many tools that the old end of the tools is not searched any more."""
    add_tools(root, family, corpus, MANY)


def add_tools(root: Path, family: Family, corpus: Corpus, number: int) -> None:
    """Adds tools behind the others, where there are any."""
    if not family.tools:
        return
    name, manifest = file_name(family), Manifest(root, family)
    added = [f"tools/{name}/x{index:02}.json" for index in range(number)]
    for path, tool in zip(added, corpus.tools[family.tools :], strict=False):
        write(root / path, tool)
    manifest.change("tools", lambda tools: [*tools, *added])


def one_block_more(root: Path, family: Family, _: Corpus) -> None:
    """Appends a block to the system text."""
    insert(root, family, 1, len(family.system))


def many_blocks_more(root: Path, family: Family, _: Corpus) -> None:
    """Appends so many blocks that the old end is not searched any more."""
    insert(root, family, MANY, len(family.system))


def nineteen_blocks_more(root: Path, family: Family, _: Corpus) -> None:
    """Appends as many blocks as leave the old end the last one that is searched."""
    insert(root, family, 19, len(family.system))


def twenty_blocks_more(root: Path, family: Family, _: Corpus) -> None:
    """Appends one block more than that."""
    insert(root, family, 20, len(family.system))


def blocks_in_front_of_axis(root: Path, family: Family, _: Corpus) -> None:
    """Inserts many blocks in front of the first text of an axis: the shared part grows."""
    insert(root, family, MANY, next(i for i, part in enumerate(family.system) if isinstance(part, str)))


def examples(root: Path, family: Family, _: Corpus) -> None:
    """Adds worked examples."""
    turns = [{"role": "user", "text": "Hello there"}, {"role": "assistant", "text": "Hello. What is it about?"}]
    path = root / "prefixes" / f"{file_name(family)}.yaml"
    write(path, path.read_text(encoding="utf-8") + f"\nexamples: {json.dumps(turns)}\n")


def split_head(root: Path, family: Family, _: Corpus) -> None:
    """Splits the first shared template into two, without another change of the text."""
    name = file_name(family)
    first = next(index for index, part in enumerate(family.system) if isinstance(part, int))
    path = root / "templates" / name / f"{first}.j2"
    text = re.sub(r"\{% (end)?raw %\}", "", path.read_text(encoding="utf-8"))
    middle = text.index("\n\n", len(text) // 3)
    write(path, raw(text[:middle]))
    write(root / "templates" / name / "second.j2", raw(text[middle + 2 :]))
    Manifest(root, family).change(
        "system", lambda items: [*items[: first + 1], f"{name}/second.j2", *items[first + 1 :]]
    )


def value_more(root: Path, family: Family, _: Corpus) -> None:
    """Adds a value to the last axis."""
    axis = [part for part in family.system if isinstance(part, str)][-1]
    write(root / "templates" / file_name(family) / f"{axis}-new.j2", "Something else entirely.\n" * 9)
    Manifest(root, family).change("matrix", lambda matrix: matrix | {axis: [*matrix[axis], "new"]})


def manifest_more(root: Path, family: Family, _: Corpus) -> None:
    """Adds a manifest with the same start."""
    name = file_name(family)
    write(root / "templates/rest.j2", "Something else entirely.\n" * 9)
    shutil.copy(root / f"prefixes/{name}.yaml", root / f"prefixes/{name}-new.yaml")
    Manifest(root, family, "-new").change("system", lambda items: [*items, "rest.j2"])


def renamed_manifest(root: Path, family: Family, _: Corpus) -> None:
    """Renames a manifest."""
    name = file_name(family)
    (root / f"prefixes/{name}.yaml").rename(root / f"prefixes/{name}-new.yaml")


EDITS: dict[str, Edit] = {
    "the text of one axis value": edit_axis,
    "the text behind the axes": edit_behind,
    "the shared text": edit_head,
    "the last tool": edit_tool,
    "a tool more": one_tool_more,
    "22 tools more": many_tools_more,
    "a block more at the end": one_block_more,
    "19 blocks more at the end": nineteen_blocks_more,
    "20 blocks more at the end": twenty_blocks_more,
    "22 blocks more at the end": many_blocks_more,
    "22 blocks more in front of the axes": blocks_in_front_of_axis,
    "examples": examples,
    "the shared text in two blocks": split_head,
    "a value of an axis more": value_more,
    "a manifest with the same start": manifest_more,
    "another name of the manifest": renamed_manifest,
}


def insert(root: Path, family: Family, number: int, index: int) -> None:
    """Inserts short templates into the list of a manifest."""
    name = file_name(family)
    added = [f"{name}/more-{item}.j2" for item in range(number)]
    for item, path in enumerate(added):
        write(root / "templates" / path, f"Rule {item}: ask before you delete anything, and say what you did.\n")
    Manifest(root, family).change("system", lambda items: [*items[:index], *added, *items[index:]])


def change_text(path: Path) -> None:
    """Adds a sentence in front of a text."""
    write(path, "Read this first. " + path.read_text(encoding="utf-8"))


class Manifest:
    """The manifest of a family, whose values are JSON on one line each."""

    def __init__(self, root: Path, family: Family, suffix: str = "") -> None:
        self._path = root / "prefixes" / f"{file_name(family)}{suffix}.yaml"

    def change(self, key: str, new: Callable[[Any], Any]) -> None:
        """Replaces the value of a key."""
        lines = self._path.read_text(encoding="utf-8").split("\n")
        for index, line in enumerate(lines):
            if line.startswith(f"{key}: "):
                lines[index] = f"{key}: {json.dumps(new(json.loads(line.removeprefix(f'{key}: '))))}"
        write(self._path, "\n".join(lines))
