"""The addresses that open a source line in an editor: of known editors by name, or a template of the project.

The addresses of known editors, with where they are from:

| editor | grade | source |
| --- | --- | --- |
| vscode | documented | https://code.visualstudio.com/docs/configure/command-line |
| cursor, windsurf, vscodium | inferred | they are made from VS Code, and many programs use these addresses |
| zed | documented | crates/zed/src/zed/open_listener.rs of https://github.com/zed-industries/zed |
| idea, pycharm | inferred | https://github.com/symfony/symfony has them; the Toolbox App registers them |
| subl | inferred | https://github.com/fuko-php/open lists it; needs a handler where the editor brings none |
"""

from __future__ import annotations

import re

from cacheunit_build.domain.errors import did_you_mean

DEFAULT_EDITOR = "vscode"
EDITORS = {
    "vscode": "vscode://file{path}:{line}",
    "vscodium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "pycharm": "pycharm://open?file={path}&line={line}",
    "subl": "subl://open?url=file://{path}&line={line}",
}
"""Name -> address, with `{path}` for the absolute path, which begins with a slash, and `{line}` for the line."""

_TEMPLATE = re.compile(r"[a-z][a-z0-9+.-]*:[!#-;=?-~]+", re.ASCII)
"""An address without white space, quotes and angle brackets."""
_REFUSED = frozenset(
    "about blob data file filesystem ftp http https javascript vbscript view-source ws wss".split()  # noqa: SIM905
)
"""Schemes that a browser opens itself, so that they lead to no editor."""


def editor_address(editor: str) -> str:
    """Returns the address of an editor, with its placeholders; a template is its own address."""
    return EDITORS.get(editor, editor)


def editor_problem(editor: str) -> tuple[str, str | None] | None:
    """Returns what is wrong with the name of an editor or a template, and a hint; None where nothing is."""
    if editor in EDITORS:
        return None
    names = ", ".join(EDITORS)
    if ":" not in editor:
        return f'unknown editor "{editor}"', did_you_mean(editor, EDITORS) or f"use one of {names}, or an address"
    example = 'for example "editor://open?file={path}&line={line}"'
    if _TEMPLATE.fullmatch(editor) is None:
        return f'"{editor}" is not the address of an editor', example
    if editor.partition(":")[0] in _REFUSED:
        return f'"{editor}" is opened by the browser itself, not by an editor', example
    if "{path}" not in editor or "{" in editor.replace("{path}", "").replace("{line}", ""):
        return f'"{editor}" must have {{path}}, may have {{line}}, and no other placeholder', example
    return None


def editor_link(address: str, root: str, path: str = "{path}", line: str = "{line}") -> str:
    """Returns the address of a line of a file of a project.

    Args:
        address: the address of the editor, with its placeholders.
        root: the root of the project, an absolute path with forward slashes.
        path: the path of the file relative to the root, percent-encoded already.
        line: the line.
    """
    from urllib.parse import quote

    start = quote(root if root.startswith("/") else f"/{root}", safe="/:")
    return address.replace("{path}", f"{start.rstrip('/')}/{path}").replace("{line}", line)
