"""A number of tokens, with the bounds that its margin gives."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """A number of static tokens.

    tokens  margin  low    high
    1,003   0.0     1,003  1,003
    1,003   0.1       902  1,104

    Attributes:
        tokens: the count.
        margin: the share by which it may be off; 0 for an exact count.
    """

    tokens: int
    margin: float = 0.0

    @property
    def low(self) -> int:
        """The fewest tokens that it may be."""
        return math.floor(self.tokens * (1 - self.margin)) if self.margin else self.tokens

    @property
    def high(self) -> int:
        """The most tokens that it may be."""
        return math.ceil(self.tokens * (1 + self.margin)) if self.margin else self.tokens
