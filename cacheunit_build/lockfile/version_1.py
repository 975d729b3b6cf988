"""Reads a lock of version 1 as one of version 2, as far as it has what version 2 needs.

| version 1             | version 2                                                                              |
| --------------------- | -------------------------------------------------------------------------------------- |
| `profile` of a target | left out: the fingerprint of format, frame and cache rule, which are listed separately |
| `unit` of an entry    | left out: it is the `unit` of the target's cache rule                                  |
| -                     | `markers` of an entry: unknown, so none                                                |
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.file_names import LOCK_VERSION

if TYPE_CHECKING:
    from cacheunit_build.domain.document import Document


def from_version_1(document: Document) -> Document:
    """Returns the parsed lock with the keys of version 2; what is not a lock stays as it is, to be refused."""
    value = document.value
    if not isinstance(value, dict):
        return document
    targets, prefixes = value.get("targets"), value.get("prefixes")
    upgraded = {
        **value,
        "version": LOCK_VERSION,
        "targets": _mapped(targets, _target),
        "prefixes": _mapped(prefixes, lambda entries: _mapped(entries, _entry)),
    }
    return replace(document, value=upgraded)


def _mapped(value: Any, convert: Any) -> Any:  # noqa: ANN401 - JSON that anybody may have written
    return {key: convert(item) for key, item in value.items()} if isinstance(value, dict) else value


def _target(value: Any) -> Any:  # noqa: ANN401
    """Returns the identity of a target; the profile stands for its frame."""
    if not isinstance(value, dict) or not value.keys() <= {"profile", "tokenizer"}:
        return value
    frame = {"frame": value["profile"]} if "profile" in value else {}
    return {key: item for key, item in value.items() if key == "tokenizer"} | frame | {"format": "", "cache": {}}


def _entry(value: Any) -> Any:  # noqa: ANN401
    """Returns an entry without the unit of its target."""
    return {key: item for key, item in value.items() if key != "unit"} if isinstance(value, dict) else value
