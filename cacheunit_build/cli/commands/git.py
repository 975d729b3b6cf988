"""The command group `git`: merges and shows locks in git."""

from __future__ import annotations

import click

from cacheunit_build.cli.commands.git_merge import merge
from cacheunit_build.cli.commands.git_setup import setup
from cacheunit_build.cli.commands.git_textconv import textconv


@click.group()
def git() -> None:
    """Set git up to merge and show locks by entry."""


for _command in (setup, merge, textconv):
    git.add_command(_command)
