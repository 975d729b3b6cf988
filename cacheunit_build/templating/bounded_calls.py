"""Checks calls of methods and filters before they run: how much they read, and how long their result can be."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import SecurityError
from markupsafe import Markup

from cacheunit_build.templating.budget import CHARACTERS_PER_STEP, ITEM_CHARACTERS, LimitError
from cacheunit_build.templating.plain_data import check_number, format_value, measure, text_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.templating.budget import RenderBudget

    Arguments = tuple[Any, ...]
    Options = Mapping[str, Any]

MAX_DIGITS = 1_000
"""The most digits that a number can be rounded to."""

PART_CHARACTERS = 16
"""What a part of a split text counts: a short text of its own has 50 bytes and more."""

_ESCAPED = 6
"""How many times longer a text can be when it is escaped: ' is &#39;."""

_URL_ENCODED = 12
"""How many times longer a text can be when it is encoded for a URL: an emoji is %F0%9F%98%80."""

_CASE = 3
"""How many times longer a text can be in another case: ΐ has three characters in upper case."""


def _integer(arguments: Arguments, options: Options, position: int, name: str, default: int) -> int:
    """Returns an argument of a call if it is an integer of at least 0; else 0, or the default if it is not passed."""
    value = arguments[position] if len(arguments) > position else options.get(name, default)
    return max(value, 0) if isinstance(value, int) else 0


def _text(arguments: Arguments, options: Options, position: int, name: str) -> str:
    """Returns an argument of a call if it is a text, else an empty one."""
    value = arguments[position] if len(arguments) > position else options.get(name)
    return value if isinstance(value, str) else ""


def _padded(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a text that is padded to a width."""
    return max(len(text), _integer(arguments, options, 0, "width", 80))


def _replaced(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a text in which another one is replaced everywhere."""
    old, new = _text(arguments, options, 0, "s" if "s" in options else "old"), _text(arguments, options, 1, "new")
    return len(text) + (text.count(old) * len(new) if new else 0)


def _expanded(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a text whose tabs are expanded."""
    return len(text) + text.count("\t") * _integer(arguments, options, 0, "tabsize", 8)


def _translated(text: str, arguments: Arguments, _options: Options) -> int:
    """Returns the length of a text whose characters are replaced by those of a table."""
    table = arguments[0] if arguments else None
    values = table.values() if isinstance(table, dict) else ()
    return len(text) * max((len(value) for value in values if isinstance(value, str)), default=1)


def _split(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the size of the parts of a split text."""
    separator = _text(arguments, options, 0, "sep")
    parts = text.count(separator) if separator else len(text) // 2
    return len(text) + PART_CHARACTERS * (parts + 1)


def _indented(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of an indented text."""
    width = len(_text(arguments, options, 0, "width")) or _integer(arguments, options, 0, "width", 4)
    return 2 * len(text) + (text.count("\n") + 1) * (width + PART_CHARACTERS)


def _wrapped(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a wrapped text; its words are parts."""
    width = max(_integer(arguments, options, 0, "width", 79), 1)
    wrap = len(_text(arguments, options, 2, "wrapstring")) + PART_CHARACTERS
    return _by_word(text, arguments, options) + (text.count("\n") + 1 + 2 * len(text) // width) * wrap


def _by_word(text: str, _arguments: Arguments, _options: Options) -> int:
    """Returns the size of the words of a text."""
    return 2 * len(text) + PART_CHARACTERS * (len(text) // 2 + 1)


def _linked(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a text whose URLs are links."""
    added = sum(len(value) for value in (*arguments, *options.values()) if isinstance(value, str))
    # The shortest address that becomes a link is a@b.c.
    return _by_word(text, arguments, options) + 3 * _ESCAPED * len(text) + (len(text) // 5 + 1) * _ESCAPED * added


def _times(factor: int) -> Callable[[str, Arguments, Options], int]:
    """Returns a function of the length of a text that grows at most by a factor."""
    return lambda text, _arguments, _options: len(text) * factor


def _truncated(text: str, arguments: Arguments, options: Options) -> int:
    """Returns the length of a truncated text."""
    return len(text) + len(_text(arguments, options, 2, "end"))


_METHODS: dict[str, Callable[[str, Arguments, Options], int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _padded),
    **dict.fromkeys(("split", "rsplit"), _split),
    "splitlines": lambda text, _arguments, _options: _by_word(text, (), {}),
    "replace": _replaced,
    "expandtabs": _expanded,
    "translate": _translated,
}
"""Method of a text -> the most characters that its result can have; others at most triple it (in another case)."""

_SPLITTING = ("split", "rsplit", "splitlines", "partition", "rpartition")
"""Methods whose results are parts of the text, each a copy."""

FILTERS: dict[str, Callable[[str, Arguments, Options], int]] = {
    "center": _padded,
    "replace": _replaced,
    "indent": _indented,
    "wordwrap": _wrapped,
    "urlize": _linked,
    "urlencode": _times(_URL_ENCODED),
    "truncate": _truncated,
    **dict.fromkeys(("e", "escape", "forceescape"), _times(_ESCAPED)),
    **dict.fromkeys(("title", "wordcount"), _by_word),
    **dict.fromkeys(("list", "batch", "slice", "sort", "unique"), _times(PART_CHARACTERS)),
}
"""The same for filters that are applied to a text."""

_CHARACTERS_PER_STEP = {"wordwrap": 4, "urlize": 2, "title": 8, "wordcount": 16, "urlencode": 16, "indent": 32}
"""How many characters of a text a slow filter reads in the time of one step."""

COMPARING_FILTERS = ("sort", "unique", "min", "max", "groupby", "dictsort")
"""Filters that compare or hash items, with everything in them."""

TEXT_MAKING_FILTERS = (
    *("e", "escape", "forceescape", "join", "replace", "safe", "string", "striptags", "urlencode", "xmlattr"),
    *("capitalize", "center", "indent", "lower", "title", "trim", "truncate", "upper", "urlize", "wordcount"),
)
"""Filters that make a text of any value, with everything in it."""

READING_FILTERS = (
    *COMPARING_FILTERS,
    "join",
    "list",
    "sum",
    "last",
    "reverse",
    "batch",
    "slice",
    "xmlattr",
    "urlencode",
)
"""Filters that read all items at once; the others pass on one at a time."""

PASSING_FILTERS = ("default", "d", "attr", "first", "last", "min", "max", "random")
"""Filters that return a value as it is."""

_NO_DATA = {"encode": "bytes", "to_bytes": "bytes", "from_bytes": "bytes", "fromhex": "bytes"}
"""Methods of plain values whose result, or argument, is not plain data."""


def check_method(owner: object, name: str, arguments: Arguments, options: Options, budget: RenderBudget) -> Arguments:
    """Checks the call of a method of a value before it runs; returns its arguments, with iterators read into lists.

    Raises:
        LimitError: it would exceed the budget.
        SecurityError: its result is not plain data.
    """
    if name in _NO_DATA:
        raise SecurityError(f"the method {name} works on {_NO_DATA[name]}, which are not plain data")
    read = Iterator | range if name == "fromkeys" else Iterator
    arguments = tuple(list(budget.counted(value)) if isinstance(value, read) else value for value in arguments)
    sizes = sum(text_size(value, budget) for value in (*arguments, *options.values()))
    if not isinstance(owner, str):
        if isinstance(owner, Sized) and name in ("copy", "count", "index", "isdisjoint"):
            budget.scan(text_size(owner, budget))
            budget.create(ITEM_CHARACTERS * (len(owner) + sizes))
        return arguments
    budget.scan(len(owner))
    if name in _SPLITTING:
        budget.create(len(owner))  # the parts together; what they count by their number comes on top
    if name == "join":
        items = arguments[0] if arguments and isinstance(arguments[0], Sized) else ()
        budget.require(sizes + len(owner) * len(items))
    else:
        budget.require(_METHODS[name](owner, arguments, options) if name in _METHODS else _CASE * len(owner) + sizes)
    if isinstance(owner, Markup):
        # An escaped text escapes its arguments, as Python spells them.
        budget.require(_ESCAPED * (len(owner) + sizes))
        if name in ("striptags", "unescape"):
            _check_markup(owner, budget)
        if name == "join" and arguments and isinstance(arguments[0], list | tuple):
            arguments = ([value if isinstance(value, str) else format_value(value) for value in arguments[0]],)
    return arguments


def check_filter(name: str, value: Any, arguments: Arguments, options: Options, budget: RenderBudget) -> Any:  # noqa: ANN401
    """Checks a filter before it is applied; returns the value, read into a list where the filter needs all of it.

    Raises:
        LimitError: it would exceed the budget.
    """
    if (name in READING_FILTERS and isinstance(value, Iterator)) or (
        name in COMPARING_FILTERS and isinstance(value, range)
    ):
        value = list(budget.counted(value))
    if isinstance(value, str):
        _check_text_filter(name, value, arguments, options, budget)
    elif isinstance(value, Sized) and name not in PASSING_FILTERS and name not in ("length", "count"):
        budget.step(len(value))
        if name in READING_FILTERS:
            budget.require(PART_CHARACTERS * len(value))
    if name in TEXT_MAKING_FILTERS and not isinstance(value, str):
        budget.require(text_size(value, budget))
    if name in COMPARING_FILTERS and isinstance(value, Sized):
        # n values are sorted by n log n comparisons, and each may read a text to its end.
        size = text_size(value, budget)
        budget.step(len(value) * 2 + len(value).bit_length() * size // CHARACTERS_PER_STEP)
    if name in ("batch", "slice"):
        parts = _integer(arguments, options, 0, "linecount" if name == "batch" else "slices", 0)
        budget.require(ITEM_CHARACTERS * parts)
        if isinstance(value, str):
            budget.create(PART_CHARACTERS * len(value))
    if name == "round" and _integer(arguments, options, 0, "precision", 0) > MAX_DIGITS:
        raise LimitError(f"rounds to more than {MAX_DIGITS:,} digits")
    return value


def _check_text_filter(name: str, text: str, arguments: Arguments, options: Options, budget: RenderBudget) -> None:
    """Checks a filter that is applied to a text."""
    budget.step(len(text) // _CHARACTERS_PER_STEP.get(name, CHARACTERS_PER_STEP))
    budget.require(FILTERS[name](text, arguments, options) if name in FILTERS else _CASE * len(text))
    if name == "striptags":
        _check_markup(text, budget)
    if name == "urlize":
        _check_words(text, budget)


def require_json(value: Any, indent: int | str | None, budget: RenderBudget) -> None:  # noqa: ANN401
    """Raises an error if a value as JSON would exceed the budget."""
    characters, parts, depth = measure(value, budget)
    width = len(indent) if isinstance(indent, str) else max(indent or 0, 0)
    budget.require(2 * characters + parts * (width * (depth + 1) + PART_CHARACTERS))


def check_result(result: Any, budget: RenderBudget) -> None:  # noqa: ANN401
    """Counts the result of a call: its characters or items; an integer must not be too large."""
    if isinstance(result, str):
        budget.create(len(result))
    elif isinstance(result, list | tuple):
        short = isinstance(result, list) and result and isinstance(result[0], str)
        budget.create((PART_CHARACTERS if short else ITEM_CHARACTERS) * len(result))
    elif isinstance(result, dict):
        budget.create(ITEM_CHARACTERS * len(result))
    else:
        check_number(result, budget)


def _check_markup(text: str, budget: RenderBudget) -> None:
    """Counts the steps of removing tags: each one copies the whole text."""
    budget.step(text.count("<") * len(text) // CHARACTERS_PER_STEP)


def _check_words(text: str, budget: RenderBudget) -> None:
    """Counts the steps of looking for addresses: brackets at the end of a word are searched from each character."""
    budget.step(sum(len(word) * len(word) // 16 for word in text.split()))
