"""This server's datastore: a private one, or a member of the cluster's etcd.

As in k3s, a server without ``--cluster-init`` and ``--server`` has a datastore that no server can join; k3s
uses SQLite, the stand-in an etcd with one member that listens on loopback. ``--cluster-init`` converts it, at
any start. A server keeps its kind: the member's name is in a file beside the data.
"""

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from k3s_standin import bootstrap, log, paths, pki
from k3s_standin.api import TIMEOUT_SECONDS, ApiClient, ApiError
from k3s_standin.certificates import write_secret
from k3s_standin.control_plane import ControlPlane, EtcdMember
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Etcd, Member, host, is_member, plan_join, read_member
from k3s_standin.supervisor import Supervisor

PROBE_SECONDS = 1.0
"""The timeout in seconds of one request that checks whether etcd responds. etcd accepts connections long
before it responds to requests."""
REMOVED = "the member has been permanently removed from the cluster"
"""etcd logs this message if another member has removed this member from the cluster. etcd then exits."""


@dataclass(frozen=True)
class Datastore:
    """Etcd's data folder and its marker files."""

    folder: Path = paths.SERVER / "db" / "etcd"  # of etcd's data

    @property
    def _name(self) -> Path:
        return self.folder / "name"

    @property
    def _tombstone(self) -> Path:
        return self.folder / "tombstone"

    @property
    def initialized(self) -> bool:
        """Whether this server is or was a member of an etcd that others can join."""
        return self._name.exists() and (self.folder / "member" / "wal").is_dir()

    def name(self, node: str, *, joins: bool, managed: bool) -> str:
        """The name of this server's member; empty for a private datastore."""
        if self._tombstone.exists():
            self._put_aside("tombstone file has been detected, removing data dir to rejoin the cluster")
        elif joins and not self._name.exists() and self.folder.exists():
            self._put_aside(
                "renaming the previous datastore's data folder, because this server joins an existing cluster"
            )
        if self._name.exists():
            return self._name.read_text()
        if not joins and not managed:
            return ""
        name = f"{node}-{secrets.token_hex(4)}"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(self._name, name)
        return name

    def rename(self, node: str) -> str:
        """Give this server's member a new name, as every reset does."""
        self.forget_name()
        return self.name(node, joins=False, managed=True)

    def put_aside(self) -> None:
        """Rename the data of etcd, if there is any."""
        if self.folder.exists():
            self._put_aside("renaming the old data folder of etcd before the restore")

    @property
    def reset_flag(self) -> Path:
        """Exists from a reset to the next start."""
        return self.folder.with_name("reset-flag")

    def forget_name(self) -> None:
        """Choose a new name at the next start."""
        self._name.unlink(missing_ok=True)

    def bury(self, log_of_etcd: str) -> None:
        """Record that etcd ended because this member was removed: the next start begins without its data."""
        if REMOVED in log_of_etcd:
            write_secret(self._tombstone, "")

    def _put_aside(self, why: str) -> None:
        log.info(why)
        self.folder.rename(self.folder.with_name(f"etcd-old-{int(time.time())}"))


def client(wanted: ControlPlane, url: str = "", seconds: float = TIMEOUT_SECONDS) -> Etcd:
    """A client of a member."""
    access = (
        wanted.pki.etcd_authority.certificate,
        wanted.pki.certificate(pki.ETCD_CLIENT),
        wanted.pki.key(pki.ETCD_CLIENT),
    )
    return Etcd(ApiClient(url or wanted.etcd_url, *access, seconds))


def join(wanted: ControlPlane, member: EtcdMember, supervisor: Supervisor) -> ControlPlane:
    """Become a learner of another server's cluster; returns the settings for etcd's first start.

    MembershipError if another node has this name.
    """
    authority = wanted.pki.server_authority.certificate
    known = [
        read_member(one)
        for one in json.loads(supervisor.request("GET", bootstrap.MEMBERS, authority)).get("members", [])
    ]
    errors: list[str] = []
    for url in client_urls(known, member.address):
        etcd = client(wanted, url)
        try:
            plan = plan_join(etcd.members(), member.name, wanted.peer_url)
            if plan.add:
                log.info(f"Adding member {member.name}={wanted.peer_url} to etcd cluster {plan.cluster}")
                etcd.add_learner(wanted.peer_url)
        except ApiError as error:
            errors.append(str(error))
            continue
        return replace(wanted, member=replace(member, cluster=plan.cluster))
    raise K3sError(f"ETCD join failed: {'; '.join(errors) or 'there is no other voting member'}")


def client_urls(members: Sequence[Member], address: str) -> list[str]:
    """Where to ask to join: the voting members, without this server's."""
    return [
        url
        for member in members
        if not member.learner and address not in map(host, member.clients)
        for url in member.clients
    ]


def serves_clients(wanted: ControlPlane) -> bool:
    """Whether this server's etcd serves clients: a member begins when the others have received its name.

    Since etcd 3.6, new members of a cluster with a hundred writes start from a snapshot. They may miss that
    moment: connections drop, or the snapshot has the name already. Such a member retries 15 seconds later (5,
    and twice k3s's election timeout), or immediately after a restart.
    """
    try:
        client(wanted, seconds=PROBE_SECONDS).status()
    except ApiError:
        return False
    return True


def votes(wanted: ControlPlane, member: EtcdMember) -> bool:
    """Whether this server's member votes and has its address.

    A single member that only listened on loopback moves to an address that others can reach.
    """
    etcd = client(wanted, seconds=PROBE_SECONDS)
    if is_member(etcd, member.name, wanted.peer_url):
        return True
    try:
        members = etcd.members()
        if len(members) == 1 and wanted.peer_url not in members[0].peers:
            log.info(f"Changing the peer URL of the only etcd member to {wanted.peer_url}")
            etcd.move(members[0], wanted.peer_url)
    except ApiError:
        return False
    return False
