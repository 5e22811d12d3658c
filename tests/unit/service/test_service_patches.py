import pytest
from service_cluster import SHOP, service

from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.syncer import add_finalizer, remove_finalizer, write_status
from ccm.kube.objects import LoadBalancerIngress, PortStatus, Service, decode_object
from ccm.testing.memory_transport import MemoryTransport

ONE = (LoadBalancerIngress(ip="203.0.113.80", ip_mode="VIP"),)


async def read(transport: MemoryTransport) -> Service:
    return await transport.get(f"{SHOP}/web", Service)


def patches(transport: MemoryTransport) -> int:
    return sum(1 for request in transport.requests if request.verb == "patch")


async def test_the_finalizer_comes_and_goes_and_others_stay() -> None:
    transport = MemoryTransport()
    transport.put(SHOP, service("web", metadata={"finalizers": ["other.example/wait"]}))
    await add_finalizer(transport, await read(transport))
    assert (await read(transport)).metadata.finalizers == ("other.example/wait", CLEANUP_FINALIZER)
    await add_finalizer(transport, await read(transport))
    assert patches(transport) == 1
    await remove_finalizer(transport, await read(transport))
    assert (await read(transport)).metadata.finalizers == ("other.example/wait",)
    await remove_finalizer(transport, await read(transport))
    assert patches(transport) == 2


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        ((), (), False),
        ((), ONE, True),
        (ONE, ONE, False),
        (ONE, (), True),
        (ONE, (LoadBalancerIngress(ip="203.0.113.80", ip_mode="Proxy"),), True),
        (ONE, (LoadBalancerIngress(ip="203.0.113.80"),), True),
        (ONE, (LoadBalancerIngress(hostname="shop.example.com"),), True),
        (ONE, (LoadBalancerIngress(ip="203.0.113.80", ip_mode="VIP", ports=(PortStatus(80, "TCP"),)),), True),
    ],
)
async def test_the_status_is_written_if_it_differs(before: tuple, after: tuple, *, written: bool) -> None:
    transport = MemoryTransport()
    transport.put(SHOP, service("web"))
    await write_status(transport, await read(transport), before)
    transport.requests.clear()
    await write_status(transport, await read(transport), after)
    assert patches(transport) == written
    assert (await read(transport)).status.load_balancer.ingress == after


async def test_what_others_changed_meanwhile_stays() -> None:
    transport = MemoryTransport()
    transport.put(SHOP, service("web"))
    old = await read(transport)
    item = transport.read(f"{SHOP}/web")
    item["spec"]["type"] = "ClusterIP"
    item["metadata"]["annotations"] = {"a": "b"}
    transport.put(SHOP, item)
    await add_finalizer(transport, old)
    now = await read(transport)
    assert (now.spec.type, now.metadata.annotations) == ("ClusterIP", {"a": "b"})
    assert now.metadata.finalizers == (CLEANUP_FINALIZER,)
    assert decode_object(transport.read(f"{SHOP}/web"), Service) == now
