"""Does what is planned: the only place that changes anything in the cloud."""

from ccm.hetzner.load_balancers.run.outcome import Outcome, Patience
from ccm.hetzner.load_balancers.run.runner import run

__all__ = ["Outcome", "Patience", "run"]
