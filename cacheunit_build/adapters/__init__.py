"""The outside world: files, vocabularies, the local cache, git. Stages never import it."""
