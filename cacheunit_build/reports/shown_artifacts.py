"""The artifacts of a diff that open to their texts and units in a page: which ones, and each text once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.diff.framed_text import framed_text
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.artifact_text import ArtifactText, artifact_text, padding_tokens
from cacheunit_build.reports.diff_cells import row_of
from cacheunit_build.reports.unit_strip import UnitStrip, unit_strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.diff.framed_text import FramedText
    from cacheunit_build.diff.results import Difference
    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import ArtifactKey

MOST_TEXTS = 24
MOST_CHARACTERS = 1_000_000
"""The most texts, and the most of their characters, that a page shows if not everything is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """An artifact that opens to its text.

    Attributes:
        numbers: its tokens, and what stays cached.
        strip: its units; None where these are not known.
        text: its text.
    """

    numbers: str
    strip: UnitStrip | None
    text: ArtifactText


class ShownArtifacts:
    """Divides the texts of the artifacts of a snapshot, each once.

    Args:
        snapshot: the present sources; None where nothing is compiled.
    """

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._texts: dict[ArtifactKey, FramedText] = {}

    def shown(self, item: Difference, id_: str) -> ShownText:
        """Returns an artifact with its text, which is compiled."""
        artifact, text = self._divided(item)
        title = f"{readable_name(item.prefix)} for {item.target}"
        return ShownText(
            numbers=_numbers(item),
            strip=self.strip(item),
            text=artifact_text(text, id_=id_, title=title, remark=_remark(artifact, text)),
        )

    def strip(self, item: Difference) -> UnitStrip | None:
        """Returns the units of an artifact; None where these are not known."""
        if not self.is_compiled(item):
            return None
        artifact, text = self._divided(item)
        if artifact.estimated is not None:
            return None
        return unit_strip(artifact.entry.tokens, artifact.unit, item.still_cached, padding_tokens(text))

    def remark(self, item: Difference) -> str:
        """Returns why the units of an artifact are not known; empty where they are."""
        if item.new is None:
            return "removed, so that nothing of it is cached"
        return _remark(*self._divided(item)) if self.is_compiled(item) else "its text is not known"

    def is_compiled(self, item: Difference) -> bool:
        """Returns whether the text of an artifact is known."""
        return self._snapshot is not None and item.new is not None and item.key in self._snapshot.artifacts

    def ids(self, items: Iterable[Difference], *, everything: bool) -> Mapping[ArtifactKey, str]:
        """Returns the ids of the texts that are shown: first those with the most tokens to compute again.

        An artifact that has the same text, units and sources as one before it gets the id of that.

        Args:
            items: the artifacts.
            everything: whether to show all texts, however long they are.
        """
        ids: dict[ArtifactKey, str] = {}
        known: dict[object, str] = {}
        left = MOST_CHARACTERS
        for item in sorted(filter(self.is_compiled, items), key=_order):
            artifact = self._artifact(item)
            same = (artifact.prefix, artifact.framed_prefix, artifact.unit, artifact.entry.tokens, item.still_cached)
            if same not in known:
                left -= len(artifact.framed_prefix)
                if known and not everything and (len(known) == MOST_TEXTS or left < 0):
                    continue
                known[same] = f"text-{len(known) + 1}"
            ids[item.key] = known[same]
        return ids

    def _artifact(self, item: Difference) -> Artifact:
        assert self._snapshot is not None  # noqa: S101 - who calls has asked `is_compiled`
        return self._snapshot.artifacts[item.key]

    def _divided(self, item: Difference) -> tuple[Artifact, FramedText]:
        artifact = self._artifact(item)
        if item.key not in self._texts and self._snapshot is not None:
            self._texts[item.key] = framed_text(self._snapshot, artifact, item.still_cached)
        return artifact, self._texts[item.key]


def recomputed(item: Difference) -> int:
    """Returns the tokens that are computed again; all of them where that is unknown, none of a removed artifact."""
    if item.new is None:
        return 0
    return item.new.tokens if item.recomputed is None else item.recomputed


def _order(item: Difference) -> tuple[int, int, ArtifactKey]:
    return -recomputed(item), -item.new.tokens if item.new is not None else 0, item.key


def _numbers(item: Difference) -> str:
    row = row_of([item], name="", target="", with_note=False)
    return f"{row.tokens} tokens, {row.still_cached} still cached, {row.recomputed} recomputed"


def _remark(artifact: Artifact, text: FramedText) -> str:
    """Returns why the units of an artifact, or its tokens in the text, are not known; empty where they are."""
    if artifact.entry.is_estimate:
        return "Its tokens are an estimate, so that units and what is still cached are not shown in the text."
    if artifact.estimated is not None:
        return "The provider counted its tokens, so that units and what is still cached are not shown in the text."
    if not text.offsets:
        return "The vocabulary normalizes the text, so that units and what is still cached are not shown in it."
    return ""
