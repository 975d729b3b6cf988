"""llama.cpp's real server with a tiny model: writes the model, serves it on a free port, ends with its standard input.

Usage: python llama_server.py TOKENIZER.json FOLDER [--chat-template FILE]

The model is a Llama of two layers with random weights. What it answers means nothing; its vocabulary is the one given,
so that what the server counts and keeps in its cache is real. Prints its address when it is ready. A program of
its own, so that native threads end with it; it ends when whoever started it closes the pipe or dies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import xllamacpp

LAYERS, HIDDEN, HEADS, INNER = 2, 64, 2, 128
CONTEXT = 32_768
SEED = 1


def write_model(path: Path, tokenizer: dict[str, Any], chat_template: str | None) -> None:
    """Writes the model; the same arguments give the same bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    size = add_vocabulary(writer, tokenizer)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for name, shape in shapes(size).items():
        writer.add_tensor(name, weights(name, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: gguf.GGUFWriter, tokenizer: dict[str, Any]) -> int:
    """Takes over a byte-level vocabulary of Hugging Face's form; gives how many tokens it has."""
    words: dict[int, str] = {index: word for word, index in tokenizer["model"]["vocab"].items()}
    kinds = dict.fromkeys(words, gguf.TokenType.NORMAL)
    for token in tokenizer["added_tokens"]:
        words[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list([words[index] for index in range(len(words))])
    writer.add_token_types([kinds[index] for index in range(len(words))])
    writer.add_token_merges(tokenizer["model"]["merges"])
    writer.add_vocab_size(len(words))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(value=False)  # the frame has it
    return len(words)


def shapes(size: int) -> dict[str, tuple[int, ...]]:
    """The tensors of the model; the output matrix is the embedding."""
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (size, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        found |= {f"{block}attn_norm.weight": (HIDDEN,), f"{block}ffn_norm.weight": (HIDDEN,)}
        found |= {f"{block}attn_{name}.weight": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")}
        found |= {f"{block}ffn_{name}.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        found[f"{block}ffn_down.weight"] = (HIDDEN, INNER)
    return found


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Seeded noise; a norm's weights are ones, and of single precision, as the format wants it."""
    if len(shape) == 1:
        return np.ones(shape, dtype=np.float32)
    noise = np.random.default_rng([SEED, *name.encode()]).standard_normal(shape, dtype=np.float32)
    return (noise * 0.05).astype(np.float16)


def serve(model: Path) -> xllamacpp.Server:
    """Starts the server: one slot, and no second cache in memory, so that a request meets what the last one left."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # a free one
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0
    parameters.n_threads_http = 2
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.n_gpu_layers = 0
    parameters.fit_params = False
    parameters.warmup = False
    return xllamacpp.Server(parameters)


def main() -> None:
    """Writes, serves, waits."""
    parser = argparse.ArgumentParser(description="Serves a tiny random model with a real vocabulary.")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chat-template", type=Path)
    arguments = parser.parse_args()
    template = arguments.chat_template
    model = arguments.folder / "tiny.gguf"
    tokenizer = json.loads(arguments.tokenizer.read_bytes())
    write_model(model, tokenizer, None if template is None else template.read_text("utf-8"))
    server = serve(model)
    print(server.listening_address, flush=True)  # noqa: T201 - what a program says
    sys.stdin.buffer.read()
    os._exit(0)  # native threads are not waited for


if __name__ == "__main__":
    main()
