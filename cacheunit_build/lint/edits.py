"""Edits of source files, applied to their bytes: line ends and a byte-order mark stay as they are."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cacheunit_build.domain.protocols import EncoderLoader, SourceFiles, TokenizerLoader

_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement in a source file.

    Attributes:
        code: the rule that it is for.
        path: the file, relative to the project root.
        line: counts from 1.
        column: counts characters from 1.
        start: the offset of the first character to replace, in the text with LF line ends and without byte-order mark.
        old: the characters to replace.
        new: what stands there then.
    """

    code: str
    path: str
    line: int
    column: int
    start: int
    old: str
    new: str

    @property
    def end(self) -> int:
        """The offset behind the last character to replace."""
        return self.start + len(self.old)


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Returns the bytes of a file with edits that do not overlap; a new line end is like most of the file."""
    raw = data.decode("utf-8")
    mark = len(_MARK) if raw.startswith(_MARK) else 0
    # The offset of the k-th pair, less k, is its offset with LF line ends: what follows it stands k + 1 further on.
    pairs = [start - mark - index for index, start in enumerate(_pairs(raw))]
    line_end = "\r\n" if len(pairs) * 2 > raw.count("\n") else "\n"
    parts, done = [], 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        start, end = (offset + mark + _pairs_before(pairs, offset) for offset in (edit.start, edit.end))
        parts += [raw[done:start], edit.new.replace("\n", line_end)]
        done = end
    return "".join([*parts, raw[done:]]).encode("utf-8")


def _pairs(raw: str) -> list[int]:
    """Returns the offset of each CRLF."""
    offsets, offset = [], raw.find("\r\n")
    while offset >= 0:
        offsets.append(offset)
        offset = raw.find("\r\n", offset + 2)
    return offsets


def _pairs_before(pairs: Sequence[int], offset: int) -> int:
    """Returns how many CRLF stand in front of an offset in the text with LF line ends."""
    return bisect_right(pairs, offset - 1)


class EditedFiles:
    """The files of a project with other bytes for some of them, in memory.

    Args:
        files: the files as they are.
        changed: path -> the bytes in place of those of the file.
    """

    def __init__(self, files: SourceFiles, changed: Mapping[str, bytes]) -> None:
        self._files = files
        self.changed = changed

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file."""
        return self.changed[path] if path in self.changed else self._files.read(path)

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of the bytes of a file."""
        return fingerprint(self.changed[path]) if path in self.changed else self._files.fingerprint(path)

    def has_folder(self, folder: str) -> bool:
        """Returns whether there is such a folder."""
        return self._files.has_folder(folder)

    def walk(self, folder: str) -> Sequence[str]:
        """Returns the paths of all files below a folder."""
        return self._files.walk(folder)

    def twins(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Returns path -> a path that is the same one on some systems."""
        return self._files.twins(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedProject:
    """A project with edited files, to be compiled in memory."""

    files: EditedFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader
