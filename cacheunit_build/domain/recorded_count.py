"""Recorded counts: how many static tokens a provider counted in a prefix, and what a build makes of that number."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.token_count import TokenScale

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.domain.lock import Counted

_NAME = Limits(min_length=1)
_FINGERPRINT = Limits(pattern=r"^sha256:[0-9a-f]{64}$")
MOST_TOKENS = 1 << 30
"""The most tokens of a recorded count: no model reads as many."""
_AT_LEAST_ONE = Limits(ge=1, le=MOST_TOKENS)
_FEWEST_DIGITS = 6
_MOST_GROWTH = 2
"""The most times that a prefix may grow or shrink, by the estimate, before its recorded count tells nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCount:
    """The count of one prefix that a provider gave: one line of the counts file."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    prefix: Annotated[str, _NAME]
    """The prefix or variant."""
    target: Annotated[str, _NAME]
    """The target."""
    model: Annotated[str, _NAME]
    """The model that the provider counted for."""
    request: Annotated[str, _FINGERPRINT]
    """The fingerprint of the bytes that were counted: the request fragment without cache markers, keys and lifetimes,
    which are no tokens."""
    tokens: Annotated[int, _AT_LEAST_ONE]
    """The number of static tokens."""
    margin: Annotated[int, Limits(ge=0)]
    """By how many tokens that number may be off."""
    how: Literal["counted", "reported"]
    """Whether the provider counted requests (calibrate), or reported the tokens of a real one (verify --record)."""
    day: Annotated[str, Limits(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]
    """The day of the answer, in UTC."""
    estimate: Annotated[int, _AT_LEAST_ONE]
    """The static tokens of the same bytes by the vocabulary of the estimate."""
    vocabulary: Annotated[str, _FINGERPRINT]
    """The fingerprint of that vocabulary."""
    tools: bool = False
    """Whether it has tools, which providers put text of their own in front of."""

    def __post_init__(self) -> None:
        """Raises ValueError where the margin is not smaller than the number of tokens."""
        if self.margin >= self.tokens:
            raise ValueError(f"has a margin of {self.margin} for {self.tokens} tokens")

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Prefix, target, model and request, of which there is one line."""
        return self.prefix, self.target, self.model, self.request

    @property
    def share(self) -> float:
        """The margin as a share of the tokens, rounded so that the bounds are those of the margin: 3 of 1,234."""
        digits = max(_FEWEST_DIGITS, len(str(self.tokens)))
        return float(Fraction(self.margin * 10**digits // self.tokens, 10**digits))


class RecordedCounts:
    """The recorded counts of a project.

    Args:
        counts: the counts, in any order.
    """

    def __init__(self, counts: Iterable[RecordedCount] = ()) -> None:
        self.counts = {count.key: count for count in counts}
        self._last: dict[tuple[str, str, str], RecordedCount] = {}
        for count in sorted(self.counts.values(), key=lambda item: (item.day, item.key)):
            self._last[count.prefix, count.target, count.model] = count

    def of(self, prefix: str, target: str, model: str, request: str) -> RecordedCount | None:
        """Returns the count of exactly these bytes; None where there is none."""
        return self.counts.get((prefix, target, model, request))

    def last(self, prefix: str, target: str, model: str) -> RecordedCount | None:
        """Returns the last count of a prefix, whatever its bytes were; None where there is none."""
        return self._last.get((prefix, target, model))

    def updated(self, counts: Iterable[RecordedCount]) -> RecordedCounts:
        """Returns these counts with new ones, each in place of all others of its prefix, target and model."""
        new = list(counts)
        replaced = {count.key[:-1] for count in new}
        return RecordedCounts([*(count for count in self.counts.values() if count.key[:-1] not in replaced), *new])


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTokens:
    """The number of static tokens of a prefix, as far as it is known.

    Attributes:
        tokens: the number.
        margin: the share by which it may be off; 0 for an exact one.
        counted: where it comes from.
        inner_margin: the share by which a position inside the prefix may be off.
        scale: turns positions inside the prefix, by the vocabulary of the estimate, into tokens of the model.
        note: what the plan says of it; None for nothing.
    """

    tokens: int
    margin: float
    counted: Counted
    inner_margin: float
    scale: TokenScale = field(default_factory=TokenScale)
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedRequest:
    """What a provider is asked to count of a prefix whose own vocabulary is not available.

    Attributes:
        body: the request fragment without cache markers, keys and lifetimes, as JSON.
        estimate: its static tokens by the vocabulary of the estimate.
        vocabulary: the fingerprint of that vocabulary.
        margins: the share by which such an estimate may be off, and that by which one scaled by a recorded count may;
            None where the target has no such margin.
        model: the model whose counts the target takes; None where it names none.
        tools: whether it has tools.
    """

    body: bytes
    estimate: int
    vocabulary: str
    margins: tuple[float, float | None]
    model: str | None
    tools: bool = False
    request: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "request", fingerprint(self.body))

    def counted(self, prefix: str, target: str, counts: RecordedCounts) -> CountedTokens:
        """Returns the best number that the recorded counts give for a prefix: recorded, scaled, or the estimate.

        estimate  recorded for these bytes  for former bytes (estimate)  result
        1,100     1,234 ±3                  -                            1,234 ±3, recorded
        1,100     -                         1,300 ±4 (1,000)             1,430 ± the margin of scaled estimates + 0.3 %
        1,100     -                         1,300 (500)                  1,100 ± the margin of the estimate: too unlike
        1,100     -                         1,000 ±600 (1,000)           1,100 ± the margin of the estimate: it is less
        1,100     -                         -                            1,100 ± the margin of the estimate
        """
        margin, scaled_margin = self.margins
        plain = CountedTokens(tokens=self.estimate, margin=margin, counted="estimate", inner_margin=margin)
        if self.model is None or not self.estimate:
            return plain
        inner = min(margin, scaled_margin or margin)
        exact = counts.of(prefix, target, self.model, self.request)
        if exact is not None:
            return CountedTokens(
                tokens=exact.tokens,
                margin=exact.share,
                counted="recorded",
                inner_margin=max(inner, exact.share),
                scale=self._scale(exact.tokens, self.estimate),
                note=f"{_VERBS[exact.how]} the provider on {exact.day} for {exact.model}",
            )
        last = counts.last(prefix, target, self.model)
        if last is None or scaled_margin is None or not self._is_like(last):
            return plain
        off = round(scaled_margin + last.share, 4)
        if off >= margin:
            return plain
        scale = self._scale(last.tokens, last.estimate)
        note = f"scaled by the count of {last.day} for {last.model}, of former bytes"
        tokens = max(1, scale(self.estimate))
        return CountedTokens(tokens=tokens, margin=off, counted="estimate", inner_margin=off, scale=scale, note=note)

    def _scale(self, tokens: int, estimate: int) -> TokenScale:
        """Returns the scale from the estimate of a prefix to its recorded count.

        Without tools, every token of the estimate is worth the same. With tools, the text in front of them is in the
        count too, and does not grow with the prefix: the worth of a token is held within the scaled margin, and the
        rest stands in front.

        tools  tokens  estimate  scaled margin  rate  offset
        no     1,300   1,000     0.15           1.3   0
        yes    1,100   1,000     0.15           1.1   0
        yes    1,500   1,000     0.15           1.15  350
        """
        rate, margin = Fraction(tokens, estimate), Fraction(str(self.margins[1] or self.margins[0]))
        if self.tools:
            rate = min(max(rate, 1 - margin), 1 + margin)
        return TokenScale(offset=tokens - rate * estimate, rate=rate)

    def _is_like(self, former: RecordedCount) -> bool:
        """Returns whether a former version was estimated by the same vocabulary, and is near enough in length and kind.

        The text that a provider puts in front of tools may be hundreds of tokens.
        """
        shorter, longer = sorted((self.estimate, former.estimate))
        same_kind = former.vocabulary == self.vocabulary and former.tools == self.tools
        return same_kind and longer <= shorter * _MOST_GROWTH


_VERBS = {"counted": "recorded from", "reported": "reported by"}
