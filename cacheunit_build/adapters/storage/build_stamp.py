"""The build stamp: what a build or check with nothing to do needs, and no more. Imports next to nothing.

The stamp stands for every file that the last build looked for or wrote: by hashes of their contents and of their stats,
and the outputs to print while these match. Manifests and artifacts are found by listing their folders,
so that a hash of their paths is enough. It does not depend on the rest of the cache. Where anything differs, or it
cannot be read, the record of the last build is asked instead.

Files are hashed in blocks, since there may be hundreds of thousands, and the first one that differs is enough.
"""

from __future__ import annotations

import hashlib
import json
import os
from itertools import islice
from stat import S_ISDIR

from cacheunit_build.adapters.storage.cache_file import file_system_time, write_cache_file
from cacheunit_build.adapters.storage.discovery import DiskNames, RefusedPathError, files_below, parent_folders
from cacheunit_build.adapters.storage.file_stat import exists, latest_change, surely_before
from cacheunit_build.adapters.storage.toolchain import software, vocabularies_unchanged
from cacheunit_build.domain.file_names import MOST_BYTES, files_of_artifacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def build_output(self, form: str, *, trusts_remote: bool = False) -> str | None:
        """Returns what a build with nothing to do prints; None unless every stat is that of the last build.

        Where a file is so young that its stat may not show a change, as after that build, all files are read.

        Args:
            form: the report format, `text` or `json`.
            trusts_remote: whether results are believed that are from a remote cache.
        """
        return self._output(f"build-{form}", for_build=True, trusts_remote=trusts_remote)

    def check_output(self, form: str) -> str | None:
        """Returns what a check without differences prints; None unless every file has the content of the last build.

        Results that are from a remote cache are not believed.

        Args:
            form: the report format, `text` or `json`.
        """
        return self._output(f"check-{form}", for_build=False, trusts_remote=False)

    def _output(self, name: str, *, for_build: bool, trusts_remote: bool) -> str | None:
        try:
            if self._contents["remote"] and not trusts_remote:
                return None
            expected = self._contents["outputs"].get(name)  # none: nobody has asked for it
            if expected is not None and self._is_unchanged(for_build=for_build):
                return _read_output(self._folder, name, expected)
        except (OSError, RefusedPathError, KeyError, TypeError, ValueError, AttributeError):
            return None
        return None

    def _is_unchanged(self, *, for_build: bool) -> bool:
        """Returns whether software, vocabularies, the lists of files and the files are unchanged.

        What people edit is looked at first: most changes are found before a folder is listed.
        """
        if self._contents["software"] != software():
            return False
        if not vocabularies_unchanged(self._contents["vocabularies"], trust_stats=for_build):
            return False
        sources = self._contents["others"]
        if not for_build:
            if not self._contents_match(sources, "sources"):
                return False
            listed = self._listed_files()
            return listed is not None and self._contents_match(listed, "listed")
        newest = self._newest(sources, "sources")
        listed = None if newest is None else self._listed_files()
        newest_listed = None if listed is None else self._newest(listed, "listed")
        if newest is None or listed is None or newest_listed is None:
            return False
        return self._surely_unchanged(sources, listed, max(newest, newest_listed))

    def _listed_files(self) -> list[str] | None:
        """Returns the paths of manifests and artifacts; None where a folder has other files than before."""
        stamp, root = self._contents, self._root
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
        return [*manifests, *artifacts]

    def _surely_unchanged(self, sources: Sequence[str], listed: Sequence[str], newest: int) -> bool:
        """Returns whether files are unchanged whose stats match the stamp; files that changed too recently are read."""
        if newest < surely_before(self._contents["begun"]):
            return True
        begun = file_system_time(self._root, self._folder)  # before the files are looked at again
        groups = (sources, "sources"), (listed, "listed")
        if not all(self._newest(*group) is not None and self._contents_match(*group) for group in groups):
            return False
        if newest < surely_before(begun):  # the next run need not read them
            write_cache_file(f"{self._folder}/{STAMP}", _with_digest({**self._contents, "begun": begun}))
        return True

    def _newest(self, paths: Sequence[str], group: str) -> int | None:
        """Returns the latest possible change of these files; None if a stat differs from the stamp."""
        root, lstat = self._root, os.lstat
        device, newest = os.stat(root).st_dev, 0
        for block, expected in zip(_blocks(paths), self._contents["stats"][group], strict=True):
            numbers: list[int] = []
            for path in block:
                status = lstat(f"{root}{path}")
                numbers += (status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns)
            if _hash_of_numbers(numbers) != expected:
                return None
            newest = max(newest, latest_change(numbers, device))
        return newest

    def _contents_match(self, paths: Sequence[str], group: str) -> bool:
        """Returns whether these files have the contents of the stamp."""
        if not _NO_FOLLOW:
            return False
        return all(
            _hash_of_texts(_fingerprint_now(f"{self._root}{path}") for path in block) == expected
            for block, expected in zip(_blocks(paths), self._contents["contents"][group], strict=True)
        )


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
    groups = {"sources": others, "listed": [*manifests, *artifacts]}
    prefixes, _, build = record.folders
    contents = {
        **made_with,
        "folders": list(record.folders),
        "remote": bool(record.remotes),
        "manifests": _hash_of_texts(manifests),
        "artifacts": _hash_of_texts(artifacts),
        "targets": sorted({artifact.target for artifact in record.artifacts}),
        "others": others,
        "absent": sorted(files.keys() - present.keys()),
        "parents": sorted(parent_folders([*others, f"{prefixes}/", f"{build}/"])),
        "contents": {
            group: [_hash_of_texts(present[path] for path in block) for block in _blocks(paths)]
            for group, paths in groups.items()
        },
        "stats": {
            group: [_hash_of_numbers([n for path in block for n in observed[path][1]]) for block in _blocks(paths)]
            for group, paths in groups.items()
        },
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
            if os.fstat(descriptor).st_size > MOST_BYTES:
                raise OSError(27, "is too large", path)
            with open(descriptor, "rb", buffering=0, closefd=False) as handle:
                data += handle.read()
    finally:
        os.close(descriptor)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blocks(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the paths in blocks, whose hashes are compared one by one."""
    return (paths[start : start + _BLOCK] for start in range(0, len(paths), _BLOCK))


def _hash_of_numbers(numbers: Sequence[int]) -> str:
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


def _hash_of_texts(texts: Iterable[str]) -> str:
    """Returns the hash of texts that have no line break, or of one text."""
    digest = hashlib.sha256()
    texts = iter(texts)
    while block := [*islice(texts, _BLOCK)]:
        digest.update("\n".join([*block, ""]).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
