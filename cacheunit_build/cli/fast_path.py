"""The fast path: a build or check with nothing to do, answered from the stamp of the last build.

It imports next to nothing, not even the library for command lines. Arguments that it does not know, and a project in
which anything changed, are left to the command line.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NO_REMOTE_VARIABLE = "CACHEUNIT_NO_REMOTE"
"""The environment variable that turns the remote cache off."""

_FORMATS = ("text", "json")
_WITHOUT_EFFECT = ("-q", "--quiet", "--no-project-code")
"""The options that change nothing where there is nothing to do."""


def unchanged_output(folder: str, arguments: Sequence[str]) -> str | None:
    """Returns what the command prints, if it is a build or check with nothing to do or to warn of; else None.

    Args:
        folder: the working folder.
        arguments: the arguments of the command line.
    """
    request = _parse(folder, arguments)
    if request is None:
        return None
    from cacheunit_build.adapters.storage.build_stamp import read_stamp
    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.adapters.storage.discovery import find_root

    folder, command, form = request
    stamp = read_stamp(CacheFolder(find_root(folder)))
    if stamp is None:
        return None
    if command == "check":
        return stamp.check_output(form)
    return stamp.build_output(form, trusts_remote=not os.environ.get(NO_REMOTE_VARIABLE))


def _parse(folder: str, arguments: Sequence[str]) -> tuple[str, str, str] | None:
    """Returns folder, command and report format of arguments that the fast path knows, else None.

    build                         -> (folder, "build", "text")
    check --format json -q -C DIR -> (DIR, "check", "json")
    build support/agent           -> None
    """
    rest, command, form, chosen = [*arguments], "", "text", folder
    while rest:
        argument = rest.pop(0)
        if argument == "-C" and rest:
            chosen = os.path.join(folder, rest.pop(0))  # the last one counts, as in the command line
        elif argument == "--format" and command and rest:
            form = rest.pop(0)
        elif argument.startswith("--format=") and command:
            form = argument.removeprefix("--format=")
        elif argument in ("build", "check") and not command:
            command = argument
        elif argument not in _WITHOUT_EFFECT:
            return None
        if not os.path.isdir(chosen):
            return None
    return (os.path.realpath(chosen), command, form) if command and form in _FORMATS else None
