from typing import Any

import pytest
from service_view import UID, view

from ccm.cloud import Orphan
from ccm.hetzner.api.models import (
    Certificate,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerTarget,
    Protection,
    TargetServer,
)
from ccm.hetzner.load_balancers.ownership_labels import (
    orphans_among,
    ownership_of,
    ports_by_label,
    with_annotated_labels,
)
from ccm.hetzner.load_balancers.plan.planner import Released, labels_after, release
from ccm.hetzner.load_balancers.plan.steps import Key
from ccm.hetzner.load_balancers.targets import Target

OURS = "ccm-from-scratch/"
LEADS = {"hcloud-ccm/service-uid": UID, f"{OURS}namespace": "shop", f"{OURS}service": "web", "team": "us"}
OTHER, THIRD = "99999999-2222-3333-4444-555555555555", "88888888-2222-3333-4444-555555555555"
SERVICE = view()
TARGET = LoadBalancerTarget("server", server=TargetServer(1))


def balancer(labels: dict[str, str], *ports: int, **more: Any) -> LoadBalancer:
    services = tuple(LoadBalancerService("tcp", port, 30_000 + port) for port in ports)
    return LoadBalancer(7, "shop", labels=labels, services=services, targets=(TARGET,), **more)


def leave(there: LoadBalancer) -> Released | None:
    return release(SERVICE, there, ownership_of(SERVICE, there), "c1")


def planned(released: Released) -> list[tuple[Key, set[Key]]]:
    return [(change.key, set(change.needs)) for change in released.changes]


@pytest.mark.parametrize(
    "more", [{}, {f"{OURS}port-80": UID, f"{OURS}port-443": UID}], ids=["alone", "ports"]
)
@pytest.mark.parametrize(
    "known", [LEADS, {"hcloud-ccm/service-uid": UID, "team": "us"}], ids=["ours", "official"]
)
def test_a_protected_one_stays_as_an_empty_orphan(known: dict[str, str], more: dict[str, str]) -> None:
    """Its node ports are anybody's by now."""
    there = balancer({**known, **more}, 80, 443, protection=Protection(True))
    released = leave(there)
    assert not released.deletes
    for change in released.changes:
        there = change.effect(there)
    assert (there.services, there.targets) == ((), ())
    gone = {("delete_service", 80), ("delete_service", 443), ("remove_target", Target(1))}
    assert (released.changes[-1].key, set(released.changes[-1].needs)) == (("update", "labels"), gone)
    origin = {f"{OURS}namespace": "shop", f"{OURS}cluster": "c1", f"{OURS}former-service-uid": UID}
    names = {key: value for key, value in known.items() if key == f"{OURS}service"}
    assert there.labels == {**origin, **names, "team": "us"}
    [notice] = released.notices
    assert (notice.reason, notice.warning) == ("LoadBalancerProtected", True)
    [orphan] = orphans_among([there], [], {UID}, "c1")
    assert (orphan.namespace, orphan.uid) == ("shop", UID)
    assert leave(there) is None, "no Service owns it now"


def test_an_adopted_one_is_as_it_was() -> None:
    released = leave(balancer({**LEADS, f"{OURS}adopted": "true"}, 80, 443))
    assert not released.deletes
    gone = [("delete_service", 80), ("delete_service", 443), ("remove_target", Target(1))]
    assert planned(released) == [*((key, set()) for key in gone), (("update", "labels"), set(gone))]
    assert released.changes[-1].body == {"labels": {"team": "us"}}
    [notice] = released.notices
    assert (notice.reason, notice.warning) == ("LoadBalancerReleased", False)
    assert notice.message == (
        "load balancer shop (7) is not deleted, because the load balancer was not created for this Service"
    )


def test_one_that_others_listen_on_stays_for_them() -> None:
    labels = {**LEADS, f"{OURS}port-80": UID}
    released = leave(balancer(labels, 80, 443))
    assert not released.deletes
    assert planned(released) == [
        (("delete_service", 80), set()),
        (("update", "labels"), {("delete_service", 80)}),
    ]
    assert released.changes[-1].body == {"labels": {"team": "us"}}
    [notice] = released.notices
    assert notice.message == (
        "load balancer shop (7) is not deleted, because other Services use the load balancer"
    )
    assert leave(balancer(labels, 80)).deletes


def test_the_next_one_leads() -> None:
    labels = {**LEADS, f"{OURS}port-80": UID, f"{OURS}port-81": OTHER, f"{OURS}port-82": THIRD}
    released = leave(balancer(labels, 80, 81, 82))
    assert (released.deletes, released.notices) == (False, ())
    assert planned(released)[0] == (("delete_service", 80), set())
    [*_, last] = released.changes
    left = {key: value for key, value in labels.items() if key not in {f"{OURS}port-80", f"{OURS}service"}}
    assert last.body == {"labels": {**left, "hcloud-ccm/service-uid": THIRD}}


def test_one_that_does_not_lead_takes_its_ports_alone() -> None:
    labels = {**LEADS, "hcloud-ccm/service-uid": OTHER, f"{OURS}port-80": UID, f"{OURS}port-81": OTHER}
    released = leave(balancer(labels, 80, 81))
    assert (released.deletes, released.notices) == (False, ())
    assert planned(released) == [
        (("delete_service", 80), set()),
        (("update", "labels"), {("delete_service", 80)}),
    ]
    left = {key: value for key, value in labels.items() if key != f"{OURS}port-80"}
    assert released.changes[-1].body == {"labels": left}


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({}, {"team": "us"}),
        ({f"{OURS}adopted": "true"}, {"team": "us"}),
        ({f"{OURS}adopted": "by-label"}, {"team": "us", f"{OURS}namespace": "shop"}),
        (
            {f"{OURS}annotated": "name", f"{OURS}annotated-interval": "", f"{OURS}share": "edge"},
            {"team": "us"},
        ),
        (with_annotated_labels({}, {"stage": "live"}), {"team": "us"}),
        ({f"{OURS}port-0": UID}, {"team": "us"}),
        (
            {f"{OURS}adopted": "by-label", f"{OURS}former-service-uid": OTHER, f"{OURS}share": "edge"},
            {
                "team": "us",
                f"{OURS}namespace": "shop",
                f"{OURS}service": "web",
                f"{OURS}former-service-uid": OTHER,
            },
        ),
    ],
)
def test_labels_of_other_people_stay(more: dict[str, str], left: dict[str, str]) -> None:
    there = balancer({**LEADS, **more})
    assert labels_after(SERVICE, there.labels, ports_by_label(there)) == left


UNNAMED = {"hcloud-ccm/service-uid": OTHER, f"{OURS}namespace": "shop"}
NAMED = {**UNNAMED, f"{OURS}service": "api"}
IN_C1 = {f"{OURS}cluster": "c1"}
BALANCER, CERTIFICATE = "load balancer shop (7)", "certificate cert (3)"
DOUBT = ", whose cluster is unknown because CCM_CLUSTER_ID is not set,"


@pytest.mark.parametrize(
    ("labels", "cluster", "of_balancer", "of_certificate"),
    [
        (
            NAMED,
            "",
            [Orphan("shop", "api", OTHER, BALANCER + DOUBT)],
            [Orphan("shop", "api", OTHER, CERTIFICATE + DOUBT)],
        ),
        (
            UNNAMED | IN_C1,
            "c1",
            [Orphan("shop", "", OTHER, BALANCER)],
            [Orphan("shop", "", OTHER, CERTIFICATE)],
        ),
        (NAMED | IN_C1, "", [], []),
        (NAMED | IN_C1, "c2", [], []),
        (NAMED, "c1", [], []),
        ({**NAMED, "hcloud-ccm/service-uid": UID}, "", [], []),
        ({"hcloud-ccm/service-uid": OTHER}, "", [], []),
        ({"hcloud-ccm/service-uid": OTHER} | IN_C1, "c1", [], [Orphan("", "", OTHER, CERTIFICATE)]),
        ({f"{OURS}namespace": "shop"}, "", [], []),
        (
            {f"{OURS}namespace": "shop", f"{OURS}former-service-uid": OTHER},
            "",
            [Orphan("shop", "", OTHER, BALANCER + DOUBT)],
            [],
        ),
        (
            {f"{OURS}namespace": "shop", f"{OURS}port-443": THIRD, f"{OURS}port-80": UID} | IN_C1,
            "c1",
            [Orphan("shop", "", THIRD, f"port 443 of {BALANCER}")],
            [],
        ),
        (
            {**NAMED, f"{OURS}port-443": THIRD, f"{OURS}port-80": OTHER} | IN_C1,
            "c1",
            [Orphan("shop", "api", OTHER, BALANCER), Orphan("shop", "", THIRD, f"port 443 of {BALANCER}")],
            [Orphan("shop", "api", OTHER, CERTIFICATE)],
        ),
    ],
)
def test_orphans(
    labels: dict[str, str], cluster: str, of_balancer: list[Orphan], of_certificate: list[Orphan]
) -> None:
    skipped, there = LoadBalancer(6, "first"), balancer(labels)
    assert list(orphans_among([skipped, there], [], {UID}, cluster)) == of_balancer
    certificates = [Certificate(2, "first"), Certificate(3, "cert", labels=labels)]
    assert list(orphans_among([], certificates, {UID}, cluster)) == of_certificate
