"""Git: reads commits and history of the project's repository, sets up a clone, and merges texts."""
