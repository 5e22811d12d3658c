"""Which annotations of an object are kept in memory. Pure.

Whoever may write an object may write 256 KiB of them (Kubernetes' TotalAnnotationSizeLimitB in
k8s.io/apimachinery/pkg/api/validation), and ``kubectl apply`` puts the whole manifest into one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST = 32768  # characters of all names and values


def that_fit(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """All annotations but kubectl's; where they are too many, the shortest.

    Args:
        annotations: An object's, as the API server sent them or as this function returned them.
    """
    length = sum(len(name) + len(text) for name, text in annotations.items())
    if LAST_APPLIED not in annotations and length <= LONGEST:
        return annotations
    found: dict[str, str] = {}
    room = LONGEST
    for name, text in sorted(annotations.items(), key=lambda one: (len(one[0]) + len(one[1]), one[0])):
        if name == LAST_APPLIED:
            continue
        room -= len(name) + len(text)
        if room < 0:
            break
        found[name] = text
    return found
