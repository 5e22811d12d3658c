"""Reads what the program wrote on a server: one script, one SSH connection, one report.

All resources that write to a server read the same report, so a refresh connects to each server once. Pulumi
serves all dynamic resources of a run in one process, so the reports are shared there.
"""

import asyncio
import hashlib
import json
import re
import shlex
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pulumi.dynamic import DiffResult, ReadResult

from ..config.k3s import CNI_FILES, CNI_FOLDER, DATASTORE, ENCRYPTION, NOTE, POD_SECURITY, STORE
from ..lib.dynamic import DRIFT, Provider, is_unknown
from ..lib.errors import HostKeyError, InfraError
from ..lib.ssh import Host, connect

CONNECT_SECONDS = 6.0
SCRIPT_SECONDS = 45.0
FRESH_SECONDS = 30.0
"""Number of seconds for which all resources reuse a report of a server, before one requests a new report."""

K3S = "/usr/local/bin/k3s"
SERVER_UNIT, AGENT_UNIT = "k3s", "k3s-agent"
_ROUTE, _NAT = "default-route-of-private-network", "nat-of-private-network"
UNITS = (SERVER_UNIT, AGENT_UNIT, "pod-network", f"{_ROUTE}.timer", _ROUTE, _NAT)
FILES = (
    "/etc/cni/pod-network.nft",
    "/etc/systemd/system/pod-network.service",
    f"{CNI_FOLDER}/{CNI_FILES[0]}",
    "/etc/apt/apt.conf.d/99-ccm-from-scratch",
    f"/usr/local/sbin/{_ROUTE}",
    f"/etc/systemd/system/{_ROUTE}.service",
    f"/etc/systemd/system/{_ROUTE}.timer",
    f"/etc/{_NAT}.nft",
    f"/etc/sysctl.d/60-{_NAT}.conf",
    f"/etc/systemd/system/{_NAT}.service",
    ENCRYPTION,
    POD_SECURITY,
    STORE,
)
PRESENT = (DATASTORE, NOTE)
"""The report contains no checksums of these files. It contains only whether each file exists."""
KUBELET_LISTENS = "ss -Hltn 'sport = :10250' 2>/dev/null || echo unknown"
"""Command that prints something if a kubelet listens, or if that is unknown."""
_THERE = "there"
_SECRETS = ("K3S_TOKEN", "K3S_AGENT_TOKEN")
_SECTION = "== "
_NO_REPORT = "the server did not report its state"


@dataclass(frozen=True)
class Unit:
    """A systemd unit."""

    active: str = "inactive"  # ``ActiveState``, such as ``active`` or ``failed``
    enabled: str = ""  # ``UnitFileState``, such as ``enabled``; empty: it does not exist


@dataclass(frozen=True)
class Report:
    """The state of a server."""

    units: Mapping[str, Unit] = field(default_factory=dict)  # of ``UNITS``, by name without ``.service``
    # SHA-256 of existing ``FILES`` by path; ``PRESENT`` ones have none
    files: Mapping[str, str] = field(default_factory=dict)
    # words after the program in ``ExecStart``
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of a unit; tokens as SHA-256
    tables: frozenset[str] = frozenset()  # of nftables, in the family ``ip``
    images: Mapping[str, bool] | None = None  # whether each image is pinned; None: the store did not answer
    nodes: Mapping[str, Mapping[str, Any]] | None = None  # of the cluster; None: no API server answered here
    host: str = ""  # its host name, also of its Node
    kubelet: bool = True  # whether one listens; an agent that may not join runs none

    def unit(self, name: str) -> Unit:
        """A unit; a default one if it does not exist."""
        return self.units.get(name.removesuffix(".service"), Unit())


@dataclass(frozen=True)
class NoReport:
    """Why there is no report."""

    reason: str
    is_other: bool = False  # whether the server itself, not its gateway, has another host key


Outcome = Report | NoReport


@dataclass(frozen=True)
class Written:
    """The results of a script on a server."""

    files: Mapping[str, str]  # SHA-256 of the content, by path
    enabled: Sequence[str]  # units that start with the server
    active: Sequence[str]  # units that run
    tables: Sequence[str]


_HERE_DOCUMENT = re.compile(r"^ *cat > (\S+) <<'(\w+)'\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_MOVE = re.compile(r"^mv (\S+) (\S+)$", re.MULTILINE)
_ENABLE = re.compile(r"^systemctl enable --quiet (.+)$", re.MULTILINE)
_RESTART = re.compile(r"^systemctl restart (\S+)$", re.MULTILINE)
_TABLE = re.compile(r"^table ip (\S+) {$", re.MULTILINE)


def written_by(script: str) -> Written:
    """The results of a script of this program, parsed from the script itself.

    It writes files by here-documents with a quoted end, moves some of them, and enables and restarts units.
    Indented commands, below a condition, are ignored.
    """
    files = {path: digest(content) for path, _, content in _HERE_DOCUMENT.findall(script)}
    for source, target in _MOVE.findall(script):
        if source in files:
            files[target] = files.pop(source)
    return Written(
        files,
        [unit for units in _ENABLE.findall(script) for unit in units.split()],
        _RESTART.findall(script),
        _TABLE.findall(script),
    )


def digest(text: str) -> str:
    """The SHA-256 of a text, as sha256sum prints it."""
    return hashlib.sha256(text.encode()).hexdigest()


def differences(script: str, report: Report) -> list[str]:
    """The differences of a server from the results of a script, for a person."""
    written = written_by(script)
    found = file_differences(written.files, report)
    found += [
        f"{unit} must be enabled, but is {report.unit(unit).enabled or 'gone'}"
        for unit in written.enabled
        if report.unit(unit).enabled != "enabled"
    ]
    found += [
        f"{unit} is {report.unit(unit).active}"
        for unit in written.active
        if not is_running(report.unit(unit))
    ]
    return found + [
        f"the nftables table {table} is missing" for table in written.tables if table not in report.tables
    ]


def file_differences(wanted: Mapping[str, str], report: Report) -> list[str]:
    """Files that are missing or different on a server, for a person; ``wanted`` has the SHA-256 by path."""
    return [
        f"{path} {'was changed' if path in report.files else 'is missing'}"
        for path, content in wanted.items()
        if report.files.get(path) != content
    ]


def unmask(unit: str) -> str:
    """Removes the link of a masked unit: a script would write its unit file to /dev/null."""
    file = f"/etc/systemd/system/{unit}"
    return f'[ "$(readlink {file})" != /dev/null ] || rm {file}'


def is_running(unit: Unit) -> bool:
    """Whether systemd runs the unit, or is starting it."""
    return unit.active in {"active", "activating", "reloading"}


def probe_script() -> str:
    """Prints the report. It changes nothing, and tells no secret."""
    units = shlex.join(UNITS)
    value = "s/^\\(K3S_[A-Z_]*\\)='\\{0,1\\}\\([^']*\\)'\\{0,1\\}$/\\1 \\2/p"
    return f"""umask 077
echo '{_SECTION}host'
uname -n
echo '{_SECTION}units'
systemctl show --property=Id,ActiveState,UnitFileState {units} 2>/dev/null
echo '{_SECTION}files'
sha256sum {shlex.join(FILES)} 2>/dev/null
for path in {shlex.join(PRESENT)}; do [ ! -e "$path" ] || echo "{_THERE}  $path"; done
! command -v k3s >/dev/null || echo '{_THERE}  {K3S}'
for unit in {SERVER_UNIT} {AGENT_UNIT}; do
  file=$(systemctl cat $unit 2>/dev/null) && [ -n "$file" ] || continue
  echo "{_SECTION}command $unit"
  printf '%s\\n' "$file" | sed -n '/^ExecStart=/{{:a;p;/\\\\$/!q;n;ba}}'
  echo "{_SECTION}environment $unit"
  given=$(printf '%s\\n' "$file" | sed -n 's/^EnvironmentFile=-\\{{0,1\\}}\\(.*[.]env\\)$/\\1/p' | tail -n 1)
  sed -n "{value}" "$given" 2>/dev/null | while read -r name value; do
    case $name in
      {"|".join(_SECRETS)}) echo "$name $(printf %s "$value" | sha256sum | cut -c 1-64)" ;;
      K3S_URL) echo "$name $value" ;;
    esac
  done
done
echo '{_SECTION}tables'
nft list tables ip 2>/dev/null
echo '{_SECTION}listening'
{KUBELET_LISTENS}
# a worker has no kubeconfig, and no image of ours
systemctl cat {SERVER_UNIT} >/dev/null 2>&1 || exit 0
if said=$(timeout 15 k3s ctr images ls 2>/dev/null); then
  echo '{_SECTION}images'
  printf '%s\\n' "$said"
fi
if said=$(timeout 20 k3s kubectl get nodes --request-timeout=15s -o json 2>/dev/null); then
  echo '{_SECTION}nodes'
  printf '%s\\n' "$said"
fi
exit 0
"""


def parse(text: str) -> Report:
    """Parses the output of ``probe_script``; fails if it is something else."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_SECTION):
            lines = sections.setdefault(line.removeprefix(_SECTION).strip(), [])
        else:
            lines.append(line)
    if "units" not in sections:
        raise InfraError(_NO_REPORT)
    try:
        return Report(
            units=_units(sections["units"]),
            files={
                path: content for content, path in (line.split(None, 1) for line in sections.get("files", []))
            },
            commands={unit: _words(lines) for unit, lines in _of(sections, "command")},
            environment={
                unit: dict(line.split(None, 1) for line in lines)
                for unit, lines in _of(sections, "environment")
            },
            tables=frozenset(line.split()[-1] for line in sections.get("tables", []) if line.strip()),
            images=_images(sections["images"]) if "images" in sections else None,
            nodes=_nodes("\n".join(sections["nodes"])) if "nodes" in sections else None,
            host="".join(sections.get("host", [])).lower(),
            kubelet=any(line.strip() for line in sections.get("listening", ["unknown"])),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InfraError(_NO_REPORT) from error


def _of(sections: Mapping[str, list[str]], kind: str) -> list[tuple[str, list[str]]]:
    return [(name.split()[1], lines) for name, lines in sections.items() if name.startswith(f"{kind} ")]


def _units(lines: Sequence[str]) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for block in "\n".join(lines).split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "Id" in values:
            unit = Unit(values.get("ActiveState", ""), values.get("UnitFileState", ""))
            units[values["Id"].removesuffix(".service")] = unit
    return units


def _words(lines: Sequence[str]) -> list[str]:
    """What a unit file starts, in which k3s's installer puts each word on a line of its own."""
    text = " ".join(line.removesuffix("\\") for line in lines).removeprefix("ExecStart=")
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)][1:]


def _images(lines: Sequence[str]) -> dict[str, bool]:
    """References and labels, the first and the last column."""
    rows = [line.split() for line in lines[1:]]
    return {row[0]: "io.cri-containerd.pinned=pinned" in row[-1] for row in rows if row}


def _nodes(text: str) -> dict[str, Mapping[str, Any]]:
    return {node["metadata"]["name"]: node for node in json.loads(text)["items"]}


async def ask(host: Host, *, timeout: float = CONNECT_SECONDS) -> Report:
    """The report of a server, as it is now."""
    async with connect(host, timeout=timeout) as shell:
        what = "reading the files and systemd units that the Pulumi program created"
        return parse(await shell.run(probe_script(), what=what, timeout=SCRIPT_SECONDS))


def _tell(line: str) -> None:
    """Prints a line at once: reads of other resources print at the same time."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Probes:
    """Reports of servers for several callers at the same time: asks each server once. Safe for threads."""

    def __init__(
        self,
        asking: Callable[[Host], Awaitable[Report]] = ask,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = _tell,
    ) -> None:
        self._asking, self._clock, self._tell = asking, clock, tell
        self._lock = threading.Lock()
        self._known: dict[Host, tuple[float, Future[Outcome]]] = {}

    def of(self, hosts: Sequence[Host]) -> list[Outcome]:
        """What each server has, or why that is unknown; all are asked at the same time."""
        mine: list[tuple[Host, Future[Outcome]]] = []
        with self._lock:
            now = self._clock()
            for host in hosts:
                if host not in self._known or self._known[host][0] + FRESH_SECONDS < now:
                    self._known[host] = now, Future()
                    mine.append((host, self._known[host][1]))
            futures = [self._known[host][1] for host in hosts]
        if mine:
            asyncio.run(self._fill(mine))
        return [future.result(timeout=CONNECT_SECONDS + SCRIPT_SECONDS + FRESH_SECONDS) for future in futures]

    async def _fill(self, mine: Sequence[tuple[Host, Future[Outcome]]]) -> None:
        async def fill(host: Host, future: Future[Outcome]) -> None:
            try:
                future.set_result(await self._asking(host))
            except InfraError as error:
                is_other = isinstance(error, HostKeyError) and error.address == host.address
                future.set_result(NoReport(str(error), is_other))
                if not is_other:
                    self._tell(f"could not check {host.address} for drift: {error}")
            finally:
                if not future.done():
                    future.set_result(NoReport("the request was cancelled"))

        await asyncio.gather(*(fill(host, future) for host, future in mine))


PROBES = Probes()
"""Those of this process."""


def first_nodes(outcomes: Sequence[Outcome]) -> Mapping[str, Mapping[str, Any]] | None:
    """The cluster's Nodes from the first control server that answers; None: unknown."""
    return next((one.nodes for one in outcomes if isinstance(one, Report) and one.nodes is not None), None)


class ServerProvider(Provider):
    """A provider of a resource that writes to a server, and repairs what is different there.

    ``read`` leaves what it found in the property ``drift``, ``diff`` makes an update of it, and ``update``
    repairs in place. A server that can't be asked is left as the state has it.

    ``installation``, an output of k3s's resources, is unknown in a preview of any change of theirs, and
    nearly always unchanged afterwards, so an unknown value doesn't count as a change.
    """

    # ``read`` connects with these inputs. They also change when only a gateway is rebuilt or replaced.
    recorded_inputs = ("address", "jump", "others", "reached", "controls")

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Looks at the server."""
        found = self.drift(props)
        if found is None:
            return ReadResult(id_, dict(props))
        for what in found:
            _tell(f"{self.where(props)}{what}")
        rest = {name: value for name, value in props.items() if name != DRIFT}
        return ReadResult(id_, {**rest, **({DRIFT: found} if found else {})})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares inputs with the state, and makes an update of what differs on the server."""
        known = {key: value for key, value in _news.items() if key != "installation" or not is_unknown(value)}
        result = super().diff(_id, _olds, known)
        result.changes = result.changes or bool(_olds.get(DRIFT))
        return result

    def where(self, props: Mapping[str, Any]) -> str:
        """What begins a line about the server."""
        return f"{props.get('node') or props['address']}: "

    @abstractmethod
    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """What differs on the server from what the resource wrote, for a person; None: that is unknown."""
        raise NotImplementedError


def drift_of(outcome: Outcome, compare: Callable[[Report], Sequence[str]]) -> list[str] | None:
    """The differences of a server, or that its host key differs; None: unknown."""
    if isinstance(outcome, Report):
        return list(compare(outcome))
    return ["the host key of the server has changed"] if outcome.is_other else None
