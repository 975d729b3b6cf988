"""vLLM's bookkeeping of cached blocks alone, without a model: run by engines.py with the Python that has vLLM.

Reads one JSON object a line, `{"unit": …, "salt": …, "ids": […]}`, and answers each with how many of these tokens a
manager of blocks of that unit finds in its cache. What was asked is in the cache from then on.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_LENGTH = 32_768
CAPACITY = 2_000_000
"""Tokens that a manager holds: far more than one prefix and all that is asked after it."""


class Blocks:
    """One manager with full attention, as vLLM's scheduler uses it."""

    def __init__(self, unit: int) -> None:
        spec = FullAttentionSpec(block_size=unit, num_kv_heads=1, head_size=1, dtype=torch.float32)
        config = KVCacheConfig(
            num_blocks=CAPACITY // unit, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )
        self._manager: Any = KVCacheManager(
            config, max_model_len=MODEL_LENGTH, scheduler_block_size=unit, hash_block_size=unit
        )
        self._hasher: Any = get_request_block_hasher(unit, sha256)
        self._asked = 0

    def ask(self, ids: Sequence[int], salt: str) -> int:
        """Schedules a request, computes it, frees it; how many tokens were found."""
        self._asked += 1
        parameters = SamplingParams(max_tokens=1)
        request: Any = Request(
            str(self._asked), list(ids), parameters, None, cache_salt=salt, block_hasher=self._hasher
        )
        blocks, hit, _ = self._manager.get_computed_blocks(request)
        if self._manager.allocate_slots(request, len(ids) - hit, hit, blocks) is None:
            sys.exit(f"{len(ids)} tokens do not fit into the cache")
        self._manager.free(request)
        return int(hit)


def main() -> None:
    """Answers until there is no more input."""
    init_none_hash(sha256)
    managers: dict[int, Blocks] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        unit = asked["unit"]
        if unit not in managers:
            managers[unit] = Blocks(unit)
        print(managers[unit].ask(asked["ids"], asked["salt"]), flush=True)


if __name__ == "__main__":
    main()
