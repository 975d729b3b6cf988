"""Templates: renders a variant's templates and data files, and frames a conversation by a model's chat template."""
