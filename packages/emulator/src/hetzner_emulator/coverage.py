"""Writes the table of emulated operations: ``python -m hetzner_emulator.coverage [FILE]``."""

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

from hetzner_emulator.api.registry import OPERATIONS, Operation
from hetzner_emulator.resources import discover
from hetzner_emulator.resources.storage_boxes.routes import REFUSED

DEFAULT = Path("docs/reference/sandbox-api-coverage.md")
_STORAGE_BOXES = "Storage Boxes are a separate product with their own API address."
NOT_EMULATED = {
    "GET /datacenters*": "Returns status 410, because Hetzner removed the operation in October 2026.",
    **dict.fromkeys(REFUSED, f"Returns status 501. {_STORAGE_BOXES}"),
    "* /storage_boxes*": (
        f"`GET /storage_boxes` returns an empty list. Other operations return status 501. {_STORAGE_BOXES}"
    ),
}
"""Patterns of unsupported operations, and the behavior of the sandbox for each pattern."""

_AVERAGES = "Each value is the average since your last request. Without machines, the values are zero."
PARTLY = {
    "POST /servers": "The machine has the architecture of the host, even for ARM server types.",
    "GET /servers/{id}/metrics": _AVERAGES,
    "GET /load_balancers/{id}/metrics": _AVERAGES,
    "POST /servers/{id}/actions/enable_backup": (
        "Backups aren't created daily. Only `create_image` creates backups."
    ),
    "POST /servers/{id}/actions/create_image": "A running machine is paused while its disk is copied.",
    "POST /servers/{id}/actions/change_type": "Disk sizes aren't enforced: machines share the host's disk.",
    "POST /servers/{id}/actions/attach_iso": "Records which ISO is attached. Machines have no optical drive.",
    "POST /servers/{id}/actions/reset_password": "Returns a password that no machine accepts.",
    "POST /servers/{id}/actions/enable_rescue": (
        "The sandbox stores that the rescue mode is enabled, but machines still start from their disk. "
        "The rescue mode never expires."
    ),
    "POST /servers/{id}/actions/request_console": "Returns an address that doesn't accept connections.",
    "POST /firewalls": "The sandbox applies the rules only if servers run as Linux machines.",
    "POST /zones": (
        "The sandbox stores the zone, but no name server serves the zone. Every domain is accepted, "
        "including subdomains, unknown top-level domains and other owners' domains."
    ),
    "POST /volumes": (
        "A machine gets a device for a volume only if the host has loop devices and cgroups v2. Otherwise, "
        "you can't attach volumes to machines."
    ),
    "POST /volumes/{id}/actions/detach": (
        "The operation fails while the volume is mounted, unless `automount` mounted the volume."
    ),
    "POST /certificates": "Managed certificates are self-signed. Requests for `.invalid` domains fail.",
}
"""Operations that have fewer features in the sandbox than at Hetzner."""

NEWER = {
    "`datacenter` of servers and Primary IPs": (
        "The field doesn't exist.",
        "Hetzner removed the field: https://docs.hetzner.cloud/changelog#2026-07-01-removing-datacenters",
    ),
    "`DELETE /load_balancers/{id}`": (
        "The response has status 201 and an action, not status 204.",
        "In hcloud-python 2.27, `LoadBalancersClient.delete` reads `action` from the response.",
    ),
    "`deprecated` of server types, load balancer types and images": (
        "The field doesn't exist. These objects have the field `deprecation` instead.",
        "Hetzner removed the field: https://docs.hetzner.cloud/changelog#2026-09-08",
    ),
    "`assignee_type` of Primary IPs": (
        (
            "For an unassigned Primary IP, `assignee_type` is `unassigned`. For a Primary IP of a load "
            "balancer, `assignee_type` is `load_balancer`."
        ),
        (
            "Hetzner announced this change for August 2026: https://docs.hetzner.cloud/changelog#2026-04-27. "
            "The value `load_balancer` is our assumption."
        ),
    ),
    "`public_net` in `POST /load_balancers`": (
        "`ipv4` and `ipv6` accept the IDs of Primary IPs. The error codes are those of `POST /servers`.",
        "The source is the changelog of hcloud-go 2.52 of 2026-10-05. The error codes are our assumption.",
    ),
    "`id` and `blocked` in `public_net` of load balancers": (
        "The fields exist. If Hetzner manages the address, `id` is null.",
        "The sources are hcloud-go 2.52 and hcloud-python 2.27. The null value is our assumption.",
    ),
    "changes with a read-only token": (
        "The error is `forbidden` with status 403, not `token_readonly`.",
        "The source is hcloud-go 2.51. The status 403 is our assumption.",
    ),
    "`GET /networks/{id}/members`": ("The operation exists.", "hcloud-python 2.27 uses the operation."),
}
"""Differences between Hetzner's current API and the older OpenAPI document. Each entry has its source."""

_HEAD = """# Operations of the emulated Hetzner Cloud API

Generated by `python -m hetzner_emulator.coverage`; a test keeps the page up to date.

The tables list the operations that the sandbox emulates. If the second cell of a row is empty, the emulated
operation behaves like Hetzner's.
"""


def refusal(name: str) -> str:
    """The reason why an operation is refused; "" if it is emulated."""
    return next((reason for glob, reason in NOT_EMULATED.items() if fnmatchcase(name, glob)), "")


def emulated(operations: Iterable[Operation]) -> list[Operation]:
    """The operations that aren't refused."""
    return [operation for operation in operations if not refusal(operation.name)]


def table() -> str:
    """The whole page."""
    discover()
    present = sorted(emulated(OPERATIONS.values()), key=lambda o: (_resource(o), o.path, o.method))
    lines = [_HEAD, f"{len(present)} operations are emulated.\n"]
    for resource, group in groupby(present, _resource):
        lines += [f"\n## {resource}\n", "| operation | difference |", "|---|---|"]
        lines += [f"| `{operation.name}` | {PARTLY.get(operation.name, '')} |" for operation in group]
    lines += ["\n## Not emulated\n", "| operations | behavior |", "|---|---|"]
    lines += [f"| `{glob}` | {reason} |" for glob, reason in NOT_EMULATED.items()]
    lines += [
        "\n## Changes that Hetzner's OpenAPI document doesn't contain yet\n",
        (
            "In these cases, the sandbox follows a version of the API that is newer than Hetzner's OpenAPI "
            "document.\n"
        ),
        "| subject | in the sandbox | source |",
        "|---|---|---|",
    ]
    lines += [f"| {what} | {here} | {source} |" for what, (here, source) in NEWER.items()]
    return "\n".join(lines) + "\n"


def _resource(operation: Operation) -> str:
    return operation.path.split("/")[1]


def main(arguments: list[str]) -> int:
    """Write the page to the named file, or to its place in the documentation."""
    target = Path(arguments[0]) if arguments else DEFAULT
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(table())
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
