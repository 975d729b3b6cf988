"""The remote cache: a server that speaks the HTTP protocol of Bazel's remote cache, as docs/remote.md describes it."""
