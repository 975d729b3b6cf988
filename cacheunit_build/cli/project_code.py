"""Decides whether the Python encoders that a project names may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import SETTINGS_FILES
from cacheunit_build.domain.settings_file import PROJECT_CODE, allows_project_code

if TYPE_CHECKING:
    from cacheunit_build.domain.protocols import EncoderLoader, SourceFiles

OPTION = "--no-project-code"
VARIABLE = "CACHEUNIT_NO_PROJECT_CODE"

COMMANDS = frozenset(
    ("build", "calibrate", "check", "count", "diff", "explain", "lint", "pad", "show", "verify", "watch")
)
"""The commands that compile or count for a target, and so run the Python encoder that it names."""


def encoder_loader(*versions: SourceFiles, refused: bool) -> EncoderLoader:
    """Returns the loader of Python encoders: one that runs them, or one that refuses those of the project.

    Args:
        versions: the versions of the project that a command reads; the settings of each may refuse encoders, and none
            can allow what the command line refuses.
        refused: whether the command line refuses them.
    """
    from cacheunit_build.adapters.system.python_encoder import load_python_encoder, trusted_encoder_loader
    from cacheunit_build.targets.loader import SHIPPED_ENCODERS

    if refused:
        hint = f"read the file; to run it, leave out {OPTION}, and set no {VARIABLE}"
        return trusted_encoder_loader(SHIPPED_ENCODERS, OPTION, hint)
    if not all(allows_project_code(*map(version.read, SETTINGS_FILES)) for version in versions):
        hint = f'read the file; to run it, remove "{PROJECT_CODE}" from the settings'
        return trusted_encoder_loader(SHIPPED_ENCODERS, f'"{PROJECT_CODE} = false"', hint)
    return load_python_encoder


def help_line(command: str) -> str:
    """Returns the line in the help of a command that says whether it may run code of the project."""
    if command in COMMANDS:
        return f"May run the Python encoder that a target of the project names; cacheunit {OPTION} refuses it."
    return "Runs no code of the project."
