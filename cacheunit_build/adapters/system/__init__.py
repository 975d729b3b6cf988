"""The rest of the system: file events, HTTP endpoints, Python encoders and secret scanners."""
