"""The command `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.completion import complete_name
from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.options import format_option, targets_option
from cacheunit_build.cli.output import print_bytes, print_json, print_text
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.selection import Selection

if TYPE_CHECKING:
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact

_MOST_CHOICES = 8


@click.command()
@click.argument("name", shell_complete=complete_name)
@targets_option
@click.option("--tokens", is_flag=True, help="Show the tokens, with marks at cache units and padding.")
@click.option("--request", is_flag=True, help="Show the request fragment, or what stores the prefix.")
@click.option("--sources", is_flag=True, help="Show the system text beside the source lines that it comes from.")
@format_option
@with_context
def show(
    context: Context, name: str, targets: tuple[str, ...], form: str, *, tokens: bool, request: bool, sources: bool
) -> int:
    """Print the exact bytes of an artifact, compiled from the present sources.

    On a terminal, control characters and others without a shape are shown as escapes.
    """
    from cacheunit_build.compiler.project import compile_or_fail, source_maps
    from cacheunit_build.reports.show import sources_lines, tokens_json, tokens_lines

    if tokens + request + sources > 1:
        raise click.UsageError("--tokens, --request and --sources exclude one another")
    if form == "json" and not tokens:
        raise click.UsageError("--format json is the format of --tokens: --request prints JSON as it is")
    adapters = context.adapters()
    compiled = compile_or_fail(adapters, Selection(names=(name,), targets=targets))
    artifact = _only_artifact(compiled, name)
    if sources:
        maps = source_maps(adapters.files, compiled.settings, artifact.variant)
        print_text(*sources_lines(maps.system, artifact.padding_text))
    elif tokens:
        tokenizer = compiled.targets[artifact.target].tokenizer
        pieces = tokenizer.token_bytes(artifact.framed_prefix)
        if form == "json":
            print_json(tokens_json(artifact, tokenizer.encode(artifact.framed_prefix), pieces))
        else:
            print_text(*tokens_lines(artifact, pieces))
    else:
        print_bytes(artifact.content if request else artifact.text)
    return OK


def _only_artifact(compiled: CompiledProject, name: str) -> Artifact:
    """Returns the one artifact that is selected.

    Raises:
        CacheunitError: there are several.
    """
    artifacts = compiled.artifacts
    if len(artifacts) > 1:
        targets = sorted({artifact.target for artifact in artifacts})
        names = sorted({readable_name(artifact.prefix) for artifact in artifacts})
        more = f" and {len(names) - _MOST_CHOICES:,} more" if len(names) > _MOST_CHOICES else ""
        choices = [f"name one of {', '.join(names[:_MOST_CHOICES])}{more}"] if len(names) > 1 else []
        choices += [f"add --target with one of {', '.join(targets)}"] if len(targets) > 1 else []
        raise fail(f'"{name}" has {len(artifacts)} artifacts', hint="; ".join(choices))
    return artifacts[0]
