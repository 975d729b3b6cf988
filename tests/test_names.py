"""Names and links mean one thing on every system: what some system cannot store, or takes for another, is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest

from cacheunit_build import load
from cacheunit_build.cli.fast_path import unchanged_output
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.names import folded, name_problem
from cacheunit_build.domain.paths import follow_links, normal_path
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

TARGET = 'targets = ["anthropic-1024"]\n'
NFC, NFD = "\u00e5", "a\u030a"
COMMANDS = (("build",), ("check",), ("lint",), ("diff", "--against", "old"), ("explain", "--sharing"))


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("con", "reserved"), ("NUL", "reserved"), ("com1", "reserved"), ("con.txt", "reserved"), ("aux .x", "reserved"),
        ("COM\u00b9", "reserved"), ("lpt\u00b3.a", "reserved"), ("CONIN$", "reserved"), ("conout$", "reserved"),
        ("x.", "dot"), ("..", "dot"), ("x ", "space"), ("-x", "hyphen"),
        *((f"a{character}b", "not allowed on Windows") for character in '<>:"|?*\\'),
        ("a\nb", "control"), ("a\x00", "control"), ("a\x7f", "control"), ("a\x85b", "control"), ("a\u2028", "control"),
        (".git", ".git"), (".GIT", ".git"), ("git~1", ".git"), (".git ", ".git"), (".git.", ".git"),
        (".g\u200cit", ".git"), (".git::$INDEX_ALLOCATION", "not allowed on Windows"), ("caf\udce9", "UTF-8"),
        ("x" * 256, "too long"), ("\u00e5" * 128, "too long"),
    ],
)  # fmt: skip
def test_a_name_that_some_system_cannot_store_is_refused_with_the_rule(name: str, rule: str) -> None:
    assert rule in (name_problem(name) or "")


@pytest.mark.parametrize(
    "name",
    ["a", "a b", " a", "a.b", "_", "@", "a-", "console", "com", "com10", "com0", "x.con", "icon", "gitx", ".github",
     "agent@l=con", "a%3Ab", "\u00e5", "a\u030a", "\U0001f469\u200d\U0001f4bb", "x" * 255, "~", "$HOME", "#", "a;b&c"],
)  # fmt: skip
def test_a_name_that_every_system_can_store_is_allowed(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "twin"),
    [("us", "US"), (NFC, NFD), ("stra\u00dfe", "STRASSE"), ("\ufb01x", "FIX"), ("a\u200db", "ab"), ("\u1e9e", "ss"),
     ("\u03c3", "\u03c2"), ("\u212b", NFC), ("\uac00", "\u1100\u1161")],
)  # fmt: skip
def test_names_that_some_system_takes_for_one_have_one_folded_form(name: str, twin: str) -> None:
    assert folded(name) == folded(twin)


def test_different_names_have_different_folded_forms() -> None:
    names = ["a", "b", "\u00e5", "\u00e4", "o", "\u00f8", "i", "\u0131", "1", "l", "a-b", "a_b", "\u0430"]
    assert len({folded(name) for name in names}) == len(names)


@pytest.mark.parametrize("path", [".git/config", "a/.GIT/x", ".git", "a/git~1/x", ".git./x", "a/.g\u200cit"])
def test_no_path_leads_into_the_folder_of_git(path: str) -> None:
    with pytest.raises(CacheunitError, match="folder of git"):
        normal_path(path)


# Variants, targets and folders


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("{region: [us, US]}", '2: values "us" and "US" of axis "region" differ only in letter case'),
        ("{a: ['true', 'True']}", '2: values "true" and "True" of axis "a" differ only in letter case'),
        (f"{{a: [{NFC}, {NFD}]}}", f'2: axis "a" has the value "{NFC}" twice'),
        ("{region: [x, x.]}", '2: value "x." of axis "region" ends with a dot, which Windows removes'),
        ("{region: ['.', a]}", '2: value "." of axis "region" ends with a dot, which Windows removes'),
        (f"{{a: [{'x' * 200}], b: [{'y' * 60}, z]}}", "2: the name of a variant is too long: 267 bytes"),
        (f"{{a: [{NFC * 50}]}}", "2: the name of a variant is too long: 304 bytes"),
    ],
)
def test_values_whose_folders_some_system_cannot_store_are_refused(matrix: str, message: str) -> None:
    text = f"system: a\nmatrix: {matrix}\n"
    with pytest.raises(CacheunitError) as caught:
        parse_manifest(text.encode(), name="p", path="prefixes/p.yaml")
    faults = [f"{fault.line}: {unicodedata.normalize('NFC', fault.message)}" for fault in caught.value.faults]
    assert any(fault.startswith(message) for fault in faults), faults


@pytest.mark.parametrize(
    "matrix",
    ["{a: [con, nul, 'a:b', \"a\\nb\", 'x ', -x, '<']}", "{a: [x., y], b: [z]}", "{a: [\u00df, ss, \u00c9, \u00e9]}"],
)
def test_values_that_are_encoded_or_not_at_an_end_are_allowed(matrix: str) -> None:
    assert parse_manifest(f"system: a\nmatrix: {matrix}\n".encode(), name="p", path="prefixes/p.yaml").matrix


@pytest.mark.parametrize(
    ("name", "rule"), [("con", "reserved"), ("aux.1", "reserved"), ("x" * 230, "too long"), ("x:y", "cannot name")]
)
def test_a_target_whose_file_some_system_cannot_store_is_refused(name: str, rule: str) -> None:
    settings = parse_settings(None, f'[target."{name}"]\nextends = "deepseek-v4"\n'.encode())
    with pytest.raises(CacheunitError, match=rule):
        all_targets(settings)


@pytest.mark.parametrize("key", ["prefixes", "templates", "build"])
@pytest.mark.parametrize(
    ("folder", "rule"), [("nul", "reserved"), ("a/b.", "dot"), (".git/x", "git"), ("a/b:c", "Wind")]
)
def test_a_folder_of_the_settings_that_some_system_cannot_store_is_refused(key: str, folder: str, rule: str) -> None:
    with pytest.raises(CacheunitError, match=rule):
        parse_settings(None, f'{key} = "{folder}"\n'.encode())


@pytest.mark.parametrize("name", ["con", "deep/nul.x", "a:b", "x.", "-x", "a\nb", "deep /x", "x" * 245 + "/" + "y"])
def test_a_manifest_whose_artifacts_some_system_cannot_store_is_refused(project: Project, name: str) -> None:
    project.write({f"prefixes/{name}.yaml": "system: a.md.j2\n", "templates/a.md.j2": "A.\n"})
    ran = project.run("build")
    if "x" * 245 in name:  # 245 bytes fit
        assert ran.code == 0
        return
    assert (ran.code, "not possible everywhere" in ran.err) == (2, True), ran.err
    assert not project.path("build").exists()


@pytest.mark.parametrize("names", [("con.txt",), ("\u00df.txt", "SS.txt"), ("A.md", "a.txt"), ("x" * 230 + ".txt",)])
def test_init_refuses_names_that_some_system_cannot_store(project: Project, names: tuple[str, ...]) -> None:
    project.write(dict.fromkeys(names, "A prompt.\n"))
    ran = project.run("init", *names)
    assert (ran.code, "prefix" in ran.err) == (2, True), ran.err
    assert not project.path("prefixes").exists()


# Names on disk in another normal form


def sources(form: str) -> dict[str, str]:
    """Returns a project whose every name has an å, in a normal form on disk; the sources name it composed."""
    name = NFC if form == "NFC" else NFD
    composed = {
        "cacheunit.toml": f'prefixes = "p{NFC}"\ntemplates = "t{NFC}"\nbuild = "b{NFC}"\n{TARGET}',
        f"p{name}/{name}/m{name}.yaml": f"system: {NFC}/s{NFC}.md.j2\ndata: {{d: d{NFC}/{NFC}.yaml}}\n"
        f"tools: [{NFC}.yaml]\n",
        f"t{name}/{name}/s{name}.md.j2": f"{{% include 'i{NFC}.md.j2' %}} {{{{ d.text }}}}\n",
        f"t{name}/i{name}.md.j2": "Included.\n",
        f"d{name}/{name}.yaml": "text: Data.\n",
        f"{name}.yaml": "name: look_up\ndescription: Looks up.\ninput_schema: {type: object, properties: {}}\n",
    }
    return dict(composed)


def artifacts(project: Project) -> dict[str, bytes]:
    return {unicodedata.normalize("NFC", path): data for path, data in project.files().items() if path[0] in "bc"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_files_are_found_by_the_name_on_disk_in_any_normal_form(project: Project, form: str) -> None:
    project.write(sources(form))
    on_disk = NFC if form == "NFC" else NFD
    project.path(f"b{on_disk}").mkdir()
    project.build()
    assert project.drift() == []
    assert len(list(project.root.glob("b*"))) == 1, "the existing folder is used"
    assert "unchanged" in project.build().out
    assert project.run("lint", "--select", "CU502").code == 0
    name = f"{NFC}/m{NFC}"
    for spelled in (name, unicodedata.normalize("NFD", name)):
        assert load(spelled, root=str(project.root)).text == "Included.\n Data.\n"
        assert project.run("show", spelled).code == 0
    project.write({f"d{on_disk}/{on_disk}.yaml": "text: Other.\n"})
    assert project.drift() == [("changed", name)]


def test_both_normal_forms_of_a_project_are_the_same_project(project: Project, tmp_path: Path) -> None:
    project.write(sources("NFD"))
    project.build()
    other = type(project)(root=tmp_path / "other", cacheunit=project.cacheunit)
    other.write(sources("NFC"))
    other.build()
    assert artifacts(project) == artifacts(other)
    assert project.run("diff", "--against", other.root).code == 0
    # Artifacts that were copied from a system that decomposes names.
    shutil.move(other.path(f"b{NFC}"), other.path(f"b{NFD}"))
    assert other.drift() == []
    assert load(f"{NFC}/m{NFC}", root=str(other.root)).text.startswith("Included.")
    assert other.build().out.count("unchanged") >= 1
    assert not other.path(f"b{NFC}").exists()


def git(project: Project, *arguments: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "core.precomposeUnicode=false")
    subprocess.run(["git", *settings, *arguments], cwd=project.root, check=True, capture_output=True)


def test_a_commit_whose_names_are_decomposed_is_the_same_project(project: Project) -> None:
    project.write(sources("NFD"))
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    for path in sorted(project.root.glob("[!.]*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project.write(sources("NFC"))
    ran = project.run("-q", "diff")
    assert (ran.code, ran.err) == (0, "")


TWINS = {
    "manifests": ("prefixes/{}.yaml", "system: a.md.j2\n"),
    "folders of manifests": ("prefixes/{}/x.yaml", "system: a.md.j2\n"),
    "unused templates": ("templates/{}.md.j2", "A.\n"),
    "folders of templates": ("templates/{}/a.md.j2", "A.\n"),
    "artifacts": ("build/{}/anthropic-1024.txt", "A.\n"),
    "data": ("data/{}.yaml", "A.\n"),
}


def twin_project(project: Project) -> None:
    data = f"data: {{x: data/{NFC}.yaml}}\n"
    project.write(
        {
            "cacheunit.toml": TARGET,
            "prefixes/z.yaml": f"system: z.md.j2\n{data}",
            "templates/z.md.j2": "Z.\n",
            f"data/{NFC}.yaml": "x: 1\n",
            "templates/a.md.j2": "A.\n",
        }
    )
    project.build()
    shutil.copytree(project.root, project.root / "old")


@pytest.mark.parametrize("kind", TWINS)
def test_two_names_that_differ_only_in_their_normal_form_are_refused_and_both_named(
    project: Project, kind: str
) -> None:
    twin_project(project)
    path, text = TWINS[kind]
    project.write({path.format(NFC): text, path.format(NFD): text})
    for command in COMMANDS:
        ran = project.run(*command)
        if kind == "artifacts" and command[0] not in ("build", "check"):
            continue
        assert ran.code == 2, (command, ran.out)
        assert "two names differ only in their normal form" in ran.err
        assert "\\xe5" in ran.err
        assert "a\\u030a" in ran.err


CASE_TWINS = {
    "a manifest": "prefixes/Z.yaml",
    "a folder of manifests": "Prefixes/x",
    "a template": "templates/Z.md.j2",
    "a folder of templates": "Templates/x",
    "a data file": f"data/{NFC.upper()}.yaml",
    "a folder of data": "Data/x",
}


@pytest.mark.parametrize("kind", CASE_TWINS)
def test_a_source_beside_one_that_differs_only_in_letter_case_is_refused(project: Project, kind: str) -> None:
    """Nothing was changed since the build, so the answer must not come from the record or the stamp of that build."""
    twin_project(project)
    assert unchanged_output(str(project.root), ["check"]) is not None
    before = project.files("build")
    project.write({CASE_TWINS[kind]: "system: a.md.j2\n"})
    twin = CASE_TWINS[kind].removesuffix("/x")
    assert unchanged_output(str(project.root), ["check"]) is None
    for command in COMMANDS:
        ran = project.run(*command)
        assert (ran.code, twin in ran.err, "only in letter case" in ran.err) == (2, True, True), (command, ran.err)
    assert project.files("build") == before


def test_a_file_that_is_absent_and_differs_from_another_in_letter_case_does_not_hinder_reuse(project: Project) -> None:
    twin_project(project)
    project.write({"templates/z.md.j2": "{% include ['Old.md.j2', 'a.md.j2'] %}\n", "templates/old.md.j2": "Old.\n"})
    project.build()
    assert "1 unchanged" in project.build().out
    assert project.drift() == []


# Names that are not UTF-8


@pytest.mark.parametrize("folder", ["prefixes", "prefixes/deep", "templates", "build", "build/z"])
@pytest.mark.parametrize("name", [b"caf\xe9.yaml", b"\xff\xfe.yaml", b"\xed\xa0\x80.yaml"])
def test_a_name_that_is_not_utf_8_is_a_fault(project: Project, folder: str, name: bytes) -> None:
    twin_project(project)
    file = os.path.join(os.fsencode(project.path(folder)), name)  # noqa: PTH118 - bytes
    os.makedirs(os.path.dirname(file), exist_ok=True)  # noqa: PTH103, PTH120 - bytes
    with open(file, "wb") as handle:  # noqa: PTH123 - bytes
        handle.write(b"system: a.md.j2\n")
    for command in COMMANDS:
        if folder.startswith("build") and command[0] not in ("build", "check"):
            continue
        ran = project.run(*command)
        assert (ran.code, "the name is not UTF-8" in ran.err, f"{folder}/" in ran.err) == (2, True, True), command
    assert project.check()["errors"][0]["hint"] == "rename it"


# Locales

LOCALES = {
    "ascii": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "ascii streams": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "latin-1 streams": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1:strict"},
    "C": {"LC_ALL": "C"},
}


def environment(**changes: str) -> dict[str, str]:
    hidden = ("LC_", "LANG", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | changes


@pytest.mark.slow
@pytest.mark.parametrize("locale", [*LOCALES, "latin-1"])
def test_the_result_is_the_same_in_every_locale(project: Project, tmp_path: Path, locale: str) -> None:
    project.write({"cacheunit.toml": TARGET, f"prefixes/{NFC}.yaml": f"system: {NFC}.md.j2\nmatrix: {{l: [\u00e9]}}\n"})
    project.write({f"templates/{NFC}.md.j2": "Gr\u00f6\u00dfe {{ l }}\n", f"templates/{NFC} unused.md.j2": ""})
    changes = LOCALES.get(locale, {})
    if locale == "latin-1":
        changes = {"LC_ALL": "sv_SE.ISO-8859-1", "LOCPATH": str(tmp_path)}
        made = shutil.which("localedef") and subprocess.run(
            ["localedef", "-i", "sv_SE", "-f", "ISO-8859-1", str(tmp_path / changes["LC_ALL"])],
            capture_output=True, check=False,
        ).returncode == 0  # fmt: skip
        if not made:
            pytest.skip("the locale cannot be generated here")
    program = [sys.executable, "-m", "cacheunit_build", "-C", str(project.root)]
    ran = subprocess.run([*program, "build"], env=environment(**changes), capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert f"{NFC}@l=\u00e9" in ran.stdout.decode()
    assert project.drift() == []
    linted = subprocess.run([*program, "lint"], env=environment(**changes), capture_output=True, check=False)
    assert f"templates/{NFC} unused.md.j2" in linted.stdout.decode()
    script = "from cacheunit_build import load; print(ascii(load('\\xe5', root='.', l='\\xe9').text))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], env=environment(**changes), cwd=project.root, capture_output=True, check=False
    )
    assert loaded.stdout.decode().strip() == ascii("Gr\u00f6\u00dfe \u00e9\n"), loaded.stderr.decode()


@pytest.mark.slow
def test_arguments_and_roots_that_are_not_utf_8_are_no_bugs(project: Project) -> None:
    root = os.fsencode(project.root) + b"/caf\xe9"
    os.makedirs(root + b"/prefixes")  # noqa: PTH103 - bytes
    program = [os.fsencode(sys.executable), b"-m", b"cacheunit_build", b"-C", root]
    for arguments, code in (([b"build"], 2), ([b"init"], 0), ([b"build"], 0), ([b"check"], 0), ([b"build", b"\xff"], 2),
                            ([b"check", b"\xff", b"--format", b"json"], 2), ([b"init", b"\xff.txt"], 2),
                            ([b"diff", b"--against", b"\xff"], 2), ([b"diff", b"--against", root], 0)):  # fmt: skip
        ran = subprocess.run([*program, *arguments], capture_output=True, check=False)
        assert (arguments, ran.returncode) == (arguments, code), ran.stderr
        assert b"Traceback" not in ran.stderr


# Links


def link(project: Project, path: str, target: str) -> None:
    project.path(path).parent.mkdir(parents=True, exist_ok=True)
    project.path(path).symlink_to(target)


def move_and_link(project: Project, path: str, elsewhere: str) -> None:
    """Moves a folder, and puts a link to it in its place."""
    (project.root / elsewhere).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(project.path(path), project.root / elsewhere)
    link(project, path, os.path.relpath(project.root / elsewhere, project.path(path).parent))


LINKED_FOLDERS = {
    "manifests": ("prefixes", "shared/prefixes"),
    "a folder of manifests": ("prefixes/deep", "shared/deep"),
    "templates": ("templates", "shared/templates"),
    "a folder of templates": ("templates/parts", "shared/parts"),
    "a folder of templates outside": ("templates/parts", "../outside"),
    "an unused folder of templates": ("templates/unused", "shared/unused"),
    "data": ("data", "shared/data"),
    "the build folder": ("build", "shared/build"),
    "the build folder outside": ("build", "../outside"),
    "a folder of artifacts": ("build/deep", "shared/built"),
}


def linked_project(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": TARGET,
            "prefixes/deep/p.yaml": "system: p.md.j2\ndata: {d: data/d.yaml}\n",
            "templates/p.md.j2": "{% include 'parts/x.md.j2' %}{{ d }}\n",
            "templates/parts/x.md.j2": "X.\n",
            "templates/unused/README.md": "For people.\n",
            "data/d.yaml": "one\n",
        }
    )
    project.build()
    shutil.copytree(project.root, project.root / "old")


@pytest.mark.parametrize("kind", LINKED_FOLDERS)
def test_a_linked_folder_is_refused_by_every_command(project: Project, kind: str) -> None:
    linked_project(project)
    folder, elsewhere = LINKED_FOLDERS[kind]
    move_and_link(project, folder, elsewhere)
    before = project.snapshot()
    for command in COMMANDS:
        if folder.startswith("build") and command[0] not in ("build", "check"):
            continue
        ran = project.run(*command)
        expected = f"error: {folder}: a link to a folder is not followed"
        assert (ran.code, expected in ran.err) == (2, True), (command, ran.out, ran.err)
        assert "hint: " in ran.err
    kept = {path: entry for path, entry in project.snapshot().items() if not path.startswith(".cacheunit")}
    assert kept == {path: entry for path, entry in before.items() if not path.startswith(".cacheunit")}


@pytest.mark.parametrize("kind", [kind for kind in LINKED_FOLDERS if "build" not in kind and "artifacts" not in kind])
def test_a_linked_folder_in_a_commit_is_refused_as_on_disk(project: Project, kind: str) -> None:
    linked_project(project)
    folder, elsewhere = LINKED_FOLDERS[kind]
    shutil.rmtree(project.path("old"))
    move_and_link(project, folder, elsewhere)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    project.path(folder).unlink()
    shutil.move(project.root / elsewhere, project.path(folder))
    ran = project.run("diff")
    if "unused" in kind or "outside" not in kind:
        assert f"error: {folder}: a link to a folder is not followed" in ran.err
    else:
        assert "templates/parts" in ran.err
    assert ran.code in (0, 1)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_file_that_is_a_link_inside_of_the_project_is_followed_everywhere(project: Project, absolute: bool) -> None:
    linked_project(project)
    for path, target in (("templates/p.md.j2", "shared/p"), ("data/d.yaml", "shared/d"), ("prefixes/deep/p.yaml", "m")):
        (project.root / target).parent.mkdir(exist_ok=True)
        shutil.move(project.path(path), project.root / target)
        relative = os.path.relpath(project.root / target, project.path(path).parent)
        link(project, path, str(project.root / target) if absolute else f"./{relative}")
    link(project, "shared/chain", "../data/d.yaml")
    project.edit("prefixes/deep/p.yaml", "data/d.yaml", "shared/chain")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    project.build()
    assert project.drift() == []
    assert project.run("lint", "--ignore", "CU4").code == 0
    assert project.run("diff", "--against", "HEAD").code == 0
    assert project.run("diff", "--against", project.path("old")).code in (0, 1)
    project.write({"m": "system: p.md.j2\ndata: {d: data/d.yaml}\nvariables: {y: 1}\n"})
    assert project.run("diff", "--against", "HEAD").code in (0, 1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("none.yaml", 'there is no file "data/d.yaml"'),
        ("d.yaml", "is a link to itself"),
        ("../data/d.yaml", "is a link to itself"),
        ("../../outside.yaml", "leads out of the project through a link"),
        ("/etc/hostname", "leads out of the project through a link"),
        ("../old", 'there is no file "data/d.yaml"'),
        ("../loop/d.yaml", "loop: a link to a folder is not followed"),
        ("../inside/d.yaml", "inside: a link to a folder is not followed"),
        ("../inside/../old/data/d.yaml", "inside: a link to a folder is not followed"),
    ],
)
def test_a_link_that_leads_nowhere_is_one_fault(project: Project, target: str, message: str) -> None:
    linked_project(project)
    (project.root.parent / "outside.yaml").write_bytes(b"secret\n")
    link(project, "loop", "loop")
    link(project, "inside", "old/data")
    project.path("data/d.yaml").unlink()
    link(project, "data/d.yaml", target)
    for command in COMMANDS:
        ran = project.run(*command)
        assert (ran.code, message in ran.err) == (2, True), (command, ran.err)
        assert "secret" not in ran.err


def test_a_project_root_that_is_a_link_is_followed(project: Project, tmp_path: Path) -> None:
    linked_project(project)
    (tmp_path / "alias").symlink_to(project.root)
    ran = project.cacheunit("-C", tmp_path / "alias", "check")
    assert (ran.code, ran.err) == (0, "")
    assert load("deep/p", root=str(tmp_path / "alias")).text


@pytest.mark.parametrize(
    ("path", "links", "result"),
    [
        ("a/b", {}, "a/b"),
        ("a/b", {"a/b": "c"}, "a/c"),
        ("a/b", {"a/b": "../c/./d", "c/d": "e"}, "c/e"),
        ("a/b", {"a/b": "x/../y"}, "a/y"),
        ("a/b", {"a/b": ".."}, "a/b"),
    ],
)
def test_links_to_files_are_followed(path: str, links: dict[str, str], result: str) -> None:
    assert follow_links(path, links.get) == result


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"a": "c"}, "a: a link to a folder"),
        ({"a/b": "x/y/../z", "a/x": "w"}, "a/x: a link to a folder"),
        ({"a/b": "../../x"}, "out of the project"),
        ({"a/b": "/x"}, "out of the project"),
        ({"a/b": "c", "a/c": "b"}, "link to itself"),
        ({"a/b": "../../../../x"}, "out of the project"),
    ],
)
def test_links_that_are_not_followed_are_faults(links: dict[str, str], message: str) -> None:
    with pytest.raises(CacheunitError, match=message):
        follow_links("a/b", links.get)


def test_a_link_that_git_checked_out_as_text_is_named(project: Project) -> None:
    linked_project(project)
    shutil.move(project.path("data/d.yaml"), project.path("data/e.yaml"))
    link(project, "data/d.yaml", "e.yaml")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    git(project, "config", "core.symlinks", "false")
    project.path("data/d.yaml").unlink()
    git(project, "checkout", "--", "data/d.yaml")
    assert project.read("data/d.yaml") == b"e.yaml"
    ran = project.run("diff")
    assert (ran.code, "note: data/d.yaml is a link in HEAD" in ran.err) == (1, True), ran.err
