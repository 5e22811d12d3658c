"""Which of a Service's annotations are kept in memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ccm.hetzner.load_balancers.listeners import SOURCE_RANGES
from ccm.hetzner.load_balancers.reader import (
    LONGEST_ANNOTATIONS,
    PREFIX,
    TOO_LONG,
    below_prefix,
    length_of,
)
from ccm.hetzner.load_balancers.wording import LONGEST_SHOWN

SHARE = PREFIX + "share"
_LONGEST_LABEL = 63


def annotations_to_keep(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Those that are read; of too many only that they were too many, and how many.

    Args:
        annotations: A Service's, as the API server sent them or as this function returned them.
    """
    kept = below_prefix(annotations)
    length = length_of(kept)
    if length > LONGEST_ANNOTATIONS:
        # What is shared is worked on by one at a time, also while the annotations of one of them don't count.
        share = kept.get(SHARE, "").strip()
        kept = {TOO_LONG: str(length)}
        if 0 < len(share) <= _LONGEST_LABEL:
            kept[SHARE] = share
    if SOURCE_RANGES in annotations:
        kept[SOURCE_RANGES] = annotations[SOURCE_RANGES][:LONGEST_SHOWN]
    return kept
