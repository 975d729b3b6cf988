"""Builds copies of a project in processes of their own, each under other conditions and without a cache."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CODE = "from cacheunit_build.cli.entry import main; main()"
_KEPT = (
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"),
    *("TMPDIR", "TEMP", "TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"),
)
"""The environment variables that say where programs and vocabularies are; no other one is passed on.

Where packages are, is taken from this process."""

_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conditions:
    """What is different about one rebuild.

    Attributes:
        folder: the path of the project below a temporary folder.
        working_folder: the working folder of the process, relative to the project.
        umask: which permissions new files lack.
        reverse: whether files are created in reverse order.
        variables: environment variables.
    """

    folder: str
    working_folder: str
    umask: int
    reverse: bool
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        variables = ", ".join(f"{name}={value}" for name, value in sorted(self.variables.items()))
        order = "reverse" if self.reverse else "alphabetical"
        return f"{variables}, umask {self.umask:03o}, files created in {order} order"


_CONDITIONS = (
    _Conditions(
        folder="a",
        working_folder=".",
        umask=0o077,
        reverse=True,
        variables={"LC_ALL": "C", "PYTHONHASHSEED": "1", "PYTHONUTF8": "0", "TZ": "UTC+11"},
    ),
    _Conditions(
        folder="with space/größer/日本",
        working_folder="..",
        umask=0o022,
        reverse=False,
        variables={"LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "4294967295", "TZ": "Asia/Kathmandu", "USER": "else"},
    ),
    _Conditions(
        folder="prefixes/build/templates",
        working_folder="../../..",
        umask=0o002,
        reverse=True,
        variables={"COLUMNS": "20", "LC_ALL": "sv_SE.ISO-8859-1", "PYTHONHASHSEED": "random", "SOURCE_DATE_EPOCH": "1"},
    ),
)


class IsolatedRebuild:
    """Builds copies of a project; implements the protocol `Rebuild`.

    Args:
        project_code: whether they may run the encoders of the project.
    """

    def __init__(self, *, project_code: bool = True) -> None:
        self._options = () if project_code else ("--no-project-code",)
        self._conditions = {str(conditions): conditions for conditions in _CONDITIONS}

    @property
    def conditions(self) -> Sequence[str]:
        """What is different about each rebuild."""
        return tuple(self._conditions)

    def __call__(
        self, conditions: str, sources: Mapping[str, bytes], outputs: Sequence[str]
    ) -> Mapping[str, bytes] | str:
        """Builds a copy of these sources in a temporary folder.

        Args:
            conditions: one of `conditions`.
            sources: the bytes of each source by its path.
            outputs: the files and folders to return.

        Returns:
            The bytes of each file of the outputs by its path, or why the build failed.
        """
        chosen = self._conditions[conditions]
        try:
            with tempfile.TemporaryDirectory(prefix="cacheunit-") as top:
                root = Path(top, chosen.folder)
                _write(root, sources, reverse=chosen.reverse)
                ran = self._build(Path(top), root, chosen)
                if ran.returncode != 0:
                    return ran.stderr.decode("utf-8", "replace").strip() or f"exit code {ran.returncode}"
                return _read_outputs(root, outputs)
        except subprocess.TimeoutExpired:
            return f"the build took longer than {_SECONDS} seconds"
        except OSError as error:
            return f"cannot write a copy: {error.strerror or error}"

    def _build(self, top: Path, root: Path, chosen: _Conditions) -> subprocess.CompletedProcess[bytes]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # Wherever the packages of this process are, as in the user's home, which is another one there.
        python = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONUSERBASE": site.getuserbase()}
        cache = {"HOME": str(top), "CACHEUNIT_CACHE_DIR": str(top / "cache")}
        return subprocess.run(  # noqa: S603 - this very program
            [sys.executable, "-P", "-c", _CODE, "-q", *self._options, "-C", root, "build", "--no-remote"],
            cwd=(root / chosen.working_folder).resolve(),
            env={**kept, **python, **cache, **chosen.variables},
            umask=chosen.umask if os.name == "posix" else -1,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )


def _write(root: Path, sources: Mapping[str, bytes], *, reverse: bool) -> None:
    root.mkdir(parents=True)
    for path in sorted(sources, reverse=reverse):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(sources[path])


def _read_outputs(root: Path, outputs: Sequence[str]) -> dict[str, bytes]:
    paths = [path for output in outputs for path in (root / output, *(root / output).rglob("*")) if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
