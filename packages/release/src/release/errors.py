"""What can go wrong with a release, reported to a person in one message."""


class ReleaseError(Exception):
    """Root of the release's errors. Its text is complete: it is shown without a stack trace."""


class ProgramError(ReleaseError):
    """A program that builds a part failed."""
