"""Finds the sources that were moved: files of one version only, with the same bytes or the same name in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def moved_files(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Returns the files that were moved: new path -> old path.

    old                    new                       moved
    templates/a.j2: 1      texts/a.j2: 1             by its bytes
    templates/b.j2: 2      texts/b.j2: 3             by its name
    templates/x/c.j2: 4    texts/x/c.j2: 5           neither: another file has that name
    templates/y/c.j2: 6

    Args:
        old: path -> fingerprint of each file of the old version.
        new: path -> fingerprint of each file of the new version.
    """
    removed = {path: own for path, own in old.items() if path not in new}
    added = {path: own for path, own in new.items() if path not in old}
    moved = _pairs(removed, added)
    former = frozenset(moved.values())
    names = (
        {path: path.rpartition("/")[2] for path in side} for side in (removed.keys() - former, added.keys() - moved)
    )
    return {**moved, **_pairs(*names)}


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
