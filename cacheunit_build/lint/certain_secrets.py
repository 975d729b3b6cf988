"""Finds secrets of a form that nothing else has: keys and tokens with a known head, and private keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class CertainSecret:
    """A secret in a text.

    Attributes:
        start: offset of its first character.
        end: offset after its last one.
        kind: what it is, for people.
        value: the characters that make it a secret, which are the same where the text is escaped as in JSON.
    """

    start: int
    end: int
    kind: str
    value: str


_LETTER, _DIGIT = re.compile("[A-Za-z]"), re.compile("[0-9]")
_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_HEX = "[0-9a-fA-F]"
_END = "(?![A-Za-z0-9])"
# Kind, head, body. Each form has a head that starts it, and a body whose length is bounded or whose characters end it.
_FORMS = (
    ("AWS access key", "A(?:KIA|SIA|BIA|CCA)", f"[A-Z0-9]{{16}}{_END}"),
    ("Amazon Bedrock key", "ABSK", "[A-Za-z0-9+/]{100,}"),
    ("Google API key", "AIza", f"{_WORD}{{35}}{_END}"),
    ("Google API key", r"AQ\.Ab", f"{_WORD}{{40,}}"),
    ("Google OAuth secret", "GOCSPX-", f"{_WORD}{{28}}{_END}"),
    ("Google access token", r"ya29\.", f"{_WORD}{{40,}}"),
    ("Azure account key", "(?:AccountKey|SharedAccessKey)=", "[A-Za-z0-9+/]{42,86}={1,2}"),
    ("Azure shared access signature", "sig=", "[A-Za-z0-9%+/]{40,100}(?:%3[Dd]|=)"),
    ("Azure client secret", r"[A-Za-z0-9_~.]{3}\dQ~", "[A-Za-z0-9_~.-]{31,34}"),
    ("DigitalOcean token", "do[opr]_v1_", f"{_HEX}{{64}}{_END}"),
    ("GitHub token", "gh[pousr]_", f"{_ALNUM}{{36,}}"),
    ("GitHub token", "github_pat_", "[A-Za-z0-9_]{40,}"),
    ("GitLab token", "gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-", rf"{_WORD}{{20,}}(?:\.{_WORD}+)*"),
    ("Slack token", r"(?:xox[abeoprs]-|xoxe\.xox[bp]-|xapp-\d-)", "[A-Za-z0-9-]{20,}"),
    ("Slack webhook", r"hooks\.slack\.com/(?:services|triggers|workflows)/", "[A-Za-z0-9/]{30,}"),
    ("Discord webhook", r"discord(?:app)?\.com/api/webhooks/", rf"\d{{17,20}}/{_WORD}{{60,}}"),
    ("Telegram bot token", r"\d{8,10}:AA", f"{_WORD}{{33}}{_END}"),
    ("npm token", "npm_", f"{_ALNUM}{{36}}{_END}"),
    ("PyPI token", "pypi-Ag", f"{_WORD}{{50,}}"),
    ("RubyGems key", "rubygems_", f"{_HEX}{{48}}{_END}"),
    ("Docker Hub token", "dckr_[op]at_", f"{_WORD}{{27,}}"),
    ("Hugging Face token", "(?:hf_|api_org_)", f"{_ALNUM}{{34}}{_END}"),
    ("SendGrid key", r"SG\.", rf"{_WORD}{{22}}\.{_WORD}{{43}}{_END}"),
    ("Stripe key", "[rs]k_live_", f"{_ALNUM}{{20,}}"),
    ("Stripe webhook secret", "whsec_", "[A-Za-z0-9+/]{32,}"),
    ("Square token", "sq0(?:atp|csp)-", f"{_WORD}{{22,}}"),
    ("Shopify token", "shp(?:at|ca|pa|ss)_", f"{_HEX}{{32}}{_END}"),
    ("Databricks token", "dapi", f"{_HEX}{{32}}{_END}"),
    ("HashiCorp Vault token", r"hv[brs]\.", f"{_WORD}{{24,}}"),
    ("Terraform Cloud token", rf"{_ALNUM}{{14}}\.atlasv1\.", f"{_WORD}{{60,}}"),
    ("Grafana token", "glsa_", f"{_ALNUM}{{32}}_{_HEX}{{8}}{_END}"),
    ("Linear key", "lin_api_", f"{_ALNUM}{{40}}{_END}"),
    ("Notion token", "ntn_", f"{_ALNUM}{{40,}}"),
    ("Atlassian token", "ATATT3x", "[A-Za-z0-9_=-]{50,}"),
    ("Doppler token", r"dp\.(?:audit|ct|pt|sa|scim|st)\.", f"{_ALNUM}{{40,}}"),
    ("PlanetScale token", "pscale_(?:oauth|pw|tkn)_", f"{_WORD}{{32,}}"),
    ("Sentry token", "sntry[su]_", "[A-Za-z0-9_+/=-]{60,}"),
    ("New Relic key", "NRAK-", f"[A-Z0-9]{{27}}{_END}"),
    ("Postman key", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}{_END}"),
    ("Supabase key", "(?:sbp_|sb_secret_)", f"{_WORD}{{30,}}"),
    ("Heroku key", "HRKU-AA", f"{_WORD}{{50,}}"),
    ("1Password token", "ops_eyJ", f"{_WORD}{{100,}}"),
    ("age key", "AGE-SECRET-KEY-1", f"[02-9AC-HJ-NP-Z]{{58}}{_END}"),
    ("Anthropic key", "sk-ant-", f"{_WORD}{{32,}}"),
    ("OpenAI key", "sk-(?:admin|proj|svcacct)-", f"{_WORD}{{32,}}"),
    ("OpenRouter key", "sk-or-v1-", f"{_WORD}{{32,}}"),
    ("Langfuse key", "sk-lf-", f"{_WORD}{{36}}{_END}"),
    ("model API key", "sk-", f"{_ALNUM}{{32,}}{_END}"),
    ("Groq key", "gsk_", f"{_ALNUM}{{32,}}"),
    ("xAI key", "xai-", f"{_ALNUM}{{40,}}"),
    ("Replicate token", "r8_", f"{_ALNUM}{{37,40}}{_END}"),
    ("Perplexity key", "pplx-", f"{_ALNUM}{{40,}}"),
    ("NVIDIA key", "nvapi-", f"{_WORD}{{50,}}"),
    ("Cerebras key", "csk-", f"{_ALNUM}{{40,}}"),
    ("Together key", "tgp_v1_", f"{_WORD}{{40,}}"),
    ("Jina key", "jina_", f"{_WORD}{{50,}}"),
    ("Tavily key", "tvly-(?:dev-|prod-)?", f"{_ALNUM}{{30,}}"),
    ("Pinecone key", "pcsk_", "[A-Za-z0-9_]{50,}"),
    ("Azure OpenAI key", rf"{_ALNUM}{{52}}JQQJ99", f"{_ALNUM}{{26}}{_END}"),
    ("Airtable token", rf"pat{_ALNUM}{{14}}\.", f"{_HEX}{{64}}{_END}"),
    ("Figma token", "fig[dor]_", f"{_WORD}{{40,}}"),
    ("Fly.io token", "(?:fo1_|fm2_)", f"{_WORD}{{40,}}"),
    ("PostHog key", "ph[cx]_", f"{_ALNUM}{{40,}}"),
    ("Sourcegraph token", "sgp_", "[A-Za-z0-9_]{40,}"),
    ("CircleCI token", "CCI[PR]AT_", "[A-Za-z0-9_]{40,}"),
    ("Dynatrace token", r"dt0[a-z]\d\d\.", rf"[A-Z2-7]{{24}}\.[A-Z2-7]{{64}}{_END}"),
    ("Brevo key", "xkeysib-", f"{_HEX}{{64}}-{_ALNUM}{{16}}{_END}"),
    ("Tailscale key", "tskey-(?:api|auth|client|scim|webhook)-", "[A-Za-z0-9-]{25,}"),
    ("Grafana Cloud token", "glc_eyJ", "[A-Za-z0-9_+/=-]{40,}"),
    ("Mapbox secret token", r"sk\.eyJ", rf"{_WORD}{{40,}}\.{_WORD}{{20,}}"),
    ("Pulumi token", "pul-", f"{_HEX}{{40}}{_END}"),
    ("Netlify token", "nfp_", f"{_ALNUM}{{36,}}"),
    ("Linear token", "lin_oauth_", f"{_HEX}{{64}}{_END}"),
    ("Buildkite token", "bkua_", f"{_HEX}{{40}}{_END}"),
    ("ElevenLabs key", "sk_", f"{_HEX}{{48}}{_END}"),
    ("LangSmith key", "lsv2_(?:pt|sk)_", f"{_HEX}{{32}}_{_HEX}{{10}}{_END}"),
)
# Group N + 1 is the body of form N. A word does not end in a head, but "\n" and "\u003c" of JSON may stand before one.
_TOKEN = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\\u[0-9a-f]{4}))(?:"
    + "|".join(f"{head}({body})" for _, head, body in _FORMS)
    + ")"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
    r"|PuTTY-User-Key-File-\d: "
)
_PRIVATE_KEY_END = re.compile("-----END|-----BEGIN|---- END|---- BEGIN|Private-MAC|PuTTY-User")
_MAX_PRIVATE_KEY = 16_384
# A line with nothing but a part of a key, which may be quoted or indented.
_KEY_LINE = re.compile(r"^[^A-Za-z0-9+/\n]*([A-Za-z0-9+/]{20,}+={0,2})[^A-Za-z0-9\n]*$", re.MULTILINE)
_MAX_KEY_HEADERS = 1_024
"""Characters between the first line of a private key and the first one with a part of the key."""

# All forms but those with a mark have twenty of these characters in a row: other texts need no regular expression.
_IN_RUN = bytes(chr(byte) in f"{ascii_letters}{digits}_-+~%" for byte in range(256))
_RUN = b"\1" * 20
_MARKS = (b"PRIVATE KEY", b"Key=", b"Q~")
_MARK_TEXTS = ("PuTTY-User-Key", *(mark.decode() for mark in _MARKS))
_NO_TOKEN = ("\n", "{")
"""Characters that no token and no mark has."""
_REST = re.compile("[A-Za-z0-9_+/=.~%:-]*")
"""What may follow such a run in a secret."""
_REACH = 64
"""Characters in front of such a run in which a secret with it starts."""

_PLACEHOLDER = re.compile(
    r"(?i:example|sample|placeholder|change[-_]?me|redacted|insert|replace|not[-_]?a?[-_]?real)"
    r"|your|Your|YOUR|fake|Fake|FAKE|dummy|Dummy|DUMMY|[xX]{4}|(.)\1{5}|\.\."
    r"|1234567|7654321|(?i:abcdefg)|0123456"
)
_NO_KEY = re.compile("(?i:example|placeholder|redacted|your)")
_PUBLISHED = frozenset(
    (
        "16C7e42F292c6912E7710c838347Ae178B4a",  # GitHub's documentation
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",  # Azurite's key
        "17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",  # Slack's
    )
)
"""Bodies that providers print in their documentation."""

_FEWEST_CHARACTERS = 8
"""Different characters that a random body has at least."""


def certain_secrets(text: str) -> list[CertainSecret]:
    """Returns the secrets in a text, in order; placeholders and examples of documentation are none."""
    data = text.encode("latin-1", "replace")  # one byte for each character
    if any(mark in data for mark in _MARKS):
        return _all_secrets(text)
    marked = data.translate(_IN_RUN) + b"\0"
    secrets: list[CertainSecret] = []
    searched, begin = 0, marked.find(_RUN)
    while begin >= 0:
        end = marked.index(b"\0", begin)
        run = text[begin:end]
        if run.startswith("PuTTY-User-Key"):
            return _all_secrets(text)
        if not _is_plain(run):
            before = text[max(searched, begin - _REACH) : begin].rsplit(" ", maxsplit=1)[-1]
            rest = _REST.match(text, end)
            searched = end = end if rest is None else rest.end()
            secrets += _tokens(text, begin - len(before), end)
        begin = marked.find(_RUN, end)
    return secrets


def _all_secrets(text: str) -> list[CertainSecret]:
    """Returns the secrets in a text, which is read as a whole."""
    return sorted([*_tokens(text, 0, len(text)), *_private_keys(text)], key=lambda secret: secret.start)


def final_secrets(artifact: Artifact, target: LoadedTarget) -> list[CertainSecret]:
    """Returns the secrets in the text that the model reads of an artifact for a target, and in its request."""
    return [secret for text in _final_texts(artifact, target) for secret in certain_secrets(text)]


def _final_texts(artifact: Artifact, target: LoadedTarget) -> Iterator[str]:
    """Yields the text that the model reads of an artifact, and its request, where that may have more than the text."""
    yield artifact.framed_prefix
    # Fixed text frames everything but options; a template or an encoder may also leave out a part of the request.
    if artifact.options or not target.target.frame.plain:
        yield artifact.content.decode()


class SecretSearch:
    """Finds out whether artifacts have secrets; what one has in common with the one before it is searched once."""

    def __init__(self) -> None:
        self._clean: dict[int, str] = {}  # index of the text in an artifact -> the latest one without secrets and marks

    def finds_in(self, artifact: Artifact, target: LoadedTarget) -> bool:
        """Returns whether there is a secret in the text that the model reads of an artifact, or in its request."""
        return any(self.finds(text, index) for index, text in enumerate(_final_texts(artifact, target)))

    def finds(self, text: str, kind: int = 0) -> bool:
        """Returns whether there is a secret in a text, which is compared with the one before it of the same kind.

        The part that differs is extended to line ends or braces, which no token has. If it has a mark, which may begin
        a secret of several lines, the whole text is searched.
        """
        head, tail = common_ends(self._clean.get(kind, ""), text)
        begin = max(text.rfind(end, 0, head) for end in _NO_TOKEN) + 1
        ends = (text.find(end, len(text) - tail) for end in _NO_TOKEN)
        part = text[begin : min((end for end in ends if end >= 0), default=len(text))]
        if any(mark in part for mark in _MARK_TEXTS) or certain_secrets(part):
            return bool(certain_secrets(text))
        self._clean[kind] = text
        return False


def _tokens(text: str, begin: int, end: int) -> Iterator[CertainSecret]:
    """Yields the keys and tokens between two offsets."""
    for match in _TOKEN.finditer(text, begin, end):
        index = match.lastindex or 0
        # A group of its own in a head would count too; the heads have none.
        if not _is_placeholder(match[index]) and not text.startswith(("...", "\u2026"), match.end()):
            yield CertainSecret(start=match.start(), end=match.end(), kind=_FORMS[index - 1][0], value=match[0])


def _is_placeholder(body: str) -> bool:
    """Returns whether a body is what people write in place of a secret: words, a sequence, one character repeated."""
    if body in _PUBLISHED or _PLACEHOLDER.search(body) or len(set(body)) < _FEWEST_CHARACTERS:
        return True
    return _is_plain(body)


def _is_plain(text: str) -> bool:
    """Returns whether a text is like `some-words`, `SOME_WORDS` or a ruler; `AKIA` and 16 letters are not."""
    if _DIGIT.search(text):
        return False
    return text.islower() or not _LETTER.search(text) or (text.isupper() and ("_" in text or "-" in text))


def _private_keys(text: str) -> Iterator[CertainSecret]:
    """Yields the private keys of which at least a line is there."""
    for header in _PRIVATE_KEY.finditer(text):
        begin = header.end()
        found = _PRIVATE_KEY_END.search(text, begin, begin + _MAX_PRIVATE_KEY)
        end = min(begin + _MAX_PRIVATE_KEY, len(text)) if found is None else found.start()
        block = text[begin : min(end, begin + _MAX_KEY_HEADERS)].replace("\\n", "\n").replace("\\r", "\n")
        block = block.replace(" ", "\n") if "\n" not in block else block  # a key on one line
        for line in _KEY_LINE.finditer(block):
            if not _is_placeholder_line(line):
                yield CertainSecret(start=header.start(), end=end, kind="private key", value=line[1])
                break


def _is_placeholder_line(line: re.Match[str]) -> bool:
    """Returns whether a line stands for a part of a key: sequences and repeated characters occur in real ones too."""
    elided = "..." in line[0] or "\u2026" in line[0]
    return elided or _is_plain(line[1]) or len(set(line[1])) < _FEWEST_CHARACTERS or bool(_NO_KEY.search(line[1]))
