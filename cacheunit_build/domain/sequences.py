"""Compares the beginnings and the ends of two sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def common_ends(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """Returns how many items both sequences start with, and how many of the remaining ones both end with.

    For "abXcd" and "abYYcd" that is 2 and 2.
    """
    head = common_prefix(left, right)
    return head, common_prefix(left[head:][::-1], right[head:][::-1])


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """Returns how many items both sequences start with.

    The length is found by bisection, since comparing slices is much faster than comparing items.
    """
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
