"""Escapes control characters in texts from other users."""


def printable(text: str, kept: str = "") -> str:
    """Escape characters that aren't printable, such as terminal escape sequences, but those ``kept``."""
    return "".join(sign if sign.isprintable() or sign in kept else ascii(sign)[1:-1] for sign in text)
