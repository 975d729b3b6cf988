"""Opens a project for a dask cluster: what is sent to its workers, and the loaders that they use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cacheunit_build.adapters.cluster.cluster_workers import ClusterWorkers, SharedSources
from cacheunit_build.domain.file_names import COUNTS_FILE, SETTINGS_FILES
from cacheunit_build.domain.workers import OpenedInputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.protocols import RecordStore, WorkerFiles
    from cacheunit_build.domain.workers import WorkerInputs, Workers


def cluster_workers(
    address: str, files: Callable[[], WorkerFiles], records: RecordStore, *, no_project_code: bool
) -> Workers:
    """Returns the workers of a cluster.

    Args:
        address: the address of the scheduler.
        files: opens the files of the project.
        records: what the last build recorded.
        no_project_code: whether the command line refuses the Python encoders that a project names.
    """
    open_inputs = partial(_open_on_worker, no_project_code=no_project_code)
    return ClusterWorkers(address, files, partial(_shared_sources, records), open_inputs)


def _shared_sources(records: RecordStore, files: WorkerFiles) -> SharedSources:
    from cacheunit_build.parsing.settings import parse_settings

    settings = parse_settings(*map(files.read, SETTINGS_FILES))
    record = records.last_record()
    return SharedSources(
        templates=settings.templates,
        outputs=settings.build,
        files=(*SETTINGS_FILES, COUNTS_FILE),
        inputs={} if record is None else {path: prefix.inputs.keys() for path, prefix in record.prefixes.items()},
    )


def _open_on_worker(files: WorkerFiles, *, no_project_code: bool) -> WorkerInputs:
    """Returns the loaders of a worker, which writes nothing, not even a cache."""
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.cli.project_code import encoder_loader
    from cacheunit_build.targets.loader import known_vocabularies

    encoder = encoder_loader(files, refused=no_project_code)
    return OpenedInputs(files=files, tokenizers=LocalTokenizerLoader(files.read, known_vocabularies()), encoder=encoder)
