"""What decides bytes besides a project's files: this package, its libraries, and the interpreter. Loads nothing."""

from __future__ import annotations

import os
import sys

from cacheunit_build.adapters.storage.file_stat import stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBRARIES = ("jinja2", "yaml", "tiktoken", "tokenizers", "jsonschema")
_DECIDING = (".py", ".toml")


def software() -> list[Any]:
    """The package's own files and the libraries that decide bytes, by stat; and the interpreter."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - pathlib takes longer to load
    own = [stat_of(path) for path in sorted(_below(package)) if path.endswith(_DECIDING)]
    libraries = [stat_of(origin) for name in _LIBRARIES if (origin := _origin(name))]
    return [sys.version, own, libraries]


def _below(folder: str) -> list[str]:
    found = []
    for entry in os.scandir(folder):
        if not entry.is_dir():
            found.append(entry.path)
        elif entry.name != "__pycache__":
            found += _below(entry.path)
    return found


def _origin(name: str) -> str | None:
    """The file that an import of that name loads first."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, None) if find else None
        if spec is not None:
            return str(spec.origin) if spec.origin else None
    return None
