"""The lint rules, one module for each group of codes; each module defines its rules first, then their checks.

| codes | module           | what the rules look at                                                |
| ----- | ---------------- | --------------------------------------------------------------------- |
| CU1xx | `cu1_volatile`   | text that changes from one day, run or session to the next            |
| CU2xx | `cu2_leaks`      | text that reveals a machine, a network, a person or a secret          |
| CU3xx | `cu3_characters` | invisible or unusual characters, escapes, control tokens              |
| CU4xx | `cu4_layout`     | token counts against the target's cache rule, and the order of text   |
| CU5xx | `cu5_project`    | unused and confusable names, unused templates, invalid ignore comments |
| CU6xx | `cu6_tools`      | tools that a provider may refuse                                      |

The patterns of CU1xx are in `cu1_dates`, `cu1_identifiers` and `cu1_git`, those for many languages in
`date_patterns` and `calendar_words`.

To add a rule, define it in its module, list it in that module's `RULES`, and add it to the table in `docs/lint.md`.
"""
