"""The values of the flags in ``flags``, checked and typed."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from k3s_standin import cron, paths
from k3s_standin.control_plane import nth_address, parse_flags
from k3s_standin.errors import UsageError
from k3s_standin.flags import Value
from k3s_standin.pki import CLUSTER_DOMAIN
from k3s_standin.protocol import is_node_name
from k3s_standin.s3 import S3Options
from k3s_standin.snapshots import SnapshotOptions
from k3s_standin.token import Token, parse_token

_S3_TEXTS = {
    "etcd-s3-endpoint": "endpoint",
    "etcd-s3-endpoint-ca": "authority",
    "etcd-s3-access-key": "access_key",
    "etcd-s3-secret-key": "secret_key",
    "etcd-s3-bucket": "bucket",
    "etcd-s3-region": "region",
    "etcd-s3-folder": "folder",
}
_FLANNEL_BACKENDS = ("none", "vxlan", "host-gw", "wireguard-native")
"""The flannel backends that k3s supports, except ``tailscale``, which requires a VPN (``--vpn-auth``)."""

_S3_SWITCHES = {"etcd-s3-insecure": "insecure", "etcd-s3-skip-ssl-verify": "skip_verify"}


@dataclass(frozen=True)
class NodeOptions:
    """Flags that server and agent share."""

    node_name: str
    node_ips: tuple[str, ...]  # internal addresses; empty to let the kubelet choose
    external_ips: tuple[str, ...]  # external addresses
    labels: tuple[str, ...]  # ``key=value`` each
    taints: tuple[str, ...]  # ``key=value:effect`` each
    kubelet: Mapping[str, str]  # flags for the kubelet
    kube_proxy: Mapping[str, str]  # flags for kube-proxy
    resolv_conf: str  # the file for the DNS of Pods; empty for the kubelet's default
    # Annotations about the command line and the environment.
    started_with: Mapping[str, str] = field(default_factory=dict)
    registries: Path = paths.REGISTRIES  # the file with the registries


@dataclass(frozen=True)
class AgentOptions:
    """The flags of ``k3s agent``."""

    node: NodeOptions  # flags that server and agent share
    server: str  # URL of the server, such as ``https://10.0.0.2:6443``
    token: Token  # the secret to join with
    balancer_port: int  # port of its load balancer on loopback; 0: it uses ``server`` only


@dataclass(frozen=True)
class ServerOptions:
    """The flags of ``k3s server``, with k3s's meaning."""

    node: NodeOptions
    address: str
    server: str
    cluster_init: bool
    token: Token | None
    agent_token: Token | None
    secrets_encryption: bool
    bind_address: str
    advertise_address: str
    port: int
    tls_sans: tuple[str, ...]
    cluster_cidr: str
    service_cidr: str
    cluster_dns: str
    cluster_domain: str
    kubeconfig: Path
    kubeconfig_mode: int
    extra: Mapping[str, Mapping[str, str]]
    disabled: frozenset[str]
    agent_enabled: bool
    scheduler_enabled: bool
    kube_proxy_enabled: bool
    cloud_controller_enabled: bool
    flannel_backend: str
    network_policy_enabled: bool
    storage_path: str
    helm_enabled: bool
    snapshots: SnapshotOptions = field(default_factory=SnapshotOptions)
    reset: bool = False
    restore: str = ""

    @property
    def critical(self) -> dict[str, str]:
        """Flags whose values all servers of a cluster must share."""
        return {
            "cluster-cidr": self.cluster_cidr,
            "service-cidr": self.service_cidr,
            "cluster-dns": self.cluster_dns,
            "cluster-domain": self.cluster_domain,
            "disable-cloud-controller": str(not self.cloud_controller_enabled).lower(),
            "disable-helm-controller": str(not self.helm_enabled).lower(),
            "disable-network-policy": str(not self.network_policy_enabled).lower(),
            "disable=servicelb": str("servicelb" in self.disabled).lower(),
            "flannel-backend": self.flannel_backend,
            "secrets-encryption": str(self.secrets_encryption).lower(),
        }


def _texts(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    return tuple(cast("list[str]", values.get(name, [])))


def text_of(values: Mapping[str, Value], name: str, default: str = "") -> str:
    """The value of a flag with one value."""
    return str(values.get(name, default))


def _addresses(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    texts = _texts(values, name)
    for text in texts:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise UsageError(f"flag --{name}: {text!r} is not an IP address") from None
    return texts


def _ranges(values: Mapping[str, Value], name: str, default: str) -> str:
    texts = _texts(values, name) or (default,)
    versions = []
    for text in texts:
        try:
            versions.append(ipaddress.ip_network(text).version)
        except ValueError as error:
            raise UsageError(f"flag --{name}: {text!r} isn't a CIDR: {error}") from None
    if versions not in ([4], [4, 6]):
        raise UsageError(
            f"flag --{name}: {','.join(texts)} is not supported. Set one IPv4 range, or an IPv4 range "
            "and then an IPv6 range. Unlike k3s, the stand-in accepts an IPv6 range only after an IPv4 range"
        )
    return ",".join(texts)


def is_dual(ranges: str) -> bool:
    """Whether ranges, separated by commas, have both families."""
    return "," in ranges


def check_families(cluster_cidr: str, what: str, given: str, *, dual: bool) -> None:
    """Check that a flag has the families of the Pods' ranges; raises UsageError with k3s's message."""
    if is_dual(cluster_cidr) != dual:
        raise UsageError(
            f"cluster-cidr: [{cluster_cidr.replace(',', ' ')}] and {what}: [{given.replace(',', ' ')}], must "
            "share the same IP version (IPv4, IPv6 or dual-stack)"
        )


def check_node_ips(node: NodeOptions, cluster_cidr: str) -> None:
    """Check that a node of a dual-stack cluster has addresses of both families; raises UsageError.

    Without the flag k3s finds one address, never two. In a single-stack cluster, both are fine.
    """
    versions = {ipaddress.ip_address(address).version for address in node.node_ips}
    if is_dual(cluster_cidr):
        check_families(cluster_cidr, "node-ip", ",".join(node.node_ips), dual=versions == {4, 6})


def number_of(values: Mapping[str, Value], name: str, default: str, base: int = 10) -> int:
    """The value of a numeric flag; raises UsageError."""
    text = text_of(values, name, default)
    try:
        return int(text, base)
    except ValueError:
        raise UsageError(f"flag --{name}: {text!r} is not a number") from None


def _token(values: Mapping[str, Value], name: str) -> Token | None:
    if file := text_of(values, f"{name}-file"):
        try:
            return parse_token(Path(file).read_text())
        except OSError as error:
            raise UsageError(f"flag --{name}-file: {error}") from None
    text = text_of(values, name)
    return parse_token(text) if text else None


def node_options(values: Mapping[str, Value], hostname: str) -> NodeOptions:
    """The flags that server and agent share; a wrong value is a UsageError that names the flag."""
    name = text_of(values, "node-name") or hostname.lower()
    if not is_node_name(name):
        raise UsageError(
            f"flag --node-name: {name!r} isn't a valid node name. Allowed characters: lower-case "
            "letters, digits, '-' and '.'"
        )
    return NodeOptions(
        node_name=name,
        node_ips=_addresses(values, "node-ip"),
        external_ips=_addresses(values, "node-external-ip"),
        labels=_texts(values, "node-label"),
        taints=_texts(values, "node-taint"),
        kubelet=parse_flags(_texts(values, "kubelet-arg")),
        kube_proxy=parse_flags(_texts(values, "kube-proxy-arg")),
        resolv_conf=text_of(values, "resolv-conf"),
        registries=Path(text_of(values, "private-registry") or paths.REGISTRIES),
    )


def agent_options(values: Mapping[str, Value], hostname: str) -> AgentOptions:
    """The flags of ``k3s agent``; a wrong or missing value is a UsageError that names the flag."""
    url, token = text_of(values, "server").rstrip("/"), _token(values, "token")
    if not url:
        raise UsageError(
            "--server or K3S_URL is required. Set the URL of a server, for example https://ADDRESS:6443"
        )
    if token is None:
        raise UsageError(
            "--token or K3S_TOKEN is required. The token is in /var/lib/rancher/k3s/server/node-token "
            "on a server"
        )
    port = 0 if values.get("disable-apiserver-lb") else number_of(values, "lb-server-port", "6444")
    return AgentOptions(node_options(values, hostname), _checked_url(url), token, port)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme != "https" or not parts.hostname or port == 0:
        raise UsageError(f"flag --server: {url!r} isn't a URL of the form https://ADDRESS:6443")
    return f"https://{parts.netloc if port else f'{parts.netloc}:443'}"


def server_options(values: Mapping[str, Value], hostname: str, address: str) -> ServerOptions:
    """The flags of ``k3s server``; a wrong value is a UsageError that names the flag."""
    server, token = _joining(values)
    node = node_options(values, hostname)
    cluster_cidr, service_cidr = _pods_and_services(values)
    return ServerOptions(
        node=node,
        address=next(iter(node.node_ips), address),
        server=server,
        cluster_init=bool(values.get("cluster-init")),
        token=token,
        agent_token=_token(values, "agent-token"),
        secrets_encryption=bool(values.get("secrets-encryption")),
        bind_address=text_of(values, "bind-address", "0.0.0.0"),  # noqa: S104 -- k3s's default, inside a machine
        # as k3s, the external address first
        advertise_address=text_of(values, "advertise-address")
        or next(iter((*node.external_ips, *node.node_ips)), address),
        port=number_of(values, "https-listen-port", "6443"),
        tls_sans=_texts(values, "tls-san"),
        cluster_cidr=cluster_cidr,
        service_cidr=service_cidr,
        cluster_dns=_cluster_dns(values, service_cidr),
        cluster_domain=text_of(values, "cluster-domain", CLUSTER_DOMAIN),
        kubeconfig=Path(text_of(values, "write-kubeconfig") or "/etc/rancher/k3s/k3s.yaml"),
        kubeconfig_mode=number_of(values, "write-kubeconfig-mode", "600", base=8),
        extra=_extra(values),
        disabled=frozenset(_texts(values, "disable")),
        agent_enabled=not values.get("disable-agent"),
        scheduler_enabled=not values.get("disable-scheduler"),
        kube_proxy_enabled=not values.get("disable-kube-proxy"),
        cloud_controller_enabled=not values.get("disable-cloud-controller"),
        flannel_backend=_flannel_backend(values),
        network_policy_enabled=not values.get("disable-network-policy"),
        storage_path=text_of(values, "default-local-storage-path") or str(paths.STORAGE),
        helm_enabled=not values.get("disable-helm-controller"),
        snapshots=_snapshots(values),
        reset=bool(values.get("cluster-reset")),
        restore=text_of(values, "cluster-reset-restore-path"),
    )


def _joining(values: Mapping[str, Value]) -> tuple[str, Token | None]:
    """URL of the server to join, empty without one, and the token of servers."""
    server, token = text_of(values, "server").rstrip("/"), _token(values, "token")
    if text_of(values, "cluster-reset-restore-path") and not values.get("cluster-reset"):
        raise UsageError("invalid flag use; --cluster-reset required with --cluster-reset-restore-path")
    if server and values.get("cluster-reset"):
        raise UsageError(
            "cannot perform cluster-reset while server URL is set - remove server from configuration before "
            "resetting"
        )
    if server and token is None:
        raise UsageError("--token or K3S_TOKEN is required to join a cluster")
    return server and _checked_url(server), token


def _pods_and_services(values: Mapping[str, Value]) -> tuple[str, str]:
    """Both ranges, which have the same families."""
    service_cidr = _ranges(values, "service-cidr", "10.43.0.0/16")
    cluster_cidr = _ranges(values, "cluster-cidr", "10.42.0.0/16")
    check_families(cluster_cidr, "service-cidr", service_cidr, dual=is_dual(service_cidr))
    return cluster_cidr, service_cidr


def _flannel_backend(values: Mapping[str, Value]) -> str:
    """As k3s checks it (package agent/flannel)."""
    backend = text_of(values, "flannel-backend", "vxlan")
    if backend not in _FLANNEL_BACKENDS:
        raise UsageError(
            f"flag --flannel-backend: Cannot configure unknown flannel backend '{backend}'. Allowed "
            f"values: {', '.join(_FLANNEL_BACKENDS)}"
        )
    return backend


def _cluster_dns(values: Mapping[str, Value], service_cidr: str) -> str:
    """Addresses of CoreDNS: by default the tenth of each range of Services."""
    given = _addresses(values, "cluster-dns")
    return ",".join(given or (nth_address(one, 10) for one in service_cidr.split(",")))


def _extra(values: Mapping[str, Value]) -> dict[str, dict[str, str]]:
    """Further flags of the control plane's programs, by program."""
    components = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
    extra = {name: parse_flags(_texts(values, f"{name}-arg")) for name in components}
    if ports := text_of(values, "service-node-port-range"):
        extra["kube-apiserver"] = {"service-node-port-range": ports, **extra["kube-apiserver"]}
    return extra


def _snapshots(values: Mapping[str, Value]) -> SnapshotOptions:
    usual = SnapshotOptions()
    schedule = text_of(values, "etcd-snapshot-schedule-cron", usual.schedule)
    try:
        cron.parse(schedule)
    except ValueError as error:
        raise UsageError(f"flag --etcd-snapshot-schedule-cron: {error}") from None
    return SnapshotOptions(
        folder=Path(text_of(values, "etcd-snapshot-dir") or usual.folder),
        name=text_of(values, "etcd-snapshot-name", usual.name),
        retention=number_of(values, "etcd-snapshot-retention", str(usual.retention)),
        schedule="" if values.get("etcd-disable-snapshots") else schedule,
        compress=bool(values.get("etcd-snapshot-compress")),
        s3=_s3(values) if values.get("etcd-s3") else None,
    )


def _s3(values: Mapping[str, Value]) -> S3Options:
    given: dict[str, Any] = {"access_key": "", "secret_key": "", **given_s3(values)}
    if not given.get("bucket"):
        raise UsageError("flag --etcd-s3: s3 bucket name was not set. Set --etcd-s3-bucket")
    return S3Options(**given)


def given_s3(values: Mapping[str, Value]) -> dict[str, Any]:
    """The flags for S3, by the names of ``S3Options``."""
    given: dict[str, Any] = {
        name: text_of(values, flag) for flag, name in _S3_TEXTS.items() if flag in values
    }
    given |= {name: bool(values[flag]) for flag, name in _S3_SWITCHES.items() if flag in values}
    retentions = [flag for flag in ("etcd-s3-retention", "etcd-snapshot-retention") if flag in values]
    return given | ({"retention": number_of(values, retentions[0], "5")} if retentions else {})
