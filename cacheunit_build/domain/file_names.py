"""The names of files and folders with a fixed place in a project, and of variants. Imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LOCK_FILE = "cacheunit.lock"
"""The lockfile."""

SETTINGS_FILES = ("pyproject.toml", "cacheunit.toml")
"""The files that may hold the settings; only one of them does."""

LINE_ENDS_HINT = (
    'git converted the files at checkout: add "build/** -text" and "cacheunit.lock -text" to .gitattributes, '
    'delete them, and run "git checkout -- ."'
)
"""What to do where git converted artifacts to CRLF."""

CACHE_FOLDER = ".cacheunit"
"""The local cache."""

LOCK_VERSION = 2
"""The version of the lock's format that this code writes. It reads version 1 too."""


def variant_name(prefix: str, axes: Mapping[str, object]) -> str:
    """Returns the name of a variant, such as `support/agent@locale=de,plan=pro`; without axes, that of the prefix."""
    from urllib.parse import quote

    values = ",".join(f"{axis}={quote(axis_spelling(axes[axis]), safe='')}" for axis in sorted(axes))
    return f"{prefix}@{values}" if values else prefix


def axis_values(axes: str) -> list[tuple[str, str]]:
    """Returns the name and the value of each axis in the part of a variant's name behind the @; none for an empty one.

    locale=de,plan=a%2Fb  ->  (locale, de), (plan, a/b)
    """
    from urllib.parse import unquote

    pairs = (item.partition("=") for item in axes.split(",") if item)
    return [(axis, unquote(value)) for axis, _, value in pairs]


def axis_spelling(value: object) -> str:
    """Returns an axis value as it is in a variant's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)
