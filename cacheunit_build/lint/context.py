"""Holds what all rules of one lint run share: loaded targets, source texts, source maps, suppressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import source_maps
from cacheunit_build.lint.registry import RuleSelection
from cacheunit_build.lint.source_locator import SourceTexts
from cacheunit_build.lint.suppressions import parse_suppressions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.protocols import CompileInputs, SecretScanner
    from cacheunit_build.domain.source_map import SourceLine, SourceMaps
    from cacheunit_build.lint.edits import Edit
    from cacheunit_build.lint.results import Location
    from cacheunit_build.lint.segment import Segment
    from cacheunit_build.lint.suppressions import Suppressions


class LintContext:
    """What all rules of one lint run share.

    Attributes:
        targets: name -> target with its vocabulary loaded.
        sources: the source files as text.
        scan_secrets: finds secrets in a text; None where none are looked for.
    """

    def __init__(
        self,
        adapters: CompileInputs,
        compiled: CompiledProject,
        rules: RuleSelection,
        scan_secrets: SecretScanner | None,
    ) -> None:
        self.targets = compiled.targets
        self.sources = SourceTexts(adapters.files.read)
        self.scan_secrets = scan_secrets
        self._files = adapters.files
        self._settings = compiled.settings
        # `--select CU401` must still know which text is volatile by CU1xx.
        self._ignored = RuleSelection(ignore=rules.ignore)
        self._source_maps: dict[str, SourceMaps] = {}
        self._suppressions: dict[str, Suppressions] = {}

    def suppressions(self, path: str) -> Suppressions:
        """Returns what the comments of a source file suppress; each file is parsed once."""
        if path not in self._suppressions:
            self._suppressions[path] = parse_suppressions(self.sources.text(path), path)
        return self._suppressions[path]

    def is_suppressed(self, code: str, location: Location | Edit) -> bool:
        """Returns whether a comment suppresses a rule at a location."""
        return self.suppressions(location.path).suppresses(code, location.line)

    def is_ignored(self, code: str, location: Location) -> bool:
        """Returns whether a comment or `--ignore` turns a rule off at a location; `--select` does not count."""
        return not self._ignored.includes(code) or self.is_suppressed(code, location)

    def location_of(self, text: str, files: Iterable[str]) -> Location | None:
        """Returns where one of the files, or else the settings, spells a text; None where none does."""
        for path in (*files, *filter(None, (self._settings.path,))):
            location = self.sources.locate(path, 1, text, (0, len(text)))
            if location is not None:
                return location
        return None

    def source_line(self, variant: Variant, segment: Segment, offset: int) -> SourceLine | None:
        """Returns the source line that a character of a rendered text was written in; None where it is unknown."""
        # Source maps need a second rendering, so a variant without a match never pays for them.
        if variant.name not in self._source_maps:
            self._source_maps[variant.name] = source_maps(self._files, self._settings, variant)
        maps = self._source_maps[variant.name]
        source_map = maps.system if segment.turn is None else maps.turns[segment.turn]
        return next(iter(source_map.at(offset)), None)
