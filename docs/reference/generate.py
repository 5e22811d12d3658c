"""Writes the generated pages of this folder: ``python docs/reference/generate.py``.

A test compares the pages with what this makes, so they can't differ from the code.
"""

import asyncio
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
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
from ccm.version import VERSION
from sandbox.kubernetes import releases

HERE = Path(__file__).parent
TREE = HERE.parents[1]
MADE = "<!-- made by docs/reference/generate.py; a test compares it with the code -->"

_FLAGS = f"""# Flags
{MADE}

Start the CCM with `python -m ccm [flags]`. As in all Kubernetes programs, you can write a flag as
`--name=value` or `--name value`. A boolean flag without a value is true. If the value of a flag is a list,
separate the items with commas. If you repeat such a flag, each repetition adds items to the list. Durations
have the form `300ms` or `1h30m`. If flags or variables of the [environment](environment.md) are invalid, the
CCM prints all mistakes and exits with code 2.

The flags have the same names, types and defaults as in upstream Kubernetes. The flags in *italics* have no
effect. The CCM accepts these flags, so that existing command lines work, and lists them in its log. If you
set a flag that isn't on this page, the CCM exits with an error.

`--controllers` accepts {{controllers}}. `*` enables all controllers, and `-name` disables one of them. You
can also use the names of the controllers in older releases of Kubernetes: {{aliases}}.
"""

_ENVIRONMENT = f"""# Environment
{MADE}

The CCM reads these environment variables if `--cloud-provider` is `hcloud` or `ccm-from-scratch`. The
official CCM has the same variables, except the {{ours}} variables with the mark †, which only our CCM has.

- The CCM ignores white space around values. An empty variable has the same effect as a variable that isn't
  set.
- A boolean is written as in Go, for example `true`, `1` or `f`.
- A duration is written as in Go (`90s`, `1m30s`), or as a whole number of seconds.
- `/configz` on the secure port shows the current values, including defaults. For each secret, `/configz`
  only shows whether the secret is set.

You can also store a **secret** in a file. Set `HCLOUD_TOKEN_FILE`, `ROBOT_USER_FILE` or
`ROBOT_PASSWORD_FILE` to the path of the file. When the content of the file changes, the CCM uses the new
secret for its next request, without a restart. If you set both a variable such as `HCLOUD_TOKEN` and the
corresponding variable for a file, such as `HCLOUD_TOKEN_FILE`, the CCM ignores the file.

The operator of the cluster can reserve a load balancer or certificate for one namespace. To do this, set the
**label** `ccm-from-scratch/namespace` of the load balancer or certificate to the name of the namespace, for
example in the Hetzner Console. If a Service of another namespace already uses the load balancer or
certificate, this Service can continue to use it.

If a certificate has no label with a namespace, Service or cluster, all Services can use the certificate, as
with the official CCM.

If several clusters use the same Hetzner project, set a different `CCM_CLUSTER_ID` in each cluster. If you
set the ID after the CCM has created load balancers, each of these load balancers gets the ID the next
time the CCM changes it.

The CCM doesn't change load balancers with the ID of another cluster. If you change the ID of a cluster, the
CCM therefore stops changing the cluster's existing load balancers, and each Service gets an Event. If you
don't set an ID and several Services share a load balancer, the following applies after each start of the
CCM: the CCM must first process the Service that owns the load balancer, before it processes the other
Services.
"""

_METRICS = f"""# Metrics
{MADE}

The CCM serves its metrics on `https://…:10258/metrics`. A client must send the token of a ServiceAccount
that may `get` the path `/metrics`. If `HCLOUD_METRICS_ENABLED` is true, the CCM also serves the metrics
without authentication on `http://…:8233/metrics`.

The metrics that begin with `ccm_` exist only in our CCM. The metrics that begin with `hcloud_api_` or
`cloud_controller_manager_` have the same names as in the official CCM. All other metrics have the same names
as in upstream Kubernetes. The table quotes the descriptions of these other metrics from upstream Kubernetes
and from the Prometheus client for Python. The path `/metrics/slis` serves only the metrics
`kubernetes_healthcheck` and `kubernetes_healthchecks_total`.

For alerts and a dashboard, see [What to watch](../guides/operating.md#what-to-watch). For the objectives, see
[Service level objectives](service-levels.md). To configure Prometheus, see [Scraping with a
token](../guides/operating.md#scraping-with-a-token).
"""

_ANNOTATIONS = f"""# Annotations of Services
{MADE}

All keys begin with `{PREFIX}`. The keys with the mark *ours* are available only in our CCM. The official CCM
has the other keys, too.

- Values are strings, so `true` and numbers need quotes in YAML.
- You can write keywords such as `true` and `tcp` in upper or lower case.
- The items of a list are separated with commas. The CCM ignores white space around values and list items.
- An empty value has the same effect as a missing annotation, unless the row of the annotation describes a
  different effect.
- A duration is a number of seconds (`15`) or a text such as `15s` or `1m30s`. The CCM ignores fractions of a
  second.

If the column *environment* contains the name of a variable, this variable sets the default for all Services.
Prefix the name with `HCLOUD_LOAD_BALANCERS_`.

The column *official* describes how the official CCM parses the value. The official CCM doesn't ignore white
space, and doesn't accept a duration without a unit. For example, the official CCM rejects the boolean
`TRUE ` because of the space. `python -m ccm lint --for=official FILE` lists the values that the official CCM
would parse differently from our CCM. The official CCM doesn't support keys such as `port.443.protocol`,
which set the value for a single port.

If a Service has no annotation for a setting, a new load balancer gets the default of the setting. In an
existing load balancer, the setting keeps its current value. For example, if you enabled TLS on a port in the
Cloud Console, the CCM changes neither TLS nor the certificates of the port. There are three exceptions:

- The CCM sets the protocol, port and path of each health check to the defaults on this page.
- The CCM always sets the destination port of the load balancer to the node port of the Service.
- In a shared load balancer, the CCM resets each port setting without an annotation to its default.

If you remove an annotation, the CCM resets the setting to its default. There is one exception, for load
balancers that the official CCM created. If you remove the annotation while our CCM isn't running, and our CCM
has never changed the load balancer, our CCM can't detect the removal, and the setting keeps its value. For
example, you may have removed the annotation before you installed our CCM.

The keys and values of all annotations with this prefix may have at most 32768 characters together. If the
annotations of a Service exceed this limit, the CCM ignores all annotations with this prefix.

If annotations are invalid, the Event `InvalidLoadBalancerAnnotation` lists each mistake with the key, the
value and the allowed values. Until you correct the mistakes, the CCM creates no load balancer for the
Service. An existing load balancer keeps its settings, and the CCM only updates its targets. To find mistakes
without a connection to a cluster, run `python -m ccm lint FILE`. To show the changes that the CCM would
make, run `python -m ccm plan service/NAME`.
"""

_ANNOTATIONS_OF_PORTS = """
## The ports

The annotations in this table apply to all ports of a Service. To change a setting of one port, write
`port.NUMBER.` before the key, for example `port.443.protocol: https`. If both keys are set, the key of the
single port takes precedence.

If you set none of the keys for health checks, the health check has the defaults of Hetzner's API. There is
one exception: if the Service has `externalTrafficPolicy: Local`, the CCM configures an HTTP check of
`/healthz` on the Service's health check node port.
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
        return f"*{name}*", kind, _code(default.strip("'")), "ignored"
    return name, kind, _code(default.strip("'")), flag.help


_HTTP = """## Proxies and certificate authorities

These variables have the same meaning as in programs written in Go. The CCM applies them to its connections
to Hetzner's Cloud API, to Robot and to the receiver of traces. The CCM never uses a proxy for the Kubernetes
API and the metadata service.

"""
_HTTP_ROWS = {
    "`HTTPS_PROXY`, `HTTP_PROXY`": "The proxy for `https://` and `http://` addresses. The names may also be "
    "in lower case.",
    "`NO_PROXY`": "The destinations that the CCM reaches without a proxy: names, addresses and ranges "
    "(`10.0.0.0/8`), separated with commas. Each destination can have a port. A name "
    "includes its subdomains. A name with a leading dot includes only its subdomains. `*` means all "
    "destinations. The CCM never uses a proxy for loopback addresses.",
    "`SSL_CERT_FILE`": "A file with certificate authorities, which replaces the file of the system.",
    "`SSL_CERT_DIR`": "Folders with certificate authorities, separated with `:`, which replace the folders "
    "of the system. The CCM reads all files in these folders, for example the files of a mounted ConfigMap.",
    "`REQUESTS_CA_BUNDLE`": "A file or folder with certificate authorities, which replaces the file and the "
    "folders of the system.",
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


_VERSIONS = f"""# Versions, support and deprecation
{MADE}

## Versions

| CCM | Kubernetes | k3s | Kubernetes supports it until | tests |
| --- | --- | --- | --- | --- |
{{rows}}
- The table lists the versions of Kubernetes with which we test the CCM. The guide about releases explains
  [which tests run](../guides/releasing.md#what-it-was-tested-with).
- You can install the Helm chart on Kubernetes `{{chart}}`. We don't test versions that aren't in the table.
- The CCM and the tools run on Python {{pythons}}. The CCM's image contains Python 3.13. The tests use the
  Python version of the test machine, usually 3.11.
- The annotations, flags and metrics are compatible with the official CCM v1.39.0.

## Support

We support only the latest release. Before version 1.0, a minor version may contain incompatible changes.
[The changelog](../../CHANGELOG.md) lists these changes.

Each release supports the three minor versions of Kubernetes that Kubernetes itself supports on the day of
the release. When the Kubernetes project ends the support for a minor version, our next release doesn't
support this minor version any more.

We fix bugs in the next release, and not in older releases. To report a vulnerability, see
[Security](../../SECURITY.md).

## Deprecation

We remove flags, annotations, variables, settings, metrics and commands in these steps:

1. The changelog lists the deprecated name and its replacement.
2. The deprecated name works for at least two minor versions or six months, whichever is longer. If you use
   the deprecated name, the CCM logs a warning.
3. The changelog lists the removal. The program then rejects the name, and the error contains the
   replacement.

Some flags, annotations and metrics come from upstream Kubernetes or from the official CCM. If upstream
or the official CCM deprecates such a name, our CCM also deprecates the name.

## Upgrades

- Upgrade the CCM by one minor version at a time. Read the changelog for each version. A
  [test](../guides/releasing.md#the-upgrade) upgrades the CCM from the previous version in a cluster with
  Nodes, load balancers and routes.
- We don't test downgrades of the CCM. Before you install an older version, run `ccm plan` of the older
  version, and check the changes that the older version would make.
- During a rollout, two replicas may have different versions. Only the replica that holds the lease is active.
- Before you upgrade Kubernetes, upgrade the CCM to a release that supports the new version of Kubernetes.
- [Upgrade Kubernetes](../guides/upgrades.md) by one minor version at a time. Upgrade the control servers
  first.
"""
_SUPPORTED_UNTIL = {"1.37": "2027-10-28", "1.36": "2027-06-28", "1.35": "2027-02-28"}


def versions_page() -> str:
    """docs/reference/versions.md."""
    chart = yaml.safe_load((TREE / "charts/ccm-from-scratch/Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    rows = [
        f"| {VERSION} | {version} | {releases.k3s_name(version)} | "
        f"{_SUPPORTED_UNTIL[version.rpartition('.')[0]]} | "
        f"{'all' if version == releases.default() else 'the Kubernetes tests'} |\n"
        for version in releases.versions()
    ]
    return _VERSIONS.format(rows="".join(rows), chart=chart["kubeVersion"], pythons=", ".join(pythons))


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
    "versions.md": versions_page,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
