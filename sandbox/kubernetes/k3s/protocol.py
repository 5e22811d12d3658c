"""What node and server agree on when a node joins: k3s's header names."""

from __future__ import annotations

import base64
import re

NODE_NAME = "k3s-Node-Name"
NODE_PASSWORD = "k3s-Node-Password"  # noqa: S105 -- a header's name
NODE_IP = "k3s-Node-IP"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def is_node_name(text: str) -> bool:
    """Whether a node can be called so."""
    return _NAME.fullmatch(text) is not None


def basic(password: str) -> str:
    """The header Authorization of a node."""
    return "Basic " + base64.b64encode(f"node:{password}".encode()).decode()
