"""What a Service's load balancer should be, all things considered. Pure."""

from ccm.hetzner.load_balancers.desired.decision import decide
from ccm.hetzner.load_balancers.desired.desired import Desired

__all__ = ["Desired", "decide"]
