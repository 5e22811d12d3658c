from dataclasses import replace

import pytest
from balancer_site import UID, BalancerSite, number, targets, view
from hypothesis import given
from hypothesis import strategies as st
from test_certificates import upload

from ccm.cloud import Address, CloudError, NodeView, ServiceView
from ccm.errors import ConfigurationError
from ccm.hetzner.settings import EVERY, Tenants, environment

OTHER = "99999999-8888-7777-6666-555555555555"
ANEW = "77777777-2222-3333-4444-555555555555"
NAMESPACE = "ccm-from-scratch/namespace"


def stranger(name: str = "them", *ports: int, **annotations: str) -> ServiceView:
    """A Service of another namespace."""
    return replace(view(name, *(ports or (443,)), uid=OTHER, annotations=annotations), namespace="evil")


class TestShare:
    async def test_the_next_owner_needs_permission_to_share(self, site: BalancerSite) -> None:
        await site.restart(CCM_SHARE_NAMESPACES="shop, evil")
        await site.ensure(view(annotations={"share": "edge"}))
        await site.ensure(stranger(share="edge"))
        await site.balancers.delete(view())
        assert (await site.one())["labels"][NAMESPACE] == "shop"  # nobody is asked about no namespace
        await site.ensure(stranger(share="edge"))
        await site.restart()
        await site.ensure(view("other", 80, uid=ANEW, annotations={"share": "edge"}))
        first, second = await site.all()
        assert [one["listen_port"] for one in first["services"]] == [443]
        assert (first["labels"][NAMESPACE], second["labels"][NAMESPACE]) == ("evil", "shop")

    async def test_without_an_id_it_never_crosses_clusters(self, site: BalancerSite) -> None:
        await site.restart(CCM_CLUSTER_ID="")
        await site.ensure(view(annotations={"share": "edge"}))
        before = await site.one()
        await site.restart(CCM_CLUSTER_ID="")  # as another cluster's CCM, which knows none of these Services
        guest = view("guest", 443, uid=OTHER, annotations={"share": "edge"})
        with pytest.raises(CloudError, match="may belong to another cluster"):
            await site.ensure(guest)
        assert await site.one() == before
        await site.ensure(view(annotations={"share": "edge"}))
        await site.ensure(guest)  # now it is known whose it is
        assert [one["listen_port"] for one in (await site.one())["services"]] == [80, 443]


names = st.sampled_from(["shop", "evil", "other"])


@given(names, names, st.frozensets(names))
def test_sharing_is_mutual_and_needs_both(one: str, other: str, allowed: frozenset[str]) -> None:
    tenants = Tenants(share=allowed)
    assert tenants.may_share(one, other) is tenants.may_share(other, one)
    assert tenants.may_share(one, other) is (one == other or {one, other} <= allowed)
    assert Tenants(share=frozenset({EVERY})).may_share(one, other)


async def test_an_operator_keeps_certificates_without_labels_from_tenants(site: BalancerSite) -> None:
    await upload(site, "plain")
    service = view("web", 443, annotations={"protocol": "https", "http-certificates": "plain"})
    await site.restart(CCM_UNLABELLED_CERTIFICATE_NAMESPACES="other")
    with pytest.raises(CloudError):
        await site.ensure(service)
    assert [one["listen_port"] for one in (await site.one())["services"]] == []
    await site.restart(CCM_UNLABELLED_CERTIFICATE_NAMESPACES="shop")
    await site.ensure(service)
    await site.restart(CCM_UNLABELLED_CERTIFICATE_NAMESPACES="-")
    assert (await site.ensure(service)).steps == (), "what serves with it goes on"


async def test_who_may_not_adopt_does_not_learn_what_others_have(site: BalancerSite) -> None:
    await site.ensure(view(name="secret", annotations={"name": "secret"}))
    made = await site.one()

    async def said(**annotations: str) -> str:
        service = replace(view("them", 443, uid=OTHER, annotations=annotations), namespace="evil")
        with pytest.raises(CloudError) as error:
            await site.ensure(service)
        return str(error.value)

    there, absent = str(made["id"]), str(made["id"] + 1)
    assert (await said(adopt=there)).replace(there, "") == (await said(adopt=absent)).replace(absent, "")
    other = await said(adopt="absent")
    assert (await said(adopt="secret")).replace("secret", "absent") == other
    taken = await said(name="secret")
    assert there not in taken
    assert UID not in taken


def test_names_of_namespaces_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="CCM_SHARE_NAMESPACES: 'No' isn't allowed"):
        environment.read({"HCLOUD_TOKEN": "t" * 64, "CCM_SHARE_NAMESPACES": "shop,No"})


async def test_a_node_may_not_point_at_any_server_of_the_project(site: BalancerSite) -> None:
    """Provider ID and addresses are what a kubelet writes."""
    [real] = await site.add_nodes("n1")
    await site.add_nodes("vpn", "Mixed", "labeled")
    vpn, mixed, labeled = site.nodes[1:]
    await site.sky.call("PUT", f"/servers/{number(labeled)}", {"labels": {"ccm-from-scratch/node": "other"}})
    nodes = [
        real,
        NodeView("invented", vpn.provider_id),
        NodeView("mixed", mixed.provider_id),
        labeled,
        NodeView("other", labeled.provider_id),
    ]
    service = view()
    result = await site.ensure(service, nodes)
    balancer = await site.one()
    assert set(targets(balancer)) == {number(real), number(mixed), number(labeled)}
    [message] = [notice.message for notice in result.notices if notice.reason == "ServerOfAnotherNode"]
    assert message.endswith(": invented, labeled")
    await site.act(balancer["id"], "add_target", type="server", server={"id": number(vpn)})
    await site.restart()
    await site.ensure(service, nodes)
    assert number(vpn) in targets(await site.one()), "what is a target already stays one"
    await site.ensure(service, [real])
    assert set(targets(await site.one())) == {number(real)}
    await site.restart(CCM_NODE_NAME_CHECK="false")
    await site.ensure(service, nodes)
    assert number(vpn) in targets(await site.one())


async def test_with_foreign_targets_an_invented_node_has_none_of_them_taken_away(site: BalancerSite) -> None:
    [real] = await site.add_nodes("n1")
    [vpn] = await site.add_nodes("vpn")
    service = view(annotations={"preserve-foreign": "true", "node-selector": "pool=web"})
    selected = NodeView("n1", real.provider_id, labels={"pool": "web"})
    await site.ensure(service, [selected])
    balancer = await site.one()
    await site.act(balancer["id"], "add_target", type="server", server={"id": number(vpn)})
    await site.restart()
    await site.ensure(service, [selected, NodeView("invented", vpn.provider_id)])
    assert set(targets(await site.one())) == {number(real), number(vpn)}


async def test_a_dedicated_servers_node_may_not_say_a_cloud_servers_address(site: BalancerSite) -> None:
    await site.restart(ROBOT_ENABLED="true", HCLOUD_NETWORK_ROUTES_ENABLED="false")
    [real] = await site.add_nodes("n1")
    [vpn] = await site.add_nodes("vpn")
    server = (await site.sky.call("GET", f"/servers/{number(vpn)}"))["server"]
    for kind, address, private in (
        ("InternalIP", server["private_net"][0]["ip"], True),
        ("ExternalIP", server["public_net"]["ipv4"]["ip"], False),
    ):
        await site.ensure(
            view(annotations={"use-private-ip": str(private).lower()}),
            [real, NodeView("robot", "hrobot://7", addresses=(Address(kind, address),))],
        )
        assert [one["type"] for one in (await site.one())["targets"]] == ["server"]
