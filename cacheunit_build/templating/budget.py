"""The bounds of a render: steps, characters and depth, counted before the work is done.

No process, signal or clock is involved, so a template is refused at the same point on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2.exceptions import SecurityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_STEPS = 1_000_000
"""The most steps of one render: tags, parts of expressions, calls, and items that a filter reads."""

MAX_CHARACTERS = 40_000_000
"""The most characters that one render may create and print, intermediate texts included."""

MAX_DEPTH = 100
"""How deep macros, blocks, recursive loops, includes, imports and parents may be nested, and values too."""

MAX_BITS = 14_000
"""The largest integer that a template may compute, in bits: 4,215 digits, of which Python prints at most 4,300."""

ITEM_CHARACTERS = 4
"""What an item of a new list counts: a reference has 8 bytes, a character has 1 to 4."""

CALL_STEPS = 8
"""Steps of a call of a function, filter or test, on top of the steps of its arguments."""

TEMPLATE_STEPS = 200
"""Steps of loading a template, which is read again each time."""

HASH_MODULUS = 2**61 - 1
"""Python hashes an integer modulo this: equal hashes, which make a mapping slow, are easily found for larger ones."""

CHARACTERS_PER_STEP = 256
"""How many characters are compared, searched or copied in the time of one step."""


class LimitError(SecurityError):
    """A render would exceed one of its bounds.

    Attributes:
        hint: what to do about it.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class DepthError(LimitError):
    """Calls or templates are nested too deeply.

    Attributes:
        templates: the templates that are being rendered, outermost first, if the last level is a template; else empty.
    """

    def __init__(self, message: str, templates: Sequence[str] = ()) -> None:
        super().__init__(message, "end the recursion with a condition")
        self.templates = templates

    @property
    def cycle(self) -> Sequence[str]:
        """The templates that load each other in a cycle: a, b, c, b, c -> b, c, b; empty if there is none."""
        for start, name in enumerate(self.templates):
            if name in self.templates[:start]:
                return self.templates[self.templates.index(name) : start + 1]
        return ()


class RenderBudget:
    """Counts what one render uses; only one thread at a time may render with it."""

    __slots__ = ("_characters", "_large_numbers", "_nested", "_steps")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Starts a new render."""
        self._steps = 0
        self._characters = 0
        self._large_numbers = 0
        self._nested: list[str | None] = []  # the templates being rendered; None for a call

    def step(self, steps: int = 1) -> None:
        """Counts steps; compiled templates call this too."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise LimitError(f"takes more than {MAX_STEPS:,} steps", "loop over less, or split the template")

    def require(self, characters: int) -> None:
        """Raises an error if a text of so many characters, which is about to be created, would exceed the budget."""
        if self._characters + characters > MAX_CHARACTERS:
            raise LimitError(
                f"creates more than {MAX_CHARACTERS:,} characters of text",
                "print parts instead of adding them to one text; each intermediate text counts",
            )

    def create(self, characters: int) -> None:
        """Counts the characters of a text before it is created."""
        self.require(characters)
        self._characters += characters

    def scan(self, characters: int) -> None:
        """Counts the steps of reading a text of so many characters."""
        if characters >= CHARACTERS_PER_STEP:
            self.step(characters // CHARACTERS_PER_STEP)

    def hash_number(self, number: int) -> None:
        """Counts the steps of looking up a number that is hashed next: all large ones may have the same hash."""
        if abs(number) >= HASH_MODULUS:
            self._large_numbers += 1
            self.step(self._large_numbers // 16)

    def counted(self, items: Iterable[object]) -> Iterator[object]:
        """Yields the items, and counts each as a step."""
        for item in items:
            self.step()
            yield item

    def enter(self, template: str | None = None) -> int:
        """Counts a further level of nesting, and returns the depth to `leave` to.

        Args:
            template: the template that loads another; None for a call.
        """
        depth = len(self._nested)
        self._nested.append(template)
        if depth >= MAX_DEPTH:
            templates = [name for name in self._nested if name is not None] if template else []
            raise DepthError(f"macros, blocks or loops call themselves more than {MAX_DEPTH} deep", templates)
        return depth

    def leave(self, depth: int) -> None:
        """Ends the levels of nesting beyond `depth`."""
        del self._nested[depth:]
