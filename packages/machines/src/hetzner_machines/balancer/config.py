"""The configuration of haproxy for one load balancer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetzner_emulator.backend import HealthCheck, LoadBalancerService, LoadBalancerSpec, LoadBalancerTarget

ALGORITHMS = {"round_robin": "roundrobin", "least_connections": "leastconn"}
HTTP_PORT = 80
HTTPS_PORT = 443


@dataclass(frozen=True)
class Places:
    """Paths of one haproxy."""

    stats: str  # socket for statistics and commands to the worker
    state: str  # file with the servers' health from before a reload
    certificates: str  # folder of the certificates
    ipv6: bool = True  # whether the kernel has IPv6

    def bind(self, port: int, tls: str = "") -> Iterator[str]:
        """Listen on a port of all addresses; a single socket would show IPv4 addresses as IPv6."""
        yield f"  bind *:{port}{tls}"
        if self.ipv6:
            yield f"  bind :::{port} v6only{tls}"


def render(spec: LoadBalancerSpec, places: Places, connections: int) -> str:
    """The configuration file."""
    lines = [*_general(places, min(spec.max_connections, connections))]
    for service in spec.services:
        lines += _frontend(service, places)
        lines += _backend(spec, service)
    lines += _redirects(spec.services, places)
    return "\n".join(lines) + "\n"


def certificates(spec: LoadBalancerSpec) -> dict[str, str]:
    """File names and contents of all certificates."""
    return {
        certificate_name(service, number): text
        for service in spec.services
        for number, text in enumerate(service.certificates)
    }


def certificate_name(service: LoadBalancerService, number: int) -> str:
    """The file of one certificate of a service."""
    return f"{service.listen_port}-{number}.pem"


def backend_name(listen_port: int) -> str:
    """The name of a service's targets."""
    return f"service-{listen_port}"


def server_name(address: str) -> str:
    """The name of a target; it must stay the same over a reload, which keeps the target's health."""
    return f"target-{address}"


def _general(places: Places, connections: int) -> Iterator[str]:
    yield "global"
    yield f"  stats socket {_quoted(places.stats)} mode 600 level admin expose-fd listeners"
    yield f"  server-state-file {_quoted(places.state)}"
    yield f"  maxconn {connections}"
    yield "  nbthread 1"
    # Check all targets at once at the start.
    yield "  max-spread-checks 100"
    yield "  ssl-default-bind-options ssl-min-ver TLSv1.2"
    yield "defaults"
    yield "  load-server-state-from-file global"
    yield "  option redispatch"
    yield "  retries 3"
    yield "  timeout connect 4s"
    yield "  timeout client 1h"
    yield "  timeout server 1h"


def _frontend(service: LoadBalancerService, places: Places) -> Iterator[str]:
    if service.protocol == "https" and not service.certificates:
        return  # a managed certificate that was not issued yet
    mode = "tcp" if service.protocol == "tcp" else "http"
    yield f"frontend port-{service.listen_port}"
    yield f"  mode {mode}"
    yield from places.bind(service.listen_port, _tls(service, places))
    if mode == "http":
        yield f"  timeout client {service.timeout_idle}s"
        yield "  option forwardfor"
        yield f"  http-request set-header X-Forwarded-Proto {service.protocol}"
        yield f"  http-request set-header X-Forwarded-Port {service.listen_port}"
    yield f"  default_backend {backend_name(service.listen_port)}"


def _tls(service: LoadBalancerService, places: Places) -> str:
    if service.protocol != "https":
        return ""
    files = (certificate_name(service, number) for number in range(len(service.certificates)))
    return " ssl alpn h2,http/1.1" + "".join(f" crt {_quoted(f'{places.certificates}/{f}')}" for f in files)


def _backend(spec: LoadBalancerSpec, service: LoadBalancerService) -> Iterator[str]:
    http = service.protocol != "tcp"
    yield f"backend {backend_name(service.listen_port)}"
    yield f"  mode {'http' if http else 'tcp'}"
    yield f"  balance {ALGORITHMS[spec.algorithm]}"
    if http:
        yield f"  timeout server {service.timeout_idle}s"
    if http and service.sticky_sessions:
        life = service.cookie_lifetime
        yield f'  cookie {_quoted(service.cookie_name)} insert indirect nocache attr "Max-Age={life}"'
    yield f"  timeout check {service.health_check.timeout}s"
    yield from _check(service.health_check)
    for target in spec.targets:
        yield _server(service, target)


def _server(service: LoadBalancerService, target: LoadBalancerTarget) -> str:
    check = service.health_check
    # Shorter than at Hetzner while a target changes its state, to save a minute of waiting.
    times = f"inter {check.interval}s fastinter 1s downinter {min(check.interval, 2)}s"
    words = [
        f"  server {server_name(target.address)} {target.address}:{service.destination_port}",
        f"check port {check.port} {times} fall {check.retries} rise {check.retries}",
    ]
    if check.protocol == "http" and check.tls:
        words.append("check-ssl verify none")
    if service.proxyprotocol:
        words.append("send-proxy")
        if check.port == service.destination_port:
            words.append("check-send-proxy")
    if service.protocol != "tcp" and service.sticky_sessions:
        words.append(f"cookie {target.address}")
    return " ".join(words)


def _check(check: HealthCheck) -> Iterator[str]:
    if check.protocol != "http":
        return
    domain = (check.domain or "").replace("%", "%%")  # a header's value may have variables, a domain does not
    host = f" hdr Host {_quoted(domain)}" if domain else ""
    version = "HTTP/1.1" if check.domain else "HTTP/1.0"
    yield "  option httpchk"
    yield f"  http-check send meth GET uri {_quoted(check.path)} ver {version}{host}"
    yield f"  http-check expect rstatus {_quoted(status_pattern(check.status_codes))}"
    if check.response:
        yield f"  http-check expect string {_quoted(check.response)}"


def status_pattern(codes: tuple[str, ...]) -> str:
    """A regular expression for status codes in which ``?`` is one character and ``*`` any number of them."""
    parts = (re.escape(code).replace(r"\?", ".").replace(r"\*", ".*") for code in codes)
    return f"^({'|'.join(parts)})$"


def _redirects(services: tuple[LoadBalancerService, ...], places: Places) -> Iterator[str]:
    """Redirect port 80 to the first HTTPS service that asks for it."""
    taken = any(service.listen_port == HTTP_PORT for service in services)
    wanted = [s for s in services if s.protocol == "https" and s.redirect_http]
    if taken or not wanted:
        return
    port = wanted[0].listen_port
    yield "frontend redirect"
    yield "  mode http"
    yield from places.bind(HTTP_PORT)
    if port == HTTPS_PORT:
        yield "  http-request redirect scheme https code 301"
    else:
        yield "  http-request set-var(txn.host) hdr(host),field(1,:)"
        yield f"  http-request redirect location https://%[var(txn.host)]:{port}%[capture.req.uri] code 301"


def _quoted(text: str) -> str:
    """One word of the configuration, quoted; nothing in it is expanded."""
    return "'" + text.replace("'", "'\\''").replace("\n", " ").replace("\r", " ") + "'"
