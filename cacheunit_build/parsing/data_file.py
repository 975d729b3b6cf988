"""Reads a data or tool file of a project, by its extension."""

from __future__ import annotations

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.parsing.front_matter import front_matter_end
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.yaml import read_yaml


def parse_data(data: bytes, path: str, *, floats: bool = False, strip: bool = False) -> Document:
    """Returns the value of a YAML (`.yaml`, `.yml`) or JSON (`.json`) file, or the text of any other file.

    Args:
        data: the bytes of the file.
        path: the file.
        floats: whether floats of YAML are numbers, and not text.
        strip: whether the front matter of a text is removed.

    Raises:
        CacheunitError: every fault in the file.
    """
    extension = path.rpartition(".")[2].lower()
    if extension in {"yaml", "yml"}:
        return read_yaml(data, path, floats=floats)
    if extension == "json":
        return read_json(data, path)
    text = decode(data, path)
    end = front_matter_end(text, path) if strip else 0
    return Document(path=path, value=text[end:], lines={(): text.count("\n", 0, end) + 1} if end else {})
