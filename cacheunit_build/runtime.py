"""`load`: returns a frozen prefix, verified against the lock of its project, ready to send. Standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION, SETTINGS_FILES, variant_name
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.settings import find_settings
from cacheunit_build.domain.target_table import extended_table
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.domain.usage import read_usage
from cacheunit_build.request_formats.formats import format_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

_ENTRY_KEYS = ("tokens", "counted", "unit", "text", "request")
_TARGETS = Path(__file__).parent / "targets"

_loaded: dict[tuple[str, ...], Prefix] = {}


class IntegrityError(CacheunitError):
    """The bytes of an artifact differ from the locked ones; the message has the file and both fingerprints."""


Verdict = Literal["warm", "partial", "cold", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a response reports of the prefix.

    Attributes:
        hit: tokens that were read from the cache; None where the server does not report them.
        predicted: tokens that a warm cache serves.
        verdict: `warm` where all that was predicted was served, `partial` where less was, `cold` where nothing was,
            `unknown` where the server does not report.
    """

    hit: int | None
    predicted: int
    verdict: Verdict


class Prefix:
    """A frozen prefix. It cannot be changed, and every request made from it begins with the same bytes.

    Attributes:
        name: prefix or variant.
        target: what it was compiled for.
        text: the system text with its padding.
        tokens: static tokens, as the lock has them.
        counted: `exact` or `estimate`.
        fingerprint: of the request fragment, as the lock has it.
    """

    __slots__ = ("_fragment", "_root", "_unit", "counted", "fingerprint", "name", "target", "text", "tokens")

    name: str
    target: str
    text: str
    tokens: int
    counted: str
    fingerprint: str
    _fragment: bytes
    _root: Any  # a Traversable, which does not promise to be hashable
    _unit: int

    def __init__(
        self, name: str, target: str, entry: Mapping[str, Any], files: tuple[bytes, bytes], root: Traversable
    ) -> None:
        text, fragment = files
        values = {"name": name, "target": target, "text": text.decode(), "_fragment": fragment, "_root": root}
        values |= {"tokens": entry["tokens"], "counted": entry["counted"], "fingerprint": entry["request"]}
        values |= {"_unit": entry["unit"]}
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be set')

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be deleted')

    def __repr__(self) -> str:
        return f"<Prefix {self.name} for {self.target}: {self.tokens} tokens, {self.fingerprint}>"

    def request(self, messages: list[Any] | None = None, *, continuation: str = "", **others: Any) -> dict[str, Any]:
        """Returns the arguments of a client's call: the frozen fragment, then `messages`, then any `others`.

        Each call returns new values, which may be changed without touching the prefix.

        Args:
            messages: what follows the prefix, in the form of the target's request.
            continuation: what follows the text, for a target of format `text`.
            others: further arguments of the call, such as `model`.

        Raises:
            CacheunitError: `others` would replace a frozen part, or what follows is in the wrong form.
        """
        fragment: dict[str, Any] = json.loads(self._fragment)
        request_format = format_of(fragment)
        replaced = sorted((fragment.keys() | {request_format.messages_key}) & others.keys())
        if replaced:
            raise fail(f'"{replaced[0]}" is frozen in prefix "{self.name}"', hint="put what follows it into messages")
        has_messages = request_format.has_messages
        if has_messages != (messages is not None) or (has_messages and continuation):
            wanted = "messages, and no continuation" if has_messages else "continuation, and no messages"
            raise fail(f'request() of prefix "{self.name}" for {self.target} needs {wanted}')
        return {**request_format.append(fragment, [continuation] if messages is None else messages), **others}

    def observe(self, usage: object) -> Observation:
        """Returns what a response reports of this prefix, compared with the prediction.

        Args:
            usage: the response, or its usage part, as a mapping or an object: of OpenAI (chat and responses),
                Anthropic, DeepSeek, Gemini, Bedrock, vLLM or llama.cpp.
        """
        hit = read_usage(usage).hit
        _, margin = _minimum_and_margin(self._root, self.target)
        verdict: Verdict = "partial"
        if hit is None:
            verdict = "unknown"
        elif hit == 0:
            verdict = "cold"
        elif hit >= self.predicted * (1 - margin):
            verdict = "warm"
        return Observation(hit=hit, predicted=self.predicted, verdict=verdict)

    @property
    def predicted(self) -> int:
        """Tokens that a warm cache serves of it; none below the minimum, all where the unit is unknown."""
        from cacheunit_build.domain.cache_rule import CacheRule

        minimum, _ = _minimum_and_margin(self._root, self.target)
        rule = CacheRule(kind="blocks" if self._unit else "tokens", unit=self._unit or None, minimum=minimum)
        return rule.reusable(self.tokens) or 0


def load(name: str, *, target: str | None = None, root: str | Traversable | None = None, **axes: str | int) -> Prefix:
    """Returns the prefix of that name, as it was locked.

    Args:
        name: a prefix, or a variant such as `support/agent@locale=de,plan=pro`.
        target: its target; may be left out where it has one.
        root: the folder of `cacheunit.lock`, as a path or as `importlib.resources.files` returns it for the data of an
            installed package; default: the nearest above the working folder.
        axes: pick a variant of the prefix.

    Raises:
        IntegrityError: the bytes are not those that were locked.
        CacheunitError: there is no lock, no such prefix or target, or an artifact is missing; settings are broken.
    """
    folder = _nearest_root(Path.cwd()) if root is None else _as_root(Path(root) if isinstance(root, str) else root)
    prefixes = _locked_prefixes(folder.joinpath(LOCK_FILE))
    full_name = variant_name(name, axes)
    if full_name not in prefixes:
        raise fail(f'no prefix "{full_name}" is locked', hint=did_you_mean(full_name, prefixes))
    chosen = _chosen_target(full_name, target, prefixes[full_name])
    entry = prefixes[full_name][chosen]
    base = folder.joinpath(str(_settings(folder).get("build", "build"))).joinpath(full_name)
    text = _verified_bytes(base.joinpath(f"{chosen}.txt"), entry["text"])
    fragment = _verified_bytes(base.joinpath(f"{chosen}.json"), entry["request"])
    key = (str(folder), full_name, chosen, json.dumps(entry))
    if key not in _loaded:
        _loaded[key] = Prefix(full_name, chosen, entry, (text, fragment), folder)
    return _loaded[key]


@cache
def _minimum_and_margin(root: Traversable, target: str) -> tuple[int, float]:
    """Returns the minimum of a target's cache rule, and the margin of its counts."""
    tables: Mapping[str, Any] = _settings(root).get("target", {})

    def table_of(name: str) -> Mapping[str, Any] | None:
        if name in tables:
            table: Mapping[str, Any] = tables[name]
            return table
        data = _read(_TARGETS / f"{name}.toml")
        return None if data is None else read_toml(data, f"{name}.toml").value

    table = extended_table(target, table_of)
    return table.get("cache", {}).get("minimum", 0), table.get("tokenizer", {}).get("margin", 0.0)


def _settings(root: Traversable) -> Mapping[str, Any]:
    """Returns the settings of the project, without validating them: the build has done that.

    Raises:
        CacheunitError: a file of settings is not TOML, or two files have settings.
    """
    pyproject, own = (_read(root.joinpath(name)) for name in SETTINGS_FILES)
    document, _ = find_settings(pyproject, own)
    table: Mapping[str, Any] = document.value
    if not isinstance(table, dict):
        raise fail('"tool.cacheunit" must be a table', path=document.path)
    return table


def _read(file: Traversable) -> bytes | None:
    """Returns the bytes of a file; None if it does not exist."""
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError as error:
        raise fail(f"the file cannot be read: {error.strerror}", path=str(file)) from None


def _nearest_root(start: Path) -> Traversable:
    for folder in (start, *start.resolve().parents):
        if (folder / LOCK_FILE).is_file():
            return folder
    raise fail(f"there is no {LOCK_FILE} in {start} or above", hint='run "cacheunit build"')


def _as_root(folder: Traversable) -> Traversable:
    if not folder.joinpath(LOCK_FILE).is_file():
        raise fail(f"there is no {LOCK_FILE} in {folder}", hint='run "cacheunit build"')
    return folder


def _locked_prefixes(path: Traversable) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the entries of a lock, by prefix and target."""
    try:
        lock = json.loads(path.read_bytes())
        version = lock["version"]
        if version != LOCK_VERSION:
            raise fail(f"the lock has version {version}; this cacheunit reads version {LOCK_VERSION}", path=str(path))
        return {
            name: {target: {key: entry[key] for key in _ENTRY_KEYS} for target, entry in entries.items()}
            for name, entries in lock["prefixes"].items()
        }
    except OSError as error:
        raise fail(f"the lock cannot be read: {error.strerror}", path=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise fail("the lock is broken", path=str(path), hint='run "cacheunit build"') from None


def _chosen_target(name: str, target: str | None, entries: Mapping[str, Any]) -> str:
    if target is None and len(entries) == 1:
        return next(iter(entries))
    if target is None:
        raise fail(f'prefix "{name}" has several targets', hint=f"set target= to one of {', '.join(entries)}")
    if target not in entries:
        raise fail(f'prefix "{name}" is not locked for target "{target}"', hint=did_you_mean(target, entries))
    return target


def _verified_bytes(path: Traversable, expected: str) -> bytes:
    """Returns the bytes of an artifact's file.

    Raises:
        IntegrityError: they do not have the expected fingerprint.
        CacheunitError: the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"the artifact cannot be read: {error.strerror}"
        raise fail(message, path=str(path), hint='run "cacheunit build"') from None
    found = fingerprint(data)
    if found != expected:
        message = f"the artifact does not match the lock: expected {expected}, found {found}"
        raise IntegrityError(Fault(message=message, path=str(path), hint='"cacheunit check" shows what differs'))
    return data
