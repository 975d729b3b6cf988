"""The command `schema`."""

from __future__ import annotations

from typing import Any

import click

from cacheunit_build.cli.context import OK
from cacheunit_build.cli.output import print_json

_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


@click.command()
@click.argument("what", type=click.Choice(["manifest", "config"]), default="manifest")
def schema(what: str) -> int:
    """Print the JSON Schema of a manifest, or of the settings, for editors."""
    from cacheunit_build.parsing.manifest import manifest_schema

    print_json({**_DIALECT, **(manifest_schema() if what == "manifest" else _settings_schema())})
    return OK


def _settings_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the settings, with that of the project's own targets."""
    from cacheunit_build.parsing.settings import settings_schema
    from cacheunit_build.targets.loader import target_table_schema

    settings, table = settings_schema(), target_table_schema()
    settings["properties"]["target"]["additionalProperties"] = {"$ref": "#/$defs/TargetTable"}
    definitions = {**settings.pop("$defs", {}), **table.pop("$defs", {}), "TargetTable": table}
    return {**settings, "$defs": definitions}
