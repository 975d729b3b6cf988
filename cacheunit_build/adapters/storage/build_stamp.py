"""The build stamp: what a build or check with nothing to do needs, and no more. Imports next to nothing.

The stamp stands for every file that the last build looked for or wrote: by one hash of all their contents and one of
all their stats, and the outputs to print while these match. Manifests and artifacts are found by listing their folders,
so that a hash of their paths is enough. It does not depend on the rest of the cache. Where anything differs, or it
cannot be read, the record of the last build is asked instead.

Files are hashed in blocks, since there may be hundreds of thousands.
"""

from __future__ import annotations

import hashlib
import json
import os
from itertools import islice
from stat import S_ISDIR

from cacheunit_build.adapters.storage.cache_file import file_system_time, write_cache_file
from cacheunit_build.adapters.storage.discovery import DiskNames, RefusedPathError, files_below, parent_folders
from cacheunit_build.adapters.storage.file_stat import MAX_BYTES, exists, latest_change, surely_before
from cacheunit_build.adapters.storage.toolchain import software, vocabularies_unchanged
from cacheunit_build.domain.file_names import files_of_artifacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.adapters.storage.file_stat import Stat
    from cacheunit_build.domain.build_record import BuildRecord

STAMP = "stamp.json"
"""The name of the stamp in the cache folder."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_CHUNK = 1 << 16
_DIGEST = 2 * hashlib.sha256().digest_size + 1
"""Bytes of the first line of the stamp, its hash."""
_BLOCK = 1000
"""Files that are hashed at once."""


class BuildStamp:
    """The stamp of the last build.

    Args:
        cache: the project's part of the user's cache.
        contents: the JSON of the stamp, not yet validated.
    """

    def __init__(self, cache: CacheFolder, contents: Any) -> None:  # noqa: ANN401 - validated where it is used
        self._root = cache.root if cache.root.endswith("/") else f"{cache.root}/"
        self._folder = cache.project
        self._contents = contents

    def build_output(self, form: str) -> str | None:
        """Returns what a build with nothing to do prints; None unless every stat is that of the last build.

        Where a file is so young that its stat may not show a change, as after that build, all files are read.

        Args:
            form: the report format, `text` or `json`.
        """
        return self._output(f"build-{form}", self._stats_match, trust_stats=True)

    def check_output(self, form: str) -> str | None:
        """Returns what a check without differences prints; None unless every file has the content of the last build.

        Args:
            form: the report format, `text` or `json`.
        """
        return self._output(f"check-{form}", self._contents_match, trust_stats=False)

    def _output(self, name: str, match: Any, *, trust_stats: bool) -> str | None:  # noqa: ANN401 - a Callable would have to be imported
        try:
            expected = self._contents["outputs"].get(name)  # none: nobody has asked for it
            paths = None if expected is None else self._unchanged_paths(trust_stats=trust_stats)
            if paths is not None and match(paths):
                return _read_output(self._folder, name, expected)
        except (OSError, RefusedPathError, KeyError, TypeError, ValueError, AttributeError):
            return None
        return None

    def _unchanged_paths(self, *, trust_stats: bool) -> list[str] | None:
        """Returns the paths of all files; None where software, vocabularies or the files in a folder changed."""
        stamp, root = self._contents, self._root
        if stamp["software"] != software():
            return None
        if not vocabularies_unchanged(stamp["vocabularies"], trust_stats=trust_stats):
            return None
        if not all(S_ISDIR(os.lstat(f"{root}{folder}").st_mode) for folder in stamp["parents"]):
            return None
        if any(exists(f"{root}{path}") for path in stamp["absent"]):
            return None
        prefixes, templates, build = stamp["folders"]
        files_below(root, templates)  # raises where a build would report a name or a link
        manifests, artifacts = _manifests_below(root, prefixes), files_below(root, build)
        if _hash_of_texts(artifacts) != stamp["artifacts"]:  # other files may share the build folder
            artifacts = sorted(files_of_artifacts(artifacts, build, frozenset(stamp["targets"])))
            if _hash_of_texts(artifacts) != stamp["artifacts"]:
                return None
        if _hash_of_texts(manifests) != stamp["manifests"] or DiskNames(root).twins([*manifests, *stamp["others"]]):
            return None
        return [*manifests, *artifacts, *stamp["others"]]

    def _stats_match(self, paths: Sequence[str]) -> bool:
        newest = self._newest(paths)
        if newest is None or newest < surely_before(self._contents["begun"]):
            return newest is not None
        begun = file_system_time(self._root, self._folder)  # before the files are looked at again
        if self._newest(paths) != newest or not self._contents_match(paths):
            return False
        if newest < surely_before(begun):  # the next run need not read them
            write_cache_file(f"{self._folder}/{STAMP}", _with_digest({**self._contents, "begun": begun}))
        return True

    def _newest(self, paths: Sequence[str]) -> int | None:
        """Returns the latest possible change of these files; None if a stat differs from the stamp."""
        root, lstat = self._root, os.lstat
        device, newest = os.stat(root).st_dev, 0
        digest = hashlib.sha256()
        for start in range(0, len(paths), _BLOCK):
            numbers: list[int] = []
            for path in paths[start : start + _BLOCK]:
                status = lstat(f"{root}{path}")
                numbers += (status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns)
            digest.update(repr(numbers).encode())
            newest = max(newest, latest_change(numbers, device))
        return newest if digest.hexdigest() == self._contents["stats"] else None

    def _contents_match(self, paths: Sequence[str]) -> bool:
        if not _NO_FOLLOW:
            return False
        found = _hash_of_texts(_fingerprint_now(f"{self._root}{path}") for path in paths)
        return [found] == [self._contents["contents"]]


def read_stamp(cache: CacheFolder) -> BuildStamp | None:
    """Returns the stamp of a project; None where there is none, its hash does not match, or the cache is not used."""
    try:
        with open(f"{cache.project}/{STAMP}", "rb", buffering=0) as handle:
            digest, body = handle.read(_DIGEST), handle.read()
        if hashlib.sha256(body).hexdigest().encode() + b"\n" != digest or cache.problem() is not None:
            return None
        return BuildStamp(cache, json.loads(body))
    except (OSError, ValueError, RecursionError):
        return None


def write_stamp(
    folder: str,
    record: BuildRecord,
    observed: Mapping[str, tuple[str, Stat]],
    made_with: Mapping[str, object],
    outputs: Mapping[str, str],
) -> None:
    """Writes the stamp of a build, unless the record does not name all files, or not all of them were observed.

    Args:
        folder: the project's folder in the cache.
        record: the record of the build.
        observed: path -> fingerprint and stat of the files that it read or wrote.
        made_with: the software and the vocabularies, and when the build began.
        outputs: what a build and a check print, by command and report format, such as `build-json`.
    """
    files = record.all_files()
    if files is None or any(files[path] not in (None, observed.get(path, ("",))[0]) for path in files):
        return
    manifests, artifacts = sorted(record.prefixes), sorted(record.artifact_files())
    present = {path: fingerprint for path, fingerprint in files.items() if fingerprint is not None}
    others = sorted(present.keys() - set(manifests) - set(artifacts))
    paths = [*manifests, *artifacts, *others]
    prefixes, _, build = record.folders
    contents = {
        **made_with,
        "folders": list(record.folders),
        "manifests": _hash_of_texts(manifests),
        "artifacts": _hash_of_texts(artifacts),
        "targets": sorted({artifact.target for artifact in record.artifacts}),
        "others": others,
        "absent": sorted(files.keys() - present.keys()),
        "parents": sorted(parent_folders([*others, f"{prefixes}/", f"{build}/"])),
        "contents": _hash_of_texts(present[path] for path in paths),
        "stats": _hash_of_stats([observed[path][1] for path in paths]),
        "outputs": {name: _hash_of_texts([text]) for name, text in outputs.items()},
    }
    for name, text in outputs.items():
        write_cache_file(_output_path(folder, name), text.encode())
    write_cache_file(f"{folder}/{STAMP}", _with_digest(contents))


def _manifests_below(root: str, folder: str) -> list[str]:
    """Returns the manifests below a folder, and the files whose extension is nearly that of one."""
    return [path for path in files_below(root, folder) if path.lower().endswith((".yaml", ".yml"))]


def _output_path(folder: str, name: str) -> str:
    return f"{folder}/output-{name}"


def _read_output(folder: str, name: str, expected: str) -> str | None:
    """Returns a stored output; None where it does not have the hash that the stamp names."""
    with open(_output_path(folder, name), "rb", buffering=0) as handle:
        text = handle.read().decode()
    return text if _hash_of_texts([text]) == expected else None


def _with_digest(contents: Mapping[str, object]) -> bytes:
    body = json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _fingerprint_now(path: str) -> str:
    """Returns the fingerprint of a file that is not a link. A file that is cut while it is read has another one.

    A pipe is not waited for: it is empty.
    """
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    try:
        data = os.read(descriptor, _CHUNK)
        if len(data) == _CHUNK:
            if os.fstat(descriptor).st_size > MAX_BYTES:
                raise OSError(27, "is too large", path)
            with open(descriptor, "rb", buffering=0, closefd=False) as handle:
                data += handle.read()
    finally:
        os.close(descriptor)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _hash_of_stats(stats: Sequence[Stat]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(stats), _BLOCK):
        numbers = [number for stat in stats[start : start + _BLOCK] for number in stat]
        digest.update(repr(numbers).encode())
    return digest.hexdigest()


def _hash_of_texts(texts: Iterable[str]) -> str:
    """Returns the hash of texts that have no line break, or of one text."""
    digest = hashlib.sha256()
    texts = iter(texts)
    while block := [*islice(texts, _BLOCK)]:
        digest.update("\n".join([*block, ""]).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
