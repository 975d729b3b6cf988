"""Finds the sources that were moved: files of one version only, of which the other has the same or a similar one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cacheunit_build.diff.renames import similar_lines
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.protocols import SourceFiles


def moved_files(old: Snapshot, new: Snapshot) -> dict[str, str]:
    """Returns the sources that were moved: new path -> old path.

    old                    new                       moved
    templates/a.j2: 1      texts/a.j2: 1             by its bytes
    templates/b.j2: 2 2    texts/e.j2: 2 2 3         by similar lines
    templates/c.j2: 4      texts/c.j2: 5             no: other lines
    """
    old_sources, new_sources = old.sources(), new.sources()
    added = _absent((path for path in new_sources if path not in old_sources), old.files)
    if not added:
        return {}
    removed = _absent((path for path in old_sources if path not in new_sources), new.files)
    moved = _pairs({path: old_sources[path] for path in removed}, {path: new_sources[path] for path in added})
    former = frozenset(moved.values())
    removed_lines = _lines((path for path in removed if path not in former), old.files)
    pairs = similar_lines(removed_lines, _lines((path for path in added if path not in moved), new.files))
    return {**moved, **{path: was for (path, _), (was, _) in pairs.items()}}


def _lines(paths: Iterable[str], files: SourceFiles) -> dict[tuple[str, str], Counter[str]]:
    """Returns how often each line is in some files, by the path and an empty target."""
    texts = {path: (files.read(path) or b"").decode("utf-8", "replace") for path in sorted(paths)}
    return {(path, ""): Counter(filter(str.strip, text.splitlines())) for path, text in texts.items()}


def _absent(paths: Iterable[str], files: SourceFiles) -> list[str]:
    """Returns the paths at which a version has no file."""
    return [path for path in paths if _is_absent(path, files)]


def _is_absent(path: str, files: SourceFiles) -> bool:
    """Returns whether a version has no file at a path; one that cannot be read, such as behind a link, is there."""
    try:
        return files.read(path) is None
    except CacheunitError:
        return False


def _pairs(removed: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Returns new path -> old path of files with the same label, where no other file of a version has it."""
    by_label = _unique(removed)
    return {path: by_label[label] for label, path in _unique(added).items() if label in by_label}


def _unique(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns label -> path of the labels that one path alone has."""
    paths: dict[str, list[str]] = {}
    for path, label in labels.items():
        paths.setdefault(label, []).append(path)
    return {label: own[0] for label, own in paths.items() if len(own) == 1}
