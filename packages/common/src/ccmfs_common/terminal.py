"""Escapes control characters in texts from other users."""

from __future__ import annotations


def printable(text: str, kept: str = "") -> str:
    """Escape characters that aren't printable, such as terminal escape sequences.

    Args:
        text: Of a cloud, a kubelet, a client, or an archive.
        kept: Characters that aren't escaped, such as line breaks.
    """
    return "".join(sign if sign.isprintable() or sign in kept else ascii(sign)[1:-1] for sign in text)
