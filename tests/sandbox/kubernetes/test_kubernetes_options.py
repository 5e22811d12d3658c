"""Values of flags, checked and typed; tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.kubernetes.k3s.control_plane import parse_flags
from sandbox.kubernetes.k3s.errors import UsageError
from sandbox.kubernetes.k3s.nodepassword import hash_password, matches
from sandbox.kubernetes.k3s.options import agent_options, node_options, server_options
from sandbox.kubernetes.k3s.token import Token, full_token, parse_token

HASH = "0" * 64


def test_an_agent_knows_server_and_token():
    options = agent_options({"server": "https://10.0.0.2:6443/", "token": "t"}, "Worker")
    assert options.server == "https://10.0.0.2:6443"
    assert options.token == Token("t")
    assert options.node.node_name == "worker"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"token": "t"}, "--server is required"),
        ({"server": "https://a:6443"}, "--token is required"),
        ({"server": "http://a:6443", "token": "t"}, "not like https"),
        ({"server": "https://a:port", "token": "t"}, "not like https"),
        ({"server": "https://a:1", "token": "K10x"}, "starts with K10"),
        ({"server": "https://a:1", "token": "t", "node-ip": ["1.2.3"]}, "--node-ip: '1.2.3'"),
        ({"server": "https://a:1", "token": "t", "node-name": "a_b"}, "--node-name: 'a_b'"),
        ({"server": "https://a:1", "token-file": "/nowhere"}, "--token-file"),
    ],
)
def test_what_is_wrong_for_an_agent_is_named(values, text):
    with pytest.raises(UsageError, match=text):
        agent_options(values, "worker")


def test_a_token_is_never_in_an_error():
    with pytest.raises(UsageError) as caught:
        parse_token("K10secret")
    assert "secret" not in str(caught.value)


def test_a_server_has_k3s_defaults():
    options = server_options({}, "control", "192.0.2.1")
    assert (options.cluster_cidr, options.service_cidr) == ("10.42.0.0/16", "10.43.0.0/16")
    assert (options.cluster_dns, options.cluster_domain) == ("10.43.0.10", "cluster.local")
    assert (options.advertise_address, options.port) == ("192.0.2.1", 6443)
    assert (str(options.kubeconfig), options.kubeconfig_mode) == ("/etc/rancher/k3s/k3s.yaml", 0o600)


@pytest.mark.parametrize(
    ("flags", "advertised"),
    [
        ({"node-ip": ["10.0.0.2"]}, "10.0.0.2"),
        ({"node-ip": ["10.0.0.2"], "node-external-ip": ["203.0.113.9"]}, "203.0.113.9"),
        ({"node-external-ip": ["203.0.113.9"], "advertise-address": "10.0.0.2"}, "10.0.0.2"),
    ],
)
def test_a_server_is_advertised_at_its_external_address_first(flags, advertised):
    assert server_options(flags, "c", "192.0.2.1").advertise_address == advertised


def test_secrets_are_encrypted_on_demand():
    assert not server_options({}, "c", "192.0.2.1").secrets_encryption
    assert server_options({"secrets-encryption": True}, "c", "192.0.2.1").secrets_encryption


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"server": "https://a:6443"}, "one server per cluster"),
        ({"cluster-cidr": ["10.244.0.1/16"]}, "--cluster-cidr"),
        ({"https-listen-port": "x"}, "--https-listen-port: 'x' is not a number"),
        ({"write-kubeconfig-mode": "9"}, "--write-kubeconfig-mode"),
    ],
)
def test_what_is_wrong_for_a_server_is_named(values, text):
    with pytest.raises(UsageError, match=text):
        server_options(values, "control", "192.0.2.1")


def test_node_labels_taints_and_addresses_are_kept_in_order():
    node = node_options({"node-label": ["a=1", "b=2"], "node-ip": ["10.0.0.2", "fd00::2"]}, "n")
    assert node.labels == ("a=1", "b=2")
    assert node.node_ips == ("10.0.0.2", "fd00::2")


def test_component_flags_override_and_feature_gates_add_up():
    given = parse_flags(["v=2", "--v=4", "feature-gates=A=true", "feature-gates=B=true", "switch"])
    assert given == {"v": "4", "feature-gates": "A=true,B=true", "switch": "true"}


def test_a_token_is_bare_or_names_the_servers_authority():
    assert parse_token(" bare \n") == Token("bare")
    assert parse_token(f"K10{HASH}::server:pass:word") == Token("pass:word", HASH)


@given(st.binary(), st.text(min_size=1).filter(lambda t: t == t.strip() and "\n" not in t))
def test_a_full_token_is_read_back(certificate, password):
    token = parse_token(full_token(certificate, password))
    assert token.password == password
    assert token.authority_hash is not None


@settings(max_examples=8, deadline=None)
@given(st.text(min_size=1), st.text(min_size=1))
def test_only_the_own_password_matches_its_hash(password, other):
    assert matches(password, hash_password(password))
    assert matches(other, hash_password(password)) == (password == other)


def test_a_damaged_hash_matches_nothing():
    assert not matches("p", "")
    assert not matches("p", "$1:zz:12:8:1:x")
