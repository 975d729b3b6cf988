"""Source maps: every character of a prefix is traced to its source line, and to the lines that bring it in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import expanded

from cacheunit_build.domain.source_map import MappedSpan, SourceLine, SourceMap
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.templating.renderer import Renderer
from cacheunit_build.templating.traced_text import TracedText, join_traced, spans_of, trace_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered
    from cacheunit_build.domain.source_map import SourceMaps

REPOSITORY = Path(__file__).parent.parent
MANIFEST = "prefixes/a.yaml"


def compiled(files: Mapping[str, str], variant: int = 0) -> tuple[Rendered, SourceMaps]:
    """Renders a variant of a manifest; returns its texts and their source maps."""
    sources = {path: text.encode() for path, text in files.items()}
    manifest = parse_manifest(sources[MANIFEST], name="a", path=MANIFEST)
    renderer = Renderer(sources.get, list)
    selected = expanded(manifest)[variant]
    return renderer.render(selected), renderer.source_maps(selected)


def chain(source_map: SourceMap, text: str) -> str:
    """Returns the chain of the first character of `text`, innermost first, with templates by name."""
    assert source_map.text.count(text) == 1
    lines = source_map.at(source_map.text.index(text))
    return " < ".join(f"{place.path.removeprefix('templates/')}:{place.line}" for place in lines)


def test_each_character_of_copied_lines_has_its_line_and_a_newline_that_of_the_line_it_ends() -> None:
    place = SourceLine(path="t.j2", line=4)
    source_map = SourceMap(
        "\n\na\nb\n!",
        [
            MappedSpan(length=1, chain=(SourceLine(path="u.j2", line=1),), verbatim=True),
            MappedSpan(length=5, chain=(place,), verbatim=True),
            MappedSpan(length=1, chain=(SourceLine(path="u.j2", line=2),), verbatim=True),
        ],
    )
    assert [str(chain[0].line) for chain in map(source_map.at, range(8))] == ["1", "4", "5", "5", "6", "6", "2", "2"]


def test_a_macro_below_three_includes() -> None:
    _, maps = compiled(
        {
            MANIFEST: "system: top.j2\n",
            "templates/top.j2": "Top.\n{% include 'one.j2' %}\nAfter.\n",
            "templates/one.j2": "\nOne.\n{% include 'two.j2' %}",
            "templates/two.j2": "{% include 'three.j2' %}Two.",
            "templates/three.j2": "{% from 'macros.j2' import rule %}\n\n{{ rule('x') }}\n",
            "templates/macros.j2": "{% macro rule(name) %}\nRule {{ name }}:\nbe kind.\n{% endmacro %}",
        }
    )
    deep = "three.j2:3 < two.j2:1 < one.j2:3 < top.j2:2 < prefixes/a.yaml:1"
    assert chain(maps.system, "Rule x") == f"macros.j2:2 < {deep}"
    assert chain(maps.system, "be kind.") == f"macros.j2:3 < {deep}"
    assert chain(maps.system, "Two.") == "two.j2:1 < one.j2:3 < top.j2:2 < prefixes/a.yaml:1"
    assert chain(maps.system, "After.") == "top.j2:3 < prefixes/a.yaml:1"


def test_inheritance_calls_filters_captures_and_recursion() -> None:
    _, maps = compiled(
        {
            MANIFEST: "system: child.j2\nvariables:\n  tree:\n    - name: root\n      below:\n        - {name: leaf}\n",
            "templates/base.j2": "Head.\n{% block body %}Plain.{% endblock %}\nFoot.\n",
            "templates/child.j2": (
                "{% extends 'base.j2' %}\n{% macro box() %}\n[{{ caller() }}]{% endmacro %}\n"
                "{% block body %}\n{{ super() }}\n{% call box() %}Called.{% endcall %}\n"
                "{% filter upper %}loud\nvoice{% endfilter %}\n"
                "{% set kept %}Captured.{% endset %}\n\n{{ kept }}\n"
                "{% for item in tree recursive %}<{{ item.name }}"
                "{% if item.below is defined %}{{ loop(item.below) }}{% endif %}>{% endfor %}{% endblock %}"
            ),
        }
    )
    at = "prefixes/a.yaml:1"
    assert chain(maps.system, "Head.") == f"base.j2:1 < {at}"
    assert chain(maps.system, "Plain.") == f"base.j2:2 < child.j2:5 < {at}"
    assert chain(maps.system, "[") == f"child.j2:3 < child.j2:6 < {at}"
    assert chain(maps.system, "Called.") == f"child.j2:6 < child.j2:3 < child.j2:6 < {at}"
    assert chain(maps.system, "VOICE") == f"child.j2:8 < child.j2:7 < {at}"
    assert chain(maps.system, "Captured.") == f"child.j2:9 < child.j2:11 < {at}"
    assert chain(maps.system, "leaf").startswith("prefixes/a.yaml:6 < child.j2:12")
    assert chain(maps.system, "Foot.") == f"base.j2:3 < {at}"


def test_lines_behind_stripped_front_matter_are_those_of_the_files() -> None:
    front = "---\nname: x\nkeep: first\n---\n\n"
    _, maps = compiled(
        {
            MANIFEST: "system: a.j2\nstrip: front-matter\ndata: {note: data/n.md}\n",
            "templates/a.j2": f"{front}One.\n{{% include 'b.j2' %}}\n{{{{ note }}}}",
            "templates/b.j2": f"{front}Two.\nThree.",
            "data/n.md": f"{front}first\nsecond\n",
        }
    )
    at = "prefixes/a.yaml:1"
    assert chain(maps.system, "One.") == f"a.j2:6 < {at}"
    assert chain(maps.system, "Three.") == f"b.j2:7 < a.j2:7 < {at}"
    assert chain(maps.system, "first") == f"data/n.md:6 < a.j2:8 < {at}"
    assert chain(maps.system, "second") == f"data/n.md:7 < a.j2:8 < {at}"


def test_variables_axes_and_data_files() -> None:
    rendered, maps = compiled(
        {
            MANIFEST: (
                "system: a.j2\nvariables:\n  product: Acme\n  poem: |\n    roses\n\n    violets\n"
                "  folded: >\n    one\n    line\nmatrix:\n  tone:\n    - calm\n    - brisk\n"
                "data: {faq: data/faq.yaml, plain: data/p.txt, api: data/api.json}\n"
            ),
            "data/faq.yaml": "- q: How?\n  a: So.\n- q: Why?\n  a: Because.\n",
            "data/p.txt": "first\nsecond\n",
            "data/api.json": '{\n "host": "relay",\n "notes": "up\\nand down"\n}',
            "templates/a.j2": (
                "{{ product }}\n{{ poem }}\n{{ tone }}\n{% for item in faq %}{{ item.q }} - {{ item.a }}\n{% endfor %}"
                "{{ plain }}{{ api.host ~ '!' }}\n{{ api.notes }}\n{% for key in api %}{{ key }},{% endfor %}\n"
                "{{ folded }}"
            ),
        },
        variant=1,
    )
    assert "brisk" in rendered.system
    tail = "prefixes/a.yaml:1"
    assert chain(maps.system, "Acme") == f"prefixes/a.yaml:3 < a.j2:1 < {tail}"
    assert chain(maps.system, "violets") == f"prefixes/a.yaml:7 < a.j2:2 < {tail}"
    assert chain(maps.system, "brisk") == f"prefixes/a.yaml:14 < a.j2:3 < {tail}"
    assert chain(maps.system, "Because.") == f"data/faq.yaml:4 < a.j2:4 < {tail}"
    assert chain(maps.system, "second") == f"data/p.txt:2 < a.j2:5 < {tail}"
    assert chain(maps.system, "relay") == f"data/api.json:2 < a.j2:5 < {tail}"
    assert chain(maps.system, "!") == f"a.j2:5 < {tail}"
    assert chain(maps.system, "and down") == f"data/api.json:3 < a.j2:6 < {tail}"
    assert chain(maps.system, "notes,") == f"data/api.json:3 < a.j2:7 < {tail}"


@pytest.mark.parametrize(
    ("expression", "text", "line"),
    [
        ("{{ plain|trim }}", "second", 3),
        ("{{ plain|upper }}", "SECOND", 3),
        ("{{ plain.strip().lower() }}", "second", 3),
        ("{{ plain|indent(4) }}", "second", 3),
        ("{{ plain[2:12] }}", "seco", 3),
        ("{{ plain|replace('sec', 'SEC') }}", "SECond", 3),
        ("{{ plain.split('\\n')|join('; ') }}", "second", 3),
        ("{{ plain.splitlines()[2] }}", "second", 3),
        ("{{ ('x' + plain)|trim }}", "second", 3),
        ("{{ [plain, 'y']|first }}", "second", 3),
        ("{% set kept = plain %}{{ kept }}", "second", 3),
        ("{{ plain|default('z') }}", "second", 3),
        ("{{ '%s!' % plain }}", "second", None),
        ("{{ {'k': plain}|tojson }}", "second", None),
    ],
)
def test_text_is_traced_through_filters_and_methods(expression: str, text: str, line: int | None) -> None:
    _, maps = compiled(
        {
            MANIFEST: "system: a.j2\ndata: {plain: data/p.txt}\n",
            "data/p.txt": "\nfirst\nsecond\n",
            "templates/a.j2": f"Now.\n{expression}\n",
        }
    )
    tail = "a.j2:2 < prefixes/a.yaml:1"
    assert chain(maps.system, text) == (f"data/p.txt:{line} < {tail}" if line else tail)


def test_several_templates_and_worked_turns() -> None:
    _, maps = compiled(
        {
            MANIFEST: (
                "system: [one.j2, two.j2]\nexamples:\n  - {role: user, template: q.j2}\n"
                "  - role: assistant\n    text: said\n"
            ),
            "templates/one.j2": "\n\nOne.\n\n\n",
            "templates/two.j2": "\nTwo.\n",
            "templates/q.j2": "{# note #}\nAsked.",
        }
    )
    assert chain(maps.system, "One.") == "one.j2:3 < prefixes/a.yaml:1"
    assert chain(maps.system, "Two.") == "two.j2:2 < prefixes/a.yaml:1"
    assert chain(maps.turns[0], "Asked.") == "q.j2:2 < prefixes/a.yaml:3"
    assert chain(maps.turns[1], "said") == "prefixes/a.yaml:5"


def test_text_that_renders_differently_with_tracing_comes_from_the_manifest() -> None:
    """What cannot be traced is not guessed: `sameas` is true for plain strings only."""
    rendered, maps = compiled(
        {MANIFEST: "\nsystem: a.j2\nvariables: {x: y}\n", "templates/a.j2": "{{ x is sameas x[:] }} end\n"}
    )
    assert rendered.system == maps.system.text
    assert chain(maps.system, "end") == "prefixes/a.yaml:2"


def own_variants() -> list[Variant]:
    variants: list[Variant] = []
    for path in sorted((REPOSITORY / "prefixes").rglob("*.yaml")):
        name = path.relative_to(REPOSITORY).as_posix()
        variants += expanded(parse_manifest(path.read_bytes(), name=name[9:-5], path=name))
    return variants


@pytest.mark.parametrize("variant", own_variants(), ids=lambda variant: variant.name)
def test_every_verbatim_line_of_this_repository_is_in_the_source_line_of_its_map(variant: Variant) -> None:
    def read(path: str) -> bytes | None:
        file = REPOSITORY / path
        return file.read_bytes() if file.is_file() else None

    renderer = Renderer(read, list)
    source_map = renderer.source_maps(variant).system
    assert source_map.text == renderer.render(variant).system
    spans = list(source_map.spans())
    assert sum(span.length for _, _, span in spans) == len(source_map.text)
    for start, end, span in spans:
        for index, part in enumerate(source_map.text[start:end].split("\n") if span.verbatim else ()):
            source = span.chain[0]
            assert part in (read(source.path) or b"").decode().split("\n")[source.line - 1 + index]


texts = st.text(alphabet="ab \n", max_size=12)


@given(st.lists(texts, max_size=4), st.integers(-3, 14), st.integers(-3, 14))
def test_slices_and_sums_have_spans_as_long_as_their_text(parts: list[str], start: int, end: int) -> None:
    whole = join_traced(parts)
    assert whole == "".join(parts)
    for result in (whole[start:end], whole.strip(), whole.replace("a", "xy"), whole + "c", "c" + whole, *whole.split()):
        assert isinstance(result, TracedText)
        assert sum(span.length for span in spans_of(result)) == len(result)
    assert whole[start:end] == "".join(parts)[start:end]


@given(texts, texts)
def test_a_traced_result_is_the_result_itself(source: str, result: str) -> None:
    traced = trace_result(join_traced([source]), result)
    assert (str(traced), sum(span.length for span in spans_of(traced))) == (result, len(result))
