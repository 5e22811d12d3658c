"""How long each test and fixture of the last run took, kept as JSON lines and shown as tables.

pytest's processes write the lines (``tests/recording.py``), one file each. ``./dev test`` gives them the
folder and adds the layers.
"""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "CCMFS_DURATIONS"
"""The environment variable for the folder in which pytest's processes record durations."""
LAYER = "CCMFS_LAYER"
"""The environment variable that contains the name of the running test layer."""
LAYERS = "layers.json"
MODULES = "modules.json"
"""The file with the duration of each test module's most recent run, in any clone. The scheduler starts the
slowest modules first."""
ROWS = 25


@dataclass(frozen=True)
class Span:
    """One phase of a test, or the set-up of one fixture."""

    layer: str  # layer of the run, such as ``unit``
    name: str  # the test's node ID, or ``FIXTURE (SCOPE)``
    kind: str  # ``setup``, ``call``, ``teardown`` or ``fixture``
    module: str  # path of the test's file
    wall: float  # seconds by the clock
    # CPU seconds of the process and of those children that ended in this span. Machines and daemons don't
    # count: a layer's ``busy`` has them.
    cpu: float


@dataclass(frozen=True)
class LayerSpan:
    """One layer of a run."""

    name: str  # such as ``unit``
    wall: float  # seconds by the clock
    busy: float  # CPU seconds of the whole host meanwhile
    cores: int  # of the host


def busy_seconds(stat: Path = Path("/proc/stat")) -> float:
    """CPU seconds that the host has spent since it started; 0 where the kernel doesn't say."""
    try:
        fields = [int(field) for field in stat.read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:  # not Linux
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def begin(folder: Path) -> None:
    """Empty the folder for a new run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def write_layers(folder: Path, layers: Sequence[LayerSpan]) -> None:
    """Keep the layers that have run so far."""
    (folder / LAYERS).write_text(json.dumps([asdict(layer) for layer in layers]), encoding="utf-8")


def read_layers(folder: Path) -> list[LayerSpan]:
    """The layers of the last run; empty without one."""
    try:
        return [LayerSpan(**item) for item in json.loads((folder / LAYERS).read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []


def read_spans(folder: Path) -> Iterator[Span]:
    """Every span of the last run, without the incomplete last line of a killed process."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                yield Span(**json.loads(line))
            except (ValueError, TypeError):
                continue


def seconds_of_modules(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds by the clock that each module took, fixtures included."""
    taken: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        if span.kind != "fixture":  # a fixture's time is in the phase that asked for it
            taken[span.module] += span.wall
    return dict(taken)


def keep_modules(folder: Path) -> None:
    """Update the known durations with those of the last run. It may have run a few tests of a module."""
    known, taken = known_modules(folder), seconds_of_modules(read_spans(folder))
    longest = {name: max(round(wall, 2), known.get(name, 0.0)) for name, wall in taken.items()}
    (folder.parent / MODULES).write_text(json.dumps({**known, **longest}), encoding="utf-8")


def known_modules(folder: Path) -> dict[str, float]:
    """Seconds of the longest run of each module in any clone of this user."""
    try:
        return json.loads((folder.parent / MODULES).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def tables(layers: Sequence[LayerSpan], spans: Sequence[Span]) -> str:
    """Where the time of a run went: by layer, by module, by test and by fixture."""
    phases = [span for span in spans if span.kind != "fixture"]
    fixtures = [span for span in spans if span.kind == "fixture"]
    lines = [
        f"{'layer':<12} {'wall s':>8} {'busy s':>8} {'of cores':>8} {'tests':>7} {'test s':>8} {'CPU s':>8}"
    ]
    for layer in layers:
        own = [span for span in phases if span.layer == layer.name]
        tests = len({span.name for span in own})
        share = layer.busy / layer.wall / layer.cores if layer.wall else 0
        lines.append(
            f"{layer.name:<12} {layer.wall:8.1f} {layer.busy:8.1f} {share:8.0%} {tests:7} "
            f"{sum(s.wall for s in own):8.1f} {sum(s.cpu for s in own):8.1f}"
        )
    lines += _longest("module", phases, lambda span: f"{span.module} ({span.layer})")
    lines += _longest("test", phases, lambda span: span.name)
    lines += _longest("fixture", fixtures, lambda span: f"{span.module}: {span.name}")
    return "\n".join(lines)


def _longest(title: str, spans: Iterable[Span], key: Callable[[Span], str]) -> list[str]:
    wall: defaultdict[str, float] = defaultdict(float)
    cpu: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        wall[key(span)] += span.wall
        cpu[key(span)] += span.cpu
    longest = sorted(wall, key=lambda name: -wall[name])[:ROWS]
    heading = ["", f"{'wall s':>8} {'CPU s':>8} {'waiting':>8}  {title}"]
    return heading + [
        f"{wall[name]:8.1f} {cpu[name]:8.1f} {max(0.0, wall[name] - cpu[name]):8.1f}  {name}"
        for name in longest
    ]
