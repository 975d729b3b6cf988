"""Secrets of a certain form, and what the settings add, stop a build before anything is frozen."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheunit_build.adapters.system import secret_scanner
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.lint.certain_secrets import SecretSearch, certain_secrets
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from conftest import CommandResult, Project


def random_text(length: int, alphabet: str, seed: str = "") -> str:
    """Returns the same characters at each run, of the kind that a provider draws at random."""
    drawn = hashlib.shake_256(f"{seed} {length} {alphabet}".encode()).digest(length)
    return "".join(alphabet[byte % len(alphabet)] for byte in drawn)


HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALNUM = f"{LETTERS}0123456789"
WORD = f"{ALNUM}_-"
BASE64 = f"{ALNUM}+/"


def tokens() -> dict[str, str]:
    """Returns a secret of each form; heads are not literals here, so that no scanner reports this file."""
    forms = {
        "AWS access key": [(head, UPPER, 16, "") for head in ("AKIA", "ASIA", "ABIA", "ACCA")],
        "Amazon Bedrock key": [("ABSK", BASE64, 128, "=")],
        "Google API key": [("AIza", WORD, 35, ""), ("AQ.Ab", WORD, 48, "")],
        "Google OAuth secret": [("GOCSPX-", WORD, 28, "")],
        "Google access token": [("ya29.", WORD, 100, "")],
        "Azure account key": [("AccountKey=", BASE64, 86, "=="), ("SharedAccessKey=", BASE64, 43, "=")],
        "Azure shared access signature": [("https://a.test/?sv=2026-01-01&sig=", ALNUM, 43, "%3D")],
        "Azure client secret": [("abc8Q~", f"{ALNUM}.~-", 34, "")],
        "DigitalOcean token": [("dop_v1_", HEX, 64, "")],
        "GitHub token": [*((f"gh{kind}_", ALNUM, 36, "") for kind in "pousr"), ("github_pat_", ALNUM, 82, "")],
        "GitLab token": [("glpat-", WORD, 20, ""), ("glrt-", WORD, 20, "")],
        "Slack token": [*((f"xox{kind}-", f"{ALNUM}-", 40, "") for kind in "bpars"), ("xapp-1-", ALNUM, 60, "")],
        "Slack webhook": [("https://hooks.slack.com/services/T0A1B2C3D/B0E1F2G3H/", ALNUM, 24, "")],
        "Discord webhook": [("https://discord.com/api/webhooks/314159265358979323/", WORD, 68, "")],
        "Telegram bot token": [("271828182:AA", WORD, 33, "")],
        "npm token": [("npm_", ALNUM, 36, "")],
        "PyPI token": [("pypi-Ag", WORD, 150, "")],
        "RubyGems key": [("rubygems_", HEX, 48, "")],
        "Docker Hub token": [("dckr_pat_", WORD, 27, "")],
        "Hugging Face token": [("hf_", LETTERS, 34, "")],
        "Stripe key": [("sk_live_", ALNUM, 24, ""), ("rk_live_", ALNUM, 99, "")],
        "Shopify token": [("shpat_", HEX, 32, "")],
        "Databricks token": [("dapi", HEX, 32, "")],
        "HashiCorp Vault token": [("hvs.", WORD, 90, "")],
        "age key": [("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, "")],
        "Anthropic key": [("sk-ant-api03-", WORD, 93, "AA"), ("sk-ant-", WORD, 40, "")],
        "OpenAI key": [("sk-proj-", WORD, 156, ""), ("sk-svcacct-", WORD, 60, ""), ("sk-admin-", WORD, 60, "")],
        "OpenRouter key": [("sk-or-v1-", HEX, 64, "")],
        "model API key": [("sk-", HEX, 32, ""), ("sk-", ALNUM, 48, "")],
        "Groq key": [("gsk_", ALNUM, 52, "")],
        "xAI key": [("xai-", ALNUM, 80, "")],
        "Replicate token": [("r8_", ALNUM, 37, "")],
        "NVIDIA key": [("nvapi-", WORD, 64, "")],
        "Figma token": [("figd_", WORD, 40, "")],
        "Fly.io token": [("fm2_", WORD, 80, "")],
        "Sourcegraph token": [("sgp_", HEX, 40, "")],
        "Tailscale key": [("tskey-auth-", ALNUM, 40, "")],
        "Pulumi token": [("pul-", HEX, 40, "")],
        "ElevenLabs key": [("sk_", HEX, 48, "")],
    }
    made = {
        f"{kind}, {head}": f"{head}{random_text(length, alphabet)}{end}"
        for kind, rows in forms.items()
        for head, alphabet, length, end in rows
    }
    made["SendGrid key, SG."] = f"SG.{random_text(22, WORD)}.{random_text(43, WORD)}"
    return made


TOKENS = tokens()
GITHUB = TOKENS["GitHub token, ghp_"]
KEY_LINES = [random_text(64, BASE64, str(line)) for line in range(4)]


def test_a_private_key_on_one_line_is_found() -> None:
    (secret,) = certain_secrets(private_key("RSA PRIVATE KEY").replace("\n", " "))
    assert secret.kind == "private key"


def private_key(kind: str, *headers: str) -> str:
    return "\n".join([f"-----BEGIN {kind}-----", *headers, *KEY_LINES, f"-----END {kind}-----"])


# Forms


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Sign in with {}.",
        "`{}`",
        'key="{}",',
        "https://x.test/?token={}&a=b",
        "Schlüssel \U0001f511: ({})",
        "a\n{}\n",
    ],
)
def test_a_token_is_found_whatever_is_around_it(name: str, around: str) -> None:
    text = around.format(TOKENS[name])
    (secret,) = certain_secrets(text)
    assert secret.kind == name.split(", ", maxsplit=1)[0]
    assert text[secret.start : secret.end] == secret.value
    assert TOKENS[name].endswith(secret.value) or secret.value in TOKENS[name]


@pytest.mark.parametrize("escaped", [r'{"a": "x\n%s"}', r'{"a": "\u003c%s\u003e"}', r"\t%s"])
def test_a_token_is_found_in_escaped_text(escaped: str) -> None:
    assert [secret.value for secret in certain_secrets(escaped % GITHUB)] == [GITHUB]


@pytest.mark.parametrize(
    "key",
    [
        private_key("PRIVATE " + "KEY"),
        private_key("RSA PRIVATE " + "KEY"),
        private_key("RSA PRIVATE " + "KEY", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0011", ""),
        private_key("OPENSSH PRIVATE " + "KEY"),
        private_key("ENCRYPTED PRIVATE " + "KEY"),
        private_key("PGP PRIVATE " + "KEY BLOCK", "Version: GnuPG v2", ""),
        private_key("EC PRIVATE " + "KEY").replace("\n", "\r\n"),
        private_key("PRIVATE " + "KEY").replace("\n", "\n    "),
        private_key("PRIVATE " + "KEY").replace("\n", "\n> "),
        private_key("PRIVATE " + "KEY").replace("\n", r"\n"),
        json.dumps({"type": "service_account", "private_key": private_key("PRIVATE " + "KEY")}),
        private_key("PRIVATE " + "KEY").rpartition("\n")[0],  # cut off
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n" + KEY_LINES[0],
    ],
)
def test_a_private_key_is_found_in_every_form(key: str) -> None:
    (secret,) = certain_secrets(f"Use this:\n\n{key}\n\nAnd be kind.")
    assert (secret.kind, secret.value) == ("private key", KEY_LINES[0])


NO_SECRETS = [
    "AKIAIOSFODNN7EXAMPLE and AKIAI44QH8DHBEXAMPLE, ASIAXXXXXXXXXXXXXXXX, AKIA0000000000000000",
    "sk-... and sk-your-key, sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, sk-proj-abc123...",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, ghp_1234567890abcdefghijklmnopqrstuvwxyz, ghp_YOUR_TOKEN_HERE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a is in GitHub's documentation",
    "sk-ant-api03-your-key-goes-here-and-is-longer-than-forty-characters, sk-ant-api03-" + "x" * 93,
    "glpat-xxxxxxxxxxxxxxxxxxxx, xoxb-your-token-goes-here-please, hf_" + "x" * 34,
    "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
    f"{GITHUB[:-12]}... and {TOKENS['npm token, npm_'][:-9]}\u2026",
    "task-0123456789abcdef0123456789abcdef, disk-" + random_text(40, HEX) + ", ask-" + random_text(40, HEX),
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC...\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n<YOUR_PRIVATE_KEY>\n-----END PRIVATE KEY-----",
    "Keys begin with -----BEGIN PRIVATE KEY-----\n\nThey are in secrets/private/keys/rsa/current2026.\n",
    "-----BEGIN PUBLIC KEY-----\n" + KEY_LINES[0] + "\n-----END PUBLIC KEY-----",
    "AccountKey=<your key>; SharedAccessKey=$KEY; ?sig=<signature>; AccountKey=" + "A" * 86 + "==",
    "commit 3f2b8c1e9d474c15a1f07be2c4d90a61aabbccdd; 550e8400-e29b-41d4-a716-446655440000",
    "sha256-" + KEY_LINES[0] + "; data:image/png;base64," + "".join(KEY_LINES),
    "https://x.test/some-very-long-slug-of-a-page-2026/with-another-long-part/index.html",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
    "${GITHUB_TOKEN}, {{ secrets.OPENAI_API_KEY }}, process.env.ANTHROPIC_API_KEY_FOR_2026_PRODUCTION",
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_placeholders_examples_and_other_texts_are_no_secrets(text: str) -> None:
    assert certain_secrets(text) == []


PIECES = (
    *(GITHUB, GITHUB[:20], GITHUB[20:], "{", "\n", " ", ".", '"', "words", "\\n", "x" * 30),
    *(private_key("RSA PRIVATE KEY"), private_key("RSA PRIVATE KEY")[:15], "-----BEGIN RSA PRIVATE KEY-----\n", "=="),
)


@example([GITHUB[:20], GITHUB])
@example([GITHUB[20:], GITHUB])
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=5))
def test_a_search_that_leaves_out_what_the_text_before_it_had_finds_the_same_texts(texts: list[str]) -> None:
    search = SecretSearch()
    assert [search.finds(text) for text in texts] == [bool(certain_secrets(text)) for text in texts]


@pytest.mark.parametrize(
    "part",
    [
        "-----BEGIN PRIVATE " + "KEY-----\n",
        "-----BEGIN ",
        "sk-",
        "sk-ant-",
        "xoxb-1-",
        "Key=AccountKey=",
        "[?&;]sig=a%",
        "a1B2c3D4e5F6g7H8i9J0",
        "hvs.",
        "PuTTY-User-Key-File-3: ",
        "-----BEGIN PRIVATE " + "KEY-----\n" + "+" * 1_000 + "?a\n",
        "a1/",
        "AA:1",
    ],
)
def test_the_work_grows_with_the_length_of_a_text_only(part: str) -> None:
    """Work by the square of these lengths would take minutes."""
    certain_secrets(part * (300_000 // len(part)))


# The gate


def project_with(project: Project, files: dict[str, str]) -> Project:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Be kind.\n", **files})
    return project


def refused(project: Project, place: str, *commands: tuple[str, ...], secret: str = GITHUB) -> None:
    """Asserts that build, check and the other commands refuse, name the place, write nothing and print no secret."""
    before = project.files()
    for command in (("build",), ("build", "a"), ("check",), ("build", "--format", "json"), *commands):
        ran = project.run(*command)
        assert ran.code == 2, command
        output = ran.out + ran.err
        if "json" in command:
            assert [f"{error['path']}:{error['line']}" for error in ran.json["errors"]] == [place]
        elif "markdown" in command:
            assert f"`{place}`: CU205: a secret: " in ran.out
        else:
            assert f"error: {place}: CU205: a secret: " in ran.err
            assert "hint: remove it and revoke it" in ran.err
        pieces = {secret[start : start + 6] for start in range(len(secret) - 5)}
        assert not any(piece in output for piece in pieces)
    assert project.files() == before
    assert project.run("lint").code == 1


ENCODED = 'targets = ["m"]\n[target.m]\nextends = "deepseek-v4"\nframe = {encoder = "e.py:f"}\n'
ENCODER = "def f(messages): return A + ''.join(message['content'] for message in messages)\n"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"templates/a.md.j2": f"Be kind.\nUse {GITHUB}.\n"}, "templates/a.md.j2:2"),
        (
            {"templates/a.md.j2": "{% include 'b.md.j2' %}\n", "templates/b.md.j2": f"\n\n{GITHUB}\n"},
            "templates/b.md.j2:3",
        ),
        (
            {"prefixes/a.yaml": f"system: a.md.j2\nvariables:\n  t: {GITHUB}\n", "templates/a.md.j2": "Use {{ t }}.\n"},
            "prefixes/a.yaml:3",
        ),
        (
            {
                "prefixes/a.yaml": "system: a.md.j2\ndata:\n  d: d.yaml\n",
                "templates/a.md.j2": "{% for k in d.tokens %}{{ k }} {% endfor %}\n",
                "d.yaml": f"tokens:\n  - none\n  - {GITHUB}\n",
            },
            "d.yaml:3",
        ),
        (
            {
                "prefixes/a.yaml": "system: a.md.j2\ntargets: [anthropic-1024]\nexamples:\n"
                f"  - {{role: user, text: {GITHUB}}}\n"
                "  - {role: assistant, text: Hi}\n"
            },
            "prefixes/a.yaml:4",
        ),
        (
            {
                "prefixes/a.yaml": "system: a.md.j2\ntools: [t.yaml]\ntargets: [anthropic-1024]\n",
                "t.yaml": f"name: f\ndescription: |\n  Finds.\n  With {GITHUB}.\nparameters: {{type: object}}\n",
            },
            "t.yaml:4",
        ),
        (
            {
                "prefixes/a.yaml": "system: a.md.j2\ntools: [t.json]\ntargets: [anthropic-1024]\n",
                "t.json": json.dumps(
                    {
                        "name": "f",
                        "description": "x",
                        "parameters": {"type": "object", "properties": {GITHUB: {"type": "string"}}},
                    },
                    indent=1,
                ),
            },
            "t.json:7",
        ),
        (
            {
                "cacheunit.toml": f'targets = ["m"]\n[target.m]\nextends = "deepseek-v4"\n[target.m.frame]\n'
                f'before = "<{GITHUB}>"\n'
            },
            "cacheunit.toml:5",
        ),
        (
            {
                "cacheunit.toml": 'targets = ["m"]\n[target.m]\nextends = "deepseek-v4"\n'
                'frame = {chat_template = "c.jinja"}\n',
                "c.jinja": f"Hi.\n{GITHUB}\n{{{{ messages[0].content }}}}{{{{ messages[1].content }}}}",
            },
            "c.jinja:2",
        ),
        (
            {"prefixes/a.yaml": f"system: a.md.j2\nmatrix:\n  k: [{GITHUB}]\n", "templates/a.md.j2": "Use {{ k }}.\n"},
            "prefixes/a.yaml:3",
        ),
        (
            {
                "cacheunit.toml": ENCODED,
                "e.py": f"\nA = '{GITHUB}|'\n{ENCODER}",
            },
            "e.py:2",
        ),
        (  # no file has it: the encoder makes it
            {
                "cacheunit.toml": ENCODED,
                "e.py": f"A = '{GITHUB[:9]}' + '{GITHUB[9:]}|'\n{ENCODER}",
            },
            "prefixes/a.yaml:1",
        ),
        ({"templates/a.md.j2": f"{{{{ '{GITHUB[:9]}' ~ '{GITHUB[9:]}' }}}}\n"}, "templates/a.md.j2:1"),
    ],
)
def test_a_secret_is_found_wherever_it_comes_from(project: Project, files: dict[str, str], place: str) -> None:
    refused(project_with(project, files), place, ("check", "a"))


@pytest.mark.parametrize(
    "secret",
    [TOKENS["AWS access key, AKIA"], TOKENS["DigitalOcean token, dop_v1_"], private_key("RSA PRIVATE " + "KEY")],
)
def test_no_part_of_a_secret_is_printed(project: Project, secret: str) -> None:
    project_with(project, {"templates/a.md.j2": f"Be kind.\n{secret}\n"})
    lines = secret.partition("\n")[2] or secret
    refused(project, "templates/a.md.j2:2", ("build", "--format", "markdown"), secret=lines)
    line = lines.split("\n")[0]
    for form in ("text", "json", "markdown", "github", "sarif"):
        ran = project.run("lint", "--format", form)
        assert not any(line[start : start + 6] in ran.out + ran.err for start in range(len(line) - 5))


def test_a_build_that_writes_only_what_is_locked_is_stopped_too(project: Project) -> None:
    project_with(project, {}).build()
    project.edit("templates/a.md.j2", "Be kind.", f"Use {GITHUB}.")
    assert "templates/a.md.j2:1: CU205" in project.run("build", "--locked").err


def test_watch_is_stopped_too_and_goes_on(project: Project) -> None:
    project_with(project, {"templates/a.md.j2": f"Use {GITHUB}.\n"})
    opener = WatchedProject(Context(project.root, quiet=True, verbose=False).project()).reopen
    session = WatchSession(opener, gate=lint_gate())
    (fault,) = session.build().result.faults
    assert (fault.path, fault.line, GITHUB in str(fault)) == ("templates/a.md.j2", 1, False)
    project.edit("templates/a.md.j2", GITHUB, "nothing")
    assert session.build().fixed


@pytest.mark.parametrize(
    ("files", "comment_in"),
    [
        ({"templates/a.md.j2": f"{{# cacheunit: ignore CU205: revoked #}}\nUse {GITHUB}.\n"}, "templates/a.md.j2"),
        (
            {
                "prefixes/a.yaml": f"system: a.md.j2\nvariables:\n  t: {GITHUB} # cacheunit: ignore credential\n",
                "templates/a.md.j2": "Use {{ t }}.\n",
            },
            "prefixes/a.yaml",
        ),
        (
            {
                "cacheunit.toml": f'targets = ["m"]\n[target.m]\nextends = "deepseek-v4"\n[target.m.frame]\n'
                f'before = "<{GITHUB}>" # cacheunit: ignore CU205\n'
            },
            "cacheunit.toml",
        ),
    ],
)
def test_a_secret_may_pass_if_a_comment_at_its_line_says_so(
    project: Project, files: dict[str, str], comment_in: str
) -> None:
    project_with(project, files)
    project.build()
    assert project.run("check").code == 0
    project.write({comment_in: project.read(comment_in).decode().replace("cacheunit: ignore", "ignored")})
    assert project.run("check").code == 2


def test_only_what_changed_is_compiled_and_every_fault_is_reported(project: Project) -> None:
    project_with(project, {"prefixes/b.yaml": "system: b.md.j2\n", "templates/b.md.j2": "Be brief.\n"}).build()
    other = TOKENS["Groq key, gsk_"]
    project.write({"templates/b.md.j2": f"{GITHUB}\n\n{other}\n"})
    ran = project.run("build")
    assert ran.err.count("CU205") == 2
    assert "templates/b.md.j2:1: CU205: a secret: GitHub token" in ran.err
    assert "templates/b.md.j2:3: CU205: a secret: Groq key" in ran.err
    project.write({"templates/b.md.j2": "Be brief.\n"})
    project.build()


# Rules that the settings add


def gated(project: Project, gate: str, text: str, **files: str) -> CommandResult:
    project_with(project, {"cacheunit.toml": f"# settings\ngate = {gate}\n", "templates/a.md.j2": text, **files})
    return project.run("build")


@pytest.mark.parametrize("gate", ['["CU101"]', '["timestamp"]', '["CU1"]', '["CU204", "volatile"]'])
def test_a_rule_in_the_gate_stops_a_build(project: Project, gate: str) -> None:
    ran = gated(project, gate, "Be kind.\nMade 2026-11-30T03:22:43Z.\n")
    assert ran.code == 2
    assert 'error: templates/a.md.j2:2: CU101: "2026-11-30T03:22:43Z" is a timestamp\n\nhint: ' in ran.err
    assert not project.path("cacheunit.lock").exists()


def test_other_rules_stop_nothing(project: Project) -> None:
    assert gated(project, '["CU105"]', "Made 2026-11-30T03:22:43Z.\n").code == 0


def test_a_milder_violation_stops_nothing(project: Project) -> None:
    assert gated(project, '["CU101", "CU102"]', "Write `2026-11-30T03:22:43Z`, or dates like 2026-11-30.\n").code == 0


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ('["CU110"]', 'cacheunit.toml:2: unknown rule "CU110"\n\nhint: did you mean "CU311"?'),
        ('["timestmap"]', 'cacheunit.toml:2: unknown rule "timestmap"\n\nhint: did you mean "timestamp"?'),
        ('["CU406"]', 'cacheunit.toml:2: "CU406" cannot be in the gate: CU406 needs the whole project'),
        ('["CU5"]', 'cacheunit.toml:2: "CU5" cannot be in the gate: CU502, CU503, CU504 needs the whole project'),
        ('"CU101"', 'cacheunit.toml:2: "gate" must be a list'),
        ("[101]", 'cacheunit.toml:2: "gate[0]" must be text'),
    ],
)
def test_a_gate_that_cannot_be_kept_is_a_fault(project: Project, gate: str, expected: str) -> None:
    ran = gated(project, gate, "Be kind.\n")
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
    assert project.run("lint").code == 2
    assert not project.path("cacheunit.lock").exists()


def test_a_gate_that_needs_the_extra_is_a_fault_without_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets.core.plugins.util", None)  # importing it fails
    monkeypatch.setattr(secret_scanner, "detectors", secret_scanner.detectors.__wrapped__)
    ran = gated(project, '["secret"]', "Be kind.\n")
    assert (ran.code, ran.out) == (2, "")
    assert "cacheunit.toml:2: the gate has CU204, which needs an extra\n\nhint: pip install" in ran.err
    assert gated(project, "[]", "Be kind.\n").code == 0


def test_a_change_of_the_gate_looks_at_everything_again(project: Project) -> None:
    assert gated(project, "[]", "Made 2026-11-30T03:22:43Z.\n").code == 0
    project.edit("cacheunit.toml", "[]", '["CU101"]')
    assert project.run("check").code == 2
    assert project.run("build").code == 2
