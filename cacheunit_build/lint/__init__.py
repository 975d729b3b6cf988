"""Finds what would break a cache or leak information, and where in the sources it was written.

Belongs here: the rules (`rules/`, one module for each group of codes), their registry, the linter that runs them over a
compiled project, the code that traces a rendered text back to its source line, and the fixes. It reads a project, and
writes only what `fixes.write_fixes` is told to; `reports` turns the result into text, JSON, Markdown or SARIF.

| modules                                       | what they do                                                    |
| --------------------------------------------- | --------------------------------------------------------------- |
| `linter`, `prefix_linter`, `context`, `inputs` | run the rules over a compiled project                           |
| `registry`, `configuration`, `suppressions`    | decide which rules are reported, where, and how severely        |
| `source_locator`, `literal_places`             | find the place in the sources that a part of a text comes from  |
| `replacements`, `fix_plan`, `edits`, `fixes`   | decide what is to stand there, plan, apply and verify the edits |
| `gate`, `gate_rules`                           | stop a build                                                    |
"""
