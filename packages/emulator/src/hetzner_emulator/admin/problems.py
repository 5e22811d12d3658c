"""The problems that the console shows first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ACTION_SECONDS = 600.0
"""How long the console lists a failed action as a problem, in seconds."""
QUOTA_SHARE = 0.1
"""If a project has less than this share of its requests left, the console lists a problem."""
NAMES = 3
"""Maximum number of names in a problem's description. It ends with the number of omitted names."""

Shown = Mapping[str, Any]


def problems(shown: Shown, now: float) -> list[dict[str, str]]:
    """All problems of an overview, those of load balancers first, as objects with ``about`` and ``text``."""
    found = [
        *(("load balancer", text) for text in _load_balancers(shown)),
        *(("server", text) for text in _servers(shown["servers"])),
        *(("route", text) for text in _routes(shown)),
        *(("certificate", text) for text in _certificates(shown["certificates"])),
        *(("action", text) for text in _actions(shown["actions"], now)),
        *(("fault rule", text) for text in _faults(shown["faults"])),
        *(("quota", text) for text in _quota(shown["quota"])),
    ]
    return [{"about": about, "text": text} for about, text in found]


def title(balancer: Shown) -> str:
    """The Service in the labels of a load balancer, else the load balancer's name."""
    labels = balancer["labels"]
    namespace, service = labels.get("ccm-from-scratch/namespace"), labels.get("ccm-from-scratch/service")
    return f"{namespace}/{service}" if namespace and service else str(balancer["name"])


def target_name(target: Shown, names: Mapping[int, str]) -> str:
    """The name of a server by its ID, or an address; "?" for a deleted server."""
    return str(target["ip"]["ip"]) if target["type"] == "ip" else names.get(target["server"]["id"], "?")


def _load_balancers(shown: Shown) -> Iterator[str]:
    names = {server["id"]: server["name"] for server in shown["servers"]}
    for balancer in shown["load_balancers"]:
        targets = list(_targets(balancer, names))
        if balancer["services"] and not targets:
            yield f"{title(balancer)} has no targets"
        ports: dict[str, list[int]] = {}  # those of one problem in one line
        for service in balancer["services"]:
            port = service["listen_port"]
            bad = [name for name, health in targets if health.get(port) == "unhealthy"]
            if bad:
                text = f"{len(bad)} of {len(targets)} targets unhealthy: {_some(bad)}"
                ports.setdefault(text, []).append(port)
            elif targets and all(health.get(port, "unknown") == "unknown" for _, health in targets):
                ports.setdefault("the health of all targets is unknown", []).append(port)
        for text, those in ports.items():
            named = ", ".join(map(str, sorted(those)))
            yield f"{title(balancer)}, port{'s' if len(those) > 1 else ''} {named}: {text}"


def _targets(balancer: Shown, names: Mapping[int, str]) -> Iterator[tuple[str, dict[int, str]]]:
    """Name and health by port of each target, and of each server of a label selector."""
    for target in balancer["targets"]:
        for one in target["targets"] if target["type"] == "label_selector" else [target]:
            yield (
                target_name(one, names),
                {health["listen_port"]: health["status"] for health in one["health_status"]},
            )


def _servers(servers: Sequence[Shown]) -> Iterator[str]:
    off = [server["name"] for server in servers if server["status"] == "off"]
    if off:
        yield f"{_some(off)} {'is' if len(off) == 1 else 'are'} off"


def _routes(shown: Shown) -> Iterator[str]:
    held = {(a["network"], a["ip"]) for server in shown["servers"] for a in server["private"]}
    for network in shown["networks"]:
        for route in network["routes"]:
            if (network["id"], route["gateway"]) not in held:
                name = f"{route['destination']} in {network['name']}"
                yield f"{name} uses the gateway {route['gateway']}, but no server has the gateway's address"


def _certificates(certificates: Sequence[Shown]) -> Iterator[str]:
    for certificate in certificates:
        error = (certificate["status"] or {}).get("error")
        if error:
            yield f"{certificate['name']} was not issued: {error['message']}"


def _actions(actions: Sequence[Shown], now: float) -> Iterator[str]:
    for action in actions:
        if action["error"] and now - action["ended"] < ACTION_SECONDS:
            on = ", ".join(f"{resource['type']} {resource['id']}" for resource in action["resources"])
            yield f"{action['command']} on {on} failed: {action['error']['message']}"


def _faults(rules: Sequence[Shown]) -> Iterator[str]:
    for rule in rules:
        if rule["hits"]:
            what = rule["command"] or f"{rule['method']} {rule['path']}"
            yield f"rule {rule['id']} applied to {rule['hits']} of {rule['seen']} matching requests: {what}"


def _quota(quotas: Sequence[Shown]) -> Iterator[str]:
    for quota in quotas:
        if quota["limit"] and quota["remaining"] < QUOTA_SHARE * quota["limit"]:
            yield f"project {quota['project']} has {quota['remaining']} of {quota['limit']} API requests left"


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMES
    return ", ".join(names[:NAMES]) + (f" and {more} more" if more > 0 else "")
