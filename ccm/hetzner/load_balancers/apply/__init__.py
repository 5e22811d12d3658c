"""Does what is planned: the only place that changes anything in the cloud."""

from ccm.hetzner.load_balancers.apply.outcome import Outcome, RetryBudget
from ccm.hetzner.load_balancers.apply.runner import apply_plan

__all__ = ["Outcome", "RetryBudget", "apply_plan"]
