"""Opens a cloud by name: a built-in cloud, or a cloud of an installed package.

A package provides a cloud with an entry point of the group ``ccm.clouds``. We call its factory as
``factory(environment, provider=NAME, registry=REGISTRY)``. The factory does no I/O, and raises one
ConfigurationError with all problems.
"""

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import cast

from prometheus_client import CollectorRegistry

from ccm.cloud import Cloud
from ccm.cloud.cloud import DRY_RUN, MASS_DELETION_BREAKER
from ccm.errors import ConfigurationError
from ccm.manager.flags import ParsedFlags
from ccm.startup import frozen_gc_imports

GROUP = "ccm.clouds"
BUILT_IN = {
    "ccm-from-scratch": "ccm.hetzner:open_cloud",
    "hcloud": "ccm.hetzner:open_cloud",
    "sample": "ccm.cloud.sample:open_cloud",
}
Factory = Callable[..., Cloud]


def known_clouds() -> dict[str, str]:
    """The entry point of each cloud's factory by name. Installed clouds can't replace built-in clouds."""
    return {point.name: point.value for point in entry_points(group=GROUP)} | BUILT_IN


def open_cloud(
    name: str,
    environment: Mapping[str, str],
    registry: CollectorRegistry,
    own: Mapping[str, Factory] = MappingProxyType({}),
) -> Cloud:
    """Open a cloud by name; ``own`` factories take precedence. Raises ConfigurationError."""
    if name in own:
        return own[name](environment, provider=name, registry=registry)
    # Find installed clouds only if necessary, because this reads the metadata of every package.
    clouds = BUILT_IN if name in BUILT_IN else known_clouds()
    if name not in clouds:
        known = ", ".join(sorted({*clouds, *own}))
        raise ConfigurationError([f'unknown cloud provider "{name}"; allowed: {known}'])
    module, _, attribute = clouds[name].partition(":")
    try:
        with frozen_gc_imports():
            factory = cast("Factory", getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise ConfigurationError([f'cloud provider "{name}" can\'t be loaded: {error}']) from error
    return factory(environment, provider=name, registry=registry)


def open_chosen(
    flags: ParsedFlags,
    environment: Mapping[str, str],
    registry: CollectorRegistry,
    problems: list[str],
    *,
    own: Mapping[str, Factory] = MappingProxyType({}),
    dry_run: bool = False,
) -> Cloud | None:
    """Open the cloud in ``--cloud-provider``. If that fails, adds ``problems`` and returns None."""
    if not flags["cloud-provider"]:
        return None
    # A cloud gets variables, not flags, so pass the relevant flags as variables.
    flag_variables = {
        MASS_DELETION_BREAKER: str(flags["mass-deletion-breaker"]).lower(),
        DRY_RUN: str(dry_run).lower(),
    }
    try:
        return open_cloud(flags["cloud-provider"], {**environment, **flag_variables}, registry, own)
    except ConfigurationError as error:
        problems.extend(error.problems)
        return None
