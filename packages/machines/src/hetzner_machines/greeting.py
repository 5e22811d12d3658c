"""The message of the day: all machines are Debian, whatever image was requested."""

from __future__ import annotations

import shlex
from pathlib import Path

RELEASE = Path("etc/os-release")
MESSAGE = Path("etc/motd")


def message(release: str, asked: str) -> str:
    """The message of the day; empty if the requested image is the machine's."""
    lines = (line.partition("=") for line in release.splitlines() if "=" in line)
    facts = {name: "".join(shlex.split(value)) for name, _, value in lines}
    if not asked or asked == f"{facts.get('ID')}-{facts.get('VERSION_ID')}":
        return ""
    system = facts.get("PRETTY_NAME", "Debian")
    return (
        f"\nThis machine was asked for as {asked}. It is one of the ccm-from-scratch sandbox, and those are\n"
        f"{system}, whichever image a server is made from: expect its packages and\n"
        "versions. What else differs: docs/reference/limits-of-the-sandbox.md\n\n"
    )
