import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import ServiceView
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers import ownership_labels as marks
from ccm.hetzner.load_balancers.ownership_labels import ports_by_label
from ccm.hetzner.load_balancers.plan.planner import labels_after
from ccm_pulumi.lib import ownership
from ccm_pulumi.lib.ownership import ADOPTED, CLUSTER, PORT, SERVICE_UID, Fate, Ownership, released_labels

CLUSTER_IS_SILENT = Ownership("blue", 7, frozenset())
NAMES = {"uid": SERVICE_UID, "cluster": CLUSTER, "adopted": ADOPTED, "port80": PORT + "80"}


def balancer(networks=(), listeners=(), **labels):
    return {
        "id": 1,
        "name": "lb",
        "labels": {NAMES[key]: value for key, value in labels.items()},
        "private_net": [{"network": network} for network in networks],
        "services": [{"listen_port": port} for port in listeners],
    }


def fate(load_balancer, *uids):
    return Ownership("blue", 7, frozenset(uids)).verdict(load_balancer).fate


@pytest.mark.parametrize(
    ("load_balancer", "uids", "expected"),
    [
        # the cluster named its Service
        (balancer(uid="u1"), ["u1"], Fate.DELETE),
        (balancer(uid="u1", cluster="blue", networks=[8]), ["u1"], Fate.DELETE),
        # the cluster is silent: it is marked, and in our network
        (balancer(uid="u9", cluster="blue", networks=[7]), [], Fate.DELETE),
        # one of the two is not enough
        (balancer(uid="u9", cluster="blue"), [], Fate.ASK),
        (balancer(uid="u9", networks=[7]), [], Fate.ASK),
        (balancer(uid="u9", networks=[7], adopted="true"), [], Fate.ASK),
        # another cluster of that name, in a network of its own
        (balancer(uid="u9", cluster="blue", networks=[8]), [], Fate.LEAVE),
        # another cluster's, even where it is restored from our backup or shares our network
        (balancer(uid="u1", cluster="green", networks=[7]), ["u1"], Fate.LEAVE),
        (balancer(uid="u9"), ["u1"], Fate.LEAVE),
        # a person's own, even in our network and with our label
        (balancer(cluster="blue", networks=[7]), [], Fate.LEAVE),
    ],
)
def test_whose_it_is(load_balancer, uids, expected):
    assert fate(load_balancer, *uids) is expected


@pytest.mark.parametrize(
    ("load_balancer", "expected"),
    [
        (balancer(uid="u9", networks=[7]), Fate.LEAVE),
        (balancer(uid="u9", networks=[7], adopted="true"), Fate.LEAVE),
        (balancer(uid="u9", cluster="blue", networks=[7]), Fate.DELETE),
        (balancer(uid="u1", networks=[7]), Fate.DELETE),
    ],
)
def test_in_a_network_that_stays_others_keep_theirs(load_balancer, expected):
    whose = Ownership("blue", 7, frozenset({"u1"}), network_stays=True)
    assert whose.verdict(load_balancer).fate is expected


@pytest.mark.parametrize("uids", [[], ["u1"]], ids=["silent", "asked"])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"adopted": "true"}, Fate.RELEASE),
        ({"adopted": "false"}, Fate.RELEASE),
        ({"listeners": [80]}, Fate.DELETE),
        ({"listeners": [80], "port80": "u1"}, Fate.DELETE),
        ({"listeners": [80, 25], "port80": "u1"}, Fate.RELEASE),
    ],
)
def test_what_was_adopted_or_serves_others_is_never_deleted(more, expected, uids):
    ours = balancer(uid="u1", cluster="blue", networks=[7], **more)
    assert fate(ours, *uids) is expected
    assert CLUSTER_IS_SILENT.verdict(ours).labels == {}


@pytest.mark.parametrize(
    ("found", "keep"),
    [
        (balancer(uid="u9", networks=[7]), "detach-from-network --network 7 1"),
        (balancer(uid="u9", cluster="blue"), "remove-label 1 ccm-from-scratch/cluster"),
    ],
)
def test_what_somebody_keeps_is_not_asked_about_again(found, keep):
    assert CLUSTER_IS_SILENT.verdict(found).keep == keep
    change = {"private_net": []} if keep.startswith("detach") else {"labels": {SERVICE_UID: "u9"}}
    assert CLUSTER_IS_SILENT.verdict({**found, **change}).fate is Fate.LEAVE


def test_what_another_cluster_uses_too_is_left_to_it():
    """Without a cluster's id, load balancers are shared by a word alone."""
    shared = balancer(uid="u1", port80="u2", networks=[7], listeners=[80])
    verdict = Ownership("blue", 7, frozenset({"u1"})).verdict(shared)
    assert verdict.fate is Fate.RELEASE
    assert verdict.labels == {SERVICE_UID: "u2", PORT + "80": "u2"}


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({}, True),
        ({"type": "uploaded"}, False),
        ({"used_by": [{"id": 3, "type": "load_balancer"}]}, False),
        ({"labels": {SERVICE_UID: "u1"}}, False),  # the official CCM's
        ({"labels": {SERVICE_UID: "u1", CLUSTER: "green"}}, False),
        ({"labels": {SERVICE_UID: "u2", CLUSTER: "blue"}}, False),
        ({"labels": {CLUSTER: "blue"}}, False),
    ],
)
def test_certificates_that_were_requested_for_our_services_go(more, goes):
    ours = {"type": "managed", "labels": {SERVICE_UID: "u1", CLUSTER: "blue"}, "used_by": []}
    assert CLUSTER_IS_SILENT.certificate_goes({**ours, **more}, {"u1"}) is goes


def test_labels_are_those_of_the_ccm():
    names = "SERVICE_UID OURS CLUSTER ADOPTED BY_LABEL NAMESPACE PORT DEFAULT_TYPE LABEL"
    for name in names.split():
        assert getattr(ownership, name) == getattr(marks, name), name


UIDS = st.sampled_from(["u1", "u2", "u3", "u4"])
ANNOTATED = marks.LABEL + hashlib.sha256(b"team").hexdigest()[:8]
LABELS = st.fixed_dictionaries(
    {},
    optional={
        SERVICE_UID: UIDS,
        **{PORT + port: UIDS for port in ("80", "443", "8443", "x", "123456")},
        CLUSTER: st.just("blue"),
        ADOPTED: st.sampled_from(["true", marks.BY_LABEL]),
        marks.NAMESPACE: st.just("shop"),
        marks.SERVICE: st.just("web"),
        marks.FORMER_UID: UIDS,
        "team": st.just("shop"),
        ANNOTATED: st.just(""),
        "of-a-person": st.just("yes"),
    },
)


@given(LABELS, st.permutations(["u1", "u2"]), st.integers(0, 2))
def test_a_release_leaves_what_the_ccm_would(labels, services, count):
    """As if it released one Service after the other, the one that leads last."""
    services = sorted(services[:count], key=lambda uid: uid == labels.get(SERVICE_UID))
    left = labels
    for uid in services:
        service = ServiceView("shop", "web", uid, {}, ())
        there = LoadBalancer(id=1, name="lb", labels=left)
        left = labels_after(service, left, ports_by_label(there))
    assert released_labels(labels, services) == left


BALANCERS = st.builds(
    lambda labels, networks, listeners: {
        "id": 1,
        "labels": labels,
        "private_net": [{"network": network} for network in networks],
        "services": [{"listen_port": port} for port in listeners],
    },
    st.builds(
        lambda labels, cluster: {**labels, **cluster}, LABELS, st.sampled_from([{}, {CLUSTER: "green"}])
    ),
    st.lists(st.sampled_from([7, 8]), max_size=1),
    st.sets(st.sampled_from([25, 80, 443])),
)


@given(BALANCERS, st.frozensets(UIDS))
def test_nothing_is_deleted_or_changed_on_one_sign_alone(found, uids):
    labels = found["labels"]
    whose = Ownership("blue", 7, uids)
    verdict = whose.verdict(found)
    leader = labels.get(SERVICE_UID) or labels.get(ownership.FORMER_UID)
    users = {leader, *ownership.port_owners(labels).values()}
    named = users & uids
    marked_here = labels.get(CLUSTER) == "blue" and found["private_net"] == [{"network": 7}]
    if verdict.fate in (Fate.DELETE, Fate.RELEASE):
        assert leader
        assert labels.get(CLUSTER, "blue") == "blue"
        assert named or marked_here
        assert verdict.services <= users
        # what is done once is not found again
        rest = {**found, "labels": dict(verdict.labels)}
        assert not whose.verdict(rest).services & verdict.services
    if verdict.fate is Fate.DELETE:
        assert ADOPTED not in labels
        ports = ownership.port_owners(labels)
        assert not ports or {item["listen_port"] for item in found["services"]} <= ports.keys()
        assert users <= verdict.services
