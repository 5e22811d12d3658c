"""Durations of actions."""

from collections.abc import Mapping
from random import Random

from hetzner_emulator.config import ActionMode

REALISTIC: Mapping[str, float] = {
    "create_server": 6.0,
    "start_server": 3.0,
    "delete_server": 2.0,
    "shutdown_server": 0.5,
    "reboot_server": 1.5,
    "change_server_type": 8.0,
    "rebuild_server": 8.0,
    "attach_to_network": 2.0,
    "create_load_balancer": 3.0,
    "change_load_balancer_type": 3.0,
    "create_certificate": 20.0,
    "issue_certificate": 20.0,
}
"""The durations of commands in seconds, as measured at Hetzner. Commands without an entry take one second."""

OTHERS = 1.0
SLOWDOWN = 6.0
SPREAD = 0.2


def duration(command: str, mode: ActionMode | float, randomness: Random) -> float:
    """Minimum seconds that an action takes, with the backend's work; ``mode`` can be a number of seconds."""
    if not isinstance(mode, str):
        return mode
    if mode == "instant":
        return 0.0
    seconds = REALISTIC.get(command, OTHERS) * (SLOWDOWN if mode == "slow" else 1.0)
    return seconds * randomness.uniform(1 - SPREAD, 1 + SPREAD)
