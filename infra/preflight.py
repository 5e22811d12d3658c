"""Everything that is checked before the first resource: configuration, token, what the cloud has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from .api import Cloud, cloud_of, fetcher
from .catalogue import catalogue_problems, read_catalogue
from .errors import CloudError, ConfigurationError
from .settings import Settings, parse_settings


def all_configuration() -> Mapping[str, Any]:
    """Every configuration value of the stack, by full key; Pulumi's ``Config`` only has known ones."""
    return {**get_config_env(), **CONFIG.get()}


def check_everything(
    configuration: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[Settings, Cloud]:
    """Reads the settings and asks the cloud.

    Raises:
        InfraError: With all that is wrong, as far as one could look.
    """
    settings, problems = parse_settings(configuration)
    cloud = None
    try:
        cloud = cloud_of(configuration, environment)
        catalogue = read_catalogue(fetcher(cloud))
        known = {problem.key for problem in problems}
        problems += [found for found in catalogue_problems(settings, catalogue) if found.key not in known]
    except ConfigurationError as error:
        problems += error.problems
    except CloudError:
        if not problems:
            raise
    if problems or not cloud:
        raise ConfigurationError(problems)
    return settings, cloud


def stack_label() -> str:
    """The stack's name as a label's value."""
    return pulumi.get_stack().rpartition("/")[2]
