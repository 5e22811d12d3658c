"""What all Services share: lists of what there is in the project, and what was seen in them."""

from ccm.hetzner.load_balancers.views.catalogue import ObservedAddresses
from ccm.hetzner.load_balancers.views.certificates import ObservedCertificates
from ccm.hetzner.load_balancers.views.inventory import JUST_NOW, PATH, VIEW_AGE, Inventory
from ccm.hetzner.load_balancers.views.views import Views

__all__ = ["JUST_NOW", "PATH", "VIEW_AGE", "Inventory", "ObservedAddresses", "ObservedCertificates", "Views"]
