"""The command `clean`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.output import print_text
from cacheunit_build.domain.errors import fail


@click.command()
@click.option("--all", "everything", is_flag=True, help="Of all projects, and all parsed vocabularies.")
@with_context
def clean(context: Context, *, everything: bool) -> int:
    """Remove what builds of this project cached. No output changes."""
    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.adapters.storage.locks import BuildLock

    cache = CacheFolder(str(context.root))
    problem = cache.problem()
    if problem is not None:
        raise fail(f"the cache is not used: {problem}")
    # The lock stays: a build that begins now would not see one that a build still holds.
    cached = [folder for folder in cache.removable(everything=everything) if Path(folder).is_dir()]
    with BuildLock(cache).hold():
        removed = [folder for folder in cached if _remove(folder)]
    for folder in removed:
        print_text(f"removed  {folder}")
    if not removed:
        context.remark("nothing is cached")
    return OK


def _remove(folder: str) -> bool:
    """Removes a folder of the cache; returns whether there was one."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise fail(f'cannot remove "{folder}": {error.strerror or error}', hint="remove it by hand") from None
    return True
