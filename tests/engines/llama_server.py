"""Runs llama.cpp's real server with a tiny model: writes the model, serves it on a free port until standard input ends.

Usage: python llama_server.py TOKENIZER.json FOLDER [--chat-template FILE]

The model is a Llama of two layers with random weights. Its answers are noise, but its vocabulary is real, and so are
the server's token counts and cache hits. Prints the server's address when it is ready. It is a program of its own, so
that native threads end with it, and it exits when its parent closes the pipe or dies.
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
    """Writes the model as a GGUF file; equal arguments give equal bytes."""
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
    """Adds a byte-level vocabulary in Hugging Face's format to the file; returns its number of tokens."""
    texts: dict[int, str] = {index: text for text, index in tokenizer["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, gguf.TokenType.NORMAL)
    for token in tokenizer["added_tokens"]:
        texts[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list([texts[index] for index in range(len(texts))])
    writer.add_token_types([kinds[index] for index in range(len(texts))])
    writer.add_token_merges(tokenizer["model"]["merges"])
    writer.add_vocab_size(len(texts))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(value=False)  # it is part of the frame
    return len(texts)


def shapes(size: int) -> dict[str, tuple[int, ...]]:
    """Returns the name and shape of each tensor; the output matrix is the embedding."""
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (size, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        tensors |= {f"{block}attn_norm.weight": (HIDDEN,), f"{block}ffn_norm.weight": (HIDDEN,)}
        tensors |= {f"{block}attn_{name}.weight": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")}
        tensors |= {f"{block}ffn_{name}.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        tensors[f"{block}ffn_down.weight"] = (HIDDEN, INNER)
    return tensors


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns seeded noise for a matrix; ones for a norm, in single precision as the format requires."""
    if len(shape) == 1:
        return np.ones(shape, dtype=np.float32)
    noise = np.random.default_rng([SEED, *name.encode()]).standard_normal(shape, dtype=np.float32)
    return (noise * 0.05).astype(np.float16)


def serve(model: Path) -> xllamacpp.Server:
    """Starts the server with one slot and no second cache in memory, so that only the last request can be hit."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # any free port
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
    """Writes the model, serves it, and waits for the end of standard input."""
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
    print(server.listening_address, flush=True)  # noqa: T201 - its output
    sys.stdin.buffer.read()
    os._exit(0)  # without waiting for native threads


if __name__ == "__main__":
    main()
