"""Provider IDs, which identify the machine of a Node.

The formats are ``ccm-from-scratch://1`` and, for the official provider name, ``hcloud://1``. Robot servers
have ``hrobot://1`` with both names, or ``hcloud://bm-1`` from an older CCM.
"""

from dataclasses import dataclass
from typing import Literal

from ccm.cloud.errors import CloudError, Notice, NotOurs

ROBOT_SCHEME = "hrobot://"
LEGACY_ROBOT_PREFIX = "hcloud://bm-"
_MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MachineId:
    """A machine."""

    kind: Literal["cloud", "robot"]  # their numbers are unrelated
    number: int  # the ID in the Cloud API, or the number in Robot


def owns(provider_id: str, scheme: str) -> bool:
    """Whether a provider ID is ours; ``scheme`` is the prefix for Cloud servers, with ``://``."""
    return provider_id.startswith((scheme, ROBOT_SCHEME))


def parse(provider_id: str, scheme: str) -> MachineId:
    """Parse a provider ID. Raises NotOurs for another scheme, CloudError for an invalid number."""
    if provider_id.startswith(LEGACY_ROBOT_PREFIX) and scheme == "hcloud://":
        return MachineId("robot", _number(provider_id, LEGACY_ROBOT_PREFIX))
    if provider_id.startswith(ROBOT_SCHEME):
        return MachineId("robot", _number(provider_id, ROBOT_SCHEME))
    if provider_id.startswith(scheme):
        return MachineId("cloud", _number(provider_id, scheme))
    raise NotOurs(provider_id)


def _number(provider_id: str, prefix: str) -> int:
    text = provider_id.removeprefix(prefix)
    # Python raises an error for numbers of thousands of digits; valid numbers have at most 19.
    if not (text.isascii() and text.isdigit() and len(text) < 20) or not 0 < int(text) <= _MAX_NUMBER:
        message = f"provider ID {provider_id!r}: {prefix!r} must be followed by a server's number"
        # A provider ID can't be changed, so the only remedy is a new Node.
        advice = ". Delete the Node. Its kubelet then registers a new Node"
        raise CloudError(message, notices=[Notice("InvalidProviderID", message + advice)])
    return int(text)
