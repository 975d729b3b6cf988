"""Plans which characters of which source files to replace, and which texts that gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.lint.configuration import lint_configuration
from cacheunit_build.lint.context import LintContext
from cacheunit_build.lint.edits import Edit
from cacheunit_build.lint.linter import ProjectLinter
from cacheunit_build.lint.literal_places import LiteralPlaces
from cacheunit_build.lint.replacements import FIXABLE, UncertainFixError, replacement
from cacheunit_build.lint.rules.cu3_characters import MIXED_NORMALIZATION, decomposed_characters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.protocols import ProgressCallback
    from cacheunit_build.domain.selection import SelectedArtifacts
    from cacheunit_build.lint.configuration import LintOptions
    from cacheunit_build.lint.edits import EditedProject
    from cacheunit_build.lint.inputs import VariantInputs
    from cacheunit_build.lint.literal_places import Place
    from cacheunit_build.lint.prefix_linter import PrefixLinter
    from cacheunit_build.lint.registry import RuleSelection
    from cacheunit_build.lint.results import Location
    from cacheunit_build.lint.segment import Match, Segment

_WRITTEN_BY_CODE = "no source has it literally: an expression or an escape writes it"


class TextKey(NamedTuple):
    """Which text of a project: a system text, an example turn, or a text of a tool.

    Attributes:
        prefix: the name of the prefix.
        variant: the name of the variant; empty for a text of a tool, which all variants share.
        position: its place among the texts of the variant, or of the tools.
    """

    prefix: str
    variant: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfixed:
    """A violation of a rule with a fix that needs a person.

    Attributes:
        code: the rule.
        path: the file, relative to the project root.
        line: counts from 1.
        column: counts from 1.
        reason: why it is left alone.
    """

    code: str
    path: str
    line: int
    column: int
    reason: str

    @classmethod
    def at(cls, location: Location, code: str, reason: str) -> Unfixed:
        """Returns what is left alone at a location."""
        return cls(code=code, path=location.path, line=location.line, column=location.column, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedVersion:
    """A project with some edits, compiled in memory.

    Attributes:
        project: the project.
        compiled: the result of compiling it.
        rules: the rules to report.
        context: what all rules share.
        prefixes: the linter of each prefix, by name.
    """

    project: EditedProject
    compiled: CompiledProject
    rules: RuleSelection
    context: LintContext
    prefixes: Mapping[str, PrefixLinter]

    @classmethod
    def compile(cls, project: EditedProject, options: LintOptions, progress: ProgressCallback | None) -> LintedVersion:
        """Compiles a project as a whole.

        Raises:
            CacheunitError: every fault in the sources.
        """
        compiled = compile_or_fail(project, None, progress)
        rules = lint_configuration(compiled.settings, options).rules
        context = LintContext(project, compiled, rules, None)
        prefixes = ProjectLinter(project, compiled, context).prefixes
        return cls(project=project, compiled=compiled, rules=rules, context=context, prefixes=prefixes)

    def texts(self) -> dict[TextKey, Segment]:
        """Returns every text of the project."""
        texts: dict[TextKey, Segment] = {}
        for name, linter in self.prefixes.items():
            for variant in linter.inputs.variants:
                texts |= {
                    TextKey(name, variant.variant.name, index): segment
                    for index, segment in enumerate(variant.segments)
                }
            texts |= {TextKey(name, "", index): segment for index, segment in enumerate(linter.inputs.tools)}
        return texts

    def other_values(self) -> object:
        """Returns what no replacement changes: the names of all artifacts and tools, and the frozen options."""
        manifests = {name: linter.inputs.manifest.options for name, linter in self.prefixes.items()}
        return [(item.key, [tool.name for tool in item.tools]) for item in self.compiled.artifacts], manifests

    def subjects(self) -> dict[TextKey, Counter[tuple[str, str]]]:
        """Returns how often each rule finds each part of each text."""
        found: dict[TextKey, Counter[tuple[str, str]]] = {}
        for linter, variant in self.variants():
            keys = keys_of(linter, variant)
            for segment, match in linter.text_matches(variant):
                found.setdefault(keys[id(segment)], Counter())[match.rule.code, match.subject] += 1
        return found

    def variants(self) -> Iterator[tuple[PrefixLinter, VariantInputs]]:
        """Yields every variant with the linter of its prefix."""
        return ((linter, variant) for linter in self.prefixes.values() for variant in linter.inputs.variants)


def keys_of(linter: PrefixLinter, variant: VariantInputs) -> dict[int, TextKey]:
    """Returns the key of each text of a variant and of its tools, by the identity of its segment."""
    name = linter.inputs.manifest.name
    keys = {id(segment): TextKey(name, variant.variant.name, index) for index, segment in enumerate(variant.segments)}
    return keys | {id(segment): TextKey(name, "", index) for index, segment in enumerate(linter.inputs.tools)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fix:
    """A replacement in one text, and the place in the sources to make it at."""

    key: TextKey
    span: tuple[int, int]
    place: Place
    edit: Edit
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixPlan:
    """What to replace.

    Attributes:
        edits: path -> the edits of that file, in order, which do not overlap.
        fixes: what each of them changes in each text.
        unfixed: violations that need a person.
    """

    edits: Mapping[str, tuple[Edit, ...]]
    fixes: tuple[_Fix, ...]
    unfixed: tuple[Unfixed, ...]

    def expected_texts(self, texts: Mapping[TextKey, Segment], paths: Collection[str]) -> dict[TextKey, str]:
        """Returns the texts that the edits of some files should give."""
        planned = {edit for path in paths for edit in self.edits[path]}
        by_text: dict[TextKey, dict[tuple[int, int], str]] = {}
        for fix in self.fixes:
            if fix.edit in planned:
                by_text.setdefault(fix.key, {})[fix.span] = fix.text
        return {key: _replaced(segment.text, by_text.get(key, {})) for key, segment in texts.items()}

    def unfixed_without(self, refused: Mapping[str, str]) -> tuple[Unfixed, ...]:
        """Returns what needs a person, with what is planned in files that are not edited.

        Args:
            refused: path -> why that file is not edited.
        """
        unfixed = [
            Unfixed(code=edit.code, path=path, line=edit.line, column=edit.column, reason=refused[path])
            for path, edits in self.edits.items()
            if path in refused
            for edit in edits
        ]
        return tuple(sorted([*self.unfixed, *unfixed], key=lambda item: (item.path, item.line, item.column, item.code)))


def _replaced(text: str, replacements: Mapping[tuple[int, int], str]) -> str:
    """Returns a text with other texts at spans that do not overlap."""
    parts, done = [], 0
    for (start, end), new in sorted(replacements.items()):
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def plan_fixes(version: LintedVersion, selected: SelectedArtifacts) -> FixPlan:
    """Plans the edits for the violations of the selected prefixes; others that share their places change with them."""
    planner = _Planner(version)
    wanted: dict[Place, Edit] = {}
    for linter, variant in version.variants():
        fixes = list(planner.fixes(linter, variant, report=selected.includes(variant.variant.name)))
        if selected.includes(variant.variant.name):
            wanted |= {fix.place: fix.edit for fix in fixes if fix.place not in wanted}
    edits: dict[str, list[Edit]] = {}
    for place, edit in sorted(wanted.items(), key=lambda item: (item[0].path, item[0].start)):
        own = edits.setdefault(place.path, [])
        if not own or own[-1].end <= edit.start:
            own.append(edit)
    return FixPlan(
        edits={path: tuple(own) for path, own in edits.items()},
        fixes=tuple(planner.found),
        unfixed=tuple(dict.fromkeys(planner.unfixed)),
    )


class _Planner:
    """Finds what to replace, variant by variant.

    Attributes:
        found: every replacement.
        unfixed: what needs a person.
    """

    def __init__(self, version: LintedVersion) -> None:
        self._version = version
        self._places = LiteralPlaces(version.context.sources, version.compiled.settings.templates)
        self.found: list[_Fix] = []
        self.unfixed: list[Unfixed] = []

    def fixes(self, linter: PrefixLinter, variant: VariantInputs, *, report: bool) -> Iterator[_Fix]:
        """Yields the replacements in the texts of a variant; with `report`, collects what needs a person too."""
        keys = keys_of(linter, variant)
        for segment, match in self._matches(linter, variant):
            try:
                fix = self._fix(keys[id(segment)], variant, segment, match)
            except UncertainFixError as error:
                location = linter.location(variant, segment, match)
                if report and not self._version.context.is_suppressed(match.rule.code, location):
                    self.unfixed.append(Unfixed.at(location, match.rule.code, str(error)))
                continue
            if not self._version.context.is_suppressed(match.rule.code, fix.edit):
                self.found.append(fix)
                yield fix

    def _matches(self, linter: PrefixLinter, variant: VariantInputs) -> Iterator[tuple[Segment, Match]]:
        """Yields the matches of rules with a fix; of decomposed characters all, not only the first of each kind."""
        composed: set[str] = set()
        for segment, match in linter.text_matches(variant):
            if match.rule.code not in FIXABLE or not self._version.rules.includes(match.rule.code):
                continue
            if match.rule is MIXED_NORMALIZATION:
                location = linter.location(variant, segment, match)
                if not self._version.context.is_suppressed(match.rule.code, location):
                    composed.add(match.message)
            else:
                yield segment, match
        if composed:
            for segment in (*variant.segments, *linter.inputs.tools):
                matches = decomposed_characters(segment)
                yield from ((segment, match) for match in matches if match.message in composed)

    def _fix(self, key: TextKey, variant: VariantInputs, segment: Segment, match: Match) -> _Fix:
        """Returns how to fix a match, whether or not a comment suppresses its rule at the place.

        Raises:
            UncertainFixError: a person has to decide.
        """
        text = replacement(segment, match)
        line = segment.tool_line or self._version.context.source_line(variant.variant, segment, match.start)
        found = None if line is None else self._places.find(line, segment.text, (match.start, match.end))
        if found is None:
            raise UncertainFixError(_WRITTEN_BY_CODE)
        place, value = found
        number, column = self._places.line_of(place)
        edit = Edit(
            code=match.rule.code,
            path=place.path,
            line=number,
            column=column,
            start=place.start,
            old=value.spelled(match.subject),
            new=value.spelled(text),
        )
        return _Fix(key=key, span=(match.start, match.end), place=place, edit=edit, text=text)
