"""Says in words what kind of change was made: to a text, a variable, tools, examples, options, markers, or a target.

text edited                              variable locale: en → fr
tools reordered, tool search added       example 2 edited
option effort: low → high                rule of the target changed: unit 64 → 128
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from cacheunit_build.compiler.frozen_options import changed_options, option_keys
from cacheunit_build.diff.results import COUNT_ONLY, TOOLS_REORDERED
from cacheunit_build.domain.front_options import RESPONSE_SCHEMA
from cacheunit_build.domain.lock import identity_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import LockEntry, TargetIdentity
    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.prompt import Tool, Turn

WHITE_SPACE, MOVED, EDITED, PADDING = "white space only", "text moved", "text edited", "padding only"
ADDED, REMOVED, RENAMED, RENAMED_AND_EDITED = "added", "removed", "renamed", "renamed and edited"
UNKNOWN = "unknown"

_LONGEST_VALUE = 30
_MOST_NAMED = 2
_UNSET = object()


def text_words(old: str, new: str) -> str:
    """Returns how a text changed: in white space only, in the order of its lines only, or in its words.

    Args:
        old: the old text.
        new: the new text.
    """
    if "".join(old.split()) == "".join(new.split()):
        return WHITE_SPACE
    lines = (Counter(filter(None, map(str.strip, text.splitlines()))) for text in (old, new))
    return MOVED if next(lines) == next(lines) else EDITED


def variable_words(old: Manifest, new: Manifest, lines: tuple[range, range]) -> str | None:
    """Returns the variables that changed at the given lines of a manifest: `variable locale: en → fr`.

    Args:
        old: the old manifest.
        new: the new manifest.
        lines: the lines that were replaced in the old and in the new manifest.

    Returns:
        The words; None where no variable or data file of a variable changed there.
    """
    keys = {*_keys_at(old, lines[0]), *_keys_at(new, lines[1])}
    words = []
    for section, name in sorted(keys):
        was, now = (getattr(manifest, section).get(name, _UNSET) for manifest in (old, new))
        if was != now and section == "variables":
            words.append(_variable(name, was, now))
        elif was != now:
            words.append(_values(f"data file of {name}", was, now))
    return _joined(words, "variables edited") or None


def _variable(name: str, old: Any, new: Any) -> str:  # noqa: ANN401 - values of YAML
    """Returns how a variable changed; of a mapping, in which one value did: `variable limits.items: 30 → 31`."""
    while isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in {**old, **new} if old.get(key, _UNSET) != new.get(key, _UNSET)]
        if len(keys) != 1:
            break
        name, old, new = f"{name}.{keys[0]}", old.get(keys[0], _UNSET), new.get(keys[0], _UNSET)
    return _values(f"variable {name}", old, new)


def _keys_at(manifest: Manifest, lines: range) -> Iterator[tuple[str, str]]:
    """Yields the sections `variables` and `data`, each with the names that have a value on one of some lines."""
    for line in lines:
        nearest = max((own for own in manifest.lines.values() if own <= line), default=None)
        for keys, own in manifest.lines.items():
            if own == nearest and keys[:1] in (("variables",), ("data",)) and len(keys) > 1:
                yield str(keys[0]), str(keys[1])


def tool_words(old: Sequence[Tool], new: Sequence[Tool]) -> str:
    """Returns how a list of tools changed: `tools reordered, tool search added, 3 tools edited`."""
    was, now = ({tool.name: tool for tool in tools} for tools in (old, new))
    common = [tool.name for tool in new if tool.name in was]
    actions: dict[str, list[str]] = {}
    for name in [*now, *(name for name in was if name not in now)]:
        action = _tool_action(was.get(name), now.get(name))
        if action is not None:
            actions.setdefault(action, []).append(name)
    words = [TOOLS_REORDERED] if common != [tool.name for tool in old if tool.name in now] else []
    words += [_counted("tool", names, action) for action, names in sorted(actions.items())]
    return ", ".join(words) or "tools edited"


def _tool_action(old: Tool | None, new: Tool | None) -> str | None:
    """Returns what was done to a tool; None where only its file or its line changed."""
    if old is None or new is None:
        return "added" if old is None else "removed"
    parts = [
        name
        for name, was, now in (
            ("description", old.description, new.description),
            ("parameters", json.dumps(old.schema), json.dumps(new.schema)),
        )
        if was != now
    ]
    others = [(tool.strict, tool.others, tool.hosted) for tool in (old, new)]
    if others[0] != others[1]:
        return "edited"
    return f"{' and '.join(parts)} edited" if parts else None


def example_words(old: Sequence[Turn], new: Sequence[Turn]) -> str:
    """Returns how the messages of worked examples changed, numbered from 1: `example 2 edited, example 5 added`."""
    was, now = (list(map(_message, turns)) for turns in (old, new))
    if Counter(was) == Counter(now):
        return "examples reordered"
    numbers: dict[str, list[str]] = {}
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        edited = min(old_end - old_start, new_end - new_start) if tag == "replace" else 0
        if tag == "equal":
            continue
        ranges = {
            "edited": range(new_start, new_start + edited),
            "added": range(new_start + edited, new_end),
            "removed": range(old_start + edited, old_end),
        }
        for action, indexes in ranges.items():
            numbers.setdefault(action, []).extend(str(index + 1) for index in indexes)
    return ", ".join(_counted("example", own, action) for action, own in numbers.items() if own)


def _message(turn: Turn) -> str:
    """Returns what a message itself has: of the result of a call, not the call's arguments."""
    result_of = None if turn.result_of is None else turn.result_of.id
    return json.dumps([turn.role, turn.text, [asdict(call) for call in turn.calls], result_of])


def option_words(old: Artifact, new: Artifact) -> str:
    """Returns how the frozen options of an artifact changed: `option effort: low → high`, `response schema edited`."""
    words = []
    for name in changed_options(old.options, new.options):
        manifest = (new if name in new.options else old).variant.manifest
        was, now = (artifact.options.get(name, _UNSET) for artifact in (old, new))
        schema = manifest.response_schema is not None and option_keys(manifest, name)[1:2] == (RESPONSE_SCHEMA,)
        words.append(_action("response schema", was, now) if schema else _values(f"option {name}", was, now))
    return _joined(words, "options edited") or "options reordered"


def cache_words(old: Artifact, new: Artifact) -> str:
    """Returns how the cache markers of a request or the key of its cache changed, where its text is the same."""
    keys = [artifact.variant.manifest.cache_key for artifact in (old, new)]
    entries = old.entry, new.entry
    if keys[0] != keys[1]:
        return _values("cache key", *keys)
    if entries[0].lifetimes != entries[1].lifetimes:
        times = (", ".join(dict.fromkeys(entry.lifetimes)) or "default" for entry in entries)
        return _values("cache markers: lifetime", *times, colon="")
    counts = [len(entry.markers) for entry in entries]
    return f"cache markers: {counts[0]} → {counts[1]}" if counts[0] != counts[1] else "cache markers moved"


def target_words(old: TargetIdentity, new: TargetIdentity) -> str | None:
    """Returns how a target changed: `rule of the target changed: unit 64 → 128`; None where it did not."""
    words = []
    if old.tokenizer != new.tokenizer:
        words.append("tokenizer of the target changed")
    if old.format != new.format:
        words.append(_values("request format of the target changed:", old.format, new.format, colon=""))
    if old.frame != new.frame:
        words.append("frame of the target changed")
    if old.cache != new.cache:
        words.append(f"rule of the target changed: {', '.join(_rule_fields(old, new))}")
    if old.options != new.options:
        words.append("options of the target changed")
    if old.models != new.models:
        words.append("models of the target changed")
    return "; ".join(words) or None


def changed_rule_fields(old: TargetIdentity, new: TargetIdentity) -> list[str]:
    """Returns the names of the keys of the cache rule that differ between two states of a target."""
    was, now = (identity_data(identity)["cache"] for identity in (old, new))
    return [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]


def _rule_fields(old: TargetIdentity, new: TargetIdentity) -> Iterator[str]:
    """Yields each field of a cache rule that differs, with its values: `unit 64 → 128`."""
    for name in changed_rule_fields(old, new):
        was, now = (_unset_if_none(getattr(identity.cache, name)) for identity in (old, new))
        yield _values(name, was, now, colon="")


def entry_words(old: LockEntry, new: LockEntry) -> str:
    """Returns how an artifact changed, as far as two entries of locks show it."""
    if (old.text, old.request, old.cached_content) == (new.text, new.request, new.cached_content):
        return count_words(old, new) if old.token_ids == new.token_ids else "other tokens of the same text"
    return EDITED if old.text != new.text else "request edited"


def count_words(old: LockEntry, new: LockEntry) -> str:
    """Returns how the count of the same bytes changed: `count only (recorded now)`."""
    return COUNT_ONLY if old.counted == new.counted else f"{COUNT_ONLY} ({new.counted} now)"


def _counted(noun: str, names: Sequence[str], action: str) -> str:
    """Returns `tool search added`, `tools search, send added` or `5 tools added`."""
    if len(names) > _MOST_NAMED:
        return f"{len(names):,} {noun}s {action}"
    return f"{noun}{'' if len(names) == 1 else 's'} {', '.join(names)} {action}"


def _joined(words: Sequence[str], several: str) -> str:
    """Returns words in one line; the number of them where they are too many."""
    return ", ".join(words) if len(words) <= _MOST_NAMED else f"{len(words):,} {several}"


def _values(label: str, old: Any, new: Any, *, colon: str = ":") -> str:  # noqa: ANN401 - values of YAML
    """Returns `label: old → new` for short values, else `label edited`."""
    shown = [_shown(value) for value in (old, new)]
    if any(value is None for value in shown):
        return _action(label, old, new)
    return f"{label}{colon} {shown[0]} → {shown[1]}"


def _action(label: str, old: object, new: object) -> str:
    return f"{label} {'added' if old is _UNSET else 'removed' if new is _UNSET else 'edited'}"


def _shown(value: Any) -> str | None:  # noqa: ANN401 - a value of YAML
    """Returns a short value as it is written in YAML or JSON; None for a long one, or one that is not set."""
    if value is _UNSET:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if text.strip() and len(text) <= _LONGEST_VALUE and "\n" not in text else None


def _unset_if_none(value: object) -> object:
    return "not set" if value is None else value
