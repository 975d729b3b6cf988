"""A project as it is in a commit of git: its files, and which commit is meant. Nothing is checked out."""

from __future__ import annotations

import posixpath
import subprocess
import threading
import unicodedata
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING, cast

from cacheunit_build.adapters.git.history import git_output
from cacheunit_build.domain.errors import did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAIN = ("refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master")
_MOST_LINKS = 40
_LINK = "120000"
_FILE = "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit by its id, what it is called, and what is to be known of the choice."""

    commit: str
    label: str
    note: str | None = None


class Repository:
    """The repository around a project.

    Args:
        root: the project's root, anywhere inside a work tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def prefix(self) -> str:
        """Where the project lies below the top of the work tree: "" or a path that ends in a slash.

        Raises:
            CacheunitError: there is no git, or no repository.
        """
        found = git_output(self._root, "rev-parse", "--show-prefix")
        if found is None:
            hint = "give --against a lock or a folder, or run it in a git work tree"
            raise fail(
                "this is no git work tree, or git is not installed: there is no revision to compare with", hint=hint
            )
        return found.decode("utf-8", "surrogateescape").rstrip("\n")

    def revision(self, name: str) -> Revision:
        """The commit of that name.

        Raises:
            CacheunitError: there is none here; says what to fetch in a shallow clone.
        """
        _ = self.prefix  # says what is wrong outside of a repository
        commit = self._commit(name)
        if commit is not None:
            return Revision(
                commit=commit, label=f"{name} ({commit[:7]})" if not commit.startswith(name) else commit[:7]
            )
        if self._shallow:
            branch = name.removeprefix("origin/")
            hint = f'this clone is shallow: run "git fetch --depth=1 origin {branch}", then compare with FETCH_HEAD'
            if set(name) & set("~^@:") or name.startswith("HEAD"):
                hint = 'this clone is shallow: run "git fetch --unshallow origin"'
        else:
            refs = git_output(self._root, "for-each-ref", "--format=%(refname:short)") or b""
            hint = did_you_mean(name, refs.decode("utf-8", "replace").split()) or "a branch, a tag, a commit, or a path"
        raise fail(f'there is no revision, file or folder "{name}"', hint=hint)

    def base(self) -> Revision:
        """Where this branch left the main one; the last commit where there is no other branch.

        Raises:
            CacheunitError: there is no commit yet, or a shallow clone lacks the common one; says what to fetch.
        """
        _ = self.prefix
        head = self._commit("HEAD")
        if head is None:
            raise fail(
                "there is no commit yet to compare with", hint="commit first, or give --against a lock or a folder"
            )
        main = self._main
        if main is None:
            if self._shallow:
                raise fail(
                    "this clone is shallow and has no main branch to compare with",
                    hint='run "git fetch --unshallow origin", or check out with full history (fetch-depth: 0)',
                )
            note = "no main branch is known: compared with the last commit; --against names another"
            return Revision(commit=head, label=f"HEAD ({head[:7]})", note=note)
        short = main.removeprefix("refs/remotes/").removeprefix("refs/heads/")
        found = (git_output(self._root, "merge-base", "HEAD", main) or b"").decode().strip()
        if not found:
            hint = 'run "git fetch --unshallow origin"' if self._shallow else "name a revision with --against"
            where = "this clone is shallow: it" if self._shallow else "this branch"
            raise fail(f"{where} has no common commit with {short}", hint=hint)
        if found == head and self._shallow and main not in _MAIN:
            raise fail(
                f"this clone is shallow and knows of {short} only, which is what is checked out",
                hint='run "git fetch --unshallow origin" and "git remote set-branches origin \'*\'", or give --against',
            )
        if found == head:
            return Revision(commit=head, label=f"HEAD ({head[:7]})")
        return Revision(commit=found, label=f"{short} (merge base {found[:7]})")

    def files(self, revision: Revision) -> RevisionFiles:
        """The project's files in that commit."""
        listed = git_output(self._root, "ls-tree", "-r", "-z", revision.commit)
        if listed is None:
            raise fail(f"git cannot list the files of {revision.label}")
        entries: dict[str, tuple[str, str]] = {}
        for line in listed.split(b"\0"):
            about, _, name = line.partition(b"\t")
            if name:
                mode, _, blob = about.decode().split(" ")
                path = unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape"))
                entries[path] = (mode, blob)
        return RevisionFiles(self._root, revision.label, entries)

    def _commit(self, name: str) -> str | None:
        found = git_output(self._root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return found.decode().strip() if found else None

    @cached_property
    def _main(self) -> str | None:
        """The main branch: what the remote calls so, else by its usual names."""
        remote = git_output(self._root, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
        names = ([remote.decode().strip()] if remote else []) + list(_MAIN)
        return next((name for name in names if self._commit(name) is not None), None)

    @cached_property
    def _shallow(self) -> bool:
        return git_output(self._root, "rev-parse", "--is-shallow-repository") == b"true\n"


class RevisionFiles:
    """A project's files in one commit, read-only; paths as in `DiskFiles`."""

    def __init__(self, root: Path, label: str, entries: Mapping[str, tuple[str, str]]) -> None:
        self._root = root
        self._label = label
        self._entries = entries
        self._read: dict[str, bytes | None] = {}
        self._git: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none.

        Raises:
            CacheunitError: a link leads out of the root, or the clone lacks the file's content.
        """
        if path not in self._read:
            self._read[path] = self._followed(path)
        return self._read[path]

    def fingerprint(self, path: str) -> str | None:
        """The fingerprint of a file, None where there is none."""
        data = self.read(path)
        return None if data is None else fingerprint(data)

    def exists(self, folder: str) -> bool:
        """Whether there is such a folder."""
        return any(path.startswith(f"{folder}/") for path in self._entries)

    def walk(self, folder: str) -> list[str]:
        """Every file below `folder`, by code point; names that start with a dot are passed over."""
        inside = (path for path in self._entries if path.startswith(f"{folder}/"))
        listed = sorted(
            path for path in inside if not any(p.startswith(".") for p in path[len(folder) + 1 :].split("/"))
        )
        for path in listed:
            if self._entries[path][0] == _LINK and self.exists(self._target(path)):
                raise fail("a link to a folder is not followed", path=path)
        return [path for path in listed if self._entries[path][0].startswith((_FILE, _LINK))]

    def _followed(self, path: str) -> bytes | None:
        for _ in range(_MOST_LINKS):
            mode, blob = self._entries.get(path, ("", ""))
            if mode.startswith(_FILE):
                return self._blob(path, blob)
            if mode != _LINK:
                return None
            path = self._target(path)
            if path.startswith("../"):
                raise fail(f'"{path}" leads out of the project by a link', hint="copy the file into the project")
        raise fail(f'"{path}" is a link that leads to itself')

    def _target(self, path: str) -> str:
        """Where a link leads, relative to the root."""
        goal = (self._blob(path, self._entries[path][1]) or b"").decode("utf-8", "surrogateescape")
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), goal)) if goal[:1] != "/" else f"../{goal}"

    def _blob(self, path: str, blob: str) -> bytes:
        """The content of a blob, through one process of git for all, asked by one thread at a time."""
        with self._asking:
            return self._answer(path, blob)

    def _answer(self, path: str, blob: str) -> bytes:
        if self._git is None:
            self._git = subprocess.Popen(
                ["git", "cat-file", "--batch"],  # noqa: S607 - the user's git
                cwd=self._root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            weakref.finalize(self, _end, self._git)
        asked, answered = cast("IO[bytes]", self._git.stdin), cast("IO[bytes]", self._git.stdout)
        asked.write(f"{blob}\n".encode())
        asked.flush()
        header = answered.readline().split()
        if len(header) != 3 or header[1] != b"blob":  # noqa: PLR2004 - id, type, size
            hint = "fetch it, or compare with a lock"
            raise fail(f"this clone does not have the content of {self._label}", path=path, hint=hint)
        data = answered.read(int(header[2]))
        answered.read(1)
        return data


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()
