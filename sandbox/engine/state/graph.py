"""URNs, aliases, and the order in which resources can be deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sandbox.engine.errors import EngineError
from sandbox.engine.state.resource import PROVIDER_PREFIX, STACK_TYPE, Resource, provider_urn


def urn_of(stack: str, project: str, kind: str, name: str, parent: str = "") -> str:
    """The URN of a resource; the parent's types are part of it unless the parent is the stack."""
    return f"urn:pulumi:{stack}::{project}::{qualified_type(parent)}{kind}::{name}"


def qualified_type(parent: str) -> str:
    """What a parent's URN adds before a child's type."""
    if not parent:
        return ""
    chain = parent.split("::")[2]
    return "" if chain == STACK_TYPE else f"{chain}$"


def type_of(urn: str) -> str:
    """The resource's own type in a URN."""
    return urn.split("::")[2].rsplit("$", maxsplit=1)[-1]


def name_of(urn: str) -> str:
    """The resource's name in a URN."""
    return urn.split("::", 3)[3]


def is_default_provider(urn: str) -> bool:
    """Tell whether the engine made this provider by itself; the CLI neither shows nor counts those."""
    return type_of(urn).startswith(PROVIDER_PREFIX) and name_of(urn).startswith("default")


@dataclass(frozen=True)
class Alias:
    """What a resource was called before; an empty part means: as now."""

    urn: str = ""
    name: str = ""
    type: str = ""
    stack: str = ""
    project: str = ""
    parent: str = ""
    no_parent: bool = False


def alias_urn(alias: Alias, urn: str, parent: str) -> str:
    """The URN that an alias stands for, seen from a resource with this URN and parent."""
    if alias.urn:
        return alias.urn
    head, project = urn.split("::")[:2]
    stack = head.removeprefix("urn:pulumi:")
    above = "" if alias.no_parent else alias.parent or parent
    return urn_of(
        alias.stack or stack,
        alias.project or project,
        alias.type or type_of(urn),
        alias.name or name_of(urn),
        above,
    )


def former_urns(
    aliases: Iterable[Alias], urn: str, parent: str, formers: Mapping[str, Sequence[str]]
) -> list[str]:
    """Every URN that a resource may have had: what its aliases say, and what follows from its parent's.

    Args:
        aliases: Of the resource.
        urn: Of the resource.
        parent: URN of its parent, or "".
        formers: Former URNs of other resources, the parent among them.
    """
    own = [
        alias_urn(replace(alias, parent=above), urn, parent)
        for alias in aliases
        for above in (alias.parent, *formers.get(alias.parent, ()))
    ]
    inherited = [
        _inherited_urn(child, parent, former) for former in formers.get(parent, ()) for child in (urn, *own)
    ]
    return list(dict.fromkeys([*own, *inherited]))


def _inherited_urn(child: str, parent: str, former: str) -> str:
    """The child's URN below its parent's former one; a name that begins with the parent's follows it."""
    name, before = name_of(child), name_of(parent)
    if name.startswith(before):
        name = name_of(former) + name.removeprefix(before)
    head, project = child.split("::")[:2]
    return urn_of(head.removeprefix("urn:pulumi:"), project, type_of(child), name, former)


def rename(resource: Resource, old: str, new: str) -> None:
    """Let a resource refer to another one by its new URN, in place."""

    def renamed(urn: str) -> str:
        return new if urn == old else urn

    resource.parent = renamed(resource.parent)
    resource.deleted_with = renamed(resource.deleted_with)
    resource.dependencies = [renamed(urn) for urn in resource.dependencies]
    resource.property_dependencies = {
        key: [renamed(urn) for urn in urns] for key, urns in resource.property_dependencies.items()
    }
    if resource.provider and provider_urn(resource.provider) == old:
        resource.provider = f"{new}::{resource.provider.rsplit('::', 1)[1]}"


def needs(resource: Resource) -> set[str]:
    """URNs of everything that must exist as long as this resource does."""
    urns = set(resource.dependencies) | {resource.parent, resource.deleted_with}
    for dependencies in resource.property_dependencies.values():
        urns.update(dependencies)
    if resource.provider:
        urns.add(provider_urn(resource.provider))
    return urns - {"", resource.urn}


def deletion_batches(resources: Collection[Resource]) -> list[list[Resource]]:
    """What can be deleted at once, in the order of the genuine engine: the reverse of that of creation.

    A resource goes with those that could have been made at the same time, not as soon as nothing needs it.

    Args:
        resources: What is to be deleted.

    Raises:
        EngineError: They depend on each other in a circle.
    """
    batches: list[list[Resource]] = []
    left = list(resources)
    while left:
        urns = {resource.urn for resource in left}
        batch = [resource for resource in left if not needs(resource) & urns]
        if not batch:
            raise EngineError(f"the resources of the state depend on each other in a circle: {left[0].urn}")
        batches.append(batch)
        done = {id(resource) for resource in batch}
        left = [resource for resource in left if id(resource) not in done]
    return batches[::-1]


def without_dangling(resource: Resource, known: Collection[str]) -> bool:
    """Drop references to resources that are gone, in place; tell whether anything was dropped."""
    changed = False
    kept = [urn for urn in resource.dependencies if urn in known]
    if kept != resource.dependencies:
        resource.dependencies, changed = kept, True
    for key, urns in resource.property_dependencies.items():
        kept = [urn for urn in urns if urn in known]
        if kept != urns:
            resource.property_dependencies[key], changed = kept, True
    if resource.deleted_with and resource.deleted_with not in known:
        resource.deleted_with, changed = "", True
    if resource.parent and resource.parent not in known:
        resource.parent, changed = "", True
    return changed


def find_old(urn: str, aliases: Iterable[str], olds: Mapping[str, Resource]) -> Resource | None:
    """The state of a resource under its URN or the first alias that has one."""
    return next((olds[candidate] for candidate in (urn, *aliases) if candidate in olds), None)
