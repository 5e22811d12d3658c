"""Errors of a release, each with a message for the user. Most functions of this package may raise them."""


class ReleaseError(Exception):
    """Root of the release's errors. Its text is complete: it is shown without a stack trace."""
