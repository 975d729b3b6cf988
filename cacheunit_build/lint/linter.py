"""Lints a project: compiles it, runs all rules, and merges what several variants or targets have in common."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail, manifest_names
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lint.configuration import LintOptions, lint_configuration
from cacheunit_build.lint.context import LintContext
from cacheunit_build.lint.divergence import similar_pairs
from cacheunit_build.lint.inputs import read_prefix_inputs
from cacheunit_build.lint.prefix_linter import PrefixLinter, token_counter
from cacheunit_build.lint.results import LintResult, Location, Violation
from cacheunit_build.lint.rule import SEVERITIES
from cacheunit_build.lint.rules.cu2_leaks import SECRET
from cacheunit_build.lint.rules.cu4_shared_text import MAJORITY, PrefixText, prefixes_diverge_early
from cacheunit_build.lint.rules.cu5_project import comments_around_text, cut_texts, similar_names, unused_templates
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.protocols import CompileInputs, ProgressCallback, SecretScanner
    from cacheunit_build.lint.inputs import PrefixInputs, VariantInputs
    from cacheunit_build.lint.registry import RuleSelection
    from cacheunit_build.lint.rule import Problem


def lint(
    adapters: CompileInputs,
    selection: Selection | None = None,
    options: LintOptions | None = None,
    *,
    scan_secrets: SecretScanner | None = None,
    progress: ProgressCallback | None = None,
) -> LintResult:
    """Lints the selected prefixes of a project. Nothing is written.

    Args:
        adapters: the outside world.
        selection: which prefixes and targets; everything if None. Rules about the whole project need everything.
        options: what the command line decides; the settings decide the rest.
        scan_secrets: finds secrets; if None, a note says that only those of a certain form were looked for.
        progress: called with the number of manifests compiled, and of all.

    Raises:
        CacheunitError: every fault in the sources, since only what compiles can be linted; or in rules of the settings.
    """
    compiled = compile_or_fail(adapters, selection or Selection(), progress)
    return lint_result(adapters, compiled, options or LintOptions(), scan_secrets)


def lint_result(
    adapters: CompileInputs, compiled: CompiledProject, options: LintOptions, scan_secrets: SecretScanner | None
) -> LintResult:
    """Returns the violations of a compiled project, by the settings and the command line.

    Args:
        adapters: the outside world.
        compiled: the project.
        options: what the command line decides.
        scan_secrets: finds secrets; if None, only those of a certain form are found.

    Raises:
        CacheunitError: every rule of the settings that does not exist.
    """
    configuration = lint_configuration(compiled.settings, options)
    violations = lint_compiled(adapters, compiled, configuration.rules, scan_secrets)
    secrets_wanted = configuration.rules.includes(SECRET.code)
    notes = () if scan_secrets or not secrets_wanted else ("secrets were checked by their form only",)
    return LintResult(violations=configuration.with_severities(violations), notes=notes, strict=configuration.strict)


def lint_compiled(
    adapters: CompileInputs, compiled: CompiledProject, rules: RuleSelection, scan_secrets: SecretScanner | None
) -> tuple[Violation, ...]:
    """Returns the violations of a compiled project; what was reused and not compiled is not looked at.

    Args:
        adapters: the outside world.
        compiled: the project.
        rules: which rules to report.
        scan_secrets: finds secrets; if None, only those of a certain form are found.
    """
    context = LintContext(adapters, compiled, rules, scan_secrets if rules.includes(SECRET.code) else None)
    linter = ProjectLinter(adapters, compiled, context)
    violations = [violation for violation in linter.violations() if rules.includes(violation.code)]
    return tuple(_merge(violations, linter.variant_names()))


class ProjectLinter:
    """Runs all rules over a compiled project.

    Attributes:
        prefixes: the linter of each prefix that was compiled, by its name.
    """

    def __init__(self, adapters: CompileInputs, compiled: CompiledProject, context: LintContext) -> None:
        self._files = adapters.files
        self._compiled = compiled
        self._context = context
        self._is_whole_project = not compiled.selection and len(compiled.variants) == len(compiled.manifests)
        self.prefixes = {inputs.manifest.name: PrefixLinter(inputs, context) for inputs in self._read_inputs()}

    def _read_inputs(self) -> Iterator[PrefixInputs]:
        """Yields the inputs of every prefix that was compiled, in the order of names."""
        settings, files = self._compiled.settings, self._files
        renderer = Renderer(files.read, list, settings.templates)
        by_prefix: dict[str, list[Artifact]] = {}
        for artifact in self._compiled.artifacts:
            by_prefix.setdefault(artifact.prefix.partition("@")[0], []).append(artifact)
        for name, _ in manifest_names(files, settings):
            if name in by_prefix:
                artifacts = by_prefix[name]
                variants = self._compiled.variants[name]
                yield read_prefix_inputs(variants, files, renderer, self._compiled.selection, artifacts)

    def variant_names(self) -> dict[str, set[str]]:
        """Returns the names of all variants of each prefix that is linted in all its variants."""
        return {
            name: {variant.variant.name for variant in linter.inputs.variants}
            for name, linter in self.prefixes.items()
            if linter.inputs.has_all_variants
        }

    def violations(self) -> Iterator[Violation]:
        """Yields every violation that no comment suppresses."""
        for violation in self._all_violations():
            if not self._context.is_suppressed(violation.code, violation.location):
                yield violation

    def _all_violations(self) -> Iterator[Violation]:
        """Yields the violations of all rules."""
        for linter in self.prefixes.values():
            yield from linter.violations()
        yield from self._prefixes_diverge()
        if self._is_whole_project:
            yield from self._similar_prefixes()
            yield from self._template_files()
        yield from self._comments()

    def _prefixes_diverge(self) -> Iterator[Violation]:
        """Yields pairs of prefixes of one target that share most of their text, but not their beginning."""
        by_target: dict[str, dict[str, PrefixText]] = {}
        firsts: dict[tuple[str, str], VariantInputs] = {}  # name and target -> the first variant for that target
        for name, linter in self.prefixes.items():
            for variant in linter.inputs.variants:
                for artifact in variant.artifacts:
                    if variant.system is not None and firsts.setdefault((name, artifact.target), variant) is variant:
                        prefix = PrefixText(system=variant.system, artifact=artifact)
                        by_target.setdefault(artifact.target, {})[name] = prefix
        for target_name, prefixes in by_target.items():
            target = self._context.targets[target_name]
            texts = {name: prefix.system.text for name, prefix in prefixes.items()}
            for name, other in similar_pairs(texts, MAJORITY):
                prefix, linter = prefixes[name], self.prefixes[name]
                match = prefixes_diverge_early(prefix, prefixes[other], target.target.cache, token_counter(target))
                if match is not None:
                    location = linter.location(firsts[name, target_name], prefix.system, match)
                    yield Violation.of(match, location, name, f"{name} {other}")

    def _similar_prefixes(self) -> Iterator[Violation]:
        """Yields prefixes whose names look alike."""
        manifests = dict(manifest_names(self._files, self._compiled.settings))
        for name, problem in similar_names(manifests, "prefix"):
            yield Violation.of(problem, Location(path=manifests[name], line=1), name)

    def _template_files(self) -> Iterator[Violation]:
        """Yields templates that no prefix uses, and templates whose names look alike."""
        folder = self._compiled.settings.templates
        if not self._files.has_folder(folder):
            return
        templates = {path: self._context.sources.text(path) for path in self._files.walk(folder)}
        looked_up = {lookup.path for record in self._compiled.records for lookup in record.lookups}
        for path, problem in (*unused_templates(templates, looked_up, folder), *similar_names(templates, "template")):
            yield Violation.of(problem, Location(path=path, line=1))

    def _comments(self) -> Iterator[Violation]:
        """Yields ignore comments that name no known rule, and comments that cut or swallow text.

        Each has the first prefix that reads the file.
        """
        prefix_by_path: dict[str, str] = {}
        for record in self._compiled.records:
            for lookup in record.lookups:
                if lookup.fingerprint is not None:
                    prefix_by_path.setdefault(lookup.path, record.prefix.partition("@")[0])
        for path, prefix in sorted(prefix_by_path.items()):
            for comment in self._context.suppressions(path).invalid_comments:
                yield Violation.of(comment.problem, comment.location, prefix)
            yield from (Violation.of(problem, location, prefix) for location, problem in self._comments_in_text(path))

    def _comments_in_text(self, path: str) -> Iterator[tuple[Location, Problem]]:
        """Yields location and problem of each comment in a file that cuts or swallows text."""
        text = self._context.sources.text(path)
        if path.lower().endswith((".yaml", ".yml")):
            with contextlib.suppress(CacheunitError):  # a template, whose name only looks like YAML
                yield from cut_texts(text, path)
        if path.startswith(f"{self._compiled.settings.templates}/"):
            yield from comments_around_text(text, path)


def _merge(violations: Iterable[Violation], variant_names: Mapping[str, set[str]]) -> list[Violation]:
    """Returns one violation for each location, rule and subject, in the order of locations.

    Variants, targets and prefixes that share a source have the same violation in it; the worst severity is kept.
    """
    groups: dict[tuple[object, ...], list[Violation]] = {}
    for violation in violations:
        groups.setdefault((violation.location, violation.code, violation.subject), []).append(violation)
    merged = []
    for group in groups.values():
        # min() returns the first of equals: the violation of the first prefix, variant and target.
        worst = min(group, key=lambda violation: SEVERITIES.index(violation.severity))
        names = {name for violation in group for name in violation.prefixes}
        prefixes = _fold_variants(names, variant_names)
        merged.append(replace(worst, prefixes=prefixes, variants=tuple(sorted(names))))
    merged.sort(key=lambda violation: (violation.path, violation.line, violation.column, violation.code))
    return _merge_repeated_characters(merged)


def _merge_repeated_characters(violations: list[Violation]) -> list[Violation]:
    """Returns the violations; of equal ones of CU3xx on one line only the first, whose message has their number."""
    kept: dict[tuple[object, ...], Violation] = {}
    repeats: Counter[tuple[object, ...]] = Counter()
    for index, violation in enumerate(violations):
        line = (violation.path, violation.line, violation.code, violation.severity)
        is_character = violation.code.startswith("CU3")
        key = (*line, violation.message, violation.prefixes) if is_character else (index,)
        if key in kept:
            repeats[key] += 1
        else:
            kept[key] = violation
    return [
        replace(violation, message=f"{violation.message}, and {repeats[key]:,} more on this line")
        if repeats[key]
        else violation
        for key, violation in kept.items()
    ]


def _fold_variants(names: set[str], variant_names: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Returns the names sorted, with the name of a prefix in place of all its variants.

    With the variants x and y of a: {a@x, a@y, b} -> (a, b); {a@x, b} -> (a@x, b).
    """
    for prefix, variants in variant_names.items():
        if variants <= names:
            names = names - variants | {prefix}
    return tuple(sorted(names))
