"""Watching is one generator of batches of change: by events where the system gives them, else by looking.

Folders are watched, never files, so that a save by rename is seen like any other. What an event says of itself is not
believed: it only says that it is time to look, and content decides.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from cacheunit_build.adapters.storage.discovery import folders_above
from cacheunit_build.adapters.storage.file_stat import Stat, stat_of
from cacheunit_build.domain.file_names import CACHE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from watchdog.observers.api import BaseObserver, ObservedWatch

SETTLE = 0.05
"""Seconds without an event after which a burst of them has ended."""

LONGEST_BURST = 1.0
RESCAN = 5.0
POLL = 0.5
PROBE = "probe"
PROBE_SECONDS = 2.0

_MOST_LINKS = 40
_MEANT = frozenset({"created", "modified", "moved", "deleted", "closed"})
_DROPPINGS = ("~", ".swp", ".swo", ".swx", ".tmp", ".bak", "4913", "#")
_LIMITS = {
    errno.ENOSPC: "the system's limit of watches is reached (fs.inotify.max_user_watches)",
    errno.EMFILE: "the system's limit of watching processes is reached (fs.inotify.max_user_instances)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is to be watched, relative to the root: folders whole, single files, and what is never looked at."""

    folders: frozenset[str]
    files: frozenset[str]
    ignored: frozenset[str]


class Watcher:
    """Waits for changes below one root.

    Args:
        root: the project's root.
        wanted: what is to be watched, asked again after each batch.
        say: told how it watches, when that changes.
        poll: look every half second, without events.
    """

    def __init__(self, root: Path, wanted: Callable[[], Watched], say: Callable[[str], None], *, poll: bool) -> None:
        self._root = root
        self._wanted = wanted
        self._say = say
        self._last_event = 0.0
        self._pending = threading.Event()
        self._probed = threading.Event()
        self._stopped = threading.Event()
        self._observer: BaseObserver | None = None
        self._schedule: dict[Path, tuple[int, ObservedWatch]] = {}
        self._at_present = Watched(folders=frozenset(), files=frozenset(), ignored=frozenset())
        self._poll = poll

    def batches(self) -> Iterator[None]:
        """Yields at once, for a first build, then after each batch of changes; ends when `stop` is called."""
        self._start()
        now = self._scan()
        try:
            while not self._stopped.is_set():
                yield
                self._follow()
                seen = self._scan()
                if seen != now:  # changed while it was built, or looked for the first time: content tells
                    self._pending.set()
                now = self._next(seen)
        finally:
            self._end()

    def _next(self, seen: Mapping[str, Stat | None]) -> dict[str, Stat | None]:
        """Waits until something is not as `seen`; gives what is."""
        while True:
            by_event = self._wait()
            now = self._scan()
            if self._stopped.is_set() or by_event:
                return now
            if now != seen:
                if not self._poll and not self._events_arrive():
                    self._fall_back("changes come without events")
                return self._settled(now)

    def _settled(self, now: dict[str, Stat | None]) -> dict[str, Stat | None]:
        """Looks until two looks agree, so that what is half written is not built."""
        deadline = time.monotonic() + LONGEST_BURST
        while not self._stopped.wait(SETTLE) and time.monotonic() < deadline:
            before, now = now, self._scan()
            if now == before:
                break
        return now

    def _events_arrive(self) -> bool:
        """Whether the event of a file of our own arrives."""
        if self._observer is None:
            return False
        folder = self._root / CACHE_FOLDER
        self._probed.clear()
        try:
            folder.mkdir(exist_ok=True)
            watch = self._observer.schedule(_Handler(self), str(folder))
            (folder / PROBE).write_bytes(b"")
            arrived = self._probed.wait(PROBE_SECONDS)
            (folder / PROBE).unlink(missing_ok=True)
            self._observer.unschedule(watch)
        except OSError:
            return False
        return arrived

    def stop(self) -> None:
        """Ends the watching, from any thread."""
        self._stopped.set()
        self._pending.set()

    def _start(self) -> None:
        if not self._poll:
            self._observer = Observer()
            try:
                self._observer.start()
                self._follow()
            except OSError as error:
                self._fall_back(_LIMITS.get(error.errno or 0, str(error)))
            if not self._poll:
                self._say("watching for changes")
            return
        self._say("looking for changes every half second")

    def _follow(self) -> None:
        """Schedules the folders that are wanted and there; one that was removed and made anew is scheduled anew."""
        if self._observer is None or self._poll:
            return
        folders = self._folders()
        for folder, (inode, watch) in list(self._schedule.items()):
            if folders.get(folder) != inode:
                self._observer.unschedule(watch)
                del self._schedule[folder]
        for folder, inode in folders.items():
            if folder not in self._schedule:
                try:
                    self._schedule[folder] = (inode, self._observer.schedule(_Handler(self), str(folder)))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._fall_back(_LIMITS.get(error.errno or 0, str(error)))
                    return

    def _folders(self) -> dict[Path, int]:
        """The folders to watch, each by itself, with the inode that tells it from one made anew."""
        wanted = self._wanted()
        self._at_present = wanted
        found = {self._root}
        for folder in wanted.folders:
            found |= {Path(parent) for parent, _, _ in os.walk(self._root / folder)}
        found |= {self._root / folder for folder in folders_above(wanted.files)}
        for file in wanted.files:
            if os.path.islink(f"{self._root}/{file}"):  # noqa: PTH114 - of each file at each save
                found |= _link_folders(self._root / file)
        stats = {folder: stat_of(folder) for folder in found}
        return {folder: stat[1] for folder, stat in stats.items() if stat is not None}

    def _wait(self) -> bool:
        """Whether events came; False after the time to look without them."""
        if not self._pending.wait(POLL if self._poll else RESCAN):
            return False
        begun = time.monotonic()
        while True:
            self._pending.clear()
            quiet = SETTLE - (time.monotonic() - self._last_event)
            if self._stopped.is_set() or quiet <= 0 or time.monotonic() - begun > LONGEST_BURST:
                return True
            self._stopped.wait(quiet)

    def notice(self, event: FileSystemEvent) -> None:
        """Takes an event, if it may mean anything."""
        if event.event_type not in _MEANT or (event.is_directory and event.event_type == "modified"):
            return
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if any(path.endswith(f"{CACHE_FOLDER}/{PROBE}") for path in paths):
            self._probed.set()
        if any(map(self._relevant, paths)):
            self._last_event = time.monotonic()
            self._pending.set()

    def _relevant(self, path: str) -> bool:
        """Not what the build writes, and not what editors leave behind."""
        try:
            relative = Path(path).relative_to(self._root)
        except ValueError:
            return True
        name = relative.as_posix()
        if name in self._at_present.files:
            return True
        ignored = any(name == folder or name.startswith(f"{folder}/") for folder in self._at_present.ignored)
        return not ignored and not _dropping(relative.name)

    def _scan(self) -> dict[str, Stat | None]:
        """The stat of every file that is watched."""
        wanted = self._wanted()
        root = f"{self._root}/"
        found: dict[str, Stat | None] = {file: stat_of(f"{root}{file}") for file in wanted.files}
        for folder in wanted.folders:
            for parent, folders, files in os.walk(f"{root}{folder}"):
                folders[:] = [name for name in folders if not name.startswith(".")]
                within = parent.removeprefix(root)
                for name in files:
                    path = f"{within}/{name}"
                    if path not in found and not _dropping(name):
                        found[path] = stat_of(f"{root}{path}")
        return found

    def _fall_back(self, why: str) -> None:
        self._poll = True
        self._end()
        self._say(f"{why}: looking for changes every half second instead")

    def _end(self) -> None:
        if self._observer is not None and self._observer.is_alive():
            self._observer.stop()
            if threading.current_thread() is not self._observer:
                self._observer.join(1.0)
        self._observer = None
        self._schedule = {}


class _Handler(FileSystemEventHandler):
    """What watchdog calls."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def dispatch(self, event: FileSystemEvent) -> None:
        self._watcher.notice(event)


def _link_folders(path: Path) -> set[Path]:
    """The folders of every link that a file is reached by, and of the file in the end."""
    found: set[Path] = set()
    for _ in range(_MOST_LINKS):
        try:
            path = path.parent / path.readlink()
        except OSError:  # no link, or none any more: an editor may be moving it at this moment
            break
        found.add(path.parent.resolve())
    return found


def _dropping(name: str) -> bool:
    """Whether an editor leaves a file of that name behind: swap, backup and lock files."""
    return name.startswith((".", "#")) or name.endswith(_DROPPINGS)
