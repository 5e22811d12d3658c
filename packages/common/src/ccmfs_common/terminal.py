"""What a terminal would obey, in texts that others than its user have chosen."""

from __future__ import annotations


def printable(text: str, kept: str = "") -> str:
    """The text with escapes in the place of signs that can't be printed, such as moves of the cursor.

    Args:
        text: Of a cloud, a kubelet, a client or an archive.
        kept: Signs that stay although they can't be printed, such as ends of lines.
    """
    return "".join(sign if sign.isprintable() or sign in kept else ascii(sign)[1:-1] for sign in text)
