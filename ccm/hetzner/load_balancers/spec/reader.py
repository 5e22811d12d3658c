"""Reads annotations by the table of keys: what counts for the Service, and for each of its ports.

Nothing here raises, whatever the texts are: an odd value becomes a problem, and counts as not set. What it
costs is bounded, for each value is parsed once, for however many ports it counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.service_annotations import PREFIX, Annotations
from ccm.hetzner.load_balancers.service_errors import shown
from ccm.hetzner.load_balancers.spec.annotation_table import (
    BY_NAME,
    TABLE,
    CertificateSpec,
    HealthCheckSpec,
    PortSpec,
)
from ccm.hetzner.settings import LoadBalancerSettings

_NOTHING: Mapping[str, str] = {}
_DEFAULTS = {
    name: key.kind.parse(key.default) if key.default else key.kind.empty for name, key in BY_NAME.items()
}
MAX_PORTS = 250  # no type of load balancer has a fifth as many
# Which field comes from which annotation, for those that somebody else may have set as well.
_FIELDS = {key.field.rpartition(".")[2]: key for key in TABLE if key.field}
_CHECK_KEYS = {name: key.name for name, key in _FIELDS.items() if key.field.startswith("health_check.")}
_KEYS = {name: key.name for name, key in _FIELDS.items() if name not in _CHECK_KEYS}


class Values:
    """The values that count for the Service, or for one of its ports, by key.

    That is the annotation's; without one the environment's; without that the table's default.

    Args:
        annotations: All of them.
        defaults: What the environment says.
        port: Those of this port win; None = only those for the Service count.
    """

    def __init__(
        self, annotations: Annotations, defaults: LoadBalancerSettings, port: int | None = None
    ) -> None:
        self._annotations = annotations
        self._defaults = defaults
        self._port = port
        self._own = annotations.ports.get(port, _NOTHING) if port is not None else _NOTHING

    def __contains__(self, key: str) -> bool:
        """Whether the key is annotated with something, right or wrong."""
        return key in self._own or key in self._annotations.whole

    def __getitem__(self, key: str) -> Any:
        """The value that counts."""
        for value in (self.annotated(key), self._of_environment(key)):
            if value is not None:
                return value
        return _DEFAULTS[key]

    def annotated(self, key: str) -> Any:
        """The annotation's value; None = there is none, or a wrong one, which is noted as a problem."""
        found = self._find(key)
        if found is None:
            return None
        name, text = found
        parsed, kind = self._annotations.parsed, BY_NAME[key].kind
        if name not in parsed:
            parsed[name] = kind.parse(text)
            if parsed[name] is None:
                self._annotations.problems[name] = f"{name}: {shown(text)} is not {kind.allowed}"
        return parsed[name]

    def is_asked(self, key: str) -> bool:
        """Whether the owner or the environment says anything, so that it is no mere default."""
        return key in self or self._of_environment(key) is not None

    def refuse(self, key: str, why: str) -> None:
        """Note a problem that only shows when several keys are looked at."""
        name, value = self._find(key) or (PREFIX + key, "")
        self._annotations.problems[name] = f"{name}: {shown(value)} {why}"

    def _of_environment(self, key: str) -> object:
        variable = BY_NAME[key].variable
        value = getattr(self._defaults, variable.lower()) if variable else None
        return None if value == "" else round(value) if isinstance(value, float) else value

    def _find(self, key: str) -> tuple[str, str] | None:
        if key in self._own:
            return f"{PREFIX}port.{self._port}.{key}", self._own[key]
        text = self._annotations.whole.get(key)
        return None if text is None else (PREFIX + key, text)


def read_ports(
    service: ServiceView, annotations: Annotations, defaults: LoadBalancerSettings
) -> Mapping[int, PortSpec]:
    """The ports that a load balancer can have; those without annotations of their own share one answer."""
    numbers = heapq.nsmallest(MAX_PORTS, {port.port for port in service.ports if port.protocol == "TCP"})
    same = _port(Values(annotations, defaults), service.uid)
    return {
        number: _port(Values(annotations, defaults, number), service.uid)
        if number in annotations.ports
        else same
        for number in numbers
    }


def _port(values: Values, uid: str) -> PortSpec:
    fields = {name: values[key] for name, key in _KEYS.items()}
    protocol = fields["protocol"]
    fields["redirect_http"] = fields["redirect_http"] and protocol == "https"
    return PortSpec(
        **fields,
        certificates=_certificates(values, uid) if protocol == "https" else CertificateSpec(),
        check=_check(values, protocol),
        asked=frozenset(name for name, key in _KEYS.items() if values.is_asked(key)),
    )


def _certificates(values: Values, uid: str) -> CertificateSpec:
    if values["certificate-type"] == "uploaded":
        return CertificateSpec(uploaded=values["http-certificates"])
    domains = values["http-managed-certificate-domains"]
    if "http-managed-certificate-domains" not in values:
        values.refuse("http-managed-certificate-domains", "is missing: a managed certificate needs domains")
    return CertificateSpec(
        domains=domains,
        name=values["http-managed-certificate-name"] or f"ccm-managed-certificate-{uid}",
        staging=values["http-managed-certificate-acme-staging"],
    )


def _check(values: Values, protocol: str) -> HealthCheckSpec | None:
    """The health check; None = nothing was said about it."""
    asked = {name for name, key in _CHECK_KEYS.items() if values.is_asked(key)}
    named = {key for key in ("protocol", "port") if "health-check-" + key in values}
    chosen = bool(named or asked & {"interval", "timeout", "retries"})
    # Without any of these keys the official CCM has targets checked by TCP, whatever the others say.
    usual = "http" if protocol != "tcp" and chosen else "tcp"
    # The load balancer ends TLS itself: behind an https port it speaks plain HTTP, so does its check.
    protocol = values["health-check-protocol"] or usual
    fields = {name: values[key] for name, key in _CHECK_KEYS.items()}
    interval, timeout = fields["interval"], fields["timeout"]
    if timeout > interval:
        if values.annotated("health-check-timeout") is not None:
            values.refuse("health-check-timeout", f"is longer than the interval of {interval} seconds")
        fields["timeout"] = interval
    fields["tls"] = fields["tls"] or protocol == "https"
    check = HealthCheckSpec(
        protocol="tcp" if protocol == "tcp" else "http",
        port=values["health-check-port"],
        **fields,
        chosen=bool(named),
        asked=frozenset(asked | ({"tls"} if protocol == "https" else set())),
    )
    return check if chosen else None
