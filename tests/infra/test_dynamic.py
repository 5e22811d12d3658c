import importlib
import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import grpc
import pytest
from control_servers import PROPS
from hypothesis import given
from hypothesis import strategies as st
from pulumi.dynamic.dynamic import PROVIDER_KEY, serialize_provider
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

import infra.__main__  # noqa: F401  imports every module that has a provider
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider
from ccm_pulumi.lib.dynamic import Provider, changed_inputs
from ccm_pulumi.servers.probe import ServerProvider
from pulumi_plugins.serve import to_struct
from pulumi_plugins.shared import VARIABLE, serving

STATE = {**PROPS, "private_key": "P", "host_key": "H"}

values = st.dictionaries(
    st.sampled_from("abc"), st.none() | st.integers(0, 2) | st.lists(st.just(1), max_size=1)
)


@given(olds=values, news=values)
def test_changed_inputs_are_those_that_differ(olds, news):
    changed = changed_inputs({**olds, "__provider": "x", "output": 1}, {**news, "__provider": "y"})
    said = [
        {name: value or None if value != 0 else 0 for name, value in props.items()} for props in (olds, news)
    ]
    assert changed == sorted(name for name in news if said[0].get(name) != said[1][name])


@pytest.mark.parametrize(
    ("change", "changes", "replaces"),
    [
        ({}, False, []),
        ({"host_key": "G"}, False, []),
        # it is noted
        ({"private_key": "Q", "host_key": "G"}, True, []),
        ({"version": "v1.36.4+k3s1"}, True, []),
        ({"server_id": "2"}, True, ["server_id"]),
        ({"cluster_cidr": "10.245.0.0/16"}, True, ["cluster_cidr"]),
    ],
)
def test_when_a_k3s_server_changes(change, changes, replaces):
    result = K3sServerProvider().diff("", STATE, {**STATE, **change})
    assert (result.changes, result.replaces) == (changes, replaces)
    assert result.delete_before_replace


FAILING = """
from ccm_pulumi.lib.dynamic import Provider
from ccm_pulumi.lib.errors import InfraError

class Failing(Provider):
    def create(self, props):
        raise InfraError("mmdebstrap is missing") if props["error"] == "ours" else ZeroDivisionError("a bug")
"""


@contextmanager
def started_by_pulumi(folder, python=sys.executable):
    """The port of dynamic providers, as the SDK's ``pulumi-resource-pulumi-python`` starts them."""
    command = [python, "-u", "-m", "pulumi.dynamic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def started_by_dev(folder):
    """The same in the process that loads plugins in advance."""
    with serving(os.environ, folder) as more, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(more[VARIABLE])
        environment = [f"{name}={value}" for name, value in os.environ.items()]
        connection.sendall(json.dumps({"environment": environment, "folder": str(folder)}).encode() + b"\n")
        with connection.makefile() as answer:
            yield answer.readline().strip()


@pytest.mark.parametrize("started", [started_by_pulumi, started_by_dev])
def test_our_errors_reach_a_person_without_a_stack_trace(started, tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    provider = serialize_provider(importlib.import_module("failing").Failing())

    def details(error):
        properties = to_struct({PROVIDER_KEY: provider, "error": error})
        with pytest.raises(grpc.RpcError) as raised:
            stub.Create(provider_pb2.CreateRequest(properties=properties), timeout=60)
        return raised.value.details()

    with started(tmp_path) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        assert details("ours") == "mmdebstrap is missing"
        assert "ZeroDivisionError: a bug" in details("a bug")


def providers(kind=Provider):
    """All kinds of resources that have something to do with a server."""
    below = [found for one in kind.__subclasses__() for found in (one, *providers(one))]
    return [found for found in below if "private_key" in found.ignored_inputs]


WAYS = {
    "address": "192.0.2.2",
    "jump": {"address": "192.0.2.4"},
    "others": [{"address": "192.0.2.3"}],
    "controls": {"control": {"address": "192.0.2.6"}},
    "reached": {"address": "192.0.2.5"},
}
"""Other ways to servers, such as a gateway that was rebuilt."""


@pytest.mark.parametrize(
    "kind",
    [one for one in providers(ServerProvider) if WAYS.keys() & {*one.ignored_inputs}],
    ids=lambda kind: kind.__name__,
)
def test_another_way_to_a_server_is_recorded_for_the_next_read(kind):
    before = {**STATE, "address": "192.0.2.1", "others": [], "member": {}, "script": "false"}
    after = before | {name: way for name, way in WAYS.items() if name in kind.ignored_inputs}
    assert kind().diff("", before, after).changes
    assert kind().update("", before, after).outs.items() >= after.items()


@pytest.mark.parametrize("kind", providers(), ids=lambda kind: kind.__name__)
def test_another_key_to_a_server_is_noted_and_nothing_is_done_there(kind):
    # no server is reachable, so any connection fails
    before = {**STATE, "address": "", "of its own": 1, "member": {}, "script": "false"}
    after = {name: value for name, value in before.items() if name != "of its own"} | {"private_key": "Q"}
    assert kind().diff("", before, after).changes
    assert kind().update("", before, after).outs.items() >= {**before, "private_key": "Q"}.items()
