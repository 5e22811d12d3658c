"""A node joins: it trusts the server, gets certificates from it, and keeps them below agent/."""

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from k3s_standin import log, paths
from k3s_standin.certificates import new_request, write_secret
from k3s_standin.kubelet import ClusterFacts
from k3s_standin.protocol import NODE_IP, NODE_NAME, NODE_PASSWORD
from k3s_standin.supervisor import Supervisor, SupervisorError
from k3s_standin.token import Token

RETRY_SECONDS = 0.2
REFUSED_SECONDS = 2.0
"""The pause in seconds before the next attempt to join, if the server rejected the token or the node's
name."""

_REPORT_SECONDS = 10.0


@dataclass(frozen=True)
class Joined:
    """Results of joining."""

    facts: ClusterFacts
    authority: Path  # certificate of the server's CA
    # Has client-kubelet, serving-kubelet, client-kube-proxy and client-k3s-controller, each as ``.crt`` and
    # ``.key``.
    folder: Path


@dataclass
class Joiner:
    """Joins a node to a server."""

    server: str  # URL of the API server; the server answers joining nodes on the next port
    token: Token  # the secret
    node_name: str  # the requested name
    addresses: tuple[str, ...]  # of this machine, for the kubelet's serving certificate
    folder: Path = paths.AGENT  # where certificates and keys are kept
    password_file: Path = paths.NODE_PASSWORD  # this machine's node password; made if it is missing
    others: Sequence[str] = ()  # URLs of further servers, to be tried in turn when one does not answer
    _turns: deque[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._turns = deque((self.server, *self.others))

    async def join(self) -> Joined:
        """Join, trying as long as it takes: like k3s, which retries after every refusal."""
        self._trust(await self._patiently(self._authority))
        facts = json.loads(await self._patiently(lambda: self._request("GET", "/v1-k3s/config")))
        clients = await self._patiently(lambda: self._request("GET", "/v1-k3s/client-ca.crt"))
        write_secret(self.folder / "client-ca.crt", clients.decode(), 0o644)
        await self._certificate("client-kubelet", f"system:node:{self.node_name}", "system:nodes")
        await self._certificate("serving-kubelet", self.node_name, "")
        await self._certificate("client-kube-proxy", "system:kube-proxy", "")
        await self._certificate("client-k3s-controller", "system:k3s-controller", "")
        return Joined(ClusterFacts(**facts), self.folder / "server-ca.crt", self.folder)

    def _trust(self, certificate: bytes) -> None:
        """Keep the certificate authority; a new one means that the server was recreated."""
        authority = self.folder / "server-ca.crt"
        if authority.exists() and authority.read_bytes() != certificate:
            log.warning(
                "the certificate authority of the server has changed, so this node joins the cluster again"
            )
        write_secret(authority, certificate.decode(), 0o644)

    async def _certificate(self, name: str, common_name: str, organization: str) -> None:
        request = new_request(common_name, organization, self.folder / f"{name}.key").encode()
        headers = {
            NODE_NAME: self.node_name,
            NODE_PASSWORD: self._password(),
            NODE_IP: ",".join(self.addresses),
        }
        answer = await self._patiently(lambda: self._request("POST", f"/v1-k3s/{name}.crt", request, headers))
        write_secret(self.folder / f"{name}.crt", answer.decode(), 0o644)

    def _password(self) -> str:
        if not self.password_file.exists():
            write_secret(self.password_file, secrets.token_hex(16) + "\n")
        return self.password_file.read_text().strip()

    def _authority(self) -> bytes:
        return self._supervisor.authority()

    @property
    def _supervisor(self) -> Supervisor:
        return Supervisor(self._turns[0], self.token)

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        return self._supervisor.request(method, path, self.folder / "server-ca.crt", body, headers)

    async def _patiently(self, attempt: Callable[[], bytes]) -> bytes:
        """Try until it works; log every ten seconds why it doesn't."""
        reported = -_REPORT_SECONDS
        while True:
            try:
                return await asyncio.to_thread(attempt)
            except SupervisorError as error:
                if time.monotonic() - reported > _REPORT_SECONDS:
                    log.info(f"Waiting for {self._turns[0]}: {error}")
                    reported = time.monotonic()
                if not error.status:
                    self._turns.rotate(-1)
                await asyncio.sleep(REFUSED_SECONDS if error.status in {401, 403} else RETRY_SECONDS)
