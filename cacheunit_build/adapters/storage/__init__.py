"""Files on disk and the local cache: discovery, reading, atomic writing, locking, and what a build records."""
