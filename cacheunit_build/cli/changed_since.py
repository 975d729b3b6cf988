"""Narrows a selection for the option `--changed-since`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cacheunit_build.cli.context import Context
    from cacheunit_build.domain.selection import Selection


def narrowed(context: Context, selection: Selection, since: str | None) -> Selection | None:
    """Returns the selected prefixes that changed since a revision; None, with a remark, if none did.

    Raises:
        CacheunitError: there is no such revision, or the sources have faults.
    """
    if since is None:
        return selection
    from cacheunit_build.adapters.git.revision import Repository
    from cacheunit_build.builder.changed_since import changed_since

    repository = Repository(context.root)
    revision = repository.revision(since)
    changed = changed_since(context.adapters(), selection, repository.files(revision))
    if changed is None:
        context.remark(f"note: no selected prefix changed since {revision.label}")
    return changed
