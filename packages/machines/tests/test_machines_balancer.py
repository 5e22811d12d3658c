import asyncio
import signal
import socket
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
import trustme

from bench.footprint import family, parents, used
from hetzner_emulator.backend import (
    BackendError,
    HealthCheck,
    LoadBalancerService,
    LoadBalancerSpec,
    LoadBalancerTarget,
)
from hetzner_machines import namespaces, processes, records
from hetzner_machines.runner import inside, run
from tests.waiting import until

pytestmark = pytest.mark.machines

CHECK = HealthCheck("tcp", 8080, 3, 3, 2)


def service(protocol="tcp", listen=80, **changes) -> LoadBalancerService:
    return replace(LoadBalancerService(protocol, listen, 8080, False, CHECK), **changes)


def _listen() -> socket.socket:
    return socket.create_server(("", 8080), family=socket.AF_INET6, dualstack_ipv6=True)


class Target:
    """A server's namespace without a machine, in which this process serves.

    Every answer has the server's name, the line of the PROXY protocol, and the request's own head.
    """

    def __init__(self, world, number: int) -> None:
        self.spec = world.machine(number)
        self.namespace = f"ccmfs-{world.site}-srv-{number}"
        self.server: asyncio.Server | None = None

    async def start(self, backend) -> None:
        await backend._fabric.create_server(self.spec, {1: 0}, backend._networks)
        listening = namespaces.inside(self.namespace, _listen)
        self.server = await asyncio.start_server(self.serve, sock=listening)

    async def stop(self) -> None:
        self.server.close()

    async def serve(self, reader, writer) -> None:
        proxy, head = b"none", [(await reader.readline()).strip()]
        if head[0].startswith(b"PROXY"):
            proxy, head = head[0], [(await reader.readline()).strip()]
        while line := (await reader.readline()).strip():
            head.append(line)
        if head[0].startswith(b"GET /slow"):
            await asyncio.sleep(2)  # of an answer that takes its time
        status = b"500 No" if head[0].startswith(b"GET /broken") else b"200 OK"
        body = b"|".join([self.spec.name.encode(), proxy, *head])
        rest = b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        if head[0]:
            writer.write(b"HTTP/1.1 " + status + rest + body)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def get(self, address: str, port: int = 80) -> str:
        """What this server gets from an address; empty without an answer."""

        def connect() -> socket.socket:
            return socket.create_connection((address, port), timeout=5)  # there may be no answer

        try:
            made = await asyncio.to_thread(namespaces.inside, self.namespace, connect)
        except OSError:
            return ""
        made.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=made)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.decode()


@pytest.fixture
async def servers(world, backend):
    await backend.put_network(world.network)
    made = [Target(world, number) for number in (1, 2)]
    for target in made:
        await target.start(backend)
    yield made
    for target in made:
        await target.stop()


@pytest.fixture
def targets(servers):
    return tuple(LoadBalancerTarget(s.spec.private[0].ip, True, s.spec.id) for s in servers)


@pytest.fixture
def spec(world, targets):
    return LoadBalancerSpec(
        id=1,
        name="lb",
        public_enabled=True,
        public_ipv4=str(world.range[40]),
        public_ipv6=str(world.ipv6(99)[1]),
        private=((1, "10.0.0.40"),),
        algorithm="round_robin",
        max_connections=10000,
        services=(service(),),
        targets=targets,
    )


async def get(url: str, *, tries: int = 1200, **options) -> str:
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
    wanted = {(t.address, s.listen_port) for t in spec.targets for s in spec.services}
    await until(lambda: {k for k, v in backend.target_health(spec.id).items() if v == state} == wanted)


async def test_traffic_is_spread_over_healthy_targets(world, backend, servers, spec):
    url = f"http://{spec.public_ipv4}/"
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    answers = [await get(url) for _ in range(4)]
    assert {answer.split("|")[0] for answer in answers} == {"m1", "m2"}
    counted = (await backend.measure())["load_balancer", 1]
    assert counted["requests_per_second"] >= 4
    assert counted["bandwidth.out"] >= sum(map(len, answers))
    await servers[1].stop()
    await until(lambda: backend.target_health(1).get(("10.0.0.3", 80)) == "unhealthy")
    assert {(await get(url)).split("|")[0] for _ in range(4)} == {"m1"}
    assert "m1|none|GET /" in await servers[0].get("10.0.0.40")  # its private address serves, too
    await backend.delete_load_balancer(1)
    await backend.delete_load_balancer(1)
    assert f"ccmfs-{world.site}-lb-1" not in namespaces.listing()
    assert backend.target_health(1) == {}
    with pytest.raises(aiohttp.ClientError):
        await get(url, tries=1)


@pytest.mark.parametrize(
    "code", ["port-unreachable", pytest.param("admin-prohibited", marks=pytest.mark.nightly)]
)
async def test_targets_that_reject_connections_cost_no_processor_time(world, backend, servers, spec, code):
    rules = f"""table inet test {{
      chain input {{
        type filter hook input priority filter
        tcp dport 8080 reject with icmpx type {code}
      }}
    }}"""
    for server in servers:
        await run(inside(server.namespace, "nft", "-f", "-"), rules)
    await backend.put_load_balancer(spec)
    await healthy(backend, spec, "unhealthy")
    assert {failure for failure, _ in backend.target_failures(1).values()} == {"layer4_timeout"}
    main = records.read_run(world.state / "load-balancers/1/run.json").keeper.pid
    haproxy = list(family(main, parents()))
    before = sum(used(haproxy).values())
    await asyncio.sleep(4)  # short: in which two checks of each target begin
    assert sum(used(haproxy).values()) - before < 0.2


async def test_ipv6_addresses_answer_the_host_and_machines(world, backend, servers, spec):
    await backend.put_load_balancer(spec)
    await healthy(backend, spec)
    other = str(world.ipv6(2)[1])
    assert "GET / HTTP" in await get(f"http://[{spec.public_ipv6}]/")
    assert "GET / HTTP" in await servers[0].get(spec.public_ipv6)
    assert (await get(f"http://[{other}]:8080/")).startswith("m2|")
    assert (await servers[0].get(other, 8080)).startswith("HTTP/1.1 200 OK")
    unknown = str(world.ipv6(77)[1])  # is refused at once, and goes round in no circle
    with pytest.raises(OSError, match="unreachable"):
        await asyncio.to_thread(socket.create_connection, (unknown, 80))


async def test_http_services_set_headers_and_cookies(backend, spec):
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


async def test_https_services_have_certificates_and_redirects(backend, spec):
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
    with pytest.raises(BackendError, match=r"haproxy rejected the configuration .*.*443-0\.pem"):
        await backend.put_load_balancer(replace(spec, services=(replace(secure, certificates=("no",)),)))
    assert "x-forwarded-proto: https" in await get(f"https://{spec.public_ipv4}/", ssl=context)


CHECKS = [
    ({"path": "/"}, None),
    ({"path": "/broken"}, ("unexpected_http_status", 500)),
    ({"path": "/broken", "status_codes": ("2??", "5*")}, None),
    ({"response": "GET / HTTP/1.1|host: it's.example", "domain": "it's.example"}, None),
    ({"response": "something else"}, ("unexpected_http_content", None)),
]


async def test_http_checks(backend, spec):
    asked = [replace(CHECK, protocol="http", **change) for change, _ in CHECKS]
    services = tuple(service(listen=number, health_check=check) for number, check in enumerate(asked, 1))
    spec = replace(spec, services=services)
    failures = {(t.address, n): failure for t in spec.targets for n, (_, failure) in enumerate(CHECKS, 1)}
    wanted = {key: "unhealthy" if failure else "healthy" for key, failure in failures.items()}
    await backend.put_load_balancer(spec)
    await until(lambda: backend.target_health(1) == wanted)
    assert backend.target_failures(1) == {key: failure for key, failure in failures.items() if failure}


async def test_changes_keep_requests_and_connections(backend, spec):
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
        changes = 0
        while changes < 6 or served < 50:
            await backend.put_load_balancer(replace(spec, targets=spec.targets[: 1 + changes % 2]))
            await backend.put_load_balancer(replace(spec, algorithm="least_connections"))
            changes += 1
        stop.set()
    assert "|GET /slow" in await slow


async def test_interfaces_follow_the_cloud(backend, servers, spec):
    await backend.put_load_balancer(replace(spec, private=(), public_enabled=False))
    assert await servers[0].get("10.0.0.40") == ""
    await backend.put_load_balancer(replace(spec, public_enabled=False))
    await healthy(backend, spec)
    assert "GET / HTTP" in await servers[0].get("10.0.0.40")
    with pytest.raises(aiohttp.ClientError):
        await get(f"http://{spec.public_ipv4}/", tries=1)
    await backend.put_load_balancer(spec)
    assert "GET / HTTP" in await get(f"http://{spec.public_ipv4}/")


async def test_a_load_balancer_outlives_the_sandbox(world, backend, servers, spec):
    await backend.put_load_balancer(spec)
    file = world.state / "load-balancers/1/run.json"
    before = records.read_run(file)
    second = world.backend()
    await second.start([world.network], {server.spec: False for server in servers}, world.event)
    await second.put_load_balancer(spec)
    await second.put_load_balancer(replace(spec, targets=spec.targets[:1]))
    assert records.read_run(file) == before  # the same process, reloaded
    assert processes.alive(before.keeper)
    await second.remove_all()
    assert not processes.alive(before.keeper)
    assert not [name for name in namespaces.listing() if world.site in name]


async def another(file: Path, before: records.Run) -> None:
    """Wait until another haproxy runs than the one before."""
    await until(lambda: (run := records.read_run(file)) and run != before and processes.alive(run.keeper))


async def test_a_dead_haproxy_is_started_again(world, backend, spec):
    await backend.put_load_balancer(spec)
    file = world.state / "load-balancers/1/run.json"
    for _ in range(2):
        run = records.read_run(file)
        processes.send(run.keeper, signal.SIGKILL)
        await another(file, run)
        await healthy(backend, spec)
        assert "GET / HTTP" in await get(f"http://{spec.public_ipv4}/")


async def test_a_deleted_load_balancer_gets_no_haproxy(world, backend, spec):
    later = replace(spec, id=2, public_ipv4=str(world.range[21]), public_ipv6=str(world.ipv6(21)), private=())
    runs = {}
    for each in (spec, later):
        await backend.put_load_balancer(each)
        runs[each.id] = records.read_run(world.state / f"load-balancers/{each.id}/run.json")
        processes.send(runs[each.id].keeper, signal.SIGKILL)
    await backend.delete_load_balancer(spec.id)
    # whose haproxy ended after the other's, and waited as long
    await another(world.state / "load-balancers/2/run.json", runs[2])
    assert f"ccmfs-{world.site}-lb-1" not in namespaces.listing()
    assert not (world.state / "load-balancers/1").exists()
