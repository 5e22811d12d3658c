"""``k3s server``: the control plane, the service that nodes join at, and this machine as a node."""

from __future__ import annotations

import asyncio
import secrets
import time

from sandbox.kubernetes.k3s import (
    control_plane,
    encryption,
    kubeconfig,
    log,
    manifests,
    paths,
    pki,
    registration,
)
from sandbox.kubernetes.k3s.api import ApiClient
from sandbox.kubernetes.k3s.certificates import write_secret
from sandbox.kubernetes.k3s.children import Children
from sandbox.kubernetes.k3s.control_plane import ControlPlane, Ports, nth_address
from sandbox.kubernetes.k3s.errors import K3sError
from sandbox.kubernetes.k3s.kubelet import ClusterFacts
from sandbox.kubernetes.k3s.node import enforce_policies, register_node, start_node
from sandbox.kubernetes.k3s.node_controller import NodeController
from sandbox.kubernetes.k3s.options import ServerOptions, is_dual
from sandbox.kubernetes.k3s.pki import Pki, serving_names
from sandbox.kubernetes.k3s.token import Token, full_token, parse_token

_START_SECONDS = 120.0
_POLL_SECONDS = 0.05
_ENOUGH = "/livez/poststarthook/rbac/bootstrap-roles"
"""What the others need of the API server: their own rights. The rest of its start takes a second longer."""
ABSENT = ("traefik", "servicelb")
"""k3s's addons that the stand-in does not have."""


def warnings(options: ServerOptions) -> list[str]:
    """What is not as in k3s with these options; empty for what the tutorial uses."""
    found = []
    if missing := [name for name in ABSENT if name not in options.disabled]:
        found.append(f"not in the stand-in, as if by --disable: {', '.join(missing)}")
    if options.flannel_backend != "none":
        found.append(
            "the stand-in has no flannel: Pods of different nodes reach each other by cloud routes only"
        )
    if is_dual(options.cluster_cidr) and options.flannel_backend != "none":
        found.append("the cloud's networks route IPv4 only: Pods of different nodes don't meet by IPv6")
    if options.cloud_controller_enabled:
        found.append(
            "the stand-in has no cloud controller of its own: nodes have the addresses of their flags"
        )
    return found


async def run_server(children: Children, options: ServerOptions, addresses: tuple[str, ...]) -> None:
    """Start everything and stay; systemd hears READY when the API is, which is before this machine's Node is.

    Args:
        children: Get the components.
        options: What was asked for.
        addresses: Of this machine.

    Raises:
        K3sError: A component failed.
    """
    for line in warnings(options):
        log.warning(line)
    wanted = _control_plane(options)
    agent_token = await asyncio.to_thread(_prepare, wanted, options, addresses)
    api = ApiClient(wanted.url, *wanted.pki.access(pki.ADMIN))
    stop = registration.serve(
        registration.Registration(wanted.pki, agent_token.password, _facts(options), api),
        options.bind_address,
        options.port + 1,
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_run_control_plane(children, wanted, options, api))
            if options.agent_enabled:
                tasks.create_task(_be_node(children, wanted, options, api, agent_token))
    finally:
        stop()


async def _run_control_plane(
    children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient
) -> None:
    """Start it, say so, and keep what the server keeps in the cluster. Never ends by itself."""
    await _start(children, wanted, options, api)
    await _until_up(children, api, "/readyz")
    log.info("k3s is up and running")
    log.notify("READY=1")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manifests.Deployer(api, paths.MANIFESTS, options.disabled).run())
        tasks.create_task(NodeController(api, "coredns" not in options.disabled).run())


def _control_plane(options: ServerOptions) -> ControlPlane:
    ports = Ports(api=options.port)
    return ControlPlane(
        data=paths.SERVER,
        pki=Pki(paths.SERVER / "tls"),
        bind_address=options.bind_address,
        advertise_address=options.advertise_address,
        cluster_cidr=options.cluster_cidr,
        service_cidr=options.service_cidr,
        ports=ports,
        encryption=paths.ENCRYPTION if options.secrets_encryption else None,
        extra=options.extra,
    )


def _facts(options: ServerOptions) -> ClusterFacts:
    return ClusterFacts(
        options.cluster_cidr,
        options.cluster_dns,
        options.cluster_domain,
        options.cloud_controller_enabled,
        options.kube_proxy_enabled,
        options.flannel_backend != "none",
        options.network_policy_enabled,
    )


def _prepare(wanted: ControlPlane, options: ServerOptions, addresses: tuple[str, ...]) -> Token:
    """Certificates, tokens and kubeconfigs; what is there from an earlier start is kept.

    Returns:
        What agents join with. As in k3s, that is no longer the server's token once there is one for agents.
    """
    own = (*addresses, *options.node.node_ips, *options.node.external_ips, options.advertise_address)
    names = (options.node.node_name, *own, *options.tls_sans)
    wanted.pki.ensure(serving_names(nth_address(options.service_cidr, 1), names))
    control_plane.write_kubeconfigs(wanted)
    if wanted.encryption:
        encryption.ensure(wanted.encryption)
    values = manifests.variables(options.cluster_dns, options.cluster_domain, options.storage_path)
    manifests.stage(paths.MANIFESTS, manifests.packaged(values), options.disabled)
    token = options.token or _kept_token() or Token(secrets.token_hex(16))
    certificate = wanted.pki.server_authority.certificate.read_bytes()
    full = full_token(certificate, token.password)
    for name in ("token", "node-token"):
        write_secret(paths.SERVER / name, full + "\n")
    agent = options.agent_token or token
    write_secret(paths.SERVER / "agent-token", full_token(certificate, agent.password, "node") + "\n")
    text = kubeconfig.embedded(wanted.url, *wanted.pki.access(pki.ADMIN))
    write_secret(options.kubeconfig, text, options.kubeconfig_mode)
    return Token(agent.password)


def _kept_token() -> Token | None:
    """The token of an earlier start."""
    file = paths.SERVER / "token"
    return parse_token(file.read_text()) if file.exists() else None


async def _start(children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient) -> None:
    """Start the control plane; returns when the API server answers."""
    commands = control_plane.commands(wanted)
    if not options.scheduler_enabled:
        del commands["kube-scheduler"]
    for name in ("etcd", "kube-apiserver"):
        log.info(f"Running {name}")
        await children.start(commands.pop(name))
    await _until_up(children, api, _ENOUGH)
    log.info("The API server is up")
    for name, command in commands.items():
        log.info(f"Running {name}")
        await children.start(command)


async def _until_up(children: Children, api: ApiClient, path: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while not await asyncio.to_thread(api.is_up, path):
        children.check()
        if time.monotonic() > end:
            raise K3sError(f"the API server does not answer:\n{children.tail('kube-apiserver')}")
        await asyncio.sleep(_POLL_SECONDS)


async def _be_node(
    children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient, token: Token
) -> None:
    """Join our own cluster, as any node does, and label the Node as a server's."""
    joined = await start_node(children, options.node, wanted.url, token)
    await register_node(children, options.node, wanted.url, joined)
    labels = {"node-role.kubernetes.io/control-plane": "true"}
    path = f"/api/v1/nodes/{options.node.node_name}"
    await asyncio.to_thread(api.merge, path, {"metadata": {"labels": labels}})
    await enforce_policies(options.node, wanted.url, joined)
