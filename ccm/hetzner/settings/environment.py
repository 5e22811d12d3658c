"""Parses the environment variables of the official Hetzner CCM and ours; reports all problems together."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from ccm.cloud.cloud import DRY_RUN, MASS_DELETION_BREAKER
from ccm.errors import ConfigurationError
from ccm.hetzner.settings.tenants import Tenants
from ccm.hetzner.settings.variables import Secret, Variables

TOKEN_LENGTH = 64
ROBOT_CACHE = 300.0  # seconds


@dataclass(frozen=True)
class NetworkSettings:
    """``HCLOUD_NETWORK…``."""

    name_or_id: str  # empty = no network
    attached_check: bool  # fail at the start if this server isn't in the network
    routes: bool  # support routes


@dataclass(frozen=True)
class InstanceSettings:
    """``HCLOUD_INSTANCES_…`` and ``HCLOUD_SERVER_CACHE_…``."""

    address_family: str  # `ipv4`, `ipv6` or `dualstack`: which public addresses are reported
    zone_label: bool  # set zone labels
    # keys of server labels to copy to Nodes (our own: `HCLOUD_INSTANCES_COPY_LABELS`)
    copied_labels: frozenset[str]
    # Maximum age of a server's data in seconds, which replaces the maximum age of the controller; None = not
    # set. 0 if the cache mode is `off`. The modes `one` and `all` have the same effect.
    max_age: float | None
    cache_mode: str  # `all`, `one` or `off`; shown in metrics
    # check that a server has the name of its Node (our own: `CCM_NODE_NAME_CHECK`)
    name_check: bool = True


@dataclass(frozen=True)
class RobotSettings:
    """``ROBOT_…``; times in seconds."""

    enabled: bool
    user: Secret | None
    password: Secret | None
    endpoint: str
    cache_timeout: float
    rate_limit_wait: float
    forward_internal_ips: bool


@dataclass(frozen=True)
class LoadBalancerSettings:
    """``HCLOUD_LOAD_BALANCERS_…``: defaults for annotations of Services. None and empty texts = not set.

    Times in seconds. Our own: ``tenants`` (``CCM_ADOPT_NAMESPACES`` and others) permits namespaces to use
    resources of others. ``cluster`` (``CCM_CLUSTER_ID``) distinguishes this cluster's load balancers from
    others in the project. With ``refuse_source_ranges`` (``CCM_REFUSE_SOURCE_RANGES``), a Service with source
    ranges gets no load balancer, because the load balancer can't enforce them.
    """

    enabled: bool
    location: str
    network_zone: str
    type: str
    algorithm_type: str
    disable_private_ingress: bool
    use_private_ip: bool
    disable_ipv6: bool
    disable_public_network: bool | None
    private_subnet_ip_range: str
    uses_proxyprotocol: bool | None
    health_check_interval: float | None
    health_check_timeout: float | None
    health_check_retries: int | None
    cluster: str = ""
    tenants: Tenants = field(default_factory=Tenants)
    refuse_source_ranges: bool = False


# The fields have the names of their variables.
_OF_LOAD_BALANCERS = [
    one.name
    for one in fields(LoadBalancerSettings)
    if one.name not in {"cluster", "tenants", "refuse_source_ranges"}
]


@dataclass(frozen=True)
class Settings:
    """All settings from the environment."""

    token: Secret
    endpoint: str  # base URL of the API
    debug: bool
    # also serve metrics on a separate address; None = only with the official provider name
    metrics_enabled: bool | None
    metrics_address: str  # `host:port`; an empty host = all; empty = disabled
    network: NetworkSettings
    instances: InstanceSettings
    robot: RobotSettings
    load_balancers: LoadBalancerSettings
    # doubt that all resources are gone (`CCM_MASS_DELETION_BREAKER`, which the manager sets from its flag)
    mass_deletion_breaker: bool = True
    # only report changes, from any machine: serve no metrics, and don't require the network (`CCM_DRY_RUN`,
    # which the manager sets)
    dry_run: bool = False
    warnings: tuple[str, ...] = ()  # accepted settings that are probably mistakes
    # all variables as texts, for `/configz`; without secrets
    shown: Mapping[str, str] = field(default_factory=dict[str, str])


def read(environment: Mapping[str, str]) -> Settings:
    """Parse the environment. Raises one ConfigurationError with all mistakes."""
    variables = Variables(environment)
    token = variables["HCLOUD_TOKEN"]
    settings = Settings(
        token=token or Secret(""),
        endpoint=variables["HCLOUD_ENDPOINT"],
        debug=variables["HCLOUD_DEBUG"],
        metrics_enabled=variables["HCLOUD_METRICS_ENABLED"],
        metrics_address=variables["HCLOUD_METRICS_ADDRESS"],
        network=_network(variables),
        instances=_instances(variables),
        robot=_robot(variables),
        load_balancers=_load_balancers(variables),
        mass_deletion_breaker=variables[MASS_DELETION_BREAKER],
        dry_run=variables[DRY_RUN],
        shown=variables.shown(),
    )
    warnings = [*_token_warnings(token), *variables.warnings, *_oddities(settings)]
    problems = [*_token_problems(token, variables.problems), *variables.problems, *_contradictions(settings)]
    if problems:
        raise ConfigurationError(problems)
    return replace(settings, warnings=tuple(warnings))


def _network(variables: Variables) -> NetworkSettings:
    name = variables["HCLOUD_NETWORK"]
    return NetworkSettings(
        name_or_id=name,
        attached_check=not variables["HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK"],
        routes=bool(name) and variables["HCLOUD_NETWORK_ROUTES_ENABLED"],
    )


def _instances(variables: Variables) -> InstanceSettings:
    mode, age = variables["HCLOUD_SERVER_CACHE_MODE"], variables["HCLOUD_SERVER_CACHE_MAX_AGE"]
    return InstanceSettings(
        address_family=variables["HCLOUD_INSTANCES_ADDRESS_FAMILY"],
        zone_label=variables["HCLOUD_INSTANCES_ZONE_LABEL_ENABLED"],
        copied_labels=variables["HCLOUD_INSTANCES_COPY_LABELS"],
        max_age=0.0 if mode == "off" else None if age is None else max(0.0, age),
        cache_mode=mode,
        name_check=variables["CCM_NODE_NAME_CHECK"],
    )


def _robot(variables: Variables) -> RobotSettings:
    return RobotSettings(
        enabled=variables["ROBOT_ENABLED"],
        user=variables["ROBOT_USER"],
        password=variables["ROBOT_PASSWORD"],
        endpoint=variables["ROBOT_ENDPOINT"],
        # As in Go, 0 means not set, and a negative value disables the cache.
        cache_timeout=max(0.0, variables["ROBOT_CACHE_TIMEOUT"] or ROBOT_CACHE),
        rate_limit_wait=max(0.0, variables["ROBOT_RATE_LIMIT_WAIT_TIME"]),
        forward_internal_ips=variables["ROBOT_FORWARD_INTERNAL_IPS"],
    )


def _load_balancers(variables: Variables) -> LoadBalancerSettings:
    named = {name: variables[f"HCLOUD_LOAD_BALANCERS_{name.upper()}"] for name in _OF_LOAD_BALANCERS}
    return LoadBalancerSettings(
        **named,
        cluster=variables["CCM_CLUSTER_ID"],
        tenants=Tenants(
            adopt=variables["CCM_ADOPT_NAMESPACES"],
            share=variables["CCM_SHARE_NAMESPACES"],
            certificates=variables["CCM_CERTIFICATE_NAMESPACES"],
            unlabelled=variables["CCM_UNLABELLED_CERTIFICATE_NAMESPACES"],
            unlabelled_ips=variables["CCM_UNLABELLED_PRIMARY_IP_NAMESPACES"],
            protection=variables["CCM_PROTECTION_NAMESPACES"],
            private_ipv4=variables["CCM_PRIVATE_IPV4_NAMESPACES"],
        ),
        refuse_source_ranges=variables["CCM_REFUSE_SOURCE_RANGES"],
    )


def _token_problems(token: Secret | None, others: list[str]) -> list[str]:
    if token is not None and not re.fullmatch("[!-~]*", token.value):
        return ["HCLOUD_TOKEN: contains spaces or non-ASCII characters, which a token can't have"]
    if token is not None and (token.value or any(text.startswith("HCLOUD_TOKEN_FILE:") for text in others)):
        return []
    if token is not None:
        return ["HCLOUD_TOKEN_FILE: the file is empty, but must contain the project's API token"]
    text = (
        "HCLOUD_TOKEN: not set. Set HCLOUD_TOKEN to the project's API token, or set HCLOUD_TOKEN_FILE to a "
        "file with the token"
    )
    return [text]


def _token_warnings(token: Secret | None) -> tuple[str, ...]:
    if token is None or len(token.value) in {0, TOKEN_LENGTH}:
        return ()
    return (f"HCLOUD_TOKEN has {len(token.value)} characters, but a token has {TOKEN_LENGTH} characters",)


def _oddities(settings: Settings) -> Iterator[str]:
    if settings.load_balancers.use_private_ip and not settings.network.name_or_id:
        yield (
            "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP requires HCLOUD_NETWORK. Without HCLOUD_NETWORK, the CCM "
            "creates load balancers only for Services with the annotation use-private-ip: 'false'"
        )


def _contradictions(settings: Settings) -> list[str]:
    problems: list[str] = []
    robot, balancers = settings.robot, settings.load_balancers
    if balancers.location and balancers.network_zone:
        problems.append(
            "HCLOUD_LOAD_BALANCERS_LOCATION and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE: set only one of them"
        )
    if robot.enabled and bool(robot.user) != bool(robot.password):
        problems.append("ROBOT_USER and ROBOT_PASSWORD: set both or neither")
    if robot.enabled and settings.network.routes:
        problems.append(
            "ROBOT_ENABLED: routes don't work with Robot; set HCLOUD_NETWORK_ROUTES_ENABLED=false"
        )
    return problems
