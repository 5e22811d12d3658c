"""The steps from what there is to what should be, in order, with what each needs. Pure."""

from ccm.hetzner.load_balancers.plan.plan import plan, plan_release
from ccm.hetzner.load_balancers.plan.steps import Planned

__all__ = ["Planned", "plan", "plan_release"]
