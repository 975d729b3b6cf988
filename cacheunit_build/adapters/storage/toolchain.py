"""Identifies the software that decides the bytes of a build: this package, its libraries and the interpreter.

It imports no library, since the fast path runs it at every build.
"""

from __future__ import annotations

import os
import sys

from cacheunit_build.adapters.storage.file_stat import stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBRARIES = ("jinja2", "yaml", "tiktoken", "tokenizers", "jsonschema")
_SUFFIXES = (".py", ".toml")


def software() -> list[Any]:
    """Returns a value that changes whenever this software does, to be compared with one of an earlier build.

    Returns:
        The interpreter's version, the stat of each source file of this package, and of each library's first file.

    Raises:
        OSError: the folder of this package cannot be listed.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    own = [stat_of(path) for path in sorted(_files_below(package)) if path.endswith(_SUFFIXES)]
    libraries = [stat_of(origin) for name in _LIBRARIES if (origin := _origin(name))]
    return [sys.version, own, libraries]


def _files_below(folder: str) -> list[str]:
    """Returns the paths of all files below a folder, except compiled ones."""
    files = []
    for entry in os.scandir(folder):
        if not entry.is_dir():
            files.append(entry.path)
        elif entry.name != "__pycache__":
            files += _files_below(entry.path)
    return files


def _origin(name: str) -> str | None:
    """Returns the file that an import of a module would load first; None if it is not installed.

    It asks the finders themselves: `importlib.util` takes longer to load.
    """
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, None) if find else None
        if spec is not None:
            return str(spec.origin) if spec.origin else None
    return None
