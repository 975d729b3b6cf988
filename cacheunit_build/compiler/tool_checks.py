"""Checks tools and the response schema against what formats know and providers take, and says what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import Fault, did_you_mean
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.prompt import Tool
    from cacheunit_build.domain.target import Target
    from cacheunit_build.domain.tool_limit import LimitEffect, ToolLimit, ToolProblem
    from cacheunit_build.request_formats.base import RequestFormat


def known_tool_keys(targets: Sequence[Target]) -> frozenset[str]:
    """Returns the further keys of tools that the format of one of these targets sends; of all formats without one."""
    formats = [FORMATS[target.request] for target in targets] or FORMATS.values()
    return frozenset().union(*(format_.tool_keys for format_ in formats))


def tool_faults(tools: Sequence[Tool], targets: Sequence[Target]) -> Iterator[Fault]:
    """Yields a fault for each tool that a format does not know, or that a provider refuses."""
    for tool in tools:
        if tool.hosted is not None:
            unknown = {target.request: target.name for target in targets if not _knows(FORMATS[target.request], tool)}
            yield from (_unknown_hosted_tool(tool, format_, target) for format_, target in unknown.items())
    for problem, names in limit_problems(tools, targets, "refused"):
        message = f"{named(names)} {'refuses' if len(names) == 1 else 'refuse'} {problem.message}"
        yield Fault(message=message, path=problem.tool.path, line=problem.tool.line, hint=problem.hint)


def _knows(format_: RequestFormat, tool: Tool) -> bool:
    return tool.hosted is not None and format_.knows_hosted(tool.hosted)


def _unknown_hosted_tool(tool: Tool, format_: str, target: str) -> Fault:
    """Returns the fault for a hosted tool that the format of a target does not know."""
    kind = shortened(str((tool.hosted or {}).get("type", tool.name)))
    others = [name for name, other in FORMATS.items() if _knows(other, tool)]
    hint = did_you_mean(kind, ("function", "custom"))
    if hint is None and others:
        hint = f"only targets of format {' or '.join(others)} have it; use a manifest of its own for them"
    message = f'format "{format_}" of target "{target}" knows no hosted tool of type "{kind}"'
    return Fault(message=message, path=tool.path, line=tool.line, hint=hint)


def limit_problems(
    tools: Sequence[Tool], targets: Sequence[Target], effect: LimitEffect
) -> list[tuple[ToolProblem, list[str]]]:
    """Returns what the targets' limits of one effect say about tools, each once, with the names of these targets."""
    problems: dict[tuple[str, int], tuple[ToolProblem, list[str]]] = {}
    for target in targets:
        for limit in _limits(target, effect):
            for problem in limit.tool_problems(tools):
                key = (problem.message, id(problem.tool))
                problems.setdefault(key, (replace(problem, hint=_hint(problem.hint, limit)), []))[1].append(target.name)
    return list(problems.values())


def response_schema_faults(manifest: Manifest, targets: Sequence[Target]) -> Iterator[Fault]:
    """Yields a fault for each target that refuses the response schema of a manifest."""
    schema = manifest.response_schema
    if schema is None:
        return
    for target in targets:
        for limit in _limits(target, "refused") if FORMATS[target.request].response_schema(schema) else ():
            for message, hint in limit.response_problems(schema.schema):
                refused = f'target "{target.name}" refuses {message}'
                yield Fault(message=refused, path=schema.path, line=schema.line, hint=_hint(hint, limit))


def _limits(target: Target, effect: LimitEffect) -> Iterator[ToolLimit]:
    return (limit for limit in target.tool_limits if limit.effect == effect)


def _hint(hint: str, limit: ToolLimit) -> str:
    return f"{hint} ({limit.grade}: {limit.source})"


def named(targets: Sequence[str]) -> str:
    """Returns `target "a"`, or `targets "a", "b"`."""
    names = ", ".join(f'"{name}"' for name in targets)
    return f"target {names}" if len(targets) == 1 else f"targets {names}"


def tool_texts(tools: Sequence[Tool]) -> Iterator[str]:
    """Yields what each tool adds to a request, as JSON, in which control tokens are looked for."""
    for tool in tools:
        yield compact_json([tool.name, tool.description, tool.schema, *tool.others.values(), tool.hosted]).decode()


def tool_notes(tools: Sequence[Tool], format_: RequestFormat, *, estimated: bool) -> Iterator[str]:
    """Yields what a target leaves out of tools, and what is known of the tokens of those that the provider runs."""
    out_of_prefix = [tool.name for tool in tools if format_.is_deferred(tool)]
    if out_of_prefix:
        yield f"not counted, since defer_loading keeps it out of the prefix: {', '.join(out_of_prefix)}"
    hosted = [tool.name for tool in tools if tool.hosted is not None and tool.name not in out_of_prefix]
    if hosted:
        how = "counted as JSON, not as" if estimated else "not counted:"
        yield f"{how} the provider's own text: {', '.join(hosted)}"
    left_out = sorted({key for tool in tools for key in tool.others if key not in format_.tool_keys})
    if left_out:
        number = sum(any(key in tool.others for key in left_out) for tool in tools)
        keys = ", ".join(left_out)
        yield f"left out of {number} tool{'' if number == 1 else 's'}, since format {format_.name} lacks it: {keys}"
    deferred = sum(tool.known(format_.tool_keys).get("defer_loading") is True for tool in tools) - len(out_of_prefix)
    if deferred > 0:
        yield f"{deferred} tool{'' if deferred == 1 else 's'} with defer_loading counted in full"
