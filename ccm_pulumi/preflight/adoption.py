"""Imports objects of this stack that exist in the cloud, but not in its state, instead of creating them.

A killed run leaves objects that are not in its state. A state that is older than the cloud (a backup, a lost
write) lacks others. Names are unique in a project, so every run would fail to create them.

An object belongs to this stack if it has the name and the labels of cluster and stack, and if the stack's SSH
key in the cloud is the one in this state. A colleague's stack of the same name has another key.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pulumi

from ..config.labels import CLUSTER, MANAGED_BY, STACK
from ..lib.cloud_api import Fetch, labeled
from ..lib.errors import InfraError

_KEY, SERVER = "hcloud:index/sshKey:SshKey", "hcloud:index/server:Server"
FIREWALL = "hcloud:index/firewall:Firewall"
_KINDS = {
    _KEY: "ssh_keys",
    SERVER: "servers",
    "hcloud:index/placementGroup:PlacementGroup": "placement_groups",
    FIREWALL: "firewalls",
    "hcloud:index/network:Network": "networks",
    "hcloud:index/loadBalancer:LoadBalancer": "load_balancers",
}


class _Part(NamedTuple):
    """A kind of objects that belong to a network or a load balancer, and have no ID in the API."""

    owners: str  # the collection of the owner
    listed: str  # the owner's list of such parts
    key: str  # the field that identifies a part
    import_id: str  # with the owner's ID and the key
    # inputs that may differ from the existing ones: Pulumi imports only objects with the same inputs
    changed_later: Sequence[str] = ()  # by the next run


_PARTS = {
    "hcloud:index/networkSubnet:NetworkSubnet": _Part("networks", "subnets", "ip_range", "{}-{}"),
    "hcloud:index/networkRoute:NetworkRoute": _Part(
        "networks", "routes", "destination", "{}-{}", ["gateway"]
    ),
    "hcloud:index/loadBalancerService:LoadBalancerService": _Part(
        "load_balancers",
        "services",
        "listen_port",
        "{}__{}",
        ["protocol", "destination_port", "health_check"],
    ),
}
"""The parts that are imported. The official plugin can't create a part that exists already. The IDs are those
of Hetzner's Terraform provider, on which the plugin is based (internal/network and internal/loadbalancer)."""
_ATTACHED = "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork"
DYNAMIC = "pulumi-python:dynamic/ccm-from-scratch:"
_PLACE = f"{DYNAMIC}ServerState"
_WAITS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_STATE = "pulumi:pulumi:readStackResourceOutputs"

State = Mapping[tuple[str, str], Mapping[str, Any]]
"""Maps the type and name of each resource in the state to its outputs."""


def read_state() -> State:
    """The state of this stack as the engine last wrote it. The function is the one behind
    ``StackReference.outputs`` (resource/deploy/builtins.go of Pulumi). The engine writes the state at the
    same time, and a half-written file can't be read for a moment.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    waits = iter(_WAITS)
    while True:
        try:
            found = pulumi.runtime.invoke(_STATE, {"stackName": name}).value or {}
            break
        except Exception as error:  # what the SDK raises for an answer with an error
            if (wait := next(waits, None)) is None:
                why = f"the state of the stack {name} can't be read: {error}. Nothing was changed; try again"
                raise InfraError(why) from error
            time.sleep(wait)
    return {of_urn(urn): item.get("outputs") or {} for urn, item in (found.get("outputs") or {}).items()}


def of_urn(urn: str) -> tuple[str, str]:
    """A resource's own type and its name."""
    _, _, types, name = urn.split("::", 3)
    return types.rpartition("$")[2], name


def held_revisions(state: State) -> dict[str, str]:
    """The revision that each server was made with, by role; not those of servers of earlier versions."""
    found = {role: outputs.get("revision") for (kind, role), outputs in state.items() if kind == _PLACE}
    return {role: text for role, text in found.items() if text}


@dataclass
class Adoption:
    """Decides which resources are imported. Asks the cloud only for resources that are not in the state."""

    labels: Mapping[str, str]
    fetch: Fetch
    state: State = field(repr=False)
    _found: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)

    def import_id(self, kind: str, name: str, inputs: Mapping[str, Any]) -> str | None:
        """The ID that a resource is imported by; None: it is created, or in the state. Fails if the object
        exists, but may belong to another stack.
        """
        if (kind, name) in self.state:
            return None
        if kind in _PARTS:
            return self._part(_PARTS[kind], inputs)
        if kind == _ATTACHED:
            return self._refuse_attached()
        found = self._all(_KINDS[kind]).get(str(inputs.get("name"))) if kind in _KINDS else None
        if found is None:
            return None
        if reason := self._doubt(kind, name):
            what = _KINDS[kind].removesuffix("s").replace("_", "-")
            raise InfraError(
                f"the {what} {found['name']} ({found['id']}) has the name and labels of this stack, but "
                f"can't be imported: {reason}. Nothing was changed.\nIf a colleague has a newer copy of "
                f"the state that contains the {what}, import this copy: pulumi stack import --file FILE. If "
                f"you don't need the {what}: hcloud {what} delete {found['name']}. To keep both, choose "
                "another name: pulumi config set ccm-from-scratch:clusterName NAME"
            )
        return str(found["id"])

    def _part(self, part: _Part, inputs: Mapping[str, Any]) -> str | None:
        """The ID of a part that exists, in the only network or load balancer that has this stack's labels."""
        owners, key = list(self._all(part.owners).values()), inputs.get(part.key)
        if len(owners) != 1 or self._doubt():
            return None
        there = {item[part.key] for item in owners[0][part.listed]}
        return part.import_id.format(owners[0]["id"], key) if key in there else None

    def _refuse_attached(self) -> None:
        """Refuses to attach a load balancer that is attached already: the official plugin fails to create the
        attachment, and an imported one lacks its subnet, for which the next run would replace it.
        """
        for balancer in self._all("load_balancers").values():
            for place in balancer["private_net"]:
                raise InfraError(
                    f"the load balancer {balancer['name']} ({balancer['id']}) is attached to a network, but "
                    "the state of this stack lacks this attachment. Nothing was changed. Detach the load "
                    f"balancer: hcloud load-balancer detach-from-network {balancer['name']} --network "
                    f"{place['network']}. Then repeat the command, which attaches the load balancer again"
                )

    def _doubt(self, kind: str = "", name: str = "") -> str:
        """Why an object, or k3s on it, may be another stack's; empty if neither is."""
        mine = {
            str(outputs.get("public_key", "")).strip()
            for (other, _), outputs in self.state.items()
            if other == f"{DYNAMIC}KeyPair"
        }
        theirs = {str(key["public_key"]).strip() for key in self._all("ssh_keys").values()}
        if not mine & theirs:
            return "the SSH key that Hetzner stores for this stack isn't the SSH key in the Pulumi state"
        if kind == SERVER and (f"{DYNAMIC}K3sServer", name) in self.state:
            return "the state has k3s on another server with this name, so pulumi up would install k3s again"
        return ""

    def _all(self, collection: str) -> dict[str, Mapping[str, Any]]:
        if collection not in self._found:
            ours = {key: self.labels[key] for key in (CLUSTER, MANAGED_BY, STACK)}
            found = labeled(self.fetch, collection, ours)
            self._found[collection] = {item["name"]: item for item in found}
        return self._found[collection]


def importing(
    decide: Callable[[str, str, Mapping[str, Any]], str | None], say: Callable[[str], None]
) -> Callable[[pulumi.ResourceTransformationArgs], pulumi.ResourceTransformationResult | None]:
    """A transformation that imports resources."""

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if args.opts.import_:
            return None
        identity = decide(args.type_, args.name, args.props)
        if identity is None:
            return None
        kind = args.type_.rpartition(":")[2]
        part = _PARTS.get(args.type_)
        later = part.changed_later if part else ()
        hint = ". If its properties differ, the next run changes them" if later else ""
        what = f"{kind} {args.name} ({identity})"
        say(f"Pulumi imports {what}, which exists but isn't in this stack's state{hint}")
        # a server ignores changes of the properties that the API does not return, such as its keys
        options = pulumi.ResourceOptions(import_=identity, ignore_changes=[*later])
        options = pulumi.ResourceOptions.merge(args.opts, options)
        return pulumi.ResourceTransformationResult(args.props, options)

    return transform
