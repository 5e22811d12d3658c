"""The project's Primary IPs: one shared list of them."""

from __future__ import annotations

from collections.abc import Mapping

from ccm.hetzner.api import HetznerApi, Priority, view_of
from ccm.hetzner.api.wire import LoadBalancer, PrimaryIp
from ccm.hetzner.load_balancers.wishes import Wishes

AGE = 300.0  # of what only decides whether an Event is true
AGE_FOR_NEW = 0.0  # its former load balancer may have gone just now


class PrimaryIps:
    """Finds the Primary IPs that Services name."""

    def __init__(self, api: HetznerApi) -> None:
        self.view = view_of(api, "primary_ips", PrimaryIp)

    async def look_up(self, wishes: Wishes, balancer: LoadBalancer | None) -> Mapping[str, PrimaryIp | None]:
        """Find the Primary IPs that a Service names.

        Args:
            wishes: What the Service asks for.
            balancer: Its load balancer. Nothing is read if that has them already.

        Returns:
            By ``ipv4`` and ``ipv6``, as far as asked for; None = the project has none of this ID or name.

        Raises:
            CloudError: They are not known.
        """
        asked = {
            family: reference
            for family, reference in wishes.primary_ips.items()
            if balancer is None or reference != str(balancer.public_net.of(family).id)
        }
        if not asked or (balancer is None and wishes.problems):
            return {}
        known = await self.view.read(AGE if balancer else AGE_FOR_NEW, Priority.LOAD_BALANCERS)
        return {
            # The ID first: a name may be another one's ID.
            family: known.by_id.get(int(one) if one.isascii() and one.isdigit() else 0)
            or known.by_name.get(one)
            for family, one in asked.items()
        }
