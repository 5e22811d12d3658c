import pytest

from ccm.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    NotFound,
)
from ccm.kube.objects import Node, ObjectMeta, Service
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/shop/services"


@pytest.fixture
def server() -> MemoryTransport:
    memory = MemoryTransport()
    memory.put(NODES, Node(metadata=ObjectMeta(name="a", labels={"x": "y"})))
    return memory


async def test_created_objects_get_identity(server):
    node = await server.create(NODES, {"metadata": {"name": "b"}}, Node)
    assert node.metadata.uid
    assert node.metadata.creation_timestamp is not None
    assert int(node.metadata.resource_version) > 1
    with pytest.raises(AlreadyExists):
        await server.create(NODES, {"metadata": {"name": "b"}}, Node)
    with pytest.raises(Invalid):
        await server.create(NODES, {"metadata": {}}, Node)


async def test_old_resource_version_is_a_conflict(server):
    old = (await server.get(f"{NODES}/a", Node)).metadata.resource_version
    await server.patch(f"{NODES}/a", {"metadata": {"labels": {"b": "c"}}}, Node)
    body = {"metadata": {"resourceVersion": old}, "spec": {"providerID": "x"}}
    with pytest.raises(Conflict):
        await server.patch(f"{NODES}/a", body, Node)
    with pytest.raises(Conflict):
        await server.update(f"{NODES}/a", body, Node)
    current = server.read(f"{NODES}/a")
    current["spec"] = {"providerID": "z"}
    assert (await server.update(f"{NODES}/a", current, Node)).spec.provider_id == "z"


async def test_status_and_the_rest_are_written_apart(server):
    body = {"spec": {"providerID": "x"}, "status": {"addresses": [{"type": "Hostname", "address": "h"}]}}
    main = await server.patch(f"{NODES}/a", body, Node)
    assert (main.spec.provider_id, main.status.addresses) == ("x", ())
    body["spec"]["providerID"] = "y"
    status = await server.patch(f"{NODES}/a/status", body, Node)
    assert status.spec.provider_id == "x"
    assert status.status.addresses[0].address == "h"


async def test_identity_can_not_be_patched(server):
    uid = server.read(f"{NODES}/a")["metadata"]["uid"]
    with pytest.raises(Invalid, match="field is immutable"):
        await server.patch(f"{NODES}/a", {"metadata": {"uid": "other"}, "spec": {"providerID": "x"}}, Node)
    node = await server.patch(f"{NODES}/a", {"metadata": {"uid": uid, "name": "other"}}, Node)
    assert (node.metadata.uid, node.metadata.name, node.spec.provider_id) == (uid, "a", "")


async def test_finalizers_hold_deletion_back(server):
    server.put(SERVICES, Service(metadata=ObjectMeta(name="web", finalizers=("f",))))
    path = f"{SERVICES}/web"
    await server.delete(path)
    assert (await server.get(path, Service)).metadata.deletion_timestamp is not None
    await server.delete(path)
    await server.patch(path, {"metadata": {"finalizers": []}}, Service)
    with pytest.raises(NotFound):
        await server.get(path, Service)


async def test_list_is_of_one_moment(server):
    for number in range(5):
        server.put(NODES, {"metadata": {"name": f"n{number}"}})
    names = []
    async for page in server.list_pages(NODES, Node, limit=2):
        names += [node.metadata.name for node in page.items]
        server.put(NODES, {"metadata": {"name": f"late{len(names)}"}})
    assert names == ["a", "n0", "n1", "n2", "n3", "n4"]


async def test_list_that_takes_too_long_is_gone(server):
    server.put(NODES, {"metadata": {"name": "b"}})
    pages = server.list_pages(NODES, Node, limit=1)
    await anext(pages)
    server.put(NODES, {"metadata": {"name": "c"}})
    server.compact()
    with pytest.raises(Gone):
        await anext(pages)
