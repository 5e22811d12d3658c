"""The base classes of the cloud-controller-manager's errors."""

from collections.abc import Iterable


class CcmError(Exception):
    """An expected error; any other exception is a bug."""


class ConfigurationError(CcmError):
    """The configuration is wrong; includes all problems that were found."""

    def __init__(self, problems: Iterable[str]) -> None:
        # a sentence for each problem, with the key, its value and the allowed values, but without secrets
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
