"""Reads a project as it is in a commit of git, without checking it out, and finds the commit to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.command import git_message, git_output, run_git, trust_hint
from cacheunit_build.adapters.git.revision_files import BlobReader, RevisionFiles, TreeEntry
from cacheunit_build.domain.errors import did_you_mean, fail

if TYPE_CHECKING:
    from pathlib import Path

_MAIN_BRANCHES = ("refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master")


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
        result = run_git(self._root, "rev-parse", "--show-prefix")
        if result.returncode != 0:
            trust = trust_hint(result)
            subject = "git does not read this repository" if trust else "not in a git work tree"
            hint = trust or "run it in a git work tree; diff can use --against with a lock or a folder too"
            raise fail(f"{subject}: {git_message(result)}", hint=hint)
        return result.stdout.decode("utf-8", "backslashreplace").rstrip("\n")

    def revision(
        self, name: str, kinds: str = "revision", expected: str = "a branch, a tag, a commit, or a path"
    ) -> Revision:
        """Returns the commit that a branch, a tag or an id names.

        Args:
            name: the name.
            kinds: what else the option takes, for the message.
            expected: what the option takes, for the hint.

        Raises:
            CacheunitError: there is none; in a shallow clone the hint says what to fetch.
        """
        _ = self.prefix  # raises outside of a repository
        revision = self.find(name)
        if revision is None:
            raise fail(f'there is no {kinds} "{name}"', hint=self._missing_revision_hint(name, expected))
        return revision

    def find(self, name: str) -> Revision | None:
        """Returns the commit that a branch, a tag or an id names; None if there is none, or no repository."""
        commit = self._commit(name)
        if commit is None:
            return None
        label = commit[:7] if commit.startswith(name) else f"{_short_name(name)} ({commit[:7]})"
        return Revision(commit=commit, label=label)

    def _missing_revision_hint(self, name: str, expected: str) -> str:
        """Returns a hint for a revision that does not exist: a similar name, or what a shallow clone has to fetch."""
        if not self.is_shallow:
            refs = git_output(self._root, "for-each-ref", "--format=%(refname:short)") or b""
            names = refs.decode("utf-8", "replace").split()
            return did_you_mean(name, names) or f"expected {expected}"
        if set(name) & set("~^@:") or name.startswith("HEAD"):
            return 'this clone is shallow: run "git fetch --unshallow origin"'
        branch = _short_name(name).removeprefix("origin/")
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
            hint = 'run "git fetch --unshallow origin"' if self.is_shallow else "name a revision with --against"
            subject = "this clone is shallow: it" if self.is_shallow else "this branch"
            raise fail(f"{subject} has no common commit with {main}", hint=hint)
        if common != head:
            return Revision(commit=common, label=f"{main} (merge base {common[:7]})")
        # A shallow clone of a topic branch takes that branch for the remote's default one.
        if self.is_shallow and self._main_branch not in _MAIN_BRANCHES:
            raise fail(
                f"this clone is shallow and contains only {main}, which is checked out",
                hint='run "git fetch --unshallow origin" and "git remote set-branches origin \'*\'", or use --against',
            )
        return last_commit

    def _without_main_branch(self, last_commit: Revision) -> Revision:
        """Returns the last commit with a note; a shallow clone may lack the main branch, and is refused."""
        if self.is_shallow:
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
                entries[name.decode("utf-8", "surrogateescape")] = TreeEntry(mode=mode, blob=blob)
        return RevisionFiles(BlobReader(self._root, revision.label), entries, str(self._root))

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
    def is_shallow(self) -> bool:
        """Whether older commits are missing in this clone."""
        return git_output(self._root, "rev-parse", "--is-shallow-repository") == b"true\n"


def _short_name(name: str) -> str:
    """Returns a branch or tag without what its full name begins with: `refs/remotes/origin/main` -> `origin/main`."""
    for kind in ("refs/heads/", "refs/remotes/", "refs/tags/"):
        name = name.removeprefix(kind)
    return name
