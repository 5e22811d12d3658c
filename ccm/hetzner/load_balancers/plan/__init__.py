"""The steps from what there is to what should be, in order, with what each needs.

``plan`` is for a Service that stays, ``plan_release`` for one that goes, and ``release`` for a load balancer
that it leaves: what becomes of that is decided when the step is applied.
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
