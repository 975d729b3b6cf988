"""What the live page shows at this moment: the last state of a watch, and the texts of its artifacts on demand."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cacheunit_build.compiler.project import compile_project
from cacheunit_build.diff.framed_text import framed_text
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.selection import Selection, literal_glob
from cacheunit_build.lint.configuration import LintOptions
from cacheunit_build.lint.linter import lint_result
from cacheunit_build.serve.state_json import state_json, violations_json
from cacheunit_build.serve.token_text import token_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from cacheunit_build.diff.known_version import KnownVersion
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import SecretScanner
    from cacheunit_build.serve.token_text import TokenText
    from cacheunit_build.watching.state import WatchState

_MOST_TEXTS = 4
"""The most texts that stay divided: those of the artifacts that were looked at last."""


class NotCurrentError(Exception):
    """What is asked for is not in the state that the page shows now."""


class LiveState:
    """What the page shows; the watch changes it, and the server reads it from other threads.

    Args:
        root: the root of the project, an absolute path with forward slashes.
        instance: the name of this run of the server, so that a page notices another one.
        load_scanner: returns the scanner of secrets for lint; None where it is not installed.
    """

    def __init__(self, root: str, instance: str, load_scanner: Callable[[], SecretScanner | None]) -> None:
        self._root = root
        self._instance = instance
        self._load_scanner = load_scanner
        self._compiling = threading.Lock()
        self._number = 0
        self._json = b"{}"
        self._version: KnownVersion | None = None
        self._texts: dict[ArtifactKey, tuple[Artifact, TokenText]] = {}
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._changing = threading.Lock()
        self._ended = False

    @contextmanager
    def building(self) -> Iterator[None]:
        """Keeps the server from compiling while the watch builds, which shares what was compiled before."""
        with self._compiling:
            yield

    def publish(self, state: WatchState, number_of_change: int) -> None:
        """Shows another state of the watch.

        Args:
            state: the state.
            number_of_change: counts the builds that changed an artifact, so that a page shows each change once.
        """
        values = state_json(state, self._root)
        with self._changing:
            self._number += 1
            self._version = state.version
            head = {"instance": self._instance, "number": self._number, "change": number_of_change}
            self._json = json.dumps({**head, **values}).encode()
        self._wake()

    def end(self) -> None:
        """Ends all streams of events."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        with self._changing:
            listeners = tuple(self._listeners)
        for loop, event in listeners:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(event.set)

    async def numbers(self) -> AsyncIterator[int]:
        """Yields the number of the state, now and whenever there is another one."""
        event = asyncio.Event()
        listener = asyncio.get_running_loop(), event
        with self._changing:
            self._listeners.add(listener)
        try:
            while not self._ended:
                event.clear()
                yield self._number
                await event.wait()
        finally:
            with self._changing:
                self._listeners.discard(listener)

    def json(self) -> bytes:
        """Returns the state as JSON."""
        return self._json

    def text_index(self, key: ArtifactKey, number: int) -> dict[str, Any]:
        """Returns the chunks of a text, and what is to be known of its tokens, as JSON values.

        Raises:
            NotCurrentError: the state has another number, or no such artifact.
        """
        artifact, text = self._text(key, number)
        exact = bool(text.ids)
        return {
            "number": number,
            "tokens": len(text.ids) if exact else None,
            "static": artifact.entry.tokens if exact else None,
            "unit": artifact.unit if exact else 0,
            "remark": _remark(artifact, exact=exact),
            "chunks": text.index(),
        }

    def text_chunk(self, key: ArtifactKey, number: int, chunk: int) -> dict[str, Any]:
        """Returns a chunk of a text as JSON values; raises as `text_index`."""
        text = self._text(key, number)[1]
        if not 0 <= chunk < len(text.chunks):
            raise NotCurrentError
        return text.chunk(chunk)

    def violations(self, key: ArtifactKey, number: int) -> dict[str, Any]:
        """Returns what lint finds in the prefix of an artifact, as JSON values; raises as `text_index`."""
        version = self._version_of(key, number)
        selection = Selection(names=(literal_glob(key[0].partition("@")[0]),))
        try:
            compiled = compile_project(version.inputs_of_project, selection)
            result = lint_result(version.inputs_of_project, compiled, LintOptions(), self._load_scanner())
        except CacheunitError as error:  # settings of lint that the build does not read
            return {"number": number, "problem": str(error.faults[0]), "items": []}
        return {"number": number, "problem": None, "items": violations_json(result.violations)}

    def _version_of(self, key: ArtifactKey, number: int) -> KnownVersion:
        with self._changing:
            version, current = self._version, self._number
        if version is None or number != current or key not in version.records:
            raise NotCurrentError
        return version

    def _text(self, key: ArtifactKey, number: int) -> tuple[Artifact, TokenText]:
        version = self._version_of(key, number)
        with self._compiling:
            version.require([key])
            artifact = version.artifacts.get(key)
            if artifact is None:
                raise NotCurrentError
            known = self._texts.pop(key, None)
            if known is None or known[0] is not artifact:
                ids = version.target(artifact).tokenizer.encode(artifact.framed_prefix)
                known = artifact, token_text(framed_text(version, artifact), ids)
            self._texts[key] = known
            while len(self._texts) > _MOST_TEXTS:
                del self._texts[next(iter(self._texts))]
        return known


def _remark(artifact: Artifact, *, exact: bool) -> str:
    """Returns why tokens are not shown; empty where they are."""
    if exact:
        return ""
    if artifact.entry.is_estimate:
        return "The tokens are an estimate, so that the text is shown without tokens and units."
    if artifact.estimated is not None:
        return "The provider counted the tokens, so that the text is shown without tokens and units."
    return "The vocabulary normalizes the text, so that it is shown without tokens and units."
