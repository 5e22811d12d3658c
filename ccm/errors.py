"""The roots of every error that the cloud-controller-manager raises on purpose."""

from collections.abc import Iterable


class CcmError(Exception):
    """Anything that goes wrong in a way that we foresaw."""


class ConfigurationError(CcmError):
    """The configuration is wrong; holds every problem found, not only the first.

    Attributes:
        problems: One sentence each, naming the key, its value and what is allowed. Never a secret.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
