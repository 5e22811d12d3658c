"""Hetzner Cloud load balancers as the ``load_balancers`` capability of a cloud.

What a Service asks for is read (``wishes``), turned into the load balancer that should be (``desire``, with
``listeners``, ``targets`` and ``ownership``), compared with the one that is (``plan``), and the resulting
named steps are run (``apply``). All of these but the last are pure; ``balancers`` ties them together.
"""

from ccm.hetzner.load_balancers.balancers import HetznerLoadBalancers

__all__ = ["HetznerLoadBalancers"]
