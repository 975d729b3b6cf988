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
