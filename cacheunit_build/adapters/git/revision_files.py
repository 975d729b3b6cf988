"""Reads the files of a project in a commit of git, without checking it out."""

from __future__ import annotations

import contextlib
import posixpath
import subprocess
import threading
import weakref
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from cacheunit_build.adapters.git.command import cannot_run_git, git_command, git_environment
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.names import composed, is_utf8, printable_name, same_composed, twins
from cacheunit_build.domain.paths import LINKED_FOLDER, LINKED_FOLDER_HINT, follow_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_LINK = "120000"
"""Git's mode of a symbolic link."""
_FILE = "100"
"""How git's modes of files begin: 100644, or 100755 for an executable one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """A file or link in a commit.

    Attributes:
        mode: git's mode of it.
        blob: the id of its content.
    """

    mode: str
    blob: str


class RevisionFiles:
    """The files of a project in one commit; implements the protocol `SourceFiles`.

    Args:
        blobs: reads the content of files.
        entries: the files and links by path as committed, relative to the project root.
        root: the project root, to which absolute links may point.
    """

    def __init__(self, blobs: BlobReader, entries: Mapping[str, TreeEntry], root: str) -> None:
        self._blobs = blobs
        self._root = root
        self._entries = {composed(path): entry for path, entry in entries.items()}
        self._unclear = _unclear_names(entries)
        self._contents: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file; None if it does not exist.

        Raises:
            CacheunitError: a link is not followed, two names differ only in their normal form, or the clone lacks the
                file's content.
        """
        if path not in self._contents:
            self._contents[path] = self._read(path)
        return self._contents[path]

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file; None if it does not exist."""
        data = self.read(path)
        return None if data is None else fingerprint(data)

    def has_folder(self, folder: str) -> bool:
        """Returns whether a folder exists, or a link in its place."""
        entry = self._entries.get(folder)
        is_link = entry is not None and entry.mode == _LINK
        return is_link or any(path.startswith(f"{folder}/") for path in self._entries)

    def walk(self, folder: str) -> list[str]:
        """Returns the paths of all files below a folder in order; names that start with a dot are skipped.

        Raises:
            CacheunitError: there is a link to a folder, which is not followed, or a name that is unclear.
        """
        follow_links(f"{folder}/x", self._link_target)  # raises where a part of the folder is a link
        below = (path for path in self._entries if path.startswith(f"{folder}/"))
        paths = sorted(path for path in below if not _has_hidden_part(path[len(folder) + 1 :]))
        for path in paths:
            self._refuse_unclear(path)
            if self._entries[path].mode == _LINK and self._is_folder_link(path):
                raise fail(LINKED_FOLDER, path=path, hint=LINKED_FOLDER_HINT)
        return [path for path in paths if self._entries[path].mode.startswith((_FILE, _LINK))]

    def twins(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Returns path -> a path in the commit that is another one here, and the same one on some systems."""
        names: dict[str, set[str]] = {}
        for path in filter(is_utf8, self._entries):
            parts = path.split("/")
            for depth, part in enumerate(parts):
                names.setdefault("/".join(parts[:depth]), set()).add(part)
        return twins(paths, lambda folder: names.get(folder, ()))

    def links_as_text(self, read: Callable[[str], bytes | None]) -> list[str]:
        """Returns the links of the commit that are files with the text of the link here, as `core.symlinks=false` does.

        Args:
            read: returns the bytes of a file that is checked out, not following links; None where there is none.
        """
        links = (path for path, entry in self._entries.items() if entry.mode == _LINK)
        return sorted(path for path in links if read(path) == self._blobs.read(path, self._entries[path].blob))

    def _read(self, path: str) -> bytes | None:
        """Reads a file, following links to files."""
        self._refuse_unclear(path)
        path = follow_links(path, self._link_target)
        entry = self._entries.get(path)
        return self._blobs.read(path, entry.blob) if entry is not None and entry.mode.startswith(_FILE) else None

    def _refuse_unclear(self, path: str) -> None:
        """Raises a fault if a part of a path is not UTF-8, or is there in two normal forms."""
        if path.isascii():
            return
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            problem = self._unclear.get("/".join(parts[:depth]))
            if problem is not None:
                raise fail(problem, path=printable_name("/".join(parts[:depth])), hint="rename or remove it")

    def _is_folder_link(self, path: str) -> bool:
        """Returns whether a link leads to a folder."""
        for _ in range(len(self._entries)):
            target = self._link_target(path)
            if target is None:
                return any(other.startswith(f"{path}/") for other in self._entries)
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return False

    def _link_target(self, path: str) -> str | None:
        """Returns where the link at a path points to, an absolute target inside of the root made relative.

        None for what is no link.
        """
        entry = self._entries.get(path)
        if entry is None or entry.mode != _LINK:
            return None
        # The content of a link is its target: "../shared/a.md.j2" in templates/x/ -> templates/shared/a.md.j2
        target = self._blobs.read(path, entry.blob).decode("utf-8", "surrogateescape")
        if target.startswith(f"{self._root}/"):
            target = posixpath.relpath(target, posixpath.dirname(f"{self._root}/{path}"))
        return composed(target)


def _unclear_names(paths: Iterable[str]) -> dict[str, str]:
    """Returns each composed path of a file or folder whose name is unclear, and why."""
    problems: dict[str, str] = {}
    forms: dict[str, set[str]] = {}  # composed path -> the names of its last part
    for path in paths:
        parts = [] if path.isascii() else path.split("/")
        for depth, part in enumerate(parts, 1):
            forms.setdefault(composed("/".join(parts[:depth])), set()).add(part)
    for path, names in forms.items():
        if not all(map(is_utf8, names)):
            problems[path] = "the name is not UTF-8"
        elif len(names) > 1:
            problems[path] = f"two names differ only in their normal form: {' and '.join(sorted(same_composed(names)))}"
    return problems


def _has_hidden_part(path: str) -> bool:
    """Returns whether a part of a path starts with a dot."""
    return any(part.startswith(".") for part in path.split("/"))


class BlobReader:
    """Reads contents from a repository, through one process of `git cat-file --batch` for all of them.

    Args:
        root: a folder of the work tree.
        label: the name of the revision, for messages.
    """

    def __init__(self, root: Path, label: str) -> None:
        self._root = root
        self._label = label
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def read(self, path: str, blob: str) -> bytes:
        """Returns the content with the id `blob`, of the file at `path`; one thread at a time.

        Raises:
            CacheunitError: the clone does not contain it, or git cannot be run.
        """
        data = self.find(blob)
        if data is None:
            hint = 'run "git fetch --refetch --no-filter", or compare with a lock'
            raise fail(f"this clone does not contain the files of {self._label}", path=path, hint=hint)
        return data

    def find(self, blob: str) -> bytes | None:
        """Returns the content with the id `blob`, as `read` does; None where the clone does not contain it.

        Raises:
            CacheunitError: git cannot be run.
        """
        with self._lock:
            try:
                return self._ask(blob)
            except OSError as error:
                raise cannot_run_git(error) from None

    def _ask(self, blob: str) -> bytes | None:
        """Sends "ID", receives "ID TYPE SIZE", the content and a newline; returns None for what is no blob."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - own arguments
                git_command("cat-file", "--batch"),
                cwd=self._root,
                env=git_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            weakref.finalize(self, _stop, self._process)
        requests, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        requests.write(f"{blob}\n".encode())
        requests.flush()
        header = answers.readline().split()
        if len(header) != 3:  # noqa: PLR2004 - id, type, size; or "ID missing"
            return None
        data = answers.read(int(header[2]))
        answers.read(1)
        return data if header[1] == b"blob" else None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends `git cat-file`, which stops when its input is closed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # git may have stopped before, which was reported
                stream.close()
    process.wait()
