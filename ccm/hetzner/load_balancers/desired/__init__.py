"""What a Service's load balancer should be, all things considered. Pure."""

from ccm.hetzner.load_balancers.desired.decision import decide
from ccm.hetzner.load_balancers.desired.defaults import asked_fields, asked_settings
from ccm.hetzner.load_balancers.desired.desired import Desired

__all__ = ["Desired", "asked_fields", "asked_settings", "decide"]
