"""What all targets of `fuzz.py` share: their form, their properties, and where seeds come from."""

from __future__ import annotations

import importlib
import json
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ROOT / "tests/projects"
MOST_SEED_BYTES = 100_000


class PropertyError(Exception):
    """A result does not have a property that it must have."""


def require(holds: bool, broken: str) -> None:  # noqa: FBT001 - as in assert
    """Raises a PropertyError unless something holds."""
    if not holds:
        raise PropertyError(broken)


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to fuzz.

    Attributes:
        run: reads an input; raises what it must not.
        seeds: returns the valid inputs to start from.
        form: what inputs are, for mutations: `json`, `text` or `bytes`.
        head: how many bytes in front choose what the rest is, and are not part of it.
        words: words to insert into a text.
        shown: returns an input as a person would write it.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    form: str
    head: int = 0
    words: Sequence[str] = ()
    shown: Callable[[bytes], object] = bytes


def require_text(value: Any) -> None:  # noqa: ANN401 - any value of a file
    """Requires that a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PropertyError("a text has a lone surrogate") from None


@cache
def scratch() -> Path:
    """Returns a folder for files that must be on disk to be read."""
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108


def seed_files(*patterns: str) -> list[bytes]:
    """Returns the files of this repository and of the test projects that match one of these patterns."""
    folders = (ROOT / "prefixes", ROOT / "templates", PROJECTS)
    paths = [path for pattern in patterns for folder in folders for path in sorted(folder.rglob(pattern))]
    return list(dict.fromkeys(path.read_bytes() for path in paths if path.stat().st_size < MOST_SEED_BYTES))


def atheris() -> Any:  # noqa: ANN401 - it has no types
    """Returns the module atheris."""
    return importlib.import_module("atheris")
