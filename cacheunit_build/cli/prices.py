"""Finds the prices of targets for the commands that show money."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.prices import TargetPrices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cacheunit_build.cli.context import Context
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.prices import FoundPrice
    from cacheunit_build.domain.target import Target


def targets_with_prices(
    context: Context, names: Collection[str], model: str | None
) -> tuple[dict[str, Target], TargetPrices]:
    """Returns the targets of these names, without those that no longer exist, and where their prices are found.

    Args:
        context: the context of the command.
        names: the names of targets.
        model: the model whose prices are wanted; None for the model that counts of each target are for.
    """
    from cacheunit_build.adapters.system.model_prices import price_list
    from cacheunit_build.compiler.project import read_project

    _, known = read_project(context.files())
    targets = {name: target for name, target in sorted(known.items()) if name in names}
    return targets, TargetPrices(price_list, model)


def with_prices(context: Context, result: DiffResult, model: str | None = None) -> DiffResult:
    """Returns a result of `diff` with the prices of its targets, and notes where there are none for the model."""
    targets, prices = targets_with_prices(context, {item.target for item in result.differences}, model)
    found = {name: prices.of(target) for name, target in targets.items()}
    differences = [
        item if (price := found.get(item.target)) is None else replace(item, price=price[0], price_origin=price[1])
        for item in result.differences
    ]
    return replace(result, differences=tuple(differences), notes=(*result.notes, *prices.notes(targets.values())))


def prices_by_model(context: Context, models: Iterable[tuple[str, str]]) -> dict[tuple[str, str], FoundPrice]:
    """Returns the prices that are known of models of targets, by the name of the target and the model."""
    prices = {}
    for name, model in sorted(set(models)):
        targets, of_model = targets_with_prices(context, {name}, model)
        found = of_model.of(targets[name])
        if found is not None:
            prices[name, model] = found
    return prices
