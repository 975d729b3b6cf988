"""Identifies what decides the bytes of a build besides the project: this package, its libraries, and vocabularies.

It is done by content, so that it is the same in every environment with the same software. No library is imported, since
the fast path runs this at every build.
"""

from __future__ import annotations

import hashlib
import os
import sys
from binascii import b2a_base64
from functools import cache, lru_cache

from cacheunit_build.adapters.storage.file_stat import latest_change, read_regular_file, stat_of, surely_before
from cacheunit_build.adapters.storage.installed_files import existing_files, module_origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    VocabularyState = list[Any]

DISTRIBUTIONS = {
    "cacheunit_build": "cacheunit_build",
    "jinja2": "jinja2",
    "markupsafe": "markupsafe",
    "yaml": "pyyaml",
    "pydantic": "pydantic",
    "pydantic_core": "pydantic_core",
    "tiktoken": "tiktoken",
    "regex": "regex",
    "tokenizers": "tokenizers",
    "jsonschema": "jsonschema",
    "jsonschema_specifications": "jsonschema_specifications",
    "referencing": "referencing",
    "rpds": "rpds_py",
    "attr": "attrs",
    "detect_secrets": "detect_secrets",
}
"""Package -> the normalized name of its distribution, for all packages that decide what is built or refused."""

_COMPILED = "__pycache__"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@cache
def software() -> dict[str, str]:
    """Returns package -> a hash of its files, and the version of the interpreter; packages that are missing have none.

    The hashes are those that the installer recorded; a package without such a record is read. It is done once: what a
    process has loaded does not change with the files.

    Raises:
        OSError: a package cannot be read.
    """
    origins = {name: module_origin(name) for name in DISTRIBUTIONS}
    hashes = {name: _hash_of_package(name, origin) for name, origin in origins.items() if origin}
    return {"python": f"{sys.implementation.name} {sys.version_info[:]}", **hashes}


def _hash_of_package(name: str, origin: str) -> str:
    package = os.path.dirname(origin)
    folder = os.path.dirname(package)
    record = _records_in(folder).get(DISTRIBUTIONS[name])
    lines = None if record is None else _recorded_lines(f"{folder}/{record}/RECORD")
    if not lines:
        lines = list(_computed_lines(package, os.path.basename(package)))
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


@cache
def _records_in(folder: str) -> dict[str, str]:
    """Returns the normalized name of each distribution that is installed in a folder -> its metadata folder."""
    suffix = ".dist-info"
    names = sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    return {name.partition("-")[0].lower().replace(".", "_"): name for name in names}


def _recorded_lines(record: str) -> list[bytes]:
    """Returns the lines of a RECORD (`path,sha256=hash,size`) that are the same in every environment; [] without it.

    Not those of scripts, which name the interpreter, nor those of the metadata, which say how it was installed.
    """
    try:
        with open(record, "rb", buffering=0) as handle:
            lines = handle.read().splitlines()
    except OSError:
        return []
    return [line for line in lines if b",sha256=" in line and b".dist-info/" not in line and not line.startswith(b"..")]


def _computed_lines(folder: str, name: str) -> Iterator[bytes]:
    """Yields the lines that a RECORD would have for the files of a package."""
    for entry in os.scandir(folder):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            if entry.name != _COMPILED:
                yield from _computed_lines(entry.path, path)
        else:
            with open(entry.path, "rb", buffering=0) as handle:
                data = handle.read()
            digest = b2a_base64(hashlib.sha256(data).digest(), newline=False).translate(_URL_SAFE).rstrip(b"=")
            yield b"%b,sha256=%b,%d" % (os.fsencode(path), digest, len(data))


def vocabulary_state(
    source: str, digest: str, begun: int, known: VocabularyState | None = None
) -> VocabularyState | None:
    """Returns the state of a vocabulary file to record: its path, its stat if that can be believed later, its sha256.

    Args:
        source: the source of the file, as in `installed_files`.
        digest: the sha256 of the bytes that were loaded.
        begun: nanoseconds; a file that changed later may change again without another stat.
        known: a state of it that was recorded before; a file of that path and stat is not read again.

    Returns:
        None if there is another file now.
    """
    path = next(existing_files(source), None)
    if path is None:
        return None
    stat = stat_of(path)
    if known is not None and stat is not None and [path, stat, digest] == known:
        return known
    if _sha256_of(path) != digest:
        return None
    believed = stat is not None and latest_change(stat, stat[2]) < surely_before(begun)
    return [path, stat if believed else None, digest]


def vocabularies_unchanged(states: Mapping[str, VocabularyState], *, trust_stats: bool) -> bool:
    """Returns whether each source still leads to a file of the recorded content.

    Args:
        states: source -> recorded state.
        trust_stats: whether a file of the recorded path and stat need not be read.

    Raises:
        OSError: a file cannot be read.
    """
    for source, (path, stat, digest) in states.items():
        present = next(existing_files(source), None)
        if present is None:
            return False
        if trust_stats and present == path and stat is not None and stat_of(present) == stat:
            continue
        if _sha256_of(present) != digest:
            return False
    return True


def _sha256_of(path: str) -> str:
    stat = stat_of(path)
    return _sha256_with_stat(path, None if stat is None else tuple(stat))


@lru_cache(maxsize=64)
def _sha256_with_stat(path: str, _stat: tuple[int, ...] | None) -> str:
    """Returns the hash of a file; a file of that stat is read once in a process."""
    return hashlib.sha256(read_regular_file(path)).hexdigest()
