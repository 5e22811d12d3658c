"""Applies plans. Only this package changes load balancers and certificates in the cloud."""

from ccm.hetzner.load_balancers.apply.apply_state import ApplyState, RetryBudget
from ccm.hetzner.load_balancers.apply.runner import apply_plan

__all__ = ["ApplyState", "RetryBudget", "apply_plan"]
