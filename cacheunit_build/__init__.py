"""cacheunit: the build system for the static prefix of LLM requests.

Importing this package loads nothing: a name is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cacheunit_build.align import AlignmentError, align_padding, pad_text, pad_text_concat
    from cacheunit_build.errors import CacheunitError, Fault
    from cacheunit_build.runtime import IntegrityError, Observation, Prefix, load

__all__ = [
    "AlignmentError",
    "CacheunitError",
    "Fault",
    "IntegrityError",
    "Observation",
    "Prefix",
    "align_padding",
    "load",
    "pad_text",
    "pad_text_concat",
]

_HOMES = {
    "AlignmentError": "align",
    "CacheunitError": "errors",
    "Fault": "errors",
    "IntegrityError": "runtime",
    "Observation": "runtime",
    "Prefix": "runtime",
    "align_padding": "align",
    "load": "runtime",
    "pad_text": "align",
    "pad_text_concat": "align",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
