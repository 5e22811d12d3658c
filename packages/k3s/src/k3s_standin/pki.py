"""The certificates of a control plane, under k3s's folder and file names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from k3s_standin.certificates import Authority, Certificate, create_signing_key

ADMIN = "client-admin"
API_SERVER = "client-kube-apiserver"
CONTROLLER_MANAGER = "client-controller"
SCHEDULER = "client-scheduler"
SERVING = "serving-kube-apiserver"
FRONT_PROXY = "client-auth-proxy"
ETCD_SERVER = "etcd-server"
ETCD_CLIENT = "etcd-client"

CLUSTER_DOMAIN = "cluster.local"
"""Default of ``--cluster-domain``."""


@dataclass(frozen=True)
class Pki:
    """The certificates of a control plane."""

    folder: Path  # where they are, such as /var/lib/rancher/k3s/server/tls

    @property
    def server_authority(self) -> Authority:
        """Signs the certificates of API server and kubelets. Clients trust it."""
        return Authority(self.folder, "server-ca")

    @property
    def client_authority(self) -> Authority:
        """Signs users and nodes. The API server trusts it."""
        return Authority(self.folder, "client-ca")

    @property
    def front_proxy_authority(self) -> Authority:
        """Signs the API server as a client of extension API servers."""
        return Authority(self.folder, "request-header-ca")

    @property
    def etcd_authority(self) -> Authority:
        """Signs etcd and its only client."""
        return Authority(self.folder, "etcd-ca")

    @property
    def service_account_key(self) -> Path:
        """Signs service account tokens."""
        return self.folder / "service.key"

    @property
    def service_account_public_key(self) -> Path:
        """Checks service account tokens."""
        return self.folder / "service.pub"

    def certificate(self, name: str) -> Path:
        """File of a certificate."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """File of a certificate's private key."""
        return self.folder / f"{name}.key"

    def access(self, user: str) -> tuple[Path, Path, Path]:
        """What a client needs as a user of the API server: the server's authority, certificate, key."""
        return self.server_authority.certificate, self.certificate(user), self.key(user)

    def ensure(self, serving: Sequence[str], etcd: Sequence[str] = ()) -> None:
        """Make what is missing, and the API server's certificate again when its names change."""
        for authority, certificates in self._plan(tuple(serving), tuple(etcd)):
            authority.create()
            for certificate in certificates:
                authority.ensure(certificate)
        create_signing_key(self.service_account_key, self.service_account_public_key)

    def _plan(
        self, serving: tuple[str, ...], etcd: tuple[str, ...]
    ) -> list[tuple[Authority, list[Certificate]]]:
        clients = [
            Certificate(ADMIN, "system:admin", "system:masters"),
            Certificate(API_SERVER, "system:apiserver", "system:masters"),
            Certificate(CONTROLLER_MANAGER, "system:kube-controller-manager"),
            Certificate(SCHEDULER, "system:kube-scheduler"),
        ]
        local = ("localhost", "127.0.0.1")
        return [
            (self.server_authority, [Certificate(SERVING, "kube-apiserver", server=serving, client=False)]),
            (self.client_authority, clients),
            (self.front_proxy_authority, [Certificate(FRONT_PROXY, "system:auth-proxy")]),
            # etcd connects to itself, so its server certificate is a client's as well.
            (
                self.etcd_authority,
                [
                    Certificate(ETCD_SERVER, "etcd-server", server=(*local, *etcd)),
                    Certificate(ETCD_CLIENT, "etcd-client"),
                ],
            ),
        ]


def serving_names(service_ip: str, names: Sequence[str], domain: str = CLUSTER_DOMAIN) -> tuple[str, ...]:
    """The names in the API server's certificate: those of every cluster, then the given ones."""
    every = (
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{domain}",
    )
    return tuple(dict.fromkeys((*every, "localhost", "127.0.0.1", service_ip, *(n for n in names if n))))
