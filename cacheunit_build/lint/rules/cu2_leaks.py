"""CU2xx: text that reveals a machine, a network, a person or a secret."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from cacheunit_build.lint.certain_secrets import certain_secrets
from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.lint.rules.cu1_identifiers import looks_generated
from cacheunit_build.lint.segment import first_of_each_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.protocols import SecretScanner
    from cacheunit_build.lint.certain_secrets import CertainSecret
    from cacheunit_build.lint.rule import Severity
    from cacheunit_build.lint.segment import Match, Segment

ABSOLUTE_PATH = Rule(
    code="CU201",
    name="absolute-path",
    severity="warning",
    meaning="a path of one machine, one run or one user: it differs in each clone or run, and may reveal a name",
    hint="use a path relative to the project, or a placeholder",
    why=(
        "A path in a home folder or in a temporary folder is that of one machine, one user or one run. The next "
        "machine renders other bytes, so that the two share no cache from there on, and a path may tell the model "
        "and its provider the name of a person."
    ),
    bad=template_example("The notes are in /home/shopdesk/notes/shop.\n"),
    good=template_example("The notes are in the folder notes/shop of the project.\n"),
)
HOST_NAME = Rule(
    code="CU202",
    name="host-name",
    severity="warning",
    meaning="the name of a host in an internal network, or an IP address",
    hint="name its role instead, or use a name or address for documentation (example.com, 192.0.2.1)",
    why=(
        "The name or address of an internal host shows the inside of a network to the provider, and to each user "
        "who gets the model to repeat its prompt. It differs between staging and production too, which then share "
        "no cache from there on."
    ),
    bad=template_example("Look up the stock at db1.prod.internal first.\n"),
    good=template_example("Look up the stock in the stock database first.\n"),
    sources=("https://www.rfc-editor.org/info/rfc5737",),
)
E_MAIL = Rule(
    code="CU203",
    name="e-mail",
    severity="warning",
    meaning="an e-mail address outside the domains for documentation",
    hint="if users need it, ignore the rule here; else use an address at example.com",
    why=(
        "An address of a person is personal data, which goes to the provider with each request, and stays in "
        "artifacts and in the history of git. A user can get the model to repeat it. An address that users "
        "are meant to get is fine: ignore the rule there."
    ),
    bad=template_example("If you cannot help, write to jutta.weber@velowerk-muster.de about it.\n"),
    good=template_example("If you cannot help, write to desk@example.com about it.\n"),
    sources=("https://www.rfc-editor.org/rfc/rfc2606", "https://www.rfc-editor.org/rfc/rfc6761"),
)
SECRET = Rule(
    code="CU204",
    name="secret",
    severity="error",
    meaning="a key, token or password, found with the patterns of detect-secrets (extra: secrets)",
    hint="remove it and revoke it: artifacts, git history and caches keep copies",
    why=(
        "A password or key in a prompt goes to the provider with each request, into `build/` and into the history "
        "of git, and a user can get the model to repeat it. Removing the text does not take it back, so revoke "
        "it. The detectors of detect-secrets also find forms that may be something else, so this rule stops a "
        "build only where the gate names it."
    ),
    bad=template_example("Sign in with mysql://agent:…@stock first.\n"),
    good=template_example("Sign in with the tool sign_in first.\n"),
    sources=("https://github.com/Yelp/detect-secrets",),
)
CREDENTIAL = Rule(
    code="CU205",
    name="credential",
    severity="error",
    meaning="a key or token of a form that nothing else has; it stops a build too",
    hint="remove it and revoke it: git history and caches keep copies; if it is not a secret, ignore the rule here",
    why=(
        "Nothing but a key or token has this form, so a secret is about to be frozen into an artifact and sent to "
        "a provider with each request. `build` and `watch` write nothing, and `check` fails, until it is removed "
        "or a comment lets it pass. Revoke it: git history and caches keep copies."
    ),
    bad=template_example("Sign in to the repository with ghp_….\n"),
    good=template_example("Sign in to the repository with the tool sign_in.\n"),
)
RULES = (ABSOLUTE_PATH, HOST_NAME, E_MAIL, SECRET, CREDENTIAL)

_PATH_PART = r"[\w.@+~-]*[\w@+~-]"
# /home/NAME/notes, C:\Users\NAME\notes; group 1 is the account.
_HOME_PATH = re.compile(
    rf"(?<![\w./-])(?:/home/|/Users/|/mnt/[a-z]/Users/|[A-Za-z]:[\\/]{{1,2}}[Uu]sers[\\/]{{1,2}})({_PATH_PART})"
    rf"(?:[\\/]{{1,2}}{_PATH_PART})*"
)
# /scratch/run7/work, /tmp/build1/out, D:\work\shop
_MACHINE_PATH = re.compile(
    rf"(?<![\w./:-])(?:/root|/private/var|/var/folders|/run/user/\d+|/scratch|/workspaces?|/builds?/{_PATH_PART}|/mnt/{_PATH_PART}"
    rf"|/tmp/{_PATH_PART}|[A-Za-z]:\\\\?(?!Windows|Program|Python|path)[A-Za-z]{_PATH_PART})(?:[\\/]{{1,2}}{_PATH_PART})+"
)
# /tmp/x8fj2, %TEMP%\x8fj2, C:\Users\NAME\AppData\Local\Temp\x8fj2; group 1 is what stands below the folder.
_TEMPORARY_PATH = re.compile(
    r"(?<![\w./:-])(?:file://)?(?:(?:/private|/var)?/tmp|/dev/shm|%TE?MP%|%LOCALAPPDATA%[\\/]{1,2}Temp|[A-Za-z]:[\\/]{1,2}Te?mp|\$(?:\{TMPDIR\}|TMPDIR|TE?MP)|[A-Za-z]:[\\/]{1,2}Windows"
    rf"[\\/]{{1,2}}Temp|[A-Za-z]:[\\/]{{1,2}}Users[\\/]{{1,2}}{_PATH_PART}[\\/]{{1,2}}AppData[\\/]{{1,2}}Local[\\/]{{1,2}}Temp)"
    rf"((?:[\\/]{{1,2}}{_PATH_PART})+)",
    re.IGNORECASE,
)
# The parts of such a path; Python's own names, and numbers of processes.
_NAME_PARTS = re.compile(r"[0-9A-Za-z]+")
_TEMPORARY_NAME = re.compile(
    r"(?:^|[\\/])(?:tmp[a-z0-9_]{8}|\d{5,}|[a-z-]+\d{6,}|[a-z][\w.-]*-(?!(?:19|20)\d\d\b)\d{3,})(?=[\\/]|$)"
)
# Accounts of container images and of documentation, and placeholders for an account.
_GENERIC_ACCOUNTS = frozenset(
    (
        *("user", "users", "username", "user1", "name", "yourname", "yourusername", "your-name", "you"),
        *("me", "myuser", "someone", "somebody", "alice", "bob", "john", "jane", "jdoe", "johndoe", "janedoe", "foo"),
        *("runner", "ubuntu", "vscode", "node", "app", "appuser", "ec2-user", "vagrant", "jovyan", "circleci", "pi"),
        *("codespace", "gitpod", "git", "public", "shared", "default", "...", "xxx", "example", "test", "admin", "dev"),
        *("nonroot", "coder", "youruser", "your_username", "your_user", "your_name", "linuxbrew", "deploy"),
    )
)
# One label of a domain name: RFC 1035, section 2.3.1.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# db1.prod.internal, https://git.lan, root@nas.home.arpa; group 1 is the host. `print.local(` is a call.
_INTERNAL_HOST = re.compile(
    rf"(?<![\w.+@/-])(?:(?:[a-z][a-z0-9+]*://)?(?:[\w.+-]+@)?)((?:{_LABEL}\.)+(?:internal|corp|lan|intranet|intra|home\.arpa|local))"
    r"(?![\w-]|\.\w|\()"
)
# Names that every cluster, container or virtual machine has.
_STANDARD_HOSTS = ("svc.cluster.local", "host.docker.internal", "metadata.google.internal", "gateway.docker.internal")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
# Public DNS servers, the virtual address of Azure, and an address that everybody writes as an example.
_WELL_KNOWN_ADDRESSES = frozenset(("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9", "1.2.3.4", "168.63.129.16"))
# In front of four numbers that are a version: "version 1.40.2.7", "upgrade from 93.1.40.2".
_VERSION_WORD = re.compile(r"(?:version|release|v|build|upgrade[sd]?|from|==?|~=|>=|to)\W{0,3}$", re.IGNORECASE)
_MAX_VERSION_PART = 32
"""Four numbers that are all smaller are more likely a version than an address."""

_EMAIL = re.compile(
    rf"(?<![\w.+/%:-])([A-Za-z0-9._%+-]+)@((?:{_LABEL}\.)+(?:[a-z]{{2,12}}|[A-Z]{{2,12}}))(?![\w-]|\.\w|:)"
)
# Domains reserved by RFC 2606 and RFC 6761, and others that documentation uses as examples.
_EXAMPLE_DOMAIN = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|org|net|edu|co\.uk))?|test|invalid|localhost|local|internal)$"
    r"|(?:^|\.)(?:your|my|some)?-?(?:company|domain|site|org|organi[sz]ation|business|email|mail|host|server|corp|app|website"
    r"|firm|client|test|provider|tenant|project)\.(?:com|org|net|io|edu|local|co|de|tld|extension|onmicrosoft\.com)$"
    r"|(?:^|\.)(?:contoso|fabrikam|northwind|northwindtraders|adventure-works|foo|bar|baz|acme)\.(?:com|org|net|io)$"
)
_SERVICE_ACCOUNTS = frozenset(("git", "noreply", "no-reply", "donotreply", "hg", "actions"))
# `logo@2x.png` is a file.
_FILE_EXTENSIONS = frozenset(
    ("png", "jpg", "jpeg", "svg", "gif", "js", "ts", "css", "md", "json", "yaml", "yml", "py", "html")
)
# Addresses that every machine has, or that only documentation uses.
_UNREPORTED_NETWORKS = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # documentation
        *("127.0.0.0/8", "169.254.0.0/16"),  # loopback, link-local
        *("224.0.0.0/4", "240.0.0.0/4"),  # multicast, reserved (with net masks)
    )
)


def leak_matches(segment: Segment) -> Iterator[Match]:
    """Yields machine-specific paths, internal hosts, IP addresses and e-mail addresses."""
    yield from _paths(segment)
    yield from _internal_hosts(segment)
    yield from _ip_addresses(segment)
    yield from _email_addresses(segment)


def credential_matches(segment: Segment) -> Iterator[Match]:
    """Yields keys and tokens of a certain form; their messages show nothing of them."""
    for secret in certain_secrets(segment.text):
        yield segment.match(CREDENTIAL, (secret.start, secret.end), credential_message(secret))


def credential_message(secret: CertainSecret) -> str:
    """Returns the message for a key or token of a certain form, without any part of it."""
    return f"a secret: {secret.kind}"


def secret_matches(segment: Segment, scan: SecretScanner | None) -> Iterator[Match]:
    """Yields what the scanner takes for secrets, nothing without one; messages show nothing of them."""
    for start, end, kind in scan(segment.text) if scan else ():
        yield segment.match(SECRET, (start, end), f"a secret: {kind}")


def _paths(segment: Segment) -> Iterator[Match]:
    """Yields paths in a home directory of a real account, temporary paths, and others that only one machine has."""
    yield from first_of_each_place((_home_paths(segment), _temporary_paths(segment), _machine_paths(segment)))


def _home_paths(segment: Segment) -> Iterator[Match]:
    """Yields paths in a home directory of a real account."""
    for match in segment.finditer(_HOME_PATH):
        account = match[1].lower()
        if account.strip(".") and account.rstrip(".") not in _GENERIC_ACCOUNTS:
            message = f'"{match[0]}" is a path in a user\'s home directory'
            yield segment.match(ABSOLUTE_PATH, match.span(), message, _severity(segment, match))


def _temporary_paths(segment: Segment) -> Iterator[Match]:
    """Yields paths below a folder for temporary files with a part that a program generated."""
    for match in segment.finditer(_TEMPORARY_PATH):
        parts = (part.removeprefix("tmp") or part for part in _NAME_PARTS.findall(match[1]))
        is_generated = any(map(looks_generated, parts)) or _TEMPORARY_NAME.search(match[1])
        if is_generated and not segment.looks_like_example(match.start()):
            message = f'"{match[0]}" is a temporary path: it differs in each run'
            yield segment.match(ABSOLUTE_PATH, match.span(), message)


def _machine_paths(segment: Segment) -> Iterator[Match]:
    """Yields paths that only one machine has."""
    for match in segment.finditer(_MACHINE_PATH):
        if not segment.looks_like_example(match.start()):
            yield segment.match(ABSOLUTE_PATH, match.span(), f'"{match[0]}" is a path on one machine')


def _internal_hosts(segment: Segment) -> Iterator[Match]:
    """Yields names under top-level domains that only internal networks use."""
    for match in segment.finditer(_INTERNAL_HOST):
        if not _is_generic_host(match) and not _is_dotted_code(segment, match):
            message = f'"{match[1]}" is a host in an internal network'
            yield segment.match(HOST_NAME, match.span(1), message, _severity(segment, match))


def _is_generic_host(match: re.Match[str]) -> bool:
    """Returns whether a host is an example, exists in every cluster, or is a file such as `settings.local`."""
    host = match[1].lower()
    looks_like_file = host.endswith(".local") and host.count(".") == 1 and not _is_in_url(match)
    return host.endswith(_STANDARD_HOSTS) or "example" in host or looks_like_file


def _is_dotted_code(segment: Segment, match: re.Match[str]) -> bool:
    """Returns whether a match is an identifier: `com.acme.internal` is a package, `self.local` a field."""
    first, *others = match[1].lower().split(".")
    if first in ("com", "org", "net", "io", "dev", "de", "self", "this", "env", "config"):
        return True
    return len(others) == 1 and not _is_in_url(match) and segment.in_code(match.start())


def _is_in_url(match: re.Match[str]) -> bool:
    """Returns whether a scheme or a user precedes the host: `https://db.lan`, `root@db.lan`."""
    return match.start(1) > match.start()


def _ip_addresses(segment: Segment) -> Iterator[Match]:
    """Yields IPv4 addresses that name a host, unless the text presents them as an example or a version."""
    for match in segment.finditer(_IPV4):
        kind = _address_kind(match[0])
        is_version = _VERSION_WORD.search(segment.line_before(match.start())) is not None
        if kind and not is_version and not segment.looks_like_example(match.start()):
            yield segment.match(HOST_NAME, match.span(), f'"{match[0]}" is a {kind} IP address')


def _address_kind(text: str) -> str | None:
    """Returns whether an IPv4 address is private or public; None where it names no particular host.

    | text                          | result  |
    | ----------------------------- | ------- |
    | 10.20.30.41                   | private |
    | 93.184.216.34                 | public  |
    | 127.0.0.1, 192.0.2.7, 8.8.8.8 | None: every machine, documentation and everybody knows them |
    | 1.2.3.4, 10.0.0.0             | None: a version, a network                                  |
    | 300.1.1.1                     | None: not an address                                        |
    """
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return None
    octets = address.packed
    looks_like_version = max(octets) < _MAX_VERSION_PART
    is_network = octets[-1] in (0, 255)
    if looks_like_version or is_network or text in _WELL_KNOWN_ADDRESSES:
        return None
    if any(address in network for network in _UNREPORTED_NETWORKS):
        return None
    return "private" if address.is_private else "public"


def _email_addresses(segment: Segment) -> Iterator[Match]:
    """Yields e-mail addresses, except those of services and example domains, and file names such as `a@2x.png`."""
    for match in segment.finditer(_EMAIL):
        account, domain = match[1].lower(), match[2].lower()
        is_file = domain.rpartition(".")[2] in _FILE_EXTENSIONS
        if account not in _SERVICE_ACCOUNTS and not is_file and not _EXAMPLE_DOMAIN.search(domain):
            yield segment.match(E_MAIL, match.span(), f'"{match[0]}" is an e-mail address')


def _severity(segment: Segment, match: re.Match[str]) -> Severity | None:
    """Returns `info` for what looks like an example; None, the rule's own severity, for anything else."""
    return "info" if segment.looks_like_example(match.start()) else None
