"""Which servers a run may delete or replace: checked in the preview, and before the first deletion.

An existing server is replaced only if an input of the program changed, and never because of drift. These
resources ensure that; the first one comes before the servers, the others after them:

- ``ServerPlan`` compares the inputs of the program with those of the last run. From that it computes a
  revision of each server, which is the server's ``replacement_trigger``. The server itself ignores changes of
  the same properties, so drift never replaces it.
- ``ServerGuard`` has the IDs of the servers as inputs. Pulumi asks it for a diff in every preview, and before
  it deletes a server that it replaces: then the ID is unknown (``calculateDependentReplacements`` in
  pulumi/pkg/resource/deploy/step_generator.go). The guard refuses a plan that loses a cluster, whatever
  its cause, such as ``--replace`` or another version of a plugin.
- ``InstallationGuard`` does the same for k3s on a server that stays: another range or token, or ``--replace``
  of the ``K3sServer``, removes the installation with its data.

Before a deletion Pulumi calls the guards with the inputs of the last run. So ``ServerPlan.check`` keeps the
current inputs in the memory of the process that serves all of them.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, DiffResult

from ..config.labels import MANAGED_BY, MANAGER
from ..config.server_spec import Kind, ServerSpec, has_several_controls, resized_in_place
from ..lib.cloud_api import fetch_or_none, fetcher, read_server
from ..lib.dynamic import CloudProvider, ProviderResource, is_unknown
from ..lib.errors import ConfigurationError, InfraError, Problem, listed
from .snapshot_images import unfit_now

IGNORED = (
    "image", "location", "sshKeys", "backups", "serverType", "publicNets", "networks", "placementGroupId",
)  # fmt: skip
"""Pulumi ignores changes of these server properties. Otherwise, the official plugin would replace the server
if ``image``, ``location`` or ``sshKeys`` changes. It would disable ``backups`` that were enabled in Hetzner's
Console, which deletes all existing backups. To change the other properties, it would require that the server
is off (``Resource`` in internal/server/resource.go). ``ServerState`` changes the server type."""

_TYPE = "serverType"
_ID = "id:"
_INSTALLATION = "installation:"


@dataclass(frozen=True)
class Made:
    """The inputs of a server."""

    name: str
    # A change of these replaces the server. Each has one value or more, and has changed if all of them
    # differ: a server at a fallback has the wanted value and the actual one.
    inputs: Mapping[str, Sequence[str]]
    is_control: bool = False
    rolls: bool = False  # whether its change waits until the servers before it are ready
    in_place: Sequence[str] = ()  # inputs that change without a replacement, or that the server already has
    held: str = ""  # the revision that the server was made with; empty: unknown
    image: str = ""
    server_type: str = ""


@dataclass(frozen=True)
class Old:
    """A server of the last run that exists, with its ID in the cloud."""

    id: str
    made: Made


def made_of(
    servers: Sequence[ServerSpec], existing: Collection[str], held: Mapping[str, str] | None = None
) -> dict[str, Made]:
    """The inputs of each server, by role; ``held`` are the revisions that existing ones were made with."""
    held = held or {}
    # A control server that others can replace is drained and checks their quorum before its rollout
    # continues. A single one is not, even if the same run adds others.
    several, resized = has_several_controls(servers, existing), resized_in_place(servers, existing)
    made = {}
    for server in servers:
        is_control = server.kind is Kind.CONTROL
        inputs = {
            "name": [server.name],
            "location": [server.wanted.location, server.placement.location],
            "publicIpv4": [str(server.is_public)],
        }
        if server.kind is not Kind.NAT:
            # another NAT server would have another address, which all servers behind it use
            inputs["image"] = [server.image]
        inputs[_TYPE] = server.types
        if server.group_is_set:
            inputs["placementGroup"] = [server.group or ""]
        made[server.role] = Made(
            server.name,
            inputs,
            is_control=is_control,
            rolls=several and is_control and server.role in existing,
            # Without its revision, an unfinished change of the type could not be undone.
            in_place=[_TYPE] if server.role in resized or (server.has_type and server.role in held) else [],
            held=held.get(server.role, ""),
            image=server.image,
            server_type=server.placement.server_type,
        )
    return made


def changed(before: Made, after: Made) -> list[str]:
    """Names of changed inputs that replace the server. An input that only one of them has doesn't count,
    because earlier versions recorded fewer.
    """
    common = before.inputs.keys() & after.inputs.keys() - {*after.in_place}
    return sorted(
        name
        for name in common
        if all(old != new for old, new in zip(before.inputs[name], after.inputs[name], strict=False))
    )


def going(olds: Mapping[str, Old], wanted: Mapping[str, Made]) -> set[str]:
    """Roles of servers that the program deletes or replaces."""
    return {role for role, old in olds.items() if role not in wanted or changed(old.made, wanted[role])}


def refusals(
    olds: Mapping[str, Old], wanted: Mapping[str, Made], lost: Collection[str], allowed: Collection[str]
) -> dict[str, str]:
    """Why servers must not be deleted, by their IDs."""
    members = _members(olds)
    leaving = [role for role in members if role in lost]
    # in a rollout they are unavailable one at a time, each after a check of the quorum
    together = [role for role in leaving if role in wanted and not wanted[role].rolls]
    last = loses_cluster(olds, wanted, lost)
    reasons: dict[str, str] = {}
    for role in sorted(lost):
        old = olds[role]
        if old.id in allowed:
            continue
        why = []
        if role in leaving and last:
            why.append("the cluster and its data would be lost, because no control server is left")
        elif role in together and len(together) > (len(members) - 1) // 2:
            why.append(f"etcd would lose {len(together)} of {len(members)} members at the same time")
        if role in wanted and not changed(old.made, wanted[role]):
            why.append("none of the changed settings requires a new server")
        if why:
            what = "deleted and created again" if role in wanted else "deleted"
            reasons[old.id] = f"{old.made.name} ({old.id}) would be {what}: {', and '.join(why)}"
    return reasons


def loses_cluster(olds: Mapping[str, Old], wanted: Mapping[str, Made], lost: Collection[str]) -> bool:
    """Whether no control server with the cluster's data is left."""
    members = _members(olds)
    # in a rollout they join again one by one
    rolling = any(role in wanted and wanted[role].rolls for role in members)
    return bool(members) and not rolling and all(role in lost for role in members)


def _members(olds: Mapping[str, Old]) -> list[str]:
    return [role for role, old in olds.items() if old.made.is_control]


def revision(made: Made) -> str:
    """A hash of the server's inputs."""
    return hashlib.sha256(json.dumps(asdict(made)["inputs"], sort_keys=True).encode()).hexdigest()[:16]


def next_revision(before: Made | None, made: Made, known: str | None) -> str:
    """The revision of a server whose last plan had the inputs ``before`` and the revision ``known``."""
    fresh = revision(made)
    if before is None or known is None:
        return fresh
    replacing, retyped = changed(before, made), before.inputs.get(_TYPE) != made.inputs.get(_TYPE)
    if not replacing:
        # Somebody chose the new type at Hetzner before, or a change to another type didn't finish.
        return made.held if retyped and made.held else known
    # The server's revision is of its former type, and the program goes back to that.
    return f"{fresh}-" if _TYPE in replacing and fresh == made.held else fresh


@dataclass(frozen=True)
class Asked:
    """The inputs of the program in this run."""

    servers: Mapping[str, Made]
    allowed: Collection[str]  # IDs of servers and installations that may be lost
    restores: bool = False  # whether a snapshot has the cluster if no control server has it


_NOTHING = Asked({}, ())  # with --target Pulumi checks no other resource
_asked: dict[str, Asked] = {}
"""Maps the name of each cluster to the program's inputs, which stay valid: a process serves one run."""


class ServerPlanProvider(CloudProvider):
    """Compares the inputs of the program with those of the last run."""

    id_format = "{cluster}"

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Adds the revisions, so that a preview knows them. Fails if a server would be replaced, and the
        cloud can't make another one.
        """
        servers = _made(news["servers"])
        _asked[news["cluster"]] = Asked(servers, frozenset(news["allowed"]), bool(news.get("restores")))
        before = _made(_olds.get("servers") or {})
        known = _olds.get("revisions") or {}
        same = {role for role in before.keys() & servers.keys() if not changed(before[role], servers[role])}
        self._refuse_unfit([made for role, made in servers.items() if role in before and role not in same])
        revisions = {
            role: next_revision(before.get(role), made, known.get(role)) for role, made in servers.items()
        }
        return CheckResult({**news, "revisions": revisions}, [])

    def _refuse_unfit(self, replaced: Sequence[Made]) -> None:
        """Checks each image and type once. Without a replacement this needs no request."""
        names: dict[tuple[str, str], list[str]] = {}
        for made in replaced:
            names.setdefault((made.image, made.server_type), []).append(made.name)
        problems = [
            Problem(f"image of {', '.join(servers)}", image, why)
            for (image, server_type), servers in names.items()
            if (why := unfit_now(fetcher(self.cloud()), image, server_type))
        ]
        if problems:
            raise ConfigurationError(problems)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares the inputs; nothing replaces the plan."""
        return DiffResult(changes=_lasting(_olds) != _lasting(_news), replaces=[])


class ServerPlan(ProviderResource, provider=ServerPlanProvider):
    """The inputs of a cluster's servers.

    Its own inputs are the name of the ``cluster``, the ``servers`` by role, the IDs of servers that are
    ``allowed`` to be deleted or replaced, and whether a lost cluster ``restores`` from a snapshot (None: no).
    """

    revisions: pulumi.Output[Mapping[str, str]]


class ServerGuardProvider(CloudProvider):
    """Refuses plans that lose a cluster."""

    id_format = "{cluster}"

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares IDs; a server with an unknown one is replaced. Fails if it must not be deleted, or if its
        network or subnet must not be replaced.
        """
        self._keep_network(_olds, _news)
        asked = _asked.get(_news["cluster"], _NOTHING)
        before, ids = _made(_olds["servers"]), ids_of(_olds)
        olds = {role: Old(number, before[role]) for role, number in ids.items() if role in before}
        now = ids_of(_news)  # an unknown ID is another one, too
        others = {role for role in olds if now.get(role) != ids[role]}
        lost = others if asked is _NOTHING else others | going(olds, asked.servers)
        if self.refusals(olds, lost, asked, _olds):
            # a server that was deleted by hand is created again: this plan does not lose it
            olds = {
                role: old
                for role, old in olds.items()
                if role not in lost or read_server(self.cloud(), old.id)
            }
            if found := self.refusals(olds, lost & olds.keys(), asked, _olds):
                raise InfraError(_refusal(found, _news["switch"]))
        # in a preview of any change of k3s its installation is unknown, but it rarely changes
        unknown = [name for name in _news if name.startswith(_INSTALLATION) and is_unknown(_news[name])]
        same = {name: _olds.get(name) for name in unknown}
        return DiffResult(changes=_lasting(_olds) != _lasting({**_news, **same}), replaces=[])

    def _keep_network(self, olds: Mapping[str, Any], news: Mapping[str, Any]) -> None:
        """Fails if a network would be replaced, or the subnet of a network of our own or of several control
        servers, and it exists. Pulumi doesn't delete the subnet of an imported network.
        """
        others = {name for name in ("network", "subnet") if olds.get(name) and news.get(name) != olds[name]}
        body = fetch_or_none(fetcher(self.cloud()), f"/networks/{olds['network']}") if others else None
        if body is None:
            return
        if "network" in others:
            raise InfraError(_KEEPS_NETWORK.format(olds["network"]))
        ranges = {each["ip_range"] for each in body["network"]["subnets"]}
        several = sum(made.is_control for made in _made(olds["servers"]).values()) > 1
        is_own = body["network"]["labels"].get(MANAGED_BY) == MANAGER
        if (several or is_own) and olds["subnet"].partition("-")[2] in ranges:
            raise InfraError(_KEEPS_SUBNET.format(olds["subnet"]))

    def refusals(
        self, olds: Mapping[str, Old], lost: Collection[str], asked: Asked, noted: Mapping[str, Any]
    ) -> dict[str, str]:
        """Why servers must not be lost, by the ID that allows it."""
        del noted
        return refusals(olds, asked.servers, lost, asked.allowed)


def _refusal(reasons: Mapping[str, str], switch: str) -> str:
    """The error text: reasons by ID, and ``switch``, the change that allows the plan (``{}``: the IDs)."""
    return (
        "the plan would delete servers that the cluster needs. No server was changed\n"
        f"{listed(reasons.values())}\n"
        "Undo the change or the option that causes the deletion. To delete these servers anyway: "
        f"{switch.replace('{}', json.dumps([*reasons]))}; then repeat the command. New servers "
        "and new k3s installations get other IDs, so the setting doesn't allow their deletion"
    )


_KEEPS_NETWORK = (
    "the network {0} would be replaced, and was not changed. Hetzner would detach autoscaled servers, load "
    "balancers and servers of other programs from it, and delete its other subnets and routes. Set "
    "networkCidr to the range that the network has at Hetzner, and remove the network from --replace. To "
    "enlarge the network, first run: hcloud network change-ip-range {0} --ip-range RANGE"
)
_KEEPS_SUBNET = (
    "the subnet {0} can't be replaced: all servers would be detached from it at the same time, and Hetzner "
    "only deletes a subnet that is empty. Nothing was changed. Remove the subnet from --replace and "
    "--target-replace. If you changed networkZone or subnetCidr, restore its value. To use another subnet, "
    "create another cluster"
)


class ServerGuard(ProviderResource, provider=ServerGuardProvider):
    """The servers of a cluster as they are in the cloud.

    Inputs are those of a ``ServerPlan``, ``guard_inputs`` of the IDs, the IDs of their ``network`` and
    ``subnet``, and the ``switch``: the change that allows the plan, in which ``{}`` stands for the IDs.
    """


class InstallationGuardProvider(ServerGuardProvider):
    """Refuses plans that install k3s from scratch on the last control server that has the cluster's data.

    If all control servers were deleted outside of the program, it also refuses an empty cluster in place of
    theirs: before it begins, or at the latest before anything of the former one is deleted.
    """

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares IDs and installations. Fails if the cluster would be lost, or is lost."""
        result = super().diff(_id, _olds, _news)
        asked, servers = _asked.get(_news["cluster"], _NOTHING), _made(_olds["servers"])
        ids = {role: number for role, number in ids_of(_olds).items() if role in servers}
        identities = {role: _identity(old, _olds.get(_INSTALLATION + role)) for role, old in ids.items()}
        if asked is _NOTHING or all({ids[role], identities[role]} & {*asked.allowed} for role in ids):
            return result
        now, started = ids_of(_news), _news.get("started_empty")
        known = {_olds.get(_INSTALLATION + role) for role in ids} - {None}
        stays = {*ids.values()} & {*now.values()}
        if known and started and not (stays or is_unknown(started) or started in known):
            state = "An empty cluster runs on the new control servers"
        elif self._none_is_left(ids, now, asked):
            state = "The run would start an empty cluster"
        else:
            return result
        names = [f"{servers[role].name} ({number})" for role, number in ids.items()]
        raise InfraError(
            "no control server of the existing cluster is left in this Hetzner project. These control "
            f"servers are missing:\n{listed(names)}\n{state}. The next step would delete the load balancers "
            "of the cluster's Services and the local volumes of its workers. To restore the cluster from a "
            "snapshot, see docs/guides/backup-and-restore.md. To continue with an empty cluster: "
            f"{_news['switch'].replace('{}', json.dumps([*identities.values()]))}; then repeat the command"
        )

    def _none_is_left(self, before: Mapping[str, str], now: Mapping[str, str], asked: Asked) -> bool:
        """Whether no control server exists, and none that could have joined the others."""
        rolls = any(made.rolls for made in asked.servers.values())
        if asked.restores or rolls or before == now:
            return False
        # an unknown ID is not a number
        return not any(number.isdigit() and read_server(self.cloud(), number) for number in now.values())

    def refusals(
        self, olds: Mapping[str, Old], lost: Collection[str], asked: Asked, noted: Mapping[str, Any]
    ) -> dict[str, str]:
        """Refuses to lose the last installation, unless its ID or its server's is allowed."""
        if not loses_cluster(olds, asked.servers, lost):
            return {}
        reasons: dict[str, str] = {}
        for role in sorted(lost):
            old = olds[role]
            installation = noted.get(_INSTALLATION + role)
            identity = _identity(old.id, installation)
            if not {identity, old.id} & {*asked.allowed}:
                reasons[identity] = (
                    f"k3s on {old.made.name} ({old.id}) would be removed and installed again. The cluster "
                    "and its data would be lost, because no other control server has them"
                )
        return reasons


def _identity(server_id: str, installation: str | None) -> str:
    """The ID of an installation; the state of earlier versions has only the server's."""
    return f"{server_id}/{installation}" if installation else server_id


class InstallationGuard(ProviderResource, provider=InstallationGuardProvider):
    """k3s on the control servers of a cluster. Inputs are those of a ``ServerGuard``, with installations
    instead of the network. ``started_empty`` is the installation that started an empty cluster (None: none).
    """


def guard_inputs(
    ids: Mapping[str, pulumi.Input[str]], installations: Mapping[str, pulumi.Input[str]] | None = None
) -> dict[str, pulumi.Input[str]]:
    """Inputs of a guard. Before a deletion Pulumi makes those unknown that may change."""
    installed = {_INSTALLATION + role: text for role, text in (installations or {}).items()}
    return {**{_ID + role: number for role, number in ids.items()}, **installed}


def ids_of(props: Mapping[str, Any]) -> dict[str, str]:
    """IDs of servers in the properties of a ``ServerGuard``, by role."""
    return {key.removeprefix(_ID): str(value) for key, value in props.items() if key.startswith(_ID)}


def _lasting(props: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs without those that depend on the servers of one run."""
    servers = {
        role: {name: value for name, value in made.items() if name not in {"rolls", "in_place", "held"}}
        for role, made in (props.get("servers") or {}).items()
    }
    rest = {
        name: value
        for name, value in props.items()
        if name not in {"__provider", "servers", "restores", "started_empty"}
    }
    return {**rest, "servers": servers}


def _made(servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Made]:
    return {role: Made(**made) for role, made in servers.items()}
