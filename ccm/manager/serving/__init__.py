"""The HTTPS server for probes and Prometheus: health, metrics, ``/configz``, TLS, and who may read what."""

from ccm.manager.serving.endpoint import Connections, Endpoint
from ccm.manager.serving.health import Health

__all__ = ["Connections", "Endpoint", "Health"]
