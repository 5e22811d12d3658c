"""The roots of every error that the cloud-controller-manager raises on purpose.

    CcmError
    ├── ConfigurationError      flags, environment variables or files that we can't start with
    ├── KubernetesError …       the API server said no (ccm/kube/errors.py)
    └── LeaseLost               another replica leads, or may lead (ccm/kube/errors.py)

What a cloud may answer is a tree of its own in ccm/cloud/errors.py.
"""

from __future__ import annotations

from collections.abc import Iterable


class CcmError(Exception):
    """Anything that goes wrong in a way that we foresaw."""


class ConfigurationError(CcmError):
    """The configuration is wrong; holds every problem found, not only the first.

    Attributes:
        problems: one sentence each, naming the key, its value and what is allowed. Never a secret.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
