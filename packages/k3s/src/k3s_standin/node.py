"""A machine as a node: joins, runs containerd, kubelet and kube-proxy, and waits for the Node."""

import asyncio
import ctypes
import gc
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from k3s_standin import log, network, paths, policy_controller, runtime
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.balancer import Balancer
from k3s_standin.capacity import host_capacity, read_capacity, system_reserved
from k3s_standin.certificates import write_secret
from k3s_standin.children import Children
from k3s_standin.join import Joined, Joiner
from k3s_standin.kubeconfig import by_path
from k3s_standin.kubelet import kubelet_command, kubelet_config, proxy_command, proxy_config
from k3s_standin.options import NodeOptions, check_node_ips
from k3s_standin.token import Token

_POLL_SECONDS = 0.1


def node_annotations(node: NodeOptions) -> Mapping[str, str]:
    """k3s's annotations of a Node: its addresses, and how it was started."""
    found = {"k3s.io/hostname": node.node_name, **node.started_with}
    if node.node_ips:
        found["k3s.io/internal-ip"] = ",".join(node.node_ips)
    if node.external_ips:
        found["k3s.io/external-ip"] = ",".join(node.external_ips)
    return found


async def start_node(
    children: Children, node: NodeOptions, server: str, token: Token, balancer: Balancer | None = None
) -> Joined:
    """Join and start the components; the Node is registered a second later."""
    others = [url for url in balancer.servers if url != server] if balancer else []
    addresses = node.node_ips + node.external_ips
    joiner = Joiner(server, token, node.node_name, addresses, others=others)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runtime.start(children, node.registries))
        joining = tasks.create_task(joiner.join())
    joined = joining.result()
    log.info(f"Joined the cluster at {server} as {node.node_name}")
    check_node_ips(node, joined.facts.cluster_cidr)
    await asyncio.to_thread(network.remove)
    if balancer:
        await balancer.start()
    await _start(children, node, balancer.url if balancer else server, joined)
    return joined


async def register_node(children: Children, node: NodeOptions, server: str, joined: Joined) -> None:
    """Write k3s's annotations on the Node; returns when that is done and its Pods have a network."""
    api = _client(server, joined, "client-kubelet")
    annotations = {"metadata": {"annotations": dict(node_annotations(node))}}
    path = f"/api/v1/nodes/{node.node_name}"
    await _until(children, lambda: api.merge(path, annotations))
    log.info(f"Node {node.node_name} is registered")
    if joined.facts.flannel:
        ranges = await _until(children, lambda: (api.get(path) or {}).get("spec", {}).get("podCIDRs"))
        await asyncio.to_thread(network.give, ranges, joined.facts.cluster_cidr)
    _shrink()


async def follow_servers(balancer: Balancer, joined: Joined) -> None:
    """Keep the balancer's list of servers until cancelled."""
    await balancer.follow(_client(balancer.url, joined, "client-k3s-controller"))


async def enforce_policies(node: NodeOptions, server: str, joined: Joined) -> None:
    """Enforce network policies on this node until cancelled, unless the cluster disables them."""
    if not joined.facts.network_policy:
        await asyncio.Event().wait()
    await policy_controller.run(_client(server, joined, "client-k3s-controller"), node.node_name)


def _client(server: str, joined: Joined, user: str) -> ApiClient:
    key = joined.folder / f"{user}.key"
    return ApiClient(server, joined.authority, key.with_suffix(".crt"), key)


async def _until(children: Children, attempt: Callable[[], Any]) -> Any:
    """The result of an attempt, once it has one.

    The Node may not be registered yet, and the API server not be up: the kubelet retries as well.
    """
    while True:
        try:
            if found := await asyncio.to_thread(attempt):
                return found
        except ApiError as error:
            if error.status not in {0, 403, 404, 429} and error.status < 500:
                raise
        children.check()
        await asyncio.sleep(_POLL_SECONDS)


async def _start(children: Children, node: NodeOptions, server: str, joined: Joined) -> None:
    """Write configurations and start kubelet and kube-proxy."""
    etc = joined.folder / "etc"
    reserved = _reserved()
    for user in ("kubelet", "kube-proxy"):
        key = joined.folder / f"client-{user}.key"
        config = by_path(server, joined.authority, key.with_suffix(".crt"), key)
        write_secret(joined.folder / f"{user.replace('-', '')}.kubeconfig", config)
    _write(etc / "kubelet.yaml", kubelet_config(joined.facts, reserved))
    _write(etc / "kube-proxy.yaml", proxy_config(node, joined.facts, joined.folder / "kubeproxy.kubeconfig"))
    command = kubelet_command(node, joined.facts, etc / "kubelet.yaml", joined.folder / "kubelet.kubeconfig")
    await children.start(command)
    if joined.facts.kube_proxy:
        await children.start(proxy_command(node, etc / "kube-proxy.yaml"))


def _shrink() -> None:
    """Give back the memory of joining."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _reserved() -> Mapping[str, str]:
    host = host_capacity(os.cpu_count() or 1, Path("/proc/meminfo").read_text())
    return system_reserved(read_capacity(), host)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_secret(path, json.dumps(content, indent=1))


def data_folders() -> None:
    """Make the folders in which users put files before the start."""
    for folder in (paths.IMAGES, paths.CONTAINERD_DROPINS):
        folder.mkdir(parents=True, exist_ok=True)
