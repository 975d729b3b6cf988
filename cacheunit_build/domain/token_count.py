"""A number of tokens, with the bounds that its margin gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """A number of static tokens.

    tokens  margin  low    high
    1,003   0.0     1,003  1,003
    1,003   0.1       902  1,104
    100     0.1        90    110

    Attributes:
        tokens: the count.
        margin: the share by which it may be off; 0 for an exact count.
    """

    tokens: int
    margin: float = 0.0

    @property
    def low(self) -> int:
        """The fewest tokens that it may be."""
        return math.floor(self.tokens * (1 - self._share)) if self.margin else self.tokens

    @property
    def high(self) -> int:
        """The most tokens that it may be."""
        return math.ceil(self.tokens * (1 + self._share)) if self.margin else self.tokens

    @property
    def _share(self) -> Fraction:
        """The margin as it is written: 1.1 * 100 as binary fractions is more than 110."""
        return Fraction(str(self.margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScale:
    """Turns the tokens in front of a position, by one vocabulary, into those of another, of which the sum is known.

    offset  rate  tokens  result
    0       1     700     700
    0       1.3   700     910
    400     1.1   700     1,170
    400     1.1   0       0

    Attributes:
        offset: tokens in front of everything, which the first vocabulary does not count.
        rate: tokens for each token of the first vocabulary.
    """

    offset: Fraction = Fraction(0)
    rate: Fraction = Fraction(1)

    def __call__(self, tokens: int) -> int:
        """Returns the tokens of the other vocabulary."""
        return max(0, round(self.offset + self.rate * tokens)) if tokens else 0

    def inverse(self, tokens: int) -> int:
        """Returns the tokens of the first vocabulary."""
        return max(0, round((tokens - self.offset) / self.rate))
