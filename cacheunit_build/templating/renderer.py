"""Renders a variant: its templates, data files and variables become the system text and the worked turns."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Lookup, Rendered
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.source_map import MappedSpan, SourceLine, SourceMap, SourceMaps
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.examples import example_turns
from cacheunit_build.parsing.front_matter import template_without_front_matter
from cacheunit_build.templating.environment import DeterministicEnvironment
from cacheunit_build.templating.surrogates import refuse_surrogates
from cacheunit_build.templating.template_errors import FailedRender, explain_template_error
from cacheunit_build.templating.traced_text import add_outer_line, join_traced, spans_of, trace_value
from cacheunit_build.templating.tracing_environment import TracingEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.domain.manifest import Manifest, Variant

_CONFLICT_MARKERS = [re.compile(rf"^{mark}( |$)", re.MULTILINE) for mark in ("<{7}", "={7}", ">{7}")]
_OTHER_SECTION = "\0"
"""A section that no template gives: a rendered text has no such character."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}")

_TRACING_ERRORS = (
    *(CacheunitError, TemplateError, RecursionError),  # the sandbox and the loader; more calls for each print
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError),  # operations on a text that is no plain str
)
"""What a template that renders may raise when it is rendered once more with traced text."""

_MOST_SOURCES = 256
"""The most files whose parsed contents are kept; with more, they are parsed again."""


class _Source:
    """A template or data file with its fingerprint, parsed once: many variants use it, and each renders twice."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fingerprint = fingerprint(data)
        self._values: dict[tuple[str, bool], Any] = {}

    def parsed(self, kind: str, parse: Callable[[bytes], Any], *, strip: bool) -> Any:  # noqa: ANN401 - what it contains
        """Returns what `parse` makes of it as a file of a kind, with or without its front matter."""
        if (kind, strip) not in self._values:
            self._values[kind, strip] = parse(self.data)
        return self._values[kind, strip]


class Renderer:
    """Renders the variants of one project.

    Args:
        read: returns the bytes of a file by its path relative to the root; None if it does not exist.
        template_names: returns the names of all templates, for hints.
        folder: the template folder, relative to the root.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        template_names: Callable[[], Sequence[str]],
        folder: str = "templates",
    ) -> None:
        self._read = read
        self._template_names = template_names
        self._folder = folder
        self._environment = DeterministicEnvironment(self._find_template)
        self._sources: dict[str, _Source] = {}  # by path, as they were read last
        self._manifest_path = ""  # of the variant that is being rendered
        self._strips_front_matter = False  # of its templates and text data files
        self._lookups: dict[str, Lookup] = {}  # of that variant
        self._origins: dict[str, str] = {}  # of that variant: variable -> the file it comes from

    def render(self, variant: Variant, inputs: Sequence[Lookup] = ()) -> Rendered:
        """Renders a variant, each template twice to see that both results are equal.

        Args:
            variant: the variant.
            inputs: the files that were looked for before, with which the lookups of the result begin.

        Raises:
            CacheunitError: a template or data file is missing or invalid, a name is undefined, or the text is not
                deterministic.
        """
        manifest = variant.manifest
        self._lookups = {}
        self._manifest_path = manifest.path
        self._strips_front_matter = "front-matter" in manifest.strip
        self._origins = dict.fromkeys([*manifest.variables, *variant.axes], manifest.path) | dict(manifest.data)
        variables = {**manifest.variables, **variant.axes, **self._load_data(manifest)}
        entries = [("system", index, name) for index, name in enumerate(manifest.system)]
        entries += [("examples", index, turn.template) for index, turn in enumerate(manifest.examples) if turn.template]
        texts, used = self._render_entries(manifest, entries, variables)
        sections = [texts["system", index] for index in range(len(manifest.system))]
        blocks = _section_blocks(sections)
        system = "".join(blocks)
        if manifest.system and not system.strip():
            raise CacheunitError(manifest.fault("the system text is empty", "system"))
        turns = example_turns(
            manifest.examples,
            [texts.get(("examples", index), example.text or "") for index, example in enumerate(manifest.examples)],
        )
        self._refuse_addresses(manifest, "\n".join([system, *(turn.content for turn in turns)]), variables)
        reads_no_axis = [not used["system", index] & variant.axes.keys() for index in range(len(sections))]
        shared = len(list(itertools.takewhile(bool, reads_no_axis)))
        head = blocks if shared == len(sections) else _section_blocks([*sections[:shared], _OTHER_SECTION])
        return Rendered(
            blocks=tuple(blocks),
            shared_blocks=common_prefix(blocks, head),
            turns=turns,
            lookups=(*inputs, *self._lookups.values()),
            used_variables=frozenset().union(*used.values()),
        )

    def source_maps(self, variant: Variant) -> SourceMaps:
        """Returns the source lines of every character of what `render` returns.

        A text that does not render the same with tracing comes from the manifest line that names its template.

        Raises:
            CacheunitError: the variant cannot be rendered.
        """
        rendered = self.render(variant)
        manifest = variant.manifest
        environment = TracingEnvironment(self._find_template, self._folder)
        variables = self._traced_variables(variant)

        def line_of(*keys: str | int) -> SourceLine:
            """Returns the manifest line of the value under `keys`."""
            return SourceLine(path=manifest.path, line=manifest.line(*keys) or 1)

        def trace(template: str, *keys: str | int) -> str:
            """Renders a template with tracing; returns an empty text where that fails."""
            environment.budget.reset()
            try:
                text = join_traced(environment.get_template(template).generate(variables))
            except _TRACING_ERRORS:
                return ""
            return add_outer_line(text, line_of(*keys))

        def source_map(traced: str, text: str, *keys: str | int) -> SourceMap:
            """Maps a rendered text by its traced copy, or to the manifest line of `keys` if the two differ."""
            untraced = MappedSpan(length=len(text), chain=(line_of(*keys),))
            return SourceMap(text, spans_of(traced) if traced == text else [untraced])

        # The texts of `rendered` are what counts: tracing only adds lines to them, where it gives the very same text.
        sections = [trace(name, "system", index) for index, name in enumerate(manifest.system)]
        turns = []
        for index, (example, turn) in enumerate(zip(manifest.examples, rendered.turns, strict=True)):
            keys = ("examples", index, "text" if example.template is None else "template")
            traced = "" if example.template is None else trace(example.template, *keys)
            turns.append(source_map(traced, turn.text, *keys))
        return SourceMaps(system=source_map(_join_sections(sections), rendered.system, "system"), turns=tuple(turns))

    def _traced_variables(self, variant: Variant) -> dict[str, Any]:
        """Returns the variables of a variant, with their texts traced to the manifest and the data files."""
        manifest = variant.manifest
        source = (self._read(manifest.path) or b"").decode("utf-8", "replace")
        document = Document(path=manifest.path, value=manifest.variables, lines=manifest.lines)
        variables: dict[str, Any] = trace_value(document, source, ("variables",))
        for axis, value in variant.axes.items():
            variables[axis] = trace_value(replace(document, value=value), source, manifest.axis_keys(axis, value))
        for name, file in manifest.data.items():
            path = normal_path(file)
            data = self._read(path) or b""
            document = parse_data(data, path, strip=self._strips_front_matter)
            variables[name] = trace_value(document, data.decode("utf-8", "replace"))
        return variables

    def _load_data(self, manifest: Manifest) -> dict[str, Any]:
        """Returns the manifest's data files by variable; raises the faults of all files together."""
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        for name, file in manifest.data.items():
            try:
                values[name] = self._load_data_file(manifest, name, normal_path(file))
            except CacheunitError as error:
                faults += error.faults_at(manifest.path, manifest.line("data", name))
        if faults:
            raise CacheunitError(*faults)
        return values

    def _load_data_file(self, manifest: Manifest, name: str, path: str) -> Any:  # noqa: ANN401 - what the file contains
        """Returns the value of a data file."""
        source, strip = self._look_up(path, manifest.path), self._strips_front_matter
        if source is None:
            raise CacheunitError(manifest.fault(f'there is no file "{path}"', "data", name))
        return source.parsed("data", lambda data: parse_data(data, path, strip=strip).value, strip=strip)

    def _render_entries(
        self, manifest: Manifest, entries: Sequence[tuple[str, int, str]], variables: Mapping[str, Any]
    ) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], frozenset[str]]]:
        """Renders the templates that a manifest names; raises the faults of all together.

        Args:
            manifest: the manifest.
            entries: key and index of each entry ("system", 0), and the name of its template.
            variables: the variables of the variant.

        Returns:
            The text of each entry, and the variables that it read, by key and index.
        """
        texts: dict[tuple[str, int], str] = {}
        used: dict[tuple[str, int], frozenset[str]] = {}
        faults: list[Fault] = []
        for key, index, name in entries:
            self._environment.used_variables.clear()
            # Randomness that the environment does not exclude, such as the order of a set, shows in the second text.
            try:
                first, second = self._render_twice(name, variables)
            except CacheunitError as error:
                faults += error.faults_at(manifest.path, manifest.line(key, index))
                continue
            if first != second:
                faults.append(manifest.fault(f'"{name}" renders differently each time', key, index))
            texts[key, index] = first
            used[key, index] = frozenset(self._environment.used_variables)
        if faults:
            raise CacheunitError(*faults)
        return texts, used

    def _render_twice(self, name: str, variables: Mapping[str, Any]) -> tuple[str, str]:
        """Renders one template twice; raises whatever goes wrong as one error with file, line and hint."""
        self._environment.referrers.clear()
        self._environment.budget.reset()
        try:
            template = self._environment.get_template(name)
            first = refuse_surrogates(template.render(variables), template, variables)
            self._environment.budget.reset()
            return first, refuse_surrogates(template.render(variables), template, variables)
        except Exception as error:  # noqa: BLE001 - a template may raise anything, and that is an error in the template
            failed = FailedRender(
                folder=self._folder,
                template=name,
                variables=variables,
                origins=self._origins,
                read=self._read,
                templates=self._template_names,
                filters=self._environment.filters,
                tests=self._environment.tests,
            )
            raise explain_template_error(error, failed) from None

    def _find_template(self, name: str, referrer: str | None) -> str | None:
        """Returns the text of a template, and records that it was looked up; None if it does not exist.

        Args:
            name: the name of the template.
            referrer: the template that includes or imports it; None if the manifest names it.
        """
        path = f"{self._folder}/{normal_path(name)}"
        asked_by = self._manifest_path if referrer is None else f"{self._folder}/{referrer}"
        source, strip = self._look_up(path, asked_by), self._strips_front_matter
        if source is None:
            return None
        text: str = source.parsed("template", lambda data: _template_text(data, path, strip=strip), strip=strip)
        return text

    def _look_up(self, path: str, asked_by: str) -> _Source | None:
        """Reads a file for the variant, and records its path and fingerprint, even if it does not exist."""
        data = self._read(path)
        source = None if data is None else self._sources.get(path)
        if data is not None and (source is None or source.data != data):
            if len(self._sources) >= _MOST_SOURCES:
                self._sources.clear()
            source = self._sources[path] = _Source(data)
        if path not in self._lookups:
            digest = None if source is None else source.fingerprint
            self._lookups[path] = Lookup(path=path, fingerprint=digest, asked_by=asked_by)
        return source

    def _refuse_addresses(self, manifest: Manifest, text: str, variables: Mapping[str, Any]) -> None:
        """Raises an error if the text contains the address of a printed object, unless a source contains it too."""
        for match in _ADDRESS.finditer(text) if " at 0x" in text else ():
            # A prompt may well show an address, in an example of a traceback: then a variable or a source contains it.
            sources = (self._read(path) or b"" for path in self._lookups)
            if match[0] not in repr(variables) and not any(match[0].encode() in source for source in sources):
                message = f'the text contains the memory address of an object, "{match[0].strip()}"'
                raise CacheunitError(manifest.fault(message, "system", hint="print its fields, not the object"))


def _template_text(data: bytes, path: str, *, strip: bool) -> str:
    """Returns the text of a template; with `strip`, a comment stands in place of its front matter.

    Raises:
        CacheunitError: it is not UTF-8, has merge-conflict markers, or its front matter does not end.
    """
    text = decode(data, path)
    # All three kinds of marker: a line of "=======" alone is an underlined heading.
    if all(marker.search(text) for marker in _CONFLICT_MARKERS):
        line = text.count("\n", 0, text.index("<<<<<<<")) + 1
        hint = "resolve the conflict; to print such a line, write {{ '<<<<<<<' }}"
        raise fail("the template has merge-conflict markers", path=path, line=line, hint=hint)
    return template_without_front_matter(text, path) if strip else text


def _join_sections(sections: Sequence[str]) -> str:
    r"""Joins sections by exactly one blank line.

    | sections | text |
    | --- | --- |
    | "A\n", "B\n" | "A\n\nB\n" |
    | "A\n\n\n", "\n", "\n\nB" | "A\n\nB": an empty one is left out |
    | "\nA\n\n" | "\nA\n\n": a single one is not changed |
    """
    # Joined by +, not by str.join, so that traced texts keep their source lines.
    return reduce(add, _section_blocks(sections), "")


def _section_blocks(sections: Sequence[str]) -> list[str]:
    r"""Returns the sections that are not empty, each with the blank line that separates it from the one in front.

    | sections | blocks |
    | --- | --- |
    | "A\n", "B\n" | "A", "\n\nB\n" |
    | "A\n", "" | "A\n" |
    | "A\n", " \n", "B\n" | "A", "\n\n \n\nB\n" |
    | "A\n", " \n" | "A\n\n \n" |

    Providers refuse a block without a visible character. Such a section joins the one behind it, so that the block in
    front is the same in variants in which the section has text.
    """
    texts = [section for section in sections if section.strip("\n")]
    if len(texts) <= 1:
        return texts
    end = texts[-1][len(texts[-1].rstrip("\n")) :]
    blocks: list[str] = []
    blank = ""
    for index, text in enumerate(text.strip("\n") for text in texts):
        block = blank + ("\n\n" if index else "") + text
        if text.strip():
            blocks.append(block)
            blank = ""
        else:
            blank = block
    *in_front, last = blocks or [""]
    return [*in_front, last + blank + end]
