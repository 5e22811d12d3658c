"""Plans the steps from the observed state to the desired state, with their dependencies.

``plan`` is for a Service, and ``plan_release`` for a Service that gives up its load balancers. ``release``
decides what happens to a load balancer that a Service leaves, when the step is applied.
"""

from ccm.hetzner.load_balancers.plan.planner import plan, plan_release, release
from ccm.hetzner.load_balancers.plan.steps import (
    Change,
    Create,
    DeleteCertificates,
    Json,
    Key,
    Release,
    RequestCertificate,
    RetryCertificate,
    Step,
)

__all__ = [
    "Change",
    "Create",
    "DeleteCertificates",
    "Json",
    "Key",
    "Release",
    "RequestCertificate",
    "RetryCertificate",
    "Step",
    "plan",
    "plan_release",
    "release",
]
