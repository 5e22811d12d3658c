"""Whether the cloud has room for the servers that the settings ask for, and where else they may go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .catalogue import Catalogue, Needed, unknown
from .errors import Problem
from .inventory import group_of, has_several_controls
from .placement import (
    Choice,
    Demand,
    Fallback,
    Placement,
    Present,
    choose,
    has_another_image,
    reasons_for_another,
)
from .pools import Pool
from .settings import Settings
from .settings_reader import key_of
from .way_out import NAT

FALLBACKS = key_of("fallbacks")


def demands(settings: Settings, catalogue: Catalogue) -> list[Demand]:
    """The servers that the settings ask for: the one for NAT, control servers, then workers, pool by pool."""
    found = []
    if settings.has_nat:
        nat = Placement(settings.nat_server_type, settings.location)
        others = alternatives(nat, settings.fallbacks, settings.network_zone, catalogue)
        found.append(Demand(NAT, "NAT", nat, key_of("nat_server_type"), others))
    for member, location in settings.control_members.items():
        control = Placement(settings.control_server_type, location)
        others = alternatives(control, settings.fallbacks, settings.network_zone, catalogue)
        key, public = key_of("control_server_type"), not settings.private_nodes
        found.append(Demand(member, "control", control, key, others, public, settings.image))
    for index, pool in enumerate(settings.worker_pools):
        wanted = Placement(pool.server_type, pool.location)
        fallbacks = settings.fallbacks if pool.fallbacks is None else pool.fallbacks
        others = alternatives(wanted, fallbacks, settings.network_zone, catalogue)
        key = _type_key(settings.pools, index)
        found += [
            Demand(role, pool.name, wanted, key, others, bool(pool.public_ipv4), pool.image, group)
            for role, group in zip(pool.members, _groups(settings, pool), strict=True)
        ]
    return found


def _groups(settings: Settings, pool: Pool) -> list[str | None]:
    """Placement group of each server of a pool, where another one is a reason to make it anew."""
    numbers = range(1, pool.count + 1)
    if not settings.pools:  # only a pool of the settings has the switch
        return [None for _ in numbers]
    return [
        settings.cluster_name + group_of(pool.name, number) if pool.placement_group else ""
        for number in numbers
    ]


def _type_key(pools: Sequence[Pool], index: int) -> str:
    """The setting that says the server type of a pool."""
    own = pools and pools[index].server_type
    return f"{key_of('pools')}[{index}].serverType" if own else key_of("worker_server_type")


def alternatives(
    wanted: Placement, fallbacks: Sequence[Fallback], zone: str, catalogue: Catalogue
) -> tuple[Placement, ...]:
    """What fallbacks make of a placement: in the network's zone, with the kind of processor that images fit.

    Args:
        wanted: Instead of which.
        fallbacks: In order.
        zone: Of the network.
        catalogue: What there is.
    """
    found = dict.fromkeys(fallback.instead_of(wanted) for fallback in fallbacks)
    return tuple(
        other
        for other in found
        if other != wanted
        and (other.server_type in catalogue.arm) == (wanted.server_type in catalogue.arm)
        and catalogue.zones.get(other.location) == zone
    )


def placed(
    settings: Settings, wanted: Sequence[Demand], catalogue: Catalogue, present: Mapping[str, Present]
) -> tuple[dict[str, Choice], list[Problem]]:
    """Where every server stands, and what is in the way: no room, or fallbacks that there are not.

    The latter only where a server may go to one: Hetzner takes types away, some months after a deprecation.

    Args:
        settings: With the fallbacks.
        wanted: The servers that they ask for.
        catalogue: What can be had.
        present: Servers that exist, by role.
    """
    choices, homeless = choose(wanted, lambda place: has_room(catalogue, place), present)
    problems = unknown_fallbacks(settings, catalogue) if need_fallbacks(wanted, present) else []
    for demand in homeless:
        place = demand.wanted
        if place.server_type not in catalogue.server_types or place.location not in catalogue.zones:
            continue  # what there is not at all is told by its own setting
        remedy = _remedy(demand, present.get(demand.role))
        problem = Problem(demand.key, place.server_type, f"{_no_room(place, catalogue)}; {remedy}")
        problems += [problem] if problem not in problems else []
    return choices, problems


def type_problems(
    settings: Settings,
    wanted: Sequence[Demand],
    choices: Mapping[str, Choice],
    catalogue: Catalogue,
    present: Mapping[str, Present],
) -> list[Problem]:
    """Types that Hetzner refuses to a server that gets another one in place: it is off by then.

    Args:
        settings: Say whether control servers are made anew.
        wanted: The servers that they ask for.
        choices: Where they stand, by role.
        catalogue: What there is.
        present: Servers that exist, by role.
    """
    kept = _kept(settings, present)
    problems = []
    for demand in wanted:
        here, there = present.get(demand.role), choices[demand.role].placement
        if here is None or demand.role not in kept or _is_made_anew(demand, here, there):
            continue
        if why := _unfit(there.server_type, here, catalogue):
            allowed = f"{demand.role} is a {here.placement.server_type} and keeps its disk: {why}"
            if demand.role != NAT:
                allowed += f"; of several control servers ({key_of('control_count')}) each is made anew"
            problems.append(Problem(demand.key, there.server_type, allowed))
    return problems


def needed_for(
    settings: Settings,
    wanted: Sequence[Demand],
    choices: Mapping[str, Choice],
    present: Mapping[str, Present],
) -> Needed:
    """What servers need that are made or get another type now, or are made by the cluster-autoscaler.

    Args:
        settings: With the image of those that are not asked for theirs.
        wanted: The servers that they ask for.
        choices: Where they stand, by role.
        present: Servers that exist, by role.
    """
    kept, scaled = _kept(settings, present), settings.autoscaled_pools
    images, types = {pool.image for pool in scaled}, {pool.server_type for pool in scaled}
    for demand in wanted:
        here, there = present.get(demand.role), choices[demand.role].placement
        is_new = _is_new(demand, here, there, kept)
        if is_new:
            images.add(demand.image or settings.image)
        if is_new or (here and here.placement != there):
            types.add(there.server_type)
    return Needed(frozenset(images), frozenset(types))


def _kept(settings: Settings, present: Mapping[str, Present]) -> set[str]:
    """Roles of servers that get another type in place."""
    return {NAT} if has_several_controls(settings, present) else {NAT, *settings.control_members}


def _is_new(demand: Demand, here: Present | None, there: Placement, kept: Collection[str]) -> bool:
    if here is None:
        return True
    another_type = demand.role not in kept and here.placement.server_type != there.server_type
    return another_type or _is_made_anew(demand, here, there) or bool(reasons_for_another(demand, here))


def _is_made_anew(demand: Demand, here: Present, there: Placement) -> bool:
    """Whether something else than its type makes a server anew."""
    elsewhere = here.placement.location != there.location
    return elsewhere or has_another_image(demand, here) or demand.has_ipv4 != here.is_public


def _unfit(server_type: str, here: Present, catalogue: Catalogue) -> str:
    """Why a server can't be of another type; empty where it can, or is already, or there is no such type.

    https://docs.hetzner.cloud/reference/cloud#server-actions-change-the-type-of-a-server
    """
    if server_type == here.placement.server_type or server_type not in catalogue.disks:
        return ""
    if (server_type in catalogue.arm) != here.is_arm:  # the list may have its type no more
        return "that is for another kind of processor; take a type with the same"
    if (wanted := catalogue.disks[server_type]) < here.disk:
        return f"that has {here.disk} GB, and can't shrink to {wanted}; take a larger type"
    return ""


def has_room(catalogue: Catalogue, placement: Placement) -> bool:
    """Whether such a server can be had there now."""
    return catalogue.server_types.get(placement.server_type, {}).get(placement.location, False)


def _no_room(wanted: Placement, catalogue: Catalogue) -> str:
    elsewhere = [place for place, free in catalogue.server_types[wanted.server_type].items() if free]
    here = sorted(other for other, at in catalogue.server_types.items() if at.get(wanted.location))
    there = f"it can be had in {', '.join(elsewhere) or 'no location'}"
    instead = f"{wanted.location} has {', '.join(here) or 'nothing'}"
    return f"{wanted.location} has no room for it now; {there}, and {instead}"


def _remedy(demand: Demand, here: Present | None) -> str:
    if here is None:
        return _of_fallbacks(demand)
    if reasons := reasons_for_another(demand, here):
        # in words that are the same for all servers of a pool, which are one problem
        anew = f"what exists of {demand.pool} would be deleted and made anew for {' and '.join(reasons)}"
        return f"{anew}; {_of_fallbacks(demand)}"
    return f"{demand.role} exists, and no fallback moves a server that exists"


def _of_fallbacks(demand: Demand) -> str:
    if not demand.alternatives:
        return f"{FALLBACKS} may name others to take"
    return f"nor is there room for a fallback: {', '.join(map(str, demand.alternatives))}"


def need_fallbacks(wanted: Sequence[Demand], present: Mapping[str, Present]) -> bool:
    """Whether a server is to be made, or made anew where it is: others go to no fallback.

    Args:
        wanted: The servers that the settings ask for.
        present: Servers that exist, by role.
    """
    return any(
        demand.role not in present or reasons_for_another(demand, present[demand.role]) for demand in wanted
    )


def unknown_fallbacks(settings: Settings, catalogue: Catalogue) -> list[Problem]:
    """The fallbacks that there are not.

    Args:
        settings: With the fallbacks.
        catalogue: What there is.
    """
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
