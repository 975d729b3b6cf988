"""Reads a data or tool file of a project, by its extension."""

from __future__ import annotations

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.yaml import read_yaml


def parse_data(data: bytes, path: str, *, floats: bool = False) -> Document:
    """Returns the value of a YAML (`.yaml`, `.yml`) or JSON (`.json`) file, or the text of any other file.

    Args:
        data: the bytes of the file.
        path: the file.
        floats: whether floats of YAML are numbers, and not text.

    Raises:
        CacheunitError: every fault in the file.
    """
    extension = path.rpartition(".")[2].lower()
    if extension in {"yaml", "yml"}:
        return read_yaml(data, path, floats=floats)
    return read_json(data, path) if extension == "json" else Document(path=path, value=decode(data, path))
