"""The page of `verify` as HTML: the predicted and the observed hit of each artifact as two bars, with the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.endpoints.verify import has_passed
from cacheunit_build.reports.html import render
from cacheunit_build.reports.verify import compared_results, remark_text, tokens_text, verdict_counts, warm_up_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.endpoints.verify import VerifyResult

_TONES = {"as predicted": "good", "not hit": "bad", "differs": "bad", "unknown": "warn"}
_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResultView:
    """An artifact in the page.

    Attributes:
        prefix: its name.
        target: its target.
        requests: the number of its requests.
        predicted: the predicted tokens.
        observed: the observed tokens.
        bars: the lengths of both, in percent of the longest one; None where unknown.
        verdict: the verdict, or for a warmed cache its state.
        tone: the tone of its badge.
        remark: the cause of a difference and what was observed; empty where there is nothing to say.
        hint: what to try next; empty where there is nothing to suggest.
    """

    prefix: str
    target: str
    requests: str
    predicted: str
    observed: str
    bars: tuple[float | None, float | None]
    verdict: str
    tone: str
    remark: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifyView:
    """The page.

    Attributes:
        summary: the number of artifacts with each verdict.
        tone: whether all are as predicted.
        results: the artifacts.
    """

    summary: str
    tone: str
    results: tuple[_ResultView, ...]


def verify_html(results: Sequence[VerifyResult], *, warm: bool = False) -> str:
    """Returns the page.

    Args:
        results: the results.
        warm: whether the cache was only to be filled, so that each artifact has a state instead of a verdict.
    """
    compared = compared_results(results)
    longest = max((count or 0 for result in compared for count in (result.predicted, result.observed)), default=0) or 1
    view = _VerifyView(
        summary=verdict_counts(compared) or "no artifact was sent",
        tone="good" if has_passed(results) else "bad",
        results=tuple(_result(result, longest, warm=warm) for result in compared),
    )
    return render("verify.html.j2", view)


def _result(result: VerifyResult, longest: int, *, warm: bool) -> _ResultView:
    return _ResultView(
        prefix=readable_name(result.prefix),
        target=result.target,
        requests=f"{result.continuation + 1:,}",
        predicted=tokens_text(result.predicted),
        observed=tokens_text(result.observed),
        bars=(_length(result.predicted, longest), _length(result.observed, longest)),
        verdict=warm_up_state(result) if warm else result.verdict,
        tone=_TONES[result.verdict],
        remark=remark_text(result),
        hint=result.hint or "",
    )


def _length(count: int | None, longest: int) -> float | None:
    return None if count is None else round(count / longest * _LONGEST, 2)
