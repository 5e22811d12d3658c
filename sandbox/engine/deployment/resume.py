"""After a killed run: what it was doing is noticed, explained and picked up."""

from __future__ import annotations

import msgspec

from sandbox.engine.deployment.run import Run
from sandbox.engine.errors import PartialError
from sandbox.engine.properties.clock import timestamp
from sandbox.engine.providers.base import Created, Request
from sandbox.engine.providers.registry import Registry
from sandbox.engine.state.snapshot import Pending


def resume(run: Run, registry: Registry) -> None:
    """Pick up the operations that the state says were going on.

    Finished or half-finished creations become part of the old state, if their provider can find them;
    everything else is compared and done again by the run itself. A preview only tells.

    Raises:
        EngineError: The provider of such a resource does not answer.
    """
    for pending in list(run.snapshot.interrupted):
        urn = pending.resource.urn
        text = f"an earlier run was interrupted while {pending.kind} this resource"
        # of a component or a provider there is nothing that could have been left
        if pending.kind != "creating" or not pending.resource.is_managed:
            run.listener.diagnostic("warning", f"{text}; it is compared and done again", urn)
            run.snapshot.resolve_interrupted(pending)
        elif run.preview:
            run.listener.diagnostic("warning", f"{text}; 'pulumi up' will look for it first", urn)
        else:
            run.listener.diagnostic("warning", f"{text}; {_adopt(run, registry, pending)}", urn)


def _adopt(run: Run, registry: Registry, pending: Pending) -> str:
    resource = pending.resource
    present = {old.urn: old.id for old in run.snapshot.olds if not old.delete and not old.pending_replacement}
    predecessor = present.get(resource.urn)
    if resource.package == "pulumi-python":
        run.snapshot.resolve_interrupted(pending)
        return "a dynamic provider can't tell how far it came, so it is created again"
    provider = registry.get(resource.provider)
    timeout = resource.custom_timeouts.get("create")
    errors: list[str] = []
    try:
        made = provider.adopt(Request(resource.urn, resource.type, resource.inputs, timeout))
    except PartialError as error:
        made, errors = Created(error.id, error.outputs), [str(error)]
    if made is None or made.id == predecessor:
        run.snapshot.resolve_interrupted(pending)
        return (
            "nothing of it was found"
            if predecessor is None
            else "its predecessor is still there and is replaced again"
        )
    outputs = provider.marked(resource.inputs, made.outputs, resource.additional_secret_outputs)
    now = timestamp()
    adopted = msgspec.structs.replace(
        resource, id=made.id, outputs=outputs, created=now, modified=now, init_errors=errors
    )
    run.snapshot.resolve_interrupted(pending, adopted)
    return "it was found and taken over"
