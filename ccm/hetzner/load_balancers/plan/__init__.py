"""The steps from the observed to the desired state, in order, with what each needs.

``plan`` is for a Service, ``plan_release`` for one that gives up its load balancers, and ``release`` for a
load balancer that it leaves: what happens to that is decided when the step is applied.
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
