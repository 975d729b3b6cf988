r"""Packs what a build needs of one manifest into one blob, and unpacks blobs that anybody may have written.

cacheunit 1\n  zlib( {"record": …, "files": [[fingerprint, size], …]}\n  bytes of each file, one after the other )

Only results that could be written by this very build are unpacked: the first line has the very bytes that are written
for the record in it, the record is of this manifest and of these files, and each file has the fingerprint of its lock
entry. Everything else is no result.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.build_record import parse_prefix, prefix_data
from cacheunit_build.domain.fingerprint import compact_json, fingerprint
from cacheunit_build.domain.remote_cache import FORMAT, CachedManifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.remote_cache import CacheableManifest

MOST_PACKED_BYTES = 16 << 20
"""The longest blob that is written or read."""
MOST_BYTES = 64 << 20
"""The most bytes in a blob, unpacked."""

_MAGIC = f"cacheunit {FORMAT}\n".encode()
_LEVEL = 1
"""The level of compression: the others take several times as long for a few percent."""
_ACTION = re.compile("[a-z]+(?:-[a-z]+)*")
"""What is done for padding, in one word."""


def pack(cached: CachedManifest) -> bytes | None:
    """Returns a manifest's result as a blob; None where it is too large for one."""
    body = _head(cached.record, cached.contents) + b"".join(cached.contents[name] for name in sorted(cached.contents))
    blob = _MAGIC + zlib.compress(body, _LEVEL)
    return None if len(body) > MOST_BYTES or len(blob) > MOST_PACKED_BYTES else blob


def unpack(blob: bytes, manifest: CacheableManifest, inputs: Mapping[str, str | None]) -> CachedManifest | None:
    """Returns the result in a blob; None where it is not one of this manifest with these files.

    Args:
        blob: the bytes of the blob.
        manifest: the manifest.
        inputs: path -> fingerprint of the files that the result must have been made from.
    """
    body = _unpacked(blob)
    if body is None:
        return None
    head, _, data = body.partition(b"\n")
    try:
        values = json.loads(head)
        contents = _contents(values["files"], data)
        record = parse_prefix(values["record"])
        if record is None or _head(record, contents) != head + b"\n" or not _is_of(record, manifest, inputs):
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if contents.keys() != set(record.locked_files("").values()):
        return None
    return CachedManifest(manifest=manifest, record=record, contents=contents)


def _head(record: PrefixRecord, contents: Mapping[str, bytes]) -> bytes:
    """Returns the first line of a blob.

    Raises:
        ValueError: a text in the record is not Unicode.
    """
    files = [[name, len(contents[name])] for name in sorted(contents)]
    return compact_json({"record": prefix_data(record), "files": files})


def _unpacked(blob: bytes) -> bytes | None:
    """Returns the body of a blob; None where it has another version, is damaged, or over a limit."""
    if len(blob) > MOST_PACKED_BYTES or not blob.startswith(_MAGIC):
        return None
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(blob[len(_MAGIC) :], MOST_BYTES + 1)
    except zlib.error:
        return None
    return body if stream.eof and not stream.unused_data and len(body) <= MOST_BYTES else None


def _contents(files: Any, data: bytes) -> dict[str, bytes]:  # noqa: ANN401 - JSON
    """Returns fingerprint -> bytes of each file; raises ValueError where the bytes do not have these fingerprints."""
    contents: dict[str, bytes] = {}
    start = 0
    for name, size in files:
        if type(size) is not int or size < 0:
            raise ValueError("not a size")
        contents[name] = data[start : start + size]
        start += size
        if fingerprint(contents[name]) != name:
            raise ValueError("not the bytes of that fingerprint")
    if start != len(data):
        raise ValueError("bytes that belong to no file")
    return contents


def _is_of(record: PrefixRecord, manifest: CacheableManifest, inputs: Mapping[str, str | None]) -> bool:
    """Returns whether a build of this manifest from these files could have made a record."""
    known = manifest.context.identities
    keys = [artifact.key for artifact in record.artifacts]
    looked_for = [{lookup.path for lookup in artifact.lookups} for artifact in record.artifacts]
    plans = [artifact.plan for artifact in record.artifacts]
    return (
        record.inputs == inputs == {path: inputs.get(path) for path in set().union(*looked_for)}
        and inputs.get(manifest.path) == manifest.fingerprint
        and all(manifest.path in paths for paths in looked_for)
        and bool(keys)
        and len(set(keys)) == len(keys)
        and all(prefix.partition("@")[0] == manifest.name for prefix, _ in keys)
        and record.identities.keys() == {target for _, target in keys}
        and all(known.get(name) == identity for name, identity in record.identities.items())
        and record.remote is None
        and all(isinstance(plan.action, str) and _ACTION.fullmatch(plan.action) for plan in plans)
        and all(isinstance(plan.reason, str) and plan.reason.isprintable() for plan in plans)
    )
