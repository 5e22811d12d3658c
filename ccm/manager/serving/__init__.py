"""The HTTPS server for probes and Prometheus: health, metrics, ``/configz``, TLS, authorization."""

from ccm.manager.serving.endpoint import Connections, Endpoint
from ccm.manager.serving.health import Health

__all__ = ["Connections", "Endpoint", "Health"]
