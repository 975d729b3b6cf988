"""Finds what would break a cache or leak information, and where in the sources it was written.

Belongs here: the rules (`rules/`, one module for each group of codes), their registry, the linter that runs them over a
compiled project, and the code that traces a rendered text back to its source line. It reads a project and writes
nothing; `reports` turns the result into text, JSON, Markdown or SARIF.
"""
