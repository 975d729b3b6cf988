"""The files that are being written, by the events of a system that reports when a file is opened and closed."""

from __future__ import annotations


class OpenFiles:
    """Counts how often each file is open, and notes which of the open files are modified.

    Linux reports `opened`, `modified` and `closed`; elsewhere there are no such events, and no file counts as open.
    """

    def __init__(self) -> None:
        self._opens: dict[str, int] = {}
        self._modified: set[str] = set()

    @property
    def being_written(self) -> bool:
        """Whether a file was modified and is still open."""
        return bool(self._modified)

    def note(self, kind: str, path: str, destination: str = "") -> None:
        """Notes an event.

        Args:
            kind: the type of the event, as watchdog names it.
            path: the file.
            destination: where the file was moved to.
        """
        if kind == "opened":
            self._opens[path] = self._opens.get(path, 0) + 1
        elif kind == "modified" and path in self._opens:
            self._modified.add(path)
        elif kind in ("closed", "closed_no_write"):
            self._note_close(path)
        elif kind in ("moved", "deleted"):
            self._note_move(path, destination)

    def _note_close(self, path: str) -> None:
        """Notes that one of those who opened a file closed it."""
        remaining = self._opens.pop(path, 0) - 1
        if remaining > 0:
            self._opens[path] = remaining
        else:
            self._modified.discard(path)

    def _note_move(self, path: str, destination: str) -> None:
        """Notes that a file has another name, or none."""
        opens, modified = self._opens.pop(path, 0), path in self._modified
        self._modified -= {path, destination}
        self._opens.pop(destination, None)
        if destination and opens:
            self._opens[destination] = opens
            self._modified |= {destination} if modified else set()

    def clear(self) -> None:
        """Forgets all files, such as those that are open all the time."""
        self._opens.clear()
        self._modified.clear()
