"""Writes the generated pages of this folder: ``python docs/reference/generate.py``.

A test compares the pages with what this makes, so they can't differ from the code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from ccm.hetzner import open_cloud
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import TABLE as KEYS
from ccm.hetzner.settings import VARIABLES
from ccm.kube.events import EventRecorder
from ccm.manager.controllers import TABLE, ControllerContext
from ccm.manager.flags import FLAGS, NO_EFFECT, Flag, parse_flags
from ccm.manager.flags.flag_table import ALIASES, CONTROLLERS
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options
from ccm.testing.fake_cloud import FakeCloud
from ccm.testing.memory_transport import MemoryTransport

HERE = Path(__file__).parent
MADE = "<!-- made by docs/reference/generate.py; a test compares it with the code -->"

_FLAGS = f"""# Flags
{MADE}

`python -m ccm [flags]`. They are read as in all of Kubernetes: `--name=value` or `--name value`; switches are
true without a value; lists have commas, and repeated flags add to them; durations look like `300ms` or
`1h30m`. Everything that is wrong with flags and [environment](environment.md) is told at once, with exit
code 2.

Names, types and defaults are upstream's. Flags in *italics* are accepted so that existing command lines go on
working, and do nothing; the log says so when one is given. What is "not offered" is refused.

`--controllers` knows {{controllers}};
`*` is all, `-name` all but this one, and the names of older releases ({{aliases}}) stand for
the present ones.
"""

_ENVIRONMENT = f"""# Environment
{MADE}

Variables of `--cloud-provider=hcloud` and `ccm-from-scratch`; the official CCM's, and {{ours}} of our own
(†). White space around values is dropped, and an empty variable is one that is not set. Booleans are Go's
(`true`, `1`, `f`, …), durations are Go's (`90s`, `1m30s`) or whole seconds. What counts, defaults included,
is shown by `/configz` on the secure port; of secrets only whether they are set.

A **secret** may come from a file instead: `HCLOUD_TOKEN_FILE`, `ROBOT_USER_FILE` and `ROBOT_PASSWORD_FILE`
name one. The file is read again when it changes, so a rotated Secret takes effect with the next request,
without a restart. A variable wins over its file.

A load balancer or certificate with the **label** `ccm-from-scratch/namespace` belongs to the namespace that
the label names: whoever runs the cluster can give it by that label at Hetzner, and needs no variable. What a
Service has or serves with already, it keeps. A certificate with no label of an owner (namespace, Service,
cluster) is for all, as with the official CCM.

Several clusters in one project need different ids in `CCM_CLUSTER_ID`. It may be set later: what has no id
yet goes on, and gets it with its next change. What has another id is another cluster's and left alone, so
that a changed id is an Event on each Service, and nothing is lost. Without an id, load balancers are shared
only with Services that this process has served.
"""

_METRICS = f"""# Metrics
{MADE}

On `https://…:10258/metrics`, for whoever the cluster allows to `get` the path `/metrics`, and, with
`HCLOUD_METRICS_ENABLED`, on `http://…:8233/metrics`. Names that begin with `ccm_` are ours; `hcloud_api_` and
`cloud_controller_manager_` are the official Hetzner CCM's, all others upstream's. `/metrics/slis` has
`kubernetes_healthcheck` and `kubernetes_healthchecks_total`.

There are [alerts and a dashboard](../guides/operating.md#what-to-watch) for them; Prometheus reads them
[with a token](../guides/operating.md#scraping-with-a-token).
"""

_ANNOTATIONS = f"""# Annotations of Services
{MADE}

Keys stand below `{PREFIX}` and are the official Hetzner CCM's, apart from those marked *ours*. Values
are texts, so `true` and numbers need quotes in YAML; white space around them and around the items of a
list is dropped, an empty value counts as none, and words may be in upper or lower case. Durations are
seconds (`15`) or written like `15s` or `1m30s`; fractions of a second are dropped. A default in the
column *environment* counts for all Services; its name stands below `HCLOUD_LOAD_BALANCERS_`. The last
column says how the official CCM reads a value, where a Service should work under both: it drops no white
space, takes no bare seconds and no words like `TRUE ` for `true`. `python -m ccm lint --for=official FILE`
finds what it would read otherwise; it knows no keys of single ports.

What is not annotated has its default in a load balancer that is made, and stays as it is in one that exists,
whoever set it, TLS on a port and its certificates included. The exceptions: protocol, port and path of a
health check go back to what this page says, the port that traffic goes to is the Service's, and in a shared
load balancer nothing of a port stays. Taking an annotation away takes its effect away. For one that the
official CCM had applied this holds while this CCM runs: one that is taken away between the two keeps its
effect.

All annotations below the prefix together may have 32768 characters; if they have more, none of them counts.

Everything that is wrong with a Service is told in one Event, `InvalidLoadBalancerAnnotation`, with key,
value and what is allowed. Until it is put right, a load balancer that exists keeps its settings and
goes on following the nodes; a new one is not made. `python -m ccm lint FILE` finds the same offline,
`python -m ccm plan service/NAME` says what would be done.
"""

_ANNOTATIONS_OF_PORTS = """
## The ports

These count for all ports of a Service, or for one of them, which then wins, with the port's number
before the key: `port.443.protocol: https`. Without any key of a health check the API's defaults count,
and with `externalTrafficPolicy: Local` the Service's health check port is asked by HTTP for `/healthz`.
"""


def flags_page() -> str:
    """docs/reference/flags.md."""
    controllers = ", ".join(f"`{name}`" for name in CONTROLLERS)
    aliases = ", ".join(f"`{name}`" for name in ALIASES)
    parts = [_FLAGS.format(controllers=controllers, aliases=aliases)]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        rows = [_flag_row(flag) for flag in FLAGS if flag.group == group]
        parts.append(f"## {group}\n\n{_table(('flag', 'type', 'default', 'meaning'), rows)}")
    return "\n".join(parts)


def _flag_row(flag: Flag) -> tuple[str, ...]:
    name = f"`--{flag.name}`" + (f", `-{flag.short}`" if flag.short == "h" else "")
    default = "" if flag.default in ("", (), None) else flag.kind.show(flag.default)
    kind = flag.kind.name or "bool"
    if flag.help == NO_EFFECT:
        return f"*{name}*", kind, _code(default.strip("'")), "nothing"
    return name, kind, _code(default.strip("'")), flag.help


_HTTP = """## Proxies and certificate authorities

These mean the same for the Cloud API, Robot and traces, as in Go's programs. The Kubernetes API and the
metadata service are never asked for by a proxy.

"""
_HTTP_ROWS = {
    "`HTTPS_PROXY`, `HTTP_PROXY`": "The proxy for addresses that begin so; also in lower case.",
    "`NO_PROXY`": "What is asked for without a proxy: names (with what is below them; with a dot before, "
    "that alone), addresses, ranges (`10.0.0.0/8`), each also with a port; `*` = all. The loopback always.",
    "`SSL_CERT_FILE`": "A file of certificate authorities in place of the system's.",
    "`SSL_CERT_DIR`": "Folders, with `:` between them, in place of the system's. All files in them are read, "
    "as of a mounted ConfigMap.",
    "`REQUESTS_CA_BUNDLE`": "A file or folder in place of the system's file and folders.",
}


def environment_page() -> str:
    """docs/reference/environment.md."""
    parts = [_ENVIRONMENT.replace("{ours}", str(sum(one.ours for one in VARIABLES)))]
    for group in dict.fromkeys(variable.group for variable in VARIABLES):
        rows = [
            (f"`{one.name}`{' †' if one.ours else ''}", one.kind.name, _code(one.default), one.meaning)
            for one in VARIABLES
            if one.group == group
        ]
        parts.append(f"## {group}\n\n{_table(('variable', 'type', 'default', 'meaning'), rows)}")
    return "\n".join([*parts, _HTTP + _table(("variable", "meaning"), [*_HTTP_ROWS.items()])])


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    rows = sorted(asyncio.run(_metrics()))
    return f"{_METRICS}\n{_table(('metric', 'type', 'labels', 'meaning'), rows)}"


def annotations_page() -> str:
    """docs/reference/annotations.md."""
    head = ("annotation", "value", "default", "environment", "meaning", "official")
    whole, ports = (
        _table(
            head,
            (
                (
                    f"`{key.name}`{' *ours*' if key.ours else ''}",
                    key.kind.allowed,
                    _code(key.default),
                    _code(key.variable),
                    key.meaning,
                    key.official.value,
                )
                for key in KEYS
                if key.port is port
            ),
        )
        for port in (False, True)
    )
    return f"{_ANNOTATIONS}\n## The load balancer\n\n{whole}{_ANNOTATIONS_OF_PORTS}\n{ports}"


async def _metrics() -> set[tuple[str, ...]]:
    """Everything that registers itself in a run with all controllers; queues need an event loop."""
    return {row for collector in _collectors() for row in _metric_rows(collector)}


def _collectors() -> list[Any]:
    metrics = Metrics("0")
    open_cloud({"HCLOUD_TOKEN": "t" * 64}, provider="hcloud", registry=metrics.registry)
    flags = parse_flags(FLAGS, ["--cloud-provider=hcloud", "--cluster-cidr=10.244.0.0/16"])
    transport = MemoryTransport()
    recorder = EventRecorder(transport, "docs")
    context = ControllerContext(FakeCloud.complete(), transport, recorder, Options(flags), metrics)
    for entry in TABLE:
        entry.build(context)
    registry: CollectorRegistry = metrics.registry
    return list(registry._collector_to_names)  # noqa: SLF001 - there is no public way to list them


def _metric_rows(collector: Any) -> Iterable[tuple[str, ...]]:
    labels = ", ".join(f"`{name}`" for name in getattr(collector, "_labelnames", ()))
    describe = getattr(collector, "describe", collector.collect)
    for family in describe():
        total = "_total" if family.type == "counter" and not family.name.endswith("_total") else ""
        own = {label for sample in family.samples for label in sample.labels if label != "le"}
        found = labels or ", ".join(f"`{name}`" for name in sorted(own))
        yield f"`{family.name}{total}`", family.type, found, family.documentation


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


PAGES: Mapping[str, Callable[[], str]] = {
    "flags.md": flags_page,
    "environment.md": environment_page,
    "metrics.md": metrics_page,
    "annotations.md": annotations_page,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
