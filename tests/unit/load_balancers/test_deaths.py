from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from balancer_site import LABEL, UID, BalancerSite, view

from ccm.cloud import CloudError

BEFORE = view("web", 80, 81)
AFTER = view(
    "web",
    (80, 31080),
    443,
    annotations={
        "use-private-ip": "true",
        "algorithm-type": "least_connections",
        "port.443.protocol": "https",
        "port.443.certificate-type": "managed",
        "port.443.http-managed-certificate-domains": "shop.example.com",
    },
)


class Killed(BaseException):
    """The process died."""


async def shown(site: BalancerSite) -> tuple[Any, ...]:
    """What matters of the Service's load balancers and certificates."""
    balancers = [one for one in await site.all() if one["labels"].get(LABEL) == UID]
    certificates = (await site.sky.call("GET", "/certificates"))["certificates"]
    return (
        [
            (
                balancer["name"],
                balancer["algorithm"]["type"],
                [
                    (port["listen_port"], port["destination_port"], port["protocol"])
                    for port in balancer["services"]
                ],
                sorted((target["server"]["id"], target["use_private_ip"]) for target in balancer["targets"]),
                bool(balancer["private_net"]),
            )
            for balancer in balancers
        ],
        [certificate["domain_names"] for certificate in certificates],
    )


async def until_done(work: Callable[[], Awaitable[object]]) -> int:
    """Try as the queue would; returns how many tries it took."""
    for tries in range(1, 12):
        try:
            await work()
        except CloudError:
            continue
        return tries
    pytest.fail("it does not converge")


async def wanted(site: BalancerSite, service: Any) -> tuple[Any, ...]:
    """What a run without faults makes; the project is empty afterwards."""
    await site.ensure(service)
    result = await shown(site)
    await site.balancers.delete(service)
    assert await shown(site) == ([], [])
    return result


@pytest.mark.parametrize("operation", ["create", "update", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_death_at_every_single_call(site: BalancerSite, operation: str, after: bool) -> None:
    await site.add_nodes("a", "b")
    expected = ([], []) if operation == "delete" else await wanted(site, AFTER)
    for calls in range(40):
        if operation != "create":
            await until_done(lambda: site.ensure(BEFORE))
        await site.restart()
        died = await die_at(site, calls, operation, after=after)
        await site.restart()
        if operation == "delete":
            await until_done(lambda: site.balancers.delete(BEFORE))
        else:
            await until_done(lambda: site.ensure(AFTER))
            assert (await site.ensure(AFTER)).steps == ()
        assert await shown(site) == expected, f"died at call {calls}"
        if not died:
            assert calls > 1
            return
        if operation != "delete":
            await site.balancers.delete(AFTER)
            assert await shown(site) == ([], [])
    pytest.fail("it never came to an end")


async def die_at(site: BalancerSite, calls: int, operation: str, *, after: bool) -> bool:
    """Do the operation and let the process die at a request; whether it came to that."""
    request, left = site.cloud.api.request, calls

    async def dying(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not after:
            raise Killed
        answer = await request(*arguments, **more)
        if left < 0:
            raise Killed
        return answer

    site.cloud.api.request = dying  # type: ignore[method-assign]
    try:
        if operation == "delete":
            await site.balancers.delete(BEFORE)
        else:
            await site.ensure(AFTER)
    except Killed:
        return True
    return False
