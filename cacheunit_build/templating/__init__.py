"""Templates: renders a variant's templates and data files, and frames a conversation by a model's chat template.

Belongs here: the sandboxed Jinja environment, the values that record which template or file each character comes from,
and the faults of templates. A render depends on its sources only: there is no clock, chance or network in it.
"""
