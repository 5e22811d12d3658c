"""Which servers a run may delete or replace: checked in the preview, and before the first deletion.

A server that exists is replaced only because an input of the program has changed. Drift is no reason. Two
resources see to that, one before the servers and one after them:

- ``ServerPlan`` compares what the program asks for with what it asked for in the last run. Out of this it
  makes a revision of each server, which is the server's ``replacement_trigger``. The server itself ignores
  changes of the same properties, so the refreshed state of the cloud never replaces it.
- ``ServerGuard`` has the IDs of the servers as inputs. Pulumi asks it for a diff in every preview, and before
  it deletes a server that it replaces: then the ID is unknown (``calculateDependentReplacements`` in
  pulumi/pkg/resource/deploy/step_generator.go). The guard refuses a plan that loses a cluster, whatever has
  led to it, such as ``--replace`` or another version of a plugin.
- ``InstallationGuard`` does the same for k3s on a server that stays: another range or token, or ``--replace``
  of the ``K3sServer``, removes the installation with its data.

Before a deletion Pulumi asks the guards with the inputs of the last run. So ``ServerPlan.check`` leaves what
the program asks for now in the memory of the process that serves all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, CreateResult, DiffResult

from ..config.placement import Choice
from ..config.server_spec import Kind, ServerSpec, has_several_controls, resized_in_place
from ..lib.cloud_api import fetcher, read_server
from ..lib.dynamic import CloudProvider, ProviderResource, is_unknown
from ..lib.errors import ConfigurationError, InfraError, Problem, listed
from .snapshot_images import unfit_now

IGNORED = ("image", "location", "sshKeys", "serverType", "publicNets", "networks", "placementGroupId")
"""Properties of a server whose changes Pulumi ignores: with the official plugin the first three replace it,
and the others need it to be off (``Resource`` in terraform-provider-hcloud's internal/server/resource.go).
``ServerState`` changes the type in place, where the program asks for that."""

_ID = "id:"
_INSTALLATION = "installation:"


@dataclass(frozen=True)
class Made:
    """What a server is made of, as the program asks for it.

    Attributes:
        name: In the cloud.
        inputs: What needs another server when it changes. Each has one value or more, and has changed when
            all of them are others: a server that stands at a fallback has what is wanted, and what it got.
        is_control: Whether it is a control server.
        rolls: Whether its change waits until the servers before it are back.
        in_place: Those of the inputs that change without another server.
        image: Of which it is made when it is new.
        server_type: Of which it is then.
    """

    name: str
    inputs: Mapping[str, Sequence[str]]
    is_control: bool = False
    rolls: bool = False
    in_place: Sequence[str] = ()
    image: str = ""
    server_type: str = ""


@dataclass(frozen=True)
class Old:
    """A server of the last run that exists.

    Attributes:
        id: In the cloud.
        made: What it was made of.
    """

    id: str
    made: Made


def made_of(
    servers: Sequence[ServerSpec], choices: Mapping[str, Choice], existing: Collection[str]
) -> dict[str, Made]:
    """What each server is made of, by role. Pure.

    Args:
        servers: The wanted ones.
        choices: Where servers stand, by role; the others stand where the settings want them.
        existing: Roles of servers that exist before the run.
    """
    # A control server that others can replace is drained and checks their quorum before its rollout
    # continues: not the only one, to which others come in the same run.
    several, resized = has_several_controls(servers, existing), resized_in_place(servers, existing)
    made = {}
    for server in servers:
        choice, is_control = server.chosen(choices), server.kind is Kind.CONTROL
        inputs = {
            "name": [server.name],
            "location": [choice.wanted.location, choice.placement.location],
            "publicIpv4": [str(server.is_public)],
        }
        if server.kind is not Kind.NAT:
            # another NAT server would have another address, and all that is reached through it would change
            inputs["image"] = [server.image]
        inputs["serverType"] = choice.types
        if server.group_is_set:
            inputs["placementGroup"] = [server.group or ""]
        made[server.role] = Made(
            server.name,
            inputs,
            is_control=is_control,
            rolls=several and is_control and server.role in existing,
            in_place=["serverType"] if server.role in resized else [],
            image=server.image,
            server_type=choice.placement.server_type,
        )
    return made


def changed(before: Made, after: Made) -> list[str]:
    """Names of the inputs whose change needs another server. Pure.

    An input that only one of both has is no change, because earlier versions noted fewer.
    """
    common = before.inputs.keys() & after.inputs.keys() - {*after.in_place}
    return sorted(
        name
        for name in common
        if all(old != new for old, new in zip(before.inputs[name], after.inputs[name], strict=False))
    )


def going(olds: Mapping[str, Old], wanted: Mapping[str, Made]) -> set[str]:
    """Roles of servers that the program deletes or replaces. Pure."""
    return {role for role, old in olds.items() if role not in wanted or changed(old.made, wanted[role])}


def refusals(
    olds: Mapping[str, Old], wanted: Mapping[str, Made], lost: Collection[str], allowed: Collection[str]
) -> dict[str, str]:
    """Why servers must not be deleted, by their IDs. Pure.

    Args:
        olds: Servers that exist, by role.
        wanted: What the program asks for now, by role.
        lost: Roles of those of the servers that would be deleted or replaced.
        allowed: IDs of servers that may be.
    """
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
            why.append("the cluster and its data are lost, because no control server is left")
        elif role in together and len(together) > (len(members) - 1) // 2:
            why.append(f"etcd loses {len(together)} of {len(members)} members at the same time")
        if role in wanted and not changed(old.made, wanted[role]):
            why.append("no setting has changed that needs another server")
        if why:
            what = "deleted and created again" if role in wanted else "deleted"
            reasons[old.id] = f"{old.made.name} ({old.id}) would be {what}: {', and '.join(why)}"
    return reasons


def loses_cluster(olds: Mapping[str, Old], wanted: Mapping[str, Made], lost: Collection[str]) -> bool:
    """Whether no control server is left that has the cluster's data. Pure.

    Args:
        olds: Servers that exist, by role.
        wanted: What the program asks for now, by role.
        lost: Roles of those of the servers whose data goes.
    """
    members = _members(olds)
    # those that roll join again one after the other
    rolling = any(role in wanted and wanted[role].rolls for role in members)
    return bool(members) and not rolling and all(role in lost for role in members)


def _members(olds: Mapping[str, Old]) -> list[str]:
    return [role for role, old in olds.items() if old.made.is_control]


def revision(made: Made) -> str:
    """A text that differs for servers that are made of something else."""
    return hashlib.sha256(json.dumps(asdict(made)["inputs"], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Asked:
    """What a program asks for in this run.

    Attributes:
        servers: By role.
        allowed: What may be lost.
    """

    servers: Mapping[str, Made]
    allowed: Collection[str]


_NOTHING = Asked({}, ())  # with --target Pulumi checks no other resource
_asked: dict[str, Asked] = {}
"""By cluster; of this process, which serves one run."""


class ServerPlanProvider(CloudProvider):
    """Notes what the program asks for, and compares it with the last run."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Adds the revisions, so that a preview knows them.

        Raises:
            ConfigurationError: A server would be replaced, and no other one can be made.
            CloudError: The cloud could not be asked for that.
        """
        servers = _made(news["servers"])
        _asked[news["cluster"]] = Asked(servers, frozenset(news["allowed"]))
        before = _made(_olds.get("servers") or {})
        known = _olds.get("revisions") or {}
        same = {role for role in before.keys() & servers.keys() if not changed(before[role], servers[role])}
        self._refuse_unfit([made for role, made in servers.items() if role in before and role not in same])
        revisions = {
            role: known[role] if role in known and role in same else revision(made)
            for role, made in servers.items()
        }
        return CheckResult({**news, "revisions": revisions}, [])

    def _refuse_unfit(self, replaced: Sequence[Made]) -> None:
        """Of one cluster servers are made of few images, and there is nothing to ask where none changes."""
        names: dict[tuple[str, str], list[str]] = {}
        for made in replaced:
            names.setdefault((made.image, made.server_type), []).append(made.name)
        problems = [
            Problem(f"image of {', '.join(of_it)}", image, why)
            for (image, server_type), of_it in names.items()
            if (why := unfit_now(fetcher(self.cloud()), image, server_type))
        ]
        if problems:
            raise ConfigurationError(problems)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares what servers are made of; nothing replaces the plan."""
        return DiffResult(changes=_lasting(_olds) != _lasting(_news), replaces=[])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes it."""
        return CreateResult(props["cluster"], dict(props))


class ServerPlan(ProviderResource, provider=ServerPlanProvider):
    """What the servers of a cluster are made of.

    Inputs are the ``cluster``, which tells it from others of the same program, the ``servers`` by role, and
    the IDs of servers that are ``allowed`` to be deleted or replaced, whatever the reason.
    """

    revisions: pulumi.Output[Mapping[str, str]]


class ServerGuardProvider(CloudProvider):
    """Refuses plans."""

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares the IDs; an unknown one is that of a server that is replaced.

        Raises:
            InfraError: A server must not be deleted.
            CloudError: The cloud could not be asked whether a server is still there.
        """
        asked = _asked.get(_news["cluster"], _NOTHING)
        before, ids = _made(_olds["servers"]), ids_of(_olds)
        olds = {role: Old(number, before[role]) for role, number in ids.items() if role in before}
        others = {role for role in olds if _is_other(_news.get(_ID + role), ids[role])}
        lost = others if asked is _NOTHING else others | going(olds, asked.servers)
        if self.refusals(olds, lost, asked, _olds):
            # a server that somebody has deleted is created again, and nothing is lost by that
            olds = {
                role: old
                for role, old in olds.items()
                if role not in lost or read_server(self.cloud(), old.id)
            }
            if found := self.refusals(olds, lost & olds.keys(), asked, _olds):
                raise InfraError(_refusal(found, _news["switch"]))
        # in a preview of any change of k3s, its installation is unknown, and nearly always what it was
        same = {name: _olds.get(name) for name in _news if _is_unknown_installation(name, _news[name])}
        return DiffResult(changes=_lasting(_olds) != _lasting({**_news, **same}), replaces=[])

    def refusals(
        self, olds: Mapping[str, Old], lost: Collection[str], asked: Asked, noted: Mapping[str, Any]
    ) -> dict[str, str]:
        """Why servers must not be lost, by what allows it.

        Args:
            olds: Servers that exist, by role.
            lost: Roles of those of them that would be lost.
            asked: What the program asks for.
            noted: Properties of the last run.
        """
        del noted
        return refusals(olds, asked.servers, lost, asked.allowed)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes the IDs."""
        return CreateResult(props["cluster"], dict(props))


def _refusal(reasons: Mapping[str, str], switch: str) -> str:
    """Why servers, or k3s on them, must stay, by ID, and what to type to go on: ``{}`` stands for the IDs."""
    return (
        "the plan deletes what must stay; none of these servers was changed\n"
        f"{listed(reasons.values())}\n"
        "Take back the change or the option that leads to this. If you want to lose these: "
        f"{switch.replace('{}', json.dumps([*reasons]))}; then repeat the command. The IDs allow this "
        "once: a server that is created again, or k3s that is installed again, has another one"
    )


class ServerGuard(ProviderResource, provider=ServerGuardProvider):
    """The servers of a cluster as they are in the cloud.

    Inputs are those of a ``ServerPlan``, ``guard_inputs`` of the IDs, and the ``switch``: what to type to go
    on, in which ``{}`` stands for the IDs.
    """


class InstallationGuardProvider(ServerGuardProvider):
    """Refuses plans that install k3s from scratch on the last control server that has the cluster's data."""

    def refusals(
        self, olds: Mapping[str, Old], lost: Collection[str], asked: Asked, noted: Mapping[str, Any]
    ) -> dict[str, str]:
        """The last one is refused, unless its installation or its server is among what may be lost."""
        if not loses_cluster(olds, asked.servers, lost):
            return {}
        reasons: dict[str, str] = {}
        for role in sorted(lost):
            old = olds[role]
            installation = noted.get(_INSTALLATION + role)
            # earlier versions noted none
            one = f"{old.id}/{installation}" if installation else old.id
            if not {one, old.id} & {*asked.allowed}:
                reasons[one] = (
                    f"k3s on {old.made.name} ({old.id}) would be removed and installed again: the cluster "
                    "and its data are lost, because no other control server has them"
                )
        return reasons


class InstallationGuard(ProviderResource, provider=InstallationGuardProvider):
    """k3s on the control servers of a cluster. Inputs are those of a ``ServerGuard``, with installations."""


def guard_inputs(
    ids: Mapping[str, pulumi.Input[str]], installations: Mapping[str, pulumi.Input[str]] | None = None
) -> dict[str, pulumi.Input[str]]:
    """What a guard watches, as inputs: before a deletion Pulumi makes those unknown that may change.

    Args:
        ids: Of servers, by role.
        installations: Outputs of each ``K3sServer``, by role; only for an ``InstallationGuard``.
    """
    installed = {_INSTALLATION + role: text for role, text in (installations or {}).items()}
    return {**{_ID + role: number for role, number in ids.items()}, **installed}


def ids_of(props: Mapping[str, Any]) -> dict[str, str]:
    """IDs of servers in the properties of a ``ServerGuard``, by role."""
    return {key.removeprefix(_ID): str(value) for key, value in props.items() if key.startswith(_ID)}


def _lasting(props: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs without what depends on the servers that are there in one run."""
    servers = {
        role: {name: value for name, value in made.items() if name not in {"rolls", "in_place"}}
        for role, made in (props.get("servers") or {}).items()
    }
    rest = {name: value for name, value in props.items() if name not in {"__provider", "servers"}}
    return {**rest, "servers": servers}


def _is_other(now: Any, before: str) -> bool:
    return now is None or is_unknown(now) or str(now) != before


def _is_unknown_installation(name: str, value: Any) -> bool:
    return name.startswith(_INSTALLATION) and is_unknown(value)


def _made(servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Made]:
    return {role: Made(**made) for role, made in servers.items()}
