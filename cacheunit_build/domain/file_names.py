"""The names of files and folders with a fixed place in a project, and of variants. Imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

LOCK_FILE = "cacheunit.lock"
"""The lockfile."""

COUNTS_FILE = "cacheunit.counts"
"""The file of the counts that providers gave."""

SETTINGS_FILES = ("pyproject.toml", "cacheunit.toml")
"""The files that may hold the settings; only one of them does."""

MOST_BYTES = 256 * 2**20
"""The size up to which a file is read: more than that of any vocabulary."""

TEMPORARY = ".cacheunit-tmp"
"""The suffix of temporary files in a project. Their names also start with a dot, so that nothing reads them."""

LINE_ENDS_HINT = (
    'git converted the files at checkout: add "build/** -text" and "cacheunit.lock -text" to .gitattributes, '
    'delete them, and run "git checkout -- ."'
)
"""What to do where git converted artifacts to CRLF."""

LOCK_VERSION = 2
"""The version of the lock's format that this code writes. It reads version 1 too."""


def manifest_path(folder: str, prefix: str) -> str:
    """Returns the path of the manifest of a prefix or variant in the folder of manifests.

    prefixes, support/agent@locale=de  ->  prefixes/support/agent.yaml
    """
    return f"{folder}/{prefix.partition('@')[0]}.yaml"


def variant_name(prefix: str, axes: Mapping[str, object]) -> str:
    """Returns the name of a variant, such as `support/agent@locale=de,plan=pro`; without axes, that of the prefix."""
    from urllib.parse import quote

    values = ",".join(f"{axis}={quote(axis_spelling(axes[axis]), safe='')}" for axis in sorted(axes))
    return f"{prefix}@{values}" if values else prefix


def readable_name(name: str) -> str:
    """Returns the name of a prefix or variant with values as people write them; it selects the same variant.

    support/agent@language=%E6%97%A5%E6%9C%AC,plan=a%2Cb  ->  support/agent@language=日本,plan=a,b

    What could not be read back stays percent-encoded: percent signs, control and invisible characters, spaces at the
    ends of a value, and commas where what follows one would be read as another axis.
    """
    prefix, at, axes = name.partition("@")
    if "%" not in axes:
        return name
    values = (f"{axis}={_readable_value(value)}" for axis, value in axis_values(axes))
    return f"{prefix}{at}{','.join(values)}"


def stored_name(name: str, stored: Collection[str]) -> str:
    """Returns the name that a variant has in files, where its values may be spelled as people write them.

    Args:
        name: the name in any spelling; returned as it is where no variant has it.
        stored: the names of the variants.
    """
    if "@" not in name or name in stored:
        return name
    readable = readable_name(name)
    return next((other for other in stored if readable_name(other) == readable), name)


def _readable_value(value: str) -> str:
    from urllib.parse import quote

    last = len(value) - 1
    encoded = ",%" if any(character in value.partition(",")[2] for character in "=*?[") else "%"
    return "".join(
        character
        if character.isprintable() and character not in encoded and not (character == " " and index in (0, last))
        else quote(character, safe="")
        for index, character in enumerate(value)
    )


def axis_values(axes: str) -> list[tuple[str, str]]:
    """Returns the name and the value of each axis in the part of a variant's name behind the @; none for an empty one.

    locale=de,plan=a%2Fb  ->  (locale, de), (plan, a/b)
    """
    from urllib.parse import unquote

    pairs = (item.partition("=") for item in axes.split(",") if item)
    return [(axis, unquote(value)) for axis, _, value in pairs]


def axis_spelling(value: object) -> str:
    """Returns an axis value as it is in a variant's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_artifact_name(prefix: str, target: str) -> bool:
    """Returns whether an artifact may have this prefix (or variant) and target, so that its files are in `build/`.

    A manifest gives no others; a lock that was written by hand may have `../../elsewhere`.
    """
    from cacheunit_build.domain.names import name_problem

    return all(
        part and not part.startswith(".") and name_problem(part) is None for part in (*prefix.split("/"), target)
    )


TEXT, REQUEST, CACHED_CONTENT = ".txt", ".json", ".cache.json"
"""The endings of an artifact's files: its text, its request fragment, and the body that creates its cached content."""


def files_of_artifacts(files: Iterable[str], build: str, targets: Collection[str]) -> list[str]:
    """Returns those files of the build folder that have the form of an artifact's; others may put theirs there too.

    An artifact has FOLDER/TARGET.txt and FOLDER/TARGET.json, and FOLDER/TARGET.cache.json where its target stores it as
    cached content. A file has that form if its target is one of `targets`, or if the first two are there.

    build/support/agent/deepseek-v4.txt                         with target deepseek-v4: yes
    build/old/gone.txt, build/old/gone.json                     yes
    build/lib/shop/data.json, build/readme.txt, build/a/x.md    no
    """
    stems: dict[str, list[str]] = {}
    for file in files:
        stem = artifact_stem(file)
        if "/" in stem.removeprefix(f"{build}/"):
            stems.setdefault(stem, []).append(file)
    return [
        file
        for stem, found in stems.items()
        if {f"{stem}{TEXT}", f"{stem}{REQUEST}"} <= {*found} or stem.rpartition("/")[2] in targets
        for file in found
    ]


def artifact_stem(file: str) -> str:
    """Returns the path of an artifact's file without its ending, which ends with the target; empty for other files."""
    ending = next((ending for ending in (CACHED_CONTENT, REQUEST, TEXT) if file.endswith(ending)), None)
    return "" if ending is None else file.removesuffix(ending)
