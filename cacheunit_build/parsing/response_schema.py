"""Reads the file of a response schema: a JSON Schema, in JSON or YAML, into its canonical form and a name."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault, fail, first_faults
from cacheunit_build.domain.response_schema import ResponseSchema
from cacheunit_build.parsing.tool_schema import canonical_schema, schema_faults

if TYPE_CHECKING:
    from cacheunit_build.domain.document import Document

_LONGEST_NAME = 64
"""The most characters of a name; OpenAI's API takes letters, digits, _ and - (openai-python, response formats)."""


def parse_response_schema(document: Document) -> ResponseSchema:
    """Returns the response schema in a file, named after it.

    Raises:
        CacheunitError: every fault in the file.
    """
    schema, path = document.value, document.path
    if not isinstance(schema, dict) or not schema:
        raise fail("a response schema must be a mapping, a JSON Schema", path=path, line=document.line(()))
    try:
        faults = [
            Fault(message=message, path=path, line=document.line(place), hint=hint)
            for message, place, hint in schema_faults(schema)
        ]
        canonical = {} if faults else canonical_schema(json.loads(json.dumps(schema)))
    except RecursionError:
        raise fail("the schema is nested too deeply", path=path, line=document.line(())) from None
    if faults:
        raise CacheunitError(*first_faults(faults))
    return ResponseSchema(name=_name(path), schema=canonical, path=path, line=document.line(()))


def _name(path: str) -> str:
    """Returns the name of a schema in requests.

    schemas/answer.v2.json  ->  answer_v2
    """
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", stem)[:_LONGEST_NAME].strip("_") or "response"
