"""Pools: groups of equal workers, from the setting ``pools``. A worker's name consists of its pool's name and
its number in the pool, so the removal of a pool renames no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ..lib.errors import Problem
from .config_values import WORD, Parts, as_typed, decoded, parts_of, word
from .firewall_rules import Rule, parse_rules
from .labels import is_label
from .placement import Fallback, parse_fallbacks

SHORT_FORM = "worker"
"""The name of the pool that ``workerCount`` and ``workerServerType`` define."""
RESERVED = ("control",)
MAX_SERVERS = 100
"""Maximum number of servers in a Hetzner network."""
MAX_WORKERS = MAX_SERVERS - 1
"""Maximum number of workers in a Hetzner network. The network also contains at least one control server."""
MAX_NAME_LENGTH = 63
"""Maximum length of a host name, and of the value of the label kubernetes.io/hostname."""
GROUP_SEPARATOR = "--"
"""The separator between the cluster's name and the pool's name in the name of a node group."""
AUTOSCALER_DIGITS = 16
"""Maximum number of hexadecimal digits that the cluster-autoscaler appends to a server name."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_OF_KUBERNETES = re.compile(r"(.+\.)?(kubernetes|k8s)\.io", re.ASCII)
# Labels that a kubelet may set; with any other label of Kubernetes in its --node-labels it does not start:
# https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/
_OF_KUBELETS = re.compile(r"(.+\.)?(node|kubelet)\.kubernetes\.io", re.ASCII)
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_OF_CONTROLLERS = ("node.kubernetes.io", "node.cloudprovider.kubernetes.io")
_EXAMPLE = '[{"name": "db", "count": 2, "serverType": "cpx32"}]'


@dataclass(frozen=True)
class Pool:
    """A group of equal workers."""

    name: str = ""  # part of its servers' names: ``<cluster>-<pool>-<number>``
    count: int = 0
    server_type: str = ""  # empty in the settings: ``workerServerType``
    location: str = ""  # empty in the settings: that of the stack
    image: str = ""  # empty in the settings: that of the stack
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()  # ``key=value:Effect`` or ``key:Effect``
    placement_group: bool = True  # whether its servers are kept on different hosts
    # for new servers without capacity; None in the settings: those of the stack
    fallbacks: tuple[Fallback, ...] | None = None
    max_unavailable: int | None = None  # in a rollout; None in the settings: that of the stack
    min: int = 0  # number of servers that the cluster-autoscaler keeps
    max: int | None = None  # None: the pool has ``count`` servers, which this program creates
    firewall: tuple[Rule, ...] = ()  # in addition to the rules of all servers
    public_ipv4: bool | None = None  # also for IPv6; None in the settings: the opposite of ``privateNodes``

    @property
    def max_size(self) -> int:
        """Maximum number of servers."""
        return self.count if self.max is None else self.max


def spelled(field_name: str) -> str:
    """The spelling of a field in settings: ``server_type`` is ``serverType``."""
    first, *rest = field_name.split("_")
    return first + "".join(part.capitalize() for part in rest)


KEYS: Mapping[str, str] = {spelled(item.name): item.name for item in fields(Pool)}
"""Maps each key of a pool in the settings to the name of a field of ``Pool``."""


def parse_pools(value: Any, key: str) -> tuple[tuple[Pool, ...], list[Problem]]:
    """The pools, with defaults for values that could not be read, and all problems."""
    entries = decoded(value)
    if not isinstance(entries, list):
        return (), [Problem(key, value, f"give a list of pools, such as {_EXAMPLE}")]
    pools, problems = [], []
    for index, entry in enumerate(entries):
        pool, found = _pool(entry, f"{key}[{index}]")
        pools.append(pool)
        problems += found
    return tuple(pools), problems + _doubled(pools, key)


def pool_problems(pools: tuple[Pool, ...], cluster_name: str, key: str) -> list[Problem]:
    """Problems with the pools together, and with the names of their servers."""
    problems = []
    for index, pool in enumerate(pools):
        ending = pool.count if pool.max is None else "0" * (AUTOSCALER_DIGITS + 1)
        longest = f"{cluster_name}-{pool.name}-{ending}"
        if len(longest) > MAX_NAME_LENGTH:
            allowed = (
                f"a server would be named {longest}, but a name has at most {MAX_NAME_LENGTH} characters"
            )
            problems.append(Problem(f"{key}[{index}].name", pool.name, allowed))
    total = sum(pool.max_size for pool in pools)
    if total > MAX_WORKERS:
        allowed = (
            f"give at most {MAX_WORKERS} servers in all pools together, because a Hetzner network can have "
            f"at most {MAX_SERVERS} servers"
        )
        problems.append(Problem(key, f"{total} servers", allowed))
    return problems


def _doubled(pools: list[Pool], key: str) -> list[Problem]:
    first: dict[str, int] = {}
    problems = []
    for index, pool in enumerate(pools):
        before = first.setdefault(pool.name, index)
        if pool.name and before != index:
            allowed = f"{key}[{before}] has that name"
            problems.append(Problem(f"{key}[{index}].name", pool.name, allowed))
    return problems


def _pool(entry: Any, key: str) -> tuple[Pool, list[Problem]]:
    if not isinstance(entry, dict):
        return Pool(), [Problem(key, entry, "give a pool, such as " + _EXAMPLE[1:-1])]
    bounds = entry.get("max") is not None or entry.get("min") is not None
    read, problems = parts_of(entry, key, _PARSERS, ("name", "max") if bounds else ("name", "count"))
    values = {KEYS[name]: value for name, value in read.items()}
    pool = Pool(**values)
    reported = {problem.key for problem in problems}
    return pool, problems + [
        problem for problem in _bound_problems(pool, entry, key) if problem.key not in reported
    ]


def _bound_problems(pool: Pool, entry: Mapping[str, Any], key: str) -> list[Problem]:
    """Problems with an autoscaled pool."""
    if pool.max is None:
        return []
    problems = []
    if pool.min > pool.max:
        problems.append(Problem(f"{key}.min", pool.min, f"give at most {key}.max, {pool.max}"))
    for name in _NOT_WITH_BOUNDS:
        if entry.get(name) is not None:
            allowed = (
                "remove this key. In a pool with 'max', the cluster-autoscaler sets the number of servers"
            )
            problems.append(Problem(f"{key}.{name}", entry[name], allowed))
    if GROUP_SEPARATOR in pool.name:
        allowed = (
            f"a pool name must not contain {GROUP_SEPARATOR}, because the name of a node group has the "
            f"form CLUSTER{GROUP_SEPARATOR}POOL"
        )
        problems.append(Problem(f"{key}.name", pool.name, allowed))
    return problems


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError
    if value in RESERVED:
        raise ValueError(f"the name {value} is reserved for the control servers; choose another name")
    return value


def _count(value: Any) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", str(value), re.ASCII) or int(value) > MAX_WORKERS:
        raise ValueError
    return int(value)


def _positive(value: Any) -> int:
    if (number := _count(value)) < 1:
        raise ValueError
    return number


def _image(value: Any) -> str:
    # a number is a snapshot's ID; a boolean is not an image
    return word(value if isinstance(value, bool) else as_typed(value))


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ValueError
    return value == "true"


def _fallbacks(value: Any) -> tuple[Fallback, ...]:
    fallbacks, problems = parse_fallbacks(value, "fallbacks")
    _raise_all([f"{problem.key}: {problem.allowed}" for problem in problems])
    return fallbacks


def _labels(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError
    labels = {label: as_typed(content) for label, content in value.items()}
    _raise_all([why for label, content in labels.items() if (why := _against_label(label, content))])
    return labels


def _against_label(label: str, content: Any) -> str:
    if not is_label(label, content):
        return f"{label}: {content!r} isn't a valid label: {_LABELS}"
    prefix = label.rpartition("/")[0]
    refused = _OF_KUBERNETES.fullmatch(prefix) and not _OF_KUBELETS.fullmatch(prefix)
    if not refused and label != _INSTANCE_TYPE:
        return ""
    return (
        f"a pool can't set the label {label}. The kubelet sets the labels of a pool. Of the labels that "
        "Kubernetes reserves, the kubelet may set only those with the prefix node.kubernetes.io or "
        "kubelet.kubernetes.io. The cloud-controller-manager sets the labels for type, zone and region"
    )


def _taints(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    seen: set[tuple[str, str]] = set()
    wrong = []
    for text in value:
        try:
            key, _, effect = taint_parts(text)
        except ValueError as error:
            wrong.append(str(error))
            continue
        if key.rpartition("/")[0] in _OF_CONTROLLERS:
            wrong.append(f"{text}: controllers of Kubernetes set and remove this taint; choose another key")
        if (key, effect) in seen:
            wrong.append(f"{text}: another taint has the same key and effect")
        seen.add((key, effect))
    _raise_all(wrong)
    return tuple(value)


def _raise_all(wrong: Sequence[str]) -> None:
    if wrong:
        raise ValueError("; ".join(wrong))


def taint_parts(text: Any) -> tuple[str, str, str]:
    """Key, value and effect of a taint as kubectl writes it; a ValueError says what is allowed."""
    left, _, effect = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    key, _, content = left.partition("=")
    if effect not in EFFECTS or not is_label(key, content):
        raise ValueError(f"{text!r} is not a taint: {_TAINTS}")
    return key, content, effect


_LABELS = "use valid Kubernetes labels, such as {disk: fast}"
_TAINTS = (
    "give key=value:Effect or key:Effect, such as dedicated=db:NoSchedule. The effects are "
    f"{', '.join(EFFECTS)}"
)
_RULES = '[{"protocol": "tcp", "port": "443", "sources": "any"}]'
_PARSERS: Parts = {
    "name": (
        _name,
        "give lower-case letters, digits and hyphens. Start with a letter, and don't end with a hyphen",
    ),
    "count": (_count, f"give a whole number from 0 to {MAX_WORKERS}"),
    "serverType": (word, WORD),
    "location": (word, WORD),
    "image": (_image, WORD),
    "labels": (_labels, _LABELS),
    "taints": (_taints, f"give a list of taints. For each taint, {_TAINTS}"),
    "placementGroup": (_switch, "give true or false"),
    "fallbacks": (_fallbacks, ""),
    "firewall": (parse_rules, f"give a list of rules, such as {_RULES}"),
    "min": (_count, f"give a whole number from 0 to {MAX_WORKERS}"),
    "max": (_positive, f"give a whole number from 1 to {MAX_WORKERS}"),
    "publicIpv4": (_switch, "give true or false"),
    "maxUnavailable": (_positive, f"give a whole number from 1 to {MAX_WORKERS}"),
}
_NOT_WITH_BOUNDS = ("count", "fallbacks", "placementGroup", "maxUnavailable", "firewall")
