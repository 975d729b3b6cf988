"""The review of a change: what two versions of a project differ in, and what that does to a cache.

Two snapshots are compared artifact by artifact; a change is traced to the source line that made it. Here is also which
leading units the artifacts of one target share.
"""
