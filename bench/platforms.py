"""Tries the product on file systems with other rules: real ones, and those of other platforms simulated by FUSE.

Usage: python bench/platforms.py [FILE_SYSTEM]... [--only CHECK] [--json FILE]

Needs Linux and root, and for each file system its own tools (Debian: e2fsprogs, btrfs-progs, xfsprogs, exfat-fuse
with exfatprogs, ntfs-3g); the simulated ones need `pip install mfusepy` and libfuse. What is not
installed is left out and named.

Exit codes: 0 all checks passed, 1 one failed, 2 not possible here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platform_checks import CHECKS, Project, SkippedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IMAGE_BYTES = 512 << 20
SIMULATED = {
    "like macOS (HFS+)": "nocase,nfd",
    "like Windows": "nocase,windows-names,birth,nosymlink,nomode,busy",
    "like FAT": "nocase,windows-names,coarse,birth,nolink,nosymlink,nomode",
    "other inodes each time": "noinode,nolink",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """A file system to try.

    Attributes:
        name: its label.
        tools: the programs that it needs.
        mounted: mounts it in a folder; yields the folder in which projects are to be created.
    """

    name: str
    tools: tuple[str, ...]
    mounted: Callable[[Path], contextlib.AbstractContextManager[Path]]


def run(*command: str | Path) -> None:
    """Runs a command, and raises if it fails."""
    subprocess.run(command, check=True, capture_output=True)


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextlib.contextmanager
def _mounted(target: Path, *command: str | Path) -> Iterator[None]:
    """Runs a command that mounts on a folder; unmounts it at the end."""
    run(*command)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", target], check=False)  # noqa: S607


def _folder(folder: Path) -> contextlib.AbstractContextManager[Path]:
    return contextlib.nullcontext(folder)


def _image(
    make: tuple[str, ...], mount: tuple[str, ...], *, device: bool = False
) -> Callable[[Path], contextlib.AbstractContextManager[Path]]:
    """Returns a function that mounts an image, by a command that gets the image or its loop device, and the folder."""

    @contextlib.contextmanager
    def mounted(folder: Path) -> Iterator[Path]:
        image, target = folder / "image", folder / "mount"
        with image.open("wb") as handle:
            handle.truncate(IMAGE_BYTES)
        target.mkdir()
        run(*make, image)
        if not device:
            with _mounted(target, *mount, image, target):
                yield target
            return
        loop = subprocess.check_output(["losetup", "--find", "--show", image], text=True).strip()  # noqa: S607
        try:
            with _mounted(target, *mount, loop, target):
                yield target
        finally:
            run("losetup", "--detach", loop)

    return mounted


def _tmpfs(options: str) -> Callable[[Path], contextlib.AbstractContextManager[Path]]:
    @contextlib.contextmanager
    def mounted(folder: Path) -> Iterator[Path]:
        with _mounted(folder, "mount", "-t", "tmpfs", "-o", options, "none", folder):
            yield folder

    return mounted


@contextlib.contextmanager
def _overlay(folder: Path) -> Iterator[Path]:
    with _tmpfs("size=256m")(folder):
        for name in ("lower", "upper", "work", "mount"):
            (folder / name).mkdir()
        options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        target = folder / "mount"
        with _mounted(target, "mount", "-t", "overlay", "-o", options, "none", target):
            yield target


def _simulated(rules: str) -> Callable[[Path], contextlib.AbstractContextManager[Path]]:
    @contextlib.contextmanager
    def mounted(folder: Path) -> Iterator[Path]:
        files, target = folder / "files", folder / "mount"
        files.mkdir()
        target.mkdir()
        script = Path(__file__).with_name("simulated_fs.py")
        process = subprocess.Popen([sys.executable, script, rules, files, target], process_group=0)
        for _ in range(100):
            if target.is_mount() or process.poll() is not None:
                break
            time.sleep(0.1)
        with _mounted(target, "mountpoint", target):
            yield target
        process.wait()

    return mounted


def file_systems() -> list[FileSystem]:
    """Returns the file systems to try."""
    loop = ("mount", "-o", "loop")
    systems = [
        FileSystem(name="here", tools=(), mounted=_folder),
        FileSystem(name="tmpfs", tools=("mount",), mounted=_tmpfs("size=256m")),
        FileSystem(name="ext4 (sync, noatime)", tools=("mkfs.ext4",),
                   mounted=_image(("mkfs.ext4", "-q", "-F"), ("mount", "-o", "loop,sync,noatime"))),
        FileSystem(name="ext3, inodes of 128 bytes", tools=("mkfs.ext4",),
                   mounted=_image(("mkfs.ext4", "-q", "-F", "-t", "ext3", "-I", "128"), loop)),
        FileSystem(name="btrfs", tools=("mkfs.btrfs",), mounted=_image(("mkfs.btrfs", "-q"), loop)),
        FileSystem(name="xfs", tools=("mkfs.xfs",), mounted=_image(("mkfs.xfs", "-q"), loop)),
        FileSystem(name="overlayfs", tools=("mount",), mounted=_overlay),
        FileSystem(name="exFAT (exfat-fuse)", tools=("mkfs.exfat", "mount.exfat-fuse"),
                   mounted=_image(("mkfs.exfat",), ("mount.exfat-fuse",), device=True)),
        FileSystem(name="NTFS (ntfs-3g)", tools=("mkfs.ntfs", "ntfs-3g"),
                   mounted=_image(("mkfs.ntfs", "-Q", "-F", "-q"), ("ntfs-3g", "-o", "windows_names"))),
        FileSystem(name="NTFS (lowntfs-3g, ignore_case)", tools=("mkfs.ntfs", "lowntfs-3g"),
                   mounted=_image(("mkfs.ntfs", "-Q", "-F", "-q"), ("lowntfs-3g", "-o", "ignore_case,windows_names"))),
    ]  # fmt: skip
    if importlib.util.find_spec("mfusepy") is not None:
        systems += [
            FileSystem(name=name, tools=("fusermount",), mounted=_simulated(rules)) for name, rules in SIMULATED.items()
        ]
    return systems


def main() -> int:
    """Runs the checks and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="Tries the product on file systems with other rules.")
    parser.add_argument("names", nargs="*", metavar="FILE_SYSTEM", help="parts of the names of file systems (all)")
    parser.add_argument("--only", action="append", metavar="CHECK", help="run this check (all)")
    parser.add_argument("--cache-there", action="store_true", help="put the user's cache on the file system too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE, as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or sys.platform != "linux":
        print("error: needs Linux and root", file=sys.stderr)
        return 2
    checks = {name: check for name, check in CHECKS.items() if not arguments.only or name in arguments.only}
    results: dict[str, dict[str, str]] = {}
    print(f"| file system | {' | '.join(checks)} |\n| --- |{' --- |' * len(checks)}")
    with tempfile.TemporaryDirectory(prefix="platforms-") as temporary:
        for number, system in enumerate(file_systems()):
            if arguments.names and not any(part in system.name for part in arguments.names):
                continue
            missing = [tool for tool in system.tools if _tool(tool) is None]
            if missing:
                print(f"| {system.name} | not tried: needs {', '.join(missing)} |")
                continue
            folder = Path(temporary).resolve() / str(number)
            folder.mkdir()
            results[system.name] = _try(system, folder, checks, cache_there=arguments.cache_there)
            cells = ["failed" if text.startswith("failed") else text for text in results[system.name].values()]
            print(f"| {system.name} | {' | '.join(cells)} |", flush=True)
    failed = [
        f"{label}, {check}: {text}"
        for label, texts in results.items()
        for check, text in texts.items()
        if text.startswith("failed")
    ]
    print("".join(f"\n{text}\n" for text in failed), end="")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if failed else 0


def _try(
    system: FileSystem, folder: Path, checks: dict[str, Callable[[Project], None]], *, cache_there: bool
) -> dict[str, str]:
    """Returns the result of each check, in a project of its own."""
    results = {}
    with system.mounted(folder) as top:
        cache = top / "cache" if cache_there else folder.parent / f"cache-{folder.name}"
        for number, (name, check) in enumerate(checks.items()):
            begun = time.perf_counter()
            try:
                check(Project.create(top / f"p{number}", cache))
                results[name] = "ok"
            except SkippedError as error:
                results[name] = str(error)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                results[name] = f"failed: {type(error).__name__}: {error}"
            print(f"{system.name}: {name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    return results


if __name__ == "__main__":
    sys.exit(main())
