"""cacheunit: the build system for the static prefix of LLM requests.

Importing this package loads nothing: a name is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cacheunit_build.compiler.padding import AlignmentError, align_padding, pad_text, pad_text_concat
    from cacheunit_build.domain.errors import CacheunitError, Fault
    from cacheunit_build.runtime.files import IntegrityError
    from cacheunit_build.runtime.loading import load
    from cacheunit_build.runtime.prefix import Observation, Prefix

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

_MODULES = {
    "AlignmentError": "compiler.padding",
    "CacheunitError": "domain.errors",
    "Fault": "domain.errors",
    "IntegrityError": "runtime.files",
    "Observation": "runtime.prefix",
    "Prefix": "runtime.prefix",
    "align_padding": "compiler.padding",
    "load": "runtime.loading",
    "pad_text": "compiler.padding",
    "pad_text_concat": "compiler.padding",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
