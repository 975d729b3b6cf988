"""The rest of the system: file events, HTTP endpoints, Python encoders, secret scanners, the installed software."""
