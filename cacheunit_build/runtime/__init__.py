"""What a program loads at run time: a frozen prefix, verified against the lock, and the requests made from it.

Standard library only. The compiler is loaded by name, and only for `load(…, dev=True)`.
"""
