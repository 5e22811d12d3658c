"""TLS to the API: what is trusted is read once and not for each connection.

``requests`` has ``urllib3`` make a context for every connection, and each reads the 140 certificates of all
authorities: 20 ms of CPU and more than half a MiB, for each of our threads, and again when the API has closed
an idle connection.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from threading import Lock
from typing import Any

import certifi
import requests
import structlog
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

log = structlog.stdlib.get_logger(__name__)


class SharedTrust(HTTPAdapter):
    """Sends over connections that share what they trust; which that is stays as ``requests`` has it.

    That is the package ``certifi``, or the file or folder that REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names.
    When it has changed, new connections trust what it has now.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._contexts: dict[str, tuple[int, ssl.SSLContext]] = {}

    def build_connection_pool_key_attributes(
        self,
        request: requests.PreparedRequest,
        verify: bool | str,  # noqa: FBT001 - the base class has it so
        cert: Any = None,
    ) -> tuple[Any, Any]:
        """The connection's parameters, with a context in place of files. Raises requests.SSLError."""
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        if verify and host["scheme"] == "https":
            pool.pop("ca_certs", None)
            pool.pop("ca_cert_dir", None)
            pool["ssl_context"] = self._trusting(certifi.where() if verify is True else verify)
        return host, pool

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:  # noqa: FBT001 - as above
        """Have a connection read the files: only for TLS to a proxy, which takes no context from us."""
        if conn.proxy is not None and conn.proxy.scheme == "https":
            super().cert_verify(conn, url, verify, cert)

    def _trusting(self, authorities: str) -> ssl.SSLContext:
        """The context for a PEM file, or a folder of such as OpenSSL wants it."""
        try:
            changed = Path(authorities).stat().st_mtime_ns
            with self._lock:
                known = self._contexts.get(authorities)
                if known is None or known[0] != changed:
                    known = self._contexts[authorities] = changed, _context(authorities)
                return known[1]
        except OSError as error:  # ssl.SSLError is one
            log.warning("authorities_unusable", file=authorities, error=str(error))
            raise requests.exceptions.SSLError(f"{authorities}: {error}") from error


def _context(authorities: str) -> ssl.SSLContext:
    context = create_urllib3_context()
    if Path(authorities).is_dir():
        context.load_verify_locations(capath=authorities)
    else:
        context.load_verify_locations(authorities)
    return context
