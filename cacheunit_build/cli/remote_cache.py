"""Opens the remote cache that the settings or the environment name."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.adapters.remote_cache.remote import HttpRemoteCache
    from cacheunit_build.builder.remote_results import RemoteResults
    from cacheunit_build.cli.context import Context


def open_remote_cache(
    read: Callable[[str], bytes | None], *, refused: bool = False, verifies: bool = False
) -> HttpRemoteCache | None:
    """Returns the remote cache of a project; None where there is none, or the command line refuses it.

    Args:
        read: returns the bytes of a file of the project.
        refused: whether the command line refuses it.
        verifies: whether the command vouches for the checkout, which then cannot name what it is compared with: only
            the environment can.

    Raises:
        CacheunitError: an environment variable is not valid.
    """
    if refused:
        return None
    from cacheunit_build.adapters.remote_cache.access import URL_VARIABLE, remote_access

    setting = "" if verifies or URL_VARIABLE in os.environ else _setting(read)
    access = remote_access(setting, os.environ)
    if access is None:
        return None
    from cacheunit_build.adapters.remote_cache.remote import HttpRemoteCache

    return HttpRemoteCache(access)


@contextmanager
def results_of(context: Context, cache: HttpRemoteCache | None) -> Iterator[RemoteResults | None]:
    """Gives what builds take from a remote cache and store there; None where there is none.

    At the end, it prints how many manifests were found and stored, and what was wrong with the cache.
    """
    if cache is None:
        yield None
        return
    try:
        yield _results(cache)
    finally:
        cache.close()
    for text in cache.remarks:
        context.remark(f"note: {text}")
    use = cache.use
    asked = use.found + use.missing
    if use.found or use.stored or (asked and not cache.remarks):
        stored = f"; {use.stored:,} stored there" if use.stored else ""
        context.remark(f"note: {use.found:,} of {plural(asked, 'manifest')} from the remote cache{stored}")


def _results(cache: HttpRemoteCache) -> RemoteResults | None:
    from cacheunit_build.adapters.storage.toolchain import software
    from cacheunit_build.builder.remote_results import RemoteResults

    try:
        return RemoteResults(cache, software())
    except OSError:  # a package cannot be read: no result is known to be of this software
        return None


def _setting(read: Callable[[str], bytes | None]) -> str:
    """Returns the URL in the settings; empty where there is none, or a fault that the command reports."""
    from cacheunit_build.domain.settings_file import find_settings
    from cacheunit_build.domain.web_address import remote_cache_problem

    try:
        document, _ = find_settings(read("pyproject.toml"), read("cacheunit.toml"))
    except CacheunitError:
        return ""
    table = document.value.get("cache") if isinstance(document.value, dict) else None
    url = table.get("remote") if isinstance(table, dict) else None
    return url if isinstance(url, str) and url and remote_cache_problem(url) is None else ""
