"""Parses the counts file, and formats recorded counts as its bytes.

The first line has the version. Each further line is the count of one prefix for one target, so that git merges the file
by line: changes of different prefixes do not touch one another, and the order of lines decides nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.domain.errors import CacheunitError, Fault, fail, first_faults
from cacheunit_build.domain.file_names import COUNTS_FILE
from cacheunit_build.domain.recorded_count import RecordedCount, RecordedCounts
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.protocols import SourceFiles

COUNTS_VERSION = 1
_CONFLICT_MARKER = re.compile(r"(<{7}|={7}|>{7}|\|{7})( |$)")
_HINT = f'undo the edit, or delete the line and run "cacheunit calibrate"; without {COUNTS_FILE}, builds estimate'


def read_counts(files: SourceFiles) -> RecordedCounts:
    """Returns the recorded counts of a project; none where it has no counts file.

    Raises:
        CacheunitError: every fault in the file.
    """
    return parse_counts(files.read(COUNTS_FILE), COUNTS_FILE)


def parse_counts(data: bytes | None, path: str) -> RecordedCounts:
    """Returns the recorded counts in the bytes of a counts file.

    Args:
        data: the bytes; None where there is no file, and so no count.
        path: the file, for messages.

    Raises:
        CacheunitError: every fault in the file: a conflict of a merge, a newer version, a line that is no count, or one
            that is there twice.
    """
    if data is None:
        return RecordedCounts()
    lines = decode(data, path).split("\n")
    for number, line in enumerate(lines, 1):
        if _CONFLICT_MARKER.match(line):
            hint = "keep one line for each prefix, and remove the markers"
            raise fail("the counts have merge-conflict markers", path=path, line=number, hint=hint)
    _check_version(lines[0], path)
    counts: dict[tuple[str, ...], tuple[int, RecordedCount]] = {}
    faults: list[Fault] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            count = _parse_line(line, path, number)
        except CacheunitError as error:
            faults += (replace(fault, line=number, hint=fault.hint or _HINT) for fault in error.faults)
            continue
        first, _ = counts.setdefault(count.key, (number, count))
        if first != number:
            message = f"a second count of {count.prefix} for {count.target}: the same bytes are in line {first}"
            faults.append(Fault(message=message, path=path, line=number, hint="remove one of the lines"))
    if faults:
        raise CacheunitError(*first_faults(faults))
    return RecordedCounts(count for _, count in counts.values())


def _check_version(line: str, path: str) -> None:
    """Raises a fault if the first line is not the version that this code reads."""
    try:
        value = read_json(line.encode(), path, lines=False).value
    except CacheunitError:
        value = None
    version = value.get("version") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        hint = f'the first line is {{"version": {COUNTS_VERSION}}}'
        raise fail("the counts do not begin with their version", path=path, line=1, hint=hint)
    if version > COUNTS_VERSION:
        message = f"the counts have version {version}; this cacheunit reads version {COUNTS_VERSION}"
        hint = "use the cacheunit that wrote it, or a newer one"
        raise fail(message, path=path, line=1, hint=hint)


def _parse_line(line: str, path: str, number: int) -> RecordedCount:
    """Returns the count in one line.

    Raises:
        CacheunitError: every fault in the line.
    """
    document = read_json(line.encode(), path, lines=False)
    return validate(RecordedCount, Document(path=path, value=document.value, lines={(): number}))


def counts_bytes(counts: RecordedCounts) -> bytes:
    """Returns recorded counts as the bytes of the counts file: sorted, LF, equal counts as equal bytes."""
    lines = [json.dumps({"version": COUNTS_VERSION}), *_lines([counts.counts[key] for key in sorted(counts.counts)])]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(counts: Sequence[RecordedCount]) -> Iterator[str]:
    for count in counts:
        yield json.dumps(asdict(count), ensure_ascii=False)
