"""Finds renamed artifacts: a removed and an added one of the same target with the same bytes, or with similar texts.

removed            added               pair
support/a: 1 2 3   help/a: 1 2 3       the same bytes
support/b: 4 5 6   help/b: 4 5 7 8     no: 2 of 4 lines
support/c: 4 5 6   help/c: 4 5 6 9     yes: 3 of 4 lines

Only artifacts are compared that share a line which few others have, or that have similar names, so that the time does
not grow with the square of their number.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from cacheunit_build.domain.fingerprint import compact_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry

Line = TypeVar("Line", str, bytes)

LEAST_SIMILAR = 0.6
"""The least share of lines that a renamed and edited artifact has in common with the former one."""

_RARE = 32
"""The most removed artifacts that have a line by which an added one finds them."""

_MOST_CANDIDATES = 8
"""The most removed artifacts that are compared with an added one for their lines, and for their names."""


def bytes_of(key: ArtifactKey, entry: LockEntry) -> tuple[object, ...]:
    """Returns what an artifact and its renamed copy have in common: target and fingerprints."""
    return key[1], entry.text, entry.request, entry.cached_content, entry.token_ids


def same_bytes(
    old: Mapping[ArtifactKey, LockEntry], new: Mapping[ArtifactKey, LockEntry]
) -> dict[ArtifactKey, ArtifactKey]:
    """Returns the artifacts of two locks that have another name and the same bytes: new key -> old key.

    Args:
        old: the entries of the old lock.
        new: the entries of the new lock.
    """
    removed: dict[tuple[object, ...], list[ArtifactKey]] = {}
    for key in sorted(old.keys() - new.keys()):
        removed.setdefault(bytes_of(key, old[key]), []).append(key)
    renamed: dict[ArtifactKey, ArtifactKey] = {}
    for key in sorted(new.keys() - old.keys()):
        same = removed.get(bytes_of(key, new[key]))
        if same:
            renamed[key] = same.pop(0)
    return renamed


def similar(removed: Collection[Artifact], added: Collection[Artifact]) -> dict[ArtifactKey, ArtifactKey]:
    """Returns the added artifacts that are removed ones under another name, edited: new key -> old key.

    The most similar ones are paired first; of equally similar ones those with the same variant, then by name.

    Args:
        removed: the artifacts that only the old version has.
        added: the artifacts that only the new version has.
    """
    pairs: dict[ArtifactKey, ArtifactKey] = {}
    for target in sorted({artifact.target for artifact in added}):
        sides = [
            {artifact.key: _lines(artifact) for artifact in sorted(side, key=_key) if artifact.target == target}
            for side in (removed, added)
        ]
        pairs |= similar_lines(*sides)
    return pairs


def _key(artifact: Artifact) -> ArtifactKey:
    return artifact.key


def _lines(artifact: Artifact) -> Counter[str]:
    """Returns how often each line is in the text of an artifact, its tools and its examples."""
    text = artifact.text.decode().removesuffix(artifact.padding_text)
    tools = [f"{tool.name} {tool.description} {compact_json(tool.schema).decode()}" for tool in artifact.tools]
    examples = [example.text or "" for example in artifact.variant.manifest.examples]
    return Counter(line for part in (text, *tools, *examples) for line in part.splitlines() if line.strip())


def similar_lines(
    removed: Mapping[ArtifactKey, Counter[str]], added: Mapping[ArtifactKey, Counter[str]]
) -> dict[ArtifactKey, ArtifactKey]:
    """Returns the added texts that are removed ones, edited: new key -> old key. The most similar are paired first.

    Args:
        removed: how often each line is in a text that only the old version has, by its name and its target.
        added: the same for the texts that only the new version has.
    """
    scored = []
    for new, old in _candidates(removed, added):
        share = similarity(removed[old], added[new])
        if share >= LEAST_SIMILAR:
            scored.append((-share, _variant(new) != _variant(old), new, old))
    pairs: dict[ArtifactKey, ArtifactKey] = {}
    taken: set[ArtifactKey] = set()
    for *_, new, old in sorted(scored):
        if new not in pairs and old not in taken:
            pairs[new] = old
            taken.add(old)
    return pairs


def similarity(old: Counter[Line], new: Counter[Line]) -> float:
    """Returns the share of lines that two texts have in common, of those of the longer one."""
    longer = max(old.total(), new.total())
    return (old & new).total() / longer if longer else 0.0


def _candidates(
    removed: Mapping[ArtifactKey, Counter[str]], added: Mapping[ArtifactKey, Counter[str]]
) -> Iterator[tuple[ArtifactKey, ArtifactKey]]:
    """Yields the pairs that are worth comparing, new key first: by rare lines, by name, and by their order."""
    by_line: dict[str, list[ArtifactKey]] = {}
    by_name: dict[str, list[ArtifactKey]] = {}
    for key, lines in removed.items():
        by_name.setdefault(_last_name(key), []).append(key)
        for line in lines:
            by_line.setdefault(line, []).append(key)
    ordered: Sequence[ArtifactKey] = list(removed)
    for rank, (new, lines) in enumerate(added.items()):
        holders = (by_line.get(line, ()) for line in lines)
        shared = Counter(key for own in holders if len(own) <= _RARE for key in own)
        by_lines = sorted(shared, key=lambda key: (-shared[key], key))[:_MOST_CANDIDATES]
        by_names = by_name.get(_last_name(new), [])[:_MOST_CANDIDATES]
        for old in dict.fromkeys([*by_lines, *by_names, *ordered[rank : rank + 1]]):
            yield new, old


def _last_name(key: ArtifactKey) -> str:
    """Returns the name of an artifact without its folders, with its variant."""
    name, at, variant = key[0].partition("@")
    return f"{name.rpartition('/')[2]}{at}{variant}"


def _variant(key: ArtifactKey) -> str:
    return key[0].partition("@")[2]
