"""Waits for changes to a project's sources: by file system events or, where none arrive, by polling.

Folders are watched, not files, so that a save by rename is noticed like any other save. An event only means that a
build may be due; whether anything changed is decided by content, in the build. A file that is being written is waited
for: until it is closed, where the system reports that, else until nothing happens for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from cacheunit_build.adapters.storage.discovery import DiskNames, parent_folders
from cacheunit_build.adapters.storage.file_stat import Stat, stat_of
from cacheunit_build.adapters.system.open_files import OpenFiles
from cacheunit_build.adapters.system.watched_names import is_editor_file, on_disk, symlink_folders, walk_visible
from cacheunit_build.domain.file_names import TEMPORARY
from cacheunit_build.domain.names import composed
from cacheunit_build.domain.protocols import WatchedPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from watchdog.observers.api import BaseObserver, ObservedWatch

SETTLE_SECONDS = 0.05
"""How long no event may arrive until a burst of changes counts as complete."""

MAX_BURST_SECONDS = 1.0
"""How long a burst may last at most: files that change or are open all the time are built nevertheless."""

EMPTY_SECONDS = 0.5
"""How long to wait for the content of a file that became empty."""

WRITE_CHECK_SECONDS = 0.01
"""How often to look whether a file that is being written was closed."""

RESCAN_SECONDS = 5.0
"""How long to wait for events before the files are compared without one."""

POLL_SECONDS = 0.5
"""How long to wait between two scans when polling."""

_PROBE = ".cacheunit-probe."
PROBE_TIMEOUT_SECONDS = 2.0
"""How long to wait for the event of a file written to find out whether events arrive at all."""

_CHANGE_EVENTS = frozenset({"created", "modified", "moved", "deleted", "closed"})  # not "opened", "closed_no_write"
_LIMITS = {
    errno.ENOSPC: "the limit on inotify watches is reached (fs.inotify.max_user_watches)",
    errno.EMFILE: "the limit on inotify instances is reached (fs.inotify.max_user_instances)",
}


class Watcher:
    """Reports changes below a project's root, until it is stopped.

    Args:
        root: the project's root.
        get_paths: returns the paths to watch; called again after each build, which may have changed them.
        report: receives a line for the user when the watcher starts, and when it falls back to polling.
        poll: scan twice a second instead of waiting for events.
    """

    def __init__(
        self, root: Path, get_paths: Callable[[], WatchedPaths], report: Callable[[str], None], *, poll: bool
    ) -> None:
        self._root = root
        self._get_paths = get_paths
        self._report = report
        self._polling = poll
        self._last_change = 0.0
        self._pending = threading.Event()
        self._probed = threading.Event()
        self._stopped = threading.Event()
        self._open_files = OpenFiles()  # changed by the observer's thread
        self._observer: BaseObserver | None = None
        self._watches: dict[Path, tuple[int, ObservedWatch]] = {}  # with the inode of the folder
        self._deleted_folders: deque[Path] = deque()  # filled by the observer's thread
        self._outside: set[Path] = set()  # the folders of links' destinations that are outside of the project
        self._paths = WatchedPaths(folders=frozenset(), files=frozenset(), ignored=frozenset())

    def changes(self) -> Iterator[None]:
        """Yields once for the first build, then after each burst of changes; ends when `stop` is called.

        The caller builds while the generator is suspended. Changes made during a build are reported after it.
        """
        self._start()
        before = self._scan_files()
        try:
            while not self._stopped.is_set():
                yield
                self._update_watches()
                after = self._scan_files()
                if after != before:  # changed during the build, or watched for the first time: the build decides
                    self._note_change()
                before = self._wait_for_change(after)
        finally:
            self._stop_observer()

    def stop(self) -> None:
        """Ends `changes`; may be called from any thread."""
        self._stopped.set()
        self._pending.set()

    def handle_event(self, event: FileSystemEvent) -> None:
        """Notes a change, if the event is about a watched file; called by the observer's thread."""
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if not event.is_directory and any(map(self._is_relevant, paths)):
            self._open_files.note(event.event_type, *paths)
        if event.event_type not in _CHANGE_EVENTS or (event.is_directory and event.event_type == "modified"):
            return
        if any(_PROBE in path for path in paths):
            self._probed.set()
        if event.event_type == "deleted":
            self._deleted_folders.extend(folder for folder in map(Path, paths) if folder in self._watches)
        if any(map(self._is_relevant, paths)):
            self._note_change()

    def _start(self) -> None:
        """Starts the observer of events, unless polling is asked for or the system refuses."""
        if self._polling:
            self._report("polling for changes every half second")
            return
        self._observer = Observer()
        try:
            self._observer.start()
            self._update_watches()
        except OSError as error:
            self._fall_back_to_polling(_reason(error))
        if not self._polling:
            self._report("watching for changes")

    def _stop_observer(self) -> None:
        if self._observer is not None and self._observer.is_alive():
            self._observer.stop()
            self._observer.join(1.0)
        self._observer = None
        self._watches = {}

    def _fall_back_to_polling(self, reason: str) -> None:
        self._polling = True
        self._stop_observer()
        self._report(f"{reason}: polling every half second instead")

    def _update_watches(self) -> None:
        """Watches exactly the folders that are to be watched and exist now.

        A folder that was deleted and created again needs a new watch. Its inode tells where it differs; as many file
        systems give the number of a deleted folder to the next one, the event of the deletion counts, too.
        """
        if self._observer is None or self._polling:
            return
        deleted = {self._deleted_folders.popleft() for _ in range(len(self._deleted_folders))}
        folders = self._existing_folders()
        for folder, (inode, watch) in list(self._watches.items()):
            if folder in deleted or folders.get(folder) != inode:
                self._observer.unschedule(watch)
                del self._watches[folder]
        for folder, inode in folders.items():
            if folder not in self._watches:
                try:
                    self._watches[folder] = (inode, self._observer.schedule(_Handler(self), str(folder)))
                except FileNotFoundError:  # removed just now; its parent's event brings us here again
                    continue
                except OSError as error:
                    self._fall_back_to_polling(_reason(error))
                    return

    def _existing_folders(self) -> dict[Path, int]:
        """Returns each folder to watch with its inode; watches are not recursive, so subfolders are listed too."""
        paths = self._paths = self._get_paths()
        names = DiskNames(f"{self._root}/")
        files = {on_disk(names, file) for file in paths.files}
        folders = {next(folder for folder in (self._root, *self._root.parents) if folder.is_dir())}
        for folder in paths.folders:
            folders |= {Path(parent) for parent, _ in walk_visible(f"{self._root}/{on_disk(names, folder)}")}
        folders |= {self._root / folder for folder in parent_folders(files)}
        linked: set[Path] = set()
        for file in files:
            if os.path.islink(f"{self._root}/{file}"):  # noqa: PTH114 - run for each file after each build: no Path
                linked |= symlink_folders(self._root / file)
        self._outside = {folder for folder in linked if not folder.is_relative_to(self._root)}
        folders |= linked
        stats = {folder: stat_of(folder) for folder in folders}
        return {folder: stat[1] for folder, stat in stats.items() if stat is not None}

    def _is_relevant(self, path: str) -> bool:
        """Returns whether an event about this path may call for a build.

        Of files below the root, the build's own output and what editors leave behind do not.
        """
        try:
            relative = Path(path).relative_to(self._root)
        except ValueError:
            return Path(path).parent in self._outside or Path(path) in self._root.parents
        name = composed(relative.as_posix())
        if name in self._paths.files:
            return True
        ignored = any(name == folder or name.startswith(f"{folder}/") for folder in self._paths.ignored)
        return not ignored and not is_editor_file(relative.name)

    def _note_change(self) -> None:
        """Begins a burst of changes, or prolongs it."""
        self._last_change = time.monotonic()
        self._pending.set()

    def _wait_for_change(self, before: Mapping[str, Stat]) -> dict[str, Stat]:
        """Waits for an event, or for stats that differ from `before`; returns the stats of then."""
        while True:
            if self._wait_for_event():
                self._wait_for_burst_end()
                return self._wait_for_content(before, self._scan_files())
            now = self._scan_files()
            if now != before:
                if not self._polling and not self._events_arrive():
                    self._fall_back_to_polling("no file system events arrive")
                return self._wait_for_content(before, self._wait_until_stable(now))

    def _wait_for_event(self) -> bool:
        """Waits for an event or `stop`; returns False when it is time to scan without one."""
        return self._pending.wait(POLL_SECONDS if self._polling else RESCAN_SECONDS)

    def _wait_for_burst_end(self) -> None:
        """Waits until no event arrived for a while, since one save causes several, and no file is being written."""
        deadline = time.monotonic() + MAX_BURST_SECONDS
        while True:
            self._pending.clear()
            quiet = time.monotonic() - self._last_change
            complete = quiet >= SETTLE_SECONDS and not self._open_files.being_written
            if complete or time.monotonic() > deadline:
                break
            if self._stopped.wait(max(SETTLE_SECONDS - quiet, WRITE_CHECK_SECONDS)):
                break
        self._open_files.clear()

    def _wait_for_content(self, before: Mapping[str, Stat], stats: dict[str, Stat]) -> dict[str, Stat]:
        """Waits a while for the content of files that became empty, and warns of those that still are.

        Args:
            before: the stats at the last build.
            stats: the present stats.

        Returns:
            The stats at the end.
        """
        deadline = time.monotonic() + EMPTY_SECONDS
        while emptied := [path for path, stat in stats.items() if stat[0] == 0 and _has_content(before.get(path))]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                for path in emptied:
                    self._report(f"warning: {path} is empty now")
                break
            if self._stopped.is_set():
                break
            if self._pending.wait(min(remaining, POLL_SECONDS) if self._polling else remaining):
                self._wait_for_burst_end()
            stats = self._scan_files()
        return stats

    def _wait_until_stable(self, stats: dict[str, Stat]) -> dict[str, Stat]:
        """Scans until two scans in a row agree, so that no half-written file is built; returns the last scan."""
        deadline = time.monotonic() + MAX_BURST_SECONDS
        while not self._stopped.wait(SETTLE_SECONDS) and time.monotonic() < deadline:
            before, stats = stats, self._scan_files()
            if stats == before:
                break
        return stats

    def _scan_files(self) -> dict[str, Stat]:
        """Returns the stat of every watched file that exists, by its path relative to the root.

        An absent file that is watched for the first time, since a build looked for it, is no change.
        """
        paths = self._get_paths()
        root = f"{self._root}/"
        names = DiskNames(root)
        stats: dict[str, Stat | None] = {file: stat_of(f"{root}{on_disk(names, file)}") for file in paths.files}
        for folder in paths.folders:
            for parent, files in walk_visible(f"{root}{on_disk(names, folder)}"):
                within = parent.removeprefix(root)
                for name in files:
                    path = f"{within}/{name}"
                    if path not in stats and not is_editor_file(name):
                        stats[path] = stat_of(f"{root}{path}")
        return {path: stat for path, stat in stats.items() if stat is not None}

    def _events_arrive(self) -> bool:
        """Returns whether events arrive at all, by writing a hidden file into the project for a moment.

        On some network and container file systems, a watch can be set but never sees anything.
        """
        self._update_watches()  # the project may be a new folder in place of a removed one
        if self._root not in self._watches:
            return self._polling or not self._root.is_dir()
        probe = self._root / f"{_PROBE}{os.getpid()}{TEMPORARY}"
        self._probed.clear()
        try:
            probe.write_bytes(b"")
            return self._probed.wait(PROBE_TIMEOUT_SECONDS)
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)


class _Handler(FileSystemEventHandler):
    """Passes watchdog's events on to a watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def dispatch(self, event: FileSystemEvent) -> None:
        """Passes on an event of any type."""
        self._watcher.handle_event(event)


def _reason(error: OSError) -> str:
    """Returns why the system refuses to watch a folder, naming the limit that was reached, if any."""
    return _LIMITS.get(error.errno or 0, str(error))


def _has_content(stat: Stat | None) -> bool:
    return stat is not None and stat[0] > 0
