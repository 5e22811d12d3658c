"""The Pulumi program that builds the environment: network, servers, k3s, and our cloud-controller-manager.

``__main__.py`` and ``components.py`` declare the resources. Below them are these packages, and each
imports only those after it: ``preflight``, ``addons``, ``cluster``, ``servers``, ``config``, ``lib``.

Imports are relative because the wheel calls this package ``ccm_pulumi``. The exception is ``__main__.py``:
Pulumi runs it as a script, which has no package.
"""

from .former_providers import register

register(__name__)
