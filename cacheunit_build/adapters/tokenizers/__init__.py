"""Tokenizers: finds, loads, converts and caches vocabularies of this machine. Nothing is downloaded."""
