from __future__ import annotations

import asyncio
import itertools
import ssl
from dataclasses import replace

import aiohttp
import pytest
import trustme

from sandbox.cloud.backend import (
    BackendError,
    HealthCheck,
    LoadBalancerService,
    LoadBalancerSpec,
    LoadBalancerTarget,
)
from sandbox.machines import namespaces

pytestmark = pytest.mark.machines

# Answers every request with its name, the line of the PROXY protocol and the request's own head.
SERVER = """
import asyncio, socket
async def serve(reader, writer):
    head = [(await reader.readline()).strip()]
    proxy = b"none"
    if head[0].startswith(b"PROXY"):
        proxy, head = head[0], [(await reader.readline()).strip()]
    while line := (await reader.readline()).strip():
        head.append(line)
    if not head[0]:
        writer.close()
        return
    if b"/slow" in head[0]:
        await asyncio.sleep(3)
    status = b"500 No" if b"/broken" in head[0] else b"200 OK"
    body = socket.gethostname().encode() + b"|" + proxy + b"|" + b"|".join(head)
    head = b"\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
    writer.write(b"HTTP/1.1 " + status + head + body)
    await writer.drain()
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "", 8080) as server:
        await server.serve_forever()
asyncio.run(main())
"""
CHECK = HealthCheck("tcp", 8080, 3, 3, 2)


def service(protocol="tcp", listen=80, **changes) -> LoadBalancerService:
    return LoadBalancerService(
        **(
            {"protocol": protocol, "listen_port": listen, "destination_port": 8080}
            | {"proxyprotocol": False, "health_check": CHECK}
            | changes
        )
    )


@pytest.fixture
async def targets(world, backend):
    """Two machines that serve; as private targets."""
    world.user_data = (
        "#cloud-config\nwrite_files:\n- path: /root/serve.py\n  content: |\n"
        + "".join(f"    {line}\n" for line in SERVER.strip().splitlines())
        + "runcmd: [systemd-run --unit serve python3 /root/serve.py]\n"
    )
    await backend.put_network(world.network)
    for number in (1, 2):
        await backend.create_machine(world.machine(number))
    await asyncio.gather(*(backend.power_on(number) for number in (1, 2)))
    await asyncio.gather(*(world.ssh(n, "cloud-init status --wait") for n in (1, 2)))
    return tuple(LoadBalancerTarget(f"10.0.0.{1 + number}", True, number) for number in (1, 2))


@pytest.fixture
def spec(world, targets):
    return LoadBalancerSpec(
        id=1,
        name="lb",
        public_enabled=True,
        public_ipv4=str(world.range[40]),
        public_ipv6="2001:db8:0:99::1",
        private=((1, "10.0.0.40"),),
        algorithm="round_robin",
        max_connections=10000,
        services=(service(),),
        targets=targets,
    )


async def get(url: str, *, tries: int = 100, **options) -> str:
    """The text at an address, as soon as one is there; each time over a new connection."""
    for last in range(tries):
        try:
            async with aiohttp.ClientSession() as session, session.get(url, **options) as answer:
                if answer.status != 503 or last == tries - 1:
                    return await answer.text()
        except aiohttp.ClientError:
            if last == tries - 1:
                raise
        await asyncio.sleep(0.05)
    raise AssertionError


async def healthy(backend, spec, state="healthy") -> None:
    """Wait until every target of every service is in a state."""
    async with asyncio.timeout(20):
        wanted = {(t.address, s.listen_port) for t in spec.targets for s in spec.services}
        while {k for k, v in backend.target_health(spec.id).items() if v == state} != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_traffic_is_spread_over_healthy_targets(world, backend, spec):
    url = f"http://{spec.public_ipv4}/"
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    answers = [await get(url) for _ in range(4)]
    assert {answer.split("|")[0] for answer in answers} == {"m1", "m2"}
    await backend.power_off(2)
    async with asyncio.timeout(20):
        while backend.target_health(1).get(("10.0.0.3", 80)) != "unhealthy":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert {(await get(url)).split("|")[0] for _ in range(4)} == {"m1"}
    assert await world.ssh(1, "curl -s http://10.0.0.40/") != ""  # its private address serves, too
    await backend.delete_load_balancer(1)
    await backend.delete_load_balancer(1)
    assert f"ccmfs-{world.site}-lb-1" not in namespaces.listing()
    assert backend.target_health(1) == {}
    with pytest.raises(aiohttp.ClientError):
        await get(url, tries=1)


async def test_http_services_speak_of_the_client_and_stick_to_a_target(backend, spec):
    sticky = service("http", sticky_sessions=True, cookie_name="STICK", cookie_lifetime=60)
    proxied = service("tcp", 81, proxyprotocol=True)
    spec = replace(spec, services=(sticky, proxied))
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    url = f"http://{spec.public_ipv4}/"
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        names = set()
        for _ in range(4):
            async with session.get(url) as answer:
                text = await answer.text()
                names.add(text.split("|")[0])
    assert len(names) == 1
    assert [cookie.key for cookie in jar] == ["STICK"]
    assert "x-forwarded-proto: http" in text
    assert "x-forwarded-for: 198.18." in text
    assert "|PROXY TCP4 198.18." in await get(f"http://{spec.public_ipv4}:81/")


async def test_https_services_have_certificates_and_lead_port_80_to_them(backend, spec):
    authority = trustme.CA()
    certificate = authority.issue_cert(spec.public_ipv4, "shop.example")
    pem = certificate.private_key_and_cert_chain_pem.bytes().decode()
    secure = service("https", 443, certificates=(pem,), redirect_http=True)
    spec = replace(spec, services=(secure,))
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    assert "x-forwarded-proto: https" in await get(f"https://{spec.public_ipv4}/", ssl=context)
    assert "x-forwarded-port: 443" in await get(f"http://{spec.public_ipv4}/", ssl=context)
    with pytest.raises(BackendError, match="haproxy"):
        await backend.put_load_balancer(replace(spec, services=(replace(secure, certificates=("no",)),)))
    assert "x-forwarded-proto: https" in await get(f"https://{spec.public_ipv4}/", ssl=context)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"path": "/"}, "healthy"),
        ({"path": "/broken"}, "unhealthy"),
        ({"path": "/broken", "status_codes": ("2??", "5*")}, "healthy"),
        ({"response": "GET / HTTP/1.1|host: it's.example", "domain": "it's.example"}, "healthy"),
        ({"response": "something else"}, "unhealthy"),
    ],
)
async def test_http_checks_ask_for_what_was_configured(backend, spec, change, state):
    check = replace(CHECK, protocol="http", **change)
    spec = replace(spec, services=(service(health_check=check),))
    await backend.put_load_balancer(spec)
    await healthy(backend, spec, state)


async def test_changes_lose_no_request_and_cut_no_connection(backend, spec):
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    url = f"http://{spec.public_ipv4}/"
    slow = asyncio.create_task(get(url + "slow", tries=1))
    stop = asyncio.Event()
    served = 0

    async def load() -> None:
        nonlocal served
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            while not stop.is_set():
                async with session.get(url) as answer:
                    assert answer.status == 200
                    served += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(load())
        await asyncio.sleep(0)
        for count in itertools.islice(itertools.cycle((1, 2)), 6):
            await backend.put_load_balancer(replace(spec, targets=spec.targets[:count]))
            await backend.put_load_balancer(replace(spec, algorithm="least_connections"))
        stop.set()
    assert served > 50
    assert "|GET /slow" in await slow


async def test_interfaces_follow_the_cloud(world, backend, spec):
    await backend.put_load_balancer(replace(spec, private=(), public_enabled=False))
    assert "lb" not in await world.ssh(1, "curl -m1 -s http://10.0.0.40/")
    await backend.put_load_balancer(replace(spec, public_enabled=False))
    await healthy(backend, spec)
    assert "GET / HTTP" in await world.ssh(1, "curl -m2 -s http://10.0.0.40/")
    with pytest.raises(aiohttp.ClientError):
        await get(f"http://{spec.public_ipv4}/", tries=1)
    await backend.put_load_balancer(spec)
    assert "GET / HTTP" in await get(f"http://{spec.public_ipv4}/")


async def test_a_load_balancer_outlives_the_sandbox(world, backend, spec):
    await backend.put_load_balancer(spec)
    second = world.backend()
    await second.start([world.network], {}, world.event)
    await second.put_load_balancer(spec)
    await second.put_load_balancer(replace(spec, targets=spec.targets[:1]))
    with pytest.raises(aiohttp.ClientError):
        await get(f"http://{spec.public_ipv4}/", tries=1)
    await second.remove_all()
    assert not namespaces.listing() or all(world.site not in name for name in namespaces.listing())
