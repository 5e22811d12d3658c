"""What the manager tells a cloud as variables of its environment, since a cloud knows no flags."""

from __future__ import annotations

MASS_DELETION_BREAKER = "CCM_MASS_DELETION_BREAKER"  # true or false, as --mass-deletion-breaker says
DRY_RUN = "CCM_DRY_RUN"  # true: the cloud is only asked what it would do

# How the owner says that what seems to have vanished all at once is really gone.
MASS_DELETION_BREAKER_OFF = "--mass-deletion-breaker=false"
