"""CU6xx: tools that a provider may refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.tool_limit import ToolProblem
    from cacheunit_build.lint.rule import Problem

DISPUTED_TOOL_LIMIT = Rule(
    code="CU601",
    name="disputed-tool-limit",
    severity="warning",
    meaning="a tool beyond a limit of a target about which sources disagree, so that the provider may refuse requests",
    hint="stay below the limit, or try a request with these tools",
    why=(
        "Sources do not agree whether the provider takes such a tool: its documentation, its errors and reports "
        "of users say different things. If it does not, every request with this prefix is refused. `cacheunit "
        "targets NAME` shows each limit with its source."
    ),
    bad={
        "tools/find.json": '{"name": "_find", "parameters": {"type": "object"}}\n',
        "prefixes/agent.yaml": "system: agent.md.j2\ntools: [tools/find.json]\ntargets: [kimi]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
    },
    good={
        "tools/find.json": '{"name": "find", "parameters": {"type": "object"}}\n',
        "prefixes/agent.yaml": "system: agent.md.j2\ntools: [tools/find.json]\ntargets: [kimi]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
    },
)
RULES = (DISPUTED_TOOL_LIMIT,)


def disputed_limit(problem: ToolProblem, targets: Sequence[str]) -> Problem:
    """Returns the problem of CU601 for what the disputed limits of some targets say about a tool."""
    return DISPUTED_TOOL_LIMIT.problem(f"{', '.join(targets)} may refuse {problem.message}", hint=problem.hint)
