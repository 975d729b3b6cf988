"""A file of the project -> its value, read by its extension."""

from __future__ import annotations

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.yaml import read_yaml


def parse_data(data: bytes, path: str, *, floats: bool = False) -> Document:
    """YAML and JSON as values, everything else as text; with `floats`, floats of YAML are numbers too.

    Raises:
        CacheunitError: the bytes are not what the extension says.
    """
    extension = path.rpartition(".")[2].lower()
    if extension in {"yaml", "yml"}:
        return read_yaml(data, path, floats=floats)
    return read_json(data, path) if extension == "json" else Document(path=path, value=decode(data, path))
