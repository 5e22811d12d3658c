"""Everything that is checked before the first resource: configuration, token, what the cloud has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from infra.catalogue import REAL_ENDPOINT, catalogue_problems, check_token, fetcher, read_catalogue
from infra.errors import ConfigurationError
from infra.settings import Settings, parse_settings


@dataclass(frozen=True)
class Cloud:
    """Where the API is, as seen from here, and the token for it."""

    endpoint: str
    token: str = field(repr=False)


def all_configuration() -> Mapping[str, Any]:
    """Every configuration value of the stack, by full key; Pulumi's `Config` only answers for known keys."""
    return {**get_config_env(), **CONFIG.get()}


def cloud_of(configuration: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Cloud:
    """The API that the hcloud plugin uses too: the stack's configuration, then the environment.

    Raises:
        ConfigurationError: there is no token, or something that can't be one.
    """
    token = configuration.get("hcloud:token") or environment.get("HCLOUD_TOKEN")
    check_token(token)
    endpoint = configuration.get("hcloud:endpoint") or environment.get("HCLOUD_ENDPOINT") or REAL_ENDPOINT
    return Cloud(endpoint.rstrip("/"), str(token))


def check_everything(
    configuration: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[Settings, Cloud]:
    """Reads the settings and asks the cloud.

    Raises:
        InfraError: with all that is wrong, as far as one could look.
    """
    settings, problems = parse_settings(configuration)
    cloud = None
    try:
        cloud = cloud_of(configuration, environment)
        catalogue = read_catalogue(fetcher(cloud.endpoint, cloud.token))
        known = {problem.key for problem in problems}
        problems += [found for found in catalogue_problems(settings, catalogue) if found.key not in known]
    except ConfigurationError as error:
        problems += error.problems
    if problems or not cloud:
        raise ConfigurationError(problems)
    return settings, cloud


def stack_label() -> str:
    """The stack's name as a label's value."""
    return pulumi.get_stack().rpartition("/")[2]
