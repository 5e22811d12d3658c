import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from infra_settings import configured, problems_of, read_settings

from ccm_pulumi.config.firewall_rules import EVERYBODY, MAX_RULES, MAX_SOURCES, Rule
from ccm_pulumi.config.labels import is_label
from ccm_pulumi.config.pools import EFFECTS, KEYS, MAX_NAME_LENGTH, Pool, parse_pools, taint_parts
from ccm_pulumi.config.server_spec import GROUP_SIZE, group_of
from ccm_pulumi.lib.errors import ConfigurationError

KEY = "ccm-from-scratch:pools"
SERVER = "hcloud:index/server:Server"
FIREWALL = "hcloud:index/firewall:Firewall"
HTTPS = {"protocol": "tcp", "port": 443, "sources": "any"}
DB = {"name": "db", "count": 2, "serverType": "cpx32", "location": "nbg1", "image": "debian-12"}


def pooled(defaults, pools, **more):
    return configured(defaults, pools=json.dumps(pools), **more)


def wrong_with(defaults, pools, **more):
    return {
        key.removeprefix("pools"): allowed
        for key, allowed in problems_of(pooled(defaults, pools, **more)).items()
    }


def test_without_pools_there_is_the_one_that_the_number_means(defaults):
    settings = read_settings({**defaults, "ccm-from-scratch:workerCount": "3"})
    (pool,) = settings.worker_pools
    assert pool == Pool("worker", 3, "cpx22", "fsn1", "ubuntu-24.04", max_unavailable=1, public_ipv4=True)
    assert [server.role for server in settings.servers] == ["control", "worker-1", "worker-2", "worker-3"]


def test_what_the_command_line_made_of_a_labels_value_or_a_snapshots_id_is_a_text_again(defaults):
    given_labels = {"gpu": True, "spot": False, "rack": 7, "disk": "fast"}
    (pool,) = read_settings(pooled(defaults, [{**DB, "labels": given_labels, "image": 4711}])).worker_pools
    assert pool.labels == {"gpu": "true", "spot": "false", "rack": "7", "disk": "fast"}
    assert pool.image == "4711"


def test_what_a_pool_does_not_say_is_as_for_the_stack(defaults):
    labels, taints = {"disk": "fast"}, ["dedicated=db:NoSchedule", "slow:PreferNoSchedule"]
    special = {**DB, "labels": labels, "taints": taints, "placementGroup": False, "maxUnavailable": "4"}
    settings = read_settings(pooled(defaults, [special, {"name": "web", "count": "1"}], workerCount="7"))
    db, web = settings.worker_pools
    common = {"public_ipv4": True}
    assert db == Pool(
        "db", 2, "cpx32", "nbg1", "debian-12", labels, tuple(taints), False, max_unavailable=4, **common
    )
    assert web == Pool("web", 1, "cpx22", "fsn1", "ubuntu-24.04", max_unavailable=1, **common)
    assert settings.workers == 3


def test_bounds_are_checked_despite_other_errors_and_each_key_is_reported_once(defaults):
    wrong = {"name": "a", "min": 3, "max": 2, "count": 1, "taints": "x", "fallbacks": 7, "firewall": "any"}
    said = wrong_with(defaults, [wrong], cloudProviderName="hcloud")
    assert {*said} == {f"[0].{key}" for key in ("min", "count", "taints", "fallbacks", "firewall")}
    with pytest.raises(ConfigurationError) as caught:
        read_settings(pooled(defaults, [wrong], cloudProviderName="hcloud"))
    assert len(caught.value.problems) == len(said)


def test_a_pools_rules_are_read(defaults):
    several = {"protocol": "udp", "port": "8000-8100", "sources": ["198.51.100.7", "2001:db8::/48"]}
    (pool,) = read_settings(pooled(defaults, [{**DB, "firewall": [HTTPS, several]}])).worker_pools
    assert pool.firewall == (
        Rule("tcp", "443", EVERYBODY),
        Rule("udp", "8000-8100", ("198.51.100.7/32", "2001:db8::/48")),
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("any", "give a list of rules, such as"),
        (["tcp"], "[0]: 'tcp': give a rule, such as"),
        ([HTTPS, {**HTTPS, "protocol": "icmp"}], "[1]: protocol 'icmp': choose one of tcp, udp"),
        ([{**HTTPS, "ports": "1"}], "[0]: there is no key ports; the keys are protocol, port, sources"),
        ([{**HTTPS, "port": 0}], "port 0: give a port from 1 to 65535"),
        ([{**HTTPS, "port": True}], "port True"),
        ([{**HTTPS, "port": "9-8"}], "port '9-8'"),
        ([{**HTTPS, "port": "1-65536"}], "port '1-65536'"),
        ([{"protocol": "tcp", "port": "1"}], "sources None: give an address"),
        ([{**HTTPS, "sources": []}], "sources []"),
        ([{**HTTPS, "sources": "10.0.0.1/8"}], "sources '10.0.0.1/8'"),
        ([HTTPS] * (MAX_RULES + 1), "at most 50 rules"),
        (
            [{**HTTPS, "sources": [f"10.0.0.{at}" for at in range(MAX_SOURCES)]}] * 5 + [HTTPS],
            "at most 500 ranges in total",
        ),
    ],
)
def test_a_wrong_rule_is_reported(defaults, rules, message):
    assert message in wrong_with(defaults, [{**DB, "firewall": rules}])["[0].firewall"]


def test_only_the_pool_that_names_rules_has_a_second_firewall(declared_with):
    pools = [{**DB, "firewall": [HTTPS]}, {"name": "web", "count": 1}]
    registered = declared_with(pools=json.dumps(pools))
    of_all, of_pool = sorted((i for i in registered if i.type == FIREWALL), key=lambda item: item.name)
    assert (of_all.inputs["name"], of_pool.inputs["name"]) == ("ccm-from-scratch", "ccm-from-scratch-db")
    (rule,) = of_pool.inputs["rules"]
    opened = (rule["direction"], rule["protocol"], rule["port"], rule["sourceIps"])
    assert opened == ("in", "tcp", "443", ["0.0.0.0/0", "::/0"])
    numbers = {item.name: len(item.inputs["firewallIds"]) for item in registered if item.type == SERVER}
    assert numbers == {"control": 1, "db-1": 2, "db-2": 2, "web-1": 1}


def test_all_that_is_wrong_is_named_at_once(defaults):
    found = wrong_with(
        defaults,
        [
            {
                "name": "a",
                "count": -1,
                "serverTyp": "cpx22",
                "labels": {"a b": "c", "x": 1.5},
                "taints": ["x"],
            },
            {"name": "a", "count": True, "placementGroup": "perhaps", "location": "a b", "image": True},
            {
                "name": "control",
                "taints": ["a:NoExecute", "a=b:NoExecute", "node.kubernetes.io/x:NoSchedule"],
            },
            "db",
            {"name": "Db", "count": 1, "labels": {"node-role.kubernetes.io/db": "true"}},
        ],
        workerCuont="1",
    )
    assert set(found) == {
        *(f"[0].{key}" for key in ("count", "serverTyp", "labels", "taints")),
        *(f"[1].{key}" for key in ("name", "count", "placementGroup", "location", "image")),
        *(f"[2].{key}" for key in ("name", "count", "taints")),
        "[3]",
        *(f"[4].{key}" for key in ("name", "labels")),
        "workerCuont",
    }
    assert "did you mean serverType?" in found["[0].serverTyp"]
    for wrong in ("a b: 'c'", "x: 1.5"):
        assert wrong in found["[0].labels"]
    for wrong in ("a=b:NoExecute: ", "node.kubernetes.io/x:NoSchedule: "):
        assert wrong in found["[2].taints"]


def test_names_fit_with_the_clusters_and_the_number(defaults):
    pool = {"name": "p" * 30, "count": 2}
    assert read_settings(pooled(defaults, [pool], clusterName="c" * 30))
    longest = f"{'c' * 31}-{'p' * 30}-2"
    assert len(longest) == MAX_NAME_LENGTH + 1
    found = wrong_with(defaults, [pool], clusterName="c" * 31)
    assert longest in found["[0].name"]


def test_a_network_takes_no_more_servers_than_that(defaults):
    pools = [{"name": "a", "count": 50}, {"name": "b", "count": 50}]
    assert "give at most 99 servers" in wrong_with(defaults, pools)[""]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from([*KEYS, "a:NoSchedule"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(value=anything)
def test_anything_is_pools_or_problems(value):
    pools, problems = parse_pools(value, KEY)
    if not problems:
        assert all(is_label(key, content) for pool in pools for key, content in pool.labels.items())
        assert all(taint_parts(taint)[2] in EFFECTS for pool in pools for taint in pool.taints)
        assert len({pool.name for pool in pools}) == len(pools) == len(value)
    assert all(problem.key.startswith(KEY) and problem.allowed for problem in problems)


@given(pool=st.sampled_from(["worker", "a", "a-1"]), numbers=st.sets(st.integers(1, 99)))
def test_a_placement_group_holds_what_it_may(pool, numbers):
    groups = Counter(group_of(pool, number) for number in numbers | ({0} if pool == "worker" else set()))
    assert max(groups.values(), default=0) <= GROUP_SIZE


def test_no_two_pools_share_a_placement_group():
    names = [{group_of(pool, number) for number in range(1, 100)} for pool in ("worker", "a", "a-1", "a-1-1")]
    assert sum(map(len, names)) == len(set().union(*names))


names = st.sampled_from(["worker", "db", "web", "db-1", "arm"])
kinds = st.fixed_dictionaries(
    {
        "count": st.integers(0, 3),
        "location": st.sampled_from(["fsn1", "nbg1"]),
        "placementGroup": st.booleans(),
    }
)
lists = st.dictionaries(names, kinds, min_size=1, max_size=4).map(
    lambda pools: [{"name": name, **kind} for name, kind in pools.items()]
)


@given(before=lists, after=lists)
@hypothesis_settings(max_examples=5)  # a program runs twice for each
def test_servers_change_only_where_their_pool_does(declared_with, before, after):
    """Whatever happens to the list: what is registered for a pool depends on nothing but that pool."""
    first, second = (servers_of(declared_with, pools=json.dumps(pools)) for pools in (before, after))
    for pool in before:
        other = next((item for item in after if item["name"] == pool["name"]), None)
        if other is None:
            assert not any(owner == pool["name"] for owner, _ in second)
            continue
        for number in range(1, min(pool["count"], other["count"]) + 1):
            server = (pool["name"], f"{pool['name']}-{number}")
            if {**pool, "count": 0} == {**other, "count": 0}:
                assert first[server] == second[server]


def test_the_number_of_workers_means_the_pool_of_that_name(declared_with):
    pools = [{"name": "db", "count": 1}, {"name": "worker", "count": 2}]
    of_number = servers_of(declared_with, workerCount="2")
    assert of_number
    assert of_number.items() <= servers_of(declared_with, pools=json.dumps(pools)).items()


def servers_of(declared_with, **changes):
    """What is registered of each worker, by pool and resource name, without the ids of other things."""
    return {
        (item.inputs["labels"].get("pool", "worker"), item.name): (
            {key: value for key, value in item.inputs.items() if key not in OF_OTHERS},
            list(item.options.propertyDependencies["placementGroupId"].urns),
        )
        for item in declared_with(**changes)
        if item.type == SERVER and item.inputs["labels"]["role"] == "worker"
    }


OF_OTHERS = ("sshKeys", "placementGroupId", "firewallIds")
