"""Tokenizers: finds, loads, converts and caches the vocabularies that are installed on this machine.

Belongs here: everything that knows tiktoken or Hugging Face's tokenizers, and the files that they read. Nothing is
downloaded; a vocabulary comes from an installed package, or from a file of the project.
"""
