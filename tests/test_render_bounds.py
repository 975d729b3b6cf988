"""Rendering is bounded in steps, characters and depth, and only plain data becomes text."""

from __future__ import annotations

import pytest
from test_renderer import message, text

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation
from cacheunit_build.templating import budget
from cacheunit_build.templating.chat_template import load_chat_template

VALUES = "system: a.j2\nvariables: {s: ada, t: true, z: null, l: [1, two], d: {a: 1, b: x}}"
STEPS = "takes more than 30,000 steps"
FEW_CHARACTERS = "creates more than 400,000 characters of text"
CHARACTERS = "creates more than 40,000,000 characters of text"
DEEP = "a value is nested more than 100 deep"
DOUBLING = "{%% set ns = namespace(s='xx', l=[1]) %%}{%% for i in range(100) %%}{%% set ns.%s %%}{%% endfor %%}"
NESTING = "{% set ns = namespace(l=(1,), m=(1,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}\
{% set ns.m = (ns.m, ns.m) %}{% endfor %}"
DEEPER = "{% set ns = namespace(l=()) %}{% for i in range(900) %}{% set ns.l = (ns.l,) %}{% endfor %}"


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the bound of steps, so that it is reached soon."""
    monkeypatch.setattr(budget, "MAX_STEPS", 30_000)


@pytest.fixture
def few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the bound of characters."""
    monkeypatch.setattr(budget, "MAX_CHARACTERS", 400_000)


def chat(source: str) -> str:
    """Renders a chat template for a conversation without tools; returns its error where it has one."""
    conversation = Conversation(system="Be kind.", tools=(), turns=(), following=({"role": "user", "content": "Hi"},))
    try:
        return load_chat_template(source.encode(), "chat.jinja", {"d": {"a": 1}, "l": [1, "two"], "s": "ada"})(
            conversation
        )
    except CacheunitError as error:
        return str(error)


# Growth. Each is refused before it happens, in prompts and in chat templates.


@pytest.mark.parametrize(
    "growth",
    [
        *("s = ns.s ~ ns.s", "s = ns.s + ns.s", "s = ns.s * 2", "s = ns.s.join([ns.s, ns.s])"),
        *("s = [ns.s, ns.s]|join", "s = ns.s|replace('x', 'xx')", "s = ns.s.replace('', ns.s)"),
        *("s = '{0}{0}'.format(ns.s)", "s = '%s%s' % (ns.s, ns.s)", "s = '%(a)s%(a)s'|format(a=ns.s)"),
        *(
            "s = ('&' ~ ns.s ~ ns.s)|forceescape",
            "s = ('%' ~ ns.s ~ ns.s)|urlencode",
            "s = (ns.s ~ '\"')|tojson|tojson",
        ),
        *("l = ns.l + ns.l", "l = ns.l * 2", "l = (ns.l + ns.l)[:]"),
    ],
)
@pytest.mark.usefixtures("few_characters")
def test_a_value_that_doubles_in_a_loop_is_refused(growth: str) -> None:
    source = DOUBLING % growth
    assert f"templates/a.j2:1: {FEW_CHARACTERS}" in message({"a.j2": source}, VALUES)
    assert chat(source).startswith(f"chat.jinja:1: the chat template failed: {FEW_CHARACTERS}")


@pytest.mark.parametrize(
    "source",
    [
        *("'x'.center(10**10)", "'x'|center(10000000000)", "'x'.rjust(10000000000)", "'x'.zfill(10000000000)"),
        *("'%99999999999d' % 3", "'%.99999999f' % 3.0", "'%*d' % (999999999, 3)", "'%(a)999999999s' % {'a': 1}"),
        *("'%0*d'|format(999999999, 3)", "'{:>99999999999}'.format(1)", "'{:.99999999999f}'.format(1.0)"),
        *("'{:{w}}'.format('a', w=99999999999)", "'{a:x<999999999}'.format_map({'a': 1})"),
        *("('{:>999999999}'|e).format(1)", "('%999999999d'|e) % 1", "'x' * 10000000000", "10000000000 * [1]"),
        *("'\\t'.expandtabs(10000000000)", "'a\\nb'|indent(10000000000)", "('a\\n' * 6000)|indent('x' * 10000)"),
        *("('a ' * 100000)|wordwrap(1, true, 'x' * 10000)", "l|batch(10**12, 'x')|list", "l|slice(10**12)|list"),
        *("l|tojson(indent=10**9)", "l|tojson(indent='x' * 30000000)", "('a@b.c ' * 9999)|urlize(target='x' * 99999)"),
        *("('x' * 10000).translate({120: 'y' * 10000})", "'x'|truncate(1, true, 'y' * 50000000)"),
        *("('x' * 30000000).split()|length", "('x' * 9000000)|list|length"),
        *("'a'|replace('', 'b' * 30000000)|length", "('&' * 10000000)|e|length"),
    ],
)
def test_a_result_that_is_too_long_is_refused(source: str) -> None:
    printed = f"\n{{{{ {source} }}}}"
    error = message({"a.j2": printed}, VALUES)
    assert f"templates/a.j2:2: {CHARACTERS}" in error
    assert "hint: print parts instead" in error
    assert chat(printed).startswith("chat.jinja:2: the chat template failed: ")


def test_printing_too_much_is_refused_with_the_line_that_prints() -> None:
    source = "{% set s = 'x' * 1000000 %}{% for i in range(99) %}\n{{ s }}{% endfor %}"
    assert f"templates/a.j2:2: {CHARACTERS}" in message({"a.j2": source}, VALUES)
    assert f"chat.jinja:2: the chat template failed: {CHARACTERS}" in chat(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(999) %}{% for b in range(999) %}{% for c in l %}{% endfor %}{% endfor %}{% endfor %}",
        "{% set r = range(900000) %}{% for a in r %}{% for b in r if false %}{% endfor %}{% endfor %}",
        "{% set r = range(9000)|list %}{% for a in r %}{{ r|sum }}{{ 'x' in r }}{{ r.count(3) }}{% endfor %}",
        "{% set r = range(100000) %}{% for a in r %}{{ r|select('eq', -1)|first is defined }}{% endfor %}",
        "{% set r = 'x' * 9000000 %}{% for a in range(99999) %}{{ r.count('y') }}{{ 'y' in r }}{% endfor %}",
        "{% set r = 'x' * 9000000 %}{% set q = r ~ '' %}{% for a in range(99999) %}{{ r == q }}{% endfor %}",
        "{% set r = 'x' * 9000000 %}{% for a in range(99999) %}{{ r is lower }}{% endfor %}",
        "{% macro f(n) %}{% if n < 90 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}{{ f(0) }}",
        "{% for x in [1] recursive %}{% if loop.depth < 40 %}{{ loop([1, 1]) }}{% endif %}{% endfor %}",
        "{{ (')' * 100000 ~ 'x')|urlize }}",
        "{{ ('<!---->' * 100000)|striptags }}",
        "{% set n = 2**13000 %}{% for i in range(900000) %}{% set x = n // 3 %}{% endfor %}",
        f"{NESTING}{{{{ ns.l == ns.m }}}}",
        f"{NESTING}{{{{ ns.l is eq ns.m }}}}",
        f"{NESTING}{{{{ ns.l in [ns.m] }}}}",
        f"{NESTING}{{{{ {{ns.l: 1}}|length }}}}",
        f"{NESTING}{{{{ d[ns.l] }}}}",
        f"{NESTING}{{{{ d.get(ns.l, 2) }}}}",
        f"{NESTING}{{{{ [ns.l]|unique|list|length }}}}",
        f"{NESTING}{{{{ ns.l|tojson }}}}",
    ],
)
@pytest.mark.usefixtures("few_steps")
def test_work_without_end_is_refused(source: str) -> None:
    assert f"templates/a.j2:1: {STEPS}" in message({"a.j2": source}, VALUES)
    assert chat(source).startswith(f"chat.jinja:1: the chat template failed: {STEPS}")


@pytest.mark.parametrize("use", ["{ns.l: 1}", "ns.l == ns.l", "ns.l|tojson", "d[ns.l]", "[ns.l]|unique|list"])
def test_a_value_that_is_nested_too_deeply_is_refused_before_it_is_used(use: str) -> None:
    assert DEEP in message({"a.j2": f"{DEEPER}{{{{ ({use})|length }}}}"}, VALUES)


@pytest.mark.usefixtures("few_steps")
def test_a_loop_that_includes_without_end_is_refused() -> None:
    for name in ("b.j2", "no.j2"):
        source = f"{{% for i in range(90000) %}}{{% include '{name}' ignore missing %}}{{% endfor %}}"
        assert STEPS in message({"a.j2": source, "b.j2": "x"})


@pytest.mark.parametrize(
    "number", ["9**9**9**9**9", "2**14001", "(2**9000) * (2**9000)", "(-2) ** (10**9)", "('f' * 9000)|int(base=16)"]
)
def test_a_number_that_is_too_large_is_refused(number: str) -> None:
    assert "a.j2:1: computes an integer of more than 14,000 bits" in message({"a.j2": f"{{{{ {number} }}}}"})


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999", "1.5|round(10**9, 'floor')"])
def test_a_number_of_too_many_digits_is_refused(number: str) -> None:
    assert message({"a.j2": f"{{{{ {number} }}}}"}).startswith("templates/a.j2:1: ")


# Nesting


@pytest.mark.parametrize(
    "source",
    [
        *("{{ " + "(" * 999 + "1" + ")" * 999 + " }}", "{{ " + "[" * 999 + " }}", "{{ " + "-" * 999 + "1 }}"),
        *("{{ " + "not " * 999 + "1 }}", "{{ " + "+".join("1" * 600) + " }}", "{{ s" + ".a" * 600 + " }}"),
        *("{{ s" + "|upper" * 600 + " }}", "{{ s" + "()" * 600 + " }}", "{{ " + " and ".join("1" * 600) + " }}"),
        *("{{ " + "1 if 1 else " * 600 + "2 }}", "{% if 1 %}" * 600 + "{% endif %}" * 600),
        *("{% for i in l %}" * 25 + "{% endfor %}" * 25, "{% if 0 %}" + "{% elif 0 %}" * 600 + "{% endif %}"),
        *("{% set x %}" * 300 + "{% endset %}" * 300, "x{# c #}" * 10_001),
    ],
)
def test_a_template_that_is_nested_or_chained_too_deeply_is_refused_with_its_line(source: str) -> None:
    error = message({"a.j2": f"\n{source}"}, VALUES)
    assert error.startswith("templates/a.j2:2: ")
    assert "more than" in error
    assert chat(f"\n{source}").startswith("chat.jinja:2: ")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ " + "(" * 38 + "1" + ")" * 38 + " }}", "1"),
        ("{{ " + "+".join("1" * 140) + " }}", "140"),
        ("{{ s" + "|upper" * 140 + " }}", "ADA"),
        ("{% if 1 %}" * 38 + "x" + "{% endif %}" * 38, "x"),
        ("{% for i in [1] %}" * 18 + "x" + "{% endfor %}" * 18, "x"),
        ("{% if 0 %}" + "{% elif 0 %}" * 290 + "{% else %}x{% endif %}", "x"),
        ("{{ " + "~".join("1" * 9000) + " }}", "1" * 9000),
    ],
)
def test_nesting_and_chains_work_up_to_the_stated_bounds(source: str, expected: str) -> None:
    assert text({"a.j2": source}, VALUES) == expected


@pytest.mark.parametrize("tag", ["{%% include '%s' %%}", "{%% extends '%s' %%}", "{%% import '%s' as x %%}y"])
def test_templates_that_load_each_other_work_to_a_stated_depth(tag: str) -> None:
    chain = {f"{i}.j2": tag % f"{i + 1}.j2" for i in range(1000)}
    assert text({"a.j2": tag % "910.j2", **chain, "1000.j2": "end"}) in ("end", "y")
    error = message({"a.j2": tag % "0.j2", **chain, "1000.j2": "end"})
    assert "templates/99.j2:1: templates load each other more than 100 deep: a.j2 -> 0.j2 -> ... -> 99.j2" in error


def test_a_macro_that_calls_itself_is_no_cycle_of_templates_and_a_cycle_is_no_macro() -> None:
    partial = {"p.j2": "x", "m.j2": "{% macro f() %}{{ f() }}{% endmacro %}", "c.j2": "{% include 'c.j2' %}"}
    twice = "{% include 'p.j2' %}{% include 'p.j2' %}{% from 'm.j2' import f %}{{ f() }}"
    macro = "macros, blocks or loops call themselves more than 100 deep"
    assert f"templates/m.j2:1: {macro}" in message({"a.j2": twice, **partial})
    assert "in a cycle: c.j2 -> c.j2" in message(
        {"a.j2": "{% macro f() %}{% include 'c.j2' %}{% endmacro %}{{ f() }}", **partial}
    )
    assert macro in message({"a.j2": "{% block b %}{{ self.b() }}{% endblock %}"})


# Plain data


@pytest.mark.parametrize(
    "road",
    [
        *("{{ % }}", "{{ %|urlencode }}", "{{ '%%s'|format(%) }}", "{{ '%%s' %% % }}", "{{ '{}'.format(%) }}"),
        *("{{ '{!s}'.format(%) }}", "{{ '{a}'.format_map({'a': %}) }}", "{{ 'x' ~ % }}", "{{ [%]|join }}"),
        *("{{ s|replace('a', %) }}", "{{ l|join(%) }}", "{{ {'a': %}|xmlattr }}", "{{ {'a': %}|urlencode }}"),
        *("{{ %|string }}", "{{ %|safe }}", "{{ %|e }}", "{{ [%]|tojson }}", "{{ [%]|map('string')|join }}"),
        *("{{ ('x'|e).join([%]) }}", "{{ ('{}'|e).format(%) }}", "{{ ('%%s'|e) %% % }}", "{{ s|urlize(target=%) }}"),
    ],
)
def test_nothing_but_plain_data_becomes_text(road: str) -> None:
    names = ("s.upper", "d.items", "range", "m", "namespace(a=1)", "cycler(1)", "joiner()", "self")
    for name in names if road in ("{{ % }}", "{{ %|urlencode }}") else ("s.upper", "m"):
        _check_that_it_is_refused(road, name)


def _check_that_it_is_refused(road: str, name: str) -> None:
    macro = "{% macro m() %}x{% endmacro %}"
    source = road.replace("%%", "\0").replace("{%", "\1").replace("%", name).replace("\0", "%").replace("\1", "{%")
    error = message({"a.j2": f"{macro}{source}"}, VALUES)
    assert error.startswith("templates/a.j2:1: ")
    assert "0x" not in error
    answer = chat(f"{macro}{source}")
    assert answer.startswith("chat.jinja:1: ")


@pytest.mark.parametrize(
    "road",
    [
        *("'{}'.format(%)", "'{!s}'.format(%)", "'%s'|format(%)", "'%s' % %", "('%s'|e) % %", "%|urlencode", "%|safe"),
        *("'x'|replace('x', %)", "['', '']|join(%)", "('x'|e).join(['', %])[:0] ~ %", "('{}'|e).format(%)"),
        *("{'a': %}|urlencode|replace('a=', '')", "{'a': %}|xmlattr|replace(' a=', '')|replace('\"', '')"),
    ],
)
def test_values_have_one_text_form_on_every_road(road: str) -> None:
    def source(value: str) -> str:
        marked = road.replace("'%s'", "\0").replace(" % ", "\1").replace("%", value)
        return "{{ " + marked.replace("\0", "'%s'").replace("\1", " % ") + " }}"

    assert text({"a.j2": source("t")}, VALUES) == "true"
    if "xmlattr" not in road:  # leaves out what has no value
        assert "prints null" in message({"a.j2": source("z")}, VALUES)
    if "urlencode" not in road:  # takes mappings too
        assert "prints a mapping" in message({"a.j2": source("d")}, VALUES)


def test_a_key_with_brackets_does_not_hide_the_width_of_a_pattern() -> None:
    source = "{{ '%(a(b))999999999s' % {'a(b)': 1} }}"
    assert "a.j2:1: a key of a pattern contains brackets" in message({"a.j2": source})
    assert "a key of a pattern contains brackets" in chat(source)


def test_numbers_are_formatted_by_patterns() -> None:
    source = "{{ '%03d|%.2f|%-3s|%d%%' % (7, 2, 'a', d.f) }} {{ '{:.2f} {:>4}'.format(d.f, t) }}"
    files = {"a.j2": source + " {{ '%(n)03d %(n)s' % {'n': 7} }}", "d/d.json": '{"f": 3.10}'}
    manifest = "system: a.j2\ndata: {d: d/d.json}\nvariables: {t: true}"
    assert text(files, manifest) == "007|2.00|a  |3% 3.10 true 007 7"


@pytest.mark.parametrize(
    "printed", ["'%r' % s", "'{!r}'.format(s)", "'{:n}'.format(1)", "1e300 * 1e300", "'%f' % (1e300 * 1e300)"]
)
def test_spellings_of_python_are_refused(printed: str) -> None:
    assert message({"a.j2": f"{{{{ {printed} }}}}"}, VALUES).startswith("templates/a.j2:1: ")


def test_chat_templates_print_as_python_does() -> None:
    source = "{{ [true, none, 'a', 1.5] }} {{ none }} {{ '%s' % none }} {{ '{}'.format(true) }} {{ true ~ 1 }} {{ d }}"
    assert chat(source) == "[True, None, 'a', 1.5] None None True True1 {'a': 1}"
    assert chat("{{ '%r {!r} %%' % 'a' }}{{ d.keys() }}{{ '%5.1f' % 2 }}") == "'a' {!r} %dict_keys(['a'])  2.0"


@pytest.mark.parametrize("half", ["'\\ud83d'", "'%c' % 55357", "'{:c}'.format(55357)", "'x'.translate({120: 55357})"])
def test_half_of_a_surrogate_pair_is_refused_with_its_line(half: str) -> None:
    for source in (f"a\n{{{{ {half} }}}}", f"a\n{{{{ {half} ~ '😀' }}}}"):
        assert "templates/a.j2:2: " in message({"a.j2": source})
        assert "half of a surrogate pair" in message({"a.j2": source})
        assert chat(source).startswith("chat.jinja") or half.startswith("'%c'")
    assert text({"a.j2": "{{ '\\ud83d\\ude00' }}{{ {'a': '\\ud83d\\ude00'}|tojson }}"}) == '😀{"a": "😀"}'


# Calls of values


@pytest.mark.parametrize(
    ("source", "expected", "origin"),
    [
        ("{{ tool.to_prompt() }}", 'a mapping is asked for a method "to_prompt"', '"tool" of d/tool.yaml'),
        ("{{ tool.name() }}", "a text is called like a function", '"tool" of d/tool.yaml'),
        (
            "{% for p in people %}{{ p.render(1) }}{% endfor %}",
            'a mapping is asked for a method "render"',
            '"people" of prefixes/p',
        ),
        ("{{ n.render() }}", 'a number is asked for a method "render"', "print its fields"),
    ],
)
def test_a_called_value_is_explained_with_the_file_that_it_comes_from(source: str, expected: str, origin: str) -> None:
    manifest = "system: a.j2\ndata: {tool: d/tool.yaml}\nvariables: {people: [{a: 1}, {a: 2}], n: 7}"
    error = message({"a.j2": f"\n{source}", "d/tool.yaml": "name: search for a town\n"}, manifest)
    assert f"templates/a.j2:2: {expected}" in error
    assert "values are plain data without methods" in error
    assert origin in error


# Other template languages


@pytest.mark.parametrize(
    "source",
    [
        *(
            "{{#each items}}",
            "{{/if}}",
            "{{> partial}}",
            "${{ github.ref }}",
            "{{^empty}}",
            "{{!-- note --}}",
            "{{@index}}",
        ),
        *(
            "{{ .Values.x }}",
            "{{ $json.x }}",
            "{{ a?.b }}",
            "{{ a && b }}",
            "{{{body}}}",
            "{{user name}}",
            "{% endcase %}",
        ),
        *("{% assign x = 1 %}", "{{&raw}}", "{{user name}}", "{% endcase %}"),
    ],
)
def test_braces_of_another_language_get_a_hint_that_names_raw(source: str) -> None:
    error = message({"a.j2": f"x\n{source}\n"})
    assert error.startswith("templates/a.j2:2: ")
    assert "{% raw %}" in error


# Work and memory that no other bound sees

LONG = "{% set a = 'x' * 90000 ~ 'y' %}{% set b = 'x' * 90000 ~ 'z' %}"
COLLIDING = "range(0, (2**61 - 1) * 9000, 2**61 - 1)"


@pytest.mark.parametrize(
    "source",
    [
        *(f"{LONG}{{{{ {use} }}}}" for use in ("a in [b] * 2000", "([b] * 2000).count(a)", "([b] * 2000).index(a)")),
        *(f"{{{{ ({COLLIDING}{use})|length }}}}" for use in ("|unique|list", "|list|unique|list")),
        *(f"{{{{ {use % COLLIDING} }}}}" for use in ("{}.fromkeys(%s)", "dict(%s|batch(2))", "namespace(%s|batch(2))")),
        "{% for x in range(99) %}{% set d = {"
        + ", ".join(f"{i * (2**61 - 1)}: 1" for i in range(999))
        + "} %}{% endfor %}",
        "{% for x in range(999) %}{% set d = dict.fromkeys(range(9000)) %}{% endfor %}",
    ],
)
@pytest.mark.usefixtures("few_steps")
def test_work_that_only_certain_values_cause_is_refused(source: str) -> None:
    assert f"templates/a.j2:1: {STEPS}" in message({"a.j2": source}, VALUES)


@pytest.mark.parametrize(
    "grows",
    [
        *("s.partition('x')", "s.rpartition('x')", "s.split('x', 1)", "s.rsplit('x', 1)", "s.splitlines()"),
        "s|batch(1000)|list",
    ],
)
@pytest.mark.usefixtures("few_characters")
def test_the_parts_of_a_text_count_as_texts(grows: str) -> None:
    source = "{% set s = 'ax\\n' ~ 'b' * 9000 %}{% for i in range(99) %}{% set l = %s %}{% endfor %}"
    error = message({"a.j2": source.replace("%s", grows)}, VALUES)
    assert f"a.j2:1: {FEW_CHARACTERS}" in error


@pytest.mark.parametrize("use", ["sum(attribute='a.b', start=[])", "map(attribute='a')|sum(attribute='b', start=[])"])
def test_a_sum_of_lists_counts_each_addition(use: str) -> None:
    source = f"{{{{ ([{{'a': {{'b': [1]}}}}] * 9000)|{use}|length }}}}"
    assert f"a.j2:1: {CHARACTERS}" in message({"a.j2": source})


def test_sums_are_the_same_in_every_version_of_python() -> None:
    source = "{{ ([0.1] * 10)|sum }} {{ [[1], [2]]|sum(start=[])|join }} {{ [{'a': 3}]|sum('a', 4) }}"
    assert text({"a.j2": source}) == "0.9999999999999999 12 7"
    assert "join texts by |join" in message({"a.j2": "{{ ['a']|sum(start='') }}"})


# Messages


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        *(("{% include % %}", "name of a template must be text, not "),),
        *(("{% extends % %}", "name of a template must be text, not "),),
        *(("{% import % as x %}", "name of a template must be text, not "),),
    ],
)
@pytest.mark.parametrize("name", ["1", "[1]", "s.upper", "d"])
def test_the_name_of_a_template_must_be_text(source: str, expected: str, name: str) -> None:
    error = message({"a.j2": "\n" + source.replace(" % ", f" {name} ")}, VALUES)
    assert error.startswith(f"templates/a.j2:2: the {expected}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ []|first }}", "No first item, sequence was empty"),
        ("{% for x in l %}{{ loop.previtem.name }}{% endfor %}", "there is no previous item"),
        ("{% include z %}", "the name of the template is null, or a list without names"),
        ("{% set d.a = 1 %}", "cannot assign attribute on non-namespace object"),
        ("{% set _ = l.append(1) %}", "{% set ns.items = ns.items + [item] %}"),
        ("{% do l.append(1) %}", "{% set ns.items = ns.items + [item] %}"),
        ("{{ s|upper(1, 2) }}", "TypeError: upper() takes"),
        ("{{ range(a=1) }}", "TypeError: range() got an unexpected keyword argument"),
        ("{{ s.upper(**1) }}", "TypeError: call() argument after ** must be a mapping"),
        ("{{ '%' % 1 }}", "ValueError: incomplete format"),
        ("x{#", '"{#" is not closed'),
        ("x{%- raw %}\n", '"{%- raw %}" is not closed'),
        ("{{ d['" + "x" * 9000 + "'] }}", 'xxx…" is undefined: a mapping has no such key'),
        ("{% include 'x' * 9000 %}", 'xxx…"'),
    ],
)
def test_messages_name_the_line_and_what_helps(source: str, expected: str) -> None:
    error = message({"a.j2": f"\n{source}"}, VALUES)
    assert error.startswith("templates/a.j2:2: ")
    assert expected in error
    assert len(error) < 700


def test_loops_can_be_left_early() -> None:
    source = "{% for i in l %}{% if i == 'two' %}{% continue %}{% endif %}{{ i }}{% break %}{% endfor %}"
    assert text({"a.j2": source}, VALUES) == "1"
