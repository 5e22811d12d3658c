"""``k3s server``: the control plane, the server for joining nodes, and this machine as a node."""

import asyncio
import functools
import random
import secrets
import time
from datetime import datetime

from k3s_standin import (
    bootstrap,
    control_plane,
    cron,
    datastore,
    encryption,
    kubeconfig,
    log,
    manifests,
    nodepassword,
    paths,
    pki,
    registration,
)
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.certificates import write_secret
from k3s_standin.children import Children
from k3s_standin.control_plane import ControlPlane, EtcdMember, Ports, nth_address
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Learners, MembershipError, remove_node
from k3s_standin.kubelet import ClusterFacts
from k3s_standin.node import enforce_policies, register_node, start_node
from k3s_standin.node_controller import MEMBER_ADDRESS, MEMBER_NAME, NodeController
from k3s_standin.options import ServerOptions, is_dual
from k3s_standin.pki import Pki, serving_names
from k3s_standin.protocol import SERVER
from k3s_standin.snapshots import Snapshots
from k3s_standin.supervisor import Supervisor
from k3s_standin.token import Token, full_token, parse_token

_START_SECONDS = 120.0
_POLL_SECONDS = 0.05
LEARNER_SECONDS = 1.0
UNHEARD_SECONDS = 2.0
"""After an etcd member joins, the stand-in waits this number of seconds until the member responds to
clients. If the member doesn't respond in time, the stand-in restarts etcd and doubles the number."""
_JITTER_SECONDS = 5.0
_ENOUGH = "/livez/poststarthook/rbac/bootstrap-roles"
"""The other components wait for this health check. It succeeds when the API server has created the RBAC
roles of these components, about one second before the API server has started completely."""
ABSENT = ("traefik", "servicelb")
"""The addons of k3s that the stand-in doesn't include."""


def warnings(options: ServerOptions) -> list[str]:
    """Differences from k3s with these options; empty for the tutorial's."""
    found = []
    if missing := [name for name in ABSENT if name not in options.disabled]:
        found.append(
            f"the stand-in for k3s doesn't include these addons, so they are disabled: {', '.join(missing)}"
        )
    if options.flannel_backend != "none":
        found.append(
            "the stand-in for k3s doesn't include flannel. Pods on different nodes can reach each other "
            "only through cloud routes"
        )
    if is_dual(options.cluster_cidr) and options.flannel_backend != "none":
        found.append(
            "the cloud's networks support only IPv4 routes, so Pods on different nodes can't reach each "
            "other over IPv6"
        )
    if options.cloud_controller_enabled:
        found.append(
            "the stand-in for k3s has no built-in cloud controller. A Node has only the addresses that you "
            "set with flags of k3s"
        )
    return found


async def run_server(children: Children, options: ServerOptions, addresses: tuple[str, ...]) -> None:
    """Start everything and run; systemd gets READY when the API is up, before this machine's Node exists."""
    for line in warnings(options):
        log.warning(line)
    wanted = control_plane_of(options)
    tokens = await asyncio.to_thread(_prepare, wanted, options, addresses)
    api = ApiClient(wanted.url, *wanted.pki.access(pki.ADMIN))
    agent_token = tokens[1]
    stop = registration.serve(
        _registration(wanted, options, tokens, api), options.bind_address, options.port + 1
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_run_control_plane(children, wanted, options, api, tokens[0].password))
            if options.agent_enabled:
                tasks.create_task(_be_node(children, wanted, options, api, agent_token))
    finally:
        stop()


async def _run_control_plane(
    children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient, password: str
) -> None:
    """Start the control plane, report it, and run its controllers until cancelled."""
    wanted = await _etcd(children, wanted, options)
    if wanted.member:
        await asyncio.to_thread(bootstrap.keep, wanted, datastore.client(wanted), password)
    await _start(children, wanted, options, api)
    await _until_up(children, api, "/readyz")
    await asyncio.to_thread(_after_reset, api, options.node.node_name)
    log.info("k3s is up and running")
    log.notify("READY=1")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manifests.Deployer(api, paths.MANIFESTS, options.disabled).run())
        tasks.create_task(_node_controller(wanted, options, api).run())
        if wanted.member:
            tasks.create_task(_manage_learners(Learners(datastore.client(wanted))))
            tasks.create_task(_take_snapshots(_snapshots(wanted, options)))


def _node_controller(wanted: ControlPlane, options: ServerOptions, api: ApiClient) -> NodeController:
    etcd = datastore.client(wanted) if wanted.member else None
    leave = functools.partial(remove_node, etcd) if etcd else None
    return NodeController(api, "coredns" not in options.disabled, leave=leave)


async def _manage_learners(learners: Learners) -> None:
    """Runs until cancelled."""
    while True:
        try:
            await asyncio.to_thread(learners.look)
        except ApiError as error:
            log.warning(f"Failed to get etcd members for learner management: {error}")
        await asyncio.sleep(LEARNER_SECONDS)


def _snapshots(wanted: ControlPlane, options: ServerOptions) -> Snapshots:
    return Snapshots(datastore.client(wanted), options.node.node_name, options.snapshots)


async def _take_snapshots(snapshots: Snapshots) -> None:
    """Runs until cancelled, or returns if the schedule is empty."""
    if not snapshots.options.schedule:
        log.info("ETCD snapshots are disabled")
        return
    schedule = cron.parse(snapshots.options.schedule)
    while due := schedule.after(datetime.now()):  # noqa: DTZ005 -- k3s uses the machine's time zone, too
        await asyncio.sleep((due - datetime.now()).total_seconds())  # noqa: DTZ005
        # As in k3s, so that several servers don't do it at once.
        await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))  # noqa: S311
        await asyncio.to_thread(snapshots.take_scheduled)


def _after_reset(api: ApiClient, node: str) -> None:
    """Release the node's name: a restored snapshot may have another machine's password."""
    flag = datastore.Datastore().reset_flag
    if flag.exists():
        nodepassword.forget(api, node)
        flag.unlink()


def _registration(
    wanted: ControlPlane, options: ServerOptions, tokens: tuple[Token, Token], api: ApiClient
) -> registration.Registration:
    server, agent = tokens
    servers = registration.Servers(
        server.password,
        options.critical,
        functools.partial(bootstrap.pack, wanted) if wanted.member else None,
        datastore.client(wanted).members,
        _snapshots(wanted, options) if wanted.member else None,
    )
    return registration.Registration(wanted.pki, agent.password, _facts(options), api, servers)


def control_plane_of(options: ServerOptions) -> ControlPlane:
    """Settings of the components' command lines."""
    ports = Ports(api=options.port)
    name = datastore.Datastore().name(
        options.node.node_name, joins=bool(options.server), managed=options.cluster_init
    )
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
        member=EtcdMember(name, options.address) if name else None,
        cluster_domain=options.cluster_domain,
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


def _prepare(wanted: ControlPlane, options: ServerOptions, addresses: tuple[str, ...]) -> tuple[Token, Token]:
    """Certificates, tokens (of servers and of agents) and kubeconfigs; existing ones are kept.

    As in k3s, agents can't use the server's token once there is an agent token.
    """
    if _joins(options):
        bootstrap.fetch(wanted, _supervisor(options), options.critical)
    own = (*addresses, *options.node.node_ips, *options.node.external_ips, options.advertise_address)
    names = (options.node.node_name, *own, *options.tls_sans)
    reached = (wanted.member.address,) if wanted.member else ()
    served = serving_names(nth_address(options.service_cidr, 1), names, options.cluster_domain)
    wanted.pki.ensure(served, reached)
    control_plane.write_kubeconfigs(wanted)
    if wanted.encryption:
        encryption.ensure(wanted.encryption)
    values = manifests.variables(options.cluster_dns, options.cluster_domain, options.storage_path)
    manifests.stage(paths.MANIFESTS, manifests.packaged(values), options.disabled)
    token = options.token or kept_token() or Token(secrets.token_hex(16))
    certificate = wanted.pki.server_authority.certificate.read_bytes()
    full = full_token(certificate, token.password)
    for name in ("token", "node-token"):
        write_secret(paths.SERVER / name, full + "\n")
    agent = options.agent_token or token
    write_secret(paths.SERVER / "agent-token", full_token(certificate, agent.password, "node") + "\n")
    text = kubeconfig.embedded(wanted.url, *wanted.pki.access(pki.ADMIN))
    write_secret(options.kubeconfig, text, options.kubeconfig_mode)
    return token, Token(agent.password)


def _joins(options: ServerOptions) -> bool:
    """Whether this server must join: only until it is a member of etcd."""
    return bool(options.server) and not datastore.Datastore().initialized


def _supervisor(options: ServerOptions) -> Supervisor:
    assert options.token, "server_options requires one"
    return Supervisor(options.server, options.token, SERVER)


async def _etcd(children: Children, wanted: ControlPlane, options: ServerOptions) -> ControlPlane:
    """Join if necessary, and start etcd; returns when this server's member votes."""
    member = wanted.member
    if member and _joins(options):
        try:
            wanted = await asyncio.to_thread(datastore.join, wanted, member, _supervisor(options))
        except MembershipError:
            datastore.Datastore().forget_name()
            raise
    await start_etcd(children, wanted)
    return wanted


async def start_etcd(children: Children, wanted: ControlPlane) -> None:
    """Start etcd; returns when this server's member votes; raises K3sError if it doesn't in time."""
    member, command = wanted.member, control_plane.commands(wanted)["etcd"]
    log.info("Running etcd")
    await children.start(command)
    begun, unheard = time.monotonic(), UNHEARD_SECONDS
    end = begun + _START_SECONDS
    while member and not await asyncio.to_thread(datastore.votes, wanted, member):
        children.check()
        if time.monotonic() > end:
            raise K3sError(
                "etcd did not become a voting member of its cluster. Last lines of its "
                f"log:\n{children.tail('etcd')}"
            )
        overdue = member.cluster and time.monotonic() > begun + unheard
        if overdue and not await asyncio.to_thread(datastore.serves_clients, wanted):
            log.info("etcd joined the cluster, but doesn't respond to clients. Restarting etcd")
            await children.restart(command)
            begun, unheard = time.monotonic(), 2 * unheard
        await asyncio.sleep(_POLL_SECONDS)


def kept_token() -> Token | None:
    """The token of an earlier start."""
    file = paths.SERVER / "token"
    return parse_token(file.read_text()) if file.exists() else None


async def _start(children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient) -> None:
    """Start the other components; returns when they run."""
    commands = control_plane.commands(wanted)
    if not options.scheduler_enabled:
        del commands["kube-scheduler"]
    del commands["etcd"]
    log.info("Running kube-apiserver")
    await children.start(commands.pop("kube-apiserver"))
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
            raise K3sError(
                f"the API server does not respond. Last lines of its log:\n{children.tail('kube-apiserver')}"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _be_node(
    children: Children, wanted: ControlPlane, options: ServerOptions, api: ApiClient, token: Token
) -> None:
    """Join our own cluster like any node, and label the Node as a server's."""
    joined = await start_node(children, options.node, wanted.url, token)
    await register_node(children, options.node, wanted.url, joined)
    path = f"/api/v1/nodes/{options.node.node_name}"
    await asyncio.to_thread(api.merge, path, {"metadata": server_metadata(wanted.member)})
    await enforce_policies(options.node, wanted.url, joined)


def server_metadata(member: EtcdMember | None) -> dict[str, dict[str, str]]:
    """Labels and annotations of a server's Node."""
    labels = {"node-role.kubernetes.io/control-plane": "true"}
    if member is None:
        return {"labels": labels}
    return {
        "labels": {**labels, "node-role.kubernetes.io/etcd": "true"},
        "annotations": {MEMBER_NAME: member.name, MEMBER_ADDRESS: member.address},
    }
