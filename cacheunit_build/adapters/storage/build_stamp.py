"""The seal of the local cache: all that a build or check with nothing to do needs. Loads next to nothing.

It names every file that the last build looked for or wrote, with one hash of all their contents and one of all their
stats, and the texts to print while these hold. It is true by itself, whatever else the cache says. Where anything is
not as it says, or it cannot be read, it says nothing, and the record is asked.
"""

from __future__ import annotations

import hashlib
import json
import os
from stat import S_ISDIR

from cacheunit_build.adapters.storage.cache_file import clock_of, write_cache_file
from cacheunit_build.adapters.storage.discovery import LinkedFolderError, files_below, folders_above
from cacheunit_build.adapters.storage.file_stat import stat_of, surely_before
from cacheunit_build.adapters.system.toolchain import software

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cacheunit_build.adapters.storage.file_stat import Stat
    from cacheunit_build.domain.build_record import BuildRecord

SEAL = "seal.json"
"""Its name in the cache folder."""

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_MOST = 1 << 16


class Seal:
    """What the last build left of the project at `root`.

    Args:
        root: the project's root, without links, and a slash.
        folder: the cache folder.
        said: what the file says.
    """

    def __init__(self, root: str, folder: str, said: Any) -> None:  # noqa: ANN401 - looked at where it is used
        self._root = root
        self._folder = folder
        self._said = said

    def built(self) -> str | None:
        """What a build prints that has nothing to do; None unless every stat is that of the last build.

        Where a file is too young for its stat to tell, as after that build, all are read; and the next time, none.
        """
        return self._text("build", self._stats_hold)

    def checked(self) -> str | None:
        """What a check prints that finds nothing; None unless every file has the content of the last build."""
        return self._text("check", self._contents_hold)

    def _text(self, name: str, hold: Any) -> str | None:  # noqa: ANN401 - mypy has no `Callable` here without a load
        try:
            text = self._said["texts"][name] if self._stands() and hold(self._paths()) else None
        except (OSError, LinkedFolderError, KeyError, TypeError, ValueError, AttributeError):
            return None
        return text if isinstance(text, str) else None

    def _stands(self) -> bool:
        """Whether software and vocabularies are the same, what was absent is, and the folders hold the same files."""
        said, root = self._said, self._root
        if said["software"] != software() or any(stat_of(path) != stat for path, stat in said["vocabularies"].items()):
            return False
        if not all(S_ISDIR(os.lstat(f"{root}{folder}").st_mode) for folder in said["above"]):
            return False
        if any(os.path.lexists(f"{root}{path}") for path in said["absent"]):
            return False
        prefixes, build = said["folders"]
        artifacts, manifests = files_below(root, build), _manifests_below(root, prefixes)
        return [artifacts, manifests] == [said["artifacts"], said["manifests"]]

    def _paths(self) -> list[str]:
        return [*self._said["manifests"], *self._said["artifacts"], *self._said["others"]]

    def _stats_hold(self, paths: Sequence[str]) -> bool:
        newest = self._newest(paths)
        if newest is None or newest < surely_before(self._said["begun"]):
            return newest is not None
        begun = clock_of(self._folder)  # before anything is looked at again
        if self._newest(paths) != newest or not self._contents_hold(paths):
            return False
        if newest < surely_before(begun):
            write_cache_file(f"{self._folder}/{SEAL}", _signed({**self._said, "begun": begun}))
        return True

    def _newest(self, paths: Sequence[str]) -> int | None:
        """When the last of these files changed; None unless their stats are as sealed."""
        numbers: list[int] = []
        root, lstat = self._root, os.lstat
        for path in paths:
            status = lstat(f"{root}{path}")
            numbers += (status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns)
        return max(*numbers[3::5], *numbers[4::5]) if _hash_of_stats(numbers) == self._said["stats"] else None

    def _contents_hold(self, paths: Sequence[str]) -> bool:
        if not _NO_LINKS:
            return False
        now = _hash_of_contents(_fingerprint_now(f"{self._root}{path}") for path in paths)
        return [now] == [self._said["contents"]]


def read_seal(root: str, folder: str) -> Seal | None:
    """The seal in the cache folder `folder` of the project at `root`; None where its hash does not fit."""
    try:
        with open(f"{folder}/{SEAL}", "rb", buffering=0) as handle:  # noqa: PTH123 - a path is slow to make
            digest, _, body = handle.read().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        straight = os.path.realpath(root)
        return Seal(straight if straight.endswith("/") else f"{straight}/", folder, json.loads(body))
    except (OSError, ValueError):
        return None


def _manifests_below(root: str, folder: str) -> list[str]:
    """The manifests below a folder, those whose names end wrongly too."""
    return [path for path in files_below(root, folder) if path.lower().endswith((".yaml", ".yml"))]


def seal_of(
    record: BuildRecord, seen: Mapping[str, tuple[str, Stat]], made: Mapping[str, object], texts: Mapping[str, str]
) -> bytes | None:
    """The bytes of a seal; None where the record does not tell all, or not all of its files were seen.

    Args:
        record: what the build remembers.
        seen: path -> fingerprint and stat of the files that it read or wrote.
        made: software and vocabularies that made it, and when it began.
        texts: what a build and a check print.
    """
    artifacts = record.artifact_files()
    wanted = record.files()
    if wanted is None or any(wanted[path] not in (None, seen.get(path, ("",))[0]) for path in wanted):
        return None
    manifests, built = sorted(record.traces), sorted(artifacts)
    here = {path: fingerprint for path, fingerprint in wanted.items() if fingerprint is not None}
    others = sorted(here.keys() - set(manifests) - set(built))
    paths = [*manifests, *built, *others]
    prefixes, _, build = record.folders
    return _signed(
        {
            **made,
            "folders": [prefixes, build],
            "manifests": manifests,
            "artifacts": built,
            "others": others,
            "absent": sorted(wanted.keys() - here.keys()),
            "above": sorted(folders_above([*others, f"{prefixes}/", f"{build}/"])),
            "contents": _hash_of_contents(here[path] for path in paths),
            "stats": _hash_of_stats([number for path in paths for number in seen[path][1]]),
            "texts": dict(texts),
        }
    )


def _signed(said: Mapping[str, object]) -> bytes:
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _fingerprint_now(path: str) -> str:
    """The fingerprint of a file that is no link. Less than all of it is another fingerprint, which is safe."""
    descriptor = os.open(path, os.O_RDONLY | _NO_LINKS)
    try:
        data = os.read(descriptor, _MOST)
        while len(data) % _MOST == 0 and (more := os.read(descriptor, _MOST)):
            data += more
    finally:
        os.close(descriptor)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _hash_of_stats(numbers: Sequence[int]) -> str:
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


def _hash_of_contents(fingerprints: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()
