"""k3s's protocol between machines of a cluster: header names and URLs."""

import base64
import re

NODE_NAME = "k3s-Node-Name"
NODE_PASSWORD = "k3s-Node-Password"  # noqa: S105 -- a header's name
NODE_IP = "k3s-Node-IP"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def is_node_name(text: str) -> bool:
    """Whether a text is a valid name of a node."""
    return _NAME.fullmatch(text) is not None


NODE, SERVER = "node", "server"
"""The user names for the agent token and the server token."""


def basic(password: str, user: str = NODE) -> str:
    """The Authorization header of a node, or of a server."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def url_of(address: str, port: int) -> str:
    """The URL of a server; an IPv6 address gets brackets (RFC 3986, section 3.2.2)."""
    return f"https://[{address}]:{port}" if ":" in address else f"https://{address}:{port}"
