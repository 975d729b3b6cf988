"""Variant + sources -> Rendered: the system text, and every file that was looked for."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, TemplateNotFound, TemplatesNotFound, TemplateSyntaxError

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Lookup, Rendered, Turn
from cacheunit_build.domain.source_map import MappedSpan, SourceLine, SourceMap, SourceMaps
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.templating.environment import (
    MOST_CHARACTERS,
    NOT_FROZEN,
    FrozenEnvironment,
    MissingNameError,
    kind_of,
    template_places,
)
from cacheunit_build.templating.traced import Traced, TracedEnvironment, brought, concat, pieces_of, traced_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cacheunit_build.domain.manifest import Manifest, Variant

_QUOTED = re.compile(r"'(\w+)'")
_CONFLICT = [re.compile(rf"^{mark}( |$)", re.MULTILINE) for mark in ("<{7}", "={7}", ">{7}")]
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}")


class Renderer:
    """Renders variants of one project.

    Args:
        read: root-relative path -> bytes, None where there is no such file.
        names: the names of all templates, for hints.
        folder: where templates live, relative to the root.
    """

    def __init__(
        self, read: Callable[[str], bytes | None], names: Callable[[], Sequence[str]], folder: str = "templates"
    ) -> None:
        self._read = read
        self._names = names
        self._folder = folder
        self._environment = FrozenEnvironment(self._find)
        self._data: dict[tuple[str, str], Any] = {}
        self._lookups: dict[str, Lookup] = {}
        self._loaded: list[str] = []
        self._asker = ""

    def render(self, variant: Variant) -> Rendered:
        """The system text of `variant`: rendered twice, the same both times.

        Raises:
            CacheunitError: a missing or broken template or data file, an undefined name, an unstable text.
        """
        manifest = variant.manifest
        self._lookups = {}
        self._environment.asked.clear()
        self._asker = manifest.path
        values = {**manifest.variables, **variant.axes, **self._load_data(manifest)}
        places = [("system", index, name) for index, name in enumerate(manifest.system)]
        places += [("examples", index, turn.template) for index, turn in enumerate(manifest.examples) if turn.template]
        texts = self._texts(manifest, places, values)
        system = _joined([texts["system", index] for index in range(len(manifest.system))])
        if manifest.system and not system.strip():
            raise CacheunitError(manifest.fault("the system text is empty", "system"))
        turns = tuple(
            Turn(role=example.role, text=texts.get(("examples", index), example.text or ""))
            for index, example in enumerate(manifest.examples)
        )
        self._refuse_addresses(manifest, "\n".join([system, *(turn.text for turn in turns)]), values)
        lookups, asked = tuple(self._lookups.values()), frozenset(self._environment.asked)
        return Rendered(system=system, turns=turns, lookups=lookups, used_variables=asked)

    def origins(self, variant: Variant) -> SourceMaps:
        """Where each character of what `render` gives came from.

        What cannot be followed, since it is not printed the same when it is traced, comes from the manifest's line.

        Raises:
            CacheunitError: as `render`.
        """
        rendered = self.render(variant)
        manifest = variant.manifest
        values = self._traced_values(variant)
        environment = TracedEnvironment(self._find, self._folder)

        def traced(template: str | None, text: str, *keys: str | int) -> Traced:
            place = SourceLine(path=manifest.path, line=manifest.line(*keys) or 1)
            if template is not None:
                with contextlib.suppress(Exception):  # it was rendered: only following it can fail
                    found = concat(environment.get_template(template).generate(values))
                    return brought(found, place)
            return Traced.of(text, [MappedSpan(length=len(text), chain=(place,))])

        def mapped(found: str, wanted: str, *keys: str | int) -> SourceMap:
            found = found if found == wanted else traced(None, wanted, *keys)
            return SourceMap(wanted, pieces_of(found))

        parts = [traced(name, "", "system", index) for index, name in enumerate(manifest.system)]
        turns = []
        for index, (example, turn) in enumerate(zip(manifest.examples, rendered.turns, strict=True)):
            keys = ("examples", index, "text" if example.template is None else "template")
            turns.append(mapped(traced(example.template, turn.text, *keys), turn.text, *keys))
        return SourceMaps(system=mapped(_joined(parts), rendered.system, "system"), turns=tuple(turns))

    def _traced_values(self, variant: Variant) -> dict[str, Any]:
        """The variables of a variant, their texts with the lines that spell them."""
        manifest = variant.manifest
        source = (self._read(manifest.path) or b"").decode("utf-8", "replace")
        document = Document(path=manifest.path, value=manifest.variables, lines=manifest.lines)
        values: dict[str, Any] = traced_value(document, source, ("variables",))
        for axis, value in variant.axes.items():
            index = manifest.matrix[axis].index(value)
            one = replace(document, value=value)
            values[axis] = traced_value(one, source, ("matrix", axis, index))
        for name, file in manifest.data.items():
            path = normal_path(file)
            data = self._read(path) or b""
            values[name] = traced_value(parse_data(data, path), data.decode("utf-8", "replace"))
        return values

    def _load_data(self, manifest: Manifest) -> dict[str, Any]:
        """The manifest's data files by variable; all faults of all files at once."""
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        for name, file in manifest.data.items():
            path = normal_path(file)
            try:
                data = self._look(path, manifest.path)
                if data is None:
                    faults.append(manifest.fault(f'there is no file "{path}"', "data", name))
                    continue
                key = path, fingerprint(data)
                if key not in self._data:
                    self._data[key] = parse_data(data, path).value
                values[name] = self._data[key]
            except CacheunitError as error:
                faults += (f if f.path else manifest.fault(f.message, "data", name, hint=f.hint) for f in error.faults)
        if faults:
            raise CacheunitError(*faults)
        return values

    def _texts(
        self, manifest: Manifest, places: Sequence[tuple[str, int, str]], values: Mapping[str, Any]
    ) -> dict[tuple[str, int], str]:
        """The text of the template at each place (key, index, name) of a manifest; the faults of all at once."""
        texts: dict[tuple[str, int], str] = {}
        faults: list[Fault] = []
        for key, index, name in places:
            try:
                first, second = (self._text(name, values) for _ in range(2))
            except CacheunitError as error:
                faults += (f if f.path else manifest.fault(f.message, key, index, hint=f.hint) for f in error.faults)
                continue
            if first != second:
                faults.append(manifest.fault(f'"{name}" gives another text each time', key, index))
            texts[key, index] = first
        if faults:
            raise CacheunitError(*faults)
        return texts

    def _text(self, name: str, values: Mapping[str, Any]) -> str:
        self._loaded = []
        self._environment.asked_by.clear()
        self._environment.budget.restart()
        try:
            return "".join(_bounded(self._environment.get_template(name).generate(values), name))
        except Exception as error:  # noqa: BLE001 - whatever a template raises is a fault of the template
            raise self._explain(error, name, values) from None

    def _find(self, name: str, parent: str | None) -> str | None:
        """The text of a template, recorded as looked for."""
        path = f"{self._folder}/{normal_path(name)}"
        self._loaded.append(name)
        data = self._look(path, self._asker if parent is None else f"{self._folder}/{parent}")
        if data is None:
            return None
        text = decode(data, path)
        if all(marker.search(text) for marker in _CONFLICT):
            line = text.count("\n", 0, text.index("<<<<<<<")) + 1
            hint = "settle the merge; if the text is meant, write {{ '<<<<<<<' }}"
            raise fail("the template has merge-conflict markers", path=path, line=line, hint=hint)
        return text

    def _look(self, path: str, asked_by: str) -> bytes | None:
        data = self._read(path)
        if path not in self._lookups:
            found = None if data is None else fingerprint(data)
            self._lookups[path] = Lookup(path=path, found=found, asked_by=asked_by)
        return data

    def _explain(self, error: Exception, name: str, values: Mapping[str, Any]) -> CacheunitError:
        """What went wrong in a template, with the place that the traceback or the error itself names."""
        path, line = self._place(error)
        if isinstance(error, CacheunitError):
            faults = (
                f if f.path else Fault(message=f.message, path=path, line=line, hint=f.hint) for f in error.faults
            )
            return CacheunitError(*faults)
        if isinstance(error, TemplateSyntaxError):
            path, line = f"{self._folder}/{error.name or name}", error.lineno
        message, hint = self._message(error, values)
        return fail(message, path=path, line=line, hint=hint)

    def _message(self, error: Exception, values: Mapping[str, Any]) -> tuple[str, str | None]:
        if isinstance(error, RecursionError):
            chain = " -> ".join(self._cycle())
            what = (
                f"templates include one another without end: {chain}" if chain else "a macro calls itself without end"
            )
            return what, "end the recursion by a condition"
        if isinstance(error, TemplatesNotFound):
            return f"none of the templates {', '.join(map(str, error.templates))} exists", None
        if isinstance(error, TemplateNotFound):
            return f'there is no template "{error.name}"', did_you_mean(str(error.name), self._names())
        if isinstance(error, MissingNameError):
            known = error.owner if isinstance(error.owner, dict) else values if error.owner is None else ()
            hint = _not_frozen(str(error.name)) if error.owner is None else None
            if error.owner is None and error.name in values:
                hint = 'a file that is imported sees it only by "import … with context", or as an argument'
            return _undefined(error), hint or did_you_mean(str(error.name), map(str, known))
        if isinstance(error, TemplateSyntaxError):
            return str(error.message), self._syntax_hint(str(error.message))
        return str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}", None

    def _syntax_hint(self, message: str) -> str | None:
        known = self._environment.filters if "filter named" in message else self._environment.tests
        hints = (_not_frozen(name) or did_you_mean(name, known) for name in _QUOTED.findall(message))
        return next(filter(None, hints), None) if "named '" in message else None

    def _place(self, error: Exception) -> tuple[str | None, int | None]:
        """The innermost place; for templates that include one another, the first, which no depth of stack decides."""
        places = template_places(error)
        cycle = self._cycle() if isinstance(error, RecursionError) else []
        if cycle:
            places = [place for place in places if place[0] == cycle[0]][:1]
        return (f"{self._folder}/{places[-1][0]}", places[-1][1]) if places else (None, None)

    def _cycle(self) -> list[str]:
        """The templates that include one another without end, from the one met first to itself again."""
        *before, last = self._loaded or [""]
        if last not in before:
            return []
        cycle = [last, *before[len(before) - before[::-1].index(last) :]]
        start = cycle.index(min(cycle, key=self._loaded.index))
        return [*cycle[start:], *cycle[: start + 1]]

    def _refuse_addresses(self, manifest: Manifest, system: str, values: Mapping[str, Any]) -> None:
        """An address in memory comes from a printed object; one that a source spells out is text."""
        for match in _ADDRESS.finditer(system):
            sources = (self._read(path) or b"" for path in self._lookups)
            if match[0] not in repr(values) and not any(match[0].encode() in source for source in sources):
                hint = "print its fields, not the object"
                message = f'the text has the address of an object, "{match[0].strip()}"'
                raise CacheunitError(manifest.fault(message, "system", hint=hint))


def _bounded(chunks: Iterable[str], name: str) -> Iterator[str]:
    length = 0
    for chunk in chunks:
        length += len(chunk)
        if length > MOST_CHARACTERS:
            raise fail(f'"{name}" gives more than {MOST_CHARACTERS} characters')
        yield chunk


def _not_frozen(name: str) -> str | None:
    """A hint where `name` is one of Jinja's that do not exist here."""
    gone = any(name in names for names in NOT_FROZEN.values())
    return f'"{name}" is not available in a frozen build: it gives another text each time' if gone else None


def _undefined(error: MissingNameError) -> str:
    owner = "" if error.owner is None else f" in {kind_of(error.owner)}"
    return f'"{error.name}" is undefined{owner}'


def _joined(parts: Sequence[str]) -> str:
    """Parts set apart by exactly one blank line; empty ones do not count, and a single one stays as it is."""
    texts = [part for part in parts if part.strip("\n")]
    if len(texts) <= 1:
        return texts[0] if texts else ""
    end = texts[-1][len(texts[-1].rstrip("\n")) :]
    first, *others = (text.strip("\n") for text in texts)
    return reduce(add, (part for text in others for part in ("\n\n", text)), first) + end
