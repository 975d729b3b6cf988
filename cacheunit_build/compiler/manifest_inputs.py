"""Reads what one manifest names: its tools and its response schema."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.tool_checks import known_tool_keys
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.front_options import RESPONSE_SCHEMA
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Lookup
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.response_schema import parse_response_schema
from cacheunit_build.parsing.tools import parse_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.document import Document
    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.prompt import Tool
    from cacheunit_build.domain.protocols import SourceFiles
    from cacheunit_build.domain.response_schema import ResponseSchema
    from cacheunit_build.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolFiles:
    """The tools of some files without a fault: one object for all manifests that name the same files.

    Attributes:
        files: path and fingerprint of each file, in order.
        tools: their tools.
    """

    files: tuple[tuple[str, str | None], ...]
    tools: tuple[Tool, ...]


class InputReader:
    """Reads what manifests name; tool files that many of them name are read and parsed once.

    Args:
        files: the files of one version of the project, which gives the same bytes each time it is asked.
    """

    def __init__(self, files: SourceFiles) -> None:
        self.files = files
        self._parsed: dict[tuple[str, str | None, tuple[str, ...]], tuple[Tool, ...]] = {}
        self._tool_files: dict[tuple[tuple[str, ...], tuple[str, ...]], _ToolFiles] = {}

    def read(self, manifest: Manifest, manifest_fingerprint: str, targets: Sequence[Target]) -> ManifestInputs:
        """Returns what a manifest names.

        Args:
            manifest: the manifest.
            manifest_fingerprint: that of its bytes.
            targets: its targets; none where they are not known.
        """
        return ManifestInputs(self, manifest, manifest_fingerprint, targets)

    def parse(self, data: bytes, path: str, digest: str | None, known_keys: tuple[str, ...]) -> tuple[Tool, ...]:
        """Returns the tools of a file: the same objects for the same contents.

        Raises:
            CacheunitError: the file cannot be parsed.
        """
        key = (path, digest, known_keys)
        if key not in self._parsed:
            self._parsed[key] = parse_tools(parse_data(data, path, floats=True), known_keys)
        return self._parsed[key]

    def tool_files(self, names: Sequence[str], known_keys: tuple[str, ...]) -> _ToolFiles | None:
        """Returns the tools of these files, if they were kept."""
        return self._tool_files.get((tuple(names), known_keys))

    def keep(self, names: Sequence[str], known_keys: tuple[str, ...], files: _ToolFiles) -> _ToolFiles:
        """Keeps the tools of these files, and returns them."""
        self._tool_files[tuple(names), known_keys] = files
        return files


class ManifestInputs:
    """Tools and response schema of one manifest, with all files looked for, the manifest first, and every fault."""

    def __init__(
        self, reader: InputReader, manifest: Manifest, manifest_fingerprint: str, targets: Sequence[Target]
    ) -> None:
        self.tools: tuple[Tool, ...] = ()
        self.response_schema: ResponseSchema | None = None
        self.lookups = [Lookup(path=manifest.path, fingerprint=manifest_fingerprint)]
        self.faults: list[Fault] = []
        self._reader = reader
        self._manifest = manifest
        self._read_tools(tuple(sorted(known_tool_keys(targets))))
        if not self.faults:
            self.faults += _unknown_tools(manifest, self.tools)
        schema_file = manifest.options.get(RESPONSE_SCHEMA)
        if schema_file is not None:
            with self._faults_at("options", RESPONSE_SCHEMA):
                self.response_schema = parse_response_schema(self._document(schema_file))

    def _read_tools(self, known_keys: tuple[str, ...]) -> None:
        """Reads the tools of the manifest, with the files that were looked for and every fault."""
        names, asked_by = self._manifest.tools, self._manifest.path
        kept = self._reader.tool_files(names, known_keys)
        if kept is not None:
            self.tools = kept.tools
            self.lookups += [Lookup(path=path, fingerprint=digest, asked_by=asked_by) for path, digest in kept.files]
            return
        for index, file in enumerate(names):
            with self._faults_at("tools", index):
                self.tools += self._tools_of(file, known_keys)
        self.faults += _duplicate_tools(self.tools)
        if not self.faults:
            files = tuple((lookup.path, lookup.fingerprint) for lookup in self.lookups[1:])
            self.tools = self._reader.keep(names, known_keys, _ToolFiles(files=files, tools=self.tools)).tools

    @contextmanager
    def _faults_at(self, *keys: str | int) -> Iterator[None]:
        """Collects the faults that its body raises; one without a place is put at these keys of the manifest."""
        try:
            yield
        except CacheunitError as error:
            self.faults += error.faults_at(self._manifest.path, self._manifest.line(*keys))

    def _tools_of(self, file: str, known_keys: tuple[str, ...]) -> tuple[Tool, ...]:
        """Returns the tools of a file.

        Raises:
            CacheunitError: there is none, or it cannot be read or parsed.
        """
        data = self._read(file)
        lookup = self.lookups[-1]
        return self._reader.parse(data, lookup.path, lookup.fingerprint, known_keys)

    def _document(self, file: str) -> Document:
        """Returns a parsed file that the manifest names.

        Raises:
            CacheunitError: there is none, or it cannot be read or parsed.
        """
        return parse_data(self._read(file), normal_path(file), floats=True)

    def _read(self, file: str) -> bytes:
        path = normal_path(file)
        data = self._reader.files.read(path)
        digest = None if data is None else fingerprint(data)
        self.lookups.append(Lookup(path=path, fingerprint=digest, asked_by=self._manifest.path))
        if data is None:
            raise fail(f'there is no file "{path}"')
        return data


def _duplicate_tools(tools: Sequence[Tool]) -> list[Fault]:
    """Returns a fault for each tool whose name another one has already; a hosted one without a name may be repeated."""
    first: dict[str, Tool] = {}
    faults: list[Fault] = []
    for tool in tools:
        if tool.hosted is not None and "name" not in tool.hosted:
            continue
        other = first.get(tool.name)
        first.setdefault(tool.name, tool)
        if other is not None:
            message = f'tool "{tool.name}" already exists, in {other.path}'
            faults.append(Fault(message=message, path=tool.path, line=tool.line, hint="remove one of them"))
    return faults


def _unknown_tools(manifest: Manifest, tools: Sequence[Tool]) -> list[Fault]:
    """Returns a fault for each tool call of an example whose tool the prefix does not have."""
    names = [tool.name for tool in tools]
    return [
        manifest.fault(
            f'an example calls the tool "{call.name}", which the prefix does not have',
            *("examples", index, "tool_calls", place, "name"),
            hint=did_you_mean(call.name, names) or 'add it to "tools"',
        )
        for index, example in enumerate(manifest.examples)
        for place, call in enumerate(example.tool_calls)
        if call.name not in names
    ]
