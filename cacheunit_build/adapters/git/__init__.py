"""Git: reads commits and history of the project's repository, sets up a clone, and merges texts.

Belongs here: every call of the `git` program, and what its output means.
"""
