"""cacheunit: the build system for the static prefix of LLM requests."""

from cacheunit_build.align import AlignmentError, align_padding, pad_text, pad_text_concat
from cacheunit_build.errors import CacheunitError, Fault

__all__ = ["AlignmentError", "CacheunitError", "Fault", "align_padding", "pad_text", "pad_text_concat"]
