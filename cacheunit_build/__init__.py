"""cacheunit: the build system for the static prefix of LLM requests.

Importing this package loads nothing: a name is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cacheunit_build.align import AlignmentError, align_padding, pad_text, pad_text_concat
    from cacheunit_build.errors import CacheunitError, Fault

__all__ = ["AlignmentError", "CacheunitError", "Fault", "align_padding", "pad_text", "pad_text_concat"]

_HOMES = {"CacheunitError": "errors", "Fault": "errors"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'align')}"), name)
