"""Deleting: dependents before what they depend on, in parallel where the graph allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from sandbox.engine.deployment.run import Run
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import ClusterUnreachableError, ProtectedError
from sandbox.engine.providers.base import Provider
from sandbox.engine.state import graph
from sandbox.engine.state.resource import Resource

Providers = Callable[[Resource], Provider]


def check_protected(resources: Sequence[Resource]) -> None:
    """Refuse before anything is deleted.

    Raises:
        ProtectedError: One of the resources is protected.
    """
    for resource in resources:
        if resource.protect and not resource.delete:
            raise ProtectedError(resource.urn, "deleted")


def delete_one(
    run: Run, resource: Resource, provider_of: Providers, *, going: Collection[str], op: Op
) -> None:
    """Delete one resource and forget it; one that will be made anew stays in the state until then.

    Args:
        run: The run.
        resource: What to delete.
        provider_of: Finds the provider.
        going: URNs that this run deletes as a whole, for ``deleted_with``.
        op: DELETE or DELETE_REPLACED.

    Raises:
        EngineError: It could not be deleted; it stays in the state.
    """
    if resource.protect and op is not Op.DELETE_REPLACED:
        raise ProtectedError(resource.urn, "deleted")
    run.check()
    left = resource.retain_on_delete or resource.external
    # what waits for its replacement is gone already; what goes with another needs no deletion of its own
    goes_by_itself = resource.pending_replacement or resource.deleted_with in going
    if not resource.is_managed or left or goes_by_itself:
        run.unchanged(resource.urn, Op.DISCARD if left else op)
    else:
        with run.operation(op, resource):
            if not run.preview:
                _provider_delete(run, resource, provider_of(resource))
    if op is Op.DELETE_REPLACED and not resource.delete:
        run.snapshot.await_replacement(resource)
    else:
        run.snapshot.forget(resource)


def _provider_delete(run: Run, resource: Resource, provider: Provider) -> None:
    try:
        provider.delete(resource, resource.custom_timeouts.get("delete"))
    except ClusterUnreachableError as error:
        if not getattr(provider, "delete_unreachable", False):
            raise
        run.listener.diagnostic(
            "warning", f"forgotten, not deleted: {error.args[0].split('. ')[0]}", resource.urn
        )


def delete_all(run: Run, resources: Sequence[Resource], provider_of: Providers) -> None:
    """Delete resources, dependents first; after a failure nothing more is begun.

    The failure is in ``run.failed`` afterwards.

    Raises:
        EngineError: They depend on each other in a circle.
    """
    going = {resource.urn for resource in resources if not resource.delete}

    def work(resource: Resource) -> None:
        op = Op.DELETE_REPLACED if resource.delete else Op.DELETE
        run.guarded(lambda: delete_one(run, resource, provider_of, going=going, op=op), resource.urn)

    for batch in graph.deletion_batches(resources):
        if run.failed:
            return
        with ThreadPoolExecutor(max_workers=len(batch)) as pool:
            list(pool.map(work, batch))
