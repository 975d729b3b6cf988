"""Opens an older version of a project, to be compiled in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.cli.project_code import encoder_loader
from cacheunit_build.domain.protocols import OldVersion

if TYPE_CHECKING:
    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.domain.protocols import SourceFiles


def old_version(project: OpenProject, files: SourceFiles) -> OldVersion:
    """Returns an older version of the project, with the vocabularies that are loaded already."""
    return OldVersion(
        files=files,
        tokenizers=project.tokenizers.with_project_files(files.read),
        encoder=encoder_loader(project.files, files, refused=project.no_project_code),
    )
