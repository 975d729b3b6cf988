"""Parsing: bytes of a project's files into values, with the line of each key for messages.

Belongs here: the readers of YAML and JSON, which refuse what parsers read in different ways, and what turns their
values into the domain's classes: manifests, tools, settings. Nothing here opens a file, renders a template or counts a
token.
"""
