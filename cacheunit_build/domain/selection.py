"""Which artifacts a command is about: names, folders and globs of prefixes, and names and globs of targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import axis_values
from cacheunit_build.domain.names import composed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cacheunit_build.domain.lock import ArtifactKey

ANY_FOLDERS = "**"
"""The part of a glob that stands for any number of folders; at the end, for everything below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a command line selects, as typed; without names and targets, everything.

    Attributes:
        names: prefixes, variants, folders, and globs of them.
        targets: names of targets or of their models, and globs of targets.
    """

    names: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A terminal on macOS completes names in decomposed characters.
        object.__setattr__(self, "names", tuple(map(composed, self.names)))

    def __bool__(self) -> bool:
        return bool(self.names or self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePattern:
    """A name of a selection, once it is known what it names.

    Attributes:
        name: the name as typed.
        base: the prefix that it names, or a glob of the paths of prefixes.
        is_glob: whether `base` is a glob.
        axes: patterns of `axis=value`, each of which a variant must match; None for a prefix with all its variants.
    """

    name: str
    base: str
    is_glob: bool
    axes: tuple[str, ...] | None = None

    def matches(self, prefix: str) -> bool:
        """Returns whether this selects a prefix, or a variant, of that name."""
        base, _, axes = prefix.partition("@")
        if not (is_path_match(base, self.base) if self.is_glob else base == self.base):
            return False
        if self.axes is None:
            return True
        values = [composed(f"{axis}={value}") for axis, value in axis_values(axes)]
        return all(any(value == axis or fnmatchcase(value, axis) for value in values) for axis in self.axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedArtifacts:
    """The artifacts that a selection is about in one project; without names and targets, all of them.

    Attributes:
        names: what the names select.
        targets: for each name or glob of targets as typed, the targets that it selects.
    """

    names: tuple[NamePattern, ...] = ()
    targets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _globs: tuple[NamePattern, ...] = field(init=False, repr=False, compare=False)
    _by_prefix: Mapping[str, Sequence[NamePattern]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_prefix: dict[str, list[NamePattern]] = {}
        for pattern in self.names:
            if not pattern.is_glob:
                by_prefix.setdefault(pattern.base, []).append(pattern)
        object.__setattr__(self, "_globs", tuple(pattern for pattern in self.names if pattern.is_glob))
        object.__setattr__(self, "_by_prefix", by_prefix)

    def __bool__(self) -> bool:
        return bool(self.names or self.targets)

    def includes(self, prefix: str) -> bool:
        """Returns whether a variant of that name is selected, for some target."""
        return not self.names or any(pattern.matches(prefix) for pattern in self._candidates(prefix))

    def includes_manifest(self, prefix: str) -> bool:
        """Returns whether a variant of the prefix of that name may be selected."""
        if not self.names or prefix in self._by_prefix:
            return True
        return any(is_path_match(prefix, pattern.base) for pattern in self._globs)

    def includes_target(self, target: str) -> bool:
        """Returns whether the target of that name is selected."""
        return not self.targets or any(target in names for names in self.targets.values())

    def includes_key(self, key: ArtifactKey) -> bool:
        """Returns whether that artifact is selected."""
        prefix, target = key
        return self.includes_target(target) and self.includes(prefix)

    def unmatched_names(self, prefixes: Iterable[str]) -> list[NamePattern]:
        """Returns what selects none of these prefixes and variants."""
        unmatched = dict.fromkeys(self.names)
        for prefix in prefixes:
            for pattern in [*self._candidates(prefix)] if unmatched else ():
                if pattern in unmatched and pattern.matches(prefix):
                    del unmatched[pattern]
        return list(unmatched)

    def _candidates(self, prefix: str) -> Iterator[NamePattern]:
        """Yields what may select a variant: names of its prefix, and globs."""
        yield from self._by_prefix.get(prefix.partition("@")[0], ())
        yield from self._globs


def is_glob(name: str) -> bool:
    """Returns whether a name has a wildcard: `*`, `?` or a class of characters in brackets."""
    return any(character in name for character in "*?[")


def is_path_match(path: str, glob: str) -> bool:
    """Returns whether a glob matches a path. A wildcard matches no slash; `**` matches any number of folders.

    support/*      support/agent
    support/**     support/agent, support/eu/agent
    **/agent       agent, support/eu/agent
    """
    parts = path.split("/")
    reached = {0}  # how many parts of the path the parts of the glob so far may have matched
    patterns = glob.split("/")
    for index, pattern in enumerate(patterns):
        if not reached:
            return False
        if pattern == ANY_FOLDERS:
            is_last = index == len(patterns) - 1
            reached = set(range(min(reached) + is_last, len(parts) + 1))
        else:
            reached = {count + 1 for count in reached if count < len(parts) and fnmatchcase(parts[count], pattern)}
    return len(parts) in reached


def literal_glob(path: str) -> str:
    """Returns a glob that matches exactly this path: `a[1]` as `a[[]1]`."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def axis_patterns(axes: str) -> tuple[str, ...]:
    """Returns the patterns of `axis=value` in the part of a name behind the @, with values as the manifest has them.

    locale=de*,plan=a%2Fb  ->  locale=de*  plan=a/b
    place=Ulm, Germany     ->  place=Ulm, Germany        what names no axis belongs to the value before
    """
    items: list[str] = []
    for item in axes.split(","):
        if items and "=" not in item and not is_glob(item):
            items[-1] = f"{items[-1]},{item}"
        else:
            items.append(item)
    return tuple(_unquoted(item) for item in items)


def _unquoted(item: str) -> str:
    """Returns an item with the characters that percent-encoding stands for, composed."""
    from urllib.parse import unquote

    return composed(unquote(item))
