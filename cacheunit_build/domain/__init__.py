"""The domain: the classes that all other packages share, and the protocols through which they reach the outside world.

Belongs here: frozen dataclasses with the rules that concern them alone (cache arithmetic, fingerprints, faults), in the
standard library only. Nothing here reads a file, and nothing here imports another package of the project.
"""
