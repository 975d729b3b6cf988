"""One prefix under the rules: its texts, tools, layout and names, each finding with its place in the sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.lint.results import Violation
from cacheunit_build.lint.rules import text_hits
from cacheunit_build.lint.rules.characters import mixed_normalization, token_hits
from cacheunit_build.lint.rules.layout import advise, exposed, soft_end, standing, variants_part
from cacheunit_build.lint.rules.project import look_alikes, unused
from cacheunit_build.lint.source_locator import Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.protocols import SecretScanner
    from cacheunit_build.lint.inputs import Reading, Script
    from cacheunit_build.lint.rules.layout import Advice
    from cacheunit_build.lint.segment import Match, Segment
    from cacheunit_build.lint.source_locator import SourceTexts

Locate = Callable[["Script", "Segment", tuple[int, int]], tuple[str, int] | None]
"""A span of a rendered passage -> path and line of the source that it begins in, None where nobody knows."""

Meant = Callable[[str, Location], bool]
"""Whether a code at a place is to be passed over: by a comment, or by what was asked for."""

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding before it is merged with those of other variants and targets; `subject` sets it apart at its place."""

    finding: Violation
    subject: str


def found_at(told: Advice, place: Location, prefix: str | None, subject: str = "") -> Found:
    """What is told, at its place."""
    finding = Violation(
        code=told.code,
        severity=told.severity,
        message=told.message,
        prefixes=() if prefix is None else (prefix,),
        path=place.path,
        line=place.line,
        column=place.column,
        hint=told.hint,
    )
    return Found(finding=finding, subject=subject or told.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What inspections share: the loaded targets by name, the sources, and what finds secrets, if anything does.

    `meant` says what is passed over, `locate` where a rendered text came from.
    """

    targets: Mapping[str, LoadedTarget]
    sources: SourceTexts
    scan: SecretScanner | None
    meant: Meant
    locate: Locate


class Inspection:
    """Runs the rules over one prefix."""

    def __init__(self, reading: Reading, means: Means) -> None:
        self._reading = reading
        self._manifest = reading.manifest
        self._means = means
        self._text_hits = cache(text_hits)

    def found(self) -> Iterator[Found]:
        """Every finding, those that are meant too."""
        for script in self._reading.scripts:
            for passage, hit in self._hits(script):
                name = self._manifest.name if passage.kind == "tool" else script.variant.name
                yield self._hit_at(hit, self.place(script, passage, hit.start, hit.end), name)
            yield from self._exposed(script)
            yield from self._standing(script)
        yield from self._variants()
        yield from self._names()

    def _hits(self, script: Script) -> Iterator[tuple[Segment, Match]]:
        first = script is self._reading.scripts[0]  # tools are the same for all variants
        for passage in (*script.passages, *(self._reading.tools if first else ())):
            for hit in (
                *self._text_hits(passage),
                *token_hits(passage, self._controls(script, passage)),
                *self._secrets(passage),
            ):
                yield passage, hit
        yield from mixed_normalization([*script.passages, *self._reading.tools])

    def _controls(self, script: Script, passage: Segment) -> list[str]:
        """The control tokens in a passage, of all targets of its prefix."""
        spelt = (self._means.targets[a.target].tokenizer.controls_in(passage.text) for a in script.artifacts)
        return list(dict.fromkeys(token for tokens in spelt for token in tokens))

    def _secrets(self, passage: Segment) -> Iterator[Match]:
        for start, end, kind in self._means.scan(passage.text) if self._means.scan else ():
            shown = passage.text[start:end].partition("\n")[0][:_SHOWN]
            yield passage.hit("CU204", start, end, f"{kind}: {shown}…")

    def _hit_at(self, hit: Match, place: Location, prefix: str) -> Found:
        return found_at(advise(hit.code, hit.message, severity=hit.severity), place, prefix, hit.subject)

    # Places

    def place(self, script: Script, passage: Segment, start: int, end: int) -> Location:
        """Where the sources write that part of a passage."""
        span = (start, end)
        if passage.path is not None:
            first = self._reading.tool_lines[passage.path, passage.keys]
            found = self._means.sources.written_in(passage.path, first, passage.text, span)
            return found or Location(path=passage.path, line=first, column=1)
        located = self._means.locate(script, passage, span)
        if located is None:
            return self._at(*passage.keys or ("system",))
        path, line = located
        return Location(path=path, line=line, column=self._means.sources.column(path, line, passage.text, span))

    def _at(self, *keys: str | int) -> Location:
        """The line of a key of the manifest."""
        return Location(path=self._manifest.path, line=self._manifest.line(*keys) or 1, column=1)

    # Layout

    def _exposed(self, script: Script) -> Iterator[Found]:
        """For each target the first volatile hit that is neither an example nor ignored, with what stands after it."""
        hits = [
            (passage, hit, self.place(script, passage, hit.start, hit.end))
            for passage in (*self._reading.tools, *script.passages)
            for hit in self._text_hits(passage)
            if hit.code.startswith("CU1") and not hit.example
        ]
        volatile = [(passage, hit, place) for passage, hit, place in hits if not self._means.meant(hit.code, place)]
        for artifact in script.artifacts:
            placed = ((offset_in(artifact.framed_prefix, passage, hit), hit, place) for passage, hit, place in volatile)
            found = [item for item in placed if item[0] >= 0]
            if not found:
                continue
            offset, hit, place = min(found, key=lambda item: item[0])
            ready = self._means.targets[artifact.target]
            advice = exposed(artifact, ready.target.cache, hit, offset, counting(ready))
            if advice is not None:
                yield found_at(advice, place, script.variant.name, hit.subject)

    def _standing(self, script: Script) -> Iterator[Found]:
        """What the numbers of each artifact mean."""
        for artifact in script.artifacts:
            rule = self._means.targets[artifact.target].target.cache
            for advice in (*standing(artifact, rule), *soft_end(artifact, rule)):
                of = f"{artifact.prefix} " if self._manifest.matrix else ""
                named = f"{of}for {artifact.target}: {advice.message}"
                key = "system" if self._manifest.system else "tools"
                what = replace(advice, message=named)
                yield found_at(what, self._at(key), script.variant.name, artifact.target)  # one of all variants

    def _variants(self) -> Iterator[Found]:
        """Where the variants part, for each target."""
        scripts = self._reading.scripts
        if len(scripts) < 2 or not scripts[0].rendered.system:  # noqa: PLR2004 - one has none to part from
            return
        texts = [script.rendered.system for script in scripts]
        for artifact in scripts[0].artifacts:
            ready = self._means.targets[artifact.target]
            advice = variants_part(texts, artifact, ready.target.cache, counting(ready))
            if advice is not None and advice.offset is not None:
                yield found_at(advice, self.place_of_offset(advice.offset), self._manifest.name, "variants")

    def place_of_offset(self, offset: int) -> Location:
        """Where the word at a character of the first variant's system text is written."""
        script = self._reading.scripts[0]
        passage = script.passages[0]
        end = offset
        while end < len(passage.text) and passage.text[end].isalnum():
            end += 1
        return self.place(script, passage, offset, max(end, min(offset + 1, len(passage.text))))

    # Names

    def _names(self) -> Iterator[Found]:
        """Variables that nothing reads, and those that look alike."""
        manifest = self._manifest
        asked = {name for script in self._reading.scripts for name in script.rendered.asked}
        for key, name, message in unused(manifest, asked) if self._reading.whole else ():
            yield found_at(advise("CU501", message), self._named(key, name), manifest.name)
        keys = {name: key for key in ("variables", "data", "matrix") for name in getattr(manifest, key)}
        for name, other in look_alikes(keys):
            message = f'variable "{name}" looks like "{other}"'
            yield found_at(advise("CU503", message), self._named(keys[name], name), manifest.name)

    def _named(self, key: str, name: str) -> Location:
        """Where the manifest names a variable."""
        line = self._manifest.line(key, name) or 1
        column = self._means.sources.line(self._manifest.path, line).find(name) + 1
        return Location(path=self._manifest.path, line=line, column=max(column, 1))


def offset_in(framed_prefix: str, passage: Segment, hit: Match) -> int:
    """Where a hit stands in front of the user's words, its passage as it is or as a text in JSON; -1 if nowhere."""
    for text, before in ((passage.text, hit.start), (_json(passage.text), len(_json(passage.text[: hit.start])))):
        start = framed_prefix.find(text)
        if start >= 0:
            return start + before
    return -1


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def counting(ready: LoadedTarget) -> Callable[[str], int]:
    """What counts the tokens of a text by the vocabulary of a target."""
    return lambda text: len(ready.tokenizer.encode(text))
