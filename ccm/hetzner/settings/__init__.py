"""What the operator sets for Hetzner Cloud: environment variables, read, checked and given their types.

Nothing here knows the API.
"""

from ccm.hetzner.settings.environment import LoadBalancerSettings, read
from ccm.hetzner.settings.tenants import EVERY, Tenants, among
from ccm.hetzner.settings.variable_table import VARIABLES
from ccm.hetzner.settings.variables import Secret

__all__ = ["EVERY", "VARIABLES", "LoadBalancerSettings", "Secret", "Tenants", "among", "read"]
