"""Build, check and explain: what is compiled is written and locked, or compared with the lock and the build folder.

Here is also what decides that there is nothing to do, and which sources explain a difference.
"""
