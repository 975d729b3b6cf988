"""A real nginx with the configuration of docs/remote.md, on a local port; without nginx, tests are skipped."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).parent.parent / "docs" / "remote.md"
USER, PASSWORD = "ci", "correct horse battery staple"
SECONDS_TO_START = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Nginx:
    """A running nginx.

    Attributes:
        url: its URL.
        files: the folder of what it stores.
        certificate: the file of its certificate; None where it has none.
        process: the process.
    """

    url: str
    files: Path
    certificate: Path | None
    process: subprocess.Popen[bytes]


def documented_server() -> str:
    """Returns the `server` block of docs/remote.md."""
    blocks = re.findall(r"```nginx\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@contextmanager
def nginx(folder: Path, *, encrypted: bool = False, protected: bool = False) -> Iterator[Nginx]:
    """Runs nginx in a folder, as documented but for its port and paths.

    Args:
        folder: an empty folder.
        encrypted: whether to use HTTPS, with a certificate of its own.
        protected: whether only `USER` may write, as documented; else everybody.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    for name in ("files", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n", encoding="utf-8")
    certificate = _certificate(folder) if encrypted else None
    for _ in range(5):
        port = _free_port()
        (folder / "nginx.conf").write_text(_configuration(folder, port, encrypted, protected), encoding="utf-8")
        process = subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            if _is_ready(process, folder, port):
                scheme = "https" if encrypted else "http"
                yield Nginx(
                    url=f"{scheme}://localhost:{port}/",
                    files=folder / "files",
                    certificate=certificate,
                    process=process,
                )
                return
        finally:
            _stop(process)
    pytest.fail("nginx does not start: " + (folder / "error.log").read_text(encoding="utf-8"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stops nginx with its workers."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_START)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _configuration(folder: Path, port: int, encrypted: bool, protected: bool) -> str:
    server = documented_server()
    replaced = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port}{' ssl' if encrypted else ''};",
        "/etc/nginx/cacheunit.users": str(folder / "users"),
        "/etc/nginx/cacheunit.pem": str(folder / "cert.pem"),
        "/etc/nginx/cacheunit.key": str(folder / "cert.key"),
        "/srv/cacheunit/": f"{folder}/",
    }
    for old, new in replaced.items():
        assert old in server
        server = server.replace(old, new)
    if not protected:
        server = re.sub(r"limit_except GET \{.*?\}", "", server, flags=re.DOTALL)
    if not encrypted:
        server = re.sub(r"\n *ssl_certificate.*", "", server)
    (folder / "ready").write_text(str(folder), encoding="utf-8")
    ready = f"location = /ready {{ root {folder}; }}"
    user = "user root;" if os.name == "posix" and os.geteuid() == 0 else ""
    kinds = ("proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder / 'tmp'};" for kind in kinds)
    return (
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 2;"
        f"events {{ worker_connections 256; }} http {{ access_log off; {temporary}"
        f"{server.rstrip().removesuffix('}')} {ready} }} }}"
    )


def _is_ready(process: subprocess.Popen[bytes], folder: Path, port: int) -> bool:
    """Waits until this nginx answers; returns False where it ended, as when another program took the port."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end and process.poll() is None:
        try:
            if _answer(folder, port) == str(folder):
                return True
        except OSError:
            time.sleep(0.02)  # not there yet
    return False


def _answer(folder: Path, port: int) -> str:
    import ssl

    certificate = folder / "cert.pem"
    context = ssl.create_default_context(cafile=str(certificate)) if certificate.exists() else None
    scheme = "http" if context is None else "https"
    with urlopen(f"{scheme}://localhost:{port}/ready", timeout=5, context=context) as answer:  # noqa: S310
        text: str = answer.read().decode()
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _certificate(folder: Path) -> Path:
    """Makes a certificate for localhost that is signed by itself."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "cert.key"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-out", "cert.pem"]
    subprocess.run([program, "req", "-x509", *key, *names], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem"
