"""How much of a prefix an endpoint serves: lengths are tried where they tell most, and a rule is fitted to the hits.

Baseline one long prefix that the cache holds, every shorter one that parts inside of it is a measurement. Servers that
know whole requests only are asked again with other words, or with a prefix of its own for each length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.endpoints.probe_session import unknown
from cacheunit_build.endpoints.rule_fit import Grid, fit_exact, fit_grid

if TYPE_CHECKING:
    from cacheunit_build.endpoints.probe_session import Trial
    from cacheunit_build.endpoints.warmup import Reach

_MINIMA = (64, 128, 256, 512, 1024, 2048, 4096)
"""Minima that providers document, tried first."""
_OWN_FAMILIES = 1_000
_GROWTHS = 2
_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What was served of a prefix with so many tokens of filler, in a request of `total` tokens."""

    length: int
    total: int
    hit: int


class Survey:
    """One endpoint whose reach is known. `exact`: it serves whole prefixes only, to the token."""

    def __init__(self, trial: Trial, reach: Reach) -> None:
        self.trial = trial
        self.reach = reach
        self.exact = False
        self.sightings: dict[int, Sighting] = {}
        self._asks = reach.warm_up_requests
        self._family = _OWN_FAMILIES

    def fitted(self) -> Grid | str:
        """The rule that all sightings so far agree on, or why there is none."""
        hits = {length: sighting.hit for length, sighting in self.sightings.items()}
        return fit_exact(hits) if self.exact else fit_grid(hits)

    def run(self) -> None:
        """Tries lengths until the rule is known; once more from the beginning if the numbers contradict one another.

        Raises:
            LimitReachedError: the bounds are reached; what was sighted until then stays.
            UnknownRuleError: no rule gives these numbers.
        """
        for attempt in range(_TRIES):
            self.sightings.clear()
            if attempt:
                self.trial.notes.append("the numbers contradicted one another once: measured again")
                self._anew()
            self._search()
            rule = self.fitted()
            if isinstance(rule, Grid):
                return
        raise unknown(str(rule))

    def _anew(self) -> None:
        """A new nonce, and the long prefix sent again."""
        self._family += 1
        prefix = replace(self.reach.prefix, family=self._family)
        for _ in range(self.reach.warm_up_requests + 1):
            self.trial.send(self.trial.parted(prefix))
            self.trial.server.wait(self.reach.delay)
        self.reach = replace(self.reach, prefix=prefix)

    def _search(self) -> None:
        highest = self._first() or self._first()  # a kind is decided here: not by chance
        if highest is None:
            self.exact = True
            self._exact_minimum()
        elif not self._by_token(highest):
            edge = self._edge(highest)
            if edge is not None:
                self._minimum(edge)
        else:
            self._minimum(highest)
        if not self.exact:
            self._asked_again()

    def _first(self) -> Sighting | None:
        """The long prefix, parted inside; and how many requests a length takes. None where that is never served."""
        length = self.reach.prefix.length
        hits = []
        spare = 1 if self.reach.warm_up_requests == 1 else 2  # else one that was emptied now would seem to serve none
        for attempt in range(self.reach.warm_up_requests + spare):
            sighting = self._ask(length, wait=attempt > 0)
            hits.append(sighting.hit)
            if sighting.hit > self.reach.cold:
                self._note(sighting)
        if max(hits) <= self.reach.cold:
            return None
        self._asks = hits.index(max(hits)) + 1
        return self.sightings[length]

    def _by_token(self, highest: Sighting) -> bool:
        """Whether one token less is served one token less, and again."""
        lengths = (highest.length - 1, highest.length - 3)
        return all(
            self._settled(length, highest.hit).hit == highest.hit - (highest.length - length) for length in lengths
        )

    def _edge(self, highest: Sighting) -> Sighting | None:
        """The shortest prefix that is served as much as the highest; of a longer one, where that is the first unit."""
        for _ in range(_GROWTHS):
            edge = self._edge_below(highest)
            below = self.sightings[edge.length - 1]
            if below.hit > self.reach.cold:
                return edge
            self._asks += 1  # what is longer is not in the cache yet
            highest = self._settled(2 * highest.length, 2 * highest.total)
            self._asks -= 1
        return None

    def _edge_below(self, highest: Sighting) -> Sighting:
        """Halves the way from a length that must be served less: what is shared ends before the last token."""
        low, high = max(0, highest.length - (highest.total - highest.hit)), highest
        if self._settled(low, high.hit).hit >= high.hit:
            raise unknown("more tokens were served than two requests can have in common")
        step = 1
        while high.length - low > 1:
            middle = low + step if step else (low + high.length) // 2
            sighting = self._settled(min(middle, high.length - 1), high.hit)
            if sighting.hit >= high.hit:
                high, step = sighting, 0
            else:
                low, step = sighting.length, 2 * step
        return high

    def _minimum(self, edge: Sighting) -> None:
        """The lowest unit that is served, and whether it is so from its first token on."""
        rule = self.fitted()
        if not isinstance(rule, Grid):
            return
        unit = rule.unit
        most = min(edge.length, edge.hit - 1) // unit
        if self._serves(edge.length - most * unit, rule):
            if rule.hit(edge.length - most * unit) > unit:
                self._serves(0, rule)
            return
        served, empty = 0, most
        while empty - served > 1:
            middle = (served + empty) // 2
            served, empty = (middle, empty) if self._serves(edge.length - middle * unit, rule) else (served, middle)
        high, low = edge.length - served * unit, edge.length - empty * unit
        if high > 0 and unit > 1 and not self._serves(high - 1, rule):
            return
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._serves(middle, rule) else (middle, high)

    def _asked_again(self) -> None:
        """The length below a minimum once more: a server that forgets now and then would seem to have one."""
        rule = self.fitted()
        if isinstance(rule, Grid) and rule.minimum:
            below = rule.minimum - rule.ahead - 1
            del self.sightings[below]
            self._asks += 2
            self._serves(below, rule)
            self._asks -= 2

    def _serves(self, length: int, rule: Grid) -> bool:
        return self._settled(length, rule.hit(length)).hit > 0

    def _settled(self, length: int, best: int) -> Sighting:
        """What is served of a length, asked often enough; `best` is the most there can be."""
        if length in self.sightings:
            return self.sightings[length]
        found = 0
        for attempt in range(self._asks + 1):
            sighting = self._ask(length, wait=attempt > 0)
            found = max(found, sighting.hit)
            if found >= best or (attempt + 1 >= self._asks and found > self.reach.cold):
                break
        return self._note(replace(sighting, hit=found))

    def _ask(self, length: int, *, wait: bool) -> Sighting:
        """One request that parts inside."""
        if wait and self.reach.delay:
            self.trial.server.wait(self.reach.delay)
        usage = self.trial.send(self.trial.parted(replace(self.reach.prefix, length=length, inside=True)))
        return Sighting(length=length, total=usage.prompt or 0, hit=usage.hit or 0)

    def _note(self, sighting: Sighting) -> Sighting:
        known = self.sightings.get(sighting.length)
        self.sightings[sighting.length] = known if known is not None and known.hit > sighting.hit else sighting
        return self.sightings[sighting.length]

    def _exact_minimum(self) -> None:
        """The lowest prefix that is served; each length has a nonce of its own, since only whole prefixes are."""
        length, hit = self.reach.prefix.length, self.reach.hit
        ahead = hit - length
        self._note(Sighting(length=length, total=self.reach.total, hit=hit))
        self._whole(length - 1)
        low, high = 0, length - 1
        for tokens in reversed([tokens for tokens in _MINIMA if ahead < tokens < hit]):
            if not self._is_written(tokens - ahead):
                low = tokens - ahead
                break
            high = tokens - ahead
        if high > 1 and not self._is_written(high - 1):
            low = high - 1
        if low == 0 and self._whole(0).hit:
            return
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_written(middle) else (middle, high)
        self._whole(high)
        self._whole(low)

    def _is_written(self, length: int) -> bool:
        """Whether a prefix comes into the cache: one request where the endpoint reports what it writes."""
        if not self.reach.written:
            return self._whole(length).hit > 0
        self._family += 1
        return bool(self.trial.send(replace(self.reach.prefix, family=self._family, length=length)).written)

    def _whole(self, length: int) -> Sighting:
        """What is served of a prefix of its own."""
        if length in self.sightings:
            return self.sightings[length]
        self._family += 1
        prefix = replace(self.reach.prefix, family=self._family, length=length)
        cold = self.trial.send(self.trial.parted(prefix)).hit or 0
        for _ in range(self.reach.warm_up_requests + 1):
            self.trial.server.wait(self.reach.delay)
            usage = self.trial.send(self.trial.parted(prefix))
            if (usage.hit or 0) > cold:
                break
        hit = usage.hit or 0
        return self._note(Sighting(length=length, total=usage.prompt or 0, hit=hit if hit > cold else 0))
