"""Where a remote cache is named, and who gets which credentials: a checkout cannot have them sent elsewhere."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from cacheunit_build.adapters.remote_cache.access import remote_access
from cacheunit_build.adapters.remote_cache.health import Health
from cacheunit_build.cli.options import no_remote_option
from cacheunit_build.cli.remote_cache import open_remote_cache
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.settings import parse_settings, settings_schema

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.adapters.remote_cache.access import RemoteAccess

URL = "https://cache.example.com/team"
TOKEN = "tok-1f8/Ab+c=%20\"quoted'"  # noqa: S105 - made up
PASSWORD = "pass word ä&:<9"  # noqa: S105 - made up
BEARER = {"CACHEUNIT_CACHE_TOKEN": "abc-123"}
LOGIN = {"CACHEUNIT_CACHE_USER": "ci", "CACHEUNIT_CACHE_PASSWORD": PASSWORD}
NAMES = ("REMOTE_CACHE", "CACHE_WRITE", "CACHE_TOKEN", "CACHE_USER", "CACHE_PASSWORD", "NO_REMOTE")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Removes what the environment of the tests may have."""
    for name in NAMES:
        monkeypatch.delenv(f"CACHEUNIT_{name}", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def access(setting: str = "", **variables: str) -> RemoteAccess:
    """Returns the access that settings and environment give."""
    result = remote_access(setting, variables)
    assert result is not None
    return result


def authorization(setting: str = "", **variables: str) -> str | None:
    """Returns the header that is sent."""
    return access(setting, **variables).server.headers.get("Authorization")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(("value", "writes"), [("1", True), ("0", False), ("", False)])
def test_results_are_stored_only_where_the_environment_says_so(value: str, writes: bool) -> None:
    access = remote_access(URL, {"CACHEUNIT_CACHE_WRITE": value})
    assert access is not None
    assert access.writes is writes


@pytest.mark.parametrize("value", ["true", "yes", "2"])
def test_a_value_that_says_neither_yes_nor_no_is_refused(value: str) -> None:
    with pytest.raises(CacheunitError, match="CACHEUNIT_CACHE_WRITE must be 1 or 0"):
        remote_access(URL, {"CACHEUNIT_CACHE_WRITE": value})


def test_without_a_url_there_is_no_remote() -> None:
    assert remote_access("", {}) is None
    assert remote_access(URL, {"CACHEUNIT_REMOTE_CACHE": ""}) is None
    assert remote_access(URL, {"CACHEUNIT_REMOTE_CACHE": " "}) is None


def test_the_environment_replaces_the_setting() -> None:
    assert access(URL).url == URL
    other = access(URL, CACHEUNIT_REMOTE_CACHE="https://other.example.com:8443/a/")
    assert other.url == "https://other.example.com:8443/a"
    assert (other.server.host, other.server.port, other.server.path) == ("other.example.com", 8443, "/a")
    assert other.server.tls is not None


def test_credentials_of_the_environment_go_to_the_url_of_the_environment_only() -> None:
    assert authorization(CACHEUNIT_REMOTE_CACHE=URL, **BEARER) == "Bearer abc-123"
    assert authorization(CACHEUNIT_REMOTE_CACHE=URL, **LOGIN) == basic("ci", PASSWORD)
    for secrets in (BEARER, LOGIN):
        named = access(URL, **secrets)
        assert "Authorization" not in named.server.headers
        assert "set CACHEUNIT_REMOTE_CACHE" in named.remarks[0]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CACHEUNIT_CACHE_TOKEN": "a b"}, "CACHEUNIT_CACHE_TOKEN has a space"),
        ({"CACHEUNIT_CACHE_TOKEN": "a\r\nX: y"}, "CACHEUNIT_CACHE_TOKEN has a space"),
        ({"CACHEUNIT_CACHE_TOKEN": "ä"}, "CACHEUNIT_CACHE_TOKEN has a space"),
        ({"CACHEUNIT_CACHE_TOKEN": "abc", **LOGIN}, "are both set"),
        ({"CACHEUNIT_CACHE_USER": "ci"}, "must be set together"),
        ({"CACHEUNIT_CACHE_PASSWORD": PASSWORD}, "must be set together"),
        ({"CACHEUNIT_CACHE_TOKEN": "cache.example"}, "has a password or token in it"),
        ({"CACHEUNIT_REMOTE_CACHE": f"https://ci:{PASSWORD}@cache.example.com"}, "CACHEUNIT_REMOTE_CACHE: "),
        ({"CACHEUNIT_REMOTE_CACHE": TOKEN}, "CACHEUNIT_REMOTE_CACHE: "),
        ({"CACHEUNIT_REMOTE_CACHE": "http://cache.example.com"}, "CACHEUNIT_REMOTE_CACHE: "),
    ],
)
def test_a_variable_that_is_not_valid_is_a_fault_that_shows_no_secret(variables: dict[str, str], message: str) -> None:
    with pytest.raises(CacheunitError, match=message) as caught:
        remote_access("", {"CACHEUNIT_REMOTE_CACHE": URL, **variables})
    assert caught.value.faults[0].hint is not None or "has a space" in message or "together" in message
    assert PASSWORD not in str(caught.value)
    assert TOKEN not in str(caught.value)


def netrc(tmp_path: Path, text: str) -> dict[str, str]:
    """Writes a netrc file, and returns the variable that names it."""
    file = tmp_path / "credentials"
    file.write_text(text, encoding="utf-8")
    return {"NETRC": str(file)}


def test_netrc_has_credentials_for_exactly_its_host(tmp_path: Path) -> None:
    text = "machine cache.example.com login me password s3cret-pass\ndefault login other password default-pass\n"
    variables = netrc(tmp_path, text)
    assert authorization(URL, **variables) == basic("me", "s3cret-pass")
    assert authorization(CACHEUNIT_REMOTE_CACHE=URL, **variables) == basic("me", "s3cret-pass")
    for other in ("https://example.com", "https://evil.cache.example.com", "https://cache.example.com.evil.org"):
        assert authorization(other, **variables) is None
    (tmp_path / ".netrc").write_text(text, encoding="utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    assert authorization(URL) == basic("me", "s3cret-pass")


def test_netrc_is_for_the_port_of_https_unless_the_environment_names_another(tmp_path: Path) -> None:
    text = "machine cache.example.com login me password s3cret-pass\nmachine localhost login me password s3cret-pass\n"
    variables = netrc(tmp_path, text)
    for url in ("https://cache.example.com:8443", "http://localhost:8080"):
        assert authorization(url, **variables) is None
        assert authorization(CACHEUNIT_REMOTE_CACHE=url, **variables) == basic("me", "s3cret-pass")


@pytest.mark.parametrize("text", ["machine", "machine cache.example.com login me", "\0", "machine x y z"])
def test_a_netrc_that_cannot_be_read_has_no_credentials(tmp_path: Path, text: str) -> None:
    assert authorization(URL, **netrc(tmp_path, text)) is None
    assert authorization(URL, NETRC=str(tmp_path / "missing")) is None


def test_credentials_of_the_environment_come_before_netrc(tmp_path: Path) -> None:
    variables = netrc(tmp_path, "machine cache.example.com login me password s3cret-pass\n")
    assert authorization(CACHEUNIT_REMOTE_CACHE=URL, **BEARER, **variables) == "Bearer abc-123"


@pytest.mark.parametrize("variables", [{"CACHEUNIT_CACHE_TOKEN": TOKEN.replace(" ", "")}, LOGIN])
def test_no_remark_shows_a_secret_in_any_spelling(variables: dict[str, str]) -> None:
    given = access(CACHEUNIT_REMOTE_CACHE=URL, **variables)
    state = Health(given.url, given.without_secrets)
    header = given.server.headers["Authorization"]
    secret = variables.get("CACHEUNIT_CACHE_TOKEN", PASSWORD)
    spellings = [secret, header, json.dumps(secret), secret.encode().hex(), base64.b64encode(secret.encode()).decode()]
    state.failed(" ".join(spellings))
    (remark,) = state.remarks
    for spelling in (*spellings, header.partition(" ")[2]):
        assert spelling not in remark
    assert "***" in remark


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:pa%20ss@proxy.example.com:3128")
    proxy = access(URL).server.proxy
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy.example.com", 3128)
    assert proxy.headers == {"Proxy-Authorization": basic("user", "pa ss")}
    assert access("http://localhost:8080").server.proxy is None
    monkeypatch.setenv("no_proxy", "example.com")
    assert access(URL).server.proxy is None


def test_a_proxy_of_another_kind_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://user:secret-password@proxy.example.com")
    with pytest.raises(CacheunitError, match="proxy of the environment") as caught:
        access(URL)
    assert "secret-password" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://cache.example.com", "https://cache.example.com:8443/a/b/", "http://127.0.0.1:8080", "http://localhost/x",
        "http://[::1]:8080", "https://10.0.0.1",
    ],
)  # fmt: skip
def test_a_remote_in_the_settings_is_https_or_on_this_machine(url: str) -> None:
    assert parse_settings(None, f'[cache]\nremote = "{url}"'.encode()).cache.remote == url


@pytest.mark.parametrize(
    "url",
    [
        "cache.example.com", "http://cache.example.com", "http://127.0.0.1.evil.org", "http://localhost.evil.org",
        "ftp://cache.example.com", "https://", "https:///x", "https://host:0", "https://host:99999", "https://host:x",
        "https://me:secret-word@cache.example.com", "https://me@cache.example.com", "https://cache.example.com?secret-word",
        "https://cache.example.com#x", "https://cache.example.com/a b", "https://cache.example.com/\\u001b[2J",
        "https://cache.example.com/../x", "https://cache.example.com//x", "https://cache.example.com/%2e%2e",
        "https://c\\u00e4che.example.com", "https://cache.example.com\\\\@evil.org", "HTTP://cache.example.com",
    ],
)  # fmt: skip
def test_another_remote_in_the_settings_is_a_fault_with_its_line_and_is_not_shown(url: str) -> None:
    with pytest.raises(CacheunitError) as caught:
        parse_settings(None, f'build = "out"\n\n[cache]\nremote = "{url}"'.encode())
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == ("cacheunit.toml", 4)
    assert fault.hint
    assert "secret-word" not in str(fault)
    assert "remote cache" in fault.message


def test_an_unknown_key_of_the_cache_is_a_fault() -> None:
    with pytest.raises(CacheunitError, match="remotes"):
        parse_settings(None, b'[cache]\nremotes = "https://cache.example.com"')


def test_the_schema_of_the_settings_has_the_remote() -> None:
    schema = json.dumps(settings_schema())
    assert "The URL of a remote cache" in schema


def test_the_command_line_opens_what_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"pyproject.toml": f'[tool.cacheunit.cache]\nremote = "{URL}"'.encode()}
    cache = open_remote_cache(files.get)
    assert cache is not None
    assert cache.url == URL
    assert open_remote_cache(files.get, refused=True) is None
    assert open_remote_cache(files.get, verifies=True) is None
    monkeypatch.setenv("CACHEUNIT_REMOTE_CACHE", "")
    assert open_remote_cache(files.get) is None
    monkeypatch.setenv("CACHEUNIT_REMOTE_CACHE", "http://127.0.0.1:9")
    for verifies in (False, True):
        other = open_remote_cache(files.get, verifies=verifies)
        assert other is not None
        assert other.url == "http://127.0.0.1:9"


@pytest.mark.parametrize("settings", ["", "cache = 1", "[cache]\nremote = 1", '[cache]\nremote = "http://x"', "[["])
def test_settings_that_are_not_valid_open_no_remote(settings: str) -> None:
    assert open_remote_cache({"cacheunit.toml": settings.encode()}.get) is None


@pytest.mark.parametrize(
    ("arguments", "variable", "refused"), [([], None, False), (["--no-remote"], None, True), ([], "1", True)]
)
def test_the_option_and_its_variable_refuse_the_remote(
    arguments: list[str], variable: str | None, *, refused: bool
) -> None:
    @click.command()
    @no_remote_option
    def command(*, no_remote: bool) -> None:
        click.echo(no_remote)

    ran = CliRunner().invoke(command, arguments, env={"CACHEUNIT_NO_REMOTE": variable})
    assert ran.output.strip() == str(refused)
