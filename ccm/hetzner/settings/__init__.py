"""The settings for Hetzner Cloud: parsed and validated environment variables."""

from ccm.hetzner.settings.environment import LoadBalancerSettings, read
from ccm.hetzner.settings.tenants import EVERY, Tenants, among
from ccm.hetzner.settings.variable_table import VARIABLES
from ccm.hetzner.settings.variables import Secret

__all__ = ["EVERY", "VARIABLES", "LoadBalancerSettings", "Secret", "Tenants", "among", "read"]
