"""How the owner says that what seems to have vanished all at once is really gone.

The manager's flag is for all controllers; a cloud knows no flags, so the manager tells it as a variable of
its environment.
"""

from __future__ import annotations

OVERRIDE = "--mass-deletion-breaker=false"
VARIABLE = "CCM_MASS_DELETION_BREAKER"  # true or false, as the flag says
