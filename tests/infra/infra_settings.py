"""Settings for tests, out of a configuration in which nothing may be wrong."""

from collections.abc import Mapping
from typing import Any

import pytest

from ccm_pulumi.config.settings import Settings
from ccm_pulumi.config.validation import parse_settings
from ccm_pulumi.lib.errors import ConfigurationError


def configured(defaults: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in changes.items()}}


def problems_of(configuration: Mapping[str, Any]) -> dict[str, str]:
    """What is said of each wrong setting, by its key."""
    with pytest.raises(ConfigurationError) as caught:
        read_settings(configuration)
    return {item.key.removeprefix("ccm-from-scratch:"): str(item) for item in caught.value.problems}


def read_settings(raw: Mapping[str, Any]) -> Settings:
    """The settings; raises ConfigurationError with every problem there is."""
    settings, problems = parse_settings(raw)
    if problems:
        raise ConfigurationError(problems)
    return settings
