"""Addresses: which URLs and which network addresses web_fetch may reach.

It looks nothing up and dials nothing: answers of a resolver are an argument.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
LocalGrants = Collection[tuple[str, int]]

URL_CHARACTERS = 2048
HOST_CHARACTERS = 253
PORTS = frozenset({80, 443, 8080, 8443})
ANSWERS = 8  # addresses that are dialled at most, in the order of the answer
_DEFAULT_PORT = {"http": 80, "https": 443}

# IANA special-purpose registries (RFC 6890 and updates) and Azure's wire server. An own table:
# `is_private` misses 100.64/10, `is_global` passes 6to4 and NAT64.
_BLOCKED_4 = tuple(
    map(
        ipaddress.IPv4Network,
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
        "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
        "224.0.0.0/4 240.0.0.0/4 168.63.129.16/32".split(),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_BLOCKED_6 = tuple(
    map(ipaddress.IPv6Network, "2001::/23 2001:db8::/32 2002::/16 3fff::/20".split())
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
METADATA = frozenset(
    map(
        ipaddress.ip_address,
        "169.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16 "
        "fd00:ec2::254 fd20:ce::254".split(),
    )
)
_LOCAL_NAMES = (
    "localhost local localdomain internal private lan home corp intranet svc home.arpa".split()
)
_UNRESOLVABLE = "test invalid onion alt".split()
_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]+)(?P<rest>.*)", re.IGNORECASE)
# A line of a table or a batch: U answers with a redirect to V.
REDIRECT = re.compile(r"(\S+)\s+->\s+30[12378]\s+(\S+)")
_BRACKETS = re.compile(r"\[(?P<six>[0-9A-Fa-f:.]{2,45})\](?P<port>:.*)?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a URL or an address is blocked, in words for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that passed: host in lower-case ASCII without a final dot, `path` with its query.

    `literal` is the address when the host is one. The fragment is dropped: it is never sent.
    """

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port, which a redirect may not leave."""
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        """Return the URL in one normal form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORT[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


class _Refused(Exception):
    """A refusal on its way out of the parser."""


def check_url(
    text: str, *, answered: bool = False, allow_local: LocalGrants = frozenset()
) -> Url | Refusal:
    """Return the parsed URL, or why it is blocked; reads no network.

    `answered`: the name was looked up and its answers are checked too, so names that exist in no
    public DNS may pass. `allow_local` holds (address, port) pairs from the user's own settings.
    """
    try:
        return _parse(text, answered, allow_local)
    except _Refused as refused:
        return Refusal(str(refused))


def _parse(text: str, answered: bool, allow_local: LocalGrants) -> Url:
    if len(text) > URL_CHARACTERS:
        raise _Refused(f"the URL has {len(text):,} characters, {URL_CHARACTERS:,} is the limit")
    bad = next((character for character in text if not _allowed(character)), None)
    if bad is not None:
        raise _Refused(f"the URL holds {bad!r}: blanks, controls and backslashes are refused")
    match = _URL.fullmatch(text)
    if match is None:
        raise _Refused("only http:// and https:// URLs with a host are fetched")
    scheme, authority = match["scheme"].lower(), match["authority"]
    if "@" in authority:
        raise _Refused("a URL with a user name or password is refused")
    host, port_text = _split(authority)
    port = _port(port_text, scheme, allow_local)
    literal = _literal(host)
    if literal is None:
        host = _name(host, answered, any(port == granted for _, granted in allow_local))
    else:
        host = str(literal)
        refusal = check_address(literal, port=port, literal=True, allow_local=allow_local)
        if refusal is not None:
            raise _Refused(refusal.reason)
    path = match["rest"].partition("#")[0]
    return Url(scheme, host, port, path if path.startswith("/") else f"/{path}", literal)


def _allowed(character: str) -> bool:
    if character.isascii():
        return "!" <= character <= "~" and character != "\\"
    return unicodedata.category(character)[0] in "LMN" or character in "\u3002\uff0e\uff61"


def _split(authority: str) -> tuple[str, str | None]:
    """Return host and port text; an address in brackets loses them."""
    if "[" in authority or "]" in authority:
        match = _BRACKETS.fullmatch(authority)
        if match is None:
            raise _Refused(f"{authority!r} is no address in brackets (a scope id is refused)")
        return f"[{match['six']}]", match["port"][1:] if match["port"] else None
    host, colon, port = authority.partition(":")
    return host, port if colon else None


def _port(text: str | None, scheme: str, allow_local: LocalGrants) -> int:
    if text is None:
        return _DEFAULT_PORT[scheme]
    if not re.fullmatch("[0-9]{1,5}", text):
        raise _Refused(f"{text!r} is no port")
    port = int(text)
    if port not in PORTS and not any(port == granted for _, granted in allow_local):
        raise _Refused(f"port {port} is blocked: pages are served on 80, 443, 8080 and 8443")
    return port


def _literal(host: str) -> Address | None:
    """Return the address a host is, None for a name; raises _Refused for an odd spelling of one."""
    if host.startswith("["):
        try:
            return ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise _Refused(f"{host!r} is no IPv6 address") from None
    last = host.removesuffix(".").rpartition(".")[2]
    if not _NUMBER.fullmatch(last):
        return None
    parts = host.removesuffix(".").split(".")
    strict = len(parts) == 4 and all(re.fullmatch("0|[1-9][0-9]{0,2}", part) for part in parts)
    if not strict or any(int(part) > 255 for part in parts):
        raise _Refused(f"{host!r} is an address in a spelling that programs read differently")
    return ipaddress.IPv4Address(".".join(parts))


def stays(origin: Url, target: Url) -> bool:
    """Tell whether a redirect stays at its origin; http may become https on the same host."""
    if origin.origin == target.origin:
        return True
    upgrade = (origin.scheme, target.scheme) == ("http", "https") and origin.host == target.host
    return upgrade and (origin.port, target.port) in ((80, 443), (8080, 8443))


# ---------------------------------------------------------------- names
def _name(host: str, answered: bool, local: bool) -> str:
    labels = [_label(label, host) for label in host.removesuffix(".").split(".")]
    name = ".".join(labels)
    if len(name) > HOST_CHARACTERS:
        raise _Refused(f"the host has {len(name)} characters, {HOST_CHARACTERS} is the limit")
    if _NUMBER.fullmatch(labels[-1]):
        raise _Refused(f"{host!r} ends in a number but is no address")
    suffixes = _LOCAL_NAMES if answered else _LOCAL_NAMES + _UNRESOLVABLE
    if not local and (len(labels) == 1 or any(f".{name}".endswith(f".{s}") for s in suffixes)):
        raise _Refused(f"{name!r} is a name of a local or unreachable network")
    return name


def _label(label: str, host: str) -> str:
    """Return one label in lower-case ASCII."""
    if not label.isascii():
        if any(_turns_ascii(character) for character in label):
            raise _Refused(f"{host!r} holds characters that programs turn into ASCII")
        try:
            label = _ascii(unicodedata.normalize("NFC", label.lower()))
        except UnicodeError:
            raise _Refused(f"{host!r} is no internationalised name") from None
    label = label.lower()
    if not _LABEL.fullmatch(label):
        raise _Refused(f"{label!r} in the host: 1 to 63 letters, digits and - are allowed")
    if label.startswith("xn--") and not _punycode(label):
        raise _Refused(f"{label!r} is no valid internationalised label")
    return label


def _ascii(label: str) -> str:
    if set(label) & set("\u00df\u03c2"):  # IDNA 2003 would make another name of it (ss, \u03c3)
        return "xn--" + label.encode("punycode").decode("ascii")
    return label.encode("idna").decode("ascii")


def _turns_ascii(character: str) -> bool:
    if character.isascii():
        return False
    folded = unicodedata.normalize("NFKC", character)
    return character in "\u3002\uff0e\uff61" or any(part.isascii() for part in folded)


def _punycode(label: str) -> bool:
    try:
        name = label[4:].encode("ascii").decode("punycode")
        again = name.encode("punycode").decode("ascii")
    except (UnicodeError, OverflowError):
        return False
    letters = all(
        unicodedata.category(character)[0] in "LMN" or character == "-" for character in name
    )
    return (
        again == label[4:]
        and not name.isascii()
        and letters
        and not any(_turns_ascii(character) for character in name)
    )


# ---------------------------------------------------------------- addresses
def check_address(
    address: Address,
    *,
    port: int = 443,
    literal: bool = False,
    allow_local: LocalGrants = frozenset(),
) -> Refusal | None:
    """Return why `address` is blocked, None when it may be dialled.

    `literal`: it stood in the URL; a NAT64 address is then blocked, while as an answer of a
    resolver it has the verdict of the IPv4 address inside it. A metadata service is never granted.
    """
    if address in METADATA:
        return Refusal(f"{address} is a cloud's metadata service")
    if (str(address), port) in allow_local:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        blocked = next((net for net in _BLOCKED_4 if address in net), None)
        return Refusal(f"{address} is not public: {blocked}") if blocked else None
    if address in _NAT64 and not literal:
        return check_address(_low(address), port=port)
    if address.scope_id is not None or address not in _GLOBAL_6:
        return Refusal(f"{address} is outside the public IPv6 space 2000::/3")
    network = next((net for net in _BLOCKED_6 if address in net), None)
    if network is not None:
        return Refusal(f"{address} is not public: {network}")
    if int(address) >> 32 & 0xFDFFFFFF == 0x00005EFE:  # ISATAP carries an IPv4 address
        return check_address(_low(address), port=port)
    return None


def _low(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def check_answers(
    host: str,
    answers: Sequence[str] | Sequence[Sequence[str]],
    *,
    port: int = 443,
    allow_local: LocalGrants = frozenset(),
) -> list[Address] | Refusal:
    """Return the addresses to dial in order, at most 8, or why the name is blocked.

    `answers` is one lookup, or a list of successive ones; one blocked answer blocks the name.
    """
    found: list[Address] = []
    for text in _flat(answers):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return Refusal(f"{host!r} was answered with {text!r}, which is no address")
        refusal = check_address(address, port=port, allow_local=allow_local)
        if refusal is not None:
            return Refusal(f"{host!r} leads to a blocked address: {refusal.reason}")
        if address not in found:
            found.append(address)
    if not found:
        return Refusal(f"{host!r} has no address")
    return found[:ANSWERS]


def _flat(answers: Sequence[str] | Sequence[Sequence[str]]) -> Iterator[str]:
    for item in answers:
        if isinstance(item, str):
            yield item
        else:
            yield from item
