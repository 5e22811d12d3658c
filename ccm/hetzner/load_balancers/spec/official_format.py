"""How the official CCM parses the values of annotations, which our CCM parses more leniently.

Our CCM removes white space, ignores empty values, and accepts words in any case and numbers of seconds. The
official CCM (v1.35.0: source code and binary; v1.39.0: documentation) passes unchanged values to Go's
strconv.ParseBool, strconv.Atoi, time.ParseDuration, net.ParseCIDR and labels.Parse, or to the API.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from ipaddress import ip_network

from ccm.go import parse_boolean, parse_duration
from ccm.hetzner.settings.kinds import parse_seconds


class OfficialFormat(Enum):
    """The format of a value. The reference documentation shows the text."""

    UNKNOWN = "unknown key"
    UNUSED = "ignored"
    TEXT = "exactly as written"
    DOMAIN = "exactly as written, including a trailing dot"
    LOWER = "must be in lower case"
    BOOLEAN = "a Go boolean, such as `true` or `1`"
    STAGING = "a Go boolean; any other value means false"
    INTEGER = "only digits"
    ID = "only an ID"
    DURATION = "requires a unit, such as `20s`"
    WORD = "in upper or lower case, without white space"
    LIST = "separated with commas, without white space"
    NETWORK = "only a range in CIDR notation, such as `10.0.0.0/24`"
    SELECTOR = "as in Kubernetes"


# The whole text must have Go's format.
_GO_NETWORK = re.compile(r"[0-9.]+/[0-9]+")


def official_spelling(reading: OfficialFormat, text: str) -> str:
    """A spelling that both CCMs parse as ours parses ``text``; empty = remove the annotation.

    Returns ``text`` itself if possible. Our CCM must accept ``text``. ``reading`` is the official format.
    """
    if not text.strip():
        return ""
    # Kubernetes' parser, like ours, also removes white space in selectors.
    return text if reading is OfficialFormat.SELECTOR else _SPELLINGS.get(reading, str)(text.strip())


def _boolean(text: str) -> str:
    try:
        parse_boolean(text)
    except ValueError:
        return str(parse_boolean(text.lower())).lower()
    return text


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError:
        return f"{parse_seconds(text):.0f}s"
    return text


def _network(text: str) -> str:
    return text if _GO_NETWORK.fullmatch(text) else str(ip_network(text, strict=False))


def _list(text: str) -> str:
    return ",".join(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


_SPELLINGS: Mapping[OfficialFormat, Callable[[str], str]] = {
    OfficialFormat.DOMAIN: lambda text: text.rstrip("."),
    OfficialFormat.LOWER: str.lower,
    OfficialFormat.BOOLEAN: _boolean,
    OfficialFormat.STAGING: _boolean,
    OfficialFormat.DURATION: _duration,
    OfficialFormat.LIST: _list,
    OfficialFormat.NETWORK: _network,
}
