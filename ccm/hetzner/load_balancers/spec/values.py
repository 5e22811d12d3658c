"""The kinds of annotation values: allowed texts, and their parsed values.

``Kind.parse`` never raises. The cost of parsing is limited, because annotations may have 256 KiB, and all
tenants share one event loop. So lists have at most :data:`MAX_ITEMS` items, and texts a maximum length.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_network

from ccm.go import parse_boolean
from ccm.hetzner.load_balancers.service_annotations import whole
from ccm.hetzner.load_balancers.spec import selector
from ccm.hetzner.load_balancers.spec.official_format import OfficialFormat
from ccm.hetzner.load_balancers.spec.selector import Selector
from ccm.hetzner.settings.kinds import parse_seconds

MAX_ITEMS = 100  # of a list; Let's Encrypt accepts 100 domains, and the largest type 50 certificates
MAX_SELECTOR_LENGTH = 4096
_STATUS_CODE = re.compile(r"[1-5?][0-9?]{2}|(?=[0-9?]*\*)[0-9?*]{1,3}")
_DOMAIN = re.compile(
    r"(?=.{1,253}$)(\*\.)?([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?"
)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"(?:(?P<prefix>[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?)/)?{_LABEL.pattern}")
# Prefixes reserved for Hetzner, the official CCM and our CCM.
_RESERVED = ("hetzner.cloud", "hcloud-ccm", "ccm-from-scratch")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value."""

    allowed: str  # the allowed values in error messages
    # parses a text without white space around it; None or a ValueError = not allowed
    read: Callable[[str], object]
    empty: object = None  # the value of an empty text if the table has no default
    official: OfficialFormat = OfficialFormat.TEXT  # how the official CCM parses most annotations of the kind

    def parse(self, text: str) -> object:
        """The value of a text without white space around it; None = the text isn't allowed."""
        try:
            return self.read(text)
        except ValueError:
            return None


def text(max_length: int = 256) -> Kind:
    """Any text up to a maximum length."""
    allowed = f"at most {max_length} characters"
    return Kind(allowed, lambda text: text if len(text) <= max_length else None, "")


def number(minimum: int, maximum: int) -> Kind:
    """A whole number."""

    def parse(text: str) -> int | None:
        number = whole(text)
        return number if number is not None and minimum <= number <= maximum else None

    return Kind(f"a whole number from {minimum} to {maximum}", parse, official=OfficialFormat.INTEGER)


def seconds(minimum: int, maximum: int) -> Kind:
    """A number of seconds, or a duration like ``15s`` or ``1m``."""

    def parse(text: str) -> int | None:
        # The API uses whole seconds. As in Go, fractions are dropped.
        found = int(parse_seconds(text)) if len(text) < 40 else None
        return found if found is not None and minimum <= found <= maximum else None

    allowed = f"{minimum} to {maximum} seconds, as a number or as a duration like {minimum}s"
    return Kind(allowed, parse, official=OfficialFormat.DURATION)


def choice(*words: str) -> Kind:
    """One of several words, in upper or lower case."""

    def parse(text: str) -> str | None:
        return text.lower() if text.lower() in words else None

    return Kind(" or ".join(words), parse, official=OfficialFormat.WORD)


def _split(text: str) -> tuple[str, ...] | None:
    """The items between commas, without repetitions; None = too many."""
    if text.count(",") > 2 * MAX_ITEMS:
        return None
    items = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return items if len(items) <= MAX_ITEMS else None


def _status_codes(text: str) -> tuple[str, ...] | None:
    codes = _split(text) or ()
    good = 0 < len(codes) <= 20 and all(_STATUS_CODE.fullmatch(code) for code in codes)
    return codes if good else None


def _domains(text: str) -> tuple[str, ...] | None:
    names = tuple(dict.fromkeys(name.rstrip(".") for name in _split(text.lower()) or ()))
    return names if names and all(_DOMAIN.fullmatch(name) for name in names) else None


def _domain(text: str) -> str | None:
    """A domain name in lower case, as required in a Service's status."""
    return text.rstrip(".").lower() if _DOMAIN.fullmatch(text) and "*" not in text else None


def _hostname(text: str) -> str | None:
    """A domain name, but not four numbers, which the API server treats as an address."""
    name = _domain(text)
    parts = (name or "").split(".")
    is_address = len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts)
    return None if is_address else name


def _ipv4(text: str) -> str | None:
    return str(IPv4Address(text)) if len(text) < 40 else None


def _primary_ip(text: str) -> str | None:
    """An ID or a name. An IP address is rejected, because it is probably a mistake."""
    if len(text) > 128:
        return None
    try:
        ip_network(text, strict=False)
    except ValueError:
        return text
    return None


def _network(text: str) -> str | None:
    network = ip_network(text, strict=False) if len(text) < 60 else None
    return str(network) if network is not None and network.version == 4 else None


def _labels(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    items = _split(text)
    if items is None:
        return None
    for part in items:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        match = _LABEL_KEY.fullmatch(key)
        if match is None or match["prefix"] in _RESERVED or not equals:
            return None
        if value and not _LABEL.fullmatch(value):
            return None
        found[key] = value
    return found


def _selector(text: str) -> Selector | None:
    return selector.parse(text) if len(text) <= MAX_SELECTOR_LENGTH else None


BOOLEAN = Kind("true or false", lambda text: parse_boolean(text.lower()), official=OfficialFormat.BOOLEAN)
DOMAIN = Kind("a domain name", _domain, "", OfficialFormat.DOMAIN)
HOSTNAME = Kind("a domain name, not an IP address", _hostname, "", OfficialFormat.DOMAIN)
DOMAINS = Kind(f"at most {MAX_ITEMS} domain names, separated by commas", _domains, (), OfficialFormat.LIST)
IPV4 = Kind("an IPv4 address", _ipv4, "")
PRIMARY_IP = Kind(
    "the ID or name of a Primary IP (at most 128 characters). An IP address isn't allowed",
    _primary_ip,
    "",
    OfficialFormat.ID,
)
NETWORK = Kind("an IPv4 network like 10.0.0.0/24", _network, "", OfficialFormat.NETWORK)
LIST = Kind(f"a list of at most {MAX_ITEMS} items, separated by commas", _split, (), OfficialFormat.LIST)
STATUS_CODES = Kind(
    "a list of at most 20 status codes like 200, 2?? or 2*", _status_codes, (), OfficialFormat.LIST
)
LABEL = Kind(
    "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    lambda text: text if _LABEL.fullmatch(text) else None,
    "",
)
LABELS = Kind(
    f"a list of at most {MAX_ITEMS} labels like team=shop,stage=live. These prefixes aren't allowed: "
    f"{', '.join(_RESERVED)}",
    _labels,
    {},
)
SELECTOR = Kind(
    "a label selector like pool=edge or 'pool in (edge, web)', with at most "
    f"{selector.MAX_CONDITIONS} conditions and {MAX_SELECTOR_LENGTH} characters",
    _selector,
    Selector(),
    OfficialFormat.SELECTOR,
)
