from typing import Any

import pytest
from cloud_emulator import CHECK, KEY, LB, RULE, SERVER, SERVICE, Emulator

from hetzner_emulator.resources.certificates.pem import issue

CHAIN, PRIVATE_KEY = issue(["example.com"], 0)
CLOUD = {"type": "cloud", "network_zone": "eu-central"}
BAD_KEYS = ["", " \n", "nonsense", "ssh-rsa AAAA", "ssh-ed25519 !!!", KEY.replace("AAAAC3", "AAAAC4")]
BAD_RANGES = ["8.8.8.0/24", "100.64.0.0/10", "10.0.0.0/25", "0.0.0.0/0", "172.32.0.0/16", "10.0.0.0/33"]
VALID: dict[str, dict[str, Any]] = {
    "certificates": {"name": "cert", "certificate": CHAIN, "private_key": PRIVATE_KEY},
    "firewalls": {"name": "fw"},
    "load_balancers": LB,
    "networks": {"name": "net", "ip_range": "10.0.0.0/16"},
    "servers": SERVER,
    "ssh_keys": {"name": "key"},
    "volumes": {"name": "a", "size": 10, "location": "fsn1"},
}


def service(**change: Any) -> dict[str, Any]:
    return {"services": [{**SERVICE, **change}]}


def check(**change: Any) -> dict[str, Any]:
    return service(health_check={**CHECK, **change})


def http_check(**change: Any) -> dict[str, Any]:
    return check(protocol="http", http=change)


def target(kind: str, value: Any) -> dict[str, Any]:
    return {"targets": [{"type": kind, kind: value}]}


def rule(**change: Any) -> dict[str, Any]:
    return {"rules": [{**RULE, **change}]}


# By resource: what differs from a valid body, and the invalid fields or the code of the error
INVALID: dict[str, list[tuple[dict[str, Any], list[str] | str]]] = {
    "certificates": [
        ({"certificate": "nonsense"}, ["certificate"]),
        ({"private_key": issue(["other.com"], 0)[1]}, ["private_key"]),
        ({"private_key": None}, ["private_key"]),
        ({"type": "magic"}, ["type"]),
        ({"type": "managed"}, ["domain_names"]),
        ({"type": "managed", "domain_names": ["no domain"]}, ["domain_names"]),
        ({"type": "managed", "domain_names": ["\N{KELVIN SIGN}.example.com"]}, ["domain_names"]),
        ({"type": "managed", "domain_names": []}, ["domain_names"]),
    ],
    "firewalls": [
        *((rule(port=port), ["rules.0.port"]) for port in ("0", "٨٠", "90-80", None)),
        (rule(protocol="icmp"), ["rules.0.port"]),
        *((rule(source_ips=[ip]), ["rules.0.source_ips"]) for ip in ("10.0.0.1/8", "10.0.0.1", "::")),
        (rule(source_ips=[]), ["rules.0.source_ips"]),
        (rule(source_ips=[f"10.0.0.{number}/32" for number in range(101)]), ["rules.0.source_ips"]),
        (rule(direction="out"), ["rules.0.destination_ips"]),
    ],
    "load_balancers": [
        ({"name": " lb"}, ["name"]),
        ({"name": "x" * 129}, ["name"]),
        ({"load_balancer_type": "lb99"}, ["load_balancer_type"]),
        ({"location": None}, ["location"]),
        ({"network_zone": "eu-central"}, ["location"]),
        ({"algorithm": {"type": "random"}}, ["algorithm.type"]),
        ({"network": 1}, "not_found"),
        ({"services": [SERVICE, SERVICE]}, "source_port_already_used"),
        ({"services": [{**SERVICE, "listen_port": p} for p in range(80, 86)]}, "resource_limit_exceeded"),
        (service(protocol="udp"), "invalid_input"),
        (service(listen_port=0), ["services.0.listen_port"]),
        (service(destination_port=70000), ["services.0.destination_port"]),
        (service(protocol="https"), ["services.0.http.certificates"]),
        (service(protocol="http", http={"cookie_lifetime": 29}), ["services.0.http.cookie_lifetime"]),
        (service(protocol="http", http={"timeout_idle": 301}), ["services.0.http.timeout_idle"]),
        (check(interval=2), "invalid_input"),
        (check(timeout=61), "invalid_input"),
        (check(interval=5, timeout=6), ["services.0.health_check.timeout"]),
        (check(retries=6), ["services.0.health_check.retries"]),
        (http_check(status_codes=["2"]), ["services.0.health_check.http.status_codes"]),
        (http_check(path="/a b"), ["services.0.health_check.http.path"]),
        (http_check(domain="100%.de"), ["services.0.health_check.http.domain"]),
        (target("server", {"id": 1}), "not_found"),
        (target("label_selector", {"selector": "a in"}), "invalid_input"),
        (target("ip", {"ip": "1.2.3.4"}), "ip_not_owned"),
        (target("ip", {"ip": "10.0.0.4"}), "load_balancer_not_attached_to_network"),
        *((target("ip", {"ip": ip}), ["targets.0.ip.ip"]) for ip in ("", None, "metal")),
        (target("ip", {}), ["targets.0.ip.ip"]),
    ],
    "networks": [
        *(({"ip_range": ip_range}, ["ip_range"]) for ip_range in (*BAD_RANGES, None)),
        ({"subnets": [{**CLOUD, "network_zone": "mars"}]}, "invalid_input"),
        ({"subnets": [{**CLOUD, "ip_range": "192.168.0.0/24"}]}, "invalid_input"),
        ({"subnets": [{**CLOUD, "type": "moon"}]}, "invalid_input"),
        ({"subnets": [CLOUD, {**CLOUD, "network_zone": "us-east"}]}, "invalid_input"),
        ({"routes": [{"destination": "10.100.1.0/24"}]}, "invalid_input"),
    ],
    "servers": [
        *(({"name": name}, ["name"]) for name in ("under_score", "-x", "")),
        ({"server_type": "cx99"}, ["server_type"]),
        ({"server_type": "cx11"}, ["server_type"]),
        ({"server_type": "cx23", "location": "ash"}, ["server_type"]),
        ({"server_type": "cax11", "image": "fedora-41"}, ["image"]),
        ({"location": "moon"}, ["location"]),
        ({"datacenter": "fsn1-dc14"}, ["datacenter"]),
        ({"ssh_keys": ["nobody"]}, ["ssh_keys"]),
        ({"user_data": "x" * (32 * 1024 + 1)}, ["user_data"]),
        ({"user_data": "ä" * (32 * 1024)}, ["user_data"]),
        ({"labels": {"hetzner.cloud/x": "y"}}, ["labels"]),
        ({"volumes": ["x"]}, ["volumes"]),
        ({"volumes": [1, 1]}, ["volumes"]),
        ({"networks": ["x"]}, ["networks"]),
        ({"public_net": {"enable_ipv4": "yes"}}, ["public_net.enable_ipv4"]),
    ],
    "ssh_keys": [({"public_key": text}, ["public_key"]) for text in BAD_KEYS],
    "volumes": [
        *(({"size": size}, ["size"]) for size in (9, 10_241)),
        ({"format": "btrfs"}, ["format"]),
        *(({"name": name}, ["name"]) for name in ("-a", "a" * 65)),
        ({"location": None}, ["location"]),
        ({"server": 4_000_001}, ["location"]),
        ({"automount": True}, ["automount"]),
    ],
}
ROWS = [(resource, change, expected) for resource, rows in INVALID.items() for change, expected in rows]


@pytest.mark.parametrize(("resource", "change", "expected"), ROWS)
async def test_invalid_requests(emulator: Emulator, resource, change, expected):
    await emulator.expect(expected, "POST", f"/{resource}", {**VALID[resource], **change})
    for collection in (resource, "primary_ips"):
        assert await emulator.get(f"/{collection}") == []
