"""The checks before the first resource: configuration, token, capacity and cost in the cloud."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from ..addons.autoscaler import user_data_problems
from ..addons.ingress import balancer_name
from ..config.labels import NAT
from ..config.server_spec import ServerSpec
from ..config.setting_types import key_of
from ..config.settings import PUBLIC_BALANCER, Settings
from ..config.validation import parse_settings, rollout_capacity_problems
from ..lib.cloud_api import (
    TOKEN_KEY,
    Cloud,
    Fetch,
    cloud_of,
    everything,
    fetch_or_none,
    fetcher,
    may_write,
    understood,
)
from ..lib.errors import CloudError, ConfigurationError, Problem
from ..lib.ownership import DEFAULT_TYPE
from ..servers.api_load_balancer import has_endpoint
from ..servers.existing_network import network_problems
from .capacity import need_fallbacks, needed_for, placed, type_problems, unknown_fallbacks
from .catalogue import Catalogue, catalogue_problems, read_catalogue
from .cost import PriceList, bill_of, outputs, parse_prices, table
from .existing_objects import Environment, read_environment

_READ_AND_WRITE = (
    "this token is read-only. In Hetzner's Console, create a token with the permission Read & Write (in the "
    "project: Security, API tokens). Then: pulumi config set --secret hcloud:token"
)


@dataclass(frozen=True)
class Checked:
    """The result of the checks."""

    settings: Settings
    cloud: Cloud
    servers: Sequence[ServerSpec] = ()
    existing: frozenset[str] = frozenset()  # roles of servers that exist before the run
    # for the stack's outputs; changes only with the settings and the type of the API's load balancer
    cost: Mapping[str, Any] = field(default_factory=dict)
    report: str = ""  # the cost, also of the cluster's own load balancers, and the difference to now
    warnings: tuple[str, ...] = ()  # likely failures


@dataclass(frozen=True)
class Found:
    """The answers of the cloud."""

    catalogue: Catalogue
    prices: PriceList
    environment: Environment
    network: Mapping[str, Any] | None = None
    beside: Sequence[Mapping[str, Any]] = ()  # all servers of the project, if that network has routes


def all_configuration() -> Mapping[str, Any]:
    """Every configuration value of the stack, by full key; Pulumi's ``Config`` only has known ones."""
    return {**get_config_env(), **CONFIG.get()}


def check_everything(
    configuration: Mapping[str, Any],
    stack: str,
    environment: Mapping[str, str] = os.environ,
    now: datetime | None = None,
) -> Checked:
    """Reads the settings and asks the cloud; the error has all problems that could be found."""
    settings, problems = parse_settings(configuration)
    try:
        cloud = cloud_of(configuration, environment)
        found = ask(fetcher(cloud), settings, stack, now or datetime.now(UTC))
        # one more request, so only if nothing exists yet
        if not found.environment.servers and not may_write(cloud):
            problems.append(Problem(TOKEN_KEY, "(not shown)", _READ_AND_WRITE))
    except ConfigurationError as error:
        raise ConfigurationError([*problems, *error.problems]) from None
    except CloudError:
        if not problems:
            raise
        raise ConfigurationError(problems) from None
    there = found.environment.servers
    servers, unplaceable = placed(settings, found.catalogue, there)
    known = {problem.key for problem in problems}
    needed = needed_for(servers, settings.autoscaled, there)
    in_cloud: list[Problem] = [
        *catalogue_problems(settings, found.catalogue, needed),
        *user_data_problems(settings),
        *unplaceable,
        *type_problems(servers, found.catalogue, there),
        *_network_problems(settings, found),
        *rollout_capacity_problems(settings, there),
    ]
    problems += [problem for problem in in_cloud if problem.key not in known]
    if problems:
        raise ConfigurationError(problems)
    cost, report = costs(settings, servers, found)
    warnings = _same_name(settings, found.environment)
    if not need_fallbacks(settings.servers, there):  # else they are problems
        warnings += map(str, unknown_fallbacks(settings, found.catalogue))
    return Checked(settings, cloud, servers, frozenset(there), cost, report, tuple(warnings))


def _same_name(settings: Settings, environment: Environment) -> list[str]:
    """Warns about names that the cloud will refuse; no error, because renamed stacks keep server names."""
    return [
        f"{key_of('cluster_name')}: {settings.cluster_name!r} is also the cluster name of the stack "
        f"{other!r} in this Hetzner project. Server names in a project must be unique. If {other!r} isn't "
        "the former name of this stack, choose another cluster name: pulumi config set clusterName NAME"
        for other in sorted(environment.others)
    ]


def _network_problems(settings: Settings, found: Found) -> list[Problem]:
    if not settings.import_network:
        return []
    there = [server.networks for server in found.environment.servers.values()]
    has_nat = NAT in found.environment.servers
    with understood(f"GET /networks/{settings.import_network}"):
        networks = frozenset().union(*there)
        return network_problems(settings, found.network, networks, found.beside, has_nat=has_nat)


def ask(fetch: Fetch, settings: Settings, stack: str, now: datetime) -> Found:
    """Sends all requests in parallel: six, if no list has more than 50 entries.

    An imported network needs one more request, and another one if it has routes. Each image that is named by
    its ID needs one, too.
    """
    with understood("the checks before a run"), ThreadPoolExecutor(max_workers=3) as pool:
        images = {server.image for server in (*settings.servers, *settings.autoscaled)}
        catalogue = pool.submit(read_catalogue, fetch, now, images)
        prices = pool.submit(fetch, "/pricing")
        environment = pool.submit(read_environment, fetch, settings.cluster_name, stack)
        network = pool.submit(_network, fetch, settings.import_network)
        return Found(
            catalogue.result(), parse_prices(prices.result()), environment.result(), *network.result()
        )


def _network(fetch: Fetch, identity: str) -> tuple[Mapping[str, Any] | None, Sequence[Mapping[str, Any]]]:
    """The network to import (None if there is none), and the servers that its routes may lead to."""
    if not identity:
        return None, ()
    answer = fetch_or_none(fetch, f"/networks/{identity}")
    if answer is None:
        return None, ()
    network = answer["network"]
    return network, everything(fetch, "servers", "") if network["routes"] else ()


def costs(settings: Settings, specs: Sequence[ServerSpec], found: Found) -> tuple[dict[str, Any], str]:
    """The cost as an output of the stack, and as a table."""
    servers = [(spec.pool, spec.placement, spec.is_public) for spec in specs]
    ingress = balancer_name(settings)
    own = not settings.kubeconfig_path
    asked = [(DEFAULT_TYPE, settings.location)] if settings.ingress == "traefik" and own else []
    existing, endpoints = found.environment.balancers, found.environment.endpoints
    # a type that somebody has chosen by hand stays
    api_type = next((item.type for item in endpoints if item.location == settings.location), DEFAULT_TYPE)
    api = [(api_type, settings.location)] if has_endpoint(settings) else []
    others = [(item.type, item.location) for item in existing if item.name != ingress]
    running = bill_of(
        ((role, server.placement, server.has_ipv4) for role, server in found.environment.servers.items()),
        ((item.type, item.location) for item in existing),
        ((item.type, item.location) for item in endpoints),
    )
    scaled = settings.autoscaled_pools
    wanted_bill = bill_of(servers, asked + others, api)
    report = table(settings.cluster_name, wanted_bill, running, found.prices, scaled)
    lines = [report, *_fallbacks_taken(specs)]
    if settings.api_endpoint == PUBLIC_BALANCER and own:
        lines.append(
            "The load balancer of the Kubernetes API is open to the Internet. Hetzner's firewalls can't "
            f"protect load balancers, and {key_of('ssh_allowed_cidrs')} applies only to servers."
        )
    return outputs(bill_of(servers, asked, api), found.prices, scaled), "\n".join(lines)


def _fallbacks_taken(servers: Sequence[ServerSpec]) -> list[str]:
    """The servers at fallbacks, grouped by placement."""
    roles: dict[str, list[str]] = {}
    for server in servers:
        if server.fallback:
            roles.setdefault(f"{server.fallback} in place of {server.wanted}", []).append(server.role)
    return [f"{', '.join(names)}: {placements}" for placements, names in roles.items()]


def stack_label() -> str:
    """The stack's name as a label's value."""
    return pulumi.get_stack().rpartition("/")[2]
