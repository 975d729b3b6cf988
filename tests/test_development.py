"""`load(…, dev=True)` gives a program what its sources say now, and says whether that is what is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import CacheunitError, load
from cacheunit_build.runtime import loading

if TYPE_CHECKING:
    from conftest import Project

USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project with a prefix of two variants."""
    project.write(
        {
            "prefixes/a.yaml": "system: a.md\ntargets: [deepseek-v4, openai]\nmatrix: {plan: [free, pro]}\n",
            "templates/a.md": "You serve plan {{ plan }}.\n",
            "cacheunit.toml": "",
        }
    )
    return project


def developed(project: Project, **others: Any) -> Any:  # noqa: ANN401 - a prefix
    return load("a", **{"target": "deepseek-v4", "root": str(project.root), "dev": True, "plan": "free", **others})


def test_unchanged_sources_give_the_locked_prefix(shop: Project) -> None:
    shop.build()
    prefix = developed(shop)
    assert prefix.state == "locked"
    assert prefix is load("a", target="deepseek-v4", root=str(shop.root), plan="free")


def test_changed_sources_give_what_a_build_would_lock_and_write_nothing(shop: Project) -> None:
    shop.build()
    before = {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()}
    for text in ("First change, plan {{ plan }}.\n", "Second change, plan {{ plan }}.\n"):
        shop.write({"templates/a.md": text})
        before[shop.root / "templates/a.md"] = text.encode()
        prefix = developed(shop)
        assert prefix.state == "development"
        assert "not locked" in repr(prefix)
        assert prefix.text.startswith(text[:12])
        assert prefix.request(USER)["messages"][0]["content"] == prefix.text
        assert {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()} == before
    shop.build()
    built = load("a", target="deepseek-v4", root=str(shop.root), plan="free")
    assert (built.tokens, built.fingerprint) == (prefix.tokens, prefix.fingerprint)
    assert developed(shop).state == "locked"


def test_a_reverted_change_is_the_locked_prefix_again(shop: Project) -> None:
    shop.build()
    shop.edit("templates/a.md", "serve", "help")
    assert developed(shop).state == "development"
    shop.edit("templates/a.md", "help", "serve")
    assert developed(shop).state == "locked"


def test_a_prefix_that_was_never_built_is_compiled(shop: Project) -> None:
    prefix = developed(shop)
    assert (prefix.state, prefix.text) == ("development", "You serve plan free.\n")
    shop.build()
    shop.write({"prefixes/b.yaml": "system: a.md\nvariables: {plan: none}\n"})
    assert load("b", root=str(shop.root), dev=True).state == "development"


def test_an_edited_artifact_is_not_used(shop: Project) -> None:
    shop.build()
    shop.edit("build/a@plan=free/deepseek-v4.txt", "serve", "harm")
    prefix = developed(shop)
    assert (prefix.state, prefix.text[:9]) == ("development", "You serve")


def test_a_changed_setting_and_a_new_included_file_count_as_changes(shop: Project) -> None:
    shop.write({"templates/a.md": "{% include ['b.md', 'c.md'] %}", "templates/c.md": "C.\n"})
    shop.build()
    assert developed(shop).text.startswith("C.")
    shop.write({"templates/b.md": "B.\n"})
    assert developed(shop).text.startswith("B.")
    (shop.root / "templates/b.md").unlink()
    assert developed(shop).text.startswith("C.")
    shop.write({"cacheunit.toml": 'targets = ["openai"]\n'})
    assert developed(shop).state == "locked"  # the manifest names its targets


def test_production_refuses_it(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.build()
    monkeypatch.setenv("CACHEUNIT_ENV", "production")
    with pytest.raises(CacheunitError, match='not allowed where CACHEUNIT_ENV is "production"'):
        developed(shop)
    assert load("a", target="deepseek-v4", root=str(shop.root), plan="free").state == "locked"


def test_a_missing_compiler_is_an_error(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.build()

    def without_click(name: str) -> Any:  # noqa: ANN401 - a module
        raise ModuleNotFoundError("No module named 'click'", name=name)

    monkeypatch.setattr(loading, "import_module", without_click)
    with pytest.raises(CacheunitError, match="needs the compiler: No module named 'click'"):
        developed(shop)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"plan": "fre"}, 'there is no variant "a@plan=fre"'),
        ({"target": None}, "has several targets"),
        ({"target": "deepsek-v4"}, "deepsek-v4"),
    ],
)
def test_a_wrong_name_is_an_error(shop: Project, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CacheunitError, match=message):
        developed(shop, **arguments)


def test_a_prefix_with_variants_names_its_axes(shop: Project) -> None:
    with pytest.raises(CacheunitError, match='prefix "a" has variants: set plan='):
        load("a", root=str(shop.root), dev=True)


def test_a_fault_in_the_sources_is_raised_with_its_place(shop: Project) -> None:
    shop.build()
    shop.write({"templates/a.md": "{{ plam }}\n"})
    with pytest.raises(CacheunitError, match=r"templates/a\.md:1: ") as caught:
        developed(shop)
    assert "plan" in str(caught.value)
