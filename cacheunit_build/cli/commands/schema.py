"""The command `schema`."""

from __future__ import annotations

from typing import Any

import click

from cacheunit_build.cli.context import OK
from cacheunit_build.cli.output import print_json


@click.command()
@click.argument("what", type=click.Choice(["manifest", "config"]), default="manifest")
def schema(what: str) -> int:
    """Print the JSON Schema of a manifest, or of the settings, for editors."""
    from cacheunit_build.cli.scaffolding.editor_schema import DIALECT, manifest_document

    print_json(manifest_document() if what == "manifest" else {**DIALECT, **_settings_schema()})
    return OK


def _settings_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the settings, with that of the project's own targets."""
    from cacheunit_build.parsing.settings import settings_schema
    from cacheunit_build.targets.loader import target_table_schema

    settings, table = settings_schema(), target_table_schema()
    settings["properties"]["target"]["additionalProperties"] = {"$ref": "#/$defs/TargetTable"}
    definitions = {**settings.pop("$defs", {}), **table.pop("$defs", {}), "TargetTable": table}
    return {**settings, "$defs": definitions}
