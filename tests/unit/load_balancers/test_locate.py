"""Whose load balancer it is, as far as labels say; without a cloud."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from desired_cases import LEADER as LABEL
from service_view import UID, view

from ccm.cloud import ServicePort
from ccm.hetzner.api.models import Certificate, LoadBalancer, LoadBalancerService, ServiceHttp
from ccm.hetzner.load_balancers import ownership_labels as labels
from ccm.hetzner.load_balancers.observed.location import ClusterScope, locate, split_by_cluster
from ccm.hetzner.load_balancers.observed.observed_state import ObservedState
from ccm.hetzner.load_balancers.service_errors import NotOurLoadBalancer
from ccm.hetzner.load_balancers.spec.load_balancer_spec import read
from ccm.hetzner.settings import Tenants, environment

DEFAULTS = environment.read({"HCLOUD_TOKEN": "t" * 64}).load_balancers
OTHER = "99999999-8888-7777-6666-555555555555"
CLUSTER, NAMESPACE, SERVICE = (f"ccm-from-scratch/{what}" for what in ("cluster", "namespace", "service"))
SHARE = "ccm-from-scratch/share"
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
    spec = read(view(annotations=annotations), DEFAULTS, network=True)
    assert not spec.problems
    return locate(spec, labels.with_ownership(spec.service, everyone), scope)


def refused(everyone: Sequence[LoadBalancer], scope: ClusterScope = HERE, **annotations: str) -> str:
    with pytest.raises(NotOurLoadBalancer) as error:
        find(everyone, scope, **annotations)
    return str(error.value)


MINE = balancer(5, **{LABEL: UID})
THEIRS = balancer(6, "theirs")
ANOTHER_SERVICES = balancer(8, **{LABEL: OTHER})


def test_a_service_without_one_gets_a_new_one() -> None:
    assert find([]) == find([THEIRS]) == (None, True, False)


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


def test_two_of_its_own_are_both_named() -> None:
    message = refused([MINE, balancer(7, "second", **{LABEL: UID})])
    assert message == "2 load balancers are labelled as this Service's: lb5 (5), second (7); keep one"


def test_another_clusters_is_left_alone_whatever_it_says() -> None:
    theirs = balancer(5, **{LABEL: UID, CLUSTER: "c2"})
    assert refused([theirs]) == "load balancer 'lb5' (5) belongs to cluster 'c2', this is 'c1'"
    assert find([theirs], ClusterScope("")) == (5, True, False), "without an id, nothing can be told apart"
    nobodys = balancer(6, **{CLUSTER: "c2", NAMESPACE: "shop"})
    assert refused([nobodys], adopt="lb6") == "load balancer 'lb6' (6) belongs to cluster 'c2', this is 'c1'"


def test_a_name_that_is_taken_makes_nothing_ours() -> None:
    message = refused([ANOTHER_SERVICES, THEIRS], name="theirs")
    assert "a load balancer named 'theirs' exists" in message
    assert "6" not in message
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"shop"})))
    assert "/adopt: '6'" in refused([ANOTHER_SERVICES, THEIRS], allowed, name="theirs")
    assert find([THEIRS], name="free") == (None, True, False)


@pytest.mark.parametrize("word", ["6", "theirs"])
def test_one_is_adopted_by_id_or_name_where_the_operator_allows_it(word: str) -> None:
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"shop"})))
    assert find([ANOTHER_SERVICES, THEIRS], allowed, adopt=word) == (6, True, True)
    message = refused([ANOTHER_SERVICES, THEIRS], adopt=word)
    assert f"Services of namespace 'shop' may not adopt '{word}'" in message
    labelled = balancer(6, "theirs", **{NAMESPACE: "shop"})
    assert find([labelled], adopt=word) == (6, True, True), "its owner labelled it for the namespace"


def test_the_id_is_meant_where_another_one_has_it_for_a_name() -> None:
    """Each Service may choose the name of its load balancer."""
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"shop"})))
    namesake = balancer(4, "6", **{LABEL: OTHER})
    assert find([namesake, THEIRS], allowed, adopt="6") == (6, True, True)


def test_what_can_not_be_adopted() -> None:
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"*"})))
    assert "adopt: 'nothing' is neither id nor name" in refused([THEIRS], allowed, adopt="nothing")
    message = refused([ANOTHER_SERVICES], allowed, adopt="lb8")
    assert f"load balancer 'lb8' (8) belongs to the Service with UID {OTHER}; remove" in message


def test_what_it_has_wins_over_what_it_would_adopt_and_over_a_name() -> None:
    assert find([THEIRS, MINE], adopt="theirs") == (5, True, False)
    assert find([THEIRS, MINE], name="theirs") == (5, True, False)


def shared(number: int, **more: str) -> LoadBalancer:
    return balancer(number, **{SHARE: "edge", LABEL: OTHER, NAMESPACE: "shop", **more})


def test_a_shared_one_of_this_cluster_is_joined_and_not_led() -> None:
    ours = shared(9, **{CLUSTER: "c1"})
    assert find([ours], share="edge") == (9, False, False)
    assert find([ours], share="another") == (None, True, False)
    assert find([ours]) == (None, True, False)
    assert find([balancer(9, **{SHARE: "", CLUSTER: "c1"})]) == (None, True, False), "no word is no word"


def test_of_several_shared_ones_the_first_made_is_taken() -> None:
    two = [shared(12, **{CLUSTER: "c1"}), shared(11, **{CLUSTER: "c1"}), balancer(10, **{SHARE: "other"})]
    assert find(two, share="edge") == (11, False, False)


def test_a_shared_one_that_nobody_leads_is_led() -> None:
    alone = shared(9, **{CLUSTER: "c1", LABEL: ""})
    assert find([alone], share="edge") == (9, True, False)
    assert find([balancer(9, **{SHARE: "edge", CLUSTER: "c1"})], share="edge") == (9, True, False)
    led_by_its_former_self = shared(9, **{CLUSTER: "c1", SERVICE: "web"})
    assert find([led_by_its_former_self], share="edge") == (9, True, False)


def test_only_namespaces_that_may_share_are_together() -> None:
    strangers = shared(9, **{CLUSTER: "c1", NAMESPACE: "strange"})
    ours = shared(12, **{CLUSTER: "c1"})
    assert find([strangers], share="edge") == (None, True, False)
    assert find([strangers, ours], share="edge") == (12, False, False)
    both = ClusterScope("c1", Tenants(share=frozenset({"shop", "strange"})))
    assert find([strangers], both, share="edge") == (9, False, False)
    nobodys = balancer(9, **{SHARE: "edge", LABEL: OTHER, CLUSTER: "c1"})
    assert find([nobodys], share="edge") == (9, False, False), "no namespace is named"


def test_whoever_is_on_a_shared_one_stays() -> None:
    used = shared(9, **{CLUSTER: "c2", NAMESPACE: "strange", "ccm-from-scratch/port-80": UID})
    assert find([used], share="edge") == (9, False, False)


def test_a_shared_one_that_may_be_anybodys_is_not_joined() -> None:
    without_id = shared(9)
    message = refused([without_id], share="edge")
    assert message.startswith("load balancer 'lb9' (9) is shared as 'edge', and nothing tells whether by")
    assert "is shared as 'edge'" in refused([shared(9, **{CLUSTER: "c2"})], ClusterScope(""), share="edge")
    assert "lb9" in refused([without_id, shared(12)], share="edge"), "the first is named"
    assert find([shared(9, **{CLUSTER: "c2"})], share="edge") == (None, True, False), "certainly another's"
    ours = shared(12, **{CLUSTER: "c1"})
    assert find([without_id, ours], share="edge") == (12, False, False)


@pytest.mark.parametrize("more", [{}, {LABEL: "", "ccm-from-scratch/port-25": OTHER}])
def test_without_ids_a_service_of_this_cluster_tells_whose_it_is(more: dict[str, str]) -> None:
    here = ClusterScope("", served=[OTHER])
    is_owner = not more.get(LABEL, OTHER)
    assert find([shared(9, **more)], here, share="edge") == (9, is_owner, False)


def test_whoever_has_one_and_wants_to_share_moves_to_the_shared_one() -> None:
    observed = found([MINE, shared(9, **{CLUSTER: "c1"})], share="edge")
    assert (observed.balancer.id if observed.balancer else None, observed.is_owner) == (9, False)
    assert observed.others == (MINE,)
    assert find([MINE], share="edge") == (5, True, False)
    leading = balancer(5, **{LABEL: UID, SHARE: "edge", CLUSTER: "c1"})
    assert find([leading, shared(9, **{CLUSTER: "c1"})], share="edge") == (5, True, False)


def test_others_clusters_are_told_apart_for_a_release() -> None:
    theirs = balancer(6, **{LABEL: UID, CLUSTER: "c2"})
    ours, notices = split_by_cluster([MINE, theirs], "c1")
    assert ours == (MINE,)
    assert [notice.reason for notice in notices] == ["LoadBalancerReleased"]
    assert notices[0].message.startswith("load balancer lb6 (6) stays")
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
    def test_who_had_the_name_before_is_gone_if_it_was_of_this_cluster(
        self, changed: dict[str, str], expected: set[str]
    ) -> None:
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

    def test_settings_that_were_annotated(self) -> None:
        assert labels.Ownership().settings == labels.ownership_of(view(), MINE).settings == frozenset()
        with_ownership = balancer(1, **{"ccm-from-scratch/annotated": "ipv4-name-unheard"})
        assert labels.ownership_of(view(), with_ownership).settings == {"ipv4", "name", "unheard"}

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
    def test_only_certificates_that_we_requested_for_it_are_deleted(
        self, kind: str, ownership: dict[str, str], cluster: str, *, ours: bool
    ) -> None:
        certificate = Certificate(id=1, name="a", type=kind, labels=ownership)
        assert labels.may_delete(certificate, view(), cluster) is ours

    def test_certificates_that_it_serves_with(self) -> None:
        serving = LoadBalancer(
            1,
            "web",
            services=(
                LoadBalancerService("tcp", 25, 30025),
                LoadBalancerService("https", 443, 30443, http=ServiceHttp(certificates=(3, 4))),
            ),
        )
        assert serving.certificates == {3, 4}
        assert MINE.certificates == frozenset()


def test_what_labels_remember_of_annotations() -> None:
    remembered = {"annotated": "name-type-odd", "annotated-timeout-idle": "", "annotated-interval": ""}
    there = balancer(5, **{f"ccm-from-scratch/{key}": value for key, value in remembered.items()})
    ownership = labels.ownership_of(view(), there)
    assert (ownership.settings, ownership.fields) == ({"name", "type", "odd"}, {"timeout_idle", "interval"})


def test_a_service_that_none_could_serve_takes_nobodys_and_keeps_what_it_has() -> None:
    allowed = ClusterScope("c1", Tenants(adopt=frozenset({"shop"})))
    spec = read(
        view("web", ServicePort(53, 30_053, "UDP"), annotations={"adopt": "6"}), DEFAULTS, network=True
    )
    assert spec.is_unservable
    theirs, both = (
        labels.with_ownership(spec.service, [THEIRS]),
        labels.with_ownership(spec.service, [MINE, THEIRS]),
    )
    assert locate(spec, theirs, allowed) == ObservedState(spec.service)
    assert locate(spec, both, allowed).balancer == MINE
