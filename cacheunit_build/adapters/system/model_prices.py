"""Prices of models as the package genai-prices has them, an optional dependency; nothing is downloaded."""

from __future__ import annotations

import datetime as dt
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cacheunit_build.domain.prices import PriceList

_CHECKED = re.compile(r"\b(?:verified|checked|updated|as of)\b[^.;]{0,60}?\b(\d{4}-\d{2}-\d{2})\b", re.IGNORECASE)
"""A remark such as "Batch rates verified on 2026-10-14"; the data have no day of their own."""

_TOKENS = 1_000
"""So few that no higher price for long prompts applies."""


def price_list(today: dt.date | None = None) -> PriceList | None:
    """Returns the price list that is installed; None where there is none.

    Args:
        today: the day whose prices apply, at noon UTC where they depend on the hour; the present one if None.
    """
    try:
        import genai_prices
        from genai_prices.data import providers
    except ImportError:
        return None
    day = today or dt.datetime.now(dt.UTC).date()
    return _GenaiPrices(genai_prices, providers, dt.datetime.combine(day, dt.time(12), dt.UTC))


class _GenaiPrices:
    """The prices in the package genai-prices at one time; implements the protocol `PriceList`."""

    def __init__(self, package: Any, providers: Any, time: dt.datetime) -> None:  # noqa: ANN401 - optional dependency
        self._package = package
        self._providers = providers
        self._time = time

    @cached_property
    def source(self) -> str:
        """The package with its version, and the last day on which its data say that a price was checked."""
        version = f"genai-prices {self._package.__version__}"
        days = [day for remark in self._remarks() for day in _CHECKED.findall(remark)]
        return f"{version}, data of {max(days)}" if days else version

    def _remarks(self) -> list[str]:
        models = [model for provider in self._providers for model in provider.models]
        return [item.price_comments for item in (*self._providers, *models) if item.price_comments]

    def input_price(self, model: str) -> float | None:
        """Returns the price of a million uncached input tokens in USD; None for an unknown model.

        A model may be named as people write it, "Claude Opus 4.8", or with its provider, `openai/gpt-5`.
        """
        name = "-".join(model.split())
        provider, _, rest = name.partition("/")
        price = self._price(name, None)
        return self._price(rest, provider) if price is None and rest else price

    def _price(self, model: str, provider: str | None) -> float | None:
        usage = self._package.Usage(input_tokens=_TOKENS)
        try:
            found = self._package.calc_price(usage, model, provider_id=provider, genai_request_timestamp=self._time)
        except LookupError:
            return None
        return float(found.input_price * (1_000_000 // _TOKENS))

    def models(self) -> list[str]:
        """Returns the names of all models, sorted."""
        return sorted({model.id for provider in self._providers for model in provider.models})
