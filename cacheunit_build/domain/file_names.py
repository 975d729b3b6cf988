"""The names of files and folders with a fixed place in a project, relative to its root. Imports nothing."""

LOCK_FILE = "cacheunit.lock"
"""The lockfile."""

SETTINGS_FILES = ("pyproject.toml", "cacheunit.toml")
"""The files that may hold the settings; only one of them does."""

CACHE_FOLDER = ".cacheunit"
"""The local cache."""
