"""The parts of the Pulumi program: network, servers, k3s, and the cloud-controller-manager in it.

``components.py`` offers them to other programs, and ``infra`` is our own. Below are these packages, and each
imports only those after it: ``preflight``, ``addons``, ``cluster``, ``servers``, ``config``, ``lib``.
"""

from .former_providers import register

register(__name__)
