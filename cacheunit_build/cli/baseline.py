"""Finds what `diff --against` names: a revision, a folder with a project, or a lock.

value           is                                          compared with
main            a branch, and a folder                      the branch, with a note
origin/main     a branch, and a folder                      the branch, with a note
./main          a folder                                    the folder
old             a folder                                    the folder
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.git.revision import Repository
from cacheunit_build.adapters.storage.project_files import DiskFiles
from cacheunit_build.cli.context import read_file
from cacheunit_build.cli.project_code import encoder_loader
from cacheunit_build.diff.diff import Baseline
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE, SETTINGS_FILES
from cacheunit_build.domain.protocols import OldVersion
from cacheunit_build.lockfile.format import parse_lock

if TYPE_CHECKING:
    from cacheunit_build.adapters.git.revision import Revision
    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.domain.protocols import SourceFiles


def find_baseline(folder: Path, project: OpenProject, against: str | None) -> Baseline:
    """Returns what to compare with: a revision, else a folder or file of that name; what begins with `./` is a path.

    Args:
        folder: the working folder, to which paths are relative.
        project: the project.
        against: the name; None for the commit where this branch left the main branch.

    Raises:
        CacheunitError: there is none of that name, or the folder has no project.
    """
    if against == "":
        raise click.UsageError("--against is empty: name a revision, a lock or a folder")
    repository = Repository(project.root)
    if against is None:
        return _of_revision(project, repository, repository.base())
    path = folder / against
    if not path.is_dir() and not path.is_file():
        return _of_revision(project, repository, repository.revision(against, "revision, file or folder"))
    revision = None if _is_path(against) else repository.find(against)
    if revision is None:
        return _of_path(project, path, against)
    kind = "folder" if path.is_dir() else "file"
    note = f'"{against}" is a revision, and a {kind} too: compared with the revision; use "./{against}" for the {kind}'
    return _of_revision(project, repository, revision, note)


def _is_path(against: str) -> bool:
    """Returns whether a value is written as a path: `./old`, `../old`, or from the root of the file system."""
    return Path(against).is_absolute() or against.replace(os.sep, "/").partition("/")[0] in (".", "..")


def last_commit(project: OpenProject, repository: Repository) -> Baseline:
    """Returns the last commit as what to compare with; its files are listed when they are needed.

    Raises:
        CacheunitError: there is no git, no repository or no commit.
    """
    _ = repository.prefix  # raises outside of a repository
    revision = repository.find("HEAD")
    if revision is None:
        raise fail("there is no commit yet")
    return Baseline(label=revision.label, old_version=lambda: _old_version(project, repository.files(revision)))


def main_branch(project: OpenProject, repository: Repository) -> Baseline:
    """Returns the commit where this branch left the main branch, else the last one, to compare with.

    Raises:
        CacheunitError: there is no git, no repository or no commit.
    """
    revision = repository.base()
    return Baseline(label=revision.label, old_version=lambda: _old_version(project, repository.files(revision)))


def _of_path(project: OpenProject, path: Path, against: str, *notes: str) -> Baseline:
    """Returns a folder with a project, or a lock, as what to compare with."""
    if path.is_file():
        return Baseline(label=against, lock=parse_lock(read_file(path), against), notes=notes)
    files = DiskFiles(path)
    if not files.has_folder("prefixes") and not _has_project_file(files):
        raise fail(f'there is no project in "{against}"', hint="name a folder with manifests or settings")
    return Baseline(label=against, old_version=lambda: _old_version(project, files), notes=notes)


def _of_revision(project: OpenProject, repository: Repository, revision: Revision, *notes: str) -> Baseline:
    """Returns a revision as what to compare with."""
    committed = repository.files(revision)
    texts = committed.links_as_text(lambda file: _text_of_file(project.root / file))
    all_notes = (
        *notes,
        *(() if revision.note is None else (revision.note,)),
        *(f"{file} is a link in {revision.label}, but a text file here (core.symlinks=false)" for file in texts),
    )
    return Baseline(label=revision.label, old_version=lambda: _old_version(project, committed), notes=all_notes)


def _text_of_file(file: Path) -> bytes | None:
    """Returns the bytes of a file that is no link; None where there is none."""
    return file.read_bytes() if file.is_file() and not file.is_symlink() else None


def _has_project_file(files: DiskFiles) -> bool:
    return any(files.read(name) is not None for name in (*SETTINGS_FILES, LOCK_FILE))


def _old_version(project: OpenProject, files: SourceFiles) -> OldVersion:
    """Returns an older version of the project, with the vocabularies that are loaded already."""
    return OldVersion(
        files=files,
        tokenizers=project.tokenizers.with_project_files(files.read),
        encoder=encoder_loader(project.files, files, refused=project.no_project_code),
    )
