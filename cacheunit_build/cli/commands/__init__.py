"""One module a command. `cli.main` lists them and imports each when it runs."""
