"""A file system with the rules of another platform, by FUSE: it passes everything on to a folder, but for these rules.

Usage: python bench/simulated_fs.py RULES FOLDER MOUNT, where RULES is some of `RULES` below, joined by commas.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata
from pathlib import Path
from typing import Any

import mfusepy

RULES = {
    "nocase": "names that differ only in letter case are one; the spelling of the first one is kept",
    "nfd": "names are stored decomposed, and found in every normal form (HFS+)",
    "windows-names": "characters and names that Windows reserves are refused, and dots and blanks at the end are cut",
    "coarse": "times are recorded to two seconds (FAT)",
    "birth": "the time of the last change of a stat is that of the creation, as Python has it on Windows",
    "nolink": "no hard links",
    "nosymlink": "no symbolic links",
    "nomode": "a mode can be neither set nor kept",
    "noinode": "each stat has another inode",
    "busy": "a file that is open cannot be replaced, moved or removed (Windows)",
}
RESERVED = set('<>:"|?*\\') | set(map(chr, range(32)))
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10))}
COARSE = 2


class Rules(mfusepy.Operations):  # type: ignore[misc]  # it has no types
    """The operations of the file system.

    Args:
        rules: names of `RULES`.
        folder: the folder that has the files.
    """

    use_ns = True

    def __init__(self, rules: set[str], folder: Path) -> None:
        self._rules = rules
        self._folder = str(folder)
        self._open: dict[int, str] = {}
        self._inode = 0
        self._born: dict[int, int] = {}

    def _key(self, name: str) -> str:
        if "nfd" in self._rules:
            name = unicodedata.normalize("NFD", name)
        return name.casefold() if "nocase" in self._rules else name

    def _real(self, path: str, *, create: bool = False) -> str:
        """Returns the path in the folder, each part spelled as it is there; a new last part as it is stored."""
        found = self._folder
        parts = [part for part in path.split("/") if part]
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            spelled = self._stored(part) if last and create else part
            if self._rules & {"nocase", "nfd"}:
                names = os.listdir(found) if os.path.isdir(found) else []
                spelled = next((name for name in names if self._key(name) == self._key(spelled)), spelled)
            found = f"{found}/{spelled}"
        return found

    def _stored(self, name: str) -> str:
        """Returns how a new name is stored.

        Raises:
            FuseOSError: it is refused.
        """
        if "windows-names" in self._rules:
            name = name.rstrip(". ")
            if not name or set(name) & RESERVED or name.partition(".")[0].rstrip().lower() in DEVICES:
                raise mfusepy.FuseOSError(errno.EINVAL)
        return unicodedata.normalize("NFD", name) if "nfd" in self._rules else name

    def _refuse_busy(self, real: str) -> None:
        if "busy" in self._rules and real in self._open.values():
            raise mfusepy.FuseOSError(errno.EACCES)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        return self._status(os.fstat(fh) if fh else os.lstat(self._real(path)))

    def _status(self, status: os.stat_result) -> dict[str, Any]:
        """Returns a status as the rules have it."""
        names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino", "st_blocks")
        result: dict[str, Any] = {name: getattr(status, name) for name in names}
        modified, changed = status.st_mtime_ns, status.st_ctime_ns
        if "birth" in self._rules:
            changed = self._born.setdefault(status.st_ino, changed)
        if "coarse" in self._rules:
            step = COARSE * 10**9
            modified = changed = modified // step * step
        if "nomode" in self._rules:
            result["st_mode"] = status.st_mode & ~0o777 | 0o755
        if "noinode" in self._rules:
            self._inode += 1
            result["st_ino"] = self._inode
        return result | {"st_atime": status.st_atime_ns, "st_mtime": modified, "st_ctime": changed}

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, Any], int]]:
        real = self._real(path)
        names = [".", "..", *os.listdir(real)]
        return [(name, self._status(os.lstat(f"{real}/{name}")), 0) for name in names]

    def create(self, path: str, mode: int, fi: object = None) -> int:
        real = self._real(path, create=True)
        fh = os.open(real, os.O_RDWR | os.O_CREAT, mode)
        self._open[fh] = real
        return fh

    def open(self, path: str, flags: int) -> int:
        real = self._real(path)
        fh = os.open(real, flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND))
        self._open[fh] = real
        return fh

    def release(self, path: str, fh: int) -> int:
        self._open.pop(fh, None)
        os.close(fh)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._real(path), length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._real(path, create=True), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._real(path))
        return 0

    def unlink(self, path: str) -> int:
        real = self._real(path)
        self._refuse_busy(real)
        os.unlink(real)
        return 0

    def rename(self, old: str, new: str, flags: int = 0) -> int:
        source, target = self._real(old), self._real(new, create=True)
        self._refuse_busy(source)
        self._refuse_busy(target)
        if source == target and self._rules & {"nocase", "nfd"}:  # a new spelling of the same name
            target = f"{os.path.dirname(source)}/{self._stored(new.rpartition('/')[2])}"
        os.rename(source, target)
        return 0

    def link(self, target: str, source: str) -> int:
        if "nolink" in self._rules:
            raise mfusepy.FuseOSError(errno.EPERM)
        os.link(self._real(source), self._real(target, create=True))
        return 0

    def symlink(self, target: str, source: str) -> int:
        if "nosymlink" in self._rules:
            raise mfusepy.FuseOSError(errno.EPERM)
        os.symlink(source, self._real(target, create=True))
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(self._real(path))

    def chmod(self, path: str, mode: int) -> int:
        if "nomode" in self._rules:
            raise mfusepy.FuseOSError(errno.EPERM)
        os.chmod(self._real(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        if "nomode" in self._rules:
            raise mfusepy.FuseOSError(errno.EPERM)
        os.lchown(self._real(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        if times is None:
            os.utime(self._real(path))
        else:
            os.utime(self._real(path), ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        status = os.statvfs(self._folder)
        names = (
            "f_bavail",
            "f_bfree",
            "f_blocks",
            "f_bsize",
            "f_favail",
            "f_ffree",
            "f_files",
            "f_frsize",
            "f_namemax",
        )
        return {name: getattr(status, name) for name in names}


def main() -> None:
    """Mounts the file system, until it is unmounted."""
    rules, folder, mount = sys.argv[1:]
    mfusepy.FUSE(
        Rules(set(rules.split(",")), Path(folder).resolve()),
        mount,
        foreground=True,
        nothreads=True,
        use_ino=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
    )


if __name__ == "__main__":
    main()
