"""Talks to live endpoints: `verify` compares cache hits with predictions, `probe` measures a cache rule.

Modules here send requests through the `Endpoint` protocol of `domain.protocols`; the HTTP client is an adapter.
"""
