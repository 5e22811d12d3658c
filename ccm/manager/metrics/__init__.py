"""Upstream's metrics that belong to no controller."""

from ccm.manager.metrics.manager import LeaseMetrics, Metrics

__all__ = ["LeaseMetrics", "Metrics"]
