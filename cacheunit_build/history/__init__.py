"""The history of the lock: how the tokens of each artifact changed from commit to commit.

Belongs here: what is told from the versions of the lock alone. No sources of old commits are read or compiled.
"""
