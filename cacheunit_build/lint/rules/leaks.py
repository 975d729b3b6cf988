"""What tells of a machine, a network or a person, secrets aside: CU2xx."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.results import Severity
    from cacheunit_build.lint.segment import Match, Segment

_SEGMENT = r"[\w.@+~-]+"
_HOME = re.compile(
    rf"(?<![\w./-])(?:/home/|/Users/|/mnt/[a-z]/Users/|[A-Za-z]:[\\/]{{1,2}}[Uu]sers[\\/]{{1,2}})({_SEGMENT})"
    rf"(?:[\\/]{{1,2}}{_SEGMENT})*"
)
_ROOM = re.compile(
    rf"(?<![\w./:-])(?:/root|/private/var|/var/folders|/scratch|/workspaces?|/builds?/{_SEGMENT}|/mnt/{_SEGMENT}"
    rf"|/tmp/{_SEGMENT}|[A-Za-z]:\\\\?(?!Windows|Program|Python|path)[A-Za-z]{_SEGMENT})(?:[\\/]{{1,2}}{_SEGMENT})+"
)
# Accounts that images and manuals use, and words that stand for an account.
_ACCOUNTS = frozenset(
    (
        *("user", "users", "username", "user1", "name", "yourname", "yourusername", "your-name", "you"),
        *("me", "myuser", "someone", "somebody", "alice", "bob", "john", "jane", "jdoe", "johndoe", "janedoe", "foo"),
        *("runner", "ubuntu", "vscode", "node", "app", "appuser", "ec2-user", "vagrant", "jovyan", "circleci", "pi"),
        *("codespace", "gitpod", "git", "public", "shared", "default", "...", "xxx", "example", "test", "admin", "dev"),
        *("nonroot", "coder", "youruser", "your_username", "your_user", "your_name", "linuxbrew", "deploy"),
    )
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?<![\w.@/-])(?:(?:[a-z][a-z0-9+]*://)?(?:[\w.+-]+@)?)((?:{_LABEL}\.)+(?:internal|corp|lan|intranet|intra|home\.arpa|local))"
    r"(?![\w-]|\.\w|\()"
)
_KNOWN_HOSTS = ("svc.cluster.local", "host.docker.internal", "metadata.google.internal", "gateway.docker.internal")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_PUBLIC_RESOLVERS = frozenset(("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9", "1.2.3.4", "168.63.129.16"))
_VERSION = re.compile(r"(?:version|release|v|build|upgrade[sd]?|from|==?|~=|>=|to)\W{0,3}$", re.IGNORECASE)
_SMALL = 32
_EMAIL = re.compile(
    rf"(?<![\w.+/%:-])([A-Za-z0-9._%+-]+)@((?:{_LABEL}\.)+(?:[a-z]{{2,12}}|[A-Z]{{2,12}}))(?![\w-]|\.\w|:)"
)
# RFC 2606 and 6761, and names that texts use in the same way.
_SAMPLE_DOMAINS = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|org|net|edu|co\.uk))?|test|invalid|localhost|local|internal)$"
    r"|(?:^|\.)(?:your|my|some)?-?(?:company|domain|site|org|organi[sz]ation|business|email|mail|host|server|corp|app|website"
    r"|firm|client|test|provider|tenant|project)\.(?:com|org|net|io|edu|local|co|de|tld|extension|onmicrosoft\.com)$"
    r"|(?:^|\.)(?:contoso|fabrikam|northwind|northwindtraders|adventure-works|foo|bar|baz|acme)\.(?:com|org|net|io)$"
)
_MACHINES = frozenset(("git", "noreply", "no-reply", "donotreply", "hg", "actions"))
_FILES = frozenset(("png", "jpg", "jpeg", "svg", "gif", "js", "ts", "css", "md", "json", "yaml", "yml", "py", "html"))


def leak_hits(passage: Segment) -> Iterator[Match]:
    """Absolute paths, hosts and e-mail addresses, those for documentation aside."""
    yield from _paths(passage)
    yield from _hosts(passage)
    for match in _EMAIL.finditer(passage.text):
        name, domain = match[1].lower(), match[2].lower()
        if name not in _MACHINES and domain.rpartition(".")[2] not in _FILES and not _SAMPLE_DOMAINS.search(domain):
            yield passage.hit("CU203", *match.span(), f'"{match[0]}" is an e-mail address')


def _paths(passage: Segment) -> Iterator[Match]:
    for match in _HOME.finditer(passage.text):
        if match[1].lower().rstrip(".") not in _ACCOUNTS and match[1].strip("."):
            severity: Severity | None = "info" if passage.is_example(match.start()) else None
            yield passage.hit("CU201", *match.span(), f'"{match[0]}" is a path in somebody\'s home', severity)
    for match in _ROOM.finditer(passage.text):
        if not passage.is_example(match.start()):
            yield passage.hit("CU201", *match.span(), f'"{match[0]}" is a path of one machine')


def _hosts(passage: Segment) -> Iterator[Match]:
    for match in _HOST.finditer(passage.text):
        host = match[1].lower()
        in_url = match.start(1) > match.start()
        deep = host.count(".") > 1
        known = (
            host.endswith(_KNOWN_HOSTS) or "example" in host or (host.endswith(".local") and not in_url and not deep)
        )
        if not known and not _is_code(passage, match, host):
            severity: Severity | None = "info" if passage.is_example(match.start()) else None
            yield passage.hit("CU202", *match.span(1), f'"{match[1]}" is a host of an internal network', severity)
    for match in _IPV4.finditer(passage.text):
        kind = _kind_of_address(match[0])
        version = _VERSION.search(passage.before(match.start())) is not None
        if kind and not version and not passage.is_example(match.start()):
            yield passage.hit("CU202", *match.span(), f'"{match[0]}" is {kind} address')


def _is_code(passage: Segment, match: re.Match[str], host: str) -> bool:
    """Dotted names of programs end like hosts: `com.acme.internal` is a package, `self.local` a field."""
    dotted = host.split(".")
    reverse = dotted[0] in ("com", "org", "net", "io", "dev", "de") or dotted[0] in ("self", "this", "env", "config")
    return reverse or (passage.in_code(match.start()) and match.start(1) == match.start() and len(dotted) == 2)  # noqa: PLR2004


def _kind_of_address(text: str) -> str | None:
    """What an address is, None where it is one that documentation, or every machine, has; or is a version."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return None
    octets = [int(part) for part in text.split(".")]
    if text in _PUBLIC_RESOLVERS or max(octets) < _SMALL or octets[-1] in (0, 255):
        return None
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local:
        return None
    if any(address in network for network in _DOCUMENTATION):
        return None
    return "a private" if address.is_private else "a public"


_DOCUMENTATION = [
    ipaddress.IPv4Network(network)
    for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "255.0.0.0/8", "240.0.0.0/4")
]
