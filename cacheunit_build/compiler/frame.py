"""Loads the frame of a target: a function from a conversation to the text that the model reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.compiler.estimated_frame import concatenated, joined_parts
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.fingerprint import PREFIX as FINGERPRINT_PREFIX
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.package_file import PackagedEncoder, PackagedTemplate
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Conversation, Lookup
from cacheunit_build.domain.target import FrameEstimate
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.domain.package_file import PackageFile
    from cacheunit_build.domain.protocols import CompileInputs
    from cacheunit_build.domain.target import Frame, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFrame:
    """A frame, with the files that it was loaded from.

    Attributes:
        frame: returns the text that the model reads of a conversation.
        lookups: the files of the project, those that were only looked for included.
        package_files: the sources of the files outside of the project, with their sha256.
        encoder_hash: the sha256 of its Python encoder; None if it has none.
    """

    frame: Callable[[Conversation], str]
    lookups: tuple[Lookup, ...] = ()
    package_files: Mapping[str, str] = field(default_factory=dict)
    encoder_hash: str | None = None


class FrameLoader:
    """Loads one frame, and records which files it reads."""

    def __init__(self, adapters: CompileInputs) -> None:
        self._adapters = adapters
        self._lookups: list[Lookup] = []
        self._package_files: dict[str, str] = {}

    def load(self, target: Target) -> LoadedFrame:
        """Returns the frame of a target."""
        frame = target.frame
        if frame.plain:
            return LoadedFrame(frame=_plain_frame(target))
        framed, encoder_hash = self._encoder(frame) if frame.encoder is not None else (self._template(frame), None)
        return LoadedFrame(
            frame=framed,
            lookups=tuple(self._lookups),
            package_files=self._package_files,
            encoder_hash=encoder_hash,
        )

    def _template(self, frame: Frame) -> Callable[[Conversation], str]:
        """Returns the chat template of a frame."""
        named = frame.chat_template
        if isinstance(named, PackagedTemplate):
            template, package = named, f"{named.package}/"

            def read(path: str) -> bytes | None:
                file = template.file_beside(path.removeprefix(package))
                return None if file is None else self._read_package_file(file)

            return load_chat_template(self._read_package_file(named), str(named), frame.arguments, read)
        path = normal_path(str(named))
        return load_chat_template(self._read_or_fail(path), path, frame.arguments, self._read)

    def _encoder(self, frame: Frame) -> tuple[Callable[[Conversation], str], str]:
        """Returns the Python encoder of a frame, and the sha256 of the bytes that were run."""
        if isinstance(frame.encoder, PackagedEncoder):
            data, function = self._read_package_file(frame.encoder), frame.encoder.function
            path = f"{frame.encoder.package}/{frame.encoder.file}"
        else:
            file, _, function = str(frame.encoder).partition(".py:")
            path = normal_path(f"{file}.py")
            data = self._read_or_fail(path)
        encoder = self._adapters.encoder(data, path, function, frame.arguments)
        return encoder, fingerprint(data).removeprefix(FINGERPRINT_PREFIX)

    def _read_package_file(self, file: PackageFile) -> bytes:
        data, files = self._adapters.tokenizers.package_file(file)
        self._package_files |= files
        return data

    def _read_or_fail(self, path: str) -> bytes:
        data = self._read(path)
        if data is None:
            raise fail(f'there is no file "{path}"', hint="the path is relative to the project root")
        return data

    def _read(self, path: str) -> bytes | None:
        data = self._adapters.files.read(path)
        self._lookups.append(Lookup(path=path, fingerprint=None if data is None else fingerprint(data)))
        return data


def refuse_other_fixed_text(frame: Frame, framed: Callable[[Conversation], str]) -> None:
    """Raises a fault for a frame whose fixed text is not what its encoder puts around a system text."""
    if frame.plain or not (frame.before or frame.after):
        return
    conversation = Conversation(system="Be kind.", tools=(), turns=(), following=(user_message("Hi"),))
    if not framed(conversation).startswith(fixed_frame(frame)(conversation)):
        message = "the encoder puts other text around a system text than frame.before and frame.after"
        raise fail(message, hint="leave them out, so that the encoder is used for every prefix")


def _plain_frame(target: Target) -> Callable[[Conversation], str]:
    """Returns the frame of a target without chat template or encoder."""
    if target.tokenizer is not None and target.tokenizer.estimate is not None:
        return concatenated
    if target.frame.estimate is not None:
        return joined_parts(target.frame.estimate)
    fixed, joined = fixed_frame(target.frame), joined_parts(FrameEstimate())
    if not target.frame.unknown or not FORMATS[target.request].has_messages:
        return fixed
    return lambda conversation: (joined if conversation.tools or conversation.turns else fixed)(conversation)


def fixed_frame(frame: Frame) -> Callable[[Conversation], str]:
    """Returns the frame that puts fixed text around the system text; it has no place for tools and examples."""
    return lambda conversation: f"{frame.before}{conversation.system}{frame.after}{conversation.next_text}"
