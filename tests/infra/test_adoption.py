from types import SimpleNamespace

import pulumi
import pytest

from ccm_pulumi.config.labels import CLUSTER, MANAGED_BY, STACK
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.preflight import adoption


@pytest.fixture(autouse=True)
def answers(monkeypatch):
    """What the engine answers, one after the other; the last one for ever."""
    given: list[Exception | dict] = []

    def invoke(_name, _arguments):
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(value=answer)

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    monkeypatch.setattr(adoption, "_WAITS", (0, 0))
    for name in ("organization", "project", "stack"):
        monkeypatch.setattr(pulumi, f"get_{name}", lambda name=name: name)
    return given


def test_a_state_that_is_half_written_is_read_again(answers):
    urn = "urn:pulumi:s::p::a$hcloud:index/server:Server::control"
    answers += [Exception("failed to load checkpoint: EOF"), {"outputs": {urn: {"outputs": {"id": "1"}}}}]
    assert adoption.read_state() == {("hcloud:index/server:Server", "control"): {"id": "1"}}


def test_a_state_that_can_not_be_read_is_an_error(answers):
    answers.append(Exception("EOF"))
    with pytest.raises(InfraError, match=r"organization/project/stack.*EOF"):
        adoption.read_state()


PLACE = "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork"


@pytest.mark.parametrize(
    ("kind", "props", "imported"),
    [
        ("hcloud:index/networkSubnet:NetworkSubnet", {"ip_range": "10.0.0.0/24"}, "7-10.0.0.0/24"),
        ("hcloud:index/networkSubnet:NetworkSubnet", {"ip_range": "10.9.0.0/24"}, None),
        ("hcloud:index/networkRoute:NetworkRoute", {"destination": "0.0.0.0/0"}, "7-0.0.0.0/0"),
        ("hcloud:index/networkRoute:NetworkRoute", {"destination": "10.1.0.0/16"}, None),
        ("hcloud:index/loadBalancerService:LoadBalancerService", {"listen_port": 6443}, "9__6443"),
        ("hcloud:index/loadBalancerService:LoadBalancerService", {"listen_port": 443}, None),
        (PLACE, {}, InfraError),
    ],
)
def test_a_part_that_the_state_lacks_is_imported_once(kind, props, imported):
    place = {"network": 7, "ip": "10.0.0.3"}
    objects = {
        "networks": [
            {
                "id": 7,
                "name": "n",
                "subnets": [{"ip_range": "10.0.0.0/24"}],
                "routes": [{"destination": "0.0.0.0/0", "gateway": "10.0.0.2"}],
            }
        ],
        "load_balancers": [
            {"id": 9, "name": "api", "services": [{"listen_port": 6443}], "private_net": [place]}
        ],
        "ssh_keys": [{"name": "k", "public_key": "ssh-ed25519 A"}],
    }
    labels = dict.fromkeys((CLUSTER, MANAGED_BY, STACK), "c")
    state = {(f"{adoption.DYNAMIC}KeyPair", "key"): {"public_key": "ssh-ed25519 A\n"}}
    answer = {"meta": {"pagination": {"next_page": None}}}
    adopted = adoption.Adoption(labels, lambda path, _=None: {**objects, **answer}, state)
    said: list[str] = []
    transform = adoption.importing(adopted.import_id, said.append)

    def imports(**options):
        options = pulumi.ResourceOptions(**options)
        result = transform(SimpleNamespace(type_=kind, name="n", props=props, opts=options))
        return result and result.opts.import_

    if imported is InfraError:
        with pytest.raises(InfraError, match=r"api \(9\).*detach-from-network api --network 7"):
            imports()
        objects["load_balancers"][0]["private_net"].clear()
        imported = None
    assert imports() == imported
    assert len(said) == bool(imported)
    assert imports(import_="8") is None
