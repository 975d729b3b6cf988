"""The command line: parses arguments, creates the adapters, runs one command and prints its report.

There is one module a command in `commands`, imported when the command runs.
"""
