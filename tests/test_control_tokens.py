"""Content that contains a control token is refused with its line, or allowed and then counted both ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import default_vocabulary, reference

if TYPE_CHECKING:
    from conftest import Project

USER = "<｜User｜>"
ANSWER = "<｜Assistant｜>"
BEGIN = "<｜begin▁of▁sentence｜>"

FRAMED = """\
[target.framed]
extends = "deepseek-v4"
frame = {chat_template = "model/chat.jinja"}
"""
CHAT = "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def files(**more: str) -> dict[str, str]:
    """Returns a project with one prefix; in the keys, two underscores are a slash and one is a dot."""
    base = {"prefixes__a_yaml": "system: a.md.j2\n", "templates__a_md_j2": "Be kind.\n"}
    return {key.replace("__", "/").replace("_", "."): text for key, text in {**base, **more}.items()}


def framed(manifest: str, **more: str) -> dict[str, str]:
    """Returns a project with one prefix for a target whose frame includes tools and examples."""
    toml = f'targets = ["framed"]\n{FRAMED}'
    return files(prefixes__a_yaml=manifest, cacheunit_toml=toml, model__chat_jinja=CHAT, **more)


WHERE: dict[str, tuple[dict[str, str], str]] = {
    "template": (files(templates__a_md_j2=f"One.\n\nTwo {USER} three.\n"), "templates/a.md.j2:3"),
    "included template": (
        files(templates__a_md_j2="One.\n{% include 'b.md.j2' %}\n", templates__b_md_j2=f"Two.\n{USER}\n"),
        "templates/b.md.j2:2",
    ),
    "second template of the system text": (
        files(prefixes__a_yaml="system: [a.md.j2, b.md.j2]\n", templates__b_md_j2=f"Two.\n\n\n{USER}\n"),
        "templates/b.md.j2:4",
    ),
    "JSON data": (
        files(
            prefixes__a_yaml="system: a.md.j2\ndata: {faq: faq.json}\n",
            templates__a_md_j2="{{ faq.a[1] }}\n",
            faq_json=f'{{"a": [\n"one",\n"two {USER}"]}}',
        ),
        "faq.json:3",
    ),
    "YAML data": (
        files(
            prefixes__a_yaml="system: a.md.j2\ndata: {faq: faq.yaml}\n",
            templates__a_md_j2="{{ faq[0].a }}\n",
            faq_yaml=f"- q: one\n  a: |\n    two\n    {USER}\n",
        ),
        "faq.yaml:4",
    ),
    "text data": (
        files(
            prefixes__a_yaml="system: a.md.j2\ndata: {note: note.txt}\n",
            templates__a_md_j2="{{ note }}\n",
            note_txt=f"one\r\n{USER}\r\n",
        ),
        "note.txt:2",
    ),
    "variable": (
        files(
            prefixes__a_yaml=f'system: a.md.j2\nvariables:\n  shop: Acme\n  motto: "Buy {USER}"\n',
            templates__a_md_j2="{{ shop }}: {{ motto }}\n",
        ),
        "prefixes/a.yaml:4",
    ),
    "variable below a comment": (
        files(
            prefixes__a_yaml=f"system: a.md.j2\n\n# what we say\n\nvariables:\n  motto: {USER}\n",
            templates__a_md_j2="{{ motto }}\n",
        ),
        "prefixes/a.yaml:6",
    ),
    "heading in an example": (
        framed(f"system: a.md.j2\nexamples:\n  - role: user\n    text: |\n      # {USER}\n      Hi\n"),
        "prefixes/a.yaml:5",
    ),
    "text data with a brace and a hash": (
        files(
            prefixes__a_yaml="system: a.md.j2\ndata: {note: note.md}\n",
            templates__a_md_j2="{{ note }}\n",
            note_md=f"{{# one\n{USER}\n#}}\n",
        ),
        "note.md:2",
    ),
    "value of the matrix": (
        files(
            prefixes__a_yaml=f'system: a.md.j2\nmatrix:\n  plan:\n    - free\n    - "{USER}"\n',
            templates__a_md_j2="{{ plan }}\n",
        ),
        "prefixes/a.yaml:5",
    ),
    "description of a tool": (
        framed("system: a.md.j2\ntools: [t.json]\n", t_json=f'{{"name": "t",\n"description": "{USER}"}}'),
        "t.json:2",
    ),
    "schema of a tool": (
        framed(
            "system: a.md.j2\ntools: [t.yaml]\n",
            t_yaml=f"name: t\nparameters:\n  properties:\n    p: {{enum: [a, '{USER}']}}\n",
        ),
        "t.yaml:4",
    ),
    "text of an example": (
        framed(f"system: a.md.j2\nexamples:\n  - role: user\n    text: |\n      Hi\n      {USER}\n"),
        "prefixes/a.yaml:6",
    ),
    "template of an example": (
        framed("system: a.md.j2\nexamples:\n  - {role: user, template: b.md.j2}\n", templates__b_md_j2=f"Hi\n{USER}"),
        "templates/b.md.j2:2",
    ),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_control_token_is_refused_with_the_line_that_contains_it(project: Project, where: str) -> None:
    sources, place = WHERE[where]
    project.write(sources)
    before = project.files()
    ran = project.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {place}: ")
    assert f"the text contains the control token {USER}\n" in ran.err
    assert 'set "special_tokens: allow"' in ran.err
    assert project.files() == before
    report = project.run("check", "--format", "json").json
    assert [f"{error['path']}:{error['line']}" for error in report["errors"]] == [place]


@pytest.mark.parametrize("where", WHERE)
def test_control_tokens_can_be_allowed_wherever_they_are(project: Project, where: str) -> None:
    sources = {**WHERE[where][0]}
    sources["prefixes/a.yaml"] += "special_tokens: allow\n"
    project.write(sources)
    project.build()
    artifacts = project.run("explain", "a", "--format", "json").json["artifacts"]
    (spelling,) = (artifact for artifact in artifacts if artifact["literal"] is not None)
    assert spelling["literal"] > spelling["tokens"]
    assert f"{spelling['literal']:,} with control tokens read as characters" in project.run("explain", "a").out


def test_refusing_is_the_default_and_can_be_stated(project: Project) -> None:
    project.write(files(prefixes__a_yaml="system: a.md.j2\nspecial_tokens: refuse\n", templates__a_md_j2=f"{USER}\n"))
    assert project.run("build").code == 2
    project.edit("prefixes/a.yaml", "refuse", "sometimes")
    ran = project.run("build")
    assert (ran.code, "prefixes/a.yaml:2: \"special_tokens\" must be 'refuse' or 'allow'" in ran.err) == (2, True)


def test_each_control_token_is_reported_once_at_its_first_line(project: Project) -> None:
    project.write(files(templates__a_md_j2=f"{ANSWER}\n{USER}\n{ANSWER}{USER}\n"))
    errors = project.run("build", "--format", "json").json["errors"]
    assert [(error["line"], error["message"].rpartition(" ")[2]) for error in errors] == [(1, ANSWER), (2, USER)]


def test_a_token_that_no_source_contains_whole_is_reported_at_the_system_text(project: Project) -> None:
    project.write(
        files(
            prefixes__a_yaml="description: x\nsystem: a.md.j2\n",
            templates__a_md_j2="{{ '<｜' ~ 'User' ~ '｜>' }} three.\n",
        )
    )
    ran = project.run("build")
    assert (ran.code, ran.err.startswith("error: prefixes/a.yaml:2: ")) == (2, True)


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(
            files(
                prefixes__a_yaml=f"description: never write {USER}\nsystem: a.md.j2\n",
                templates__a_md_j2=f"One.\n{USER}\n",
            ),
            id="named in the description of the manifest",
        ),
        pytest.param(
            files(templates__a_md_j2=f"{{# never {USER} #}}\n{USER}\n"), id="named in a comment of the template"
        ),
    ],
)
def test_a_line_that_is_not_rendered_is_not_reported(project: Project, sources: dict[str, str]) -> None:
    project.write(sources)
    assert project.run("build").err.startswith("error: templates/a.md.j2:2: ")


def test_a_control_token_that_is_not_rendered_is_not_refused(project: Project) -> None:
    project.write(
        files(
            prefixes__a_yaml=f"description: never write {USER}\nsystem: a.md.j2\nvariables: {{unused: '{USER}'}}\n",
            templates__a_md_j2=f"{{# {USER} #}}Be kind.{{% if false %}}{USER}{{% endif %}}\n",
        )
    )
    project.build()


@pytest.mark.parametrize(
    "text", ["<|User|>", "<｜ User｜>", "<｜User ｜>", "＜｜User｜＞", "<｜user｜>", "<| im_start |>", "<s>"]
)
def test_text_that_only_resembles_a_control_token_is_ordinary_text(project: Project, text: str) -> None:
    project.write(files(templates__a_md_j2=f"{text}\n"))
    project.build()
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    assert explained["literal"] is None
    assert "with control tokens read as characters" not in project.run("explain", "a").out


def test_control_tokens_of_the_frame_itself_are_allowed(project: Project) -> None:
    project.write(files())
    project.build()
    assert USER in project.run("show", "a", "--tokens").out


def test_an_estimate_has_no_control_tokens_and_refuses_none(project: Project) -> None:
    text = f"{USER} and <|im_end|> and <|endoftext|>\n"
    project.write(files(prefixes__a_yaml="system: a.md.j2\ntargets: [kimi, anthropic-512]\n", templates__a_md_j2=text))
    project.build()
    for explained in project.run("explain", "a", "--format", "json").json["artifacts"]:
        assert (explained["counted"], explained["literal"]) == ("estimate", None)


def test_a_control_token_is_refused_only_for_targets_that_have_it(project: Project) -> None:
    manifest = "system: a.md.j2\ntargets: [deepseek-v4, kimi]\n"
    project.write(files(prefixes__a_yaml=manifest, templates__a_md_j2=f"{USER}\n"))
    errors = project.run("build", "--format", "json").json["errors"]
    assert [error["message"].split(":")[0] for error in errors] == ["a for deepseek-v4"]
    assert project.run("build", "--target", "kimi").code == 0


@pytest.mark.slow
def test_both_counts_equal_those_of_the_reference(project: Project) -> None:
    text = f"A turn begins with {USER}, is answered after {ANSWER}, and again {USER}."
    project.write(
        files(prefixes__a_yaml="system: a.md.j2\npadding: off\nspecial_tokens: allow\n", templates__a_md_j2=text)
    )
    project.build()
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    whole = BEGIN + text + USER
    assert explained["tokens"] == len(reference().encode(whole, add_special_tokens=False).ids)
    bare = json.loads(reference().to_str())
    literal = type(reference()).from_str(json.dumps({**bare, "added_tokens": []}))
    assert explained["literal"] == 2 + len(literal.encode(text, add_special_tokens=False).ids)
    assert explained["literal"] == 2 + len(default_vocabulary().encode(text, literal=True))


def test_count_names_the_control_tokens_of_a_text_and_counts_it_both_ways(project: Project) -> None:
    ran = project.run("count", "--target", "deepseek-v4", "--format", "json", stdin=f"a {USER} b {USER}".encode())
    assert ran.json["control_tokens"] == [USER]
    assert ran.json["literal"] > ran.json["tokens"]
    assert project.run("count", "--format", "json", stdin=b"a b").json["literal"] is None
