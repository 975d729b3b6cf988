"""The story of lint: compiles a project, inspects every prefix, and says each thing once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail, manifest_names, source_maps
from cacheunit_build.domain.artifact import Artifact
from cacheunit_build.domain.protocols import Selection
from cacheunit_build.lint.inputs import read_prefix
from cacheunit_build.lint.prefix_linter import Found, Inspection, Means, counting, found_at
from cacheunit_build.lint.registry import Chosen
from cacheunit_build.lint.results import SEVERITIES, LintResult, Violation
from cacheunit_build.lint.rules.layout import MOST, advise, prefixes_part
from cacheunit_build.lint.rules.project import look_alikes, unreachable
from cacheunit_build.lint.rules.sections import likely_pairs
from cacheunit_build.lint.source_locator import Location, SourceTexts
from cacheunit_build.lint.suppressions import ignores_in
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.protocols import Adapters, ProgressCallback, SecretScanner
    from cacheunit_build.lint.inputs import Reading, Script
    from cacheunit_build.lint.segment import Segment


def lint(
    adapters: Adapters,
    selection: Selection | None = None,
    chosen: Chosen | None = None,
    *,
    scan: SecretScanner | None = None,
    progress: ProgressCallback | None = None,
) -> LintResult:
    """Lints what `selection` takes, everything if None.

    Args:
        adapters: the outside world.
        selection: which artifacts; what is about the whole project is looked for where it takes everything.
        chosen: which codes.
        scan: what finds secrets; without it, a note says that none were looked for.
        progress: called with the number of manifests done and of all.

    Raises:
        CacheunitError: every fault in the sources: what cannot be compiled cannot be linted.
    """
    selection, chosen = selection or Selection(), chosen or Chosen()
    compiled = compile_or_fail(adapters, selection, progress)
    linter = _Linter(adapters, compiled, selection, chosen, scan if chosen.takes("CU204") else None)
    found = [item for item in linter.found() if chosen.takes(item.finding.code)]
    notes = () if scan or not chosen.takes("CU204") else ("secrets were not looked for",)
    return LintResult(findings=tuple(_merged(found, linter.families)), notes=notes)


class _Linter:
    """Runs all rules over a project."""

    def __init__(
        self,
        adapters: Adapters,
        compiled: CompiledProject,
        selection: Selection,
        chosen: Chosen,
        scan: SecretScanner | None,
    ) -> None:
        self._files = adapters.files
        self._compiled = compiled
        self._everything = not selection
        self._wanted = Chosen(ignore=chosen.ignore)
        sources = self._sources = SourceTexts(adapters.files.read)
        self._ignores = cache(lambda path: ignores_in(sources.text(path), path))
        readings = self._read(selection)
        self.families = {r.manifest.name: {s.variant.name for s in r.scripts} for r in readings if r.whole}
        variants = {script.variant.name: script.variant for reading in readings for script in reading.scripts}
        self._origins = cache(lambda name: source_maps(adapters.files, compiled.config, variants[name]))
        means = Means(targets=compiled.targets, sources=sources, scan=scan, meant=self._is_meant, locate=self._locate)
        self._inspections = {reading.manifest.name: (reading, Inspection(reading, means)) for reading in readings}

    def _locate(self, script: Script, passage: Segment, span: tuple[int, int]) -> tuple[str, int] | None:
        origins = self._origins(script.variant.name)
        source = origins.system if passage.kind == "system" else origins.turns[int(passage.keys[-1])]
        chain = source.at(span[0])
        return (chain[0].path, chain[0].line) if chain else None

    def _read(self, selection: Selection) -> list[Reading]:
        """The prefixes that were compiled, each read once more."""
        config, files = self._compiled.config, self._files
        renderer = Renderer(files.read, list, config.templates)
        made: dict[str, list[Artifact]] = {}
        for artifact in self._compiled.artifacts:
            assert isinstance(artifact, Artifact)  # noqa: S101 - nothing is reused here
            made.setdefault(artifact.prefix.partition("@")[0], []).append(artifact)
        return [
            read_prefix(made[name][0].variant.manifest, files, renderer, selection, made[name])
            for name, _ in manifest_names(files, config)
            if name in made
        ]

    def _is_meant(self, code: str, place: Location) -> bool:
        return not self._wanted.takes(code) or self._ignores(place.path).hides(code, place.line)

    def found(self) -> Iterator[Found]:
        """Every finding that no comment ignores."""
        for item in self._all():
            finding = item.finding
            if not self._ignores(finding.path).hides(finding.code, finding.line):
                yield item

    def _all(self) -> Iterator[Found]:
        for _, inspection in self._inspections.values():
            yield from inspection.found()
        yield from self._pairs()
        yield from self._files_and_names()
        yield from self._comments()

    def _pairs(self) -> Iterator[Found]:
        """Prefixes of one target that share most of their text, but not at their beginning; each with its likest."""
        texts: dict[str, dict[str, tuple[str, Artifact]]] = {}
        for name, (reading, _) in self._inspections.items():
            script = reading.scripts[0]
            for artifact in script.artifacts if script.rendered.system else ():
                texts.setdefault(artifact.target, {})[name] = (script.rendered.system, artifact)
        for target, by_name in texts.items():
            ready = self._compiled.targets[target]
            for name, other in likely_pairs({name: text for name, (text, _) in by_name.items()}, MOST):
                advice = prefixes_part(by_name[name], by_name[other], ready.target.cache, counting(ready))
                if advice is not None:
                    place = self._inspections[name][1].place_of_offset(advice.offset or 0)
                    yield found_at(advice, place, name, f"{name} {other}")

    def _files_and_names(self) -> Iterator[Found]:
        """Templates that nothing looks for, and names of prefixes and templates that look alike."""
        config, files = self._compiled.config, self._files
        manifests = dict(manifest_names(files, config))
        for name, other in look_alikes(manifests) if self._everything else ():
            what = advise("CU503", f'prefix "{name}" looks like "{other}"')
            yield found_at(what, Location(path=manifests[name], line=1, column=1), name)
        if not self._everything or not files.exists(config.templates):
            return
        templates = {path: self._sources.text(path) for path in files.walk(config.templates)}
        looked_for = {lookup.path for artifact in self._compiled.artifacts for lookup in artifact.lookups}
        for path in unreachable(templates, looked_for, config.templates):
            what = advise("CU502", "no prefix looks for this file")
            yield found_at(what, Location(path=path, line=1, column=1), None)
        for path, other in look_alikes(templates):
            what = advise("CU503", f'looks like "{other}"')
            yield found_at(what, Location(path=path, line=1, column=1), None)

    def _comments(self) -> Iterator[Found]:
        """Comments that are to ignore what there is no code for."""
        looked_for = {
            lookup.path: artifact.prefix.partition("@")[0]
            for artifact in reversed(self._compiled.artifacts)
            for lookup in artifact.lookups
            if lookup.found is not None
        }
        for path, prefix in sorted(looked_for.items()):
            for line, column, message, hint in self._ignores(path).odd:
                yield found_at(
                    advise("CU504", message, hint=hint), Location(path=path, line=line, column=column), prefix
                )


def _merged(found: Iterable[Found], families: dict[str, set[str]]) -> list[Violation]:
    """One finding for each place and subject, as severe as its worst, in the order of places."""
    same: dict[tuple[object, ...], list[Violation]] = {}
    for item in found:
        finding = item.finding
        key = (finding.path, finding.line, finding.column, finding.code, item.subject)
        same.setdefault(key, []).append(finding)
    merged = []
    for findings in same.values():
        worst = min(findings, key=lambda finding: SEVERITIES.index(finding.severity))
        names = _folded([name for finding in findings for name in finding.prefixes], families)
        merged.append(replace(worst, prefixes=names))
    return _lined(sorted(merged, key=lambda finding: (finding.path, finding.line, finding.column, finding.code)))


def _lined(findings: list[Violation]) -> list[Violation]:
    """Characters that repeat on a line are said once, with their number."""
    kept: list[Violation] = []
    repeated: dict[tuple[object, ...], list[int]] = {}
    for finding in findings:
        key = (finding.path, finding.line, finding.code, finding.severity, finding.message, finding.prefixes)
        if not finding.code.startswith("CU3") or key not in repeated:
            repeated[key] = [len(kept), 0]
            kept.append(finding)
        else:
            repeated[key][1] += 1
    for index, more in repeated.values():
        if more:
            kept[index] = replace(kept[index], message=f"{kept[index].message}, and {more:,} more on this line")
    return kept


def _folded(names: Iterable[str], families: dict[str, set[str]]) -> tuple[str, ...]:
    """Each name once; all variants of a prefix are the prefix."""
    given = set(names)
    for prefix, variants in families.items():
        if variants <= given:
            given = given - variants | {prefix}
    return tuple(sorted(given))
