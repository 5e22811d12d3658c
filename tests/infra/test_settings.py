import dataclasses
import ipaddress
import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import configured, problems_of, read_settings

from ccm_pulumi.config.pools import KEYS, MAX_WORKERS
from ccm_pulumi.config.server_spec import CONTROL_ROLES
from ccm_pulumi.config.setting_types import key_of
from ccm_pulumi.config.settings import Settings
from ccm_pulumi.config.validation import address_problems, parse_settings, rollout_capacity_problems
from ccm_pulumi.lib.errors import MAX_ALLOWED_LENGTH, MAX_VALUE_LENGTH
from ccm_pulumi.lib.files import ROOT
from k3s_standin.versions import VERSION


def test_schema_and_settings_have_the_same_keys():
    schema = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    assert set(schema) == {key_of(field) for field in Settings.__dataclass_fields__}
    assert all({"description", "default"} <= set(entry) for entry in schema.values())


def test_committed_stacks_only_set_known_keys():
    for name in (
        "packages/environment/src/sandbox/stacks/local.yaml",
        "packages/environment/src/sandbox/stacks/hollow.yaml",
        "Pulumi.hetzner.yaml.example",
    ):
        config = yaml.safe_load((ROOT / name).read_text())["config"]
        ours = {key for key in config if key.startswith("ccm-from-scratch:")}
        assert ours <= {key_of(field) for field in Settings.__dataclass_fields__}


def test_all_problems_are_reported_at_once(defaults):
    wrong = {"workerCount": "-1", "subnetCidr": "10.0.0.1/24", "cni": "calico", "workerCuont": "3"}
    found = problems_of(configured(defaults, **wrong, clusterName="A_b"))
    assert set(found) == {*wrong, "clusterName"}
    assert "'-1'" in found["workerCount"]
    assert "0 to 99" in found["workerCount"]
    assert "native, cilium" in found["cni"]
    assert "did you mean ccm-from-scratch:workerCount?" in found["workerCuont"]
    assert "allowed: allowDeletionOf, apiEndpoint" in problems_of(configured(defaults, zzzz="1"))["zzzz"]


def test_keys_of_other_namespaces_are_not_ours(defaults):
    assert read_settings({**defaults, "hcloud:token": "x", "kubernetes:context": "y"})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("subnetCidr", "192.168.0.0/24", "must be inside ccm-from-scratch:networkCidr 10.0.0.0/8"),
        ("subnetCidr", "10.244.1.0/24", None),
        ("subnetCidr", "10.0.0.0/30", "too small for 3 servers"),
        ("clusterCidr", "172.16.0.0/16", "must be inside"),
        ("clusterCidr", "10.0.0.0/16", "overlaps ccm-from-scratch:subnetCidr 10.0.0.0/24"),
        ("clusterCidr", "10.244.0.0/23", "a /24 for each of the 3 servers"),
        ("clusterCidr", "10.244.0.0/16,fd00:10::/56", "one IPv4 range"),
        ("serviceCidr", "fd00:20::/112", "Hetzner's networks don't route"),
        ("serviceCidr", "10.244.128.0/20", "overlaps ccm-from-scratch:clusterCidr"),
        ("serviceCidr", "10.0.0.0/24", "overlaps ccm-from-scratch:subnetCidr"),
        ("serviceCidr", "10.43.0.0/30", "/12 to /24"),
        ("networkCidr", "8.0.0.0/6", "10.0.0.0/8, 172.16.0.0/12"),
        ("networkCidr", "198.18.0.0/15", "10.0.0.0/8, 172.16.0.0/12"),
    ],
)
def test_ranges_that_do_not_fit(defaults, key, value, says):
    found = problems_of(configured(defaults, **{key: value}))
    assert says is None or says in found[key]


def test_no_pods_are_where_hetzner_has_its_gateway(defaults):
    ranges = {"networkCidr": "172.16.0.0/12", "subnetCidr": "172.16.0.0/24"}
    said = problems_of(configured(defaults, **ranges, clusterCidr="172.30.0.0/15"))
    assert list(said) == ["clusterCidr"]
    assert said["clusterCidr"].endswith("Hetzner's gateway. Hetzner rejects routes to it")
    assert read_settings(configured(defaults, **ranges, clusterCidr="172.30.0.0/16"))


DIGEST = "#sha256=" + "0" * 64


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("workerCount", ["1_0", "\u0661", "1.5", "many", "100", "-1", "", True]),
        ("labels", ["[]", "no json", '{"a b": "c"}', '{"a": "b c"}', '{"a": 1.5}', '{"": "x"}']),
        ("labels", ['{"a b/c": "d"}', '{"Example.org/c": "d"}', '{"/c": "d"}', f'{{"a": "{"x" * 64}"}}']),
        ("labels", ['{"hetzner.cloud/x": "y"}', '{"pool": "web"}', '{"fallback-for": "cpx22.fsn1"}']),
        ("k3sInstallUrl", ["", "ftp://x", "https://", "https://a b", "http://x'; rm -rf /'"]),
        ("k3sInstallUrl", ["https://x/#y", "https://x" + DIGEST[:-1]]),
        ("controlCount", ["2", "4", "0", "7", "x"]),
        ("controlLocations", ["[1]", '["a b"]', '["a","a","a","a","a","a"]', "{}"]),
        # these would reach a shell or a manifest
        ("k3sVersion", ["1.36", "v1.36.3 --x"]),
        ("k3sChannel", ["a;b"]),
        ("ccmImage", ["a b"]),
    ],
)
def test_invalid_values_are_refused(defaults, key, values):
    for value in values:
        assert set(problems_of(configured(defaults, **{key: value}))) == {key}, value


networks = st.builds(
    lambda address, prefix: ipaddress.IPv4Network((address, prefix), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(8, 30),
)


@given(
    network=networks, subnet=networks, pods=networks, services=networks, workers=st.integers(0, MAX_WORKERS)
)
def test_accepted_ranges_never_collide(defaults, *, network, subnet, pods, services, workers):
    settings = read_settings(defaults)
    ranges = {"network_cidr": network, "subnet_cidr": subnet, "cluster_cidr": pods, "service_cidr": services}
    found = address_problems(dataclasses.replace(settings, **ranges, worker_count=workers))
    fits = subnet.subnet_of(network) and pods.subnet_of(network)
    apart = not (subnet.overlaps(pods) or subnet.overlaps(services) or pods.overlaps(services))
    assert found or (fits and apart and subnet.num_addresses > workers + 3)
    assert all(problem.key and problem.allowed for problem in found)


def test_labels_that_the_cloud_takes(defaults):
    labels = {"team": "shop", "example.org/Owner": "a.b_c-d", "empty": "", "hetzner.cloudy/x": "y"}
    # pulumi config set --path makes a number or a boolean of some values
    given_labels = json.dumps({**labels, "generation": 2, "spot": True})
    read = read_settings(configured(defaults, labels=given_labels)).labels
    assert read == {**labels, "generation": "2", "spot": "true"}


SOURCES = ("sshAllowedCidrs", "nodePortAllowedCidrs")


NO_SOURCES = ('"198.51.100.7"', "Any", "", "7", "{}", "[7]", '["Any"]', "x/1", "198.51.100.7/24")


@pytest.mark.parametrize("key", SOURCES)
@pytest.mark.parametrize("ranges", [*NO_SOURCES, "0.0.0.0", "[any", "[[]]"])
def test_ranges_that_match_no_address(defaults, key, ranges):
    found = problems_of(configured(defaults, **{key: ranges}))
    assert set(found) == {key}
    assert '198.51.100.7 or ["198.51.100.7", "2001:db8::/48"]' in found[key]


@pytest.mark.parametrize("key", SOURCES)
@pytest.mark.parametrize("who", ["any", "198.51.100.7", "198.51.100.0/24", "2001:db8::1"])
def test_one_source_needs_no_list(defaults, key, who):
    one, listed = (read_settings(configured(defaults, **{key: text})) for text in (who, json.dumps([who])))
    assert one == listed


def test_what_may_be_said_in_two_ways_has_no_type():
    """Pulumi refuses a text where a list is declared, and a list where a text is, before the program runs."""
    schema = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    assert [key for key, entry in schema.items() if "type" not in entry] == [
        f"ccm-from-scratch:{key}"
        for key in ("controlLocations", "pools", "fallbacks", "k3sDisable", *SOURCES, "allowDeletionOf")
    ]


@pytest.mark.parametrize(
    ("key", "given_as", "value"),
    [
        ("allowDeletionOf", "4711", ("4711",)),
        ("allowDeletionOf", '["4711", 12]', ("4711", "12")),
        ("allowDeletionOf", "4711/0123456789abcdef", ("4711/0123456789abcdef",)),
        ("allowDeletionOf", "[]", ()),
        ("controlLocations", "1", ("1",)),
        ("k3sDisable", "local-storage", ("local-storage",)),
        ("k3sDisable", '["local-storage"]', ("local-storage",)),
        ("k3sDisable", "[]", ()),
    ],
)
def test_one_value_or_a_list(defaults, key, given_as, value):
    settings = dataclasses.asdict(read_settings(configured(defaults, **{key: given_as})))
    assert {key_of(field).partition(":")[2]: read for field, read in settings.items()}[key] == value


@pytest.mark.parametrize(
    ("key", "says", "values"),
    [
        ("allowDeletionOf", "the ID of a server", ["", "control", "0", "-1", "true", '["control"]', "["]),
        ("allowDeletionOf", "the ID of a server", ['{"a": 1}', "[4711", "4711,12", "4711/", "4711/x"]),
        (
            "k3sDisable",
            "coredns, local-storage, metrics-server",
            ["traefik", "local-storage,coredns", "[{}]"],
        ),
        ("k3sDisable", "coredns, local-storage, metrics-server", ["", "[", '{"coredns": 1}']),
    ],
)
def test_what_is_neither_a_value_nor_a_list_of_values(defaults, key, says, values):
    for value in values:
        assert says in problems_of(configured(defaults, **{key: value}))[key], value


def test_more_ranges_than_a_rule_takes(defaults):
    ranges = [f"198.51.100.{number}" for number in range(101)]
    assert set(problems_of(configured(defaults, sshAllowedCidrs=json.dumps(ranges)))) == {"sshAllowedCidrs"}
    assert read_settings(configured(defaults, sshAllowedCidrs=json.dumps(ranges[:100])))


@pytest.mark.parametrize("left_out", [True, False])
def test_who_may_reach_the_servers_has_to_be_said(defaults, left_out):
    """Also of stacks from before this was asked: the line to type stands in the message."""
    stack = configured(defaults, sshAllowedCidrs="[]")
    if left_out:
        del stack["ccm-from-scratch:sshAllowedCidrs"]
    said = problems_of({**stack, "ccm-from-scratch:subnetCidr": "192.168.0.0/24"})
    assert set(said) == {"sshAllowedCidrs", "subnetCidr"}
    assert "is not set" in said["sshAllowedCidrs"]
    if not left_out:
        assert "pulumi config set sshAllowedCidrs any " in said["sshAllowedCidrs"]


@given(st.lists(st.one_of(st.just("any"), st.ip_addresses().map(str), st.text(max_size=20)), max_size=5))
def test_a_firewall_gets_ranges_with_their_length_or_nothing(defaults, items):
    settings, problems = parse_settings(configured(defaults, nodePortAllowedCidrs=json.dumps(items)))
    for text in settings.node_port_allowed_cidrs:
        assert "/" in text
        assert str(ipaddress.ip_network(text)) == text
    if "any" in items and not problems:
        assert set(settings.node_port_allowed_cidrs) >= {"0.0.0.0/0", "::/0"}
    assert bool(settings.node_port_allowed_cidrs) == bool(items and not problems)


def test_by_default_one_version_of_k3s_and_one_installer_are_run(defaults):
    settings = read_settings(defaults)
    address, _, digest = settings.k3s_install_url.partition("#sha256=")
    assert len(digest) == 64
    assert re.search(r"/v[\d.]+%2Bk3s\d+/install\.sh$", address), "one whose hash never changes"
    # otherwise the installer of the sandbox warns at every start that it has another version
    assert (settings.k3s_channel, settings.k3s_version) == ("", VERSION)


def test_a_channel_or_a_version(defaults):
    said = problems_of(configured(defaults, k3sChannel="stable"))
    assert "pulumi config set k3sVersion ''" in said["k3sChannel"]
    assert read_settings(configured(defaults, k3sChannel="stable", k3sVersion="")).k3s_channel == "stable"
    said = problems_of(configured(defaults, k3sVersion="stable"))
    assert "ccm-from-scratch:k3sChannel" in said["k3sVersion"]
    own = configured(defaults, k3sInstallUrl="https://get.k3s.io" + DIGEST)
    assert read_settings(own).k3s_install_url.endswith("0")


def complaints(configuration, longest=1000):
    """The problems that there are; each names its key, shows the value shortly, and says what is allowed."""
    _, problems = parse_settings(configuration)
    for problem in problems:
        said = str(problem)
        plain = problem.key.isprintable() and len(problem.key) <= MAX_VALUE_LENGTH
        assert said.startswith(f"{problem.key}: " if plain else "ccm-from-scratch:")
        assert "is not set: " in said or "is not possible: " in said
        assert len(problem.allowed) > 10
        assert len(said) < longest
        assert all(sign.isprintable() or sign == "\n" for sign in said)
    return {problem.key for problem in problems}


fields_of_settings = pytest.mark.parametrize("field", Settings.__dataclass_fields__)


@fields_of_settings
@given(
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(),
        st.text().map(json.dumps),
        st.lists(st.text()).map(json.dumps),
        st.dictionaries(st.text(), st.text()).map(json.dumps),
    )
)
def test_whatever_a_setting_is_it_is_taken_or_complained_about(defaults, field, value):
    complained = complaints({**defaults, key_of(field): value})
    assert value is not None or key_of(field) in complained


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def with_some_of(*names):
    """Mappings of which some keys are known ones."""
    return st.dictionaries(st.sampled_from(names) | st.text(), anything, max_size=5)


@given(
    pools=st.lists(with_some_of(*KEYS), max_size=3),
    snapshots=with_some_of("schedule", "retention", "s3"),
    store=st.none() | with_some_of("endpoint", "bucket", "accessKey", "secretKey", "insecure"),
    window=with_some_of("days", "start", "end", "timeZone"),
)
def test_whatever_is_in_a_setting_it_is_taken_or_complained_about(defaults, pools, snapshots, store, window):
    said = {
        "pools": pools,
        "etcd_snapshots": snapshots if store is None else {**snapshots, "s3": store},
        "os_upgrades": window,
    }
    wrong = {key_of(field): json.dumps(value) for field, value in said.items()}
    complaints({**defaults, **wrong}, MAX_ALLOWED_LENGTH + 500)


@pytest.mark.parametrize(
    ("field", "value", "key"),
    [
        ("pools", [{"name": "a", "count": 1, "\x1b[2J" + "k" * 10_000: 1}], "pools[0].\\x1b[2Jkkk"),
        ("pools", [{"name": "a", "count": 1, "labels": {"\x1b[2J" * 5_000: "x"}}], "pools[0].labels"),
        ("etcd_snapshots", {"\x1b[2J" * 5_000: 1}, "etcdSnapshots.\\x1b[2J"),
    ],
)
def test_names_that_somebody_gave_are_shown_shortly_and_obeyed_by_no_terminal(defaults, field, value, key):
    _, problems = parse_settings({**defaults, key_of(field): json.dumps(value)})
    (said,) = map(str, problems)
    assert said.startswith(f"ccm-from-scratch:{key}")
    assert len(said) < 2000
    assert all(sign.isprintable() for sign in said)


@fields_of_settings
@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "9" * 10_000, "a" * 10_000, "a\0b", "10.0.0.0/" + "9" * 5000, "\u0661", "\x1b[2J"],
    ids=["nested", "digits", "letters", "null", "prefix", "arabic", "escape"],
)
def test_a_setting_that_is_extreme_is_complained_about(defaults, field, value):
    assert key_of(field) in complaints({**defaults, key_of(field): value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("apiEndpoint", "load-balancer"),
        ("cni", "cilium"),
        ("ingress", "traefik"),
        ("k3sDisable", "coredns"),
        ("etcdSnapshots", '{"retention": 3}'),
        ("podSecurity", "baseline"),
        ("privateNodes", "true"),
        ("taintControlServers", "true"),
    ],
)
def test_what_an_existing_cluster_would_not_get_is_refused(defaults, key, value):
    found = problems_of(configured(defaults, kubeconfigPath="Pulumi.yaml", **{key: value}))
    assert list(found) == ["kubeconfigPath"]
    assert f"ccm-from-scratch:{key}. To" in found["kubeconfigPath"]


def test_pods_need_a_server_that_takes_them(defaults):
    assert read_settings(configured(defaults, taintControlServers="true")).taint_control_servers
    refused = problems_of(configured(defaults, taintControlServers="true", workerCount="0"))
    assert list(refused) == ["taintControlServers"]


def test_an_existing_cluster_may_have_several_control_servers(defaults):
    there = read_settings(configured(defaults, kubeconfigPath="Pulumi.yaml", controlCount="3"))
    assert {*CONTROL_ROLES[:3]} < {server.role for server in there.servers}


@pytest.mark.parametrize("unread", ["subnetCidr", "pools", "controlCount"])
def test_what_could_not_be_read_blames_no_other_setting(defaults, unread):
    found = problems_of(
        configured(defaults, **{"subnetCidr": "10.0.0.0/29", "workerCount": "9", unread: "?"})
    )
    assert list(found) == [unread]


@pytest.mark.parametrize(
    ("pools", "ranges"),
    [
        ("?", {"networkCidr": "8.0.0.0/6"}),
        ('[{"name": "a", "count": 1}, {"name": "a", "count": 1}]', {"serviceCidr": "10.0.0.0/24"}),
    ],
)
def test_ranges_are_judged_beside_pools_that_are_wrong(defaults, pools, ranges):
    found = problems_of(configured(defaults, pools=pools, **ranges))
    assert {key.partition("[")[0] for key in found} == {"pools", *ranges}


def meanwhile(defaults, existing, pools, **more):
    settings = read_settings(configured(defaults, pools=json.dumps(pools), **more))
    return [str(problem) for problem in rollout_capacity_problems(settings, existing)]


def roles(pool, count):
    return [f"{pool}-{number}" for number in range(1, count + 1)]


def test_a_pool_that_is_renamed_has_room_twice(defaults):
    def renamed(count, **more):
        there = ["control", *roles("old", count)]
        return meanwhile(defaults, there, [{"name": "new", "count": count}], **more)

    assert renamed(49) == []
    (said,) = renamed(50)
    assert said.startswith("ccm-from-scratch:pools: '101 servers at a time' is not possible: ")
    assert "the 50 old servers" in said
    assert "at most 100 servers. Change fewer servers" in said
    assert renamed(3, subnetCidr="10.0.0.0/28") == []
    (said,) = renamed(7, subnetCidr="10.0.0.0/28")
    assert "ccm-from-scratch:subnetCidr 10.0.0.0/28 has addresses for only 13" in said
    assert renamed(7, clusterCidr="10.244.0.0/20") == []
    (said,) = renamed(8, clusterCidr="10.244.0.0/20")
    assert "ccm-from-scratch:clusterCidr 10.244.0.0/20 has Pod ranges for only 16" in said


def test_what_only_grows_or_shrinks_or_has_grown_needs_no_room_twice(defaults):
    pools = [{"name": "a", "count": 60}, {"name": "b", "count": 39}]
    assert meanwhile(defaults, [], pools) == []
    assert meanwhile(defaults, ["control", *roles("a", 60)], pools) == []
    assert meanwhile(defaults, ["control", *roles("a", 60), *roles("b", 39)], pools[:1]) == []
    # a run before this one has made all new ones, and ended before it deleted the others
    assert meanwhile(defaults, ["control", *roles("a", 60), *roles("old", 60)], pools[:1]) == []
    (said,) = meanwhile(defaults, ["control", *roles("a", 61)], pools)
    assert "'101 servers at a time'" in said
    assert "the 1 old servers" in said
