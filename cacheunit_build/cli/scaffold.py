"""The files of a new project: its settings, and a prefix for each prompt it starts from."""

from __future__ import annotations

import re
import unicodedata

from cacheunit_build.domain.errors import fail

SETTINGS = """\
# Settings of cacheunit; every key may be left out.
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
# What is fingerprinted must not be touched: no line-end conversion, no merge of artifacts.
build/** -text -merge
cacheunit.lock -text
"""

IGNORED = ".cacheunit/\n"

_DELIMITER = re.compile(r"\{[{%#]")
_NAME = re.compile(r"[\W_]+")


def literal_template(text: str) -> str:
    """A Jinja source that renders to exactly `text`, however many braces it has."""
    return _DELIMITER.sub(lambda match: "{{ '" + match[0] + "' }}", text)


def prefix_name(stem: str) -> str:
    """A file's name without its extensions as the name of a prefix: lower case, words joined by hyphens.

    Raises:
        CacheunitError: nothing is left of it.
    """
    name = _NAME.sub("-", unicodedata.normalize("NFC", stem).lower()).strip("-")
    if not name:
        raise fail(f'no prefix can be named after "{stem}"', hint="give the file a name with letters")
    return name


def new_project(prompts: dict[str, str]) -> dict[str, str]:
    """The new files, path -> text, for prompts by the name of their prefix; an example where there is none."""
    files = {"cacheunit.toml": SETTINGS, ".gitattributes": ATTRIBUTES, ".gitignore": IGNORED}
    if not prompts:
        return {**files, "prefixes/support.yaml": EXAMPLE_MANIFEST, "templates/support.md.j2": EXAMPLE}
    for name, text in prompts.items():
        template = f"{name}.md.j2"
        files[f"prefixes/{name}.yaml"] = MANIFEST.format(description=name.replace("-", " "), template=template)
        files[f"templates/{template}"] = literal_template(text)
    return files
