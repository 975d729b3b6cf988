"""The files of a new project: settings, manifests and templates."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.template_text import literal_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.cli.scaffolding.prefixes import NewPrefix

SETTINGS = """\
# Settings of cacheunit. Every key is optional.
targets = ["deepseek-v4"]
"""

SCHEMA_FILE = "manifest.schema.json"
"""The JSON Schema of manifests, in their folder, for editors."""

_EXAMPLE = """\
You are a support agent of {{ product }}.

Answer in the language of the question, in at most five sentences. Where you do not know, say so and name the page of
the handbook that would tell.
"""

_EXAMPLE_MANIFEST = """\
description: First-line support agent
system: support.md.j2
variables:
  product: Acme
"""

_UNQUOTED = re.compile(r"\w[\w./-]*\.\w+", re.ASCII)


def example_files(prefixes: str, templates: str) -> dict[str, str]:
    """Returns path -> text of the manifest and the template of an example.

    Args:
        prefixes: the folder of manifests.
        templates: the folder of templates.
    """
    return {
        f"{prefixes}/support.yaml": f"{schema_line('support')}{_EXAMPLE_MANIFEST}",
        f"{templates}/support.md.j2": _EXAMPLE,
    }


def prefix_files(
    created: Sequence[NewPrefix], prefixes: str, templates: str, texts: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns path -> text of the manifest and the template of each new prefix.

    Args:
        created: the new prefixes.
        prefixes: the folder of manifests.
        templates: the folder of templates.
        texts: the template of a prefix by its name, where it is not that of its prompt alone.
    """
    files = {}
    for prefix in created:
        text = (texts or {}).get(prefix.name) or _template(prefix)
        files[f"{prefixes}/{prefix.name}.yaml"] = manifest_text(prefix)
        files[f"{templates}/{prefix.name}.md.j2"] = text
    return files


def _template(prefix: NewPrefix) -> str:
    return prefix.source.text if prefix.source.is_template else literal_template(prefix.source.text)


def manifest_text(prefix: NewPrefix) -> str:
    """Returns the manifest of a new prefix.

    The variables of its template are comments: with any value there, a text that nobody wrote would reach the model.
    """
    lines = [
        schema_line(prefix.name).rstrip("\n"),
        f"description: {json.dumps(prefix.name.replace('-', ' '), ensure_ascii=False)}",
        f"system: {_scalar(f'{prefix.name}.md.j2')}",
    ]
    if prefix.tools:
        lines += ["tools:", *(f"  - {_scalar(path)}" for path in prefix.tools)]
    variables = prefix.names.variables if prefix.names else ()
    if variables:
        lines += ["# variables: # of the template; give each a value"]
        lines += [f"#   {name}:" for name in variables]
    return "\n".join([*lines, ""])


def schema_line(name: str) -> str:
    """Returns the line by which editors find the JSON Schema of the manifest of a prefix.

    A relative path starts at the file itself: https://nix-community.github.io/nixvim/24.11/plugins/lsp/servers/yamlls/
    """
    return f"# yaml-language-server: $schema={'../' * name.count('/') or './'}{SCHEMA_FILE}\n"


def _scalar(path: str) -> str:
    """Returns a path as a value of YAML, in quotes where it needs them."""
    return path if _UNQUOTED.fullmatch(path) else json.dumps(path, ensure_ascii=False)
