"""Runs git such that git's variables do not choose the repository, and the repository's settings run no programs.

A repository may come from a stranger, with its settings. So git is kept from running the programs that they name: file
system monitors, hooks, and transports for objects that the clone lacks. Commands that run others are not used: `git
diff` runs filters and external programs, and `git log` may verify signatures.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, fail

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_GIT = (
    *("git", "--no-pager"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),  # a folder of the checkout that looks like a repository is none
)
_KEPT = frozenset(
    (
        *("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),  # the user's own git
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    )
)
"""Git's variables that are passed on. Hooks run with others, which name another repository, index or folder."""
_OWN = {
    "GIT_ALLOW_PROTOCOL": "",  # no object is fetched, by whatever program the repository names
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages in one language
    "LANGUAGE": "",
}


def run_git(folder: Path, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs git in a folder with `data` as its input, and returns its exit code and output.

    Raises:
        CacheunitError: git cannot be run.
    """
    try:
        return subprocess.run(  # noqa: S603 - own arguments, and names that follow --end-of-options or --
            git_command(*arguments), cwd=folder, capture_output=True, check=False, input=data, env=git_environment()
        )
    except OSError as error:
        raise cannot_run_git(error) from None


def git_output(folder: Path, *arguments: str) -> bytes | None:
    """Runs git in a folder, and returns its standard output; None if git fails or cannot be run."""
    try:
        result = run_git(folder, *arguments)
    except CacheunitError:
        return None
    return result.stdout if result.returncode == 0 else None


def git_command(*arguments: str) -> list[str]:
    """Returns the command that runs the user's git with these arguments."""
    return [*_GIT, *arguments]


def git_environment() -> Mapping[str, str]:
    """Returns the environment that git runs in: this one without git's variables, but with trusted folders."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    trusted = [value for name, value in _settings_in_environment() if name.lower() == "safe.directory"]
    for index, value in enumerate(trusted):
        environment |= {f"GIT_CONFIG_KEY_{index}": "safe.directory", f"GIT_CONFIG_VALUE_{index}": value}
    count = {"GIT_CONFIG_COUNT": str(len(trusted))} if trusted else {}
    return environment | count | _OWN


def _settings_in_environment() -> list[tuple[str, str]]:
    """Returns name and value of each setting that variables of git define."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    indexes = range(min(int(count), 1000)) if re.fullmatch(r"[0-9]{1,9}", count) else ()
    get = os.environ.get
    return [(get(f"GIT_CONFIG_KEY_{index}", ""), get(f"GIT_CONFIG_VALUE_{index}", "")) for index in indexes]


def cannot_run_git(error: OSError) -> CacheunitError:
    """Returns the error to report if git cannot be started, or has stopped."""
    hint = "install git" if isinstance(error, FileNotFoundError) else None
    return fail(f"cannot run git: {error.strerror}", hint=hint)


def git_message(result: subprocess.CompletedProcess[bytes]) -> str:
    """Returns the first line of git's error output."""
    return _error_output(result).partition("\n")[0].removeprefix("fatal: ")


def trust_hint(result: subprocess.CompletedProcess[bytes]) -> str | None:
    """Returns how to allow git to read a repository that belongs to another user; None if that is not the reason."""
    command = re.search(r"git config --global --add safe\.directory .*", _error_output(result))
    return f'if you trust it, run "{command[0].strip()}"' if command else None


def _error_output(result: subprocess.CompletedProcess[bytes]) -> str:
    return result.stderr.decode("utf-8", "backslashreplace").strip()
