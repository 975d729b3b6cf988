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
    from cacheunit_build.domain.staged_files import StagedFiles
    from cacheunit_build.domain.target import TokenizerSpec
    from cacheunit_build.domain.version_history import History

ObservedFile = tuple[str, list[int]]
"""The fingerprint and the stat of a file at the time it was read or written."""

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


class WorkerFiles(SourceFiles, Protocol):
    """The files of a project, as a worker reads them and stages others."""

    def observed(self) -> Mapping[str, ObservedFile]:
        """Returns path -> fingerprint and stat, at that time, of every file that was read or written."""

    def stage(self, files: Mapping[str, bytes]) -> StagedFiles:
        """Prepares files to be written, which `commit` moves into place; on failure everything stays as it was.

        Raises:
            CacheunitError: something cannot be written.
        """


class ProjectFiles(WorkerFiles, Protocol):
    """The files of a project, to be read and written."""

    @property
    def asked(self) -> Collection[str]:
        """The paths of all files that were asked for."""

    def read_now(self, path: str) -> bytes | None:
        """Returns the bytes of a file as it is now, which are not kept; None where there is no such file."""

    def known_fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file, without reading it where its stat shows that it did not change."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Locks the project against other builds."""

    def edit_problem(self, path: str) -> str | None:
        """Returns why a source is not to be edited, as in `it is read-only`; None where it can be."""

    def remove_leftovers(self, folder: str, *, is_new: bool = False) -> None:
        """Removes temporary files that a killed build left; and empty folders, if the build folder is new."""

    def discard(self, staged: Iterable[StagedFiles]) -> None:
        """Removes what was prepared and is not to be moved into place."""

    def commit(
        self,
        files: Mapping[str, bytes],
        removed: Sequence[str],
        lock: bytes | None,
        staged: Sequence[StagedFiles] = (),
    ) -> None:
        """Writes files, removes others, and writes the lock last; on failure everything stays as it was.

        Args:
            files: the bytes of each file to write.
            removed: the files to remove.
            lock: the bytes of the lock; None to leave it alone.
            staged: further files, which are prepared; if something fails, they are discarded.

        Raises:
            CacheunitError: something cannot be written.
        """

    def note_written(self, fingerprints: Mapping[str, str]) -> None:
        """Notes the fingerprints of files that were just written, with their present stat."""

    def note_read(self, observed: Mapping[str, ObservedFile]) -> None:
        """Notes which files of the project another process read."""


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

    def save(self, record: BuildRecord, vocabularies: Mapping[str, str], observed: Mapping[str, ObservedFile]) -> None:
        """Stores the record of a build.

        Args:
            record: the record.
            vocabularies: the sources of the vocabularies from outside of the project, with the sha256 of each file.
            observed: path -> fingerprint and stat of the project's files that it read or wrote.
        """


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
