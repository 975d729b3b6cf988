"""The command `clean`."""

from __future__ import annotations

import shutil

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.output import print_text
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import CACHE_FOLDER


@click.command()
@with_context
def clean(context: Context) -> int:
    """Remove .cacheunit/, the local cache. No output changes."""
    folder = context.root / CACHE_FOLDER
    try:
        if folder.is_symlink():
            folder.unlink()
            print_text(f"removed  {CACHE_FOLDER}, a link")
        elif folder.is_dir():
            shutil.rmtree(folder)
            print_text(f"removed  {CACHE_FOLDER}/")
        else:
            context.remark(f"there is no {CACHE_FOLDER}/")
    except OSError as error:
        hint = "a build may be using it; remove the rest by hand"
        raise fail(f'cannot remove "{CACHE_FOLDER}": {error.strerror or error}', hint=hint) from None
    return OK
