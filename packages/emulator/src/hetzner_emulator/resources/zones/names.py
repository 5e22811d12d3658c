"""Names of zones and of what is in them, as pure functions."""

from __future__ import annotations

import re

APEX = "@"
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_LONGEST = 253


def zone_name_problem(name: str) -> str:
    """What is wrong with the name of a zone, or "".

    Whether what follows the first label is a public suffix is not asked: that list changes every week.
    """
    if name.endswith("."):
        return "must not end with a dot"
    if problem := _labels_problem(name.split("."), len(name)):
        return problem
    return "" if "." in name else "must be a domain below a top-level domain"


def rrset_name_problem(name: str, zone: str) -> str:
    """What is wrong with the name of a record set in a zone, or "".

    Args:
        name: Relative to the zone, or ``@`` for the zone itself.
        zone: Name of the zone.
    """
    if name == APEX:
        return ""
    if name.endswith("."):
        return "must not end with a dot"
    if name == zone or name.endswith(f".{zone}"):
        return "must not end with the name of the zone; for the zone itself use '@'"
    labels = name.split(".")
    return _labels_problem(labels[labels[0] == "*" :], len(name) + 1 + len(zone))


def _labels_problem(labels: list[str], length: int) -> str:
    if any(_LABEL.fullmatch(label) is None for label in labels):
        return "must be a domain name in lower case; names beyond ASCII in Punycode"
    return "is too long" if length > _LONGEST else ""
