"""`load`: returns a frozen prefix, verified against the lock of its project, ready to send. Standard library only."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.file_names import (
    LINE_ENDS_HINT,
    LOCK_FILE,
    SETTINGS_FILES,
    axis_values,
    is_artifact_name,
    variant_name,
)
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock_tables import lock_tables, locked_artifact
from cacheunit_build.domain.names import composed
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.settings_file import find_settings
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from cacheunit_build.domain.cache_results import Prediction
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.lock import LockEntry, TargetIdentity

_loaded: dict[tuple[str, ...], Prefix] = {}


class IntegrityError(CacheunitError):
    """The bytes of an artifact differ from the locked ones; the message has the file and both fingerprints."""


Verdict = Literal["warm", "partial", "cold", "uncached", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a response reports of the prefix.

    Attributes:
        hit: tokens that were read from the cache; None where the server does not report them, or contradicts itself.
        written: tokens that were written to the cache; None where the server does not report them.
        predicted: tokens that a warm cache serves; None where unknown, or unknown whether anything is cached.
        verdict: `warm` where all that was predicted was served, `partial` where less was, `cold` where nothing was,
            `uncached` where nothing was and nothing is ever cached of the prefix, `unknown` where the server does not
            report, or nothing can be predicted.
        contradictions: a sentence for each two fields of the response that contradict each other.
    """

    hit: int | None
    written: int | None
    predicted: int | None
    verdict: Verdict
    contradictions: tuple[str, ...] = ()


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

    __slots__ = (
        *("_entry", "_fragment", "_identity", "_rule"),
        *("counted", "fingerprint", "name", "target", "text", "tokens"),
    )

    name: str
    target: str
    text: str
    tokens: int
    counted: str
    fingerprint: str
    _entry: LockEntry
    _fragment: bytes
    _identity: Mapping[str, Any]
    _rule: CacheRule

    def __init__(
        self, key: tuple[str, str], locked: tuple[LockEntry, TargetIdentity], files: tuple[bytes, bytes]
    ) -> None:
        """Makes a prefix from its verified files.

        Args:
            key: the prefix or variant, and the target.
            locked: its entry in the lock, and the identity of its target there.
            files: the bytes of its text and of its request fragment.
        """
        from cacheunit_build.domain.lock import identity_data

        entry, identity = locked
        values: dict[str, Any] = {"name": key[0], "target": key[1], "text": files[0].decode(), "_fragment": files[1]}
        values |= {"tokens": entry.tokens, "counted": entry.counted, "fingerprint": entry.request}
        values |= {"_entry": entry, "_rule": identity.cache, "_identity": identity_data(identity)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be set')

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be deleted')

    def __repr__(self) -> str:
        estimate = "~" if self.counted == "estimate" else ""
        return f"<Prefix {self.name} for {self.target}: {estimate}{self.tokens} tokens, {self.fingerprint}>"

    def request(
        self,
        messages: Sequence[Any] | None = None,
        *,
        continuation: str = "",
        dynamic: str = "",
        conversation_marker: bool | str = False,
        allow: Collection[str] = (),
        **others: Any,
    ) -> dict[str, Any]:
        """Returns the arguments of a client's call: the frozen fragment, then `messages`, then any `others`.

        Each call returns new values, which may be changed without touching the prefix.

        Args:
            messages: what follows the prefix, in the form of the target's request.
            continuation: what follows the text, for a target of format `text`.
            dynamic: a text that differs between requests, put behind the last static part: into a further system block
                where the format has them and no examples follow, else in front of the first words of the user.
            conversation_marker: mark the end of `messages` too, so that the next turn finds them in the cache; a text,
                such as 1h, is the lifetime of that entry.
            allow: names of options that may have another value than the frozen one, and "model" for any model.
            others: further arguments of the call, such as `model`.

        Raises:
            CacheunitError: `others` would replace a frozen part, or change what stands in front of it; or what follows
                is in the wrong form.
            TypeError: an argument has the wrong type.
        """
        from cacheunit_build.domain.front_options import with_arguments
        from cacheunit_build.request_formats.checks import Following, RequestChecks

        following = Following(messages=messages, continuation=continuation, dynamic=dynamic)
        frozen: dict[str, Any] = json.loads(self._fragment)
        checks = RequestChecks(
            (self.name, self.target), (self._identity, self._rule), frozen, exact=self.counted == "exact"
        )
        fragment = checks.fragment_for(others, allow)
        body = checks.with_following(fragment, following, mark=conversation_marker, allow=allow)
        request = with_arguments(body, others)
        checks.refuse_too_many_markers(request)
        return request

    def observe(self, usage: object) -> Observation:
        """Returns what a response reports of this prefix, compared with the prediction.

        Args:
            usage: the response, its usage part, or a list of the events of a stream, as mappings or objects of a
                client library; docs/live.md lists the providers and libraries.
        """
        from cacheunit_build.domain.usage import read_usage

        reported = read_usage(usage)
        prediction = self._prediction
        return Observation(
            hit=reported.hit,
            written=reported.written,
            predicted=prediction.tokens,
            verdict=_verdict(reported.hit, prediction),
            contradictions=reported.contradictions,
        )

    @property
    def predicted(self) -> int | None:
        """Tokens that a warm cache serves of it; None where that is unknown, or an estimate is near the minimum."""
        return self._prediction.tokens

    @property
    def _prediction(self) -> Prediction:
        return self._rule.predict(self._entry)


def _verdict(hit: int | None, prediction: Prediction) -> Verdict:
    """Returns what a number of cached tokens says of a prefix.

    hit    predicted        verdict
    None   any              unknown
    any    None             unknown
    0      0                uncached
    0      1,280            cold
    640    1,280            partial
    1,280  1,280            warm
    900    1,280 +- 35 %    warm
    """
    if hit is None or prediction.tokens is None:
        return "unknown"
    if hit == 0:
        return "cold" if prediction.tokens else "uncached"
    return "warm" if hit >= prediction.low else "partial"


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
    lock_path = folder.joinpath(LOCK_FILE)
    targets, prefixes = lock_tables(_lock_bytes(lock_path), str(lock_path))
    full_name = variant_name(composed(name), axes)
    if full_name not in prefixes:
        raise _not_locked(name, full_name, prefixes)
    chosen = _chosen_target(full_name, target, prefixes[full_name])
    entry, identity = prefixes[full_name][chosen], targets[chosen]
    key = (str(folder), full_name, chosen, json.dumps([entry, identity]))
    locked = None if key in _loaded else locked_artifact(entry, identity, FORMATS, str(lock_path))
    if not is_artifact_name(full_name, chosen):
        raise fail(f"the lock is broken: {full_name!r} and {chosen!r} cannot name an artifact", path=str(lock_path))
    base = _below(folder, f"{normal_path(str(_settings(folder).get('build', 'build')))}/{full_name}")
    text = _verified_bytes(base.joinpath(f"{chosen}.txt"), entry["text"])
    fragment = _verified_bytes(base.joinpath(f"{chosen}.json"), entry["request"])
    if locked is not None:
        _loaded.setdefault(key, Prefix((full_name, chosen), locked, (text, fragment)))
    return _loaded[key]


def _not_locked(name: str, full_name: str, prefixes: Collection[str]) -> CacheunitError:
    """Returns the error for a name that is not locked; where only variants of it are, with their axes and values."""
    given = dict(axis_values(full_name.partition("@")[2]))
    variants = [dict(axis_values(variant.partition("@")[2])) for variant in prefixes if variant.startswith(f"{name}@")]
    # Not every combination of values is a variant: those that go with the given ones are named, if there are any.
    agreeing = [variant for variant in variants if given.items() <= variant.items()]
    values: dict[str, dict[str, None]] = {}
    for variant in agreeing or variants:
        for axis, value in variant.items():
            values.setdefault(axis, {})[value] = None
    if not values or given.keys() == values.keys():
        return fail(f'no prefix "{full_name}" is locked', hint=did_you_mean(full_name, prefixes))
    axes = " and ".join(f"{axis}=" for axis in values)
    listed = "; ".join(f"{axis} is one of {', '.join(values[axis])}" for axis in values)
    return fail(f'prefix "{name}" has variants: set {axes}', hint=listed)


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


def _below(folder: Traversable, path: str) -> Traversable:
    """Returns a folder below another one, by the names on disk: in any normal form, and in UTF-8 in every locale."""
    for part in path.split("/"):
        child = folder.joinpath(os.fsdecode(part.encode()) if isinstance(folder, Path) else part)
        if not part.isascii() and folder.is_dir() and not child.is_dir():
            others = (other for other in folder.iterdir() if composed(_name(other)) == composed(part))
            child = next(others, child)
        folder = child
    return folder


def _name(file: Traversable) -> str:
    """Returns the name of a file, which is UTF-8 on disk whatever the locale says."""
    return os.fsencode(file.name).decode("utf-8", "replace") if isinstance(file, Path) else file.name


def _nearest_root(start: Path) -> Traversable:
    for folder in (start, *start.resolve().parents):
        if (folder / LOCK_FILE).is_file():
            return folder
    raise fail(f"there is no {LOCK_FILE} in {start} or above", hint='run "cacheunit build"')


def _as_root(folder: Traversable) -> Traversable:
    if not folder.joinpath(LOCK_FILE).is_file():
        raise fail(f"there is no {LOCK_FILE} in {folder}", hint='run "cacheunit build"')
    return folder


def _lock_bytes(path: Traversable) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise fail(f"the lock cannot be read: {error.strerror}", path=str(path)) from None


def _chosen_target(name: str, target: str | None, entries: Mapping[str, Any]) -> str:
    if target is None and len(entries) == 1:
        return next(iter(entries))
    if target is None:
        raise fail(f'prefix "{name}" has several targets', hint=f"set target= to one of {', '.join(entries)}")
    if target not in entries:
        hint = did_you_mean(target, entries) or f"it is locked for {', '.join(entries)}"
        raise fail(f'prefix "{name}" is not locked for target "{target}"', hint=hint)
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
        hint = '"cacheunit check" shows what differs'
        if fingerprint(data.replace(b"\r\n", b"\n")) == expected:
            message += ", since its line ends were converted to CRLF"
            hint = LINE_ENDS_HINT
        raise IntegrityError(Fault(message=message, path=str(path), hint=hint))
    return data
