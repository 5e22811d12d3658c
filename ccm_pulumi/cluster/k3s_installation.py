"""Installs, changes and removes k3s on one server, as a k3s server or an agent."""

import asyncio
import dataclasses
import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from ..config import k3s
from ..config.etcd_snapshots import settings_file
from ..config.pools import spelled
from ..lib.cloud_api import Cloud
from ..lib.dynamic import ProviderResource, changed_inputs, is_unknown
from ..lib.errors import AnotherClusterError, ConfigurationError, InfraError, UpgradeError
from ..lib.files import ROOT
from ..lib.ssh import CONNECT_SECONDS, Host, connect
from ..servers.probe import DRIFT, PROBES, Report, ServerProvider, drift_of, first_nodes
from ..servers.probe import ask as probe
from ..servers.server import OneServerProvider, host_at, host_of
from . import k3s_flags, k3s_scripts
from .drain_on_delete import DrainingProvider, drain_seconds, traffic_to
from .etcd_join import Start, ask, start_of
from .etcd_leave import is_removed_member, remove_previous_member
from .etcd_member_guard import leave_before_delete
from .k3s_drift import API_SILENT, agent_drift, server_drift
from .k3s_scripts import INSTALL_SECONDS, is_encrypted, rejoin
from .k3s_upgrade import (
    ask_release,
    drain_for_upgrade,
    installed_in,
    oldest_on,
    refuse,
    refuse_to_leave_behind,
    release_of,
)
from .k3s_versions import follows, pinned
from .node_registration import delete_node_passwords
from .peers import Peer, peers_of
from .quorum import check_quorum_for_restart, is_quorum, start_stopped, wait_for_api

_INSTALLING_SERVER = "installing the k3s server"
_JOINING = "waiting until k3s has joined the cluster again"
_INSTALLING_AGENT = "installing the k3s agent"
_HOW_TO_REACH = ("private_key", "host_key")
_JUMP = "jump"
_TOKEN_OF_EARLIER_VERSIONS = re.compile(r"[0-9a-f]{64}")


class K3sServerProvider(OneServerProvider, DrainingProvider):
    """Installs ``k3s server``. One of several leaves the cluster before its server is deleted."""

    replaced_by = ("server_id", "cluster_cidr", "service_cidr", "token", "private_ip")
    """Inputs that identify the installation; see `generation_of`."""

    ignored_inputs = (*_HOW_TO_REACH, "drain_seconds", "restore_from", "leaver")

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares. In a preview, too, it refuses an unsupported upgrade that the state shows, and a restore
        of another cluster's snapshot. For one of several servers, it also refuses another cluster or token,
        because every server would leave the cluster.
        """
        result = super().diff(_id, _olds, _news)
        if (_olds.get("member") and _news.get("member")) or _news.get("restore_from"):
            for name in ("cluster_cidr", "service_cidr"):
                if not is_unknown(_news[name]) and _news[name] != _olds[name]:
                    raise AnotherClusterError(spelled(name), _olds[name], _news[name])
            # in a preview, only a replaced token is unknown
            if _news["token"] != _olds.get("token"):
                raise InfraError(
                    "the token of k3s servers can't be replaced while there are several control servers: "
                    "each server would leave the cluster, and none could join again. The cluster was not "
                    "changed. Remove the token from --replace and --target-replace. If you skipped the "
                    "preview, the state already contains a new token. In this case, import the state "
                    "from before this run: pulumi stack import --file FILE"
                )
        restores = bool(result.replaces and _news.get("restore_from"))
        # A member joins the others' cluster again. A single control server takes its cluster with it, even if
        # the same run adds others.
        joins = all(props.get("member") or props.get("leaver") for props in (_olds, _news))
        stays = not result.replaces or restores or joins
        if stays and release_of(_olds) != release_of(_news):
            known = _olds.get("installed") or release_of(_olds).version
            refuse(known, release_of(_news), restores=restores)
        return result

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Returns when the Kubernetes API answers on the server. Continues an interrupted run. If another
        cluster is installed, it is removed first. If another control server has this stack's cluster, the
        server joins that. A new cluster may start from a snapshot. Fails where the cluster is unknown, can't
        be joined with this k3s, or needs a member of this name for quorum.
        """
        start = self._start(props)
        script = server_script(props, start, cluster=identity_of(props))
        sent = snapshot_of(props, start) == k3s.SNAPSHOT
        snapshot = (ROOT / props["restore_from"]).read_bytes() if sent else None
        said = asyncio.run(run_on(host_of(props), script, _INSTALLING_SERVER, snapshot))
        # never both: a server that joins is not restored
        origin = {"restored": True} if snapshot_of(props, start) else {}
        if start.join:
            origin = {"joined": start.join}
        outputs = {**origin, **_has(said), "installation": secrets.token_hex(8)}
        return CreateResult(props["server_id"], {**props, **outputs})

    def compare(self, props: Mapping[str, Any], report: Report) -> list[str]:
        """Compares k3s on the server with what was installed."""
        node = (props.get("member") or {}).get("node", report.host)
        tokens = {"K3S_TOKEN": props["token"], "K3S_AGENT_TOKEN": props["agent_token"]}
        return server_drift(node, k3s_flags.server_flags(props), tokens, files_of(props), report)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs over the existing installation: for another version or agent token, or as one of several.
        Another way to reach the server is only recorded. Fails if the k3s on the server can't be upgraded to
        this version, or to the channel's current one, if Nodes would have an unsupported version, if other
        members need it for quorum, or if its cluster is lost and no other server has it.
        """
        outputs = ("joined", "restored", "installed", "installation", "encrypted")
        noted = {name: _olds[name] for name in outputs if _olds.get(name)}
        drifted, waits = bool(_olds.get(DRIFT)), True
        unchanged = not {*changed_inputs(_olds, _news)} - {*self.ignored_inputs, _JUMP}
        if unchanged and not drifted:
            # only the way to reach it changed; delete needs it from the state
            return UpdateResult({**_news, **noted})
        host, release = host_of(_news), release_of(_news)
        if drifted:
            report = asyncio.run(probe(host, timeout=CONNECT_SECONDS))
            found = self.compare({**_news, **noted}, report)
            waits = self._can_have_quorum(_news, report)
            repair = repair_of(found, report, unchanged=unchanged, waits=waits)
            if repair is Repair.LATER:
                print(
                    f"the server {host.address} can't join the cluster until the other control servers have "
                    "quorum. Repeat the command when they have quorum"
                )
            if repair is not Repair.NOW:
                return UpdateResult({**_news, **noted})
            if self._has_lost_its_cluster({**_news, **noted}, report):
                return UpdateResult(self._join_again(_news))
        before, leads = asyncio.run(ask_release(host, release))
        if unchanged:
            # a repair does not install a later version of the channel
            leads = noted.get("installed", leads)
        refuse(before, release, leads)
        asyncio.run(refuse_to_leave_behind(host, before, release, leads))
        if member := _news.get("member") or _news.get("leaver"):
            asyncio.run(check_quorum_for_restart(host, member["node"]))
        joined = noted.get("joined", "")
        # the version that was compared with the installed one, and not a later one of the channel
        start = Start(joined, version=leads)
        script = server_script(
            {**_news, **noted}, start, cluster=None, had_store=bool(_olds.get("store")), waits=waits
        )
        has = _has(asyncio.run(run_on(host, script, _INSTALLING_SERVER)))
        refuse(before, release, has["installed"], done=True)
        return UpdateResult({**_news, **noted, **has})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes one of several from the cluster before its server is deleted."""
        if member := _props.get("member") or _props.get("leaver"):
            leave_before_delete(self._configuration, {**_props, "member": member})

    def _join_again(self, props: dict[str, Any]) -> dict[str, Any]:
        """Installs one of several as if it were new, but never as the one that starts a cluster."""
        member = props["member"]
        return {**(self.create({**props, "member": {**member, "first": False}}).outs or {}), "member": member}

    def _can_have_quorum(self, props: Mapping[str, Any], report: Report) -> bool:
        """Whether enough control servers run for quorum, once this one is repaired.

        This starts k3s on the others first: etcd needs quorum before the first repaired server is ready.
        """
        if report.nodes is not None or not props.get("member"):
            return True
        jump = host_of(props).jump
        peers = peers_of(self.cloud(), props["server_id"], props["private_ip"], jump=jump)
        hosts = [peer.host(props["private_key"]) for peer in peers if not peer.unreachable]
        is_member = k3s.DATASTORE in report.files
        if not is_quorum(asyncio.run(start_stopped(hosts)) + is_member, len(peers) + 1):
            return False
        if not is_member:
            asyncio.run(wait_for_api(hosts))
        return True

    def _has_lost_its_cluster(self, props: Mapping[str, Any], report: Report) -> bool:
        """Whether the server, one of several, must join the others again. Then its installation is removed.
        Fails if it is the only one and has no datastore, or if another server or the cloud did not answer.
        """
        host, member = host_of(props), props.get("member")
        is_empty = k3s.DATASTORE not in report.files
        if not member:
            if is_empty:
                raise InfraError(
                    f"the only control server, {host.address}, has lost the data of the cluster: "
                    f"{k3s.DATASTORE} is missing, as after a rebuild in Hetzner's Console. Nothing was "
                    "changed. To restore the cluster from a snapshot, first run: pulumi config set "
                    "ccm-from-scratch:restoreFrom SNAPSHOT. Then run hcloud server delete "
                    f"{props['server_id']}, and repeat pulumi up"
                )
            return False
        peers = peers_of(self.cloud(), props["server_id"], props["private_ip"], jump=host.jump)
        if not is_empty:
            if not is_removed_member(member["node"], peers, props["private_key"]):
                return False
            # one that never joined another would start a cluster of its own
            if props.get("joined") and asyncio.run(run_on(host, rejoin(member["node"]), _JOINING)):
                return False
        # it must not join while its member is removed; without the note the installation is removed, too
        forget = f"systemctl stop k3s || true; {k3s_scripts.FORGET_NOTE}"
        asyncio.run(run_on(host, forget, "forgetting the former installation"))
        return True

    def _start(self, props: dict[str, Any]) -> Start:
        member = props.get("member") or {}
        cloud = self._cloud(several=bool(member))
        jump = host_of(props).jump
        peers = peers_of(cloud, props["server_id"], props["private_ip"], jump=jump) if cloud else []

        def identity(peer: Peer) -> str:
            return identity_of({**props, "server_id": peer.server_id, "private_ip": peer.private})

        answers = asyncio.run(ask(peers, props["private_key"], identity))
        start = start_of(member.get("node", "the control server"), answers, begins=member.get("first", True))
        if start.join:
            refuse(start.version, release_of(props))
        named = member or props.get("leaver")
        if start.join and named:
            joined = next(peer for peer in peers if peer.private == start.join)
            asyncio.run(remove_previous_member(named["node"], host_of(props), identity_of(props), joined))
        return start

    def _cloud(self, *, several: bool) -> Cloud | None:
        try:
            return self.cloud()
        except ConfigurationError:
            # another program with one control server may not have the token in its configuration
            if several:
                raise
            return None


class K3sAgentProvider(ServerProvider, DrainingProvider):
    """Installs ``k3s agent``. Deleting it does nothing: its server is deleted."""

    replaced_by = ("server_id",)
    ignored_inputs = (*_HOW_TO_REACH, _JUMP, "several", "controls", "node", "drain_seconds")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Returns when the agent has started; it joins within seconds. With only a channel, a control server
        must report its version.
        """
        release = _release_beside(props)
        script = agent_script(props, release, reinstall=True)
        installed = installed_in(asyncio.run(run_on(host_of(props), script, _INSTALLING_AGENT)))
        outputs = {**_brought(release, installed), "installation": secrets.token_hex(8)}
        return CreateResult(props["server_id"], {**props, **outputs})

    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """Compares k3s on the server with what was installed, and looks for its Node."""
        own, *controls = PROBES.of([host_of(props), *_controls(props)])
        variables = {"K3S_URL": k3s_scripts.url_of(props["server_ip"]), "K3S_TOKEN": props["token"]}
        flags = [*k3s_flags.node_flags(k3s_flags.addresses_of(props)), *agent_flags(props)]
        return drift_of(
            own, lambda report: agent_drift(props["node"], flags, variables, report, first_nodes(controls))
        )

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs again. If the cluster changed, the agent leaves the previous one and joins the new one.
        Another k3s in the same cluster is an upgrade, even if only the control servers' version changed. Its
        Node is drained first, and stays cordoned after an UpgradeError.
        """
        release = _release_beside(_news)
        reinstall = is_another_cluster(_olds, _news)
        script = agent_script(_news, release, reinstall=reinstall)
        kept = {} if reinstall else {"installation": _olds.get("installation")}
        seconds = drain_seconds(self._configuration, _news) if is_upgrade(_olds, _news, release) else 0
        if seconds:
            traffic = traffic_to(_news["server_id"], self.cloud())
            asyncio.run(drain_for_upgrade(_controls(_news), _news["node"], seconds, traffic))
        elif _olds.get(DRIFT):
            # without its node password the machine makes up another one, which the cluster refuses
            asyncio.run(delete_node_passwords(_controls(_news), [_news["node"]]))
            script += k3s_scripts.AWAIT_KUBELET
        try:
            installed = installed_in(asyncio.run(run_on(host_of(_news), script, _INSTALLING_AGENT)))
        except InfraError as error:
            raise (UpgradeError(_news["node"], error) if seconds else error) from error
        outputs = {**_brought(release, installed), "installation": secrets.token_hex(8), **kept}
        return UpdateResult({**_news, **outputs})


class K3sServer(ProviderResource, provider=K3sServerProvider):
    """``k3s server`` on a server.

    ``installed`` is the version of k3s; ``joined`` the address of the control server that it joined, absent
    if it started the cluster; ``restored`` says whether it started from a snapshot. ``installation`` changes
    with each installation from scratch, which removes everything below k3s's folders. The state of an earlier
    version has no ``installed`` and no ``installation``.
    """

    server_id: pulumi.Output[str]
    installed: pulumi.Output[str]
    joined: pulumi.Output[str | None]
    restored: pulumi.Output[bool | None]
    installation: pulumi.Output[str]


class K3sAgent(ProviderResource, provider=K3sAgentProvider):
    """``k3s agent`` on a server.

    ``release`` is the release settings of the installation, the others are as those of a ``K3sServer``. The
    state of an earlier version may have none of them.
    """

    server_id: pulumi.Output[str]
    installation: pulumi.Output[str]
    installed: pulumi.Output[str]
    release: pulumi.Output[str]


def generation_of(server_id: str, cluster_cidr: str, service_cidr: str, private_ip: str, token: str) -> str:
    """A text without secrets that identifies the cluster of a single control server.

    The state of every object in the cluster contains it, and it never changes (identity.py). A cluster of an
    earlier version of this program has a lower-case token. Its text is as that version wrote it: without the
    last two parts.
    """
    known = f"{server_id}/{cluster_cidr}/{service_cidr}"
    if _TOKEN_OF_EARLIER_VERSIONS.fullmatch(token):
        return known
    return f"{known}/{private_ip}/{hashlib.sha256(token.encode()).hexdigest()[:16]}"


def identity_of(props: Mapping[str, Any]) -> str:
    """Identifies a control server's installation: a hash of the inputs that replace a K3sServer."""
    replacing = [props[name] for name in K3sServerProvider.replaced_by]
    return hashlib.sha256(json.dumps(replacing).encode()).hexdigest()


class Repair(Enum):
    """When to repair a control server that differs from what was installed."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


def repair_of(found: Sequence[str], report: Report, *, unchanged: bool, waits: bool) -> Repair:
    """When to repair a control server.

    Without quorum (``waits`` is false) a server that has its datastore starts, and one that lost it can't
    join yet. If nothing else is wrong, the repair of the others brings the API back.
    """
    if unchanged and (not found or (found == [API_SILENT] and not waits)):
        return Repair.NEVER
    return Repair.NOW if waits or k3s.DATASTORE in report.files else Repair.LATER


def is_another_cluster(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Whether an agent must leave its cluster before it joins the wanted one.

    A changed token doesn't mean a new cluster: earlier versions gave agents the servers' token. Nor does a
    changed address: with several control servers it may be of another one in the same cluster.
    """
    names = ("cluster",) if news.get("several") else ("cluster", "server_ip")
    return any(olds.get(name) != news[name] for name in names)


def is_upgrade(olds: Mapping[str, Any], news: Mapping[str, Any], release: k3s.Release) -> bool:
    """Whether an agent gets another k3s and stays in its cluster. The installed version doesn't count as
    another one, even if a channel led to it. A channel without a pinned version may always lead to another.
    """
    has_it = bool(release.version) and release.version == olds.get("installed")
    return not is_another_cluster(olds, news) and release != _asked_for(olds) and not has_it


def server_script(
    props: Mapping[str, Any],
    start: Start,
    *,
    cluster: str | None,
    had_store: bool = False,
    waits: bool = True,
) -> str:
    """The script for the properties of a K3sServer. A new one has an identity, ``cluster``."""
    flags = k3s_flags.server_flags(props)
    # a single control server joins, too, if others of an earlier run still have the cluster
    if props.get("member") or (cluster and start.join):
        flags += k3s_flags.member_flags(start.join)
    elif props.get("snapshots") or props.get("store"):
        # k3s takes snapshots only of etcd
        flags += k3s_flags.member_flags("")
    tokens = k3s.Tokens(props["token"], props["agent_token"])
    release = release_of(props)
    return k3s_scripts.server_script(
        # a recreated server gets the new channel if it was changed
        pinned(release, start.version) if follows(release, start.version) else release,
        k3s_flags.addresses_of(props),
        flags,
        tokens,
        cluster=cluster,
        noted="" if cluster else identity_of(props),
        joins=bool(cluster and start.join),
        encrypted=start.encrypted,
        restores=snapshot_of(props, start) if cluster else "",
        store=settings_file(props.get("store") or {}) if props.get("store") or had_store else None,
        files={path: content for path, content in files_of(props).items() if path != k3s.STORE},
        waits=waits,
    )


def files_of(props: Mapping[str, Any]) -> dict[str, str]:
    """Content of the files that k3s reads on a control server, by path.

    The state of earlier versions doesn't record whether Secrets are encrypted. If a server starts a cluster,
    ``begin_cluster`` writes the file ``ENCRYPTION``.
    """
    level, store = props.get("pod_security"), props.get("store")
    return {
        **({k3s.ENCRYPTION: k3s.ENCRYPTED} if props.get("encrypted") else {}),
        **({k3s.POD_SECURITY: k3s_flags.pod_security_configuration(level)} if level else {}),
        **({k3s.STORE: settings_file(store)} if store else {}),
    }


def snapshot_of(props: Mapping[str, Any], start: Start) -> str:
    """The path on the server of the uploaded snapshot from which it starts the cluster, or the snapshot's
    name in S3; empty: it starts from none, or joins.
    """
    snapshot = props.get("restore_from")
    if not snapshot or start.join:
        return ""
    return k3s.SNAPSHOT if (ROOT / snapshot).is_file() else str(snapshot)


def agent_script(props: Mapping[str, Any], release: k3s.Release, *, reinstall: bool) -> str:
    """The script for the properties of a K3sAgent."""
    at, flags = k3s_flags.addresses_of(props), agent_flags(props)
    return k3s_scripts.agent_script(
        release, at, props["server_ip"], props["token"], flags=flags, reinstall=reinstall
    )


def agent_flags(props: Mapping[str, Any]) -> list[str]:
    """The flags of an agent in addition to those of every node; the state of earlier versions has none."""
    return k3s_flags.pool_flags(props.get("node_labels") or {}, props.get("node_taints") or [])


async def run_on(host: Host, script: str, what: str, snapshot: bytes | None = None) -> str:
    """Runs an installation script, which may need a snapshot; returns its output."""
    async with connect(host) as shell:
        if snapshot:
            command = f"umask 077; cat > {k3s.SNAPSHOT}"
            await shell.feed(command, snapshot, what="sending the snapshot", timeout=INSTALL_SECONDS)
        return await shell.run(script, what=what, timeout=INSTALL_SECONDS)


def _has(said: str) -> dict[str, Any]:
    """The outputs that an installation script of a control server prints."""
    return {"installed": installed_in(said), "encrypted": is_encrypted(said)}


def _brought(release: k3s.Release, installed: str) -> dict[str, str]:
    """The outputs of an installation of a K3sAgent."""
    return {"installed": installed, "release": json.dumps(dataclasses.astuple(release))}


def _asked_for(olds: Mapping[str, Any]) -> k3s.Release:
    """The release settings of a K3sAgent's installation; earlier versions may not have recorded them."""
    recorded = olds.get("release")
    return k3s.Release(*json.loads(recorded)) if recorded else release_of(olds)


def _release_beside(props: Mapping[str, Any]) -> k3s.Release:
    """The release of a K3sAgent: that of the settings; with only a channel, that of its control servers."""
    release = release_of(props)
    return release if release.version else pinned(release, asyncio.run(oldest_on(_controls(props))))


def _controls(props: Mapping[str, Any]) -> list[Host]:
    return [host_at(at, props["private_key"]) for at in props["controls"].values()]
