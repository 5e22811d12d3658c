"""The message of the day: all machines are Debian, whatever image was requested."""

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
        f"\nThis server was requested with the image {asked}. In the\n"
        "ccm-from-scratch sandbox, all machines run\n"
        f"{system}, whatever image you request. The packages\n"
        f"also come from {system}. For other differences, see\ndocs/reference/limits-of-the-sandbox.md\n\n"
    )
