"""Names what a remote cache has: the key of each manifest, and the sets of files that its builds looked for.

It is found in two steps, as in ccache's direct mode. The first key is known from the manifest alone; its entry, the
*listing*, has the sets of paths that builds of this manifest looked for. With the present contents of one such set, the
second key names the result. Everything here is pure: an adapter asks the server.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.domain.lock import identity_data
from cacheunit_build.domain.names import is_utf8
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.settings import SettingsKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cacheunit_build.domain.build_record import FingerprintOf, PrefixRecord
    from cacheunit_build.domain.lock import TargetIdentity

FORMAT = 1
"""The version of listings and blobs: part of every key, so that no version reads what another one wrote."""

MOST_LISTING_BYTES = 1 << 20
"""The longest listing that is written or read."""
MOST_SETS = 8
"""The most sets of paths in a listing."""
MOST_PATHS = 10_000
"""The most paths in one set."""

_DECIDES_NOTHING = ("cache", "watch")
"""The settings on which no artifact depends."""
_HEX_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class CacheContext:
    """What decides the artifacts of manifests besides the files that they look for.

    Attributes:
        software: package -> a hash of its files, and the version of the interpreter.
        settings: the settings that decide bytes, as `deciding_settings` returns them.
        identities: the identities of the targets that the manifests have, by name.
    """

    software: Mapping[str, str]
    settings: Mapping[str, Any]
    identities: Mapping[str, TargetIdentity]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all of it, as hexadecimal digits."""
        identities = {name: identity_data(identity) for name, identity in self.identities.items()}
        return _digest([FORMAT, dict(self.software), dict(self.settings), identities])


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheableManifest:
    """A manifest that a remote cache may know.

    Attributes:
        name: the name of its prefix.
        path: its file.
        fingerprint: that of its bytes.
        context: what decides its artifacts besides files.
    """

    name: str
    path: str
    fingerprint: str
    context: CacheContext

    @property
    def key(self) -> str:
        """The key of its listing."""
        return _digest([FORMAT, "listing", self.name, self.path, self.fingerprint, self.context.digest])

    def result_key(self, inputs: Mapping[str, str | None]) -> str:
        """Returns the key of what its build gives from these files: path -> fingerprint, None where there is none."""
        return _digest([FORMAT, "result", self.key, dict(inputs)])


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedManifest:
    """What a build needs of a manifest that it does not compile.

    Attributes:
        manifest: the manifest.
        record: the record of its artifacts.
        contents: fingerprint -> bytes of every file of these artifacts.
    """

    manifest: CacheableManifest
    record: PrefixRecord
    contents: Mapping[str, bytes]

    def files(self, folder: str) -> dict[str, bytes]:
        """Returns path -> bytes of the files of its artifacts in the build folder."""
        return {path: self.contents[fingerprint] for path, fingerprint in self.record.locked_files(folder).items()}

    @property
    def is_cacheable(self) -> bool:
        """Whether others may find it: it is of this state of its manifest and targets, and each path may be listed."""
        inputs, known = self.record.inputs, self.manifest.context.identities
        return (
            inputs.get(self.manifest.path) == self.manifest.fingerprint
            and all(known.get(name) == identity for name, identity in self.record.identities.items())
            and _may_be_listed(list(inputs))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobDigest:
    """What a blob is named by.

    Attributes:
        sha256: the SHA-256 of its bytes, as hexadecimal digits.
        size: the number of its bytes.
    """

    sha256: str
    size: int

    def matches(self, data: bytes) -> bool:
        """Returns whether it names these bytes."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


def blob_digest(data: bytes) -> BlobDigest:
    """Returns what a blob of these bytes is named by."""
    return BlobDigest(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBuild:
    """One set of paths that builds of a manifest looked for, and the last of these builds.

    Attributes:
        paths: the paths, in code point order.
        result: the key of the last result from these paths.
        blob: the blob of that result, so that finding it takes one request less.
    """

    paths: tuple[str, ...]
    result: str
    blob: BlobDigest

    def inputs(self, fingerprint_of: FingerprintOf) -> dict[str, str | None] | None:
        """Returns path -> present fingerprint of its files; None where one of them cannot be read."""
        try:
            return {path: fingerprint_of(path) for path in self.paths}
        except (CacheunitError, OSError, ValueError):  # compiling the manifest reports it, with its place
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUse:
    """What a remote cache did in one run.

    Attributes:
        found: how many manifests were found in it.
        missing: how many it was asked for and did not have.
        stored: how many were stored in it.
    """

    found: int = 0
    missing: int = 0
    stored: int = 0


class RemoteCache(Protocol):
    """A cache of results that many machines share. It may fail at any time: then it has nothing.

    Nothing that is wrong with it raises: a run without it gives the same bytes. It is called by one thread at a time.
    """

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def writes(self) -> bool:
        """Whether results are stored in it, so that their bytes are worth keeping until then."""

    @property
    def use(self) -> RemoteUse:
        """What it did so far."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the user should know about it, at the end: why it was not used, or not for everything."""

    def find(
        self, manifests: Sequence[CacheableManifest], fingerprint_of: Callable[[str], str | None]
    ) -> Mapping[str, CachedManifest]:
        """Returns the results that it has, by the path of the manifest. Takes a bounded time, see docs/remote.md.

        Args:
            manifests: the manifests, many at once, but no more than whose results fit into memory.
            fingerprint_of: returns the present fingerprint of a file; it is called from several threads.
        """

    def store(self, results: Iterable[CachedManifest]) -> None:
        """Stores the results of manifests that were compiled completely and without faults, if it is to be written.

        Args:
            results: taken one by one, so that not all of them need be in memory.
        """


def deciding_settings(settings: SettingsKeys) -> dict[str, Any]:
    """Returns the settings that may decide the bytes of an artifact, or whether it is refused, as JSON values."""
    names = [field.name for field in fields(SettingsKeys) if field.name not in _DECIDES_NOTHING]
    chosen = {name: getattr(settings, name) for name in names}
    parsed: dict[str, Any] = json.loads(json.dumps({**chosen, "lint": asdict(settings.lint)}, default=str))
    return parsed


def listing_bytes(builds: Sequence[ListedBuild]) -> bytes:
    """Returns the bytes of a listing."""
    rows = [[build.result, build.blob.sha256, build.blob.size, list(build.paths)] for build in builds]
    return compact_json({"format": FORMAT, "builds": rows})


def parse_listing(data: bytes) -> tuple[ListedBuild, ...]:
    """Returns the builds in a listing that anybody may have written, newest first; none where it is not one.

    Its paths are held to the rules of paths in a project, and hidden files are left out: a server could otherwise learn
    about any file by the keys that it is asked for.
    """
    if len(data) > MOST_LISTING_BYTES:
        return ()
    try:
        value = json.loads(data)
        if value["format"] != FORMAT:
            return ()
        builds = [_listed_build(*row) for row in value["builds"][:MOST_SETS]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    return tuple(builds)


def with_newest(builds: Sequence[ListedBuild], newest: ListedBuild) -> tuple[ListedBuild, ...]:
    """Returns the builds of a listing with one more in front; it replaces the one that looked for the same paths."""
    others = [build for build in builds if build.paths != newest.paths]
    kept = (newest, *others[: MOST_SETS - 1])
    while len(kept) > 1 and len(listing_bytes(kept)) > MOST_LISTING_BYTES:
        kept = kept[:-1]
    return kept


def _listed_build(result: object, sha256: object, size: object, paths: object) -> ListedBuild:
    """Returns one build of a listing; raises ValueError where it is not one."""
    if not isinstance(paths, list) or not _may_be_listed(paths) or paths != sorted(set(paths)):
        raise ValueError("not a set of paths")
    if not is_digest(result) or not is_digest(sha256) or type(size) is not int or size < 0:
        raise ValueError("not a result")
    return ListedBuild(paths=tuple(paths), result=str(result), blob=BlobDigest(sha256=str(sha256), size=size))


def is_digest(value: object) -> bool:
    """Returns whether a value is a SHA-256 as hexadecimal digits."""
    return isinstance(value, str) and _HEX_DIGEST.fullmatch(value) is not None


def _may_be_listed(paths: Sequence[Any]) -> bool:
    """Returns whether a set of paths may be in a listing: not too many, each in normal form, and none hidden."""
    try:
        normal = all(normal_path(path) == path and is_utf8(path) and "/." not in f"/{path}" for path in paths)
    except CacheunitError:
        return False
    return normal and 0 < len(paths) <= MOST_PATHS


def _digest(value: object) -> str:
    """Returns the SHA-256 of a JSON value, whatever the order of its keys."""
    data = json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()
