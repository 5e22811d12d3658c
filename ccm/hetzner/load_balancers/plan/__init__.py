"""The steps from what there is to what should be, in order, with what each needs. Pure."""

from ccm.hetzner.load_balancers.plan.plan import plan, plan_release

__all__ = ["plan", "plan_release"]
