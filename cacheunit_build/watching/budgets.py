"""How much of its budget each prefix uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.manifest import parse_manifest

if TYPE_CHECKING:
    from cacheunit_build.diff.known_version import KnownVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """The static tokens of an artifact beside the budget of its manifest.

    Attributes:
        prefix: the prefix or variant.
        target: the target.
        tokens: its static tokens.
        budget: the most that it may have.
        estimated: whether the tokens are an estimate.
    """

    prefix: str
    target: str
    tokens: int
    budget: int
    estimated: bool

    @property
    def share(self) -> float:
        """The share of the budget that is used."""
        return self.tokens / self.budget


class BudgetReader:
    """Reads the budgets of manifests, each manifest once for each content."""

    def __init__(self) -> None:
        self._budgets: dict[str, tuple[bytes | None, int | None]] = {}

    def uses(self, version: KnownVersion) -> tuple[BudgetUse, ...]:
        """Returns the use of each prefix's budget, by the artifact that uses the most; the fullest first."""
        folder = version.compiled.settings.prefixes
        self._budgets = {path: self._budget_of(path, version) for path in version.compiled.manifests}
        fullest: dict[str, BudgetUse] = {}
        for (prefix, target), record in version.records.items():
            name = prefix.partition("@")[0]
            _, budget = self._budgets.get(f"{folder}/{name}.yaml", (None, None))
            if budget is not None and (name not in fullest or record.entry.tokens > fullest[name].tokens):
                fullest[name] = BudgetUse(
                    prefix=prefix,
                    target=target,
                    tokens=record.entry.tokens,
                    budget=budget,
                    estimated=record.entry.is_estimate,
                )
        return tuple(sorted(fullest.values(), key=lambda use: (-use.share, use.prefix)))

    def _budget_of(self, path: str, version: KnownVersion) -> tuple[bytes | None, int | None]:
        """Returns the bytes of a manifest and its budget; None where it has none."""
        data = version.files.read(path)
        known = self._budgets.get(path)
        if known is not None and known[0] is data:
            return known
        if data is None or b"budget" not in data:
            return data, None
        folder = version.compiled.settings.prefixes
        try:
            manifest = parse_manifest(data, name=path.removeprefix(f"{folder}/").removesuffix(".yaml"), path=path)
        except CacheunitError:  # it was built, so that this is the manifest of another selection
            return data, None
        return data, manifest.budget
