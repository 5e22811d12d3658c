"""Requests to the service that a server has beside its API server, by nodes and servers that join."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from k3s_standin.errors import StatusError
from k3s_standin.protocol import NODE, basic
from k3s_standin.token import Token, authority_hash

_TIMEOUT_SECONDS = 5


class SupervisorError(StatusError):
    """No server answered, or one refused."""


class StrangerError(SupervisorError):
    """The server has another certificate authority than the token says."""

    def __init__(self, server: str) -> None:
        super().__init__(
            403,
            f"token CA hash does not match the CA certificate of {server}: the token belongs to another "
            "cluster, or an attacker intercepts the connection",
        )


@dataclass(frozen=True)
class Supervisor:
    """Asks one server."""

    server: str  # URL of the API server; the service is on the next port
    token: Token  # the secret
    user: str = NODE  # whose secret that is: a node's, or a server's
    seconds: int = _TIMEOUT_SECONDS  # limit of each request

    def authority(self) -> bytes:
        """The server's CA certificate: unverified, then checked against the token."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate = self._send(context, "GET", "/cacerts", None, {})
        if self.token.authority_hash not in {None, authority_hash(certificate)}:
            raise StrangerError(self.server)
        return certificate

    def request(
        self,
        method: str,
        path: str,
        authority: Path,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request with the token; SupervisorError for an error status or no answer."""
        context = ssl.create_default_context(cafile=str(authority))
        authorization = {"Authorization": basic(self.token.password, self.user)}
        return self._send(context, method, path, body, {**authorization, **(headers or {})})

    def _send(
        self, context: ssl.SSLContext, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> bytes:
        address = urlsplit(self.server)
        connection = http.client.HTTPSConnection(
            address.hostname or "", (address.port or 443) + 1, timeout=self.seconds, context=context
        )
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise SupervisorError(0, str(error)) from error
        finally:
            connection.close()
        if answer.status >= 400:
            reason = content.decode(errors="replace")[:300]
            raise SupervisorError(answer.status, f"{answer.status}: {reason}")
        return content
