"""The steps from what there is to what should be, in order, with what each needs.

``plan`` is for a Service that stays, ``plan_release`` for one that goes, and ``release`` for a load balancer
that it leaves: what becomes of that is decided when the step is applied.
"""

from ccm.hetzner.load_balancers.plan.lifecycle_steps import (
    Create,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
)
from ccm.hetzner.load_balancers.plan.planner import plan, plan_release
from ccm.hetzner.load_balancers.plan.release_plan import release
from ccm.hetzner.load_balancers.plan.steps import Change, Json, Key, Step

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
