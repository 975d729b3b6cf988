"""Makes a project from existing files: finds prompts and tools, writes templates and manifests, and reports changes.

Belongs here: what only `init` needs. It reads what is named, decides what each file is, and returns the new files as
values; the command writes and prints them.
"""
