"""A real control plane on loopback, without machines: etcd, API server, controller manager.

For the records backend, and for tests::

    async with ControlPlane(toolchain, directory) as cluster:
        ... cluster.kubeconfig ...
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Self

from k3s_standin import control_plane, kubeconfig, pki
from k3s_standin.api import ApiClient
from k3s_standin.certificates import write_secret
from k3s_standin.children import Children
from k3s_standin.control_plane import Ports
from k3s_standin.pki import Pki, serving_names
from sandbox.errors import SandboxError
from sandbox.kubernetes.processes import require
from sandbox.kubernetes.toolchain import Toolchain

START_SECONDS = 180.0
_POLL_SECONDS = 0.05
_SERVICE_CIDR = "10.43.0.0/16"


class ControlPlane:
    """Starts on entry, ends on exit; what it stored is there when it starts again in the same directory."""

    def __init__(
        self,
        toolchain: Toolchain,
        directory: Path,
        *,
        cluster_cidr: str = "10.244.0.0/16",
        extra: Mapping[str, control_plane.Flags] | None = None,
        scheduler: bool = False,
    ) -> None:
        """Nothing happens before the start."""
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig.yaml"
        self.url = ""
        self._children = Children(toolchain.bin, directory / "logs")
        self._held = contextlib.ExitStack()
        self._cluster_cidr = cluster_cidr
        self._extra = dict(extra or {})
        self._scheduler = scheduler

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything and wait until the API server is ready (three to four seconds)."""
        require("openssl", "openssl")
        try:
            wanted = await asyncio.to_thread(self._prepare)
            commands = control_plane.commands(wanted)
            if not self._scheduler:
                del commands["kube-scheduler"]
            api = self.api()
            await self._children.start(commands.pop("etcd"))
            await self._children.start(commands.pop("kube-apiserver"))
            await self._until_ready(api)
            for command in commands.values():
                await self._children.start(command)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End everything; returns when no process is left."""
        try:
            await self._children.stop()
        finally:
            self._held.close()

    def failed(self) -> str | None:
        """The name of a component that has ended by itself, or None."""
        return self._children.ended()

    def api(self) -> ApiClient:
        """A small synchronous client with an administrator's rights."""
        return ApiClient(self.url, *Pki(self.directory / "tls").access(pki.ADMIN))

    def _prepare(self) -> control_plane.ControlPlane:
        """Ports, certificates and files; runs in a thread."""
        certificates = Pki(self.directory / "tls")
        wanted = control_plane.ControlPlane(
            data=self.directory,
            pki=certificates,
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            cluster_cidr=self._cluster_cidr,
            service_cidr=_SERVICE_CIDR,
            ports=_ports(self.directory / "ports.json", self._held),
            # There is one API server; without this it would keep an endpoint for 127.0.0.1, which is refused.
            extra={
                **self._extra,
                "kube-apiserver": {
                    "endpoint-reconciler-type": "none",
                    **self._extra.get("kube-apiserver", {}),
                },
            },
        )
        if sys.platform != "linux":
            self._held.close()  # elsewhere nobody may listen on a port that is bound
        certificates.ensure(serving_names(control_plane.nth_address(_SERVICE_CIDR, 1), ()))
        control_plane.write_kubeconfigs(wanted)
        self.url = wanted.url
        write_secret(self.kubeconfig, kubeconfig.embedded(wanted.url, *certificates.access(pki.ADMIN)))
        return wanted

    async def _until_ready(self, api: ApiClient) -> None:
        end = time.monotonic() + START_SECONDS
        while not await asyncio.to_thread(api.is_up):
            if ended := self.failed():
                raise self._error(ended, "ended")
            if time.monotonic() > end:
                raise self._error("kube-apiserver", f"is not ready after {START_SECONDS:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)

    def _error(self, component: str, reason: str) -> SandboxError:
        log, tail = self._children.log(component), self._children.tail(component)
        return SandboxError(f"{component} {reason}. The last lines of {log}:\n{tail}")


def _ports(file: Path, held: contextlib.ExitStack) -> Ports:
    """The ports of the last run when they are still free, so that a kubeconfig stays valid; else new ones.

    They are bound, so that the kernel gives them to no other process before their component listens.
    """
    if file.exists():
        kept = Ports(**json.loads(file.read_text()))
        with contextlib.suppress(OSError):
            for port in asdict(kept).values():
                _hold(port, held)
            return kept
        held.close()
    ports = Ports(*(_hold(0, held) for _ in range(5)))
    write_secret(file, json.dumps(asdict(ports)))
    return ports


def _hold(port: int, held: contextlib.ExitStack) -> int:
    """Bind a port, 0 for any free one."""
    one = held.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return one.getsockname()[1]
