from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_cluster import SHOP, running, service

from ccm.controllers import nodes as neutral
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.nodes import trim_node
from ccm.controllers.service.policy import MAX_PORTS, relevant
from ccm.controllers.service.syncer import view_of
from ccm.controllers.service.transform import service_transform, trim_service
from ccm.hetzner.load_balancers.desired.listener_choice import wanted_listeners
from ccm.hetzner.load_balancers.service_annotations import (
    MAX_ANNOTATIONS_LENGTH,
    PREFIX,
    SHARE,
    SOURCE_RANGES,
    annotations_to_keep,
)
from ccm.hetzner.load_balancers.spec.load_balancer_spec import read
from ccm.hetzner.settings import environment
from ccm.kube.objects import Node, Service, decode_object
from ccm.testing.fake_cloud import FakeCloud

LIMIT = 256 * 1024  # TotalAnnotationSizeLimitB of k8s.io/apimachinery
DEFAULTS = environment.read({"HCLOUD_TOKEN": "t" * 64}).load_balancers
APPLIED = {neutral.LAST_APPLIED: "x" * LIMIT}

texts = st.builds(
    lambda text, times: text * times, st.text(max_size=5), st.sampled_from([1, 9, 4000, 60_000])
)
names = st.sampled_from(
    [PREFIX + "name", PREFIX + "type", SHARE, PREFIX + "port.80.protocol", PREFIX + "helth", SOURCE_RANGES]
) | st.text("abc./", min_size=1, max_size=60)
found_annotations = st.dictionaries(names, texts, max_size=8)


def size(item: object) -> int:
    """Bytes of something as JSON."""
    return len(msgspec.json.encode(item))


def a_service(**parts: Any) -> Service:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30_000}], **parts.pop("spec", {})}
    metadata = {"namespace": "shop", "name": "web", "uid": "u", **parts.pop("metadata", {})}
    return decode_object({"metadata": metadata, "spec": spec, **parts}, Service)


def largest() -> Service:
    """Everything that a tenant may write, and more of it than fits into one object."""
    return a_service(
        metadata={
            "annotations": {PREFIX + f"{number:05}": "x" * 30 for number in range(4000)} | APPLIED,
            "labels": {f"label-{number}": "x" * 60 for number in range(20_000)},
            "finalizers": [CLEANUP_FINALIZER, *(f"a.example.com/{number}" for number in range(20_000))],
        },
        spec={
            "ports": [
                {"port": number, "nodePort": 30_000, "name": f"p{number}", "appProtocol": "x" * 300}
                for number in range(1, 20_000)
            ],
            "externalIPs": ["198.51.100.1"] * 20_000,
            "loadBalancerSourceRanges": ["198.51.100.0/24"] * 20_000,
            "loadBalancerIP": "1" * 1_000_000,
        },
    )


@pytest.mark.parametrize("choose", [annotations_to_keep, neutral.trim_annotations])
def test_nothing_that_a_tenant_writes_makes_it_large(choose) -> None:
    found = trim_service(largest(), choose)
    assert size(found) < MAX_ANNOTATIONS_LENGTH * 1.3 + MAX_PORTS * 200
    assert len(found.spec.ports) == MAX_PORTS
    assert found.metadata.finalizers == (CLEANUP_FINALIZER,)


def test_without_a_load_balancer_next_to_nothing_is_kept() -> None:
    item = largest()
    spec = msgspec.structs.replace(item.spec, type="ClusterIP")
    metadata = msgspec.structs.replace(item.metadata, finalizers=())
    found = trim_service(msgspec.structs.replace(item, spec=spec, metadata=metadata), annotations_to_keep)
    assert size(found) < 200
    assert (found.spec.type, found.metadata.key, found.metadata.uid) == ("ClusterIP", "shop/web", "u")


@given(found_annotations)
def test_what_is_kept_is_kept_again(annotations: dict[str, str]) -> None:
    item = a_service(metadata={"annotations": annotations})
    for choose in (annotations_to_keep, neutral.trim_annotations):
        once = trim_service(item, choose)
        again = trim_service(once, choose)
        assert again == once
        assert relevant(again) == relevant(once)


@given(found_annotations)
def test_the_cloud_answers_as_if_all_had_been_kept(annotations: dict[str, str]) -> None:
    whole = view_of(a_service(metadata={"annotations": annotations}))
    less = view_of(trim_service(a_service(metadata={"annotations": annotations}), annotations_to_keep))
    before, after = (read(view, DEFAULTS, network=True) for view in (whole, less))
    assert after == before
    assert (after.problems, after.warnings) == (before.problems, before.warnings)
    assert after.unsupported == before.unsupported
    ports = before.service.ports
    assert wanted_listeners(ports, after.ports, {}) == wanted_listeners(ports, before.ports, {})


@given(found_annotations)
def test_a_cloud_that_says_nothing_gets_all_that_fit(annotations: dict[str, str]) -> None:
    found = neutral.trim_annotations(annotations | APPLIED)
    assert found.items() <= annotations.items()
    length = sum(len(name) + len(text) for name, text in annotations.items())
    assert (dict(found) == annotations) == (length <= neutral.MAX_ANNOTATIONS_LENGTH)
    assert sum(len(name) + len(text) for name, text in found.items()) <= neutral.MAX_ANNOTATIONS_LENGTH


def test_short_ones_of_kubectl_go_too_and_long_ones_of_anybody() -> None:
    mine = {"mine": "x"}
    assert neutral.trim_annotations(mine | {neutral.LAST_APPLIED: "{}"}) == mine
    assert neutral.trim_annotations(mine | {"example.com/long": "x" * LIMIT}) == mine


def test_unread_fields_of_a_node_are_not_kept() -> None:
    images = [{"names": ["x" * 1000], "sizeBytes": 1}] * 1000
    body = {
        "metadata": {
            "name": "n",
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.0.1",
                "big": "x" * LIMIT,
                **APPLIED,
            },
            "managedFields": [{"manager": "x" * 1000}] * 1000,
        },
        "status": {"images": images, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    }
    found = trim_node(decode_object(body, Node))
    assert size(found) < 300
    assert found.metadata.annotations == {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1"}


async def test_what_was_not_kept_stays_in_the_cluster() -> None:
    """Patches name what is ours; what was left out of memory must not be left out of the object."""
    mine: Mapping[str, str] = {PREFIX + "name": "x" * LIMIT, "example.com/mine": "y", **APPLIED}
    others = [f"a.example.com/{number}" for number in range(1000)]
    body = service(
        "web", metadata={"annotations": dict(mine), "finalizers": others, "labels": {"app": "web"}}
    )
    async with running() as cluster:
        cluster.transport.put(SHOP, body)
        await cluster.settle()
        held = cluster.services.get("shop/web")
        assert held is not None
        assert size(held) < neutral.MAX_ANNOTATIONS_LENGTH
        assert cluster.ingress("web")
        there = cluster.read("web")["metadata"]
        assert (there["annotations"], there["labels"]) == (mine, {"app": "web"})
        assert there["finalizers"] == [*others, CLEANUP_FINALIZER]
        await cluster.change("web", lambda item: item["spec"].update(type="ClusterIP"))
        there = cluster.read("web")["metadata"]
        assert (there["annotations"], there["finalizers"]) == (mine, others)
        assert not cluster.ingress("web")


async def test_changes_of_unread_fields_cause_no_work() -> None:
    async with running() as cluster:
        await cluster.put("web")
        before = (cluster.patches(), len(cluster.calls()))

        def touch(item: dict[str, Any]) -> None:
            item["metadata"].setdefault("annotations", {}).update(APPLIED)
            item["metadata"]["labels"] = {"app": "other"}

        await cluster.change("web", touch)
        assert (cluster.patches(), len(cluster.calls())) == before


def test_a_cloud_without_load_balancers_or_a_rule_uses_the_default_rule() -> None:
    item = a_service(metadata={"annotations": {"mine": "x", **APPLIED}})
    for balancers in (None, FakeCloud.complete().load_balancers):
        assert service_transform(balancers)(item).metadata.annotations == {"mine": "x"}
