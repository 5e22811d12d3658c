from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import Instance
from ccm.controllers.label_changes import copied_labels, followed, labels_for, promoted_labels
from ccm.controllers.names import LABEL_PAIRS, RESERVED_LABEL


def machine(**labels: str) -> Instance:
    return Instance("fake://1", "a", type="cpx22", zone="fsn1", region="eu-central", labels=labels)


def test_type_zone_and_region_stand_under_both_names() -> None:
    assert labels_for(machine(), {}).set == {
        "node.kubernetes.io/instance-type": "cpx22",
        "beta.kubernetes.io/instance-type": "cpx22",
        "topology.kubernetes.io/zone": "fsn1",
        "failure-domain.beta.kubernetes.io/zone": "fsn1",
        "topology.kubernetes.io/region": "eu-central",
        "failure-domain.beta.kubernetes.io/region": "eu-central",
    }


def test_topology_overwrites_and_what_is_right_is_not_set_again() -> None:
    present = dict(labels_for(machine(), {}).set) | {"topology.kubernetes.io/zone": "elsewhere"}
    assert labels_for(machine(), present).set == {"topology.kubernetes.io/zone": "fsn1"}


def test_what_the_cloud_leaves_empty_gets_no_label() -> None:
    assert labels_for(Instance("fake://1", "a"), {}).set == {}


@pytest.mark.parametrize(
    ("key", "taken"),
    [("kubernetes.io/x", False), ("k8s.io/x", False), ("a.kubernetes.io/x", False), ("a.k8s.io/x", False),
     ("app.k8snio/bar", True), ("k8snio/bar", True), ("mykubernetes.io/x", True), ("example.com/x", True)],
)  # fmt: skip
def test_labels_of_kubernetes_domains_are_refused(key: str, taken: bool) -> None:
    changes = labels_for(machine(**{key: "v"}), {})
    assert (key in changes.set) is taken
    assert changes.skipped == ({} if taken else {key: "the prefix of this label is reserved for Kubernetes"})


def test_a_copied_label_follows_the_cloud_and_one_that_was_changed_by_hand_does_not() -> None:
    present = {"team": "blue"}
    copied = copied_labels(machine(team="blue"), present)
    assert labels_for(machine(team="red"), present, copied).set["team"] == "red"
    by_hand = {"team": "mine"}
    changes = labels_for(machine(team="red"), by_hand, copied)
    assert "team" not in changes.set
    assert "team" in changes.skipped
    assert "team" not in labels_for(machine(team="red"), present).set, "its owner is unknown"


def test_a_copied_label_that_was_taken_away_by_hand_comes_back() -> None:
    changes = labels_for(machine(team="red"), {}, {"team": "blue"})
    assert changes.set["team"] == "red"
    assert changes.skipped == {}


def test_after_the_initialization_only_the_followed_labels_are_kept_true() -> None:
    whole = replace(machine(provided="cloud", team="blue"), followed_labels=frozenset({"provided", "absent"}))
    assert followed(whole) == replace(whole, type="", zone="", region="", labels={"provided": "cloud"})


@pytest.mark.parametrize(("old", "new"), LABEL_PAIRS)
def test_the_older_name_is_the_truth_for_the_newer_one(old: str, new: str) -> None:
    assert promoted_labels({old: "a"}) == {new: "a"}
    assert promoted_labels({old: "a", new: "b"}) == {new: "a"}
    assert promoted_labels({old: "a", new: "a"}) == {}
    assert promoted_labels({new: "b"}) == {}


keys = st.sampled_from(["team", "kubernetes.io/x", "a.b/c", *(key for pair in LABEL_PAIRS for key in pair)])


@given(cloud=st.dictionaries(keys, st.text(max_size=3)), present=st.dictionaries(keys, st.text(max_size=3)))
def test_setting_labels_settles_and_keeps_others(cloud: dict[str, str], present: dict[str, str]) -> None:
    topology = {key for pair in LABEL_PAIRS for key in pair}
    after = present | dict(labels_for(machine(**cloud), present).set)
    assert labels_for(machine(**cloud), after).set == {}
    for key, value in present.items():
        assert key in topology or after[key] == value
    assert all(key in present or key in topology for key in after if RESERVED_LABEL.search(key))
