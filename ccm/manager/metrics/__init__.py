"""Upstream's metrics that belong to no controller.

Metrics are declared wherever something is counted, here and in the rooms of controllers and clouds, each
written out with name, text and labels. The declarations look alike, and stay: whoever searches for a name
from a dashboard finds what counts it, and a table of all would know every room.
"""

from ccm.manager.metrics.manager import Metrics

__all__ = ["Metrics"]
