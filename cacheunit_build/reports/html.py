"""Renders the reports that are HTML pages: one self-contained file each, without script.

A page is a template in `pages/` that extends `base.html.j2`. The base has the document, its policy (no script, nothing
is loaded) and all CSS; a page fills the blocks `title` and `content`, and imports the macros of `parts.html.j2`:

| macro | argument | shows |
| --- | --- | --- |
| `table(view)` | `TableView` | a table that scrolls by itself on a narrow screen |
| `badge(text, tone)` | tone: `good`, `bad`, `warn`, `info` or `plain` | a word in a box |
| `lines(texts)` | texts | lines that keep their white space, such as those of a text diff |
| `chart(view)` | `ChartView` of `line_chart` | lines over time with axes and a legend |
| `details(summary)` | content by `call` | a part that opens on demand, without script |

A report makes frozen view models, whose texts are plain: everything that a template prints goes through `one_line`, so
that control, invisible and bidirectional characters are shown as escapes, and is then escaped as HTML. Nothing marks a
text as safe. The bytes of a page depend on its view models alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jinja2 import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table of a page.

    Attributes:
        caption: what it shows; only screen readers get it.
        header: the names of its columns.
        rows: the cells of each row, as many as the header has.
        right: the indexes of columns that are aligned right.
        links: index of a row -> the id of the part of the page to which its first cell leads.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[int] = ()
    links: Mapping[int, str] = field(default_factory=dict)


def render(template: str, view: object) -> str:
    """Returns a page as HTML, without a final line end.

    Args:
        template: the file name of the page's template in `pages/`.
        view: the frozen view model that the template knows as `view`.
    """
    return _environment().get_template(template).render(view=view).rstrip("\n")


@cache
def _environment() -> Environment:
    """Returns Jinja's environment of pages; an undefined name is a bug, and raises."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("cacheunit_build.reports", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
    """Returns what is printed for a value of a template: a text with escapes for what is not a character to look at."""
    is_markup = hasattr(value, "__html__")  # what a macro has made, of which every text was escaped already
    return one_line(value) if isinstance(value, str) and not is_markup else value
