"""Changes inputs of `fuzz.py` by their structure, and makes failing ones smaller."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

from fuzz_base import atheris

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from fuzz_base import Target


def _places(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Yields the keys of every value in a value, at most 1,000."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in itertools.islice(items, 1_000):
        yield (*keys, key)
        yield from _places(item, (*keys, key))


def _at(value: Any, keys: tuple[Any, ...]) -> Any:  # noqa: ANN401 - JSON
    for key in keys:
        value = value[key]
    return value


def _replaced(value: Any, keys: tuple[Any, ...], new: Any = None, *, removed: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Returns a value with another one under `keys`, or none there."""
    if not keys:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    if len(keys) == 1 and removed:
        del copied[keys[0]]
    else:
        copied[keys[0]] = _replaced(value[keys[0]], keys[1:], new, removed=removed)
    return copied


_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        2**53,
        2**64,
        10**30,
        0.5,
        1e308,
        1e-320,
        float("nan"),
        float("inf"),
        "",
        "a",
        "1",
    ),
    *(
        [],
        {},
        [[]],
        {"": {}},
        "\ud800",
        "\U0001f600",
        "../../x",
        "a\nb",
        "a" * 5_000,
        "1" * 5_000,
        "sha256:" + "0" * 64,
        "\x00",
    ),
)


class Mutator:
    """Changes an input: by its structure, by the words of its language, by another seed, or as libFuzzer does."""

    def __init__(self, target: Target, seeds: list[bytes], chosen: random.Random) -> None:
        self._target = target
        self._seeds = seeds or [b""]
        self._random = chosen

    def __call__(self, data: bytes, most: int, seed: int) -> bytes:
        """Returns a changed input of at most `most` bytes; the input as it is where a change would need too much."""
        self._random.seed(seed)
        data = bytes(data)
        try:
            return self._mutated(data, most)[:most]
        except (MemoryError, RecursionError):
            return data[:most]

    def _mutated(self, data: bytes, most: int) -> bytes:
        way = self._random.random()
        if self._target.form == "json" and way < 0.6:  # noqa: PLR2004 - a share
            return self._json(data)
        if self._target.form == "text" and way < 0.5:  # noqa: PLR2004 - a share
            return self._text(data)
        if way < 0.7:  # noqa: PLR2004 - a share
            return self._repeated(data)
        return bytes(atheris().Mutate(data, most))

    def _json(self, data: bytes) -> bytes:
        """Returns JSON with a few values removed, moved, copied, nested or replaced."""
        head = self._target.head
        try:
            value = json.loads(data[head:])
        except (ValueError, RecursionError):
            value = self._other()
        for _ in range(self._random.choice((1, 1, 1, 2, 4))):
            value = self._changed(value)
        try:
            written = json.dumps(value, ensure_ascii=self._random.choice((True, False)))
            return data[:head] + written.encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            return data

    def _other(self) -> Any:  # noqa: ANN401 - JSON
        """Returns the value of a seed."""
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(self._random.choice(self._seeds)[self._target.head :])
        return {}

    def _changed(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        places = list(itertools.islice(_places(value), 2_000))
        if not places:
            return self._random.choice((*_VALUES, self._other()))
        keys, other = self._random.choice(places), self._random.choice(places)
        at = _at(value, keys)
        match self._random.randrange(8):
            case 0:
                return _replaced(value, keys, removed=True)
            case 1 | 2:
                return _replaced(value, keys, self._random.choice(_VALUES))
            case 3:
                return _replaced(value, keys, _at(value, other))
            case 4:
                nested = at
                for _ in range(self._random.choice((1, 2, 90, 400))):
                    nested = [nested] if self._random.choice((True, False)) else {str(keys[-1]): nested}
                return _replaced(value, keys, nested)
            case 5:
                foreign = self._other()
                found = list(itertools.islice(_places(foreign), 2_000))
                return _replaced(value, keys, _at(foreign, self._random.choice(found)) if found else foreign)
            case 6:
                times = self._random.choice((2, 10, 1_000))
                copies = {f"{keys[-1]}{n}": at for n in range(times)} if isinstance(at, dict) else [at] * times
                return _replaced(value, keys, copies)
            case _:
                if isinstance(at, dict) and at:
                    key = self._random.choice(list(at))
                    name = self._random.choice(("", "a\nb", "\x1b", "__class__", "é", "../x", str(other[-1])))
                    return _replaced(value, keys, {(name if k == key else k): item for k, item in at.items()})
                return _replaced(value, keys, f"{at}{self._random.choice(_VALUES)}")

    def _text(self, data: bytes) -> bytes:
        """Returns a text with a word inserted, lines moved or copied, or lines of another seed."""
        lines = data[self._target.head :].splitlines(keepends=True) or [b""]
        index, other = self._random.randrange(len(lines)), self._random.randrange(len(lines))
        line = lines[index]
        match self._random.randrange(5):
            case 0:
                word = self._random.choice(self._target.words or ("",)).encode("utf-8", "surrogatepass")
                begin = self._random.randrange(len(line) + 1)
                lines[index] = line[:begin] + word + line[begin:]
            case 1:
                lines.insert(other, line)
            case 2:
                del lines[min(index, other) : max(index, other)]
            case 3:
                foreign = self._random.choice(self._seeds)[self._target.head :].splitlines(keepends=True) or [b""]
                lines[index:index] = foreign[self._random.randrange(len(foreign)) :][: self._random.randrange(1, 5)]
            case _:
                depth = b" " * self._random.choice((0, 2, 4, 200))
                lines[index] = depth + line.lstrip()
        return data[: self._target.head] + b"".join(lines)

    def _repeated(self, data: bytes) -> bytes:
        """Returns an input with a part of it many times."""
        head = self._target.head
        body = data[head:] or b" "
        begin = self._random.randrange(len(body))
        part = body[begin : begin + self._random.choice((1, 2, 5, 20, 100))]
        return data[:head] + body[:begin] + part * self._random.choice((2, 3, 50, 1_000, 20_000)) + body[begin:]


def minimized(data: bytes, head: int, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """Returns a smaller input that still fails: JSON by its values, then everything by its bytes."""
    ends = time.monotonic() + seconds
    shrunk = True
    while shrunk and time.monotonic() < ends:
        candidates = itertools.chain(_smaller_json(data, head), _smaller_bytes(data))
        shrunk = False
        for smaller in candidates:
            if time.monotonic() > ends:
                break
            if len(smaller) < len(data) and fails(smaller):
                data, shrunk = smaller, True
                break
    return data


def _smaller_json(data: bytes, head: int) -> Iterator[bytes]:
    """Yields JSON with one value less, or with one in the place of its parent."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data[head:])
        places = list(_places(value))
        for keys in places:
            for smaller in (_replaced(value, keys, removed=True), _replaced(value, keys[:-1], _at(value, keys))):
                yield data[:head] + json.dumps(smaller, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _smaller_bytes(data: bytes) -> Iterator[bytes]:
    """Yields the input without one part of it, large parts first."""
    size = len(data) // 2
    while size:
        for begin in range(0, len(data), max(1, size // 2)):
            yield data[:begin] + data[begin + size :]
        size //= 2
