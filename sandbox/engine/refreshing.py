"""Refresh: the state becomes what is really there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sandbox.engine import graph
from sandbox.engine.clock import timestamp
from sandbox.engine.errors import ClusterUnreachableError, EngineError, ResourceNotFoundError, StoppedError
from sandbox.engine.providers.base import Provider, Read
from sandbox.engine.providers.registry import Registry
from sandbox.engine.resource import Resource
from sandbox.engine.run import Run
from sandbox.engine.steps import Op
from sandbox.engine.values import changed_keys, mark_keys, mark_like, plain


def refresh(run: Run, registry: Registry) -> None:
    """Read every resource; forget those that are gone.

    A failure is in `run.failed` afterwards; everything that could be read is kept.
    """
    managed = [resource for resource in run.snapshot.olds if resource.custom and not resource.is_provider]

    def work(resource: Resource) -> None:
        try:
            _refresh_one(run, registry, resource)
        except StoppedError:
            pass
        except EngineError as error:
            run.fail(str(error), resource.urn)
        except Exception as error:  # noqa: BLE001  a bug must not hang the others
            run.fail_internally(error, resource.urn)

    with ThreadPoolExecutor(max_workers=max(1, min(run.parallel, 32))) as pool:
        list(pool.map(work, managed))
    known = {resource.urn for resource in run.snapshot.remaining()}
    for resource in run.snapshot.remaining():
        graph.without_dangling(resource, known)


def _refresh_one(run: Run, registry: Registry, resource: Resource) -> None:
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
        _apply(run, provider, resource, found)


def _forget(run: Run, resource: Resource, reason: str) -> None:
    run.unchanged(resource.urn, Op.DELETE)
    run.listener.diagnostic("info", f"removed from the state: {reason}", resource.urn)
    if not run.preview:
        run.snapshot.forget(resource)


def _apply(run: Run, provider: Provider, resource: Resource, found: Read) -> None:
    outputs, inputs = found.outputs, found.inputs
    if not provider.accept_secrets:
        outputs = mark_like(resource.inputs, outputs)
        inputs = mark_like(resource.inputs, inputs)
    outputs = mark_keys(resource.additional_secret_outputs, outputs)
    keys = changed_keys(resource.outputs, outputs)
    if plain(outputs) == plain(resource.outputs) and plain(inputs) == plain(resource.inputs):
        run.unchanged(resource.urn)
        return
    run.listener.started(resource.urn, Op.UPDATE, keys)
    run.listener.finished(resource.urn, Op.UPDATE)
    if not run.preview:
        resource.id, resource.inputs, resource.outputs = found.id, inputs, outputs
        resource.modified = timestamp()
