"""The compiler: from manifests to artifacts, in memory.

A project is compiled prefix by prefix, a prefix variant by variant, and a variant for each target: rendered, framed,
counted, padded where that pays, and frozen. The alignment library is here too: padding measured on the joined text.
"""
