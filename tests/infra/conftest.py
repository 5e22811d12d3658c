"""What the tests of the Pulumi program share: Pulumi.yaml's defaults, stand-ins for engine and servers."""

import asyncio
import contextvars
import functools
import importlib
import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import asyncssh
import pulumi
import pytest
import yaml
from infra_settings import configured, read_settings
from pulumi.runtime import mocks as pulumi_mocks
from pulumi.runtime.stack import run_pulumi_func

from ccm_pulumi.lib.files import ROOT
from ccm_pulumi.lib.ssh import Host
from ccm_pulumi.servers.keys import new_key_pair
from tests.pulumi_cloud import cloud

__all__ = ["cloud"]


@dataclass(frozen=True)
class Registered:
    type: str
    name: str
    inputs: dict[str, Any]
    secrets: frozenset[str]
    options: Any


class RecordingMonitor(pulumi_mocks.MockMonitor):
    """Answers like an engine whose every operation succeeds, and keeps what was registered."""

    def __init__(self, mocks: pulumi.runtime.Mocks) -> None:
        super().__init__(mocks)
        self.registered: list[Registered] = []

    def RegisterResource(self, request):  # noqa: N802 (the name in Pulumi's protocol)
        # Pulumi's mock leaves an event loop behind in every thread that calls it
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            answer = super().RegisterResource(request)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        plain = pulumi.runtime.rpc.deserialize_properties(request.object)
        inputs = {name: pulumi.runtime.rpc.unwrap_rpc_secret(value) for name, value in plain.items()}
        secrets = frozenset(n for n, v in plain.items() if pulumi.runtime.rpc.is_rpc_secret(v))
        self.registered.append(Registered(request.type, request.name, inputs, secrets, request))
        return answer


class Cloud(pulumi.runtime.Mocks):
    """Makes up ids and the outputs that only a real cloud knows."""

    def __init__(self) -> None:
        self._ids = 40

    def new_resource(self, args: pulumi.runtime.MockResourceArgs):
        self._ids += 1
        places = [{**place, "ip": f"10.0.0.{self._ids}"} for place in args.inputs.get("networks", ())]
        public = "" if places else f"203.0.113.{self._ids}"
        roles = args.inputs.get("servers") or ()
        made_up = {
            "hcloud:index/server:Server": {"ipv4Address": public, "networks": places},
            "pulumi-python:dynamic/ccm-from-scratch:ServerState": {"ip": f"10.0.0.{self._ids}"},
            "pulumi-python:dynamic/ccm-from-scratch:ServerPlan": {
                "revisions": {role: f"made as {role}" for role in roles}
            },
            "hcloud:index/loadBalancer:LoadBalancer": {"ipv4": f"203.0.113.{self._ids}"},
            "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork": {"ip": f"10.0.0.{self._ids}"},
            "pulumi-python:dynamic/ccm-from-scratch:KeyPair": {
                "public_key": "ssh-ed25519 AAAA",
                "private_key": "P",
            },
            "pulumi-python:dynamic/ccm-from-scratch:SharedSecret": {"value": "S" * 64},
            "pulumi-python:dynamic/ccm-from-scratch:CcmImage": {"reference": "ccm:made-up"},
            "pulumi-python:dynamic/ccm-from-scratch:Boot": {"host_key": "ssh-ed25519 HOST"},
            "pulumi-python:dynamic/ccm-from-scratch:Kubeconfig": {"kubeconfig": "K"},
            "pulumi-python:dynamic/ccm-from-scratch:ClusterIdentity": {"generation": args.inputs.get("text")},
        }
        if args.typ == "kubernetes:core/v1:ServiceAccount":
            made_up[args.typ] = {"metadata": {**args.inputs["metadata"], "uid": f"uid-{args.name}"}}
        identity = str(self._ids)
        if args.typ == "hcloud:index/networkSubnet:NetworkSubnet":
            identity = f"{args.inputs['networkId']}-{args.inputs['ipRange']}"
        return identity, {**args.inputs, **made_up.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs):
        return {}


@pytest.fixture(scope="session")
def defaults() -> dict[str, str]:
    """The configuration of a stack that says only who may reach it, as Pulumi hands it to a program."""
    schema = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    values = {key: entry["default"] for key, entry in schema.items()}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return {**texts, "ccm-from-scratch:sshAllowedCidrs": '["any"]'}


@pytest.fixture(scope="session")
def engine():
    """Runs a function as a Pulumi program; returns what it registered."""
    return run_program


def run_program(program: Callable[[], None]) -> list[Registered]:
    """Runs in a thread and a context of its own, because Pulumi keeps its settings in context variables."""
    monitor = RecordingMonitor(Cloud())

    def run() -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            pulumi.runtime.set_mocks(
                monitor.mocks, project="ccm-from-scratch", stack="local", preview=False, monitor=monitor
            )
            loop.run_until_complete(run_pulumi_func(program))
        finally:
            loop.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(contextvars.Context().run, run).result()
    return monitor.registered


@pytest.fixture(scope="module")
def pair():
    return new_key_pair("test")


class Commands:
    """Runs what clients ask for, and leaves nothing running."""

    def __init__(self):
        self._running = set()

    def start(self, process):
        task = asyncio.create_task(self._serve(process))
        self._running.add(task)

    async def end(self):
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _serve(self, process):
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(
            process.command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        try:
            out, err = await child.communicate(await process.stdin.read())
            process.stdout.write(out)
            process.stderr.write(err)
            process.exit(child.returncode)
        finally:
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)  # its own children hold the pipes, too
                await child.communicate()


@pytest.fixture
async def server(pair):
    key = asyncssh.generate_private_key("ssh-ed25519")
    commands = Commands()
    async with asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(pair["public_key"]),
        process_factory=commands.start,
        encoding=None,
    ) as listener:
        yield listener, key.export_public_key().decode().strip()
        await commands.end()


@pytest.fixture
def host(server, pair, monkeypatch):
    """The server as a host; its port is not the usual one."""
    listener, _ = server
    real = asyncssh.connect
    monkeypatch.setattr(
        asyncssh, "connect", lambda address, **options: real(address, listener.get_port(), **options)
    )
    return Host("127.0.0.1", pair["private_key"])


@pytest.fixture(scope="session")
def declared_with(engine, defaults):
    """What the program declares with some settings changed, beside servers that are there or none."""

    @functools.lru_cache(maxsize=32)
    def declare(existing, **changes):
        settings = read_settings(configured(defaults, **changes))
        program = importlib.import_module("infra.__main__")
        return engine(lambda: program.declare(settings, "T" * 64, existing=existing))

    return lambda existing=(), **changes: declare(frozenset(existing), **changes)


@pytest.fixture(scope="session")
def three(declared_with):
    return functools.partial(declared_with, controlCount="3", workerCount="1")
