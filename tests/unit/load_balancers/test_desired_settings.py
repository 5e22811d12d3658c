from typing import Any, ClassVar

import pytest
from desired_cases import LARGE, LEADER, OTHER, OURS, balancer, observed, spec, timed
from msgspec import structs
from service_view import UID

from ccm.hetzner.api.models import (
    Algorithm,
    HealthCheck,
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    Protection,
    PublicAddress,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.desired.annotated_settings import (
    annotated_fields_label,
    annotated_label,
    choose_settings,
    labels_of_annotations,
    wanted_labels,
)
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.desired.listener_choice import foreign_ports
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import with_annotated_labels
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec

EVERYTHING = {
    "name": "shop",
    "algorithm-type": "least_connections",
    "disable-public-network": "true",
    "ipv4-rdns": "four.example.com",
    "ipv6-rdns": "six.example.com",
    "delete-protection": "true",
    "type": "lb21",
}
ALL = frozenset({"name", "algorithm", "public", "ipv4", "ipv6", "protection", "type"})
ANNOTATED, FIELD = f"{OURS}annotated", f"{OURS}annotated-"
NAMESPACE, CLUSTER, SERVICE = f"{OURS}namespace", f"{OURS}cluster", f"{OURS}service"
NONE: frozenset[str] = frozenset()
MADE = LoadBalancer(
    7,
    "shop",
    public_net=LoadBalancerPublicNet(
        False,
        PublicAddress("203.0.113.1", "four.example.com"),
        PublicAddress("2001:db8::1", "six.example.com"),
    ),
    load_balancer_type=LARGE,
    protection=Protection(True),
    algorithm=Algorithm("least_connections"),
    labels={LEADER: UID},
)


def settled(name: str, algorithm: str = "", *, protection: bool | None = None, **more: Any) -> DesiredState:
    settings: dict[str, object] = {"algorithm": algorithm} if algorithm else {}
    settings |= {} if protection is None else {"protection": protection}
    return DesiredState(name, {}, settings=settings, **more)


def settings_of(asked: LoadBalancerSpec, there: ObservedState, kept: frozenset[str]) -> DesiredState:
    return choose_settings(DesiredState("", {}), asked, there, kept)


class TestSettings:
    def test_of_a_new_one(self) -> None:
        asked = spec(EVERYTHING)
        assert settings_of(asked, observed(), NONE) == settled(
            "shop",
            "least_connections",
            public=False,
            rdns={"ipv4": "four.example.com", "ipv6": "six.example.com"},
            protection=True,
        )
        usual = spec()
        assert settings_of(usual, observed(), NONE) == settled(usual.name, "round_robin")

    def test_of_one_that_is_there(self) -> None:
        there = observed(balancer())
        assert settings_of(spec(), there, NONE) == settled("there")
        asked = {"name": "shop", "algorithm-type": "round_robin", "disable-public-network": "false"}
        assert settings_of(spec(asked), there, NONE) == settled("shop", "round_robin", public=True)

    def test_what_was_annotated_goes_back(self) -> None:
        there = observed(balancer({ANNOTATED: "-".join(ALL)}))
        usual = spec()
        back = settled(
            usual.name,
            "round_robin",
            public=True,
            rdns={"ipv4": None, "ipv6": None},
            protection=False,
            resets=ALL,
        )
        assert settings_of(usual, there, NONE) == back
        assert settings_of(usual, there, frozenset({"type"})).resets == ALL - {"type"}
        assert settings_of(spec(EVERYTHING), there, NONE).resets == NONE
        six = settings_of(spec({"ipv6-rdns": "six.example.com"}), there, NONE)
        assert six.rdns == {"ipv4": None, "ipv6": "six.example.com"}
        assert six.resets == ALL - {"ipv6"}

    def test_who_does_not_lead_has_no_say(self) -> None:
        there = observed(balancer({ANNOTATED: "-".join(ALL)}), is_owner=False)
        assert settings_of(spec(EVERYTHING), there, NONE) == settled("there")


class TestRemembered:
    def test_what_the_official_ccm_has_made_so_is_not(self) -> None:
        """As long as nothing else about its load balancer changes."""
        assert annotated_label(spec(EVERYTHING), observed(MADE), NONE) == ""
        for annotated in (
            balancer(),
            structs.replace(MADE, labels={LEADER: UID, NAMESPACE: "shop"}),
            structs.replace(MADE, labels={LEADER: UID, ANNOTATED: "-".join(ALL)}),
        ):
            assert annotated_label(spec(EVERYTHING), observed(annotated), NONE) == "-".join(sorted(ALL))
        named = structs.replace(MADE, labels={LEADER: UID, ANNOTATED: "name"})
        assert annotated_label(spec(EVERYTHING), observed(named), NONE) == "name"

    def test_what_can_not_go_back_yet_is_remembered(self) -> None:
        there = observed(balancer({ANNOTATED: "type-name"}))
        assert annotated_label(spec(), there, frozenset({"type"})) == "type"
        assert annotated_label(spec({"name": "shop"}), there, frozenset({"type"})) == "name-type"
        assert annotated_label(spec(), there, frozenset({"public"})) == ""


def fields(found: dict[str, str]) -> set[str]:
    assert set(found.values()) <= {""}
    return {key.removeprefix(FIELD) for key in found}


class TestRememberedFields:
    PORT: ClassVar = {
        "protocol": "http",
        "http-cookie-name": "MINE",
        "http-timeout-idle": "50",
        "health-check-retries": "5",
    }

    def test_of_a_new_one_that_are_no_defaults(self) -> None:
        assert fields(annotated_fields_label(spec(self.PORT), observed())) == {
            "cookie-name",
            "protocol",
            "retries",
        }
        assert annotated_fields_label(spec({}, 80, 81), observed()) == {}
        several = spec({"port.80.http-timeout-idle": "60", "port.81.uses-proxyprotocol": "true"}, 80, 81)
        assert fields(annotated_fields_label(several, observed())) == {"timeout-idle", "proxyprotocol"}

    def test_of_one_that_is_so_already(self) -> None:
        so = LoadBalancerService("tcp", 80, 30_080, proxyprotocol=True, health_check=HealthCheck(retries=5))
        asked = spec({"uses-proxyprotocol": "true", "health-check-retries": "5"})
        assert annotated_fields_label(asked, observed(balancer(services=(so,)))) == {}
        both = {"proxyprotocol", "retries"}
        ours = balancer({NAMESPACE: "shop"}, services=(so,))
        assert fields(annotated_fields_label(asked, observed(ours))) == both
        again = balancer({f"{FIELD}retries": ""}, services=(so,))
        assert fields(annotated_fields_label(asked, observed(again))) == {"retries"}
        assert fields(annotated_fields_label(asked, observed(balancer({}, 80)))) == both
        elsewhere = balancer(services=(LoadBalancerService("tcp", 81, 30_081, proxyprotocol=True),))
        assert fields(annotated_fields_label(asked, observed(elsewhere))) == both

    @pytest.mark.parametrize(
        ("annotations", "present", "with_ownership"),
        [
            ({"health-check-interval": "5"}, None, {"interval", "timeout"}),
            ({"health-check-interval": "10"}, None, {"interval"}),
            ({"health-check-interval": "5"}, timed(20, 4), {"interval"}),
            ({"health-check-interval": "5"}, timed(20, 6), {"interval", "timeout"}),
            ({"health-check-timeout": "12"}, timed(11, 4), {"interval", "timeout"}),
            ({"health-check-timeout": "12"}, timed(12, 4), {"timeout"}),
            ({"health-check-timeout": "12"}, None, {"timeout"}),
            ({"health-check-timeout": "4", "health-check-interval": "5"}, None, {"interval", "timeout"}),
            ({"health-check-retries": "5"}, timed(4, 9), {"retries"}),
            ({}, timed(4, 9), set()),
        ],
    )
    def test_remembered_times(
        self, annotations: dict[str, str], present: HealthCheck | None, with_ownership: set[str]
    ) -> None:
        there = LoadBalancerService("tcp", 80, 30_080, health_check=present) if present else None
        known = observed(balancer(services=(there,))) if there else observed()
        assert fields(annotated_fields_label(spec(annotations), known)) == with_ownership

    def test_a_time_that_gave_way_before_is_remembered_until_both_are_free(self) -> None:
        check = timed(5, 5)
        so = balancer(
            {f"{FIELD}interval": "", f"{FIELD}timeout": ""},
            services=(LoadBalancerService("tcp", 80, 1, health_check=check),),
        )
        assert fields(annotated_fields_label(spec({"health-check-interval": "5"}), observed(so))) == {
            "interval",
            "timeout",
        }
        assert fields(annotated_fields_label(spec({"health-check-retries": "5"}), observed(so))) == {
            "retries"
        }
        assert annotated_fields_label(spec(), observed(so)) == {}


def labels(
    asked: Any, there: LoadBalancer | None = None, *ports: int, kept: frozenset[str] = NONE, **more: Any
) -> dict[str, str]:
    known = observed(there, **more)
    return dict(wanted_labels(asked, known, ports, labels_of_annotations(asked, known, kept)))


class TestLabels:
    OURS: ClassVar = {LEADER: UID, NAMESPACE: "shop", SERVICE: "web", CLUSTER: "c1"}

    def test_of_a_new_one(self) -> None:
        assert labels(spec(), None, 80) == self.OURS
        assert labels(spec(), None, 80, cluster="") == {
            key: one for key, one in self.OURS.items() if key != CLUSTER
        }
        asked = spec({"name": "shop", "uses-proxyprotocol": "true", "labels": "team=us"})
        assert labels(asked, None, 80) == {
            **with_annotated_labels({}, {"team": "us"}),
            **self.OURS,
            ANNOTATED: "name",
            f"{FIELD}proxyprotocol": "",
        }

    def test_of_the_official_ccms_as_long_as_nothing_else_changes(self) -> None:
        assert labels(spec(), balancer({"team": "them"}), 80) == {LEADER: UID, "team": "them"}
        asked = spec({"labels": "stage=live"})
        assert labels(asked, balancer({"team": "them"})) == {
            **with_annotated_labels({}, {"stage": "live"}),
            **self.OURS,
            "team": "them",
        }

    def test_a_former_owner_is_not_named(self) -> None:
        for former in ({NAMESPACE: "blog", SERVICE: "first"}, {NAMESPACE: "shop"}):
            there = {LEADER: UID, CLUSTER: "c1", **former}
            assert labels(spec(), balancer(there), 80) == self.OURS
            assert labels(spec({"share": "edge"}), balancer(there), is_owner=False) == {
                **there,
                f"{OURS}share": "edge",
            }

    def test_what_is_annotated_no_more_goes(self) -> None:
        before = {
            **self.OURS,
            ANNOTATED: "name-type",
            f"{FIELD}interval": "",
            **with_annotated_labels({}, {"a": "b"}),
        }
        assert labels(spec(), balancer(before), 80) == self.OURS
        assert labels(spec(), balancer(before), 80, kept=frozenset({"type"})) == {
            **self.OURS,
            ANNOTATED: "type",
        }

    def test_who_does_not_lead_has_ports_alone(self) -> None:
        there = {
            **self.OURS,
            LEADER: OTHER,
            SERVICE: "first",
            ANNOTATED: "name",
            f"{OURS}share": "edge",
            f"{OURS}port-80": OTHER,
            f"{OURS}port-82": UID,
        }
        left = {key: one for key, one in there.items() if key != f"{OURS}port-82"}
        asked = spec({"share": "edge", "name": "shop", "labels": "a=b"}, 81)
        assert labels(asked, balancer(there), 81, is_owner=False) == {**left, f"{OURS}port-81": UID}
        assert labels(asked, balancer(there), is_owner=False, cluster="c2") == {**left, CLUSTER: "c2"}

    @pytest.mark.parametrize("annotations", [{"share": "edge"}, {"preserve-foreign": "true"}])
    def test_of_one_with_listeners_of_others(self, annotations: dict[str, str]) -> None:
        word = {f"{OURS}share": "edge"} if "share" in annotations else {}
        found = labels(spec({**annotations, "uses-proxyprotocol": "true"}, 80, 81), None, 80, 81)
        mark = {} if word else {f"{FIELD}proxyprotocol": ""}
        assert found == {**self.OURS, **word, **mark, f"{OURS}port-80": UID, f"{OURS}port-81": UID}
        none = labels(spec(annotations), None)
        assert none == {**self.OURS, **word, f"{OURS}port-0": UID}

    def test_after_sharing_once_listeners_stay_labelled(self) -> None:
        shared = balancer({**self.OURS, f"{OURS}share": "edge", f"{OURS}port-80": UID}, 80)
        asked = spec({"uses-proxyprotocol": "true"})
        assert labels(asked, shared, 80) == {**self.OURS, f"{OURS}share": "edge", f"{OURS}port-80": UID}
        others = balancer({**self.OURS, f"{OURS}port-80": UID, f"{OURS}port-81": OTHER}, 80)
        assert labels(spec(), others, 80) == {**self.OURS, f"{OURS}port-80": UID, f"{OURS}port-81": OTHER}
        mine = balancer({**self.OURS, f"{OURS}port-80": UID}, 80)
        assert labels(spec(), mine, 80) == self.OURS

    def test_an_adopted_one_remembers_that_it_is_not_ours(self) -> None:
        theirs = LoadBalancer(7, "theirs", labels={"team": "them"})
        assert labels(spec(), theirs, 80, adopting=True) == {
            **self.OURS,
            "team": "them",
            f"{OURS}adopted": "true",
        }
        given = LoadBalancer(7, "theirs", labels={NAMESPACE: "shop"})
        assert labels(spec(), given, 80, adopting=True) == {**self.OURS, f"{OURS}adopted": "by-label"}
        again = LoadBalancer(7, "theirs", labels={**self.OURS, f"{OURS}adopted": "true"})
        assert labels(spec(), again, 80, adopting=True) == again.labels


class TestForeignPorts:
    @staticmethod
    def found(asked: Any, there: LoadBalancer | None = None, **more: Any) -> dict[int, str]:
        return dict(foreign_ports(asked, observed(there, **more)))

    def test_where_none_are_to_be_expected(self) -> None:
        assert self.found(spec({"share": "edge"})) == {}
        assert self.found(spec(), balancer({}, 80, 81)) == {}

    def test_one_that_was_not_shared_until_now_is_the_services(self) -> None:
        share = spec({"share": "edge"})
        assert self.found(share, balancer({}, 80, 81)) == {}
        assert self.found(share, balancer({}, 80, 81), adopting=True) == dict.fromkeys(
            (80, 81), "someone else"
        )
        foreign = LoadBalancer(7, "theirs", services=balancer({}, 80).services)
        assert self.found(share, foreign) == {80: "someone else"}

    def test_whose_they_are(self) -> None:
        there = balancer(
            {f"{OURS}port-80": UID, f"{OURS}port-81": OTHER, f"{OURS}port-83": OTHER}, 80, 81, 82
        )
        others = {81: f"the Service with UID {OTHER}", 83: f"the Service with UID {OTHER}"}
        assert self.found(spec(), there) == {**others, 82: "someone else"}

    def test_a_redirect_takes_port_80_too(self) -> None:
        there = balancer(
            {f"{OURS}port-0": UID},
            services=(LoadBalancerService("https", 443, 30_443, http=ServiceHttp(redirect_http=True)),),
        )
        assert self.found(spec({"preserve-foreign": "true"}), there) == dict.fromkeys(
            (80, 443), "someone else"
        )

    def test_those_of_the_service_that_had_its_name_are_its_own(self) -> None:
        former = {LEADER: OTHER, NAMESPACE: "shop", SERVICE: "web", CLUSTER: "c1", f"{OURS}port-80": OTHER}
        there = balancer(former, 80, 81)
        assert self.found(spec({"preserve-foreign": "true"}), there) == {81: "someone else"}
        assert labels(spec({"preserve-foreign": "true"}), there, 80)[f"{OURS}port-80"] == UID


def test_labels_of_an_annotation_have_a_label_each() -> None:
    """What older versions wrote must be found again."""
    first = with_annotated_labels({"a": "b"}, {"team": "us"})
    assert first == {"a": "b", "team": "us", "ccm-from-scratch/label-ca8b22d0": ""}
    assert with_annotated_labels(first, {}) == {"a": "b"}
