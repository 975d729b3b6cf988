"""How much two sequences begin with alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def common_ends(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """How many items both start with, and how many of what is left both end with."""
    head = common_prefix(left, right)
    return head, common_prefix(left[head:][::-1], right[head:][::-1])


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """How many items both start with; found by halving, since whole slices compare fast."""
    if type(left) is not type(right):
        left, right = list(left), list(right)
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
