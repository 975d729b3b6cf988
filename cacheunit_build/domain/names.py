"""The names of files and folders: which ones every system can store, and which two are one name on some systems."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_NAME_BYTES = 255
"""The bytes that the name of a file or folder may have at most, on Linux; macOS and Windows count characters."""
MAX_FILE_BYTES = MAX_NAME_BYTES - 40
"""The bytes that a written file's name may have at most: its temporary file has the same name with a suffix."""

_WINDOWS_CHARACTERS = re.compile(r'[<>:"|?*\\/]')
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9¹²³]) *(?:\..*)?", re.IGNORECASE)
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""The characters that HFS+ ignores in names."""
_GIT_FOLDER = re.compile(r"(?:\.git|git~\d+)[ .]*(?::.*)?", re.IGNORECASE)
"""The names that Windows takes for `.git`: `.GIT`, `.git.`, `git~1`, `.git::$INDEX_ALLOCATION`."""


def composed(text: str) -> str:
    """Returns a name or path with composed characters (NFC), in which some systems list names decomposed (NFD)."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def folded(name: str) -> str:
    """Returns a form that names have in common if some system takes them for one: `Straße` and `STRASSE` do."""
    if name.isascii():
        return name.lower()
    import unicodedata

    decomposed = unicodedata.normalize("NFD", _IGNORED.sub("", name))
    return unicodedata.normalize("NFD", decomposed.casefold())


def is_git_folder(name: str) -> bool:
    """Returns whether some system takes a name for `.git`."""
    return _GIT_FOLDER.fullmatch(_IGNORED.sub("", name)) is not None


def is_utf8(name: str) -> bool:
    """Returns whether a name is text: Python lists a name that is not UTF-8 with lone surrogates."""
    return name.isascii() or _SURROGATE.search(name) is None


def printable_name(name: str) -> str:
    r"""Returns a name for a message, with each byte that is not UTF-8 as an escape: `caf\xe9.yaml`."""
    if is_utf8(name):
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def name_problem(name: str, longest: float = MAX_NAME_BYTES) -> str | None:
    """Returns why some system cannot store a file or folder of that name, as the end of a sentence; None if all can.

    con.txt  ->  is reserved on Windows

    Args:
        name: one part of a path.
        longest: the bytes that it may have at most.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    forbidden = _WINDOWS_CHARACTERS.search(name)
    problems = (
        (not is_utf8(name), "is not UTF-8"),
        (_CONTROL.search(name), "has a control character or a line break"),
        (forbidden, f"has the character {forbidden[0] if forbidden else ''}, which is not allowed on Windows"),
        (is_git_folder(name), "is taken for the folder .git"),
        (name.endswith("."), "ends with a dot, which Windows removes"),
        (name.endswith(" "), "ends with a space, which Windows removes"),
        (_DEVICE.fullmatch(name), "is reserved on Windows"),
        (name.startswith("-"), "begins with a hyphen, which commands read as an option"),
        (size > longest, f"is too long: {size} bytes, at most {longest} are possible"),
    )
    return next((problem for applies, problem in problems if applies), None)


def twins(paths: Iterable[str], names_in: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """Returns path -> a path that is another one here, and the same one on some systems.

    Looks at the names beside each file, and beside each folder above it.

    Args:
        paths: composed paths of files.
        names_in: returns the names of all files and folders in a folder, "" for the root.
    """
    forms: dict[str, dict[str, set[str]]] = {}  # folder -> folded name -> composed names
    result: dict[str, str] = {}
    checked: dict[str, str | None] = {"": None}  # folder or file -> its twin

    def twin_of(path: str) -> str | None:
        if path not in checked:
            folder, _, name = path.rpartition("/")
            checked[path] = twin_of(folder)
            if folder not in forms:
                forms[folder] = {}
                for other in map(composed, names_in(folder)):
                    forms[folder].setdefault(folded(other), set()).add(other)
            others = forms[folder].get(folded(name), set()) - {name}
            if checked[path] is None and others:
                checked[path] = f"{folder}/{min(others)}" if folder else min(others)
        return checked[path]

    for path in paths:
        twin = twin_of(path)
        if twin is not None:
            result[path] = twin
    return result


def same_composed(names: Iterable[str]) -> list[str]:
    """Returns the names that are there in several normal forms, with their code points escaped to tell them apart."""
    forms: dict[str, list[str]] = {}
    for name in names:
        forms.setdefault(composed(name), []).append(name)
    return [ascii(name)[1:-1] for several in forms.values() if len(several) > 1 for name in several]
