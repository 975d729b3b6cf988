"""Reads a project as it is in a commit of git, without checking it out, and finds the commit to compare with."""

from __future__ import annotations

import contextlib
import posixpath
import subprocess
import threading
import unicodedata
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING, cast

from cacheunit_build.adapters.git.command import cannot_run_git, git_output
from cacheunit_build.domain.errors import did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAIN_BRANCHES = ("refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master")
_MAX_LINKS = 40
_LINK = "120000"
"""Git's mode of a symbolic link."""
_FILE = "100"
"""How git's modes of files begin: 100644, or 100755 for an executable one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit.

    Attributes:
        commit: its id.
        label: its name in reports.
        note: what the user should know about why it was chosen; None if there is nothing to say.
    """

    commit: str
    label: str
    note: str | None = None


class Repository:
    """The git repository that contains a project.

    Args:
        root: the project root, anywhere in a work tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def prefix(self) -> str:
        """The path of the project below the top of the work tree: "" or a path that ends in a slash.

        Raises:
            CacheunitError: there is no git, or no repository.
        """
        output = git_output(self._root, "rev-parse", "--show-prefix")
        if output is None:
            raise fail(
                "not in a git work tree, or git is not installed: there is no revision to compare with",
                hint="use --against with a lock or a folder, or run it in a git work tree",
            )
        return output.decode("utf-8", "surrogateescape").rstrip("\n")

    def revision(self, name: str) -> Revision:
        """Returns the commit that a branch, a tag or an id names.

        Raises:
            CacheunitError: there is none; in a shallow clone the hint says what to fetch.
        """
        _ = self.prefix  # raises outside of a repository
        commit = self._commit(name)
        if commit is None:
            raise fail(f'there is no revision, file or folder "{name}"', hint=self._missing_revision_hint(name))
        label = commit[:7] if commit.startswith(name) else f"{name} ({commit[:7]})"
        return Revision(commit=commit, label=label)

    def _missing_revision_hint(self, name: str) -> str:
        """Returns a hint for a revision that does not exist: a similar name, or what a shallow clone has to fetch."""
        if not self._shallow:
            refs = git_output(self._root, "for-each-ref", "--format=%(refname:short)") or b""
            names = refs.decode("utf-8", "replace").split()
            return did_you_mean(name, names) or "expected a branch, a tag, a commit, or a path"
        if set(name) & set("~^@:") or name.startswith("HEAD"):
            return 'this clone is shallow: run "git fetch --unshallow origin"'
        branch = name.removeprefix("origin/")
        return f'this clone is shallow: run "git fetch --depth=1 origin {branch}", then compare with FETCH_HEAD'

    def base(self) -> Revision:
        """Returns the commit where this branch left the main branch; the last commit if there is no other branch.

        Raises:
            CacheunitError: there is no commit, or a shallow clone lacks the common one; the hint says what to fetch.
        """
        _ = self.prefix  # raises outside of a repository
        head = self._commit("HEAD")
        if head is None:
            hint = "commit first, or use --against with a lock or a folder"
            raise fail("there is no commit yet to compare with", hint=hint)
        last_commit = Revision(commit=head, label=f"HEAD ({head[:7]})")
        if self._main_branch is None:
            return self._without_main_branch(last_commit)
        main = self._main_branch.removeprefix("refs/remotes/").removeprefix("refs/heads/")
        # On a branch: the commit where it left main. On main itself, that is HEAD: compare with the last commit.
        common = (git_output(self._root, "merge-base", "HEAD", self._main_branch) or b"").decode().strip()
        if not common:
            hint = 'run "git fetch --unshallow origin"' if self._shallow else "name a revision with --against"
            subject = "this clone is shallow: it" if self._shallow else "this branch"
            raise fail(f"{subject} has no common commit with {main}", hint=hint)
        if common != head:
            return Revision(commit=common, label=f"{main} (merge base {common[:7]})")
        # A shallow clone of a topic branch takes that branch for the remote's default one.
        if self._shallow and self._main_branch not in _MAIN_BRANCHES:
            raise fail(
                f"this clone is shallow and contains only {main}, which is checked out",
                hint='run "git fetch --unshallow origin" and "git remote set-branches origin \'*\'", or use --against',
            )
        return last_commit

    def _without_main_branch(self, last_commit: Revision) -> Revision:
        """Returns the last commit with a note; a shallow clone may lack the main branch, and is refused."""
        if self._shallow:
            raise fail(
                "this clone is shallow and has no main branch to compare with",
                hint='run "git fetch --unshallow origin", or check out with full history (fetch-depth: 0)',
            )
        note = "no main branch found: compared with the last commit; use --against to compare with another revision"
        return Revision(commit=last_commit.commit, label=last_commit.label, note=note)

    def files(self, revision: Revision) -> RevisionFiles:
        """Returns the project's files in a commit.

        Raises:
            CacheunitError: git cannot list them.
        """
        listing = git_output(self._root, "ls-tree", "-r", "-z", revision.commit)
        if listing is None:
            raise fail(f"git cannot list the files of {revision.label}")
        entries: dict[str, TreeEntry] = {}
        for line in listing.split(b"\0"):  # "MODE blob ID\tPATH"
            attributes, _, name = line.partition(b"\t")
            if name:
                mode, _, blob = attributes.decode().split(" ")
                path = unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape"))
                entries[path] = TreeEntry(mode=mode, blob=blob)
        return RevisionFiles(_BlobReader(self._root, revision.label), entries)

    def _commit(self, name: str) -> str | None:
        """Returns the id of a commit by a name such as `main` or `HEAD~2`; None if there is none."""
        # ^{commit} resolves an annotated tag to its commit, and refuses names of other objects.
        output = git_output(self._root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return output.decode().strip() if output else None

    @cached_property
    def _main_branch(self) -> str | None:
        """The main branch: the default branch of the remote, or one with a usual name."""
        remote = git_output(self._root, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
        names = ([remote.decode().strip()] if remote else []) + list(_MAIN_BRANCHES)
        return next((name for name in names if self._commit(name) is not None), None)

    @cached_property
    def _shallow(self) -> bool:
        return git_output(self._root, "rev-parse", "--is-shallow-repository") == b"true\n"


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
        entries: the files and links by path, relative to the project root.
    """

    def __init__(self, blobs: _BlobReader, entries: Mapping[str, TreeEntry]) -> None:
        self._blobs = blobs
        self._entries = entries
        self._contents: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file; None if it does not exist.

        Raises:
            CacheunitError: a link leads out of the root, or the clone lacks the file's content.
        """
        if path not in self._contents:
            self._contents[path] = self._read(path)
        return self._contents[path]

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file; None if it does not exist."""
        data = self.read(path)
        return None if data is None else fingerprint(data)

    def has_folder(self, folder: str) -> bool:
        """Returns whether a folder exists."""
        return any(path.startswith(f"{folder}/") for path in self._entries)

    def real_path(self, path: str) -> str:
        """Returns the path: a link to a folder is not followed in a commit."""
        return path

    def walk(self, folder: str) -> list[str]:
        """Returns the paths of all files below a folder in order; names that start with a dot are skipped.

        Raises:
            CacheunitError: there is a link to a folder, which is not followed.
        """
        below = (path for path in self._entries if path.startswith(f"{folder}/"))
        paths = sorted(path for path in below if not _has_hidden_part(path[len(folder) + 1 :]))
        for path in paths:
            if self._entries[path].mode == _LINK and self.has_folder(self._link_target(path)):
                raise fail("a link to a folder is not followed", path=path)
        return [path for path in paths if self._entries[path].mode.startswith((_FILE, _LINK))]

    def _read(self, path: str) -> bytes | None:
        """Reads a file, following links."""
        for _ in range(_MAX_LINKS):
            entry = self._entries.get(path)
            if entry is None:
                return None
            if entry.mode.startswith(_FILE):
                return self._blobs.read(path, entry.blob)
            if entry.mode != _LINK:
                return None
            path = self._link_target(path)
            if path.startswith("../"):
                raise fail(f'"{path}" is a link out of the project', hint="copy the file into the project")
        raise fail(f'"{path}" is a link to itself')

    def _link_target(self, path: str) -> str:
        """Returns the path that a link points to, relative to the root; it starts with "../" if it is outside."""
        # The content of a link is its target: "../shared/a.md.j2" in templates/x/ -> templates/shared/a.md.j2
        target = self._blobs.read(path, self._entries[path].blob).decode("utf-8", "surrogateescape")
        if target.startswith("/"):
            return f"../{target}"
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _has_hidden_part(path: str) -> bool:
    """Returns whether a part of a path starts with a dot."""
    return any(part.startswith(".") for part in path.split("/"))


class _BlobReader:
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
        with self._lock:
            try:
                data = self._ask(blob)
            except OSError as error:
                raise cannot_run_git(error) from None
        if data is None:
            hint = 'run "git fetch", or compare with a lock'
            raise fail(f"this clone does not contain the files of {self._label}", path=path, hint=hint)
        return data

    def _ask(self, blob: str) -> bytes | None:
        """Sends "ID", receives "ID blob SIZE", the content and a newline; returns None for any other answer."""
        if self._process is None:
            self._process = subprocess.Popen(
                ["git", "cat-file", "--batch"],  # noqa: S607 - the user's git
                cwd=self._root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            weakref.finalize(self, _stop, self._process)
        requests, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        requests.write(f"{blob}\n".encode())
        requests.flush()
        header = answers.readline().split()
        if len(header) != 3 or header[1] != b"blob":  # noqa: PLR2004 - id, type, size
            return None
        data = answers.read(int(header[2]))
        answers.read(1)
        return data


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends `git cat-file`, which stops when its input is closed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # git may have stopped before, which was reported
                stream.close()
    process.wait()
