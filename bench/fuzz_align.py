"""The target of `fuzz.py` that pads texts, by functions that are no counts of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuzz_base import Target, atheris, require


@dataclass(frozen=True, slots=True)
class _Alignment:
    """An alignment to try.

    Attributes:
        function: `pad_text_concat` or `pad_text_to`.
        prefix: its first argument.
        size: its second argument, a unit or a goal.
        count: its third argument.
    """

    function: str
    prefix: str
    size: int
    count: AdversarialCount


@dataclass(slots=True, kw_only=True)
class AdversarialCount:
    """A function that is no count of tokens: it adds 0, 1 or 2 per filler, jumps, falls, returns or raises anything.

    It returns the same for the same text.

    Attributes:
        base: the tokens of an empty text.
        rates: the tokens of two more characters; the last character of the text chooses one, if `by_end`.
        by_end: whether it does.
        jumps: how many tokens are added from a number of characters on.
        noisy: whether 0, 1 or 2 are added, by the number of characters.
        odd: what the call `odd_at` returns; None to return a number.
        odd_at: the number of that call.
        raise_at: the number of the call that raises an error; 0 to raise none.
        calls: how often it was called with another text.
    """

    base: int
    rates: tuple[Any, ...]
    by_end: bool
    jumps: tuple[tuple[int, int], ...]
    noisy: bool
    odd: Any
    odd_at: int
    raise_at: int
    calls: int = 0
    _known: dict[int, Any] = field(default_factory=dict, repr=False)

    def __call__(self, text: str) -> Any:  # noqa: ANN401 - wrong types too
        """Returns the tokens of a text, or something else."""
        key = hash(text)  # not the text, which may be huge
        if key not in self._known:
            self.calls += 1
            if self.calls == self.raise_at:
                raise _CountError
            is_odd = self.odd is not None and self.calls == self.odd_at
            self._known[key] = self.odd if is_odd else self._tokens(text)
        return self._known[key]

    def _tokens(self, text: str) -> Any:  # noqa: ANN401 - as in the caller
        size = len(text)
        rate = self.rates[ord(text[-1:] or "a") % len(self.rates) if self.by_end else 0]
        tokens = self.base + rate * (size // 2) + sum(jump for start, jump in self.jumps if size > start)
        return tokens + (size * 7919 % 3 if self.noisy else 0)


class _CountError(Exception):
    """Raised by a count function."""


def alignment(data: bytes) -> _Alignment:
    """Returns the alignment that an input describes."""
    provider = atheris().FuzzedDataProvider(data)
    pick, within = provider.PickValueInList, provider.ConsumeIntInRange
    return _Alignment(
        function=pick(["pad_text_concat", "pad_text_to"]),
        prefix=pick(["Be kind", "Be\n", "x\n\n", "", " ", "\u00e4" * 500]),
        size=pick([1, 16, 128, 128, 1024, 5000, 10**6, 10**9, 2**63, 10**400, 0, -1]),
        count=AdversarialCount(
            base=pick([0, 1, 2, 100, 127, 128, 10**6, 2**31, 2**63, 10**400, -5]),
            rates=tuple(pick([0, 1, 2, -1, 3, 1, 1, 10**9, -(10**400), 0.5]) for _ in range(4)),
            by_end=provider.ConsumeBool(),
            jumps=tuple((within(0, 4000), within(-300, 300)) for _ in range(3)),
            noisy=provider.ConsumeBool(),
            odd=pick([None] * 8 + ["12", True, 1.5, float("nan")]),
            odd_at=within(1, 20),
            raise_at=pick([0] * 9 + [1, 2, 5]),
        ),
    )


def run_align(data: bytes) -> None:
    """Pads a text by a count function that the input describes."""
    from cacheunit_build.compiler import padding as library

    wanted = alignment(data)
    prefix, size, count = wanted.prefix, wanted.size, wanted.count
    to_goal = wanted.function == "pad_text_to"
    try:
        padding = getattr(library, wanted.function)(prefix, size, count)
    except library.AlignmentError:
        return
    except _CountError:
        require(count.raise_at > 0, "an error that count did not raise")
        return
    finally:
        require(count.calls <= library.MOST_CALLS, "more calls than allowed")
    if to_goal or (size > 0 and prefix):
        tokens = count(prefix + padding)
        require(tokens == size if to_goal else tokens % size == 0, "the padded text is not aligned")
    else:
        require(padding == "", "padding where there is nothing to align")


ALIGNMENT = {
    "align": Target(run_align, lambda: [bytes(range(n, n + 80)) for n in (0, 40, 90, 170)], "bytes", shown=alignment),
}
