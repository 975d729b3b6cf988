"""A simulation of providers that cache up to markers, written from their documentation and nothing else.

It imports nothing of `cacheunit_build`, so that a mistake there is not repeated here.

Anthropic (https://platform.claude.com/docs/en/build-with-claude/prompt-caching): blocks are read in the order tools,
system, messages. Up to four blocks carry `cache_control`; each of them writes an entry of all blocks up to it. From
each marker, 20 blocks backwards, the marked one included, are searched for an entry that an earlier request wrote; the
longest is read. Entries of fewer tokens than the minimum are not written. An entry lives 5 minutes, with `ttl: 1h` one
hour, from its last use. Writing costs 1.25 or 2 of an uncached token, reading 0.1. With both lifetimes in a request,
the tokens up to the last marker of 1h that is not read cost 2, the others up to the last marker 1.25.

OpenAI from GPT-5.6 on (https://developers.openai.com/api/docs/guides/prompt-caching, and the docstrings of
openai/types/responses/response_create_params.py in the SDK): `prompt_cache_breakpoint` on blocks of `input`, and an
implicit breakpoint at the end of the latest message of the user. A request writes the latest three explicit breakpoints
and the implicit one. Entries are looked up at the breakpoints of the request, without looking back, and at the ends of
up to 20 earlier messages. 30 minutes, minimum 1,024, write 1.25, read 0.1. Requests with another `prompt_cache_key`
share nothing.

Whether the use of an entry also keeps the shorter ones inside of it alive is not documented. `Rules.refresh_inner` says
which; False is the cautious assumption: only what is read is refreshed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Json = dict[str, Any]

KEYS = ("cache_control", "prompt_cache_breakpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one provider.

    Attributes:
        minimum: the fewest tokens of an entry.
        look_back: the blocks that are searched from each marker backwards, the marked one included.
        looks_at_messages: how many ends of earlier messages are looked up too.
        explicit_writes: how many markers of the prefix write an entry.
        lifetime: seconds that an entry lives where its marker has no `ttl`.
        read: the price of a token that is read; an uncached token costs 1.
        write: the price of a token that is written.
        write_long: the price of a token that is written for an hour.
        refresh_inner: whether reading an entry keeps alive the entries at markers inside of it.
    """

    minimum: int
    look_back: int
    looks_at_messages: int = 0
    explicit_writes: int = 3
    lifetime: float = 300.0
    read: float = 0.1
    write: float = 1.25
    write_long: float = 2.0
    refresh_inner: bool = False


ANTHROPIC = Rules(minimum=1024, look_back=20)
OPENAI = Rules(minimum=1024, look_back=1, looks_at_messages=20, lifetime=1800.0)
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The static part of a request as a list of blocks.

    Attributes:
        name: its name.
        blocks: the content of each block, without markers.
        tokens: the tokens of each block.
        markable: for each block, whether it can carry a marker.
        markers: block number behind which each marker stands, from 1 -> its seconds of life; None for the default.
        key: the value that chooses the cache.
    """

    name: str
    blocks: tuple[str, ...]
    tokens: tuple[int, ...]
    markable: tuple[bool, ...]
    markers: Mapping[int, float | None]
    key: str = ""

    def with_markers(self, ends: Sequence[int]) -> Prefix:
        """Returns the prefix with markers behind those blocks, of an hour up to where it has such markers."""
        long = max((end for end, life in self.markers.items() if life == HOUR), default=0)
        markers = {end: HOUR if end <= long else None for end in ends}
        return Prefix(
            name=self.name,
            blocks=self.blocks,
            tokens=self.tokens,
            markable=self.markable,
            markers=markers,
            key=self.key,
        )


def read_fragment(name: str, data: bytes, count: Callable[[str], int]) -> Prefix:
    """Returns the blocks of a frozen request fragment with their tokens."""
    fragment = json.loads(data)
    openai = "input" in fragment or "prompt_cache_key" in fragment
    blocks = [(tool, not openai) for tool in fragment.get("tools", [])]
    blocks += [(block, True) for block in fragment.get("system", [])]
    for message in fragment.get("input", fragment.get("messages", [])):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or json.dumps(message)}]
        blocks += [({"role": message.get("role"), **part}, True) for part in parts]
    values = [next((block[key] for key in KEYS if key in block), None) for block, _ in blocks]
    plain = [{key: value for key, value in block.items() if key not in KEYS} for block, _ in blocks]
    texts = [block["text"] if "text" in block else json.dumps(block, ensure_ascii=False) for block in plain]
    return Prefix(
        name=name,
        blocks=tuple(json.dumps(block, ensure_ascii=False) for block in plain),
        tokens=tuple(count(text) for text in texts),
        markable=tuple(can for _, can in blocks),
        markers={
            end: HOUR if value.get("ttl") == "1h" else None for end, value in enumerate(values, 1) if value is not None
        },
        key=fragment.get("prompt_cache_key", ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request at a time in seconds: a prefix and the messages of a conversation behind it.

    Attributes:
        prefix: the prefix.
        at: when it is sent.
        conversation: the number of the conversation.
        messages: the tokens of each message, of user and assistant in turn; the last one is marked.
    """

    prefix: Prefix
    at: float
    conversation: int
    messages: tuple[int, ...]


@dataclass(slots=True)
class Usage:
    """What requests were charged for, in tokens, and their cost in prices of an uncached input token."""

    requests: int = 0
    read: int = 0
    written: int = 0
    uncached: int = 0
    cost: float = 0.0

    def add(self, other: Usage) -> None:
        """Adds the numbers of another."""
        self.requests += other.requests
        self.read += other.read
        self.written += other.written
        self.uncached += other.uncached
        self.cost += other.cost


@dataclass(slots=True)
class Entry:
    """An entry of the cache: how long it lives after a use, and when it expires."""

    life: float
    expires: float


@dataclass(slots=True)
class Cache:
    """The cache of one provider.

    Attributes:
        rules: its rules.
        entries: the entry of each sequence of blocks, by the number of that sequence.
    """

    rules: Rules
    entries: dict[int, Entry] = field(default_factory=dict)
    _numbers: dict[tuple[int, object], int] = field(default_factory=dict)
    _of_prefixes: dict[tuple[str, tuple[str, ...]], list[int]] = field(default_factory=dict)

    def send(self, request: Request) -> tuple[Usage, int]:
        """Returns what a request is charged for, and how many of its blocks are read; writes its entries."""
        prefix, rules = request.prefix, self.rules
        sums = _sums([*prefix.tokens, *request.messages])
        numbers = self._sequence(request)
        end = len(numbers) - 1
        explicit = sorted(item for item in prefix.markers if sums[item] >= rules.minimum)
        marked = [*explicit[-rules.explicit_writes :], *([end] if sums[end] >= rules.minimum else [])]
        looked_up = self._looked_up([*explicit, end], len(prefix.blocks), end)
        found = max((item for item in looked_up if self._is_alive(numbers[item], request.at)), default=0)
        last = max(marked, default=0)
        lives = {item: prefix.markers.get(item) or rules.lifetime for item in marked}
        if found:
            self._refresh(numbers[found], request.at)
        for item in marked:
            if item > found or (rules.refresh_inner and item != found):
                self._write(numbers[item], lives[item], request.at)
        long = max([found, *(item for item in marked if lives[item] == HOUR)])
        cost = rules.read * sums[found] + rules.write_long * (sums[long] - sums[found])
        written = max(0, sums[last] - sums[found])
        cost += rules.write * max(0, sums[last] - sums[long])
        uncached = sums[end] - max(sums[last], sums[found])
        usage = Usage(requests=1, read=sums[found], written=written, uncached=uncached, cost=cost + uncached)
        return usage, found

    def _looked_up(self, markers: Sequence[int], static: int, end: int) -> set[int]:
        """Returns behind how many blocks entries are looked up."""
        ends = {item - back for item in markers for back in range(self.rules.look_back) if item - back > 0}
        earlier = range(end - 2, static, -2)  # the ends of the earlier messages of the user
        return ends | set(earlier[: self.rules.looks_at_messages])

    def _sequence(self, request: Request) -> list[int]:
        """Returns a number for each sequence of blocks from the first on; equal numbers are equal sequences."""
        prefix = request.prefix
        known = self._of_prefixes.get((prefix.key, prefix.blocks))
        if known is None:
            known = [self._number(0, prefix.key)]
            for block in prefix.blocks:
                known.append(self._number(known[-1], block))
            self._of_prefixes[prefix.key, prefix.blocks] = known
        numbers = list(known)
        for index in range(len(request.messages)):
            numbers.append(self._number(numbers[-1], (request.conversation, index)))
        return numbers

    def _number(self, before: int, block: object) -> int:
        return self._numbers.setdefault((before, block), len(self._numbers) + 1)

    def _is_alive(self, number: int, now: float) -> bool:
        entry = self.entries.get(number)
        return entry is not None and now < entry.expires

    def _refresh(self, number: int, now: float) -> None:
        entry = self.entries[number]
        entry.expires = now + entry.life

    def _write(self, number: int, life: float, now: float) -> None:
        old = self.entries.get(number)
        if old is not None and now < old.expires:
            life = max(life, old.life)
        self.entries[number] = Entry(life, now + life)


def _sums(tokens: Sequence[int]) -> list[int]:
    """Returns the tokens in front of the end of each block, from 0 blocks on."""
    sums = [0]
    for number in tokens:
        sums.append(sums[-1] + number)
    return sums


def replay(rules: Rules, requests: Sequence[Request]) -> Usage:
    """Returns what a sequence of requests costs with an empty cache."""
    cache, total = Cache(rules), Usage()
    for request in requests:
        total.add(cache.send(request)[0])
    return total
