"""The reports: results as text for people, JSON for programs, Markdown and annotations for reviews. They print nothing.

There is one module a command, and one for each format that several commands share: SARIF, GitHub's annotations, tables.
"""
