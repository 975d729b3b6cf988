"""Builds on a dask cluster give the bytes, faults and records of builds on one machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from dask_cluster import DaskCluster
from test_projects import BUILT, PREPARED, PROJECTS, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from conftest import Project


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_worker("one", "--no-nanny")
        cluster.start_worker("two", "--no-nanny")
        yield cluster


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, cluster: DaskCluster, copy_project: Callable[[str], Project]) -> None:
    project = copy_project(name)
    if name in PREPARED:
        PREPARED[name](project.root)
    ran = project.run("build", "--scheduler", cluster.address)
    assert ran.err == (PROJECTS / name / "expected/stderr.txt").read_text()
    assert ran.code == 2


@pytest.mark.parametrize("name", BUILT)
def test_built(name: str, cluster: DaskCluster, copy_project: Callable[[str], Project]) -> None:
    project = copy_project(name)
    sources = project.files()
    ran = project.build("--scheduler", cluster.address)
    written = {path: data for path, data in project.files().items() if path not in sources}
    expected = PROJECTS / name / "expected"
    goldens = {path.relative_to(expected).as_posix(): path.read_bytes() for path in expected.rglob("*") if path.is_file()}
    goldens.pop("stdout.txt")
    assert written == goldens
