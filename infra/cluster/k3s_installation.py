"""k3s on one server, a control server or an agent: installed, changed, and taken out of its cluster."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from ..config import k3s
from ..config.etcd_snapshots import settings_file
from ..config.pools import spelled
from ..lib.cloud_api import Cloud
from ..lib.dynamic import ProviderResource, changed_inputs, is_unknown
from ..lib.errors import (
    AnotherClusterError,
    ConfigurationError,
    InfraError,
    UpgradeError,
)
from ..lib.files import ROOT
from ..lib.ssh import CONNECT_SECONDS, Host, connect
from ..servers.probe import DRIFT, PROBES, Report, ServerProvider, drift_of, first_nodes
from ..servers.probe import ask as probe
from ..servers.server import OneServerProvider, host_at, host_of
from . import k3s_scripts
from .drain_on_delete import DrainingProvider, drain_seconds, traffic_to
from .etcd_join import Start, ask, start_of
from .etcd_leave import is_expelled, make_room
from .etcd_member_guard import give_up
from .k3s_drift import API_SILENT, agent_drift, server_drift
from .k3s_scripts import INSTALL_SECONDS, is_encrypted
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
from .node_registration import forget_machines
from .peers import Peer, peers_of
from .quorum import is_quorum, may_restart, start_stopped, wait_for_api

_INSTALLING_SERVER = "installing the k3s server"
_INSTALLING_AGENT = "installing the k3s agent"
_HOW_TO_REACH = ("private_key", "host_key")
_JUMP = "jump"
_TOKEN_OF_EARLIER_VERSIONS = re.compile(r"[0-9a-f]{64}")


class K3sServerProvider(OneServerProvider, DrainingProvider):
    """Installs ``k3s server``. One of several leaves the cluster first, the only one goes with its server."""

    replaced_by = ("server_id", "cluster_cidr", "service_cidr", "token", "private_ip")
    """What makes the installation another one; see `generation_of`."""

    unheeded = (*_HOW_TO_REACH, "drain_seconds", "restore_from", "leaver")

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares, and refuses a way that k3s can't go, as far as the state tells: in a preview, too.

        Raises:
            VersionError: It can't.
            AnotherClusterError: One of several would leave for another cluster, and the others after it; or
                the snapshot that is named is of another one.
            InfraError: Likewise, because the token would be replaced.
        """
        result = super().diff(_id, _olds, _news)
        if (_olds.get("member") and _news.get("member")) or _news.get("restore_from"):
            for name in ("cluster_cidr", "service_cidr"):
                if not is_unknown(_news[name]) and _news[name] != _olds[name]:
                    raise AnotherClusterError(spelled(name), _olds[name], _news[name])
            # a token that is made anew is unknown in a preview, and no other one is
            if _news["token"] != _olds.get("token"):
                raise InfraError(
                    "the token of k3s servers is not replaced while several control servers have the "
                    "cluster: one after the other would leave it, and none could join again. Nothing of the "
                    "cluster was changed. Leave the token out of --replace and --target-replace. Where the "
                    "state has another one already, because there was no preview: put back the copy of the "
                    "state from before (pulumi stack import)"
                )
        restores = bool(result.replaces and _news.get("restore_from"))
        # Who comes back to others that have its cluster. Who has been the only one takes its cluster with it,
        # also where others are to come in the same run.
        joins = all(props.get("member") or props.get("leaver") for props in (_olds, _news))
        stays = not result.replaces or restores or joins
        if stays and release_of(_olds) != release_of(_news):
            known = _olds.get("installed") or release_of(_olds).version
            refuse(known, release_of(_news), restores=restores)
        return result

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when the Kubernetes API answers on the server.

        Goes on where an interrupted run stopped; begins anew where another cluster is installed, unless
        another control server has this one: then that is joined. A cluster that begins may begin from a
        snapshot.

        Raises:
            UnknownClusterError: There may be a cluster, and it can't be joined.
            VersionError: Nor by this k3s.
            QuorumError: One of its name is in the cluster, and the others need that.
            CloudError: The other control servers are not known.
        """
        start = self._start(props)
        script = server_script(props, start, cluster=identity_of(props))
        sent = snapshot_of(props, start) == k3s.SNAPSHOT
        snapshot = (ROOT / props["restore_from"]).read_bytes() if sent else None
        said = asyncio.run(run_on(host_of(props), script, _INSTALLING_SERVER, snapshot))
        joined = {"joined": start.join} if start.join else {}
        told = {**joined, **_has(said), "installation": secrets.token_hex(8)}
        return CreateResult(props["server_id"], {**props, **told})

    def compare(self, props: Mapping[str, Any], report: Report) -> list[str]:
        """Compares k3s on the server with what was installed."""
        node = (props.get("member") or {}).get("node", report.host)
        tokens = {"K3S_TOKEN": props["token"], "K3S_AGENT_TOKEN": props["agent_token"]}
        return server_drift(node, k3s.server_flags(props), tokens, files_of(props), report)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs again over what is there: another version, another token for agents, one of several.

        Another way to reach it is noted, and nothing is done.

        Raises:
            VersionError: The server, which knows best what is installed, has a k3s that can't go there, or to
                where the channel leads now; or Nodes would be left behind.
            InfraError: It is one of several, or others are still to leave it, and they need it meanwhile.
            InfraError: Its cluster is lost, and no other server has it.
        """
        told = ("joined", "installed", "installation", "encrypted")
        noted = {name: _olds[name] for name in told if _olds.get(name)}
        drifted, waits = bool(_olds.get(DRIFT)), True
        unchanged = not {*changed_inputs(_olds, _news)} - {*self.unheeded, _JUMP}
        if unchanged and not drifted:
            # it is reached another way, which who lets it leave has to know from the state
            return UpdateResult({**_news, **noted})
        host, release = host_of(_news), release_of(_news)
        if drifted:
            report = asyncio.run(probe(host, timeout=CONNECT_SECONDS))
            found = self.compare({**_news, **noted}, report)
            waits = self._can_have_quorum(_news, report)
            if unchanged and (not found or (found == [API_SILENT] and not waits)):
                # where nothing is missing but the others, their repair brings the API back
                return UpdateResult({**_news, **noted})
            if not waits and k3s.DATASTORE not in report.files:
                print(f"{host.address}: it joins again once the others have a quorum: repeat the command")
                return UpdateResult({**_news, **noted})
            if self._has_lost_its_cluster(_news, report):
                return UpdateResult(self._join_again(_news))
        before, leads = asyncio.run(ask_release(host, release))
        if unchanged:
            # a repair brings no later version of the channel
            leads = noted.get("installed", leads)
        refuse(before, release, leads)
        asyncio.run(refuse_to_leave_behind(host, before, release, leads))
        if member := _news.get("member") or _news.get("leaver"):
            asyncio.run(may_restart(host, member["node"]))
        joined = noted.get("joined", "")
        # the version that was held against what is installed, and no later one of the channel
        start = Start(joined, version=leads)
        script = server_script(
            {**_news, **noted}, start, cluster=None, had_store=bool(_olds.get("store")), waits=waits
        )
        has = _has(asyncio.run(run_on(host, script, _INSTALLING_SERVER)))
        refuse(before, release, has["installed"], done=True)
        return UpdateResult({**_news, **noted, **has})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Takes one of several out of the cluster, before its server is deleted.

        Raises:
            QuorumError: The others need it, or can't be asked; nothing was changed.
            DrainError: Pods are left on it, and with them it stays.
            CloudError: The cloud could not be asked.
        """
        if member := _props.get("member") or _props.get("leaver"):
            give_up(self._configuration, {**_props, "member": member})

    def _join_again(self, props: dict[str, Any]) -> dict[str, Any]:
        """Installs one of several as if it were new, but never as the one that begins a cluster."""
        member = props["member"]
        return {**(self.create({**props, "member": {**member, "first": False}}).outs or {}), "member": member}

    def _can_have_quorum(self, props: Mapping[str, Any], report: Report) -> bool:
        """Whether enough control servers run for the API to answer once this one is repaired.

        Stopped ones are started first: the order of repairs can't matter to etcd, which needs a majority
        before the first of them is ready.
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
        """Whether the server, one of several, has to join the others again. Nothing of its own is kept then.

        Raises:
            InfraError: It is the only one, and has no datastore; or somebody could not be asked.
        """
        host, member = host_of(props), props.get("member")
        is_empty = k3s.DATASTORE not in report.files
        if not member:
            if is_empty:
                raise InfraError(
                    f"the control server at {host.address} has no cluster any more, and there is no other "
                    f"control server that has it: {k3s.DATASTORE} is gone, as after a rebuild in the "
                    "console. Nothing was changed, so that no empty cluster takes its place. To begin from a "
                    "snapshot, name it first: pulumi config set ccm-from-scratch:restoreFrom SNAPSHOT. Then, "
                    f"or to begin an empty cluster: hcloud server delete {props['server_id']}, and repeat "
                    "the command"
                )
            return False
        peers = peers_of(self.cloud(), props["server_id"], props["private_ip"], jump=host.jump)
        if not is_empty and not is_expelled(member["node"], peers, props["private_key"]):
            return False
        # without its note the installation is removed before another one begins
        asyncio.run(run_on(host, f"rm -f {k3s.NOTE}", "forgetting the former installation"))
        return True

    def _start(self, props: dict[str, Any]) -> Start:
        member = props.get("member") or {}
        cloud = self._cloud(several=bool(member))
        jump = host_of(props).jump
        peers = peers_of(cloud, props["server_id"], props["private_ip"], jump=jump) if cloud else []

        def identity(peer: Peer) -> str:
            return identity_of({**props, "server_id": peer.server_id, "private_ip": peer.private})

        answers = asyncio.run(ask(peers, props["private_key"], identity))
        start = start_of(member.get("node", "it"), answers, begins=member.get("first", True))
        if start.join:
            refuse(start.version, release_of(props))
        named = member or props.get("leaver")
        if start.join and named:
            joined = next(peer for peer in peers if peer.private == start.join)
            asyncio.run(make_room(named["node"], host_of(props), identity_of(props), joined))
        return start

    def _cloud(self, *, several: bool) -> Cloud | None:
        try:
            return self.cloud()
        except ConfigurationError:
            # who has the only control server in a program of one's own may keep the token elsewhere
            if several:
                raise
            return None


class K3sAgentProvider(ServerProvider, DrainingProvider):
    """Installs ``k3s agent``. Deleting it is nothing, as with the server."""

    replaced_by = ("server_id",)
    unheeded = (*_HOW_TO_REACH, _JUMP, "several", "controls", "node", "drain_seconds")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when the agent was started; it joins within seconds.

        Raises:
            InfraError: With a channel alone, also: no control server could be asked for its k3s.
        """
        release = _release_beside(props)
        script = agent_script(props, release, anew=True)
        installed = installed_in(asyncio.run(run_on(host_of(props), script, _INSTALLING_AGENT)))
        told = {**_brought(release, installed), "installation": secrets.token_hex(8)}
        return CreateResult(props["server_id"], {**props, **told})

    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """Compares k3s on the server with what was installed, and looks for its Node."""
        own, *controls = PROBES.of([host_of(props), *_controls(props)])
        variables = {"K3S_URL": k3s_scripts.url_of(props["server_ip"]), "K3S_TOKEN": props["token"]}
        flags = [*k3s.node_flags(k3s.addresses_of(props)), *agent_flags(props)]
        return drift_of(
            own, lambda report: agent_drift(props["node"], flags, variables, report, first_nodes(controls))
        )

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs again; joins anew when the cluster is another one.

        Another k3s in the same cluster is an upgrade, also where only the control servers have another one
        since: the Node is drained before it.

        Raises:
            UpgradeError: The Node stays cordoned.
        """
        release = _release_beside(_news)
        anew = is_another_cluster(_olds, _news)
        script = agent_script(_news, release, anew=anew)
        kept = {} if anew else {"installation": _olds.get("installation")}
        seconds = drain_seconds(self._configuration, _news) if is_upgrade(_olds, _news, release) else 0
        if seconds:
            traffic = traffic_to(_news["server_id"], self.cloud())
            asyncio.run(drain_for_upgrade(_controls(_news), _news["node"], seconds, traffic))
        elif _olds.get(DRIFT):
            # without its node password the machine makes up another one, which the cluster refuses
            asyncio.run(forget_machines(_controls(_news), [_news["node"]]))
        try:
            installed = installed_in(asyncio.run(run_on(host_of(_news), script, _INSTALLING_AGENT)))
        except InfraError as error:
            raise (UpgradeError(_news["node"], error) if seconds else error) from error
        told = {**_brought(release, installed), "installation": secrets.token_hex(8), **kept}
        return UpdateResult({**_news, **told})


class K3sServer(ProviderResource, provider=K3sServerProvider):
    """``k3s server`` on a server.

    Attributes:
        server_id: Of the server.
        installed: The version of k3s; nothing until it is installed by this version of the program.
        joined: Address of the control server that it joined; nothing where it began the cluster.
        installation: Another text after each installation from scratch, which leaves nothing of what others
            wrote below k3s's folders; nothing, likewise.
    """

    server_id: pulumi.Output[str]
    installed: pulumi.Output[str]
    joined: pulumi.Output[str | None]
    installation: pulumi.Output[str]


class K3sAgent(ProviderResource, provider=K3sAgentProvider):
    """``k3s agent`` on a server.

    Attributes:
        server_id: Of the server.
        installed: The version of k3s; nothing until it is installed by this version of the program.
        release: What was asked for when it was installed; nothing, likewise.
        installation: As that of a ``K3sServer``.
    """

    server_id: pulumi.Output[str]
    installation: pulumi.Output[str]
    installed: pulumi.Output[str]
    release: pulumi.Output[str]


def generation_of(server_id: str, cluster_cidr: str, service_cidr: str, private_ip: str, token: str) -> str:
    """A text without secrets that is another one when the cluster of a single control server is another one.

    It is in the state of everything that lies in the cluster, and stays there (identity.py). So for a
    cluster that an earlier version of this program made, which its lower-case token tells, it is what that
    version wrote: without the last two.

    Args:
        server_id: Of the first control server.
        cluster_cidr: Range of the Pods.
        service_cidr: Range of the Services.
        private_ip: Of the first control server.
        token: Of k3s servers.
    """
    known = f"{server_id}/{cluster_cidr}/{service_cidr}"
    if _TOKEN_OF_EARLIER_VERSIONS.fullmatch(token):
        return known
    return f"{known}/{private_ip}/{hashlib.sha256(token.encode()).hexdigest()[:16]}"


def identity_of(props: Mapping[str, Any]) -> str:
    """Of a control server's installation: a word that is another one when what replaces a K3sServer is."""
    replacing = [props[name] for name in K3sServerProvider.replaced_by]
    return hashlib.sha256(json.dumps(replacing).encode()).hexdigest()


def is_another_cluster(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Whether an agent must leave its cluster before it joins the one that is wanted.

    Another token alone is no reason: it is the one for agents, and earlier versions gave them the server's.
    Nor is another address: with several control servers it is of another one in the same cluster.
    """
    told = ("cluster",) if news.get("several") else ("cluster", "server_ip")
    return any(olds.get(name) != news[name] for name in told)


def is_upgrade(olds: Mapping[str, Any], news: Mapping[str, Any], release: k3s.Release) -> bool:
    """Whether an agent gets another k3s and stays in its cluster. Pure.

    A version that it has is none, though a channel brought it; where a channel leads that no control server
    has pinned, nobody knows.
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
    """The script for the properties of a K3sServer.

    Args:
        props: Its properties.
        start: How it starts, or did when it was new.
        cluster: The installation's identity, for a new one.
        had_store: Whether it was told of S3 before.
        waits: As ``k3s_scripts.server_script`` has it.
    """
    flags = k3s.server_flags(props)
    # the only one joins, too, where others of an earlier run still have the cluster
    if props.get("member") or (cluster and start.join):
        flags += k3s.member_flags(start.join)
    elif props.get("snapshots") or props.get("store"):
        # k3s takes snapshots of etcd alone
        flags += k3s.member_flags("")
    tokens = k3s.Tokens(props["token"], props["agent_token"])
    release = release_of(props)
    return k3s_scripts.server_script(
        # where a channel was changed, one that is made anew begins with it
        pinned(release, start.version) if follows(release, start.version) else release,
        k3s.addresses_of(props),
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

    Earlier versions noted nothing about the encryption of Secrets, and one that begins writes it by itself.
    """
    level, store = props.get("pod_security"), props.get("store")
    return {
        **({k3s.ENCRYPTION: k3s.ENCRYPTED} if props.get("encrypted") else {}),
        **({k3s.POD_SECURITY: k3s.pod_security_configuration(level)} if level else {}),
        **({k3s.STORE: settings_file(store)} if store else {}),
    }


def snapshot_of(props: Mapping[str, Any], start: Start) -> str:
    """The snapshot that a control server begins the cluster from, as k3s finds it there.

    Returns:
        Where a file of this machine is put, or a name in S3; empty: it begins from none, or joins.
    """
    given = props.get("restore_from")
    if not given or start.join:
        return ""
    return k3s.SNAPSHOT if (ROOT / given).is_file() else str(given)


def agent_script(props: Mapping[str, Any], release: k3s.Release, *, anew: bool) -> str:
    """The script for the properties of a K3sAgent.

    Args:
        props: Its properties.
        release: What is to be installed.
        anew: As ``k3s_scripts.agent_script`` has it.
    """
    at, flags = k3s.addresses_of(props), agent_flags(props)
    return k3s_scripts.agent_script(release, at, props["server_ip"], props["token"], flags=flags, anew=anew)


def agent_flags(props: Mapping[str, Any]) -> list[str]:
    """The flags of an agent beside those of every node; the state of earlier versions has none."""
    return k3s.pool_flags(props.get("node_labels") or {}, props.get("node_taints") or [])


async def run_on(host: Host, script: str, what: str, snapshot: bytes | None = None) -> str:
    """Runs an installation script, which may need a snapshot; returns what it printed."""
    async with connect(host) as shell:
        if snapshot:
            command = f"umask 077; cat > {k3s.SNAPSHOT}"
            await shell.feed(command, snapshot, what="sending the snapshot", timeout=INSTALL_SECONDS)
        return await shell.run(script, what=what, timeout=INSTALL_SECONDS)


def _has(said: str) -> dict[str, Any]:
    """What an installation script told of a control server."""
    return {"installed": installed_in(said), "encrypted": is_encrypted(said)}


def _brought(release: k3s.Release, installed: str) -> dict[str, str]:
    """What an installation adds to the properties of a K3sAgent."""
    return {"installed": installed, "release": json.dumps(dataclasses.astuple(release))}


def _asked_for(olds: Mapping[str, Any]) -> k3s.Release:
    """What a K3sAgent's k3s was installed from; earlier versions noted it as the settings had it, or not."""
    noted = olds.get("release")
    return k3s.Release(*json.loads(noted)) if noted else release_of(olds)


def _release_beside(props: Mapping[str, Any]) -> k3s.Release:
    """What a K3sAgent gets: what the settings name; with a channel alone, what its control servers have."""
    release = release_of(props)
    return release if release.version else pinned(release, asyncio.run(oldest_on(_controls(props))))


def _controls(props: Mapping[str, Any]) -> list[Host]:
    return [host_at(at, props["private_key"]) for at in props["controls"].values()]
