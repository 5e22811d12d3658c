"""Settings for tests, out of a configuration in which nothing may be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.configuration import parse_settings
from infra.errors import ConfigurationError
from infra.settings import Settings


def read_settings(raw: Mapping[str, Any]) -> Settings:
    """The settings; raises ConfigurationError with every problem there is."""
    settings, problems = parse_settings(raw)
    if problems:
        raise ConfigurationError(problems)
    return settings
