"""Compares the software of cluster workers with that of this machine, since other software could give other bytes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.toolchain import DISTRIBUTIONS, software
from cacheunit_build.domain.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    Software = Mapping[str, tuple[str, str]]

_HINT = "run the scheduler and its workers from the same image, or the same requirements, as this command"


@cache
def installed_software() -> Software:
    """Returns package -> the hash of its files and its version, for all software that decides what is built.

    Raises:
        OSError: a package cannot be read.
    """
    return {package: (digest, _version(package, digest)) for package, digest in software().items()}


def _version(package: str, digest: str) -> str:
    if package not in DISTRIBUTIONS:  # the interpreter, whose identity is its version
        return digest
    try:
        return version(DISTRIBUTIONS[package])
    except PackageNotFoundError:
        return "of an unknown version"


def other_software(worker: str, theirs: Software) -> Fault | None:
    """Returns a fault if a worker has other software than this machine, else None.

    Args:
        worker: the address of the worker.
        theirs: its software.
    """
    ours = installed_software()
    packages = [name for name in sorted({*ours, *theirs}) if theirs.get(name) != ours.get(name)]
    if not packages:
        return None
    differences = "; ".join(_difference(name, theirs.get(name), ours.get(name)) for name in packages)
    return Fault(message=f"worker {worker} has other software: {differences}", hint=_HINT)


def _difference(package: str, theirs: tuple[str, str] | None, ours: tuple[str, str] | None) -> str:
    if ours is None:
        return f"{package}, not installed here"
    if theirs is None:
        return f"no {package}, here {ours[1]}"
    if theirs[1] == ours[1]:
        return f"{package} {ours[1]} with other files than here"
    return f"{package} {theirs[1]}, here {ours[1]}"
