"""The JSON Schema of manifests for editors, as `schema manifest` prints it and `init` writes it."""

from __future__ import annotations

from typing import Any

DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def manifest_document() -> dict[str, Any]:
    """Returns the JSON Schema of a manifest."""
    from cacheunit_build.parsing.manifest import manifest_schema

    return {**DIALECT, **manifest_schema()}
