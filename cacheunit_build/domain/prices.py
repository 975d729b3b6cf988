"""Prices of models in money, for reports only: they decide no byte, and stand in no lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cacheunit_build.domain.errors import did_you_mean
from cacheunit_build.domain.model_names import is_listed_model
from cacheunit_build.domain.target import Price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cacheunit_build.domain.target import Target

INSTALL_PRICES = 'pip install "cacheunit-build[prices]"'


class PriceList(Protocol):
    """Published prices of models."""

    @property
    def source(self) -> str:
        """Who published the prices, and the day of the data."""

    def input_price(self, model: str) -> float | None:
        """Returns the price of a million uncached input tokens in USD; None for an unknown model."""

    def models(self) -> Sequence[str]:
        """Returns the names of all models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOrigin:
    """Where a price comes from that is not the target's own.

    Attributes:
        model: the model whose price it is.
        source: who published it, and the day of the data.
    """

    model: str
    source: str


FoundPrice = tuple[Price, PriceOrigin | None]
"""A price, and where it comes from if it is not the target's own."""


class TargetPrices:
    """The prices of targets: their own, else that of their model in a price list.

    Args:
        load: returns the price list, None if it is not installed; called at most once, and only if it is needed.
        model: the model whose prices are wanted; None for the model that counts of each target are for.
    """

    def __init__(self, load: Callable[[], PriceList | None], model: str | None = None) -> None:
        self._load = load
        self._model = model
        self._loaded: list[PriceList | None] = []

    def of(self, target: Target) -> FoundPrice | None:
        """Returns the price of a target, and where it comes from if it is not the target's own; None if unknown."""
        if target.price is not None:
            return target.price, None
        model = self._model_of(target)
        prices = None if model is None else self._price_list()
        amount = None if model is None or prices is None else prices.input_price(model)
        if model is None or prices is None or amount is None:
            return None
        return Price(input=amount), PriceOrigin(model=model, source=prices.source)

    def notes(self, targets: Iterable[Target]) -> Iterator[str]:
        """Yields why there is no money for the model that was asked for, if that is so for all of these targets."""
        without = [target for target in targets if target.price is None]
        if self._model is None or not without or any(self.of(target) is not None for target in without):
            return
        if not any(self._model_of(target) for target in without):
            listed = [model for target in without for model in target.model_ids]
            yield _with_hint(f'no target here lists the model "{self._model}"', did_you_mean(self._model, listed))
        elif (prices := self._price_list()) is None:
            yield _with_hint("prices of models are not installed", INSTALL_PRICES)
        else:
            hint = did_you_mean(self._model, prices.models())
            yield _with_hint(f'there is no price of "{self._model}" ({prices.source})', hint)

    def _model_of(self, target: Target) -> str | None:
        """Returns the model whose price is that of a target; None where it is not clear which."""
        if self._model is None:
            return target.counted_model
        return self._model if not target.model_ids or is_listed_model(self._model, target.model_ids) else None

    def _price_list(self) -> PriceList | None:
        if not self._loaded:
            self._loaded.append(self._load())
        return self._loaded[0]


def _with_hint(note: str, hint: str | None) -> str:
    return note if hint is None else f"{note}; {hint}"
