"""Reads the stack's configuration: its settings, and every problem that can be found without a network."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .errors import Problem
from .k3s import COMPONENTS
from .pools import MOST_WORKERS
from .server_spec import CONTROL_COUNTS
from .settings import (
    API_ENDPOINTS,
    CNIS,
    INGRESSES,
    MOST_DRAIN_SECONDS,
    NETWORK_ZONES,
    POD_SECURITY,
    PROVIDERS,
    Settings,
)
from .settings_reader import NAMESPACE, Reader, key_of
from .settings_rules import problems_between

_URL = r"https?://[^\s/'\"#]{1,255}[^\s'\"#]{0,2000}"
_URL_ALLOWED = "give an address that begins with https:// or http://"
_IMAGE = r"[A-Za-z0-9][\w.:/@-]{0,511}", "give an image reference such as registry.example.com/ccm:1"
_CLUSTER_NAME = (
    r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    "give 1 to 40 lower-case letters, digits and hyphens; a letter first, no hyphen last",
)
_NETWORK_ID = r"([1-9][0-9]{0,18})?", "give the ID of a Hetzner network, or nothing"
_K3S_CHANNEL = r"[a-z0-9.]{0,63}", "give a k3s channel such as stable or v1.36"
_K3S_VERSION = (
    r"(v\d{1,3}\.\d{1,3}\.\d{1,3}[-+.\w]{0,40})?",
    f"give a k3s version such as v1.37.2+k3s1, or nothing; a channel is {key_of('k3s_channel')}",
)
_K3S_INSTALLER = (
    _URL + r"(#sha256=[0-9a-f]{64})?",
    f"{_URL_ALLOWED}, and after it, if the installer is to be checked, #sha256= and 64 hexadecimal digits",
)
WHO_MAY_REACH_IT = """say who may reach SSH and the Kubernetes API of the servers, which stand on the Internet
      pulumi config set sshAllowedCidrs 198.51.100.7    with your address for this one, or a range
      pulumi config set sshAllowedCidrs any             for everybody"""


def parse_settings(raw: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """Reads the configuration as far as it can be read.

    Args:
        raw: Full keys (``namespace:key``) and values, as Pulumi hands them to a program: texts, structured
            ones as JSON. Keys of other namespaces are none of our business.

    Returns:
        The settings, with something harmless where a value could not be read, and every problem.
    """
    reader = Reader(raw)
    settings = _read(reader)
    unread = {problem.key.partition("[")[0] for problem in reader.problems}
    problems = [*reader.problems, *_unknown_keys(raw), *problems_between(settings, unread)]
    return settings, problems


def _read(reader: Reader) -> Settings:
    return Settings(
        cluster_name=reader.matching("cluster_name", *_CLUSTER_NAME),
        location=reader.text("location"),
        network_zone=reader.choice("network_zone", NETWORK_ZONES),
        control_server_type=reader.text("control_server_type"),
        private_nodes=reader.flag("private_nodes"),
        nat_server_type=reader.text("nat_server_type"),
        gateway=reader.gateway("gateway"),
        control_count=reader.odd("control_count", CONTROL_COUNTS),
        control_locations=reader.names("control_locations", max(CONTROL_COUNTS)),
        api_endpoint=reader.choice("api_endpoint", API_ENDPOINTS),
        worker_server_type=reader.text("worker_server_type"),
        worker_count=reader.number("worker_count", 0, MOST_WORKERS),
        pools=reader.pools("pools"),
        fallbacks=reader.fallbacks("fallbacks"),
        drain_seconds=reader.number("drain_seconds", 0, MOST_DRAIN_SECONDS),
        max_unavailable=reader.number("max_unavailable", 1, MOST_WORKERS),
        autoscaler_image=reader.matching("autoscaler_image", *_IMAGE),
        image=reader.text("image"),
        labels=reader.labels("labels"),
        network_cidr=reader.cidr("network_cidr"),
        subnet_cidr=reader.cidr("subnet_cidr"),
        import_network=reader.matching("import_network", *_NETWORK_ID),
        cluster_cidr=reader.cidr("cluster_cidr"),
        service_cidr=reader.cidr("service_cidr"),
        k3s_channel=reader.matching("k3s_channel", *_K3S_CHANNEL),
        k3s_version=reader.matching("k3s_version", *_K3S_VERSION),
        k3s_install_url=reader.matching("k3s_install_url", *_K3S_INSTALLER),
        k3s_disable=reader.several("k3s_disable", COMPONENTS),
        cni=reader.choice("cni", CNIS),
        ingress=reader.choice("ingress", INGRESSES),
        ccm_image=reader.matching("ccm_image", *_or_nothing(*_IMAGE)),
        cloud_provider_name=reader.choice("cloud_provider_name", PROVIDERS),
        hcloud_endpoint=reader.matching("hcloud_endpoint", *_or_nothing(_URL, _URL_ALLOWED)),
        kubeconfig_path=reader.file("kubeconfig_path"),
        ssh_allowed_cidrs=reader.sources("ssh_allowed_cidrs", unsaid=WHO_MAY_REACH_IT),
        node_port_allowed_cidrs=reader.sources("node_port_allowed_cidrs"),
        protect=reader.flag("protect"),
        allow_deletion_of=reader.ids("allow_deletion_of"),
        etcd_snapshots=(backups := reader.backups("etcd_snapshots")),
        restore_from=reader.snapshot("restore_from", backups),
        os_upgrades=reader.window("os_upgrades"),
        kured_image=reader.matching("kured_image", *_IMAGE),
        pods_reach_metadata=reader.flag("pods_reach_metadata"),
        pod_security=reader.choice("pod_security", POD_SECURITY),
        taint_control_servers=reader.flag("taint_control_servers"),
    )


def _or_nothing(pattern: str, allowed: str) -> tuple[str, str]:
    return f"({pattern})?", f"{allowed}, or nothing"


def _unknown_keys(raw: Mapping[str, Any]) -> list[Problem]:
    known = {key_of(field.name).partition(":")[2] for field in fields(Settings)}
    problems = []
    for key in sorted(raw):
        namespace, _, name = key.partition(":")
        if namespace != NAMESPACE or name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {NAMESPACE}:{near[0]}?" if near else f"known are {', '.join(sorted(known))}"
        problems.append(Problem(key, raw[key], f"there is no such key; {hint}"))
    return problems
