"""Rendering is deterministic, and records every file that it looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import expanded

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.prompt import Rendered


def rendered(files: Mapping[str, str], manifest: str = "system: a.j2") -> Rendered:
    return renderer(files).render(expanded(parse_manifest(manifest.encode(), name="p", path="prefixes/p.yaml"))[0])


def renderer(files: Mapping[str, str]) -> Renderer:
    sources = {path if "/" in path else f"templates/{path}": text.encode() for path, text in files.items()}
    return Renderer(sources.get, lambda: [path.removeprefix("templates/") for path in sources])


def text(files: Mapping[str, str], manifest: str = "system: a.j2") -> str:
    return rendered(files, manifest).system


def message(files: Mapping[str, str], manifest: str = "system: a.j2") -> str:
    with pytest.raises(CacheunitError) as caught:
        rendered(files, manifest)
    return str(caught.value)


def test_final_newlines_are_kept_where_files_are_joined() -> None:
    assert text({"a.j2": '{% include "b.j2" %}{% include "b.j2" %}B\n', "b.j2": "A\n"}) == "A\nA\nB\n"


def test_crlf_line_ends_and_byte_order_marks_are_removed() -> None:
    lf = {"a.j2": "x {{ v }}\ny {{ d }}\n", "d/d.txt": "1\n2\n"}
    crlf = {"a.j2": "\ufeffx {{ v }}\r\ny {{ d }}\r\n", "d/d.txt": "\ufeff1\r\n2\r\n"}
    manifest = 'system: a.j2\nvariables: {v: "%s"}\ndata: {d: d/d.txt}'
    assert text(lf, manifest % "p\\nq") == text(crlf, manifest % "p\\r\\nq") == "x p\nq\ny 1\n2\n\n"


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        (["A\n", "B\n"], "A\n\nB\n"),
        (["A\n\n\n", "\n\nB"], "A\n\nB"),
        (["A", "\n", "B\n"], "A\n\nB\n"),
        (["\nA\n\n"], "\nA\n\n"),
    ],
)
def test_a_list_of_templates_is_joined_by_one_blank_line(parts: list[str], joined: str) -> None:
    files = {f"{index}.j2": part for index, part in enumerate(parts)}
    assert text(files, f"system: [{', '.join(files)}]") == joined


def test_every_file_that_was_looked_up_is_recorded_even_if_it_does_not_exist() -> None:
    files = {
        "a.j2": '{% extends base %}{% block b %}{% include ["no.j2", "c.j2"] %}{% include "gone.j2" ignore missing %}'
        '{% from "m.j2" import f %}{{ f() }}{{ d.x }}{% endblock %}',
        "base.j2": "{% block b %}{% endblock %}.",
        "c.j2": "C",
        "m.j2": '{% from "n.j2" import g %}{% macro f() %}{{ g() }}{% endmacro %}',
        "n.j2": "{% macro g() %}G{% endmacro %}",
        "data/d.yaml": "x: 1",
    }
    manifest = "system: a.j2\nvariables: {base: base.j2}\ndata: {d: data/d.yaml}"
    same = renderer(files)
    variant = expanded(parse_manifest(manifest.encode(), name="p", path="prefixes/p.yaml"))[0]
    first, second = same.render(variant), same.render(variant)
    assert first == second
    assert first.system == "CG1."
    exists = {lookup.path: lookup.fingerprint is not None for lookup in first.lookups}
    absent = {"templates/no.j2": False, "templates/gone.j2": False}
    present = [
        "templates/a.j2",
        "templates/base.j2",
        "templates/c.j2",
        "templates/m.j2",
        "templates/n.j2",
        "data/d.yaml",
    ]
    assert exists == dict.fromkeys(present, True) | absent
    asked = {lookup.path: lookup.asked_by for lookup in first.lookups}
    assert asked["templates/n.j2"] == "templates/m.j2"
    assert asked["templates/a.j2"] == asked["data/d.yaml"] == "prefixes/p.yaml"


def test_an_imported_macro_sees_only_its_arguments_unless_imported_with_context() -> None:
    macro = "{% macro f() %}{{ who }}{% endmacro %}"
    with_context = {"a.j2": '{% from "m.j2" import f with context %}{{ f() }}', "m.j2": macro}
    shared = renderer(with_context)
    for who in ("x", "y", "x"):
        manifest = parse_manifest(f"system: a.j2\nvariables: {{who: {who}}}".encode(), name=who, path="p.yaml")
        assert shared.render(expanded(manifest)[0]).system == who
    without = {"a.j2": '{% from "m.j2" import f %}{{ f() }}', "m.j2": macro}
    assert 'templates/m.j2:1: "who" is undefined' in message(without, "system: a.j2\nvariables: {who: x}")


def test_default_and_is_defined_still_work() -> None:
    assert text({"a.j2": '{{ x|default("d") }}{% if x is defined %}no{% endif %}'}) == "d"


def test_values_are_not_printed_as_python_spells_them() -> None:
    manifest = "system: a.j2\nvariables: {t: true, n: 12, v: 3.10, l: [a, b]}"
    assert text({"a.j2": "{{ t }} {{ n }} {{ v }} {{ l|join(', ') }} {{ l|tojson }}"}, manifest) == (
        'true 12 3.10 a, b ["a", "b"]'
    )


@pytest.mark.parametrize(
    "printed",
    [
        "{{ t ~ '' }}",
        "{{ [t]|join }}",
        "{{ t|string }}",
        "{{ '%s' % t }}",
        "{{ t|upper|lower }}",
        "{{ t|trim }}",
        "{{ t }}",
    ],
)
def test_no_way_of_printing_uses_the_spelling_of_python(printed: str) -> None:
    assert text({"a.j2": printed}, "system: a.j2\nvariables: {t: true}") == "true"
    assert "prints null" in message({"a.j2": printed}, "system: a.j2\nvariables: {t: null}")
    assert "prints a mapping" in message({"a.j2": printed}, "system: a.j2\nvariables: {t: {a: 1}}")


def test_tojson_keeps_the_spelling_of_floats() -> None:
    files = {"a.j2": "{{ d|tojson }} {{ d|tojson(indent=1) }}", "d/d.json": '{"a": 3.10, "b": [1E-4, "1.50"]}'}
    shown = text(files, "system: a.j2\ndata: {d: d/d.json}")
    assert shown.startswith('{"a": 3.10, "b": [1E-4, "1.50"]} {')


def test_a_template_with_conflict_markers_is_refused_and_one_that_quotes_them_is_not() -> None:
    merge = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"
    assert "templates/a.j2:2: the template has merge-conflict markers" in message({"a.j2": merge})
    assert text({"a.j2": "A <<<<<<< line opens a conflict\n"}) == "A <<<<<<< line opens a conflict\n"


def test_tojson_neither_escapes_nor_sorts() -> None:
    manifest = 'system: a.j2\nvariables: {d: {b: "é<>&\'", a: 1}}'
    assert text({"a.j2": "{{ d|tojson }}"}, manifest) == '{"b": "é<>&\'", "a": 1}'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("line\n{{ nmae }}", 'templates/a.j2:2: "nmae" is undefined\n\nhint: did you mean "name"?'),
        (
            "{{ d.frst }}",
            'templates/a.j2:1: "frst" is undefined: a mapping has no such key\n\nhint: did you mean "first"?',
        ),
        ("{{ d }}", "templates/a.j2:1: prints a mapping; use |join, |tojson or one of its fields"),
        ("\n{{ none }}", "templates/a.j2:2: prints null; give it a value, or use |default('', true)"),
        ("{{ [1]|random }}", "templates/a.j2:1: No filter named 'random'."),
        ("{{ lipsum() }}", 'templates/a.j2:1: "lipsum" is undefined\n\nhint: "lipsum" is not available'),
        ("x\n{% if %}", "templates/a.j2:2: Expected an expression"),
        ("{{ ().__class__ }}", "templates/a.j2:1: access to attribute '__class__' of 'tuple' object is unsafe."),
        ("{{ 'x' * 100000000 }}", "templates/a.j2:1: creates more than 40,000,000 characters of text"),
        ("{{ 9 ** 99999 }}", "templates/a.j2:1: computes an integer of more than 14,000 bits"),
        ("{{ d.keys() - ['x'] }}", "templates/a.j2:1: a set has no order; select from a list instead"),
        ("{% for i in range(9999999) %}{% endfor %}", "templates/a.j2:1: a range of more than 1,000,000 steps"),
        ("{{ 1 / 0 }}", "templates/a.j2:1: ZeroDivisionError: division by zero"),
        ("{% include 'parts.md' %}", 'there is no template "parts.md"\n\nhint: did you mean "parts.j2"?'),
        ("{% include '../x' %}", 'templates/a.j2:1: path "../x" leaves its folder by ".."'),
        ("{% include 'a.j2' %}", "templates include each other in a cycle: a.j2 -> a.j2"),
        ("{% include 'b.j2' %}", "templates include each other in a cycle: a.j2 -> b.j2 -> a.j2"),
        (
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "macros, blocks or loops call themselves more than 100 deep",
        ),
        ("{% for k in range(3) %}{{ d.first.append }}{% endfor %}", '"append" is undefined'),
        ("", "prefixes/p.yaml:1: the system text is empty"),
    ],
)
def test_each_error_of_a_template_has_its_line_and_a_hint(source: str, expected: str) -> None:
    manifest = "system: a.j2\nvariables: {name: x, d: {first: 1}}"
    assert expected in message({"a.j2": source, "b.j2": '{% include "a.j2" %}', "parts.j2": ""}, manifest)


def test_a_source_may_show_a_memory_address() -> None:
    shown = "Trace: <object object at 0x7f00aa11bb22>"
    assert text({"a.j2": shown}) == shown


def test_recursion_that_ends_is_allowed() -> None:
    tree = '{{ n }}{% if n < 5 %}{% set n = n + 1 %}{% include "t.j2" %}{% endif %}'
    assert text({"a.j2": '{% set n = 0 %}{% include "t.j2" %}', "t.j2": tree}) == "012345"


def test_the_errors_of_all_entries_are_reported_together() -> None:
    errors = message({"a.j2": "{{ x }}", "b.j2": "{{ y }}"}, "system: [a.j2, b.j2, c.j2]")
    assert [line for line in errors.splitlines() if line and not line.startswith("hint")] == [
        'templates/a.j2:1: "x" is undefined',
        'templates/b.j2:1: "y" is undefined',
        'prefixes/p.yaml:1: there is no template "c.j2"',
    ]


def test_worked_turns_are_rendered_from_a_template_or_copied_from_the_manifest() -> None:
    turns_typed = "examples:\n- {role: user, template: e.j2}\n- {role: assistant, text: '{{ v }}'}"
    manifest = f"system: a.j2\nvariables: {{v: x}}\n{turns_typed}"
    turns = rendered({"a.j2": "s", "e.j2": "<{{ v }}>"}, manifest).turns
    assert [(turn.role, turn.text) for turn in turns] == [("user", "<x>"), ("assistant", "{{ v }}")]


# Front matter

STRIP = "system: a.j2\nstrip: front-matter\n"
FRONT = "---\ntitle: '{{ undefined }} {% if'\nvars: |\n  {# not closed\n---\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{FRONT}Text.\n", "Text.\n"),
        (f"{FRONT}\n \t\n\n  Text.\n", "  Text.\n"),
        (f"\ufeff{FRONT}Text.".replace("\n", "\r\n"), "Text."),
        ("--- \na: b\n...\t\nText.", "Text."),
        ("---\n---\nText.", "Text."),
        ("---\n# a comment\n\n'a key': b\n---\n---\nText.", "---\nText."),
        ("---\na: |\n  b\n  ---\n----\n---\nText.", "Text."),
        ("---\na: b\n---\n#} {{ '{#' }}", "#} {#"),
        ("\n---\na: b\n---\nText.", "\n---\na: b\n---\nText."),
        (" ---\na: b\n---\n", " ---\na: b\n---\n"),
        ("----\na: b\n---\n", "----\na: b\n---\n"),
        ("Text.\n---\na: b\n---\n", "Text.\n---\na: b\n---\n"),
    ],
)
def test_front_matter_at_the_start_of_a_template_is_removed_and_nothing_else(source: str, expected: str) -> None:
    assert text({"a.j2": source}, STRIP) == expected
    assert text({"a.j2": source}, STRIP.replace("front-matter", "[front-matter]")) == expected


def test_front_matter_of_included_imported_and_inherited_templates_and_of_text_data_is_removed() -> None:
    files = {
        "a.j2": (
            f"{FRONT}{{% extends 'base.j2' %}}{{% block b %}}"
            "{% include 'part.j2' %}{{ note }}{{ list.a }}{% endblock %}"
        ),
        "base.j2": f"{FRONT}{{% from 'macros.j2' import m %}}Base {{% block b %}}{{% endblock %}}{{{{ m() }}}}",
        "part.j2": f"{FRONT}\nPart ",
        "macros.j2": f"{FRONT}{{% macro m() %}}Macro{{% endmacro %}}",
        "data/note.md": f"{FRONT}\nNote: {{{{ literal }}}} ",
        "data/list.yaml": "---\na: 1 \n",
    }
    manifest = f"{STRIP}data: {{note: data/note.md, list: data/list.yaml}}"
    assert text(files, manifest) == "Base Part Note: {{ literal }} 1Macro"


def test_front_matter_of_an_example_template_is_removed_but_not_a_literal_text() -> None:
    turns = 'examples: [{role: user, template: b.j2}, {role: assistant, text: "---\\na: b\\n---\\nc"}]'
    result = rendered({"a.j2": "A", "b.j2": f"{FRONT}B"}, f"{STRIP}{turns}")
    assert [turn.text for turn in result.turns] == ["B", "---\na: b\n---\nc"]


def test_a_manifest_that_strips_and_one_that_does_not_share_templates_and_data_without_influence() -> None:
    files = {
        "a.j2": "---\na: b\n---\n{{ note }}{% include 'b.j2' %}",
        "b.j2": "---\nc: d\n---\nB",
        "n.md": "---\ne: f\n---\nN",
    }
    sources = {f"templates/{path}" if path.endswith("j2") else path: data.encode() for path, data in files.items()}
    shared = Renderer(sources.get, lambda: list(files))
    manifests = [
        parse_manifest(f"{keys}data: {{note: n.md}}".encode(), name="p", path="prefixes/p.yaml")
        for keys in (STRIP, "system: a.j2\n")
    ]
    for _ in range(2):
        stripped, whole = (shared.render(expanded(manifest)[0]).system for manifest in manifests)
        assert stripped == "NB"
        assert whole == "---\na: b\n---\n---\ne: f\n---\nN---\nc: d\n---\nB"


def test_a_file_that_is_a_template_and_data_is_rendered_as_the_one_and_parsed_as_the_other() -> None:
    sources = {"templates/a.yaml": b"key: {{ '1' }}\n", "templates/b.j2": b"{{ data.key }}{% include 'a.yaml' %}"}
    same = Renderer(sources.get, lambda: list(sources))
    manifest = parse_manifest(
        b"system: b.j2\ndata: {data: templates/a.yaml}\nstrip: front-matter", name="p", path="prefixes/p.yaml"
    )
    sources["templates/a.yaml"] = b"key: '{# #}1'\n"
    assert same.render(expanded(manifest)[0]).system == "{# #}1key: '1'\n"
    sources["templates/a.yaml"] = b"key: '{# #}2'\n"  # another content, by the same renderer
    assert same.render(expanded(manifest)[0]).system == "{# #}2key: '2'\n"


def test_an_imported_template_is_executed_and_recorded_for_each_variant() -> None:
    sources = {
        "templates/a.j2": b"{% import 'm.j2' as m %}{{ m.x }}",
        "templates/m.j2": b"{% include 'n.j2' %}{% set x = 1 %}",
    }
    same = Renderer(sources.get, lambda: list(sources))
    variant = expanded(parse_manifest(b"system: a.j2", name="p", path="prefixes/p.yaml"))[0]
    for text_of_n in (b"one", b"two"):
        sources["templates/n.j2"] = text_of_n
        lookups = {lookup.path: lookup.fingerprint for lookup in same.render(variant).lookups}
        assert lookups["templates/n.j2"] == fingerprint(text_of_n)


def test_lines_of_errors_behind_front_matter_are_those_of_the_file() -> None:
    assert message({"a.j2": f"{FRONT}\n\nOne\n{{{{ missing }}}}"}, STRIP).startswith("templates/a.j2:9: ")
    assert message({"a.j2": f"{FRONT}{{% if %}}"}, STRIP).startswith("templates/a.j2:6: ")
    assert message({"a.j2": "{% include 'b.j2' %}", "b.j2": f"{FRONT}\n{{{{ x }}}}"}, STRIP).startswith(
        "templates/b.j2:7: "
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("---\na: b\nText.", '1: the front matter does not end: there is no second line "---"'),
        ("---", '1: the front matter does not end: there is no second line "---"'),
        ("---\na: b\n --- \n---x", '1: the front matter does not end: there is no second line "---"'),
        ("---\n\nA rule above: and below.\n\n---\n", None),
        ("---\n\n# A title between rules\n\n---\n", "2: not the front matter of a file: the line is no YAML key"),
        ("---\n\nA rule above and below.\n\n---\n", "3: not the front matter of a file: the line is no YAML key"),
        ("---\n{% include 'b.j2' %}\n---\n", "2: not the front matter of a file: the line is no YAML key"),
    ],
)
def test_front_matter_that_does_not_end_or_is_none_is_a_fault_at_its_line(source: str, expected: str | None) -> None:
    if expected is None:
        assert text({"a.j2": f"{source}B"}, STRIP) == "B"
        return
    assert message({"a.j2": source}, STRIP).startswith(f"templates/a.j2:{expected}\n")
    manifest = f"{STRIP}data: {{d: data/d.txt}}"
    assert message({"a.j2": "x", "data/d.txt": source}, manifest).startswith(f"data/d.txt:{expected}\n")
    assert text({"a.j2": "{{ d }}", "data/d.txt": source}, manifest.replace("strip: front-matter\n", "")) == source


def test_very_long_front_matter_is_read_in_one_pass() -> None:
    for line in ("a: b\n", "#\n", " \n", "---x\n"):
        assert text({"a.j2": f"---\na: b\n{line * 200_000}---\nText."}, STRIP) == "Text."
    assert "does not end" in message({"a.j2": "---\n" + "- \n" * 200_000}, STRIP)
