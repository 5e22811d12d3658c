"""The observed state: the Service's load balancer and its owner, types, servers, certificates.

``observe`` reads it for a Service, ``observe_for_release`` before a Service gives up its load balancers.
"""

from ccm.hetzner.load_balancers.observed.observed_state import ObservedState
from ccm.hetzner.load_balancers.observed.observer import observe, observe_for_release

__all__ = ["ObservedState", "observe", "observe_for_release"]
