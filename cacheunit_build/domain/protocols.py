"""The protocols of the outside world: files, tokenizers, caches, version control and endpoints.

The packages above use them as arguments; `adapters` has the classes that implement them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from cacheunit_build.domain.build_record import BuildRecord
    from cacheunit_build.domain.package_file import PackageFile
    from cacheunit_build.domain.prompt import Conversation
    from cacheunit_build.domain.remote_cache import CacheableManifest, CachedManifest, RemoteUse
    from cacheunit_build.domain.target import TokenizerSpec

ProgressCallback = Callable[[int, int], None]
"""Called with the number of compiled manifests and the number of all."""


class SourceFiles(Protocol):
    """The files of a project, to be read. Paths are relative to its root, with forward slashes."""

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file, the same at every call; None where there is no such file."""

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file as it is now; None where there is no such file."""

    def has_folder(self, folder: str) -> bool:
        """Returns whether there is such a folder."""

    def walk(self, folder: str) -> Sequence[str]:
        """Returns the paths of all files below a folder, in code point order.

        Raises:
            CacheunitError: a folder is a link, or a name differs between systems.
        """

    def twins(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Returns path -> a path in the project that is another one here, and the same one on some systems."""


class ProjectFiles(SourceFiles, Protocol):
    """The files of a project, to be read and written."""

    @property
    def asked(self) -> Collection[str]:
        """The paths of all files that were asked for."""

    def known_fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file, without reading it where its stat shows that it did not change."""

    def observed(self) -> Mapping[str, tuple[str, list[int]]]:
        """Returns path -> fingerprint and stat, at that time, of every file that was read or written."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Locks the project against other builds."""

    def edit_problem(self, path: str) -> str | None:
        """Returns why a source is not to be edited, as in `it is read-only`; None where it can be."""

    def remove_leftovers(self, folder: str) -> None:
        """Removes temporary files that a killed build left."""

    def commit(self, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
        """Writes files, removes others, and writes the lock last; on failure everything stays as it was.

        Raises:
            CacheunitError: something cannot be written.
        """


class Tokenizer(Protocol):
    """A loaded vocabulary."""

    @property
    def identity(self) -> str:
        """The fingerprint of the vocabulary."""

    @property
    def label(self) -> str:
        """The name of the library that encodes, and why its ids can be relied on."""

    @property
    def control_ids(self) -> Collection[int]:
        """The ids of the control tokens."""

    @property
    def margin(self) -> float:
        """The share by which a count may be wrong; 0 with the model's own vocabulary."""

    @property
    def files(self) -> Mapping[str, str]:
        """The sources of the files that it was loaded from, if outside of the project, with the sha256 of each."""

    @property
    def start_tokens(self) -> Sequence[tuple[str, int]] | None:
        """The text and the id of each token that it puts in front of a text by default; None if that is not known."""

    def without_control_tokens(self) -> Tokenizer:
        """Returns it for an API that reads control tokens in a text as characters."""

    def with_start_tokens(self) -> Tokenizer:
        """Returns it for framed texts that begin with its start tokens."""

    def control_tokens_in(self, text: str) -> Sequence[str]:
        """Returns the control tokens in a text, each once, in order of appearance."""

    def encode(self, text: str, *, literal: bool = False) -> Sequence[int]:
        """Returns the token ids of a text; with `literal`, control tokens in it are encoded as ordinary characters."""

    def token_bytes(self, text: str) -> Sequence[bytes]:
        """Returns the bytes of each token of a text; joined, they are the text."""


class TokenizerLoader(Protocol):
    """Loads vocabularies, and the other files of models that are in installed packages."""

    def load(self, spec: TokenizerSpec) -> Tokenizer:
        """Returns the vocabulary that `spec` names.

        Raises:
            CacheunitError: it is not installed, missing, invalid, or has another sha256.
        """

    def package_file(self, file: PackageFile) -> tuple[bytes, Mapping[str, str]]:
        """Returns the bytes of a file in an installed package, and its source with its sha256; or raises as `load`."""

    def with_project_files(self, read: Callable[[str], bytes | None]) -> TokenizerLoader:
        """Returns a loader that reads files of the project by `read`, and keeps what is loaded from elsewhere."""

    def save_cache(self) -> None:
        """Caches what was parsed, so that it loads faster the next time. A failure is ignored."""


class SecretScanner(Protocol):
    """Finds secrets in texts."""

    def __call__(self, text: str) -> Sequence[tuple[int, int, str]]:
        """Returns start, end and kind of each secret in a text."""


class EncoderLoader(Protocol):
    """Loads a model's own Python encoder, which makes the text of a conversation."""

    def __call__(
        self, source: bytes, path: str, function: str, arguments: Mapping[str, Any]
    ) -> Callable[[Conversation], str]:
        """Returns the encoder: a function of the Python file `source`.

        Args:
            source: the bytes of the file, which is run.
            path: the path of the file, for messages.
            function: the name of the function.
            arguments: passed to the function by name at each call.

        Raises:
            CacheunitError: now, or when the encoder is called: the file or the function fails.
        """


class RecordStore(Protocol):
    """The store of the last build's record. It may be lost at any time: then there is no record."""

    def start(self) -> None:
        """Marks the time at which a build begins to read: a file that changes later may have been read before."""

    def valid_record(self) -> BuildRecord | None:
        """Returns the last record, if the software and the vocabularies that made it did not change."""

    def last_record(self) -> BuildRecord | None:
        """Returns the last record, even if the software or a vocabulary has changed since."""

    def save(
        self, record: BuildRecord, vocabularies: Mapping[str, str], observed: Mapping[str, tuple[str, list[int]]]
    ) -> None:
        """Stores the record of a build.

        Args:
            record: the record.
            vocabularies: the sources of the vocabularies from outside of the project, with the sha256 of each file.
            observed: path -> fingerprint and stat of the project's files that it read or wrote.
        """


class RemoteCache(Protocol):
    """A cache of results that many machines share. It may fail at any time: then it has nothing.

    Nothing that is wrong with it raises: a run without it gives the same bytes. It is called by one thread at a time.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFile:
    """A file as it is in a commit.

    Attributes:
        data: its bytes; None if the commit does not contain it.
    """

    data: bytes | None


class History(Protocol):
    """The version history of a project."""

    def committed_with_lock(self, path: str) -> CommittedFile | None:
        """Returns a file as it was committed together with the present lock.

        Args:
            path: the file, relative to the project root.

        Returns:
            None if that is unknown: there is no history, or the lock was changed since it was committed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LockCommit:
    """A commit that changed the lock.

    Attributes:
        commit: its id.
        date: the day on which it was made, such as 2026-10-02.
        subject: the first line of its message.
        blob: the id of the content of the lock; None where the commit removed it.
        is_boundary: whether a shallow clone ends here, so that it is unknown what the commit changed.
    """

    commit: str
    date: str
    subject: str
    blob: str | None
    is_boundary: bool = False


class LockHistory(Protocol):
    """The versions of the lock that the current branch had."""

    def commits(self) -> Sequence[LockCommit]:
        """Returns the commits that changed the lock, newest first: of a merged branch, the merge.

        Raises:
            CacheunitError: there is no repository, or no commit.
        """

    def commits_after(self, revision: str) -> Collection[str]:
        """Returns the ids of the commits of the branch that are not in a revision.

        Raises:
            CacheunitError: there is no such revision.
        """

    def read(self, blob: str) -> bytes | None:
        """Returns the content with that id; None where the clone lacks it."""


class CompileInputs(Protocol):
    """What is needed to compile a project in memory."""

    @property
    def files(self) -> SourceFiles:
        """The files of the project."""

    @property
    def tokenizers(self) -> TokenizerLoader:
        """The loader of its vocabularies."""

    @property
    def encoder(self) -> EncoderLoader:
        """The loader of its Python encoders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldVersion:
    """An old version of a project, which can only be compiled in memory."""

    files: SourceFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader


class Rebuild(Protocol):
    """Builds copies of a project in processes of their own, each under other conditions and without a cache."""

    @property
    def conditions(self) -> Sequence[str]:
        """What is different about each rebuild."""

    def __call__(
        self, conditions: str, sources: Mapping[str, bytes], outputs: Sequence[str]
    ) -> Mapping[str, bytes] | str:
        """Returns the bytes of each output file by its path, or why the build failed.

        Args:
            conditions: one of `conditions`.
            sources: the bytes of each source by its path.
            outputs: the files and folders to return.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Everything outside of the program that one command uses."""

    files: ProjectFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader
    records: RecordStore
    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedPaths:
    """What decides the next build, relative to the root.

    Attributes:
        folders: folders with everything in them.
        files: single files, whether they exist or not.
        ignored: what a build itself writes.
    """

    folders: frozenset[str]
    files: frozenset[str]
    ignored: frozenset[str]
