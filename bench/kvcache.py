"""Runs vLLM's bookkeeping of cached blocks without a model; engines.py starts it with the Python that has vLLM.

Reads one JSON object per line, `{"unit": …, "salt": …, "ids": […]}`. Answers each with the number of these tokens that
a block manager with blocks of `unit` tokens finds in its cache, and adds them to the cache.
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
"""Tokens that a block manager can hold: far more than all requests of one prefix."""


class BlockManager:
    """One KV cache manager with full attention, used as vLLM's scheduler uses it."""

    def __init__(self, unit: int) -> None:
        spec = FullAttentionSpec(block_size=unit, num_kv_heads=1, head_size=1, dtype=torch.float32)
        config = KVCacheConfig(
            num_blocks=CAPACITY // unit, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )
        self._manager: Any = KVCacheManager(
            config, max_model_len=MODEL_LENGTH, scheduler_block_size=unit, hash_block_size=unit
        )
        self._hasher: Any = get_request_block_hasher(unit, sha256)
        self._requests = 0

    def request(self, ids: Sequence[int], salt: str) -> int:
        """Schedules, computes and frees one request; returns how many of its tokens were cached."""
        self._requests += 1
        parameters = SamplingParams(max_tokens=1)
        scheduled: Any = Request(
            str(self._requests), list(ids), parameters, None, cache_salt=salt, block_hasher=self._hasher
        )
        blocks, hit, _ = self._manager.get_computed_blocks(scheduled)
        if self._manager.allocate_slots(scheduled, len(ids) - hit, hit, blocks) is None:
            sys.exit(f"{len(ids)} tokens do not fit into the cache")
        self._manager.free(scheduled)
        return int(hit)


def main() -> None:
    """Answers requests until the end of the input."""
    init_none_hash(sha256)
    managers: dict[int, BlockManager] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        unit = request["unit"]
        if unit not in managers:
            managers[unit] = BlockManager(unit)
        print(managers[unit].request(request["ids"], request["salt"]), flush=True)


if __name__ == "__main__":
    main()
