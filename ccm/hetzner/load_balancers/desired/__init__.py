"""Decides the desired state of a Service's load balancer."""

from ccm.hetzner.load_balancers.desired.decision import decide
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState

__all__ = ["DesiredState", "decide"]
