import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugins.errors import ProviderError
from pulumi_plugins.kubernetes import objects, readiness
from pulumi_plugins.kubernetes.kinds import KINDS, replacing_paths
from pulumi_plugins.kubernetes.objects import CREATOR, taken_over, union
from pulumi_plugins.kubernetes.readiness import awaited as is_awaited
from pulumi_plugins.values import UNKNOWN, has_secret, has_unknown, plain, secret

leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


trees = st.recursive(leaves, containers, max_leaves=12)
bodies = st.dictionaries(st.text(min_size=1, max_size=5), trees, max_size=4)
marked = st.recursive(leaves, lambda inner: containers(inner) | inner.map(secret), max_leaves=12)


@given(marked)
def test_plain_values_have_no_secrets_and_stay_as_they_are(tree: object) -> None:
    assert not has_secret(plain(tree))
    assert plain(plain(tree)) == plain(tree)


@given(trees)
def test_a_secret_is_marked_once(tree: object) -> None:
    assert secret(secret(tree)) == secret(tree)
    assert plain(secret(tree)) == tree


def test_unknown_values_are_found_at_any_depth() -> None:
    assert has_unknown({"a": [secret({"b": UNKNOWN})]})
    assert not has_unknown({"a": ["x", None]})


def test_string_data_is_encoded_and_stays_secret() -> None:
    given_ = {"kind": "Secret", "data": {"a": "eA=="}, "stringData": secret({"b": "y"})}
    assert objects.with_secret_data(given_) == {"kind": "Secret", "data": secret({"a": "eA==", "b": "eQ=="})}
    unknown = {"kind": "Secret", "stringData": {"b": UNKNOWN}}
    assert objects.with_secret_data(unknown) == unknown
    config_map = {"kind": "ConfigMap", "stringData": {}}
    assert objects.with_secret_data(config_map) is config_map


def test_automatic_names_are_stable_and_annotated() -> None:
    first = objects.with_name("app", {}, {"metadata": {"labels": {"a": "b"}}}, b"seed")
    name = first["metadata"]["name"]
    assert re.fullmatch("app-.{8}", name)
    assert first["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert objects.with_name("app", first, {}, b"other")["metadata"]["name"] == name
    given = {"metadata": {"name": "mine"}}
    assert objects.with_name("app", given, {}, b"other")["metadata"]["name"] != "mine"
    explicit = {"metadata": {"name": "x"}}
    assert objects.with_name("app", {}, explicit, b"") is explicit


def test_namespaced_objects_get_a_namespace() -> None:
    assert objects.with_namespace({"metadata": {"name": "a"}}, "d")["metadata"]["namespace"] == "d"
    assert objects.with_namespace({"metadata": {"namespace": "n"}}, "d")["metadata"]["namespace"] == "n"
    assert KINDS["v1", "ConfigMap"].path("n", "a") == "/api/v1/namespaces/n/configmaps/a"
    api = "rbac.authorization.k8s.io/v1"
    assert KINDS[api, "ClusterRole"].path("n") == f"/apis/{api}/clusterroles"
    assert KINDS["networking.k8s.io/v1", "NetworkPolicy"].plural == "networkpolicies"
    assert KINDS["networking.k8s.io/v1", "Ingress"].plural == "ingresses"


@given(bodies, bodies)
def test_paths_of_changes_are_symmetric_and_empty_for_equal_objects(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert objects.changed_paths(old, old) == []
    assert bool(objects.changed_paths(old, new)) == any(old.get(key) != new.get(key) for key in {*old, *new})


@given(bodies, bodies)
def test_drift_never_invents_a_key(inputs: dict[str, Any], live: dict[str, Any]) -> None:
    assert set(objects.drifted(inputs, live)) <= set(inputs)
    assert plain(objects.drifted(inputs, inputs)) == plain(inputs)


def test_items_that_others_add_to_a_keyed_list_are_not_drift() -> None:
    ours = {"containers": [{"name": "c", "args": ["a"], "env": [{"name": "OURS", "value": "1"}]}]}
    env = [{"name": "FOO", "value": "bar"}, {"name": "OURS", "value": "1"}]
    theirs = {"containers": [{"name": "side"}, {"name": "c", "image": "i", "args": ["a"], "env": env}]}
    assert objects.drifted(ours, theirs) == ours
    env[1]["value"] = "2"
    assert objects.drifted(ours, theirs)["containers"][0]["env"] == [{"name": "OURS", "value": "2"}]
    del env[1]
    assert objects.drifted(ours, theirs)["containers"][0]["env"] == []
    subjects = [{"kind": "Group", "name": "g"}]
    ours = {"subjects": subjects}
    assert objects.drifted(ours, {"subjects": subjects * 2}) != ours


def test_drift_takes_live_values() -> None:
    inputs = {"spec": {"replicas": 3, "ports": [{"port": 80}], "empty": {}}, "data": secret({"a": "1"})}
    spec = {"replicas": 1, "ports": [{"port": 80, "protocol": "TCP"}], "more": 1}
    wanted = {"replicas": 1, "ports": [{"port": 80}], "empty": {}}
    found = objects.drifted(inputs, {"spec": spec, "data": {"a": "2", "b": "3"}})
    assert found == {"spec": wanted, "data": secret({"a": "2"})}


@pytest.mark.parametrize(
    ("kind", "old", "new", "replaces"),
    [
        ("ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data"]),
        ("ConfigMap", {"metadata": {"labels": {}}}, {"metadata": {"labels": {"a": "b"}}}, []),
        ("Deployment", {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}, []),
        ("Deployment", {"spec": {"selector": 1}}, {"spec": {"selector": 2}}, ["spec.selector"]),
        ("ClusterRoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}, ["roleRef"]),
        ("Anything", {"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, ["metadata.name"]),
    ],
)
def test_some_fields_need_a_new_object(kind: str, old: Any, new: Any, replaces: list[str]) -> None:
    assert objects.replaced_paths(old, new, replacing_paths(kind)) == replaces


def test_secret_outputs() -> None:
    shown = objects.outputs({"kind": "Secret", "data": {"a": "b"}}, {}, "m", "v1")
    assert shown["data"] == secret({"a": "b"})
    shown = objects.outputs({"kind": "X", "spec": {"a": "b"}}, {"spec": {"a": secret("b")}}, "m", "v1")
    assert shown["spec"] == secret({"a": "b"})
    assert has_secret(shown["__inputs"])


fields = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", "."]), inner, max_size=3),
    max_leaves=8,
)


@given(fields, fields, fields)
def test_ownership_adds_up(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    assert union(first, second) == union(second, first)
    assert union(union(first, second), third) == union(first, union(second, third))
    assert union(first, first) == first


def test_fields_of_our_post_move_to_the_applying_manager() -> None:
    posted = {"manager": CREATOR, "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}}}, "time": "2"}
    status = {"manager": CREATOR, "operation": "Update", "subresource": "status", "fieldsV1": {}}
    theirs = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:b": {}}}}
    applied = {"manager": "m", "operation": "Apply", "fieldsV1": {"f:data": {}}, "time": "1"}
    entries = taken_over([posted, status, theirs, applied], "m", "apps/v1")
    ours = {"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1"}
    ours |= {"fieldsV1": {"f:spec": {"f:a": {}}, "f:data": {}}, "time": "2"}
    assert entries == [status, theirs, ours]
    assert taken_over(entries, "m", "apps/v1") is None


def workload(kind: str, spec: Any = None, **status: Any) -> dict[str, Any]:
    status = {"observedGeneration": 2, **status}
    return {"kind": kind, "metadata": {"generation": 2}, "spec": spec or {}, "status": status}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (workload("Deployment", updatedReplicas=1, availableReplicas=1, replicas=1), None),
        (workload("Deployment", {"replicas": 2}, updatedReplicas=2, availableReplicas=1), "1 of 2 Pods"),
        (workload("Deployment", observedGeneration=1), "'s controller"),
        (workload("Deployment", updatedReplicas=1, availableReplicas=1, replicas=2), "1 of 1 Pods"),
        (workload("Deployment", {"replicas": 0}), None),
        (workload("DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=2, numberAvailable=2), None),
        (
            workload("DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=1, numberAvailable=2),
            "1 of",
        ),
        (workload("StatefulSet", updatedReplicas=1, availableReplicas=1, replicas=1), None),
        (workload("StatefulSet", updatedReplicas=0, availableReplicas=1, replicas=1), "0 of 1"),
        (workload("Service", {"type": "ClusterIP"}), None),
        (workload("Service", {"type": "LoadBalancer"}), "load balancer's address"),
        (workload("Service", {"type": "LoadBalancer"}, loadBalancer={"ingress": [{"ip": "x"}]}), None),
        (workload("Pod", phase="Pending"), "the Pod is not Ready"),
        (workload("Pod", conditions=[{"type": "Ready", "status": "True"}]), None),
        (workload("Job", conditions=[{"type": "Complete", "status": "True"}]), None),
        (workload("Job"), "the Job is not Complete"),
        (workload("ConfigMap"), None),
    ],
)
def test_readiness(found: Any, reason: str | None) -> None:
    actual = readiness.unready(found)
    assert actual is None if reason is None else reason in str(actual)


def test_failed_objects_raise() -> None:
    stuck = {"type": "Progressing", "reason": "ProgressDeadlineExceeded", "status": "False"}
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    for kind, status in (("Deployment", stuck), ("Job", failed)):
        with pytest.raises(ProviderError):
            readiness.unready(workload(kind, conditions=[status]))


def test_waiting_can_be_limited_and_skipped() -> None:
    found = workload("Deployment")
    assert is_awaited(found)
    assert readiness.timeout_of(found, None) == 600
    assert readiness.timeout_of(found, 5) == 5
    found["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true", "pulumi.com/timeoutSeconds": "30"}
    assert not is_awaited(found)
    assert readiness.timeout_of(found, None) == 30
    found["metadata"]["annotations"]["pulumi.com/timeoutSeconds"] = "soon"
    with pytest.raises(ProviderError, match="'soon' isn't a number of seconds"):
        readiness.timeout_of(found, None)
