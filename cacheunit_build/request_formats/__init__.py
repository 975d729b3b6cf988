"""Request formats: one class for each API that takes a prefix, and the table of all of them.

A format knows the JSON of a request: where tools, system text and messages are, and where a cache marker goes. It also
knows the route of the API that takes it. Standard library only, since programs load it at run time. To add a format,
add a module and a line in `formats.FORMATS`.
"""
