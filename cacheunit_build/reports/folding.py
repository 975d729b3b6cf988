"""Folds artifacts to few rows: variants of a prefix, targets and folders are counted, and their numbers are ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import first_names
from cacheunit_build.domain.file_names import readable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey

MOST_ROWS = 20
"""The most rows of a table that is not asked for in full."""

_NUMBER = re.compile(r"\d[\d,]*")
_MOST_TARGETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Artifacts that are shown in one row.

    Attributes:
        name: the folded names of their prefixes.
        target: the folded names of their targets.
        keys: the artifacts.
    """

    name: str
    target: str
    keys: tuple[ArtifactKey, ...]


def fold_names(prefixes: Iterable[str]) -> str:
    """Returns the names of prefixes in one line: at most eight, with several variants of one prefix counted.

    a, b@x, b@y, a, c@z -> a, b ×2, c@z
    """
    variants: dict[str, dict[str, None]] = {}
    for prefix in prefixes:
        variants.setdefault(prefix.partition("@")[0], {})[prefix] = None
    names = [
        readable_name(next(iter(own))) if len(own) == 1 else f"{readable_name(name)} ×{len(own):,}"
        for name, own in variants.items()
    ]
    return first_names(names)


def fold_targets(targets: Iterable[str]) -> str:
    """Returns the names of targets in one line: `deepseek-v4`, `a, b`, `3 targets`."""
    names = list(dict.fromkeys(targets))
    return ", ".join(names) if len(names) <= _MOST_TARGETS else f"{len(names):,} targets"


def number_range(values: Iterable[int | None], *, estimated: bool = False) -> str:
    """Returns the least and the greatest of some numbers: `1,024`, `~1,024…1,408`; a question mark for unknown ones.

    Args:
        values: the numbers; None for an unknown one.
        estimated: whether one of them is an estimate.
    """
    numbers = list(values)
    known = sorted({value for value in numbers if value is not None})
    if not known:
        return "?" if numbers else ""
    sign = "~" if estimated else ""
    shown = f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}…{known[-1]:,}"
    return f"{sign}{shown}" + (" or ?" if None in numbers else "")


def fold(keys: Iterable[ArtifactKey], most: int = MOST_ROWS) -> list[Group]:
    """Returns artifacts in groups of one row each: as few as fit in `most` rows, in the order of the artifacts.

    The variants of a prefix for a target are one row. Where that is too much, all targets of a prefix are one row, then
    all prefixes of a folder, then everything.
    """
    everything = tuple(keys)
    groups: list[Group] = []
    for level in _LEVELS:
        groups = _grouped(everything, level)
        if len(groups) <= most:
            break
    return groups


def fold_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Returns one fault for each cause: the first of those that differ only in the artifact.

    Of one prefix, they may differ in numbers too; of several, also in their place.

    Its message says which others have it too: `… over the budget of 400 (and 5 more like it: support/agent ×5)`.
    """
    causes: dict[object, list[Fault]] = {}
    for index, fault in enumerate(faults):
        key: object = index
        if fault.artifact is not None:
            prefix, target = fault.artifact
            rest = fault.message.partition(f" for {target}: ")[2]
            own = fault.path, fault.line, prefix.partition("@")[0], _NUMBER.sub("0", rest)
            key = fault.hint, own if _NUMBER.search(rest) else rest
        causes.setdefault(key, []).append(fault)
    return [_with_others(first, others) for first, *others in causes.values()]


def _with_others(fault: Fault, others: Sequence[Fault]) -> Fault:
    """Returns a fault whose message tells of others with its cause."""
    if not others:
        return fault
    keys = [other.artifact for other in others if other.artifact is not None]
    names = f"{fold_names(prefix for prefix, _ in keys)} for {fold_targets(target for _, target in keys)}"
    return replace(fault, message=f"{fault.message} (and {len(others):,} more like it: {names})")


def _variants(key: ArtifactKey) -> tuple[str, ...]:
    return key[0].partition("@")[0], key[1]


def _targets(key: ArtifactKey) -> tuple[str, ...]:
    return (key[0].partition("@")[0],)


def _folder(key: ArtifactKey) -> tuple[str, ...]:
    return (key[0].partition("@")[0].rpartition("/")[0],)


def _top_folder(key: ArtifactKey) -> tuple[str, ...]:
    name = key[0].partition("@")[0]
    return (name.partition("/")[0] if "/" in name else "",)


def _all(_: ArtifactKey) -> tuple[str, ...]:
    return ()


_LEVELS: tuple[Callable[[ArtifactKey], tuple[str, ...]], ...] = (_variants, _targets, _folder, _top_folder, _all)


def _grouped(keys: Sequence[ArtifactKey], group_of: Callable[[ArtifactKey], tuple[str, ...]]) -> list[Group]:
    groups: dict[tuple[str, ...], list[ArtifactKey]] = {}
    for key in keys:
        groups.setdefault(group_of(key), []).append(key)
    return [
        Group(name=_group_name(members), target=fold_targets(target for _, target in members), keys=tuple(members))
        for members in groups.values()
    ]


def _group_name(keys: Sequence[ArtifactKey]) -> str:
    """Returns the name of a group: of its only prefix, or its folder with the number of prefixes."""
    prefixes = list(dict.fromkeys(name.partition("@")[0] for name, _ in keys))
    if len(prefixes) == 1:
        return fold_names(name for name, _ in keys)
    folders = {prefix.rpartition("/")[0] for prefix in prefixes}
    shared = _shared_folder(folders)
    count = f"{len(prefixes):,} prefixes"
    return f"{shared}/ ({count})" if shared else count


def _shared_folder(folders: Iterable[str]) -> str:
    """Returns the deepest folder around some folders; an empty text where they share none."""
    parts = [folder.split("/") for folder in folders]
    shared = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return "/".join(shared)
