"""The roots of every error that the cloud-controller-manager raises on purpose.

CcmError
├── ConfigurationError      flags, environment variables or files that we can't start with
├── CloudError …            the cloud said no, or nothing (ccm/cloud/errors.py)
├── KubernetesError …       the API server said no (ccm/kube/errors.py)
├── LeaseLost               another replica leads, or may lead (ccm/kube/errors.py)
└── NodeNotInitialized, RoutesNotReconciled, ServiceNotSynced, …
an object is not as it should be; it is tried again (ccm/controllers)
"""

from __future__ import annotations

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
