"""Targets: one TOML file for each known target, with dated evidence, and the loader that reads them.

Belongs here: what is known of a provider or an engine, as data, and how a project's own target extends it. To add a
known target, add a TOML file. What a cache rule means is in `domain.cache_rule`, what a request looks like in
`request_formats`.
"""
