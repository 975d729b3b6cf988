"""Resolves the names and targets of a selection to artifacts of a project; one that matches nothing is a fault."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.selection import (
    ANY_FOLDERS,
    NamePattern,
    SelectedArtifacts,
    axis_patterns,
    is_glob,
    is_path_match,
    literal_glob,
)
from cacheunit_build.targets.lookup import find_target, named_target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.target import Target


def select(
    selection: Selection, prefixes: Mapping[str, str], targets: Mapping[str, Target], folder: str
) -> SelectedArtifacts:
    """Returns what a selection selects.

    Args:
        selection: names and targets as typed.
        prefixes: the path of the manifest of each prefix, by name.
        targets: all targets, by name.
        folder: the folder of manifests.

    Raises:
        CacheunitError: every name that is no prefix and no folder of them, every target that is unknown, and every glob
            that matches none.
    """
    resolver = _NameResolver(prefixes, folder, f"under {folder}/")
    return _select(selection, resolver, lambda name: _targets_named(name, targets))


def select_from_history(
    selection: Selection, prefixes: Collection[str], used: Collection[str], targets: Mapping[str, Target]
) -> SelectedArtifacts:
    """Returns what a selection selects among artifacts that versions of the lock have.

    Args:
        selection: names and targets as typed.
        prefixes: the names of all prefixes.
        used: the names of their targets, of which the project may have lost some.
        targets: all known targets, by name, for the names of models.

    Raises:
        CacheunitError: as `select` does.
    """
    resolver = _NameResolver(prefixes, "", "in the history of the lock")
    return _select(selection, resolver, lambda name: _used_targets(name, used, targets))


def _select(
    selection: Selection, resolver: _NameResolver, targets_named: Callable[[str], frozenset[str]]
) -> SelectedArtifacts:
    """Returns what a selection selects, or raises with the faults of all its names and targets."""
    names = tuple(pattern for name in dict.fromkeys(selection.names) if (pattern := resolver.pattern(name)))
    faults = resolver.faults
    by_name: dict[str, frozenset[str]] = {}
    for name in selection.targets:
        try:
            by_name[name] = targets_named(name)
        except CacheunitError as error:
            faults += error.faults
    if faults:
        raise CacheunitError(*dict.fromkeys(faults))
    return SelectedArtifacts(names=names, targets=by_name)


def unmatched_faults(
    selected: SelectedArtifacts, variants: Collection[str], keys: Collection[ArtifactKey]
) -> Iterator[Fault]:
    """Yields a fault for each variant that does not exist, then for each target or name that selects no artifact.

    Args:
        selected: what is selected.
        variants: the names of all variants of the selected prefixes.
        keys: the selected artifacts.
    """
    absent = selected.unmatched_names(variants)
    names = sorted(readable_name(name) for name in variants if "@" in name) if absent else []
    for pattern in absent:
        yield _variant_fault(pattern, names)
    used = {target for _, target in keys}
    unused = [name for name, own in selected.targets.items() if not own & used]
    for target in unused:
        yield Fault(message=f'nothing is compiled for target "{target}"')
    if not unused:
        listed = " or ".join(f'"{target}"' for target in selected.targets)
        for pattern in selected.unmatched_names({prefix for prefix, _ in keys}):
            if pattern not in absent:
                yield Fault(message=f'nothing of "{pattern.name}" is compiled for target {listed}')


def _variant_fault(pattern: NamePattern, names: list[str]) -> Fault:
    """Returns the fault of a name that is no variant.

    Args:
        pattern: the name.
        names: the readable names of the variants that its prefixes have.
    """
    has_wildcards = pattern.is_glob or any(map(is_glob, pattern.axes or ()))
    message = f'no variant matches "{pattern.name}"' if has_wildcards else f'there is no variant "{pattern.name}"'
    if not names:
        return Fault(message=message, hint="the selected prefixes have no variants")
    hint = did_you_mean(readable_name(pattern.name), names) or f'a variant is named like "{names[0]}"'
    return Fault(message=message, hint=hint)


class _NameResolver:
    """Finds what each name stands for.

    Args:
        prefixes: the names of all prefixes.
        folder: the folder of manifests; empty where there is none.
        place: where a name was looked for, in messages.

    Attributes:
        faults: a fault for each name that stands for nothing.
    """

    def __init__(self, prefixes: Collection[str], folder: str, place: str) -> None:
        self.faults: list[Fault] = []
        self._place = place
        self._prefixes = prefixes
        self._folder = folder
        self._folders = frozenset(folders_of(prefixes))

    def pattern(self, name: str) -> NamePattern | None:
        """Returns what a name stands for; None where that is nothing."""
        base, at, axes = name.partition("@")
        patterns = axis_patterns(axes) if at else None
        if base in self._prefixes:
            return NamePattern(name=name, base=base, is_glob=False, axes=patterns)
        glob = self._glob(base)
        if any(is_path_match(prefix, glob) for prefix in self._prefixes):
            return NamePattern(name=name, base=glob, is_glob=True, axes=patterns)
        self.faults.append(self._fault(base))
        return None

    def _glob(self, base: str) -> str:
        """Returns the glob of a name that is no prefix: that of a folder matches all below it."""
        folder = base.rstrip("/")
        if folder in self._folders:
            return f"{literal_glob(folder)}/{ANY_FOLDERS}"
        return f"{folder}/{ANY_FOLDERS}" if base.endswith("/") else base

    def _fault(self, base: str) -> Fault:
        """Returns the fault of a name that stands for nothing, with a similar name as its hint."""
        known = [*self._prefixes, *self._folders]
        of_path = base.removeprefix(f"{self._folder}/").removesuffix(".yaml")
        if is_glob(base):
            message, hint = f'no prefix {self._place} matches "{base}"', did_you_mean(base.rstrip("/*"), known)
        else:
            message, hint = f'no prefix "{base}" {self._place}', did_you_mean(of_path, known)
        return Fault(message=message, hint=hint)


def folders_of(prefixes: Iterable[str]) -> Iterator[str]:
    """Yields every folder of prefixes: `a/b/c` is in `a` and `a/b`."""
    for prefix in prefixes:
        parts = prefix.split("/")
        yield from ("/".join(parts[:count]) for count in range(1, len(parts)))


def _used_targets(name: str, used: Collection[str], targets: Mapping[str, Target]) -> frozenset[str]:
    """Returns the used targets that a name or a glob stands for; of one that is not used, the target of that name.

    Raises:
        CacheunitError: there is none.
    """
    matched = frozenset(other for other in used if other == name or (is_glob(name) and fnmatchcase(other, name)))
    return matched or _targets_named(name, targets)


def _targets_named(name: str, targets: Mapping[str, Target]) -> frozenset[str]:
    """Returns the names of the targets that a name, the name of a model, or a glob of names stands for.

    Raises:
        CacheunitError: there is none.
    """
    if find_target(name, targets) is not None or not is_glob(name):
        return frozenset((named_target(name, targets).name,))
    matched = frozenset(other for other in targets if fnmatchcase(other, name))
    if not matched:
        hint = did_you_mean(name.rstrip("*"), targets) or '"cacheunit targets" lists the known ones'
        raise fail(f'no target matches "{name}"', hint=hint)
    return matched
