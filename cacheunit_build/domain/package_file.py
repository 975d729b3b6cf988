"""Files of a model in an installed package: each is known by its SHA-256, so that it is the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from cacheunit_build.domain.constraints import VALIDATION, Limits

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FUNCTION = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A file of an installed package, with the hash that it must have."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    package: Annotated[str, Limits(min_length=1)]
    """The installed package, by the name it is imported by."""
    file: Annotated[str, Limits(min_length=1)]
    """The file in the package."""
    sha256: Annotated[str, Limits(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 that the file must have."""

    def __str__(self) -> str:
        """Returns the file as a person would name it."""
        return f"{self.package}/{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedEncoder(PackageFile):
    """A model's own Python encoder in an installed package."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    function: Annotated[str, Limits(min_length=1)]
    """The name of the function."""
    options: tuple[str, ...] = ()
    """The request options that it renders as the provider does; an exact count refuses the others."""

    def __str__(self) -> str:
        """Returns the function as a person would name it."""
        return f"{self.package}/{self.file}:{self.function}"

    def __post_init__(self) -> None:
        if not _FUNCTION.fullmatch(self.function):
            raise ValueError(f'has no valid function name: "{self.function}"')


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedTemplate(PackageFile):
    """A model's chat template in an installed package: a Jinja file, or a tokenizer_config.json."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    beside: Mapping[str, str] = field(default_factory=dict)
    """The files that are read with it from the same folder, such as chat_template.jinja: name -> SHA-256."""

    def __post_init__(self) -> None:
        for name, digest in self.beside.items():
            if not _SHA256.fullmatch(digest):
                raise ValueError(f'needs the SHA-256 of "{name}" in "beside"')

    @property
    def folder(self) -> str:
        """The folder of the file in its package, with a slash at the end; empty for the package itself."""
        return self.file[: self.file.rfind("/") + 1]

    def file_beside(self, path: str) -> PackageFile | None:
        """Returns a file that is read with it, by its path in the package; None if the model has no such file."""
        name = path.removeprefix(self.folder)
        digest = self.beside.get(name)
        return None if digest is None else PackageFile(package=self.package, file=self.folder + name, sha256=digest)
