"""Texts, tools, manifests and numbers -> what would break a cache or leak. Pure; knows no files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.lint.rules.characters import character_hits
from cacheunit_build.lint.rules.leaks import leak_hits
from cacheunit_build.lint.rules.volatile import volatile_hits

if TYPE_CHECKING:
    from cacheunit_build.lint.segment import Match, Segment


def text_hits(passage: Segment) -> list[Match]:
    """What can be said of a passage alone, in its order."""
    hits = [*volatile_hits(passage), *leak_hits(passage), *character_hits(passage)]
    return sorted(hits, key=lambda hit: (hit.start, hit.code))
