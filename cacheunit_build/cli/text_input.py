"""What `count` and `pad` share: their options, the text, and what counts its tokens."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cacheunit_build.cli.completion import complete_target
from cacheunit_build.cli.context import Context, read_file, with_context
from cacheunit_build.cli.options import format_option, only_once
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.protocols import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCounter:
    """What a text is counted with.

    Attributes:
        tokenizer: the vocabulary.
        target: the target; None for the bare text.
        unit: tokens in one cache unit; 0 where it is unknown.
    """

    tokenizer: Tokenizer
    target: LoadedTarget | None
    unit: int

    @property
    def left_out(self) -> tuple[str, ...] | None:
        """The tokens that the tokenizer puts in front of a text, and the bare text lacks; None if that is not known."""
        tokens = () if self.target else self.tokenizer.start_tokens
        return None if tokens is None else tuple(text for text, _ in tokens)


def text_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument and the options of a command on one text; the first one is the first in its help."""
    options = (
        click.argument("file", default="-"),
        click.option(
            "--target",
            metavar="T",
            multiple=True,
            callback=only_once,
            shell_complete=complete_target,
            help="Count in this target's frame. Default: the project's first target.",
        ),
        click.option("--tokenizer", metavar="X", help="Count the bare text: a tiktoken encoding, or a tokenizer.json."),
        click.option("--unit", type=click.IntRange(min=1), help="Tokens in a cache unit. Default: the target's."),
        format_option,
        with_context,
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_text(context: Context, file: str) -> str:
    """Returns the text of a file, or of standard input for `-`."""
    from cacheunit_build.domain.document import decode

    if file == "-":
        try:
            data = sys.stdin.buffer.read()
        except OSError as error:
            raise fail(f"cannot read standard input: {error.strerror}") from None
        return decode(data, "standard input")
    return decode(read_file(context.folder / file), file)


def text_counter(context: Context, target: str | None, tokenizer: str | None, unit: int | None) -> TextCounter:
    """Returns the tokenizer, frame and unit that the options name; by default those of the project's first target.

    Raises:
        CacheunitError: the target or the vocabulary is unknown.
    """
    from cacheunit_build.compiler.loaded_target import load_target
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.lookup import named_target

    if target is not None and tokenizer is not None:
        raise click.UsageError("--target and --tokenizer exclude each other")
    if tokenizer is not None:
        return TextCounter(tokenizer=_bare_tokenizer(context, tokenizer), target=None, unit=unit or 0)
    adapters = context.adapters()
    settings, targets = read_project(adapters.files)
    loaded = load_target(named_target(target or settings.targets[0], targets), adapters, system_only=True)
    unit = unit or loaded.target.cache.unit or 0
    return TextCounter(tokenizer=loaded.tokenizer, target=loaded, unit=unit)


def _bare_tokenizer(context: Context, name: str) -> Tokenizer:
    """Returns the vocabulary of a tokenizer.json anywhere on this machine, or of a tiktoken encoding."""
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.target import TokenizerSpec

    if not name.endswith(".json"):
        return LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding=name))
    file = context.folder / name
    loader = LocalTokenizerLoader(lambda _: read_file(file) if file.is_file() else None)
    return loader.load(TokenizerSpec(path=file.name))
