"""`init` writes templates and manifests that render to exactly the prompts they were made from."""

from __future__ import annotations

import pytest
from cacheunit_build.cli.scaffold import literal_template, new_project, prefix_name
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.templating.environment import DeterministicEnvironment


@given(st.text(st.sampled_from("{}%#-'\"\\ab\n ") | st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
def test_the_template_for_any_text_renders_to_that_text(text: str) -> None:
    environment = DeterministicEnvironment(lambda _name, _parent: literal_template(text))
    assert environment.get_template("t").render() == text


@given(st.from_regex(r"[A-Za-z0-9][ -~]{0,20}", fullmatch=True))
def test_the_manifest_for_any_file_name_is_valid(file_stem: str) -> None:
    name = prefix_name(file_stem)
    files = new_project({name: "text"})
    manifest = parse_manifest(files[f"prefixes/{name}.yaml"].encode(), name=name, path="p.yaml")
    assert manifest.system == (f"{name}.md.j2",)


def test_a_file_name_without_letters_and_digits_is_refused() -> None:
    with pytest.raises(CacheunitError, match='"!!!" is not usable as the name of a prefix'):
        prefix_name("!!!")
