"""What there is: the Service's load balancer and whose it is, types, servers, certificates."""

from ccm.hetzner.load_balancers.facts.facts import Facts
from ccm.hetzner.load_balancers.facts.gather import Views, gather, gather_for_release

__all__ = ["Facts", "Views", "gather", "gather_for_release"]
