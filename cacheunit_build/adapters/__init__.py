"""The adapters: classes that implement the protocols of the domain against the outside world.

Files and the local cache, git, tokenizers, and the rest of the system. They import the domain only, and only the
command line creates them.
"""
