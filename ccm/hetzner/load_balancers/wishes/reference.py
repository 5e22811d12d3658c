"""Writes the reference of annotations: ``python -m ccm.hetzner.load_balancers.wishes.reference > FILE``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ccm.hetzner.load_balancers.wishes.table import PREFIX, TABLE, Key

_HEAD = f"""\
# Annotations of Services

<!-- made from its table of keys by: python -m ccm.hetzner.load_balancers.wishes.reference -->

Keys stand below `{PREFIX}` and are the official Hetzner CCM's, apart from those marked *ours*. Values
are texts, so `true` and numbers need quotes in YAML; white space around them and around the items of a
list is dropped, an empty value counts as none, and words may be in upper or lower case. Durations are
seconds (`15`) or written like `15s` or `1m30s`; fractions of a second are dropped. A default in the
column *environment* counts for all Services; its name stands below `HCLOUD_LOAD_BALANCERS_`. The last
column says how the official CCM reads a value, where a Service should work under both: it drops no white
space, takes no bare seconds and no words like `TRUE ` for `true`. `python -m ccm lint --for=official FILE`
finds what it would read otherwise; it knows no keys of single ports.

What is not annotated has its default in a load balancer that is made, and stays as it is in one that exists,
whoever set it. Taking an annotation away takes its effect away.

All annotations below the prefix together may have 32768 characters; if they have more, none of them counts.

Everything that is wrong with a Service is told in one Event, `InvalidLoadBalancerAnnotation`, with key,
value and what is allowed. Until it is put right, a load balancer that exists keeps its settings and
goes on following the nodes; a new one is not made. `python -m ccm lint FILE` finds the same offline,
`python -m ccm plan service/NAME` says what would be done.
"""

_PORTS = """
## The ports

These count for all ports of a Service, or for one of them, which then wins, with the port's number
before the key: `port.443.protocol: https`. Without any key of a health check the API's defaults count,
and with `externalTrafficPolicy: Local` the Service's health check port is asked by HTTP for `/healthz`.
"""


def reference() -> str:
    """The page."""
    whole = (key for key in TABLE if not key.port)
    ports = (key for key in TABLE if key.port)
    return "\n".join([_HEAD, "## The load balancer", "", *_rows(whole), _PORTS, *_rows(ports)]) + "\n"


def _rows(keys: Iterable[Key]) -> Iterator[str]:
    yield "| annotation | value | default | environment | meaning | official |"
    yield "|---|---|---|---|---|---|"
    for key in keys:
        name = f"`{key.name}`" + (" *ours*" if key.ours else "")
        default = f"`{key.default}`" if key.default else ""
        variable = f"`{key.variable}`" if key.variable else ""
        yield f"| {name} | {key.allowed} | {default} | {variable} | {key.meaning} | {key.official.value} |"


if __name__ == "__main__":
    print(reference(), end="")
