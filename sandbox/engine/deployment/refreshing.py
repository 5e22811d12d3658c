"""Refresh: the state becomes what is really there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sandbox.engine.deployment.run import Run
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import ClusterUnreachableError, ResourceNotFoundError
from sandbox.engine.properties.clock import timestamp
from sandbox.engine.properties.values import changed_keys, plain
from sandbox.engine.providers.base import Provider, Read
from sandbox.engine.providers.registry import Registry
from sandbox.engine.state.resource import Resource


def refresh(run: Run, registry: Registry, *, quiet: bool = False) -> None:
    """Read every resource; forget those that are gone.

    Args:
        run: The run.
        registry: Gives providers.
        quiet: Show only what needs attention: inputs that others have changed, and what is gone.

    A failure is in ``run.failed`` afterwards; everything that could be read is kept.
    """
    managed = [
        resource
        for resource in run.snapshot.olds
        if resource.custom and not resource.is_provider and not resource.pending_replacement
    ]

    def work(resource: Resource) -> None:
        run.guarded(lambda: _refresh_one(run, registry, resource, quiet=quiet), resource.urn)

    with ThreadPoolExecutor(max_workers=max(1, min(run.parallel, 32))) as pool:
        list(pool.map(work, managed))
    run.snapshot.cut_dangling()


def _refresh_one(run: Run, registry: Registry, resource: Resource, *, quiet: bool) -> None:
    run.check()
    provider = registry.get(resource.provider)
    with run.busy():
        try:
            found = provider.read(resource)
        except ResourceNotFoundError:
            _forget(run, resource, "it no longer exists")
            return
        except ClusterUnreachableError as error:
            if not getattr(provider, "delete_unreachable", False):
                raise
            _forget(run, resource, error.args[0].split(". ")[0])
            return
        _apply(run, provider, resource, found, quiet=quiet)


def _forget(run: Run, resource: Resource, reason: str) -> None:
    run.unchanged(resource.urn, Op.GONE)
    run.listener.diagnostic("info", f"forgotten: {reason}", resource.urn)
    run.snapshot.lose(resource)


def _apply(run: Run, provider: Provider, resource: Resource, found: Read, *, quiet: bool) -> None:
    inputs = provider.marked(resource.inputs, found.inputs)
    outputs = provider.marked(resource.inputs, found.outputs, resource.additional_secret_outputs)
    same_inputs = plain(inputs) == plain(resource.inputs)
    if same_inputs and plain(outputs) == plain(resource.outputs):
        if not quiet:
            run.unchanged(resource.urn)
        return
    if not (quiet and same_inputs):
        before, after = (resource.outputs, outputs) if same_inputs else (resource.inputs, inputs)
        run.unchanged(resource.urn, Op.REFRESH, changed_keys(before, after))
    # a preview compares with what is really there, too; nothing of this is written
    resource.id, resource.inputs, resource.outputs = found.id, inputs, outputs
    resource.modified = timestamp()
    run.snapshot.touch()
