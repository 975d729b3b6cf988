"""The files of a new project: its settings, and a prefix for each existing prompt."""

from __future__ import annotations

import re

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.names import MAX_FILE_BYTES, composed, name_problem, printable_name

SETTINGS = """\
# Settings of cacheunit. Every key is optional.
targets = ["deepseek-v4"]
"""

MANIFEST = """\
description: "{description}"
system: {template}
"""

EXAMPLE = """\
You are a support agent of {{ product }}.

Answer in the language of the question, in at most five sentences. Where you do not know, say so and name the page of
the handbook that would tell.
"""

EXAMPLE_MANIFEST = """\
description: First-line support agent
system: support.md.j2
variables:
  product: Acme
"""

ATTRIBUTES = """\
# The bytes of artifacts are fingerprinted: no conversion of line ends, and no merge by line.
build/** -text -merge linguist-generated
cacheunit.lock -text linguist-generated
"""

_DELIMITER = re.compile(r"\{[{%#]")
_NAME = re.compile(r"[\W_]+")


def literal_template(text: str) -> str:
    """Returns a Jinja template that renders to exactly `text`: `Hi {{name}}` -> `Hi {{ '{{' }}name}}`."""
    return _DELIMITER.sub(lambda match: "{{ '" + match[0] + "' }}", text)


def prefix_name(stem: str) -> str:
    """Returns the name of a prefix for a file's name without extensions: lower case, words joined by hyphens.

    System Prompt_v2 -> system-prompt-v2

    Raises:
        CacheunitError: the name has no letter or digit, or some system cannot store it.
    """
    name = composed(_NAME.sub("-", composed(stem).lower()).strip("-"))
    problem = name_problem(f"{name}.md.j2", MAX_FILE_BYTES) if name else "has no letter or digit"
    if problem is not None:
        message = f'"{printable_name(stem)}" is not usable as the name of a prefix: it {problem}'
        raise fail(message, hint="rename the file")
    return name


def new_project(prompts: dict[str, str]) -> dict[str, str]:
    """Returns path -> text of the new files, for prompts by the name of their prefix; without any, for an example."""
    files = {"cacheunit.toml": SETTINGS, ".gitattributes": ATTRIBUTES}
    if not prompts:
        return {**files, "prefixes/support.yaml": EXAMPLE_MANIFEST, "templates/support.md.j2": EXAMPLE}
    for name, text in prompts.items():
        template = f"{name}.md.j2"
        files[f"prefixes/{name}.yaml"] = MANIFEST.format(description=name.replace("-", " "), template=template)
        files[f"templates/{template}"] = literal_template(text)
    return files
