"""What there is: the Service's load balancer and whose it is, types, servers, certificates.

``gather`` finds it out for a Service that stays, ``gather_for_release`` for one that goes.
"""

from ccm.hetzner.load_balancers.facts.facts import NOTHING, Facts, Former
from ccm.hetzner.load_balancers.facts.gathering import gather, gather_for_release

__all__ = ["NOTHING", "Facts", "Former", "gather", "gather_for_release"]
