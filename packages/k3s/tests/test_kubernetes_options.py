from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.errors import UsageError
from k3s_standin.nodepassword import hash_password, matches
from k3s_standin.options import agent_options, check_node_ips, node_options, server_options
from k3s_standin.token import Token, full_token, parse_token

HASH = "0" * 64


def test_an_agent_knows_server_and_token():
    options = agent_options({"server": "https://10.0.0.2:6443/", "token": "t"}, "Worker")
    assert options.server == "https://10.0.0.2:6443"
    assert options.token == Token("t")
    assert options.node.node_name == "worker"


PODS, SERVICES = ["10.244.0.0/16", "fd42::/48"], ["10.43.0.0/16", "fd43::/112"]


def agent(values):
    return agent_options(values, "worker")


def server(values):
    return server_options(values, "control", "192.0.2.1")


def ranges(pods, services):
    return {"cluster-cidr": pods, "service-cidr": services}


FLANNEL = ("None", "wireguard", "ipsec", "tailscale", "vxlan ", "vxlan=Port=1", "")
UNKNOWN = r"--flannel-backend: Cannot .*unknown flannel backend '{}'\. .*none, vxlan, host-gw"


@pytest.mark.parametrize(
    ("read", "values", "text"),
    [
        (agent, {"token": "t"}, "--server or K3S_URL is required"),
        (agent, {"server": "https://a:6443"}, "--token or K3S_TOKEN is required"),
        (agent, {"server": "http://a:6443", "token": "t"}, "isn't a URL of the form https"),
        (agent, {"server": "https://a:port", "token": "t"}, "isn't a URL of the form https"),
        (agent, {"server": "https://a:1", "token": "K10secret"}, "starts with K10"),
        (agent, {"server": "https://a:1", "token": "t", "node-ip": ["1.2.3"]}, "--node-ip: '1.2.3'"),
        (agent, {"server": "https://a:1", "token": "t", "node-name": "a_b"}, "--node-name: 'a_b'"),
        (agent, {"server": "https://a:1", "token-file": "/nowhere"}, "--token-file"),
        (server, {"server": "https://a:6443"}, "--token or K3S_TOKEN is required"),
        (server, {"server": "http://a:6443", "token": "t"}, "isn't a URL of the form https"),
        (server, {"cluster-cidr": ["10.244.0.1/16"]}, "--cluster-cidr"),
        (server, {"https-listen-port": "x"}, "--https-listen-port: 'x' is not a number"),
        (server, {"write-kubeconfig-mode": "9"}, "--write-kubeconfig-mode"),
        (server, ranges(PODS, SERVICES[:1]), r"\[10.* fd42::/48\] and service-cidr: \[10.*\], must share"),
        (server, ranges(PODS[:1], SERVICES), "must share the same IP version"),
        (server, ranges(PODS[1:], SERVICES[1:]), "--service-cidr: fd43::/112 is not .* Set one IPv4 range"),
        (
            server,
            ranges(PODS[::-1], SERVICES),
            "--cluster-cidr: fd42::/48,10.244.0.0/16 is not supported",
        ),
        (server, ranges([*PODS, "10.8.0.0/16"], SERVICES), "flag --cluster-cidr"),
        *((server, {"flannel-backend": name}, UNKNOWN.format(name)) for name in FLANNEL),
    ],
)
def test_wrong_options(read, values, text):
    with pytest.raises(UsageError, match=text) as caught:
        read(values)
    assert "secret" not in str(caught.value)


def test_dual_stack_dns_addresses():
    options = server(ranges(PODS, SERVICES))
    assert options.cluster_dns == "10.43.0.10,fd43::a"
    assert options.cluster_cidr == "10.244.0.0/16,fd42::/48"


@pytest.mark.parametrize(
    ("addresses", "cluster_cidr", "fits"),
    [
        (["10.0.0.2", "3fff::1"], ",".join(PODS), True),
        (["10.0.0.2"], ",".join(PODS), False),
        (["10.0.0.2", "10.0.0.3"], ",".join(PODS), False),
        ([], ",".join(PODS), False),
        ([], PODS[0], True),
        (["10.0.0.2", "3fff::1"], PODS[0], True),
    ],
)
def test_a_node_has_addresses_of_the_clusters_families(addresses, cluster_cidr, fits):
    node = node_options({"node-ip": addresses}, "worker")
    with nullcontext() if fits else pytest.raises(UsageError, match=r"node-ip: .* must share the same IP"):
        check_node_ips(node, cluster_cidr)


def test_a_server_has_k3s_defaults():
    options = server({})
    assert (options.cluster_cidr, options.service_cidr) == ("10.42.0.0/16", "10.43.0.0/16")
    assert (options.cluster_dns, options.cluster_domain) == ("10.43.0.10", "cluster.local")
    assert (options.advertise_address, options.port) == ("192.0.2.1", 6443)
    assert (str(options.kubeconfig), options.kubeconfig_mode) == ("/etc/rancher/k3s/k3s.yaml", 0o600)


def test_a_server_is_advertised_at_its_external_address_first():
    inner, outer = {"node-ip": ["10.0.0.2"]}, {"node-external-ip": ["203.0.113.9"]}
    assert server(inner).advertise_address == "10.0.0.2"
    assert server(inner | outer).advertise_address == "203.0.113.9"
    assert server(outer | {"advertise-address": "10.0.0.2"}).advertise_address == "10.0.0.2"


def test_a_token_is_bare_or_names_the_servers_authority():
    assert parse_token(" bare \n") == Token("bare")
    assert parse_token(f"K10{HASH}::server:pass:word") == Token("pass:word", HASH)


@given(st.binary(), st.text(min_size=1).filter(lambda t: t == t.strip() and "\n" not in t))
def test_a_full_token_is_read_back(certificate, password):
    token = parse_token(full_token(certificate, password))
    assert token.password == password
    assert token.authority_hash is not None


@given(st.text(min_size=1), st.text(min_size=1))
def test_password_hashes(password, other):
    kept = hash_password(password)
    assert matches(password, kept)
    assert matches(other, kept) == (password == other)
