"""Which controllers run: ``--controllers`` with ``*``, names, ``-name``, and the old names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NODE = "cloud-node-controller"
NODE_LIFECYCLE = "cloud-node-lifecycle-controller"
SERVICE = "service-lb-controller"
ROUTE = "node-route-controller"

# In the order in which they start: nodes first, since load balancers and routes need them.
CONTROLLERS = (NODE, NODE_LIFECYCLE, SERVICE, ROUTE)
ALIASES = {
    "cloud-node": NODE,
    "cloud-node-lifecycle": NODE_LIFECYCLE,
    "service": SERVICE,
    "route": ROUTE,
}


def canonical(entry: str) -> str:
    """An entry of ``--controllers`` with an old name replaced; a leading ``-`` stays."""
    minus, name = ("-", entry[1:]) if entry.startswith("-") else ("", entry)
    return minus + ALIASES.get(name, name)


def unknown(entries: Iterable[str], known: Sequence[str] = CONTROLLERS) -> list[str]:
    """A sentence for each entry that names no controller."""
    names = (entry.removeprefix("-") for entry in map(canonical, entries))
    return [
        f'--controllers: "{name}" is not in the list of known controllers: {", ".join(known)}'
        for name in names
        if name != "*" and name not in known
    ]


def is_enabled(name: str, entries: Sequence[str]) -> bool:
    """Whether a controller runs: the first entry that names it decides, else ``*`` does.

    Args:
        name: The controller's present name.
        entries: Of ``--controllers``.
    """
    for entry in map(canonical, entries):
        if entry == name:
            return True
        if entry == f"-{name}":
            return False
    return "*" in entries
