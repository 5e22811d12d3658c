"""Hetzner Cloud load balancers as the ``load_balancers`` capability of a cloud.

A Service goes through five rooms, each with one result, which is what the next one gets:

- ``spec``: what its annotations and the environment ask for, and all complaints about them; pure
- ``observed``: its load balancer and whose it is, types, servers, certificates; reads the shared ``cache``
- ``desired``: what should be, with what its owner should know; pure
- ``plan``: the steps from what there is to what should be, in order, with what each needs; pure
- ``apply``: does them

``balancers`` is the way through. ``plan`` of the command line ends before the last of these rooms.
"""

from ccm.hetzner.load_balancers.balancers import HetznerLoadBalancers

__all__ = ["HetznerLoadBalancers"]
