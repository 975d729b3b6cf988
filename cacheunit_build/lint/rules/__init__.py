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

Entities, escapes, comments and front matter of CU3xx are in `cu3_markup`, what variants and prefixes share (CU405,
CU406) in `cu4_shared_text`.

A rule has its documentation with it: why, a bad and a good example. Lists, `docs/rules/` and SARIF are made from that.
"""
