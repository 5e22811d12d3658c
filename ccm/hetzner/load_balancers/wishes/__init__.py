"""What a Service asks for: its annotations, read by one table of keys, and the environment's defaults."""

from ccm.hetzner.load_balancers.wishes.annotations import annotations_to_keep
from ccm.hetzner.load_balancers.wishes.read import Wishes, read
from ccm.hetzner.load_balancers.wishes.table import PREFIX

__all__ = ["PREFIX", "Wishes", "annotations_to_keep", "read"]
