"""Checks the order of worked examples against what the formats of the targets take."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import ExampleSource, Manifest
    from cacheunit_build.domain.target import Target


def example_order_faults(manifest: Manifest, targets: Sequence[Target]) -> Iterator[Fault]:
    """Yields a fault for each example that makes an API refuse the request, where user and assistant must alternate.

    Results of tools are in a message of the user; those of one message with calls are in one.
    """
    names = [f'"{target.name}"' for target in targets if FORMATS[target.request].alternates]
    if not names or not manifest.examples:
        return
    refuse = f"target {names[0]} refuses" if len(names) == 1 else f"targets {', '.join(names)} refuse"
    if manifest.examples[0].role != "user":
        message = f"{refuse} examples that do not begin with a message of the user"
        yield manifest.fault(message, "examples", 0, hint="put a message of the user in front of it")
    for index, (before, after) in enumerate(pairwise(manifest.examples), start=1):
        if _speaker(before) == _speaker(after) and (before.role, after.role) != ("tool", "tool"):
            message = f"{refuse} two messages of the {_speaker(after)} in succession"
            yield manifest.fault(message, "examples", index, hint="join them, or put the other's message between them")


def _speaker(example: ExampleSource) -> str:
    """Returns the role of the message that an example becomes."""
    return "assistant" if example.role == "assistant" else "user"
