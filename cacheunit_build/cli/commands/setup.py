"""`targets`, `init`, `schema`, `clean`: what stands around a project."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cacheunit_build.cli.context import OK, Session, format_option, put, put_json, read_file, with_session
from cacheunit_build.domain.errors import CacheunitError, Fault, fail

if TYPE_CHECKING:
    from cacheunit_build.domain.target import Target


_OLD_DAYS = 180


@click.command()
@click.argument("name", required=False)
@format_option
@with_session
def targets(session: Session, name: str | None, form: str) -> int:
    """List the known targets and the project's; with NAME, everything about one, with the evidence of its numbers."""
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.reports.data import targets_data
    from cacheunit_build.reports.text import target_text, targets_text
    from cacheunit_build.targets.loader import named_target

    _, known = read_project(session.files())
    if name is not None:
        found = named_target(name, known)
        known = {found.name: found}
    if form == "json":
        put_json(targets_data(known))
    else:
        put(targets_text(known) if name is None else "\n".join(map(target_text, known.values())))
    for target in known.values():
        _warn_of_age(session, target)
    return OK


def _warn_of_age(session: Session, target: Target) -> None:
    """Providers change their rules: what was checked long ago may be wrong by now."""
    ages = [
        (dt.datetime.now(dt.UTC).date() - dt.date.fromisoformat(item.checked)).days for item in target.cache.evidence
    ]
    if max(ages, default=0) > _OLD_DAYS:
        session.say(f"warning: {target.name}: numbers were checked {max(ages)} days ago; look them up again")


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@with_session
def init(session: Session, files: tuple[Path, ...]) -> int:
    """Make a project in the folder, with a prefix for each existing prompt FILE; change no file that is there."""
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.scaffold import new_project, prefix_name
    from cacheunit_build.parsing.document import decode
    from cacheunit_build.parsing.settings import parse_settings

    prompts: dict[str, str] = {}
    for file in (session.folder / path for path in files):
        name = prefix_name(file.name.partition(".")[0])
        if name in prompts:
            raise fail(f'two of the files would be prefix "{name}"', hint="rename one of them")
        prompts[name] = decode(read_file(file), str(file))
    project = DiskFiles(session.folder)
    made = new_project(prompts)
    if parse_settings(project.read("pyproject.toml"), None).path is not None:
        del made["cacheunit.toml"]
    present = [path for path in made if project.read(path) is not None]
    clashes = [path for path in present if path.startswith(("prefixes/", "templates/"))]
    if clashes:
        raise CacheunitError(*(Fault(message="is there already", path=path) for path in clashes))
    project.commit({path: text.encode() for path, text in made.items() if path not in present}, (), None)
    for path in made:
        put(f"{'kept' if path in present else 'made'}  {path}")
    for path in sorted({".gitattributes", ".gitignore"} & set(present)):
        session.say(f"note: {path} was there; add to it:\n{made[path].rstrip()}")
    session.say('\nnext: "cacheunit build"')
    return OK


@click.command()
@click.argument("what", type=click.Choice(["manifest", "config"]), default="manifest")
def schema(what: str) -> int:
    """Print the JSON Schema of a manifest, or of the settings, for editors."""
    put_json(_manifest_schema() if what == "manifest" else _config_schema())
    return OK


_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def _manifest_schema() -> dict[str, Any]:
    from cacheunit_build.parsing.manifest import ManifestSchema

    return {**_DIALECT, **ManifestSchema.model_json_schema()}


def _config_schema() -> dict[str, Any]:
    from cacheunit_build.parsing.settings import SettingsSchema
    from cacheunit_build.targets.loader import TargetTable

    table = TargetTable.model_json_schema(ref_template="#/$defs/{model}")
    settings = SettingsSchema.model_json_schema()
    settings["properties"]["target"]["additionalProperties"] = {"$ref": "#/$defs/TargetTable"}
    definitions = {**settings.pop("$defs", {}), **table.pop("$defs", {}), "TargetTable": table}
    return {**_DIALECT, **settings, "$defs": definitions}


@click.command()
@with_session
def clean(session: Session) -> int:
    """Remove .cacheunit/, the local cache; no output changes."""
    from cacheunit_build.adapters.storage.discovery import CACHE

    folder = session.files().root / CACHE
    if folder.is_symlink():
        folder.unlink()
        put(f"removed  {CACHE}, a link")
    elif folder.is_dir():
        shutil.rmtree(folder)
        put(f"removed  {CACHE}/")
    else:
        session.say(f"there is no {CACHE}/")
    return OK


COMMANDS = (targets, init, schema, clean)
