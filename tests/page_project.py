"""A project whose pages have everything to show: tools, examples, padding, an estimate, and texts that pretend."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

HOSTILE = "</td></details><script>document.title='run'</script><img src=x onerror=alert(1)> {{ 7*7 }} &lt;b&gt; \"'"
INVISIBLE = "\x1b[31mred \u202egro\u2069 zero\u200bwidth\ttab "
SHOWN_INVISIBLE = "⟨U+001B⟩[31mred ⟨U+202E⟩gro⟨U+2069⟩ zero⟨U+200B⟩width→tab·"
RULES = "".join(f"- Rule {number}: name the source of each claim, and keep it short.\n" for number in range(12))
TARGETS = """targets = ["small", "large"]
[target.small]
extends = "deepseek-v4"
cache = {unit = 16}
[target.large]
extends = "deepseek-v4"
[target.guess]
extends = "openai"
"""
TOOLS = (
    '[{"type": "function", "function": {"name": "find", "description": "Find a <b>page</b>.", "parameters": '
    '{"type": "object", "properties": {}}}}]\n'
)


def write_project(project: Project) -> Path:
    """Writes a project, and a copy of it that is then older by an edited rule; returns the folder of the copy."""
    text = f"{{% raw %}}{HOSTILE}{{% endraw %}}\n{INVISIBLE}\n日本語で答える。\n"
    goodbye = "Goodbye, dear {{ name }}, says the agent."
    agent = f"You are an agent.\n{text}{{% include 'rules.j2' %}}\n{goodbye}\n"
    project.write(
        {
            "cacheunit.toml": TARGETS,
            "templates/agent.j2": agent,
            "templates/rules.j2": RULES,
            "templates/guess.j2": "Guess.\n{% include 'rules.j2' %}\n",
            "tools.json": TOOLS,
            "prefixes/desk/agent.yaml": "system: agent.j2\npadding: always\ntools: [tools.json]\n"
            "matrix: {name: [Ann, Bob]}\nexamples:\n- {role: user, text: 日本?}\n- {role: assistant, text: Yes.}\n",
            "prefixes/guess.yaml": "system: guess.j2\ntargets: [guess]\n",
            "prefixes/gone.yaml": "system: guess.j2\ntargets: [small]\n",
        }
    )
    copy = project.root.parent / "copy"
    shutil.copytree(project.root, copy)
    (project.root / "prefixes/gone.yaml").unlink()
    project.edit("templates/rules.j2", "Rule 7: name the source", "Rule 7: give <i>the</i> source")
    return copy
