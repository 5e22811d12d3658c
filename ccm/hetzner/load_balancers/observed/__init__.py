"""What there is: the Service's load balancer and whose it is, types, servers, certificates.

``observe`` finds it out for a Service that stays, ``observe_for_release`` for one that goes.
"""

from ccm.hetzner.load_balancers.observed.observed_state import ObservedState
from ccm.hetzner.load_balancers.observed.observer import observe, observe_for_release

__all__ = ["ObservedState", "observe", "observe_for_release"]
