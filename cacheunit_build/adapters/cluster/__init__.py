"""Builds chunks of manifests on a dask cluster: the connection, what is sent, and what its workers do with it."""
