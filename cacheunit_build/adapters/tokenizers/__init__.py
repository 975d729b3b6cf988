"""Tokenizers on this machine: vocabulary files are found, loaded, converted to tiktoken and cached; none is downloaded."""
