"""`python -m ccm lint FILE ...`: checks the annotations of Services in manifests, offline.

The same reader is used as in the cluster, so what passes here is understood there. What only the cloud knows
(locations, types, certificates, networks) is not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from ccm.cloud import ServicePort, ServiceView
from ccm.hetzner import environment
from ccm.hetzner.load_balancers.annotations import read
from ccm.hetzner.load_balancers.listeners import wanted_listeners
from ccm.kube.objects import Service, decode_object

OK, FOUND, MISUSED = 0, 1, 2
_USAGE = "Usage: python -m ccm lint FILE [FILE ...]     (- reads standard input)"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        place: File and object.
        text: What, and what would be right.
    """

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class Unreadable(Exception):
    """A file is no manifest."""


def lint(name: str, text: str) -> tuple[int, list[Finding]]:
    """Check one file.

    Args:
        name: Of the file.
        text: Its content: YAML or JSON, one or more objects.

    Returns:
        How many Services of type LoadBalancer it has, and what is wrong with them.

    Raises:
        Unreadable: it is neither YAML nor JSON.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(f"{name}: this is no YAML: {' '.join(str(error).split())}") from error
    number, findings = 0, list[Finding]()
    for item in _objects(documents):
        if item.get("kind") != "Service":
            continue
        metadata = cast(
            "Mapping[str, Any]", item.get("metadata") if isinstance(item.get("metadata"), dict) else {}
        )
        place = f"{name}: service {metadata.get('name', '?')}"
        try:
            service = decode_object(dict(item), Service)
        except msgspec.ValidationError as error:
            findings.append(Finding(place, f"{error}; annotations must be texts: put them in quotes"))
            continue
        if service.spec.type == "LoadBalancer":
            number += 1
            findings += [Finding(place, problem) for problem in _problems(service)]
    return number, findings


def _problems(service: Service) -> Iterator[str]:
    # In a file, ports have no node ports yet; the cluster gives them out.
    ports = tuple(ServicePort(one.port, one.node_port or 1, one.protocol) for one in service.spec.ports)
    view = ServiceView(
        service.metadata.namespace,
        service.metadata.name,
        service.metadata.uid,
        service.metadata.annotations,
        ports,
        source_ranges=service.spec.load_balancer_source_ranges,
        load_balancer_ip=service.spec.load_balancer_ip,
        ip_families=service.spec.ip_families,
        session_affinity=service.spec.session_affinity or "None",
    )
    wishes = read(view, _NO_DEFAULTS, network=True)
    yield from wishes.problems.values()
    yield from wishes.remarks.values()
    _, notices = wanted_listeners(view, wishes, {})
    yield from (notice.message for notice in notices)
    for port in ports:
        asked = wishes.ports[port.port]
        if (
            port.protocol == "TCP"
            and asked.protocol == "https"
            and not (asked.certificates.uploaded or asked.certificates.domains)
        ):
            yield f"port {port.port} has protocol https and no certificate: name some in http-certificates"


def _objects(documents: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """The objects of a file, those in a List too."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        item = cast("dict[str, Any]", document)
        entries = item.get("items")
        if str(item.get("kind", "")).endswith("List") and isinstance(entries, list):
            yield from _objects(cast("list[object]", entries))
        else:
            yield item


_NO_DEFAULTS = environment.read({"HCLOUD_TOKEN": "0" * environment.TOKEN_LENGTH}).load_balancers


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code.

    Args:
        arguments: Names of files.
    """
    files = list(sys.argv[2:] if arguments is None else arguments)
    if not files or any(name in ("-h", "--help") for name in files):
        print(_USAGE, file=sys.stderr if not files else sys.stdout)
        return MISUSED if not files else OK
    services, findings = 0, list[Finding]()
    for name in files:
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
            number, found = lint(name, text)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            print(f"Error: {name}: can't be read: {why}", file=sys.stderr)
            return MISUSED
        except Unreadable as error:
            print(f"Error: {error}", file=sys.stderr)
            return MISUSED
        services += number
        findings += found
    for finding in findings:
        print(finding)
    print(f"{services} Services of type LoadBalancer, {len(findings)} findings")
    return FOUND if findings else OK
