"""Chooses type and location of each server by the cloud's capacity, and the fallbacks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..config.placement import Placement, Present
from ..config.server_spec import Kind, ServerSpec, resized_in_place
from ..config.setting_types import key_of
from ..config.settings import Settings
from ..lib.errors import Problem
from .catalogue import Catalogue, Needed, unknown

FALLBACKS = key_of("fallbacks")


def placed(
    settings: Settings, catalogue: Catalogue, present: Mapping[str, Present]
) -> tuple[list[ServerSpec], list[Problem]]:
    """The servers with their placement, and problems: no capacity, or unknown fallbacks.

    Unknown fallbacks are a problem only if a server may use one: Hetzner removes types some months after
    their deprecation.
    """

    def others(server: ServerSpec) -> list[Placement]:
        return alternatives(server, settings.network_zone, catalogue)

    servers = settings.servers

    def has_capacity(place: Placement) -> bool:
        return catalogue.server_types.get(place.server_type, {}).get(place.location, False)

    chosen, unplaceable = choose(servers, others, has_capacity, present)
    problems = unknown_fallbacks(settings, catalogue) if need_fallbacks(servers, present) else []
    for server in unplaceable:
        place = server.wanted
        if place.server_type not in catalogue.server_types or place.location not in catalogue.zones:
            continue  # another check reports a type or location that does not exist
        remedy = _remedy(server, others(server), present.get(server.role))
        problem = Problem(
            server.keys.server_type, place.server_type, f"{_no_capacity(place, catalogue)}; {remedy}"
        )
        problems += [problem] if problem not in problems else []
    return chosen, problems


def alternatives(server: ServerSpec, zone: str, catalogue: Catalogue) -> list[Placement]:
    """The fallbacks of a server in the network's zone, with the same processor architecture."""
    is_arm = server.wanted.server_type in catalogue.arm
    return [
        other
        for other in server.alternatives
        if (other.server_type in catalogue.arm) == is_arm and catalogue.zones.get(other.location) == zone
    ]


def choose(
    servers: Sequence[ServerSpec],
    others: Callable[[ServerSpec], Sequence[Placement]],
    has_capacity: Callable[[Placement], bool],
    present: Mapping[str, Present],
) -> tuple[list[ServerSpec], list[ServerSpec]]:
    """Chooses the placement of each server. Returns all servers with it, and also those without capacity:
    their placement is the first that they try.

    An existing server stays where it is, at a fallback too, until the settings want another placement. Then
    it gets that one, never a fallback. A new server gets the first placement with capacity. So does a server
    that is recreated; its current placement is the first that it tries.
    """
    chosen: list[ServerSpec] = []
    unplaceable = []
    for spec in servers:
        wanted, here = spec.wanted, present.get(spec.role)
        has_type = here is not None and here.placement.server_type == wanted.server_type
        server = replace(spec, has_type=has_type)
        if here is None:
            places = wanted, *others(server)
        elif reasons_for_another(server, here):
            places = here.placement, wanted, *others(server)
        elif not here.stays(wanted):
            places = (wanted,)
        else:
            chosen.append(server.at(here.placement))
            continue
        placement = next(filter(has_capacity, places), None)
        chosen.append(server.at(placement or places[0]))
        if placement is None:
            unplaceable.append(chosen[-1])
    return chosen, unplaceable


def reasons_for_another(server: ServerSpec, here: Present) -> list[str]:
    """Why a server is replaced without a new placement; empty if the settings want another one."""
    if not here.stays(server.wanted):
        return []
    differs = {
        "another image": has_another_image(server, here),
        "other public addresses": server.is_public != here.is_public,
        "another placement group": server.group_is_set and server.group_name != here.group,
    }
    return [reason for reason, is_so in differs.items() if is_so]


def has_another_image(server: ServerSpec, here: Present) -> bool:
    """Whether new settings replace a server's image; the NAT server always keeps its image and address."""
    counts = server.kind is not Kind.NAT and bool(server.image and here.image)
    return counts and server.image not in (here.image, here.image_id)


def type_problems(
    servers: Sequence[ServerSpec], catalogue: Catalogue, present: Mapping[str, Present]
) -> list[Problem]:
    """Types to which Hetzner can't change a server in place: the request would fail while it is off."""
    resized = resized_in_place(servers, present)
    problems = []
    for server in servers:
        here, server_type = present.get(server.role), server.placement.server_type
        if here is None or server.role not in resized or _is_recreated(server, here):
            continue
        if why := _unfit(server_type, here, catalogue):
            allowed = f"{server.role} can't change from the type {here.placement.server_type}: {why}"
            if server.kind is Kind.CONTROL:
                allowed += (
                    f". If there are several control servers ({key_of('control_count')}), the program "
                    "recreates each control server instead of changing its type"
                )
            problems.append(Problem(server.keys.server_type, server_type, allowed))
    return problems


def needed_for(
    servers: Sequence[ServerSpec], scaled: Sequence[ServerSpec], present: Mapping[str, Present]
) -> Needed:
    """Images and types of servers that this run creates or resizes, or the cluster-autoscaler creates."""
    resized = resized_in_place(servers, present)
    images, types = {server.image for server in scaled}, {server.wanted.server_type for server in scaled}
    for server in servers:
        here = present.get(server.role)
        is_new = _is_new(server, here, resized)
        if is_new:
            images.add(server.image)
        if is_new or (here and here.placement != server.placement):
            types.add(server.placement.server_type)
    return Needed(frozenset(images), frozenset(types))


def _is_new(server: ServerSpec, here: Present | None, resized: Collection[str]) -> bool:
    if here is None:
        return True
    another_type = server.role not in resized and here.placement.server_type != server.placement.server_type
    return another_type or _is_recreated(server, here) or bool(reasons_for_another(server, here))


def _is_recreated(server: ServerSpec, here: Present) -> bool:
    """Whether another input than its type recreates a server."""
    elsewhere = here.placement.location != server.placement.location
    return elsewhere or has_another_image(server, here) or server.is_public != here.is_public


def _unfit(server_type: str, here: Present, catalogue: Catalogue) -> str:
    """Why a server can't get another type; empty if it can, has it already, or the type does not exist.

    https://docs.hetzner.cloud/reference/cloud#server-actions-change-the-type-of-a-server
    """
    if server_type == here.placement.server_type or server_type not in catalogue.disks:
        return ""
    if (server_type in catalogue.arm) != here.is_arm:  # the server's own type may be missing in the catalogue
        return "choose a type with the same processor architecture"
    if (wanted := catalogue.disks[server_type]) < here.disk:
        return f"the disk has {here.disk} GB and can't shrink to {wanted} GB; choose a larger type"
    return ""


def _no_capacity(wanted: Placement, catalogue: Catalogue) -> str:
    elsewhere = [place for place, free in catalogue.server_types[wanted.server_type].items() if free]
    here = sorted(other for other, at in catalogue.server_types.items() if at.get(wanted.location))
    there = f"the type is available in {', '.join(elsewhere) or 'no location'}"
    instead = f"{wanted.location} offers {', '.join(here) or 'nothing'}"
    return f"{wanted.location} has no capacity for this type now; {there}, and {instead}"


def _remedy(server: ServerSpec, others: Sequence[Placement], here: Present | None) -> str:
    reasons = reasons_for_another(server, here) if here else []
    if here and not reasons:
        return f"{server.role} already exists, and the program uses a fallback only for a new server"
    remedy = f"the types and locations in 'fallbacks' have no capacity either: {', '.join(map(str, others))}"
    if not others:
        remedy = f"{FALLBACKS} may name alternatives"
    if not reasons:
        return remedy
    return f"existing servers of {server.pool} would be replaced because of {' and '.join(reasons)}; {remedy}"


def need_fallbacks(servers: Sequence[ServerSpec], present: Mapping[str, Present]) -> bool:
    """Whether a server is created or recreated, so that it may get a fallback."""
    return any(
        server.role not in present or reasons_for_another(server, present[server.role]) for server in servers
    )


def unknown_fallbacks(settings: Settings, catalogue: Catalogue) -> list[Problem]:
    """Fallbacks with an unknown type or location."""
    near = [name for name, zone in catalogue.zones.items() if zone == settings.network_zone]
    lists = {FALLBACKS: settings.fallbacks}
    lists |= {
        f"{key_of('pools')}[{index}].fallbacks": pool.fallbacks or ()
        for index, pool in enumerate(settings.pools)
    }
    problems = []
    for key, fallbacks in lists.items():
        for index, fallback in enumerate(fallbacks):
            if fallback.server_type and fallback.server_type not in catalogue.server_types:
                name = f"{key}[{index}].serverType"
                problems.append(unknown(name, fallback.server_type, catalogue.server_types))
            if fallback.location and fallback.location not in near:
                problems.append(unknown(f"{key}[{index}].location", fallback.location, near))
    return problems
