"""The outside world as the story needs it: ports that adapters fit by their shape, handed in as arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from cacheunit_build.domain.build_record import BuildRecord
    from cacheunit_build.domain.models import Conversation
    from cacheunit_build.domain.target import FormatName, TokenizerSpec
    from cacheunit_build.domain.usage import Usage

LOCK_FILE = "cacheunit.lock"
"""The lockfile, relative to the project root."""

ArtifactKey = tuple[str, str]
"""Prefix and target, which name an artifact."""

ProgressCallback = Callable[[int, int], None]
"""Told how many manifests are done, and of how many."""


class SourceFiles(Protocol):
    """A project's files to be read; paths are relative to its root, with forward slashes."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, the same at every call; None where there is none."""

    def fingerprint(self, path: str) -> str | None:
        """The fingerprint of a file as it is now; None where there is none."""

    def exists(self, folder: str) -> bool:
        """Whether there is such a folder."""

    def walk(self, folder: str) -> Sequence[str]:
        """Every file below a folder, by code point."""


class ProjectFiles(SourceFiles, Protocol):
    """A project's files, to be read and written."""

    def known_fingerprint(self, path: str) -> str | None:
        """The same as `fingerprint`; the file need not be read if its stat says that it is as it was."""

    def seen(self) -> Mapping[str, tuple[str, list[int]]]:
        """Path -> fingerprint and stat of every file that was read or written, as it was then."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Holds the project for one build at a time."""

    def sweep(self, folder: str) -> None:
        """Removes what a killed build left half written."""

    def commit(self, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
        """Writes files, removes others, writes the lock last; or leaves all as it was and raises."""


class Tokenizer(Protocol):
    """A vocabulary that is loaded."""

    @property
    def identity(self) -> str:
        """The fingerprint of the vocabulary."""

    @property
    def controls(self) -> Collection[int]:
        """The ids of its control tokens."""

    @property
    def margin(self) -> float:
        """The share by which a count may be off; 0 with the model's own vocabulary."""

    @property
    def files(self) -> Sequence[str]:
        """The files that it was loaded from, outside of the project."""

    @property
    def engine(self) -> str:
        """What encodes, and why its ids are to be believed."""

    def controls_in(self, text: str) -> Sequence[str]:
        """The control tokens that a text spells, each once."""

    def encode(self, text: str, *, literal: bool = False) -> Sequence[int]:
        """The token ids of a text, control tokens read as such, or with `literal` as characters."""

    def pieces(self, text: str) -> Sequence[bytes]:
        """The bytes of each token of a text; joined, they are the text."""


class TokenizerLoader(Protocol):
    """Where vocabularies come from."""

    def load(self, spec: TokenizerSpec) -> Tokenizer:
        """The vocabulary that `spec` names."""

    def keep(self) -> None:
        """Keeps what was loaded in a form that loads faster the next time, if it can."""


class SecretScanner(Protocol):
    """What finds secrets."""

    def __call__(self, text: str) -> Sequence[tuple[int, int, str]]:
        """Start and end of each secret in a text, and what kind of secret it is."""


class EncoderLoader(Protocol):
    """How a model's own Python encoder is brought in."""

    def __call__(
        self, source: bytes, path: str, function: str, arguments: Mapping[str, Any]
    ) -> Callable[[Conversation], str]:
        """What that function of that file makes of a conversation."""


class RecordStore(Protocol):
    """What is remembered of the last whole build. It may be lost at any time, and then nothing is remembered."""

    def begin(self) -> None:
        """A build begins to read: what changes from now on may differ from what it sees."""

    def recall(self) -> BuildRecord | None:
        """The last record, if the software and the vocabularies are still those that made it."""

    def before(self) -> BuildRecord | None:
        """The last record, whatever made it: what the lock was made from."""

    def keep(
        self, record: BuildRecord, vocabularies: Collection[str], seen: Mapping[str, tuple[str, list[int]]]
    ) -> None:
        """Remembers `record`, made with vocabularies from these files, and what was seen of the project's files."""


class LimitReachedError(CacheunitError):
    """The limit of requests or tokens for an endpoint is reached."""


class RequestRefusedError(CacheunitError):
    """An endpoint works, but refuses this request."""


class Endpoint(Protocol):
    """A live endpoint of an LLM API; the number of requests is limited."""

    @property
    def requests_sent(self) -> int:
        """The number of requests sent so far, retries included."""

    def send(self, request_format: FormatName, body: Mapping[str, Any]) -> Usage:
        """Sends a request that asks for as little output as possible; returns the usage that its response reports.

        Raises:
            LimitReachedError: the limit of requests is reached.
            RequestRefusedError: the endpoint refuses this request.
            CacheunitError: the endpoint does not answer, or not with JSON.
        """

    def models(self) -> Sequence[str]:
        """Returns the names of the models that it serves; empty where it does not list them."""

    def tokenize(self, model: str, text: str) -> Sequence[int] | None:
        """Returns the token ids of a text; None where the endpoint has no route for that."""

    def tokenize_chat(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Returns the token ids that the model reads for a chat request; None where there is no route for that."""

    def metrics(self) -> str | None:
        """Returns the server's metrics in Prometheus' text format; None where it has none."""

    def wait(self, seconds: float) -> None:
        """Waits before the next request."""


class History(Protocol):
    """What version control remembers."""

    def before(self, path: str) -> tuple[bytes | None] | None:
        """The bytes of a file when the present lock was committed, None inside where absent; None if unknown."""


class CompileInputs(Protocol):
    """What is needed to compile a project in memory."""

    @property
    def files(self) -> SourceFiles:
        """Its files."""

    @property
    def tokenizers(self) -> TokenizerLoader:
        """Its vocabularies."""

    @property
    def encoder(self) -> EncoderLoader:
        """How its encoders are brought in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldVersion:
    """A project as it was: nothing is written there, and nothing remembered."""

    files: SourceFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The outside world of one run."""

    files: ProjectFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader
    memory: RecordStore
    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which artifacts are meant: by name of prefix or variant, and by target. Nothing named means all."""

    names: tuple[str, ...] = ()
    target: str | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.target is not None

    def takes(self, prefix: str) -> bool:
        """Whether a variant of that name is meant."""
        return not self.names or prefix in self.names or prefix.partition("@")[0] in self.names

    def includes_key(self, key: ArtifactKey) -> bool:
        """Whether that artifact is meant."""
        prefix, target = key
        return self.takes(prefix) and self.target in (None, target)
