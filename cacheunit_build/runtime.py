"""`load`: the frozen bytes, verified against the lock, ready to be sent. Standard library only."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.usage import read_usage

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LOCK_FILE = "cacheunit.lock"
VERSION = 1

_loaded: dict[tuple[str, str], Prefix] = {}


class IntegrityError(CacheunitError):
    """The bytes of an artifact are not those that were locked; the message names file, expected and found."""


Verdict = Literal["warm", "partial", "cold", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a response said of the prefix: tokens read from the cache, and how many were to be expected of a warm one.

    `warm`: all that was predicted; `partial`: less; `cold`: none; `unknown`: the server did not report.
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

    def __init__(
        self, name: str, target: str, entry: dict[str, Any], files: tuple[bytes, bytes], root: Traversable
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

    def request(self, messages: list[Any] | None = None, *, continuation: str = "", **others: Any) -> dict[str, Any]:  # noqa: ANN401
        """The arguments of a client's call: the frozen fragment, then `messages`, then any `others`.

        Each call gives new values, which may be changed without touching the prefix.

        Args:
            messages: what follows the prefix, in the form of the target's request.
            continuation: what follows the text, for a target of format `text`.
            others: further arguments of the call, such as `model`.

        Raises:
            CacheunitError: `others` would replace a frozen part, or what follows is in the wrong form.
        """
        fragment: dict[str, Any] = json.loads(self._fragment)  # type: ignore[attr-defined]
        replaced = sorted(fragment.keys() & others.keys())
        if replaced:
            raise fail(f'"{replaced[0]}" is frozen in prefix "{self.name}"', hint="what follows it goes into messages")
        place = _place(fragment)
        if (place == "prompt") != (messages is None):
            wanted = "continuation" if place == "prompt" else "messages"
            raise fail(f'prefix "{self.name}" for {self.target} is followed by {wanted}')
        if place == "prompt":
            return {**fragment, "prompt": fragment["prompt"] + continuation, **others}
        return {**fragment, place: [*fragment.get(place, []), *(messages or [])], **others}

    def observe(self, usage: object) -> Observation:
        """What a response says of this prefix.

        Args:
            usage: the response, or its part that tells of usage, as a mapping or an object: of OpenAI (chat and
                responses), Anthropic, DeepSeek, Gemini, Bedrock, vLLM or llama.cpp.
        """
        hit = read_usage(usage).hit
        _, margin = _rule(self._root, self.target)  # type: ignore[attr-defined]
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
        """Tokens that a warm cache serves of it: whole units, and none below the target's minimum."""
        minimum, _ = _rule(self._root, self.target)  # type: ignore[attr-defined]
        unit: int = self._unit  # type: ignore[attr-defined]
        whole = self.tokens - self.tokens % unit if unit else self.tokens
        return 0 if self.tokens < minimum else whole


def load(name: str, *, target: str | None = None, root: str | Traversable | None = None, **axes: str | int) -> Prefix:
    """The prefix of that name, as it was locked.

    Args:
        name: a prefix, or a variant such as `support/agent@locale=de,plan=pro`.
        target: its target; may be left out where it has one.
        root: the folder of `cacheunit.lock`, as a path or as `importlib.resources.files` gives it for the data of an
            installed package; default: the nearest above the working folder.
        axes: pick a variant of the prefix.

    Raises:
        IntegrityError: the bytes are not those that were locked.
        CacheunitError: there is no lock, no such prefix or target, or an artifact is missing.
    """
    folder = _nearest(Path.cwd()) if root is None else _given(Path(root) if isinstance(root, str) else root)
    prefixes = _prefixes(folder.joinpath(LOCK_FILE))
    full = _variant(name, axes)
    if full not in prefixes:
        raise fail(f'no prefix "{full}" is locked', hint=did_you_mean(full, prefixes))
    chosen = _target(full, target, prefixes[full])
    entry = prefixes[full][chosen]
    base = folder.joinpath(_build_folder(folder)).joinpath(full)
    text = _verified(base.joinpath(f"{chosen}.txt"), entry["text"])
    fragment = _verified(base.joinpath(f"{chosen}.json"), entry["request"])
    key = (full + chosen, entry["text"] + entry["request"])
    if key not in _loaded:
        _loaded[key] = Prefix(full, chosen, entry, (text, fragment), folder)
    return _loaded[key]


@cache
def _rule(root: Traversable, target: str) -> tuple[int, float]:
    """The minimum of a target, and the margin of its counts, from its table and those that it extends."""
    tables: dict[str, Any] = _settings(root).get("target", {})
    chain: list[dict[str, Any]] = []
    name: str | None = target
    while name is not None and len(chain) <= len(tables):
        shipped = Path(__file__).parent / "targets" / f"{name}.toml"
        chain.append(tables[name] if name in tables else tomllib.loads(_text(shipped)))
        name = chain[-1].get("extends")
    rule: dict[str, Any] = {}
    margin = 0.0
    for table in reversed(chain):
        own = table.get("cache", {})
        rule = own if own.get("kind", rule.get("kind")) != rule.get("kind") else {**rule, **own}
        margin = table["tokenizer"].get("margin", 0.0) if "tokenizer" in table else margin
    return rule.get("minimum", 0), margin


def _text(file: Traversable) -> str:
    return file.read_text("utf-8") if file.is_file() else ""


def _nearest(start: Path) -> Traversable:
    for folder in (start, *start.resolve().parents):
        if (folder / LOCK_FILE).is_file():
            return folder
    raise fail(f"there is no {LOCK_FILE} in {start} or above", hint='run "cacheunit build"')


def _given(folder: Traversable) -> Traversable:
    if not folder.joinpath(LOCK_FILE).is_file():
        raise fail(f"there is no {LOCK_FILE} in {folder}", hint='run "cacheunit build"')
    return folder


def _prefixes(path: Traversable) -> dict[str, dict[str, Any]]:
    try:
        lock = json.loads(path.read_bytes())
        version, prefixes = lock["version"], lock["prefixes"]
    except (ValueError, KeyError, TypeError):
        raise fail("the lock is broken", path=str(path), hint='run "cacheunit build"') from None
    if version != VERSION:
        raise fail(f"the lock has version {version}; this cacheunit reads version {VERSION}", path=str(path))
    found: dict[str, dict[str, Any]] = prefixes
    return found


def _variant(name: str, axes: dict[str, str | int]) -> str:
    if not axes:
        return name
    spelt = {axis: str(value).lower() if isinstance(value, bool) else str(value) for axis, value in axes.items()}
    return f"{name}@" + ",".join(f"{axis}={quote(spelt[axis], safe='')}" for axis in sorted(spelt))


def _target(name: str, target: str | None, entries: dict[str, Any]) -> str:
    if target is None and len(entries) == 1:
        return next(iter(entries))
    if target is None:
        raise fail(f'prefix "{name}" has several targets', hint=f"say target=, one of {', '.join(entries)}")
    if target not in entries:
        raise fail(f'prefix "{name}" is not locked for target "{target}"', hint=did_you_mean(target, entries))
    return target


def _build_folder(root: Traversable) -> str:
    """The folder of artifacts, as the project's settings name it."""
    return str(_settings(root).get("build", "build"))


def _settings(root: Traversable) -> dict[str, Any]:
    """The project's settings, in whichever file they stand."""
    for name, keys in (("cacheunit.toml", ()), ("pyproject.toml", ("tool", "cacheunit"))):
        table: dict[str, Any] = tomllib.loads(_text(root.joinpath(name)))
        for key in keys:
            table = table.get(key, {})
        if table:
            return table
    return {}


def _verified(path: Traversable, expected: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fail(
            f"the artifact cannot be read: {error.strerror}", path=str(path), hint='run "cacheunit build"'
        ) from None
    found = fingerprint(data)
    if found != expected:
        message = f"the artifact is not what was locked: expected {expected}, found {found}"
        raise IntegrityError(Fault(message=message, path=str(path), hint='"cacheunit check" says what differs'))
    return data


def _place(fragment: dict[str, Any]) -> str:
    """The key under which what follows a fragment stands."""
    if "prompt" in fragment:
        return "prompt"
    flat = any("parameters" in tool for tool in fragment.get("tools", ()))
    return "input" if "input" in fragment or flat else "messages"
