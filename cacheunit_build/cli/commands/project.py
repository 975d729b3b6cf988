"""`build`, `check`, `show`, `explain`: what is done with a project's prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.storage.project_files import find_root
from cacheunit_build.cli.context import (
    NO,
    OK,
    WRONG,
    ProgressBar,
    Session,
    format_option,
    format_options,
    jobs_option,
    put,
    put_bytes,
    put_json,
    say_faults,
    summarize,
    target_option,
    with_session,
)
from cacheunit_build.cli.fast_path import open_project, unchanged_build, unchanged_check
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.models import Artifact
from cacheunit_build.domain.protocols import Selection

if TYPE_CHECKING:
    from cacheunit_build.builder.results import BuildResult, CheckResult

_names = click.argument("names", metavar="[NAME]...", nargs=-1)


@click.command()
@_names
@target_option
@click.option("--locked", is_flag=True, help="Write only what matches the lock; never the lock.")
@jobs_option
@format_options("text", "json", "markdown", "github")
@with_session
def build(session: Session, names: tuple[str, ...], target: str | None, form: str, *, jobs: int, locked: bool) -> int:
    """Compile what changed, write artifacts, then the lock."""
    selection = Selection(names=names, target=target)
    files, memory = open_project(find_root(session.folder))
    with files.exclusive():
        built = None if selection or locked else unchanged_build(files, memory)
        if built is None:
            from cacheunit_build.builder import build as story

            with ProgressBar(session) as progress:
                adapters = session.adapters_of(files, memory)
                built = story.build(adapters, selection, locked=locked, progress=progress, jobs=jobs)
    return tell_built(session, built, form)


def tell_built(session: Session, built: BuildResult, form: str) -> int:
    """Reports a build; gives its exit code."""
    if form == "json":
        from cacheunit_build.reports.data import built_data

        put_json(built_data(built))
    elif form in ("markdown", "github"):
        from cacheunit_build.reports.markdown import built_markdown

        _put_review(session, form, built_markdown(built), built)
    else:
        _tell_built(session, built)
    return WRONG if built.faults else NO if built.drift else OK


def _put_review(session: Session, form: str, markdown: str, found: BuildResult | CheckResult) -> None:
    """Markdown as it is; or annotations, and the Markdown in the summary of the job."""
    from cacheunit_build.reports.markdown import review_annotations

    for note in found.notes:
        session.say(f"note: {note}")
    if form == "markdown":
        put(markdown)
    else:
        put(review_annotations(found.faults, found.drift, session.in_repository))
        summarize(markdown)


def _tell_built(session: Session, built: BuildResult) -> None:
    from cacheunit_build.reports.text import built_text, drift_text

    for note in built.notes:
        session.say(f"note: {note}")
    for orphan in built.orphans:
        session.say(f"warning: {orphan.path} is not in the lock; it is left alone")
    if built.faults:
        say_faults(built.faults)
        session.say(f"\n{len(built.faults)} error{'' if len(built.faults) == 1 else 's'}; nothing was written")
    elif built.drift:
        put(drift_text(built.drift), painted=True)
        session.say(
            '\nrefused: not as locked, nothing was written\n\nhint: "cacheunit build" locks what the sources give'
        )
    else:
        put(built_text(built, reasons=session.verbose))


@click.command()
@_names
@target_option
@jobs_option
@format_options("text", "json", "markdown", "github")
@with_session
def check(session: Session, names: tuple[str, ...], target: str | None, form: str, *, jobs: int) -> int:
    """Compile in memory, compare with the lock and build/; write nothing."""
    selection = Selection(names=names, target=target)
    checked = None if selection else unchanged_check(*open_project(find_root(session.folder)))
    if checked is None:
        from cacheunit_build.builder import build as story

        with ProgressBar(session) as progress:
            checked = story.check(session.adapters(), selection, progress=progress, jobs=jobs)
    return tell_checked(session, checked, form)


def tell_checked(session: Session, checked: CheckResult, form: str) -> int:
    """Reports a check; gives its exit code."""
    if form == "json":
        from cacheunit_build.reports.data import checked_data

        put_json(checked_data(checked))
    elif form in ("markdown", "github"):
        from cacheunit_build.reports.markdown import checked_markdown

        _put_review(session, form, checked_markdown(checked), checked)
    else:
        _tell_checked(session, checked)
    return WRONG if checked.faults else OK if checked.ok else NO


def _tell_checked(session: Session, checked: CheckResult) -> None:
    from cacheunit_build.reports.text import checked_text

    for note in checked.notes:
        session.say(f"note: {note}")
    if checked.faults:
        say_faults(checked.faults)
        return
    put(checked_text(checked), painted=True)
    if checked.drift:
        session.say('\nhint: "cacheunit build" makes and locks what the sources give')


@click.command()
@click.argument("name")
@target_option
@click.option("--tokens", is_flag=True, help="The tokens, with unit marks and the padding set apart.")
@click.option("--request", is_flag=True, help="The request fragment.")
@click.option("--sources", is_flag=True, help="The system text, each line with the source lines that it comes from.")
@with_session
def show(session: Session, name: str, target: str | None, *, tokens: bool, request: bool, sources: bool) -> int:
    """Print the exact bytes of an artifact, as the sources give them now."""
    from cacheunit_build.compiler.project import compile_or_fail, source_maps
    from cacheunit_build.reports.sources import sources_text
    from cacheunit_build.reports.text import tokens_text

    if tokens + request + sources > 1:
        raise click.UsageError("--tokens, --request and --sources exclude one another")
    adapters = session.adapters()
    compiled = compile_or_fail(adapters, Selection(names=(name,), target=target))
    if len(compiled.artifacts) > 1:
        which = ", ".join(f"{artifact.prefix} for {artifact.target}" for artifact in compiled.artifacts)
        raise fail(f'"{name}" has {len(compiled.artifacts)} artifacts', hint=f"name one of {which}")
    artifact = compiled.artifacts[0]
    assert isinstance(artifact, Artifact)  # noqa: S101 - nothing is reused here
    if sources:
        origins = source_maps(adapters.files, compiled.config, artifact.variant)
        put(sources_text(origins.system, artifact.padding_text))
        return OK
    if not tokens:
        put_bytes(artifact.request if request else artifact.text)
        return OK
    put(tokens_text(artifact, compiled.targets[artifact.target].tokenizer.pieces(artifact.framed_prefix)))
    return OK


@click.command()
@click.argument("name", required=False)
@target_option
@click.option("--family", is_flag=True, help="Which leading units artifacts share, and what would share more.")
@format_option
@with_session
def explain(session: Session, name: str | None, target: str | None, form: str, *, family: bool) -> int:
    """Say why an artifact is as it is: inputs, plan and reason, what changed since the lock."""
    from cacheunit_build.builder import explain as story
    from cacheunit_build.reports.data import explained_data
    from cacheunit_build.reports.text import explained_text

    if family:
        return _explain_families(session, Selection(names=(name,) if name else (), target=target), form)
    if name is None:
        raise click.UsageError("Missing argument 'NAME': which prefix is to be explained, or --family for all")
    explained = story.explain(session.adapters(), Selection(names=(name,), target=target))
    if form == "json":
        put_json({"artifacts": [explained_data(item) for item in explained]})
    else:
        put(explained_text(explained))
    return OK


def _explain_families(session: Session, selection: Selection, form: str) -> int:
    from cacheunit_build.diff.sharing import families
    from cacheunit_build.reports.sharing import families_data, families_text

    found = families(session.adapters(), selection)
    if form == "json":
        put_json(families_data(found))
    else:
        put(families_text(found))
    return OK


COMMANDS = (build, check, show, explain)
