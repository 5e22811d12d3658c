"""Command lines of etcd, API server, controller manager and scheduler."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from k3s_standin import pki
from k3s_standin.certificates import write_secret
from k3s_standin.kubeconfig import by_path
from k3s_standin.pki import CLUSTER_DOMAIN, Pki
from k3s_standin.protocol import url_of

Flags = Mapping[str, str]
"""The value of each flag. The keys are the names of the flags, without the leading dashes."""


@dataclass(frozen=True)
class Ports:
    """Where the components listen."""

    api: int = 6443
    etcd: int = 2379
    etcd_peer: int = 2380
    controller_manager: int = 10257
    scheduler: int = 10259


@dataclass(frozen=True)
class EtcdMember:
    """This server's member of an etcd that others can join."""

    name: str
    address: str  # at which the others reach it
    cluster: str = ""  # for ``--initial-cluster`` if it joins; empty for the first member and after a restart
    alone: bool = False  # whether it removes all other members


@dataclass(frozen=True)
class ControlPlane:
    """Settings of the command lines."""

    data: Path  # folder for etcd's data and kubeconfigs
    pki: Pki  # the certificates
    bind_address: str  # where the API server listens
    advertise_address: str  # where Pods find it, behind the service ``kubernetes``
    cluster_cidr: str  # addresses of Pods
    service_cidr: str  # addresses of Services
    ports: Ports = Ports()  # where the components listen
    encryption: Path | None = None  # the EncryptionConfiguration of Secrets; None: they are not encrypted
    extra: Mapping[str, Flags] = field(default_factory=dict)  # flags of the user by component; they win
    # Of an etcd of several; None: a datastore for this server only, as k3s's SQLite.
    member: EtcdMember | None = None
    cluster_domain: str = CLUSTER_DOMAIN  # in the name of the issuer of service account tokens

    @property
    def peer_url(self) -> str:
        """etcd, for other members."""
        return url_of(self.member.address if self.member else "127.0.0.1", self.ports.etcd_peer)

    @property
    def etcd_url(self) -> str:
        """etcd, from this machine."""
        return f"https://127.0.0.1:{self.ports.etcd}"

    @property
    def url(self) -> str:
        """The API server, from this machine."""
        return f"https://127.0.0.1:{self.ports.api}"


def nth_address(cidr: str, number: int) -> str:
    """The n-th address of the first range in a (dual-stack) list of ranges."""
    return str(ipaddress.ip_network(cidr.split(",", 1)[0])[number])


def arguments(flags: Flags) -> list[str]:
    """Flags as a command line."""
    return [f"--{name}={value}" for name, value in flags.items()]


def parse_flags(words: Sequence[str]) -> dict[str, str]:
    """``name=value`` words, as in ``--kubelet-arg``; a name without a value is a switch.

    The last value of a name wins, except that feature gates add up.
    """
    result: dict[str, str] = {}
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if name == "feature-gates" and name in result:
            value = f"{result[name]},{value}"
        result[name] = value if equals else "true"
    return result


def commands(wanted: ControlPlane) -> dict[str, list[str]]:
    """The command line of every component, in the order in which they start."""
    flags = {
        "etcd": etcd(wanted),
        "kube-apiserver": api_server(wanted),
        "kube-controller-manager": controller_manager(wanted),
        "kube-scheduler": scheduler(wanted),
    }
    extra = wanted.extra
    return {name: [name, *arguments({**own, **extra.get(name, {})})] for name, own in flags.items()}


def etcd(wanted: ControlPlane) -> Flags:
    """Flags of etcd.

    Its writes are not flushed to the disk: a machine's power-off ends processes, but their pages belong to
    the host and stay. Only a crash of the host could lose them.
    """
    peer = wanted.peer_url
    client = url_of(wanted.member.address, wanted.ports.etcd) if wanted.member else wanted.etcd_url
    name = wanted.member.name if wanted.member else "default"
    joined = wanted.member.cluster if wanted.member else ""
    # k3s's values, for members with a high latency
    alone = {"force-new-cluster": "true"} if wanted.member and wanted.member.alone else {}
    timing = {"heartbeat-interval": "500", "election-timeout": "5000"} if wanted.member else {}
    authority = str(wanted.pki.etcd_authority.certificate)
    own, key = str(wanted.pki.certificate(pki.ETCD_SERVER)), str(wanted.pki.key(pki.ETCD_SERVER))
    return {
        "name": name,
        "data-dir": str(wanted.data / "db" / "etcd"),
        "listen-client-urls": ",".join(dict.fromkeys((wanted.etcd_url, client))),
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": joined or f"{name}={peer}",
        "initial-cluster-state": "existing" if joined else "new",
        **timing,
        **alone,
        "client-cert-auth": "true",
        "trusted-ca-file": authority,
        "cert-file": own,
        "key-file": key,
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": authority,
        "peer-cert-file": own,
        "peer-key-file": key,
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }


def api_server(wanted: ControlPlane) -> Flags:
    """Flags of the API server."""
    p = wanted.pki
    encryption = {"encryption-provider-config": str(wanted.encryption)} if wanted.encryption else {}
    issuer = f"https://kubernetes.default.svc.{wanted.cluster_domain}"
    return {
        **encryption,
        "advertise-address": wanted.advertise_address,
        "bind-address": wanted.bind_address,
        "secure-port": str(wanted.ports.api),
        "allow-privileged": "true",
        "anonymous-auth": "false",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "client-ca-file": str(p.client_authority.certificate),
        "etcd-servers": wanted.etcd_url,
        "etcd-cafile": str(p.etcd_authority.certificate),
        "etcd-certfile": str(p.certificate(pki.ETCD_CLIENT)),
        "etcd-keyfile": str(p.key(pki.ETCD_CLIENT)),
        "kubelet-certificate-authority": str(p.server_authority.certificate),
        "kubelet-client-certificate": str(p.certificate(pki.API_SERVER)),
        "kubelet-client-key": str(p.key(pki.API_SERVER)),
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "proxy-client-cert-file": str(p.certificate(pki.FRONT_PROXY)),
        "proxy-client-key-file": str(p.key(pki.FRONT_PROXY)),
        "requestheader-allowed-names": "system:auth-proxy",
        "requestheader-client-ca-file": str(p.front_proxy_authority.certificate),
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "service-account-issuer": issuer,
        "api-audiences": f"{issuer},k3s",
        "service-account-key-file": str(p.service_account_public_key),
        "service-account-signing-key-file": str(p.service_account_key),
        "service-cluster-ip-range": wanted.service_cidr,
        "tls-cert-file": str(p.certificate(pki.SERVING)),
        "tls-private-key-file": str(p.key(pki.SERVING)),
    }


def controller_manager(wanted: ControlPlane) -> Flags:
    """Flags of the controller manager: without the controllers of the cloud-controller-manager."""
    p, kubeconfig = wanted.pki, str(wanted.data / "controller.kubeconfig")
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": str(wanted.ports.controller_manager),
        "cloud-provider": "external",
        "allocate-node-cidrs": "true",
        "configure-cloud-routes": "false",
        "cluster-cidr": wanted.cluster_cidr,
        "service-cluster-ip-range": wanted.service_cidr,
        "client-ca-file": str(p.client_authority.certificate),
        "requestheader-client-ca-file": str(p.front_proxy_authority.certificate),
        "cluster-signing-kube-apiserver-client-cert-file": str(p.client_authority.certificate),
        "cluster-signing-kube-apiserver-client-key-file": str(p.client_authority.key),
        "cluster-signing-kubelet-client-cert-file": str(p.client_authority.certificate),
        "cluster-signing-kubelet-client-key-file": str(p.client_authority.key),
        "cluster-signing-kubelet-serving-cert-file": str(p.server_authority.certificate),
        "cluster-signing-kubelet-serving-key-file": str(p.server_authority.key),
        "root-ca-file": str(p.server_authority.certificate),
        "service-account-private-key-file": str(p.service_account_key),
        "use-service-account-credentials": "true",
        # It makes an account and a token for each controller at its first start: with the default limit of 20
        # requests a second that takes four seconds, and nodes wait that long for their podCIDR.
        "kube-api-qps": "200",
        "kube-api-burst": "400",
        "leader-elect": "true" if wanted.member else "false",
        "profiling": "false",
    }


def scheduler(wanted: ControlPlane) -> Flags:
    """Flags of the scheduler."""
    kubeconfig = str(wanted.data / "scheduler.kubeconfig")
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": str(wanted.ports.scheduler),
        "leader-elect": "true" if wanted.member else "false",
        "profiling": "false",
    }


def write_kubeconfigs(wanted: ControlPlane) -> None:
    """Write the files that the command lines name."""
    for name, user in (("controller", pki.CONTROLLER_MANAGER), ("scheduler", pki.SCHEDULER)):
        config = by_path(wanted.url, *wanted.pki.access(user))
        write_secret(wanted.data / f"{name}.kubeconfig", config)
