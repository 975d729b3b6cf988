"""`count` and `pad`: one text from a file or standard input."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import (
    OK,
    Session,
    format_option,
    put,
    put_bytes,
    put_json,
    read_file,
    with_session,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.compiler.count import Framed
    from cacheunit_build.domain.protocols import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ruler:
    """What a text is measured with; without a frame, the bare text."""

    vocabulary: Tokenizer
    frame: Framed | None
    unit: int


def _text_command(command: Callable[..., int]) -> click.Command:
    options = (
        click.argument("file", default="-"),
        click.option(
            "--target", metavar="T", help="Count in this target's frame. Default: the project's first target."
        ),
        click.option("--tokenizer", metavar="X", help="Count the bare text: a tiktoken encoding, or a tokenizer.json."),
        click.option("--unit", type=click.IntRange(min=1), help="Tokens in a cache unit. Default: the target's."),
        format_option,
        with_session,
    )
    for option in reversed(options):  # the first is to stand first in the help
        command = option(command)
    return click.command()(command)


def count(session: Session, file: str, target: str | None, tokenizer: str | None, unit: int | None, form: str) -> int:
    """Count the tokens of a text: its static tokens in a target's frame, or bare with --tokenizer."""
    from cacheunit_build.compiler.count import measure
    from cacheunit_build.reports.data import measured_data
    from cacheunit_build.reports.text import measured_text

    text = _read(session, file)
    ruler = _ruler(session, target, tokenizer, unit)
    measured = measure(text, ruler.vocabulary, frame=ruler.frame, unit=ruler.unit)
    if form == "json":
        put_json(measured_data(measured))
    else:
        put(str(measured.tokens))
        session.say(measured_text(measured))
    return OK


def pad(session: Session, file: str, target: str | None, tokenizer: str | None, unit: int | None, form: str) -> int:
    """Print a text with the padding that ends it on a cache-unit boundary."""
    from cacheunit_build.compiler.count import measure, padding_for
    from cacheunit_build.reports.data import measured_data
    from cacheunit_build.reports.text import measured_text

    text = _read(session, file)
    ruler = _ruler(session, target, tokenizer, unit)
    padding = padding_for(text, ruler.vocabulary, frame=ruler.frame, unit=ruler.unit)
    measured = measure(text + padding, ruler.vocabulary, frame=ruler.frame, unit=ruler.unit)
    if form == "json":
        put_json({**measured_data(measured), "text": text + padding, "padding_text": padding})
    else:
        put_bytes((text + padding).encode())
        session.say(measured_text(measured))
    return OK


def _read(session: Session, file: str) -> str:
    from cacheunit_build.parsing.document import decode

    if file == "-":
        return decode(sys.stdin.buffer.read(), "standard input")
    return decode(read_file(session.folder / file), file)


def _ruler(session: Session, target: str | None, tokenizer: str | None, unit: int | None) -> _Ruler:
    from cacheunit_build.compiler.artifact import load_target
    from cacheunit_build.compiler.count import frame_of
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.loader import named_target

    if target is not None and tokenizer is not None:
        raise click.UsageError("--target and --tokenizer exclude each other")
    if tokenizer is not None:
        return _Ruler(vocabulary=_bare(session, tokenizer), frame=None, unit=unit or 0)
    adapters = session.adapters()
    config, targets = read_project(adapters.files)
    goal = named_target(target or config.targets[0], targets)
    ready = load_target(goal, adapters)
    return _Ruler(vocabulary=ready.tokenizer, frame=frame_of(ready), unit=unit or goal.cache.unit or 0)


def _bare(session: Session, name: str) -> Tokenizer:
    """The vocabulary of a tokenizer.json anywhere on this machine, or of a tiktoken encoding."""
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.target import TokenizerSpec

    if name.endswith(".json"):
        file = session.folder / name
        return LocalTokenizerLoader(lambda _: file.read_bytes() if file.is_file() else None).load(
            TokenizerSpec(path=file.name)
        )
    return LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding=name))


COMMANDS = (_text_command(count), _text_command(pad))
