"""Finds and stores the results of manifests at a server; implements the `RemoteCache` protocol."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cacheunit_build.adapters.remote_cache.action_result import ActionResult, parse_action_result
from cacheunit_build.adapters.remote_cache.connection import RequestFailedError, status_text
from cacheunit_build.adapters.remote_cache.connection_pool import CONNECTIONS, ConnectionPool
from cacheunit_build.adapters.remote_cache.health import Health
from cacheunit_build.domain.remote_blob import MOST_PACKED_BYTES, pack, unpack
from cacheunit_build.domain.remote_cache import (
    MOST_LISTING_BYTES,
    ListedBuild,
    RemoteUse,
    blob_digest,
    listing_bytes,
    parse_listing,
    with_newest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cacheunit_build.adapters.remote_cache.access import RemoteAccess
    from cacheunit_build.adapters.remote_cache.connection import Connection
    from cacheunit_build.domain.build_record import FingerprintOf
    from cacheunit_build.domain.remote_cache import BlobDigest, CacheableManifest, CachedManifest

MOST_ENTRY_BYTES = MOST_LISTING_BYTES + 65536
"""The longest entry below `/ac/` that is read."""

_NOT_FOUND, _FORBIDDEN = 404, 403
_REDIRECTS = range(300, 400)


class HttpRemoteCache:
    """A server that speaks the HTTP protocol of Bazel's remote cache.

    Args:
        access: where it is, and what this run may do there.

    Attributes:
        url: where it is.
    """

    def __init__(self, access: RemoteAccess) -> None:
        self.url = access.url
        self._health = Health(access.url, access.without_secrets)
        for text in access.remarks:
            self._health.remark("access", text)
        self._pool = ConnectionPool(access.server)
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[ListedBuild, ...]] = {}
        self._use = RemoteUse()
        self._writes = access.writes

    @property
    def writes(self) -> bool:
        """Whether results are stored in it."""
        return self._writes and self._health.may_write and not self._health.is_dropped

    @property
    def use(self) -> RemoteUse:
        """What it did so far."""
        return self._use

    @property
    def remarks(self) -> Sequence[str]:
        """What the user should know about it."""
        return self._health.remarks

    def find(
        self, manifests: Sequence[CacheableManifest], fingerprint_of: FingerprintOf
    ) -> Mapping[str, CachedManifest]:
        """Returns the results that it has, by the path of the manifest; see `RemoteCache`."""
        found: dict[str, CachedManifest] = {}

        def find_one(manifest: CacheableManifest, connection: Connection) -> None:
            result = self._find(_Reader(connection, self._health), manifest, fingerprint_of)
            if result is not None:
                with self._lock:
                    found[manifest.path] = result

        jobs = (partial(find_one, manifest) for manifest in manifests)
        if not self._health.is_dropped:
            goes_on = self._health.clock(lambda: len(found))
            if not self._pool.run(jobs, goes_on, min(CONNECTIONS, len(manifests))):
                self._health.unstoppable()
        with self._lock:
            results = {item.path: found[item.path] for item in manifests if item.path in found}
        missing = len(manifests) - len(results)
        self._use = replace(self._use, found=self._use.found + len(results), missing=self._use.missing + missing)
        return results

    def store(self, results: Iterable[CachedManifest]) -> None:
        """Stores results, if this run may; see `RemoteCache`."""
        if not self.writes:
            return
        stored = 0

        def store_one(result: CachedManifest, connection: Connection) -> None:
            nonlocal stored
            if self.writes and self._store(connection, result):
                with self._lock:
                    stored += 1

        jobs = (partial(store_one, result) for result in results if result.is_cacheable)
        goes_on = self._health.clock(lambda: stored)
        if not self._pool.run(jobs, lambda: goes_on() and self.writes):
            self._health.unstoppable()
        self._use = replace(self._use, stored=self._use.stored + stored)

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()

    def _find(
        self, reader: _Reader, manifest: CacheableManifest, fingerprint_of: FingerprintOf
    ) -> CachedManifest | None:
        entry = reader.entry(manifest.key)
        builds = () if entry is None else parse_listing(entry.stdout)
        with self._lock:
            self._listings[manifest.key] = builds
        keys = {}
        for build in builds:
            inputs = build.inputs(fingerprint_of)
            if inputs is not None:
                key = manifest.result_key(inputs)
                if key == build.result:
                    return reader.result(build.blob, manifest, inputs)
                keys[key] = inputs
        for key, inputs in keys.items():
            entry = reader.entry(key)
            if entry is not None and entry.blob is not None:
                return reader.result(entry.blob, manifest, inputs)
        return None

    def _store(self, connection: Connection, result: CachedManifest) -> bool:
        """Stores the blob first, then the entry that names it, then the listing with what a build looks for."""
        blob = pack(result)
        if blob is None:
            return False
        manifest, inputs = result.manifest, result.record.inputs
        digest, key = blob_digest(blob), manifest.result_key(inputs)
        with self._lock:
            builds = self._listings.get(manifest.key)
        if builds is None:
            entry = _Reader(connection, self._health).entry(manifest.key)
            builds = () if entry is None else parse_listing(entry.stdout)
        builds = with_newest(builds, ListedBuild(paths=tuple(sorted(inputs)), result=key, blob=digest))
        listing = ActionResult(stdout=listing_bytes(builds))
        with self._lock:
            self._listings[manifest.key] = builds
        return (
            self._put(connection, f"/cas/{digest.sha256}", blob)
            and self._put(connection, f"/ac/{key}", ActionResult(blob=digest).to_bytes())
            and self._put(connection, f"/ac/{manifest.key}", listing.to_bytes())
        )

    def _put(self, connection: Connection, path: str, data: bytes) -> bool:
        """Sends something to store; returns whether the server took it. If it does not, nothing more is stored."""
        if not self.writes:
            return False
        try:
            answer = connection.exchange("PUT", path, data, most_bytes=MOST_ENTRY_BYTES)
        except RequestFailedError as error:
            self._health.stop_writing(str(error))
            return False
        if not answer.is_success:
            self._health.stop_writing(f"it answers {status_text(answer.status)}")
        return answer.is_success


class _Reader:
    """Reads entries and blobs over one connection. What cannot be read is not there.

    Args:
        connection: the connection.
        health: what happens to the remote.
    """

    def __init__(self, connection: Connection, health: Health) -> None:
        self._connection = connection
        self._health = health

    def entry(self, key: str) -> ActionResult | None:
        """Returns the entry of a key; None where there is none."""
        data = self._get(f"/ac/{key}", MOST_ENTRY_BYTES)
        entry = None if data is None else parse_action_result(data)
        if data is not None and entry is None:
            self._health.failed("an entry is not valid", "content")
        return entry

    def result(
        self, blob: BlobDigest, manifest: CacheableManifest, inputs: Mapping[str, str | None]
    ) -> CachedManifest | None:
        """Returns the result in a blob; None where it is not there, or not one of this manifest and these files."""
        if blob.size > MOST_PACKED_BYTES:
            return None
        data = self._get(f"/cas/{blob.sha256}", blob.size + (blob.size >> 8) + 1024)  # a server may pack it once more
        if data is None:
            return None
        if not blob.matches(data):
            self._health.failed("a blob has other bytes than its name says", "content")
            return None
        result = unpack(data, manifest, inputs)
        if result is None:
            self._health.failed("a blob is not a result of its manifest", "content")
        else:
            self._health.succeeded()
        return result

    def _get(self, path: str, most_bytes: int) -> bytes | None:
        """Returns what is stored under a path; None where there is nothing, or no usable answer."""
        if self._health.is_dropped:
            return None
        try:
            answer = self._connection.exchange("GET", path, most_bytes=most_bytes)
        except RequestFailedError as error:
            self._health.failed(str(error))
            return None
        if answer.is_success:
            return answer.data
        status = status_text(answer.status)
        if answer.status == _FORBIDDEN:
            self._health.remark("read", f"{{remote}} answers {status}: taken for an entry that is not there")
        elif answer.status in _REDIRECTS:
            self._health.failed(f"it redirects ({status}), which is not followed")
        elif answer.status != _NOT_FOUND:
            self._health.failed(f"it answers {status}")
        if answer.status in (_NOT_FOUND, _FORBIDDEN):
            self._health.succeeded()
        return None
