"""The record of a firewall."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.servers import FIREWALLS_OF, Server, selected
from hetzner_emulator.state.records import Record, record
from hetzner_emulator.wire.labels import parse_selector

MAX_PER_SERVER = 5


@record
class Firewall(Record):
    """Rules, and the servers that they apply to: by ID, and by label selector."""

    KIND: ClassVar[str] = "firewall"
    FIRST_ID: ClassVar[int] = 7_000_001

    rules: list[dict[str, Any]] = msgspec.field(default_factory=list)
    servers: list[int] = msgspec.field(default_factory=list)
    selectors: list[str] = msgspec.field(default_factory=list)


def firewall_wire(cloud: Cloud, firewall: Firewall) -> dict[str, Any]:
    """The firewall as the API shows it."""
    by_id = [{"type": "server", "server": {"id": identity}} for identity in firewall.servers]
    by_label = [
        {
            "type": "label_selector",
            "label_selector": {"selector": selector},
            "applied_to_resources": [
                {"type": "server", "server": {"id": server.id}}
                for server in selected(cloud, firewall.project, selector)
            ],
        }
        for selector in firewall.selectors
    ]
    return {**firewall.common_wire(), "rules": firewall.rules, "applied_to": [*by_id, *by_label]}


def firewalls_of(cloud: Cloud, server: Server) -> list[Firewall]:
    """The firewalls that apply to a server, by its ID or by its labels."""
    return [
        firewall
        for firewall in cloud.store.of(Firewall, server.project)
        if server.id in firewall.servers
        or any(parse_selector(text).matches(server.labels) for text in firewall.selectors)
    ]


FIREWALLS_OF.append(
    lambda cloud, server: [{"id": f.id, "status": "applied"} for f in firewalls_of(cloud, server)]
)


def too_many_firewalls() -> ApiError:
    """The error of a server that would have more firewalls than Hetzner allows."""
    return ApiError("resource_limit_exceeded", f"a server can have {MAX_PER_SERVER} firewalls at most")
