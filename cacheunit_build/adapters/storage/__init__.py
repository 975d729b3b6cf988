"""The project's files on disk, and the local cache: discovery, reading, atomic writing, locking, what a build records."""
