"""Secret kinds: the formats that vendors give their keys, one rule each.

Data and one search; what is masked, and how, is redact.py's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret: the texts one of which must be there, and a pattern linear in its input.

    The pattern looks behind only after a literal start (so the search runs at memory speed); its
    group `s`, or all of it, is the secret. Quantifiers are possessive or bounded. With `fold` the
    needles are lower case and compared with the lower-cased text.
    """

    kind: str
    needles: str
    pattern: str
    fold: bool = False

    def find(self, text: str, lower: str) -> Iterator[Span]:
        """Yield the place of each secret of this kind."""
        if any(needle in (lower if self.fold else text) for needle in self.needles.split()):
            compiled = re.compile(self.pattern)
            group: int | str = "s" if "s" in compiled.groupindex else 0
            for match in compiled.finditer(text):
                yield *match.span(group), self.kind


_PEM = r"PRIVATE KEY(?: BLOCK)?-----"
_PEM_BEGIN = rf"-----BEGIN [A-Z0-9 ]{{0,40}}{_PEM}"
PEM_END = rf"-----END [A-Z0-9 ]{{0,40}}{_PEM}"
_PEM_LINES = r"(?:(?:\\[rn]|\s){0,8}+[A-Za-z0-9+/=]{16,}+)*+"
_ASSIGN = r"[\\\"']{0,4}\s{0,4}(?:=>|[:=])\s{0,4}[\\\"']{0,4}"
_HEADER = (
    r"(?i:(?<![A-Za-z0-9])(?:(?:proxy-)?authorization|(?:x-(?:goog-)?|anthropic-)?api-key|"
    r"(?:private|job|x-(?:vault|auth|access|gitlab|amz-security))-token)"
    r"(?:[\\\"']{0,4}\s{0,4}[:=]\s{0,4}|[\"'],\s{0,4})b?[\\\"']{0,4}"
    r"(?:(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4})?)"
    r"(?!\[redacted:)(?P<s>[^\s\"'\\,;<>(){}\[\]]{8,}+)"
)

# Prefixes of other services: each is long, fixed and belongs to one vendor.
_SERVICES = (
    ("shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("figd_ lin_api_ dckr_", r"(?:figd_|lin_api_|dckr_[po]at_)[\w-]{20,}+"),
    ("pplx- tvly-", r"(?:pplx|tvly)-(?<![\w-]....-)[\w-]{24,}+"),
    ("nvapi-", r"nvapi-(?<![\w-]nvapi-)[\w-]{24,}+"),
    ("xai-", r"xai-(?<![\w-]xai-)[\w-]{24,}+"),
    ("gsk_ ntn_ sbp_ rnd_", r"(?:gsk|ntn|sbp|rnd)_(?<![A-Za-z0-9_]..._)[A-Za-z0-9]{24,}+"),
    ("r8_", r"r8_(?<![A-Za-z0-9_]r8_)[A-Za-z0-9]{30,}+"),
    ("glsa_ glc_", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{30,}+"),
    ("ATATT3xFf ATCTT3xFf", r"AT[AC]TT3xFf[\w=-]{20,}+"),
    ("PMAK- NRAK-", r"(?:PMAK-[0-9a-f]{24}-[0-9a-f]{30,}+|NRAK-[A-Z0-9]{25,}+)"),
    ("dp.", r"dp\.(?:st|ct|pt|sa|scim|audit)\.(?:[\w-]{1,35}\.)?[A-Za-z0-9]{40,}+"),
    ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+"),
    ("sq0", r"sq0(?:csp|atp|idp)-[\w-]{20,}+"),
    (".atlasv1.", r"(?<=\w)\.atlasv1\.[\w-]{50,}+"),
    (":AA", r":AA(?<=[0-9]{8}:AA)[\w-]{32,}+"),
    ("fm2_ fo1_", r"(?:fm2|fo1)_(?<![A-Za-z0-9_]..._)[\w+/=-]{40,}+"),
)

# Formats: the vendors' documents and public secret-scanning lists, as of 2026.
RULES = (
    Rule(
        "private-key",
        "PRIVATE",
        rf"{_PEM_BEGIN}(?:(?:[^-]|-(?!----)){{0,20000}}+{PEM_END}|{_PEM_LINES})",
    ),
    Rule("anthropic-key", "sk-ant-", r"sk-(?<![A-Za-z0-9_-]sk-)ant-[\w-]{10,}+"),
    Rule(
        "openai-key",
        "sk-",
        r"sk-(?<![A-Za-z0-9_-]sk-)"
        r"(?:(?:proj|svcacct|admin|or-v1|None)-[\w-]{20,}+|[A-Za-z0-9]{20,}+)",
    ),
    Rule(
        "aws-key-id",
        "AKIA ASIA ABIA ACCA",
        r"A(?<![A-Za-z0-9/+]A)(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9/+])",
    ),
    Rule(
        "aws-secret",
        "secret session",
        r"(?i:se(?:cret[_-]?(?:access[_-]?)?key|ssion[_-]?token)"
        rf"{_ASSIGN})(?!\[redacted:)(?P<s>[A-Za-z0-9/+=]{{30,}}+)",
        fold=True,
    ),
    Rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh(?<![A-Za-z0-9_]gh)[pousr]_\w{30,}+"),
    Rule("github-token", "github_pat_", r"github_pat_\w{20,}+"),
    Rule(
        "gitlab-token",
        "gl",
        r"gl(?<![A-Za-z0-9_-]gl)(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-[\w.-]{18,}+",
    ),
    Rule(
        "slack-token",
        "xox",
        r"xox(?<![A-Za-z0-9_-]xox)[abeoprsc](?:\.xox[abeops])?-[\w-]{10,}+",
    ),
    Rule("slack-token", "xapp-", r"xapp-(?<![A-Za-z0-9_-]xapp-)\d-[\w-]{10,}+"),
    Rule(
        "slack-hook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?P<s>(?:services|workflows|triggers)/[\w/-]{10,}+)",
    ),
    Rule("google-key", "AIza", r"AIza(?<![A-Za-z0-9_-]AIza)[\w-]{35}(?![\w-])"),
    Rule("google-oauth", "ya29.", r"ya29\.(?<![A-Za-z0-9_-]ya29\.)[\w.-]{20,}+"),
    Rule("google-oauth", "GOCSPX- 1//0", r"(?:GOCSPX-|1//0)[\w-]{24,}+"),
    Rule(
        "huggingface-token",
        "hf_ api_org_",
        r"(?:hf_(?<![A-Za-z0-9_]hf_)|api_org_)[A-Za-z0-9]{30,}+",
    ),
    Rule("pypi-token", "pypi-", r"pypi-A[\w-]{30,}+"),
    Rule("npm-token", "npm_", r"npm_(?<![A-Za-z0-9_]npm_)[A-Za-z0-9]{30,}+"),
    Rule("npm-token", "_authToken", rf"_authToken{_ASSIGN}(?P<s>[^\s\"'$\[\\]{{8,}}+)"),
    Rule(
        "stripe-key",
        "k_live_ k_test_",
        r"[spr](?<![A-Za-z0-9][spr])k_(?:live|test)_[A-Za-z0-9]{10,}+",
    ),
    Rule("stripe-key", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}+"),
    Rule("sendgrid-key", "SG.", r"SG\.(?<![A-Za-z0-9_-]SG\.)[\w-]{16,64}+\.[\w-]{16,64}+"),
    Rule("twilio-key", "SK", r"SK(?<![A-Za-z0-9]SK)[0-9a-f]{32}(?![A-Za-z0-9])"),
    Rule(
        "databricks-token",
        "dapi",
        r"dapi(?<![A-Za-z0-9]dapi)[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])",
    ),
    Rule("digitalocean-token", "_v1_", r"do(?<![A-Za-z0-9]do)[opr]_v1_[0-9a-f]{64}"),
    Rule("vault-token", "hvs. hvb. hvr.", r"hv(?<![A-Za-z0-9]hv)[sbr]\.[\w-]{20,}+"),
    Rule(
        "azure-key",
        "AccountKey SharedAccessKey",
        rf"(?:Account|SharedAccess)Key{_ASSIGN}(?P<s>[A-Za-z0-9+/=]{{20,}}+)",
    ),
    Rule("azure-key", "sig=", r"sig=(?<=[?&;]sig=)(?P<s>[A-Za-z0-9%/+=]{40,}+)"),
    Rule("jwt", "eyJ", r"eyJ(?<![A-Za-z0-9_.-]eyJ)[\w-]{8,}+\.eyJ[\w-]{4,}+\.[\w-]{8,}+"),
    Rule(
        "url-password",
        "://",
        r"://[^\s/?#:@\"'<>\\]{0,256}+:(?!\[redacted:)(?P<s>[^\s/?#\"'<>\\]{1,256})@",
    ),
    Rule("auth-header", "authorization api-key -token", _HEADER, fold=True),
    *(Rule("service-token", needles, pattern) for needles, pattern in _SERVICES),
)
