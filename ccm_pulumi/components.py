"""The parts of the program for another Pulumi program: a network, servers, k3s on them, and the CCM in it."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from .addons.controller_manager import ControllerManagerArgs
from .assembly import Place, RunningCluster, managed, ready_nodes, running_cluster
from .config.config_values import nearest
from .config.labels import cluster_labels
from .config.pools import KEYS as POOL_KEYS
from .config.setting_types import key_of, types_of
from .config.settings import Settings
from .config.validation import parse_settings
from .lib.cloud_api import cloud_of
from .lib.errors import InfraError, Problem
from .lib.files import PACKAGE
from .preflight.checks import all_configuration, stack_label
from .protection import guard_protected_resources
from .servers.network import Network
from .servers.servers import Servers

__all__ = ["CloudControllerManager", "HetznerNetwork", "HetznerServers", "K3sCluster", "Settings", "settings"]

_NO_LOOK = "remove this setting, because it requires a check of the cloud, and components skip this check"
_PLAIN = "give a plain value. An output of a resource is still unknown when the program checks the settings"


def settings(**given: Any) -> Settings:
    """The settings of a cluster: fields of ``Settings``, each with its default in Pulumi.yaml. For example,
    ``cluster_name="shop", worker_count=3``. ``ssh_allowed_cidrs`` is required, and ``ccm_image`` for a
    ``CloudControllerManager``. A ``pulumi.RunError`` names every wrong field, its value, and what is allowed.
    """
    known = [field for field, type_ in types_of(Settings).items() if not type_.program_only]
    hint = ", ".join(known)
    problems = [
        Problem(name, value, f"there is no such setting; {nearest(name, known) or f'allowed: {hint}'}")
        for name, value in given.items()
        if name not in known
    ]
    schema = yaml.safe_load((PACKAGE / "pulumi_project.yaml").read_text(encoding="utf-8"))["config"]
    wanted = {key: entry["default"] for key, entry in schema.items()}
    wanted |= {key_of(name): value for name, value in given.items() if name in known}
    if "pools" in given:
        wanted[key_of("pools")] = _pools_by_key(given["pools"])
    names = {key_of(name): name for name in known}
    texts = {key: _text(value) for key, value in wanted.items()}
    problems += [Problem(names[key], wanted[key], _PLAIN) for key, text in texts.items() if text is None]
    result, found = parse_settings({key: text for key, text in texts.items() if text is not None})
    problems += [_as_given(item, given, names) for item in found if texts.get(item.key, "") is not None]
    problems += [
        Problem(f"pools[{index}].{name}", value, _NO_LOOK)
        for index, pool in enumerate(result.pools)
        for name, value in (("fallbacks", pool.fallbacks), ("max_unavailable", pool.max_unavailable))
        if value is not None
    ]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise pulumi.RunError(f"the settings of the cluster are invalid; nothing was created\n{lines}")
    return result


def _pools_by_key(pools: Any) -> Any:
    """Pools with the keys of the stack's settings in place of Python's names."""
    keys = {name: key for key, name in POOL_KEYS.items()}
    if not isinstance(pools, list):
        return pools
    return [
        {keys.get(name, name): value for name, value in pool.items()} if isinstance(pool, Mapping) else pool
        for pool in pools
    ]


def _as_given(problem: Problem, given: Mapping[str, Any], names: Mapping[str, str]) -> Problem:
    """The problem with Python's names; it already has the value of a part of a setting."""
    value = given.get(names[problem.key]) if problem.key in names else problem.value
    return Problem(_without_keys(problem.key, names), value, _without_keys(problem.allowed, names))


def _text(value: Any) -> str | None:
    """A value as in the stack's settings; None if they can't have it."""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError):
        return None


def _without_keys(allowed: str, names: Mapping[str, str]) -> str:
    """The text about allowed values with Python's names, and without commands for the program's own stack."""
    said = re.split(r"\. Example:|\n", allowed)[0]
    for key, name in names.items():
        said = said.replace(key, name)
    for key, name in POOL_KEYS.items():
        said = re.sub(rf"\b{key}\b", name, said)
    return said


class HetznerNetwork(Network):
    """A private network with one subnet for servers.

    Attributes:
        id: The network's id as a text.
        network: The ``hcloud.Network``.
        subnet: The ``hcloud.NetworkSubnet``.
    """

    def __init__(self, name: str, settings: Settings, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, settings, _labels(settings), opts)


class HetznerServers(Servers):
    """A control server and workers, with an SSH key of their own, a firewall and placement groups.

    Attributes:
        control: The control server: ``public_ip``, ``private_ip``, and ``server``, the ``hcloud.Server``.
        workers: The others, in their order.
    """

    def __init__(
        self, name: str, settings: Settings, network: Network, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, settings, _labels(settings), network=network, prefix=f"{name}-", opts=opts)


class K3sCluster(pulumi.ComponentResource):
    """k3s on servers, with a network for Pods; nodes wait for a cloud-controller-manager.

    Attributes:
        kubeconfig: Secret; works where the program runs. Only the state has it.
        provider: For objects of ``pulumi_kubernetes`` in the cluster.
        running: What it is made of.
    """

    def __init__(
        self, name: str, settings: Settings, servers: Servers, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ccm-from-scratch:index:K3sCluster", name, None, opts)
        self.running: RunningCluster = running_cluster(Place(self, f"{name}-"), settings, servers)
        self.kubeconfig: pulumi.Output[str] = self.running.kubeconfig
        self.provider: kubernetes.Provider = self.running.provider
        self.register_outputs({"kubeconfig": self.kubeconfig})


class CloudControllerManager(pulumi.ComponentResource):
    """The cloud-controller-manager in a cluster; created when all nodes are ready and initialized.

    Its deletion also deletes the cluster's load balancers in the cloud; the program needs the token for that.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        cluster: K3sCluster,
        network: Network,
        *,
        token: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it. The servers must have, or be able to pull, ``settings.ccm_image``. ``token`` is
        that of Hetzner's API for the cluster; default: the one that the program itself uses.
        """
        super().__init__("ccm-from-scratch:index:CloudControllerManager", name, None, opts)
        if not settings.ccm_image:
            allowed = "give an image in a registry. To push an image: ./dev image --push REGISTRY/NAME:TAG"
            raise pulumi.RunError(str(Problem("ccm_image", None, allowed)))
        place = Place(self, f"{name}-")
        try:
            secret = pulumi.Output.secret(cloud_of(all_configuration()).token if token is None else token)
        except InfraError as error:
            raise pulumi.RunError(str(error)) from None
        arguments = ControllerManagerArgs(settings, secret, network.id, settings.ccm_image)
        after, cleanup = managed(place, arguments, cluster.running)
        nodes = ready_nodes(place, arguments, cluster.running, after)
        last = [cluster, cleanup, *nodes]
        guard_protected_resources(place, settings, network, cluster.running.servers, after=last)
        self.register_outputs({})


def _labels(settings: Settings) -> dict[str, str]:
    return cluster_labels(settings.cluster_name, stack_label(), settings.labels)
