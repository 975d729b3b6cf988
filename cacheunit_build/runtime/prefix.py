"""A frozen prefix: the requests that begin with it, and what responses report of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cacheunit_build.domain.cache_results import Prediction
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.lock import LockEntry, TargetIdentity

PrefixState = Literal["locked", "development"]
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
        fingerprint: of the request fragment, or of the body that stores the prefix, as the lock has it.
        state: `locked`, or `development` for one that `load(…, dev=True)` compiled from sources that changed since.
    """

    __slots__ = (
        *("_content", "_entry", "_fragment", "_identity", "_rule"),
        *("counted", "fingerprint", "name", "state", "target", "text", "tokens"),
    )

    name: str
    target: str
    text: str
    tokens: int
    counted: str
    fingerprint: str
    state: PrefixState
    _content: bytes | None
    _entry: LockEntry
    _fragment: bytes
    _identity: Mapping[str, Any]
    _rule: CacheRule

    def __init__(
        self,
        key: tuple[str, str],
        locked: tuple[LockEntry, TargetIdentity],
        files: tuple[bytes, bytes, bytes | None],
        state: PrefixState = "locked",
    ) -> None:
        """Makes a prefix from its verified files.

        Args:
            key: the prefix or variant, and the target.
            locked: its entry in the lock, and the identity of its target there.
            files: the bytes of its text, of its request fragment, and of the body of its cached content if it has one.
            state: whether it is locked.
        """
        from cacheunit_build.domain.lock import identity_data

        entry, identity = locked
        values: dict[str, Any] = {"name": key[0], "target": key[1], "text": files[0].decode(), "_fragment": files[1]}
        values |= {
            "tokens": entry.tokens,
            "counted": entry.counted,
            "fingerprint": entry.cached_content or entry.request,
        }
        values |= {
            "state": state,
            "_content": files[2],
            "_entry": entry,
            "_rule": identity.cache,
            "_identity": identity_data(identity),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be set')

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f'a frozen prefix: "{key}" cannot be deleted')

    def __repr__(self) -> str:
        estimate = "~" if self.counted == "estimate" else ""
        not_locked = "" if self.state == "locked" else ", not locked"
        tokens = f"{estimate}{self.tokens} tokens"
        return f"<Prefix {self.name} for {self.target}: {tokens}, {self.fingerprint}{not_locked}>"

    def request(  # noqa: PLR0913 - each is passed by name
        self,
        messages: Sequence[Any] | None = None,
        *,
        continuation: str = "",
        dynamic: str = "",
        conversation_marker: bool | str = False,
        cached_content: str | None = None,
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
            cached_content: the name that the API gave to the cached content, for a target that stores prefixes.
            allow: names of options that may have another value than the frozen one, and "model" for any model.
            others: further arguments of the call, such as `model`.

        Raises:
            CacheunitError: `others` would replace a frozen part, or change what stands in front of it; or what follows
                is in the wrong form.
            TypeError: an argument has the wrong type.
        """
        from cacheunit_build.request_formats.checks import Following, RequestChecks

        following = Following(messages=messages, continuation=continuation, dynamic=dynamic)
        frozen: dict[str, Any] = json.loads(self._fragment)
        checks = RequestChecks(
            (self.name, self.target), (self._identity, self._rule), frozen, exact=self.counted == "exact"
        )
        try:
            fragment = checks.naming(checks.fragment_for(others, allow), cached_content)
            body = checks.with_following(fragment, following, mark=conversation_marker, allow=allow)
            return checks.arguments(body, others)
        except RecursionError:
            raise TypeError("an argument contains itself, or is nested too deeply") from None

    @property
    def cached_content(self) -> dict[str, Any] | None:
        """The body that stores it at the provider, without the model; None for a target whose requests carry it."""
        return None if self._content is None else json.loads(self._content)

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

    def matches(self, entry: LockEntry, identity: TargetIdentity) -> bool:
        """Returns whether this prefix was built with this lock entry and this identity of its target."""
        from cacheunit_build.domain.lock import identity_data

        return self._entry == entry and self._identity == identity_data(identity)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its tools, in order; of a tool that the provider runs, its name or type."""
        return FORMATS[self._identity["format"]].tool_names(json.loads(self._content or self._fragment))

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
