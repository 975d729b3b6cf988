"""CU5xx: what nothing uses, names that look alike, invalid ignore comments, comments that cut or swallow text."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.lint.results import Location
from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.parsing.yaml_comments import cut_texts as find_cut_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.lint.rule import Problem

UNUSED = Rule(
    code="CU501",
    name="unused",
    severity="warning",
    meaning="a variable, data file or matrix axis that no template of the prefix uses",
    hint="remove it, or use it in a template",
    why=(
        "Somebody expects the value to be in the prompt, and it is not: the template was edited, or a name "
        "misspelt. An axis that nothing uses builds several variants with the same text."
    ),
    bad={
        "prefixes/agent.yaml": "system: agent.md.j2\nvariables:\n  city: Bern\n",
        "templates/agent.md.j2": "Answer in plain words.\n",
    },
    good={
        "prefixes/agent.yaml": "system: agent.md.j2\nvariables:\n  city: Bern\n",
        "templates/agent.md.j2": "Answer in plain words. The shop is in {{ city }}.\n",
    },
)
UNREACHABLE_TEMPLATE = Rule(
    code="CU502",
    name="unreachable-template",
    severity="warning",
    meaning="a file in the templates folder that no prefix uses or names",
    hint="delete it, or include it",
    why=(
        "The file looks like a part of a prompt, but a change there changes nothing. Sooner or later, somebody "
        "edits it and wonders why the model does not follow."
    ),
    bad={
        "templates/agent.md.j2": "Answer in plain words.\n",
        "templates/prices.md.j2": "Name the price first.\n",
    },
    good={
        "templates/agent.md.j2": "Answer in plain words.\n{% include 'prices.md.j2' %}\n",
        "templates/prices.md.j2": "Name the price first.\n",
    },
)
LOOK_ALIKE = Rule(
    code="CU503",
    name="look-alike",
    severity="warning",
    meaning="two names that differ only in case, in - and _, or in characters that look alike",
    hint="rename one of them",
    why=(
        "Two such names are easily mistaken for each other, in a template as in a review. On file systems that "
        "ignore case, two files may even be one; a name with a letter of another alphabet cannot be typed as it "
        "looks."
    ),
    bad={
        "prefixes/agent.yaml": "system: agent.md.j2\nvariables:\n  order_id: A-7\n  Order_ID: B-9\n",
        "templates/agent.md.j2": "Orders {{ order_id }} and {{ Order_ID }} are examples.\n",
    },
    good={
        "prefixes/agent.yaml": "system: agent.md.j2\nvariables:\n  order_id: A-7\n  return_id: B-9\n",
        "templates/agent.md.j2": "Orders {{ order_id }} and {{ return_id }} are examples.\n",
    },
)
IGNORE_COMMENT = Rule(  # checked in `suppressions`, where the comments are read
    code="CU504",
    name="ignore-comment",
    severity="warning",
    meaning="an ignore comment that names no known rule",
    hint="write: cacheunit: ignore CU101",
    why=(
        "The comment suppresses nothing, since no rule has that code or name: it was misspelt, or the rule is "
        "from another version. The violation that it was written for is reported, or comes back one day."
    ),
    bad=template_example("{# cacheunit: ignore CU999: the day the shop opened #}\nAnswer in plain words.\n"),
    good=template_example("{# cacheunit: ignore CU102: the day the shop opened #}\nThe shop opened 2014-03-01.\n"),
)
TEXT_IN_COMMENT = Rule(
    code="CU505",
    name="text-in-comment",
    severity="warning",
    meaning="a template comment that may have swallowed text: it begins or ends within a line, and spans several",
    hint="print the braces with {{ '{#' }}, or give the comment lines of its own",
    why=(
        "`{#` begins a comment wherever it stands. All text up to the next `#}` is left out of the prompt without "
        "an error, even if that is many lines below, and the model does not get instructions that everybody sees "
        "in the template."
    ),
    bad=template_example("Write the issue as {#number.\nAnswer in plain words.\nEnd with #} in a line.\n"),
    good=template_example("Write the issue as {{ '{#' }}number.\nAnswer in plain words.\nEnd with #} in a line.\n"),
)
CUT_TEXT = Rule(
    code="CU506",
    name="cut-text",
    severity="warning",
    meaning="a YAML text without quotes that a comment seems to cut: what follows the # is not part of it",
    hint='put quotes around the text; in front of a comment write two spaces, and one behind the "#"',
    why=(
        "In YAML without quotes, a space and a `#` begin a comment. The rest of the sentence is missing in the "
        "prompt, without an error, and the file still looks right in an editor."
    ),
    bad={
        "prefixes/agent.yaml": "system: agent.md.j2\nvariables:\n  note: Mention the issue (as in #12)\n",
        "templates/agent.md.j2": "{{ note }}\n",
    },
    good={
        "prefixes/agent.yaml": 'system: agent.md.j2\nvariables:\n  note: "Mention the issue (as in #12)"\n',
        "templates/agent.md.j2": "{{ note }}\n",
    },
)
RULES = (UNUSED, UNREACHABLE_TEMPLATE, LOOK_ALIKE, IGNORE_COMMENT, TEXT_IN_COMMENT, CUT_TEXT)

# Cyrillic, then Greek, then ASCII characters -> the character that they are easily taken for.
_CONFUSABLE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u043a\u043c\u0442\u0432\u043d"
    "\u03bf\u03b1\u03bd\u03c1\u03b9\u03ba\u03c4\u03c5\u03c7"
    "01l-",
    "aeopcyxijsdhqwkmtbh" + "oavpiktux" + "oii_",
)
# {% include "x" %}, {{ macro("x") }}, {% set name = "x" %}
_REFERENCES = {
    "%}": re.compile(r"\{%[-+]?\s*(?:include|import|from|extends|set)\b.*?%\}", re.DOTALL),
    "}}": re.compile(r"\{\{.*?\}\}", re.DOTALL),
}
"""The end of a statement or expression -> a pattern for those that may name a template."""
# Raw blocks, comments and other tags of a template, in the order in which Jinja finds them.
_TEMPLATE_TAG = re.compile(
    r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}|(?P<comment>\{#.*?#\})|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL
)
_TAGS = re.compile(r"\{#.*?#\}|\{%.*?%\}|#\}|\{#")
_PLACEHOLDER = re.compile(r"\{#[\w.]+\}")
_IGNORE = re.compile(r"\{#[-+]?\s*cacheunit:")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
_MAX_SHOWN = 30
# Files for people, which no template includes.
_DOCUMENTATION_FILE = re.compile(r"(?:^|/)(?:readme|license|copying|notice|changelog)(?:\.\w+)?$", re.IGNORECASE)


def unused_names(manifest: Manifest, used: Collection[str]) -> Iterator[tuple[str, str, Problem]]:
    """Checks CU501: yields key, name and problem of each variable, data file and axis that is not used.

    Args:
        manifest: the manifest that defines them.
        used: the names that its templates asked for, in any variant.
    """
    kinds: dict[str, tuple[str, Iterable[str]]] = {
        "variables": ("variable", manifest.variables),
        "data": ("data file", manifest.data),
        "matrix": ("matrix axis", manifest.matrix),
    }
    for key, (kind, names) in kinds.items():
        for name in names:
            if name not in used:
                yield key, name, UNUSED.problem(f'{kind} "{name}" is not used by any template')


def unused_templates(
    templates: Mapping[str, str], looked_up: Collection[str], folder: str
) -> Iterator[tuple[str, Problem]]:
    """Checks CU502: yields path and problem of each template that no prefix uses.

    A template also counts as used if a used one names it in quotes, since a branch that no variant took may include it.

    Args:
        templates: path -> text of every file in the templates folder.
        looked_up: the files that the prefixes looked up.
        folder: the templates folder.
    """
    used: set[str] = set()
    pending = [path for path in looked_up if path in templates]
    while pending:
        path = pending.pop()
        if path not in used:
            used.add(path)
            named = (f"{folder}/{name}" for name in _quoted_names(templates[path]))
            pending += (name for name in named if name in templates)
    for path in sorted(templates.keys() - used):
        if not _DOCUMENTATION_FILE.search(path):
            yield path, UNREACHABLE_TEMPLATE.problem("not used by any prefix")


def _quoted_names(text: str) -> Iterator[str]:
    """Yields every quoted text in the expressions, includes, imports and `set` statements of a template."""
    for end, pattern in _REFERENCES.items():
        for match in pattern.finditer(text, 0, text.rfind(end) + len(end)):  # behind the last end nothing can match
            yield from (double or single for double, single in _QUOTED.findall(match[0]))


def cut_texts(text: str, path: str) -> Iterator[tuple[Location, Problem]]:
    """Checks CU506: yields the location of each comment that seems to cut a text of a YAML file, and the problem."""
    for cut in find_cut_texts(text, path):
        ends = f'the text ends with "{cut.text[-_MAX_SHOWN:]}"' if cut.text else "there is no text"
        yield (
            _location(text, path, cut.offset),
            CUT_TEXT.problem(f'{ends}, and "{cut.comment[:_MAX_SHOWN]}" is a comment'),
        )


def similar_names(names: Iterable[str], kind: str) -> Iterator[tuple[str, Problem]]:
    """Checks CU503: yields each name that looks like an earlier one, and the problem.

    Args:
        names: the names to compare.
        kind: what they name, for the message.
    """
    first_by_form: dict[str, str] = {}
    for name in names:
        earlier = first_by_form.setdefault(_visual_form(name), name)
        if earlier != name:
            yield name, LOOK_ALIKE.problem(f'{kind} "{name}" looks like "{earlier}"')


def comments_around_text(source: str, path: str) -> Iterator[tuple[Location, Problem]]:
    """Checks CU505: yields location and problem of each template comment that seems to contain text of the prompt.

    | template | reported |
    | --- | --- |
    | `Use {#jar} first.` … `End with #} here.` on a later line | yes: text in front of it or behind it |
    | `{#jar} and {#lid} #}`, `{#each}…#}` | yes: it begins like a placeholder |
    | `{# A note` … `on two lines. #}` on lines of its own | no |
    | `Text. {# a note #}` | no |
    """
    for match in _TEMPLATE_TAG.finditer(source):
        comment = match["comment"]
        if comment is None or _IGNORE.match(comment):
            continue
        before = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
        end = source.find("\n", match.end())
        behind = source[match.end() : len(source) if end < 0 else end]
        lines = comment.count("\n")
        if _PLACEHOLDER.match(comment):
            message = f'"{comment[:20].split()[0]}" begins a comment, not a placeholder'
        elif lines and (_TAGS.sub("", before).strip() or _TAGS.sub("", behind).strip()):
            message = f"the comment leaves out text of {lines + 1} lines, and stands within a line of text"
        else:
            continue
        yield _location(source, path, match.start()), TEXT_IN_COMMENT.problem(message)


def _location(text: str, path: str, offset: int) -> Location:
    """Returns the line and the column of an offset."""
    return Location(path=path, line=text.count("\n", 0, offset) + 1, column=offset - text.rfind("\n", 0, offset))


def _visual_form(name: str) -> str:
    """Returns a form that names have in common if they look alike: `Order-ID`, `order_id` and `0rder_ld` do."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_CONFUSABLE)
