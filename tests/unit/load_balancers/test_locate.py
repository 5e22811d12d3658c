from collections.abc import Sequence

import pytest
from desired_cases import LEADER as LABEL
from desired_cases import NO_DEFAULTS
from service_view import UID, view

from ccm.cloud import ServicePort
from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers import ownership_labels as labels
from ccm.hetzner.load_balancers.observed.observed_state import ObservedState
from ccm.hetzner.load_balancers.observed.ownership import (
    ClusterScope,
    NotOurLoadBalancer,
    locate,
    split_by_cluster,
)
from ccm.hetzner.load_balancers.spec.load_balancer_spec import read
from ccm.hetzner.settings import Tenants

OTHER = "99999999-8888-7777-6666-555555555555"
CLUSTER, NAMESPACE, SERVICE = (f"ccm-from-scratch/{what}" for what in ("cluster", "namespace", "service"))
SHARE, PORT = "ccm-from-scratch/share", "ccm-from-scratch/port-"
HERE = ClusterScope("c1")


def balancer(number: int, name: str = "", **labels_: str) -> LoadBalancer:
    return LoadBalancer(number, name or f"lb{number}", labels=labels_)


def find(
    everyone: Sequence[LoadBalancer], scope: ClusterScope = HERE, **annotations: str
) -> tuple[int | None, bool, bool]:
    """The load balancer's id, whether the Service leads there, and whether it becomes ours now."""
    observed = found(everyone, scope, **annotations)
    return observed.balancer.id if observed.balancer else None, observed.is_owner, observed.adopting


def found(everyone: Sequence[LoadBalancer], scope: ClusterScope = HERE, **annotations: str) -> ObservedState:
    spec = read(view(annotations=annotations), NO_DEFAULTS, network=True)
    assert not spec.problems
    return locate(spec, labels.with_ownership(spec.service, everyone), scope)


def refused(everyone: Sequence[LoadBalancer], scope: ClusterScope = HERE, **annotations: str) -> str:
    with pytest.raises(NotOurLoadBalancer) as error:
        find(everyone, scope, **annotations)
    said = str(error.value)
    [notice] = error.value.notices
    assert (notice.reason, notice.message) == ("LoadBalancerNotOurs", said)
    return said


MINE = balancer(5, **{LABEL: UID})
THEIRS = balancer(6, "theirs")
ANOTHER_SERVICES = balancer(8, **{LABEL: OTHER})


def shared(number: int, **more: str) -> LoadBalancer:
    return balancer(number, **{SHARE: "edge", LABEL: OTHER, NAMESPACE: "shop", **more})


TWICE = (
    "2 load balancers have the label of this Service: lb5 (5), second (7). Remove the label from all but one"
)
NEW, OWN, OURS = (None, True, False), (5, True, False), {CLUSTER: "c1"}
MAY_ADOPT, EDGE = ClusterScope("c1", Tenants(adopt=frozenset({"shop"}))), {"share": "edge"}
MAY_SHARE = ClusterScope("c1", Tenants(share=frozenset({"shop", "strange"})))
STRANGE = {**OURS, NAMESPACE: "strange"}


@pytest.mark.parametrize(
    ("everyone", "scope", "annotations", "place"),
    [
        ([], HERE, {}, NEW),
        ([THEIRS], HERE, {}, NEW),
        ([THEIRS], HERE, {"name": "free"}, NEW),
        # Without an ID, clusters can't be distinguished.
        ([balancer(5, **{LABEL: UID, CLUSTER: "c2"})], ClusterScope(""), {}, OWN),
        # Adoption is by ID or name, where the operator or a label allows it. The ID wins.
        ([ANOTHER_SERVICES, THEIRS], MAY_ADOPT, {"adopt": "6"}, (6, True, True)),
        ([ANOTHER_SERVICES, THEIRS], MAY_ADOPT, {"adopt": "theirs"}, (6, True, True)),
        ([balancer(6, "theirs", **{NAMESPACE: "shop"})], HERE, {"adopt": "theirs"}, (6, True, True)),
        ([balancer(4, "6", **{LABEL: OTHER}), THEIRS], MAY_ADOPT, {"adopt": "6"}, (6, True, True)),
        # What it has wins over what it would adopt, and over a name.
        ([THEIRS, MINE], HERE, {"adopt": "theirs"}, OWN),
        ([THEIRS, MINE], HERE, {"name": "theirs"}, OWN),
        # A shared one of this cluster is joined, not led; of several, the first made.
        ([shared(9, **OURS)], HERE, EDGE, (9, False, False)),
        ([shared(9, **OURS)], HERE, {"share": "another"}, NEW),
        ([shared(9, **OURS)], HERE, {}, NEW),
        ([balancer(9, **{SHARE: "", **OURS})], HERE, {}, NEW),
        ([shared(12, **OURS), shared(11, **OURS)], HERE, EDGE, (11, False, False)),
        # One without an owner, or of a former Service of the same name, is led.
        ([shared(9, **{**OURS, LABEL: ""})], HERE, EDGE, (9, True, False)),
        ([balancer(9, **{SHARE: "edge", **OURS})], HERE, EDGE, (9, True, False)),
        ([shared(9, **{**OURS, SERVICE: "web"})], HERE, EDGE, (9, True, False)),
        # Only namespaces that may share are together; one that is there stays.
        ([shared(9, **STRANGE)], HERE, EDGE, NEW),
        ([shared(9, **STRANGE), shared(12, **OURS)], HERE, EDGE, (12, False, False)),
        ([shared(9, **STRANGE)], MAY_SHARE, EDGE, (9, False, False)),
        ([balancer(9, **{SHARE: "edge", LABEL: OTHER, **OURS})], HERE, EDGE, (9, False, False)),
        ([shared(9, **{**STRANGE, CLUSTER: "c2", f"{PORT}80": UID})], HERE, EDGE, (9, False, False)),
        # Another cluster's is never joined. Without IDs, a Service of this cluster decides.
        ([shared(9, **{CLUSTER: "c2"})], HERE, EDGE, NEW),
        ([shared(9), shared(12, **OURS)], HERE, EDGE, (12, False, False)),
        ([shared(9)], ClusterScope("", served=[OTHER]), EDGE, (9, False, False)),
        (
            [shared(9, **{LABEL: "", f"{PORT}25": OTHER})],
            ClusterScope("", served=[OTHER]),
            EDGE,
            (9, True, False),
        ),
        # One that has no ID because there was none when it was made stays its Services'.
        ([shared(9, **{f"{PORT}80": UID})], HERE, EDGE, (9, False, False)),
        ([balancer(5, **{LABEL: UID, SHARE: "edge"})], HERE, EDGE, OWN),
        # A Service that has one keeps it until there is a shared one, unless it leads that.
        ([MINE], HERE, EDGE, OWN),
        ([balancer(5, **{LABEL: UID, SHARE: "edge", **OURS}), shared(9, **OURS)], HERE, EDGE, OWN),
    ],
)
def test_the_place_of_a_service(
    everyone: list[LoadBalancer],
    scope: ClusterScope,
    annotations: dict[str, str],
    place: tuple[int | None, bool, bool],
) -> None:
    assert find(everyone, scope, **annotations) == place


@pytest.mark.parametrize(
    ("everyone", "scope", "annotations", "text"),
    [
        ([MINE, balancer(7, "second", **{LABEL: UID})], HERE, {}, TWICE),
        (
            [balancer(5, **{LABEL: UID, CLUSTER: "c2"})],
            HERE,
            {},
            "'lb5' (5) belongs to cluster 'c2', but this is cluster 'c1'",
        ),
        (
            [balancer(6, **{CLUSTER: "c2", NAMESPACE: "shop"})],
            HERE,
            {"adopt": "lb6"},
            "'lb6' (6) belongs to cluster 'c2'",
        ),
        ([ANOTHER_SERVICES, THEIRS], MAY_ADOPT, {"name": "theirs"}, "/adopt: '6'"),
        ([ANOTHER_SERVICES, THEIRS], HERE, {"adopt": "theirs"}, "'shop' aren't allowed to adopt 'theirs'"),
        ([ANOTHER_SERVICES, THEIRS], HERE, {"adopt": "6"}, "'shop' aren't allowed to adopt '6'"),
        ([THEIRS], MAY_ADOPT, {"adopt": "nothing"}, "adopt: 'nothing' isn't the ID or name"),
        (
            [ANOTHER_SERVICES],
            MAY_ADOPT,
            {"adopt": "lb8"},
            f"belongs to the Service with UID {OTHER}",
        ),
        (
            [shared(9), shared(12)],
            HERE,
            EDGE,
            "'lb9' (9) has the share name 'edge', but may belong to another cluster",
        ),
        ([shared(9, **{CLUSTER: "c2"})], ClusterScope(""), EDGE, "has the share name 'edge'"),
    ],
)
def test_what_is_refused(
    everyone: list[LoadBalancer], scope: ClusterScope, annotations: dict[str, str], text: str
) -> None:
    assert text in refused(everyone, scope, **annotations)


def test_who_may_not_adopt_does_not_learn_an_id() -> None:
    message = refused([ANOTHER_SERVICES, THEIRS], name="theirs")
    assert "a load balancer named 'theirs' exists" in message
    assert "6" not in message


def test_its_own_is_found_by_its_uid() -> None:
    observed = found([THEIRS, MINE], ClusterScope("c1", Tenants(adopt=frozenset({"shop"}))))
    assert (observed.balancer, observed.is_owner, observed.adopting) == (MINE, True, False)
    assert (observed.service.uid, observed.cluster, observed.others) == (UID, "c1", ())
    assert observed.tenants == Tenants(adopt=frozenset({"shop"}))
    assert (
        observed.ownership
        == labels.ownership_of(observed.service, MINE)
        != found([]).ownership
        == labels.Ownership()
    )


def test_a_service_that_has_one_moves_to_the_shared_one() -> None:
    observed = found([MINE, shared(9, **OURS)], share="edge")
    assert (observed.balancer.id if observed.balancer else None, observed.is_owner) == (9, False)
    assert observed.others == (MINE,)


def test_clusters_are_distinguished_for_a_release() -> None:
    theirs = balancer(6, **{LABEL: UID, CLUSTER: "c2"})
    ours, notices = split_by_cluster([MINE, theirs], "c1")
    assert ours == (MINE,)
    assert [notice.reason for notice in notices] == ["LoadBalancerReleased"]
    assert notices[0].message.startswith("load balancer lb6 (6) is not deleted")
    assert split_by_cluster([MINE, theirs], "") == ((MINE, theirs), [])


class TestLabels:
    def test_ports_are_numbers_and_whole_labels(self) -> None:
        with_ownership = balancer(
            1,
            **{
                "ccm-from-scratch/port-80": UID,
                "ccm-from-scratch/port-443": OTHER,
                "ccm-from-scratch/port-x": UID,
                "ccm-from-scratch/port-123456": UID,
                "example.com/ccm-from-scratch/port-81": UID,
            },
        )
        assert labels.ports_by_label(with_ownership) == {80: UID, 443: OTHER}
        assert labels.is_own_port("ccm-from-scratch/port-80", UID, frozenset({UID}))
        assert not labels.is_own_port("ccm-from-scratch/port-80", OTHER, frozenset({UID}))
        assert not labels.is_own_port("ccm-from-scratch/label-a", UID, frozenset({UID}))

    def test_a_service_is_placed_where_it_leads_or_has_a_port(self) -> None:
        port = balancer(2, **{"ccm-from-scratch/port-80": UID})
        assert labels.used_by(view(), [MINE, port, ANOTHER_SERVICES, THEIRS]) == [MINE, port]

    @pytest.mark.parametrize(
        ("changed", "expected"),
        [
            ({}, {UID, OTHER}),
            ({NAMESPACE: "other"}, {UID}),
            ({SERVICE: "other"}, {UID}),
            ({CLUSTER: ""}, {UID}),
            ({LABEL: ""}, {UID}),
        ],
    )
    def test_a_former_service_of_the_name(self, changed: dict[str, str], expected: set[str]) -> None:
        former = {LABEL: OTHER, CLUSTER: "c1", NAMESPACE: "shop", SERVICE: "web"}
        assert labels.own_uids(view("web"), balancer(1, **{**former, **changed})) == expected
        for missing in former:
            less = {key: value for key, value in former.items() if key != missing}
            assert labels.own_uids(view("web"), balancer(1, **less)) == {UID}

    def test_another_cluster(self) -> None:
        assert labels.is_of_other_cluster(balancer(1, **{CLUSTER: "c2"}), "c1")
        assert not labels.is_of_other_cluster(balancer(1, **{CLUSTER: "c2"}), "")
        for ours in ({CLUSTER: "c1"}, {CLUSTER: ""}, {}):
            assert not labels.is_of_other_cluster(balancer(1, **ours), "c1")

    def test_ours_is_what_is_to_be_made_or_has_our_label(self) -> None:
        assert labels.ownership_of(view(), None).ours
        assert labels.ownership_of(view(), balancer(1, **{NAMESPACE: "shop"})).ours
        assert not labels.ownership_of(view(), MINE).ours, "as the official CCM leaves it"

    @pytest.mark.parametrize(
        ("kind", "ownership", "cluster", "ours"),
        [
            ("managed", {LABEL: UID, NAMESPACE: "shop"}, "c1", True),
            ("managed", {LABEL: UID, CLUSTER: "c1"}, "c1", True),
            ("managed", {LABEL: UID, NAMESPACE: "shop", CLUSTER: "c2"}, "c1", False),
            ("managed", {LABEL: UID, NAMESPACE: "shop", CLUSTER: "c2"}, "", True),
            ("managed", {LABEL: UID}, "c1", False),
            ("managed", {LABEL: OTHER, NAMESPACE: "shop"}, "c1", False),
            ("managed", {NAMESPACE: "shop"}, "c1", False),
            ("uploaded", {LABEL: UID, NAMESPACE: "shop"}, "c1", False),
        ],
    )
    def test_which_certificates_are_deleted(
        self, kind: str, ownership: dict[str, str], cluster: str, *, ours: bool
    ) -> None:
        certificate = Certificate(id=1, name="a", type=kind, labels=ownership)
        assert labels.may_delete(certificate, view(), cluster) is ours


def test_what_was_annotated_before_counts_where_there_is_a_load_balancer() -> None:
    spec, former = read(view(), NO_DEFAULTS, network=True), (frozenset({"name"}), frozenset({"interval"}))
    there = locate(spec, labels.with_ownership(spec.service, [MINE]), HERE, former)
    assert (there.former, there.ownership.settings, there.ownership.fields) == (former, *former)
    assert there.after(MINE) == there
    none = locate(spec, [], HERE, former)
    assert (none.former, none.ownership) == ((frozenset(), frozenset()), labels.Ownership())


def test_an_impossible_service_takes_none_and_keeps_its_own() -> None:
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"shop"})))
    spec = read(
        view("web", ServicePort(53, 30_053, "UDP"), annotations={"adopt": "6"}), NO_DEFAULTS, network=True
    )
    assert spec.is_unservable
    theirs, both = (
        labels.with_ownership(spec.service, [THEIRS]),
        labels.with_ownership(spec.service, [MINE, THEIRS]),
    )
    assert locate(spec, theirs, allowed) == ObservedState(spec.service)
    assert locate(spec, both, allowed).balancer == MINE
