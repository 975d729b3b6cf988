"""The lockfile: its format, the drift between locks and files, and the merge of three locks."""
