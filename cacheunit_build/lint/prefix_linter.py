"""Runs the rules over one prefix, and locates each violation in the sources."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.compiler.tool_checks import limit_problems
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.lint.certain_secrets import certain_secrets, final_secrets
from cacheunit_build.lint.results import Location, Violation
from cacheunit_build.lint.rules import cu4_layout, cu4_shared_text, cu5_project, cu6_tools
from cacheunit_build.lint.rules.cu1_volatile import is_volatile, volatile_matches
from cacheunit_build.lint.rules.cu2_leaks import (
    CREDENTIAL,
    credential_matches,
    credential_message,
    leak_matches,
    secret_matches,
)
from cacheunit_build.lint.rules.cu3_characters import character_matches, control_token_matches, mixed_normalization

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.lint.context import LintContext
    from cacheunit_build.lint.inputs import PrefixInputs, VariantInputs
    from cacheunit_build.lint.segment import Match, Segment

_MAX_SECRETS_ELSEWHERE = 20
"""Secrets of one variant that are looked for in whole files."""


class PrefixLinter:
    """Runs the rules over one prefix.

    Attributes:
        inputs: what is linted.
    """

    def __init__(self, inputs: PrefixInputs, context: LintContext) -> None:
        self.inputs = inputs
        self._manifest = inputs.manifest
        self._context = context
        self._text_matches = cache(_text_matches)
        self._credentials = cache(lambda segment: tuple(credential_matches(segment)))

    def violations(self) -> Iterator[Violation]:
        """Yields every violation, including those that a comment suppresses."""
        for variant in self.inputs.variants:
            for segment, match in self.text_matches(variant):
                prefix = self._manifest.name if segment.kind == "tool" else variant.variant.name
                yield Violation.of(match, self.location(variant, segment, match), prefix, match.subject)
            yield from self._credentials_elsewhere(variant)
            yield from self._volatile_before_stable(variant)
            yield from self._token_counts(variant)
            yield from self._later_turns(variant)
        yield from self._disputed_limits()
        yield from self._variants_diverge()
        yield from self._names()

    # Rules about texts

    def text_matches(self, variant: VariantInputs) -> Iterator[tuple[Segment, Match]]:
        """Yields the matches of all text rules; those in tools for the first variant only, since all share them."""
        tools = self.inputs.tools if variant is self.inputs.variants[0] else ()
        for segment in (*variant.segments, *tools):
            credentials = self._credentials(segment)
            others = (
                *self._text_matches(segment),
                *control_token_matches(segment, self._control_tokens(variant, segment)),
                *secret_matches(segment, self._context.scan_secrets),
            )
            yield from ((segment, match) for match in credentials)
            # A message about a part of a secret would show that part.
            yield from ((segment, match) for match in others if not match.overlaps_any(credentials))
        yield from mixed_normalization([*variant.segments, *self.inputs.tools])

    def _credentials_elsewhere(self, variant: VariantInputs) -> Iterator[Violation]:
        """Yields secrets in an artifact that no text of its sources has: in a frame, an option, the name of a tool."""
        segments = (*variant.segments, *self.inputs.tools)
        known = {secret.value for segment in segments for secret in certain_secrets(segment.text)}
        most = len(known) + _MAX_SECRETS_ELSEWHERE
        for artifact in variant.artifacts:
            for secret in final_secrets(artifact, self._context.targets[artifact.target]):
                if secret.value not in known and len(known) < most:
                    known.add(secret.value)
                    files = [lookup.path for lookup in artifact.record.lookups if lookup.fingerprint is not None]
                    location = self._context.location_of(secret.value, files) or self._manifest_line("system")
                    yield Violation.of(
                        CREDENTIAL.problem(credential_message(secret)), location, variant.variant.name, secret.value
                    )

    def _control_tokens(self, variant: VariantInputs, segment: Segment) -> list[str]:
        """Returns the control tokens of the variant's targets that a segment contains, each once."""
        targets = (self._context.targets[artifact.target] for artifact in variant.artifacts)
        return list(
            dict.fromkeys(token for target in targets for token in target.tokenizer.control_tokens_in(segment.text))
        )

    # Locations

    def location(self, variant: VariantInputs, segment: Segment, match: Match) -> Location:
        """Returns where in the sources the text of a match was written."""
        span = (match.start, match.end)
        sources = self._context.sources
        if segment.tool_line is not None:
            path, line = segment.tool_line.path, segment.tool_line.line
            return sources.locate(path, line, segment.text, span) or Location(path=path, line=line)
        source = self._context.source_line(variant.variant, segment, match.start)
        if source is None:
            return self._manifest_line(*(("system",) if segment.turn is None else ("examples", segment.turn)))
        column = sources.column(source.path, source.line, segment.text, span)
        return Location(path=source.path, line=source.line, column=column)

    def _manifest_line(self, *keys: str | int) -> Location:
        """Returns the line of a key in the manifest."""
        return Location(path=self._manifest.path, line=self._manifest.line(*keys) or 1)

    def _manifest_name(self, key: str, name: str) -> Location:
        """Returns where the manifest spells a name below a key."""
        location = self._manifest_line(key, name)
        column = self._context.sources.line(location.path, location.line).find(name) + 1
        return replace(location, column=max(column, 1))

    # Rules about layout

    def _volatile_before_stable(self, variant: VariantInputs) -> Iterator[Violation]:
        """Yields, for each target, the first volatile text that a long stable part follows."""
        volatile = list(self._volatile_matches(variant))
        for artifact in variant.artifacts:
            # Targets lay out tools, system text and examples in different orders.
            matches = {
                offset: (segment, match)
                for segment, match in reversed(volatile)
                if (offset := _offset_in(artifact.framed_prefix, segment, match.start)) is not None
            }
            if not matches:
                continue
            offset = min(matches)
            segment, match = matches[offset]
            target = self._context.targets[artifact.target]
            problem = cu4_layout.volatile_before_stable(
                artifact, target.target.cache, match.severity, offset, token_counter(target)
            )
            if problem is not None:
                location = self.location(variant, segment, match)
                yield Violation.of(problem, location, variant.variant.name, match.subject)

    def _volatile_matches(self, variant: VariantInputs) -> Iterator[tuple[Segment, Match]]:
        """Yields the matches of volatile text that are neither examples nor turned off."""
        for segment in (*self.inputs.tools, *variant.segments):
            for match in self._text_matches(segment):
                if is_volatile(match) and not self._context.is_ignored(
                    match.rule.code, self.location(variant, segment, match)
                ):
                    yield segment, match

    def _token_counts(self, variant: VariantInputs) -> Iterator[Violation]:
        """Yields what is wrong with the number of static tokens of each artifact."""
        location = self._manifest_line("system" if self._manifest.system else "tools")
        for artifact in variant.artifacts:
            cache_rule = self._context.targets[artifact.target].target.cache
            label = (
                f"{readable_name(artifact.prefix)} for {artifact.target}"
                if self._manifest.matrix
                else f"for {artifact.target}"
            )
            for problem in cu4_layout.token_count_problems(artifact, cache_rule):
                labelled = replace(problem, message=f"{label}: {problem.message}")
                # Its subject is the target alone, so that the variants of a prefix are reported as one violation.
                yield Violation.of(labelled, location, variant.variant.name, target=artifact.target)

    def _later_turns(self, variant: VariantInputs) -> Iterator[Violation]:
        """Yields each chat template that changes the prefix in later turns, at its line that prints what changes."""
        for artifact in variant.artifacts:
            problem = cu4_layout.later_turns(artifact)
            if problem is None or artifact.later_turns is None:
                continue
            source = artifact.later_turns.source
            line = self._manifest_line("system" if self._manifest.system else "tools")
            location = line if source is None else Location(path=source.path, line=source.line)
            labelled = replace(problem, message=f"for {artifact.target}: {problem.message}")
            yield Violation.of(labelled, location, variant.variant.name, target=artifact.target)

    def _disputed_limits(self) -> Iterator[Violation]:
        """Yields each tool that is beyond a disputed limit of a target; all variants have the same tools."""
        artifacts = self.inputs.variants[0].artifacts
        targets = [self._context.targets[artifact.target].target for artifact in artifacts]
        for problem, names in limit_problems(artifacts[0].tools, targets, "disputed"):
            location = Location(path=problem.tool.path, line=problem.tool.line or 1)
            yield Violation.of(cu6_tools.disputed_limit(problem, names), location, self._manifest.name)

    def _variants_diverge(self) -> Iterator[Violation]:
        """Yields, for each target, where the variants diverge although they share text further on."""
        by_target: dict[str, list[tuple[VariantInputs, Artifact]]] = {}
        for variant in self.inputs.variants:
            for artifact in variant.artifacts:
                by_target.setdefault(artifact.target, []).append((variant, artifact))
        for name, ((first, artifact), *others) in by_target.items():
            if not others or first.system is None:
                continue
            texts = [variant.rendered.system for variant, _ in others]
            target = self._context.targets[name]
            match = cu4_shared_text.variants_diverge_early(
                first.system, texts, artifact, target.target.cache, token_counter(target)
            )
            if match is not None:
                location = self.location(first, first.system, match)
                yield Violation.of(match, location, self._manifest.name, "variants")

    # Rules about names

    def _names(self) -> Iterator[Violation]:
        """Yields variables, data files and axes that no template uses, and names that look alike."""
        manifest = self._manifest
        if self.inputs.has_all_variants:
            used = {name for variant in self.inputs.variants for name in variant.rendered.used_variables}
            for key, name, problem in cu5_project.unused_names(manifest, used):
                yield Violation.of(problem, self._manifest_name(key, name), manifest.name)
        keys = dict.fromkeys(manifest.variables, "variables")
        keys |= dict.fromkeys(manifest.data, "data") | dict.fromkeys(manifest.matrix, "matrix")
        for name, problem in cu5_project.similar_names(keys, "variable"):
            yield Violation.of(problem, self._manifest_name(keys[name], name), manifest.name)


def _text_matches(segment: Segment) -> list[Match]:
    """Returns the matches of all rules that need nothing but a text, in the order of the text."""
    matches = [*volatile_matches(segment), *leak_matches(segment), *character_matches(segment)]
    return sorted(matches, key=lambda match: (match.start, match.rule.code))


def _offset_in(framed_prefix: str, segment: Segment, start: int) -> int | None:
    """Returns where a character of a segment is in the framed prefix; None where the prefix lacks the segment.

    Args:
        framed_prefix: the text in front of the user's message; it has a segment as it is, or escaped as in JSON.
        segment: the segment.
        start: offset of the character in the segment.
    """
    as_json = _escape_json(segment.text)
    for text, offset in ((segment.text, start), (as_json, len(_escape_json(segment.text[:start])))):
        segment_start = framed_prefix.find(text)
        if segment_start >= 0:
            return segment_start + offset
    return None


def _escape_json(text: str) -> str:
    """Returns a text as it is inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def token_counter(target: LoadedTarget) -> Callable[[str], int]:
    """Returns a function that counts the tokens of a text by the vocabulary of a target."""
    return lambda text: len(target.tokenizer.encode(text))
