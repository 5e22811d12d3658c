from ccm.cloud import NodeView
from ccm.hetzner.api import ListCache, Listing, Priority
from ccm.hetzner.api.models import (
    LoadBalancer,
    LoadBalancerTarget,
    PublicAddress,
    Server,
    ServerPublicNet,
    TargetServer,
)
from ccm.hetzner.load_balancers.cache.server_cache import SERVERS_AGE, ServerCache


class Project:
    def __init__(self, *servers: Server) -> None:
        self.servers = list(servers)
        self.lists = 0
        self.now = 0.0
        self.cached: ListCache[Server] = ListCache(self._list, clock=lambda: self.now)
        self.finder = ServerCache(self.cached, "hcloud://")

    async def _list(self, _: Priority) -> Listing[Server]:
        self.lists += 1
        return Listing(list(self.servers))

    async def find(self, *numbers: int) -> set[int]:
        nodes = [NodeView(f"n{number}", f"hcloud://{number}") for number in numbers]
        wanted = await self.finder.candidates(nodes, private=False)
        return {*await self.finder.look_up(wanted, None)}


def server(number: int) -> Server:
    return Server(
        id=number, name=f"n{number}", public_net=ServerPublicNet(ipv4=PublicAddress(ip=f"203.0.113.{number}"))
    )


async def test_a_server_that_was_just_looked_at_needs_no_list() -> None:
    project = Project(server(1))
    assert await project.find(1) == {1}
    project.now = SERVERS_AGE + 1
    project.cached.put(server(2))
    assert await project.find(2) == {2}
    assert project.lists == 1


async def test_what_was_read_long_ago_is_read_again() -> None:
    project = Project(server(1))
    await project.find(1)
    project.now = SERVERS_AGE + 1
    project.servers.clear()
    assert await project.find(1) == set()
    assert project.lists == 2


async def test_one_known_server_is_no_list() -> None:
    project = Project(server(1), server(2))
    project.cached.put(server(1))
    await project.find(1)
    assert project.cached.contents.by_id.keys() == {1, 2}


async def test_targets_that_are_gone_are_not_remembered_for_ever() -> None:
    project = Project()
    for number in range(1, 50):
        present = (LoadBalancerTarget("server", server=TargetServer(number)),)
        ours = project.finder.remember(LoadBalancer(7, "lb", targets=present), [(number, "")])
        assert ours == {(number, "")}
    project.finder.forget(LoadBalancer(7, "lb"))
    assert project.finder.remember(LoadBalancer(7, "lb", targets=present), []) == set()
