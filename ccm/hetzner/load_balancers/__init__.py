"""Hetzner Cloud load balancers as the ``load_balancers`` capability of a cloud.

A Service goes through five stages. Each passes its result to the next:

- ``spec``: what its annotations and the environment ask for, with all problems; pure
- ``observed``: its load balancer and whose it is, types, servers, certificates; reads the shared ``cache``
- ``desired``: the desired state, with notices for its owner; pure
- ``plan``: the steps from the observed to the desired state, in order, with what each needs; pure
- ``apply``: applies the steps

``balancers`` runs all stages. ``plan`` of the command line ends before ``apply``.
"""

from ccm.hetzner.load_balancers.balancers import HetznerLoadBalancers

__all__ = ["HetznerLoadBalancers"]
