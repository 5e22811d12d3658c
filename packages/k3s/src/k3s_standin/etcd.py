"""The members of an embedded etcd: how one joins and leaves, and when a learner may vote.

etcd's client API has JSON, too, so no etcd client is needed. The decisions are k3s's (pkg/etcd/etcd.go):
names of members, messages, and the rights of members.
"""

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from k3s_standin import log
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.errors import K3sError

STALL_SECONDS = 300.0
"""If a learner can't be promoted for this number of seconds, the stand-in removes it, as k3s does."""


class MembershipError(K3sError):
    """This server can't be a member now."""


@dataclass(frozen=True)
class Member:
    """A member in etcd's list."""

    id: str  # of etcd
    name: str  # empty until it has started
    peers: tuple[str, ...]  # URLs for members
    clients: tuple[str, ...]  # URLs for clients; empty until it has started
    learner: bool  # whether it doesn't vote yet

    @property
    def node(self) -> str:
        """The name of its node: the part before the last hyphen."""
        return self.name.rpartition("-")[0] or self.name


def read_member(found: Mapping[str, Any]) -> Member:
    """A member from etcd's JSON, which omits empty values."""
    return Member(
        str(found.get("ID", "")),
        found.get("name", ""),
        tuple(found.get("peerURLs", ())),
        tuple(found.get("clientURLs", ())),
        bool(found.get("isLearner")),
    )


def describe(member: Member) -> dict[str, Any]:
    """A member in etcd's JSON."""
    return {
        "ID": member.id,
        "name": member.name,
        "peerURLs": list(member.peers),
        "clientURLs": list(member.clients),
        "isLearner": member.learner,
    }


def host(url: str) -> str:
    """The host of a URL."""
    return urlsplit(url).hostname or ""


@dataclass(frozen=True)
class Joining:
    """How a server joins."""

    cluster: str  # for etcd's ``--initial-cluster``
    add: bool  # whether it must be added; False if it was a member before


def plan_join(members: Sequence[Member], name: str, peer: str) -> Joining:
    """How a server joins these members."""
    known: list[str] = []
    add = True
    for member in members:
        ours = member.name in {"", name} and host(peer) in map(host, member.peers)
        if not ours and member.node == name.rpartition("-")[0]:
            raise MembershipError("duplicate node name found, please use a unique name for this node")
        add = add and not ours
        known += [f"{name if ours else member.name}={url}" for url in member.peers[:1]]
    return Joining(",".join([*known, *([f"{name}={peer}"] if add else [])]), add)


class Etcd:
    """A client of one member; every method raises ApiError if etcd refuses or does not answer."""

    def __init__(self, api: ApiClient) -> None:
        """Sends nothing."""
        self._api = api

    def members(self) -> list[Member]:
        """All members; without a quorum it fails."""
        found = self._api.request("POST", "/v3/cluster/member/list", {"linearizable": True})
        return [read_member(one) for one in found.get("members", [])]

    def add_learner(self, peer: str) -> None:
        """Add a member that votes later; refused while another learner exists or the quorum is at risk."""
        self._api.request("POST", "/v3/cluster/member/add", {"peerURLs": [peer], "isLearner": True})

    def promote(self, member: Member) -> bool:
        """Promote a learner; False if it has not caught up."""
        try:
            self._api.request("POST", "/v3/cluster/member/promote", {"ID": member.id})
        except ApiError:
            return False
        return True

    def remove(self, member: Member) -> None:
        """Remove a member; a missing one is fine."""
        try:
            self._api.request("POST", "/v3/cluster/member/remove", {"ID": member.id})
        except ApiError as error:
            if error.status != 404:
                raise

    def move(self, member: Member, peer: str) -> None:
        """Set a member's peer URL."""
        self._api.request("POST", "/v3/cluster/member/update", {"ID": member.id, "peerURLs": [peer]})

    def status(self) -> Mapping[str, Any]:
        """The status of this member."""
        return self._api.request("POST", "/v3/maintenance/status", {})

    def snapshot(self) -> Iterator[bytes]:
        """The whole content in parts, with its checksum at the end."""
        for part in self._api.stream("POST", "/v3/maintenance/snapshot", {}):
            if "result" not in part:
                raise ApiError(0, f"the snapshot broke off: {part}")
            yield base64.b64decode(part["result"].get("blob", ""))

    def below(self, prefix: str) -> dict[str, bytes]:
        """The keys with a prefix, and their values."""
        key, end = prefix.encode(), prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1])
        asked = {"key": _base64(key), "range_end": _base64(end)}
        found = self._api.request("POST", "/v3/kv/range", asked)
        return {
            base64.b64decode(one["key"]).decode(): base64.b64decode(one.get("value", ""))
            for one in found.get("kvs", [])
        }

    def put(self, key: str, value: bytes) -> None:
        """Set a key."""
        self._api.request("POST", "/v3/kv/put", {"key": _base64(key.encode()), "value": _base64(value)})

    def leads(self) -> bool:
        """Whether this member is the leader."""
        status = self.status()
        return status.get("leader", "0") == status["header"]["member_id"]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def is_member(etcd: Etcd, name: str, peer: str) -> bool:
    """Whether a server votes; False while its etcd does not answer, or it is a learner."""
    try:
        if etcd.status().get("isLearner"):
            return False
        return any(one.name == name and peer in one.peers for one in etcd.members())
    except ApiError:
        return False


def remove_node(etcd: Etcd, name: str, address: str) -> None:
    """Remove the member with this name and this address, if it exists."""
    for member in etcd.members():
        if member.name == name and address in map(host, member.peers):
            log.info(f"Removing name={name} id={member.id} address={address} from etcd")
            etcd.remove(member)


@dataclass
class Learners:
    """Promotes learners if this server's member leads, and removes those that never catch up.

    k3s checks every 15 seconds; here each call checks.
    """

    etcd: Etcd  # this server's member
    now: Callable[[], float] = time.monotonic  # seconds by any clock
    _since: dict[str, float] = field(default_factory=dict, init=False)

    def look(self) -> None:
        """Check once."""
        if not self.etcd.leads():
            self._since.clear()
            return
        learners = [one for one in self.etcd.members() if one.learner]
        self._since = {one.id: self._since.get(one.id, self.now()) for one in learners}
        for learner in learners:
            if self.etcd.promote(learner):
                log.info(f"Promoted learner {learner.name}")
            elif self.now() - self._since[learner.id] > STALL_SECONDS:
                self.etcd.remove(learner)
                log.warning(f"Removed learner {learner.name} from etcd cluster")
