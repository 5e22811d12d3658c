import json
import sys

import grpc
import pytest
import yaml
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc
from test_dynamic import started_by_pulumi

import infra.__main__  # noqa: F401  imports every module that has a provider
from ccm_pulumi.lib.dynamic import Provider
from ccm_pulumi.lib.files import ROOT
from pulumi_plugins.serve import to_struct
from tests import child_processes

pytestmark = pytest.mark.slow


def test_pip_tells_which_plugins_are_needed():
    # the language host finds them by this command of the virtual environment that Pulumi.yaml names
    command = [sys.executable, "-m", "pip", "list", "--format", "json"]
    done = child_processes.run(command, check=True)
    installed = {item["name"].replace("_", "-").lower() for item in json.loads(done.stdout)}
    assert installed >= {"pulumi", "pulumi-hcloud", "pulumi-kubernetes"}


@pytest.fixture
def server(monkeypatch):
    """The SDK's server of dynamic providers, as the CLI's plugin starts it."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    program = ROOT / project["main"]
    monkeypatch.setenv("PULUMI_PROJECT", "ccm-from-scratch")
    # the plugin looks for the virtual environment beside the program, the language host beside Pulumi.yaml
    python = program / project["runtime"]["options"]["virtualenv"] / "bin/python"
    with started_by_pulumi(program, python) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def all_below(kind: type) -> set[type]:
    return {kind, *(one for below in kind.__subclasses__() for one in all_below(below))}


SOME = {"servers": {}, "allowed": [], "cluster": "c", "server_id": "1", "subnet_id": "1-10.0.0.0/24"}
"""Inputs that some providers look at when they check."""


def test_every_provider_can_be_served(server: provider_pb2_grpc.ResourceProviderStub):
    settings = {"hcloud:token": "x" * 64}
    server.Configure(provider_pb2.ConfigureRequest(args=to_struct(settings), variables=settings), timeout=60)
    # not those that tests make, which share a process with this one
    kinds = {kind for kind in all_below(Provider) if kind.__module__.startswith(("ccm_pulumi.", "infra."))}
    assert len(kinds) >= 9
    for kind in kinds:
        inputs = to_struct({"__provider": serialize_provider(kind()), "name": "x", **SOME})
        urn = f"urn:pulumi:s::p::pulumi-python:dynamic/ccm-from-scratch:{kind.__name__}::x"
        answer = server.Check(provider_pb2.CheckRequest(urn=urn, olds=inputs, news=inputs), timeout=60)
        assert answer.inputs["name"] == "x", kind
