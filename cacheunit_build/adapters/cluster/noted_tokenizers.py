"""Notes which vocabularies and packaged files a worker loaded, so that they can be compared with this machine's."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.package_file import PackageFile
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.domain.protocols import Tokenizer, TokenizerLoader

    Loads = Mapping[TokenizerSpec | PackageFile, str | None]
    """The hash of what was loaded from a place; None where that failed."""


class NotedTokenizers:
    """A loader of vocabularies that notes what it loaded.

    Args:
        loader: loads.

    Attributes:
        loads: what was loaded from outside of the project.
    """

    def __init__(self, loader: TokenizerLoader) -> None:
        self.loads: dict[TokenizerSpec | PackageFile, str | None] = {}
        self.loader = loader

    def load(self, spec: TokenizerSpec) -> Tokenizer:
        """Returns the vocabulary that `spec` names.

        Raises:
            CacheunitError: it is not installed, missing, invalid, or has another sha256.
        """
        if spec.path is None:
            self.loads[spec] = None
        tokenizer = self.loader.load(spec)
        if spec.path is None:
            self.loads[spec] = tokenizer.identity
        return tokenizer

    def package_file(self, file: PackageFile) -> tuple[bytes, Mapping[str, str]]:
        """Returns the bytes of a file in an installed package, and its source with its sha256; or raises as `load`."""
        place = PackageFile(package=file.package, file=file.file, sha256=file.sha256)  # an encoder has more fields
        self.loads[place] = None
        data, source = self.loader.package_file(file)
        self.loads[place] = hashlib.sha256(data).hexdigest()
        return data, source

    def with_project_files(self, read: Callable[[str], bytes | None]) -> NotedTokenizers:
        """Returns a loader that reads files of the project by `read`, and keeps what is loaded from elsewhere."""
        return NotedTokenizers(self.loader.with_project_files(read))

    def save_cache(self) -> None:
        """Caches nothing: a worker writes no files."""


def other_load(worker: str, loads: Loads, tokenizers: TokenizerLoader) -> Fault | None:
    """Returns the fault of a worker that loaded something else than this machine; None if there is none.

    What has a known sha256 was compared with it when it was loaded. What neither can load is a fault of the project.

    Args:
        worker: the address of the worker.
        loads: what it loaded.
        tokenizers: the loader of this machine.
    """
    here = NotedTokenizers(tokenizers)
    for place, theirs in loads.items():
        if theirs is not None and place.sha256 is not None:
            continue
        with suppress(CacheunitError):
            here.load(place) if isinstance(place, TokenizerSpec) else here.package_file(place)
        ours = here.loads[place]
        if theirs != ours:
            message = f"worker {worker} has another {place}: {theirs or 'none'}, here {ours or 'none'}"
            return Fault(message=message, hint="install the same packages on workers as on this machine")
    return None
