"""The provider for the package kubernetes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.engine.errors import (
    ClusterUnreachableError,
    PartialError,
    ProviderError,
    ResourceNotFoundError,
    UnsupportedError,
)
from sandbox.engine.providers.base import Created, Diff, Known, Provider, Read, Surroundings, name_of, type_of
from sandbox.engine.providers.kubernetes import objects, readiness
from sandbox.engine.providers.kubernetes.cluster import Cluster, KubernetesError
from sandbox.engine.providers.kubernetes.kinds import BUILTIN, replacing_paths
from sandbox.engine.providers.kubernetes.kubeconfig import moved
from sandbox.engine.providers.kubernetes.managed_fields import CREATOR, taken_over
from sandbox.engine.providers.kubernetes.settings import check_config, switch, switch_or_variable
from sandbox.engine.values import UNKNOWN, Properties, has_unknown, is_secret, plain

_POLL_SECONDS = 0.25
_FOREGROUND = {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job"}
_PATCH_FORCE = "pulumi.com/patchForce"
_FIELD_MANAGER = "pulumi.com/patchFieldManager"


class KubernetesProvider(Provider):
    """Objects of any kind. No call is made before one is needed.

    Args:
        config: Its configuration, plain.
        around: Where it runs.
        clock: Monotonic seconds.
        sleep: Waits so many seconds.
    """

    accept_secrets = True
    check_config = staticmethod(check_config)
    moved = staticmethod(moved)

    def __init__(
        self,
        config: Properties,
        around: Surroundings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._cluster = Cluster(config, around.environment)
        self._around = around
        self._clock = clock
        self._sleep = sleep

    # --- comparing

    def check(self, urn: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Fill in name and namespace, encode stringData."""
        kind = type_of(urn)
        if kind.startswith("kubernetes:helm.sh/"):
            raise UnsupportedError(f"resources of type '{kind}'", "kubernetes")
        version, name = news.get("apiVersion"), news.get("kind")
        # A part of an object that others own: NodePatch has the kind Node.
        is_patch = kind.endswith(f":{name}Patch")
        if is_patch or (kind.endswith(("Patch", "List")) and not news.get("metadata")):
            raise UnsupportedError(f"resources of type '{kind}'", "kubernetes")
        if not version or not name:
            raise ProviderError(f"'{name_of(urn)}' has no apiVersion or no kind")
        news = objects.with_secret_data(news)
        news = objects.with_name(name_of(urn), olds, news, seed)
        if version != UNKNOWN and self._is_namespaced(version, name, olds):
            return objects.with_namespace(news, self._config.get("namespace") or "default")
        return news

    def _is_namespaced(self, version: str, kind: str, olds: Properties) -> bool:
        if (version, kind) in BUILTIN:
            return BUILTIN[version, kind].namespaced
        if olds.get("kind") == kind:
            return "namespace" in (plain(olds).get("metadata") or {})
        return self._cluster.resource(version, kind).namespaced

    def diff(self, old: Known, news: Properties) -> Diff:
        """Compare inputs; some fields of some kinds can't be changed in place."""
        before, after = plain(old.inputs), plain(news)
        keys = objects.changed_paths(before, after)
        candidates = replacing_paths(str(after.get("kind")))
        replaces = objects.replaced_paths(before, after, candidates) if keys else []
        same_place = _place(before) == _place(after) and not objects.is_autonamed(after)
        return Diff(bool(keys), replaces, bool(replaces) and same_place, keys=keys)

    # --- creating and changing

    def create(self, urn: str, inputs: Properties, timeout: float | None) -> Created:
        """POST; an object that is there already is an error, it is not ours, unless the provider says so."""
        body = plain(inputs)
        collection, _ = self._paths(body)
        try:
            found = self._cluster.create(collection, body, CREATOR)
        except KubernetesError as error:
            if error.reason != "AlreadyExists":
                raise
            if self._is_on("upsertExistingObjects") and (known := self._take_over(urn, inputs, timeout)):
                return known
            raise ProviderError(
                f"{body['kind']} '{objects.identity(body)}' already exists in the cluster and is "
                "not in this stack's state. If it is not needed, delete it; if the stack may change it, run "
                "the command once with PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true in the environment"
            ) from error
        return self._settle(urn, inputs, found, timeout, _manager_of(body), body["apiVersion"])

    def _take_over(self, urn: str, inputs: Properties, timeout: float | None) -> Created | None:
        """Apply the inputs to the object of that name and wait; None where there is none."""
        body = plain(inputs)
        if "name" not in body["metadata"]:
            return None
        _, path = self._paths(body)
        manager = _manager_of(body)
        try:
            self._cluster.get(path)
        except ResourceNotFoundError:
            return None
        found = self._apply(path, body, manager)
        return self._settle(urn, inputs, found, timeout, manager, body["apiVersion"])

    def update(self, old: Known, news: Properties, timeout: float | None) -> Properties:
        """Server-side apply as the manager that this resource has had from the beginning, or now names."""
        body = plain(news)
        before = old.outputs.get("__fieldManager")
        manager = _manager_of(body, before)
        _, path = self._paths(body)
        found = self._apply(path, body, manager)
        if before not in (None, manager):
            found = self._cluster.apply(path, _reference(body), before, force=False)
        version = old.outputs.get("__initialApiVersion") or body["apiVersion"]
        return self._settle(old.urn, news, found, timeout, manager, version).outputs

    def preview_update(self, old: Known, news: Properties) -> Properties:
        """What an update does not touch stays as it is."""
        return {**old.outputs, "__inputs": news, **news}

    def _apply(self, path: str, body: Properties, manager: str) -> dict[str, Any]:
        live = self._cluster.get(path)
        owned = taken_over(live["metadata"].get("managedFields") or [], manager, body["apiVersion"])
        if owned is not None:
            version = live["metadata"]["resourceVersion"]
            self._cluster.patch(
                path,
                [
                    {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                    {"op": "replace", "path": "/metadata/managedFields", "value": owned},
                ],
            )
        said = readiness.annotation(body, _PATCH_FORCE)
        force = said == "true" if said else switch(self._config, "enablePatchForce")
        try:
            return self._cluster.apply(path, body, manager, force=force)
        except KubernetesError as error:
            if error.status != 409 or error.reason != "Conflict":
                raise
            raise ProviderError(
                f"{error}. Others have changed these fields; to overwrite them, set the annotation "
                f"'{_PATCH_FORCE}: \"true\"' on the object"
            ) from error

    def _settle(  # noqa: PLR0917  all of it makes up the outputs
        self,
        urn: str,
        inputs: Properties,
        found: dict[str, Any],
        timeout: float | None,
        manager: str,
        version: str,
    ) -> Created:
        """Wait until an object is ready; its id and outputs."""
        if readiness.awaited(found):
            try:
                found = self._wait(urn, found, readiness.timeout_of(found, timeout))
            except ProviderError as error:
                shown = objects.outputs(found, inputs, manager, version)
                raise PartialError(str(error), objects.identity(found), shown) from error
        return Created(objects.identity(found), objects.outputs(found, inputs, manager, version))

    def _wait(self, urn: str, found: dict[str, Any], timeout: float) -> dict[str, Any]:
        _, path = self._paths(found)
        deadline = self._clock() + timeout
        while (reason := readiness.unready(found)) is not None:
            if self._clock() > deadline:
                raise ProviderError(
                    f"{found['kind']} '{objects.identity(found)}' was not ready within {timeout:g} s: "
                    f"{reason}"
                )
            if self._around.cancelled():
                raise ProviderError(f"cancelled; {reason}")
            self._around.status(urn, reason)
            self._sleep(_POLL_SECONDS)
            found = self._cluster.get(path)
        self._around.status(urn, "")
        return found

    def find(self, urn: str, inputs: Properties) -> str | None:  # noqa: ARG002
        """The id of what a killed run created without noting it; None where nothing can be found."""
        if not all(inputs.get(key) for key in ("apiVersion", "kind", "metadata")):
            return None
        try:
            _, path = self._paths(inputs)
            return objects.identity(self._cluster.get(path)) if inputs["metadata"].get("name") else None
        except ProviderError:
            return None

    # --- deleting and reading

    def delete(self, old: Known, timeout: float | None) -> None:
        """DELETE and wait until it is gone; with ``deleteUnreachable``, what can't be reached is."""
        try:
            self._delete(old, timeout)
        except ClusterUnreachableError as error:
            if not self._forgets(old, error):
                raise

    def _delete(self, old: Known, timeout: float | None) -> None:
        body = plain(old.outputs) or plain(old.inputs)
        _, path = self._paths(body)
        self._cluster.delete(path, "Foreground" if body["kind"] in _FOREGROUND else "Background")
        if readiness.annotation(body, readiness.SKIP_AWAIT) == "true" and body["kind"] != "Namespace":
            return
        limit = readiness.timeout_of(body, timeout)
        deadline = self._clock() + limit
        uid = body["metadata"].get("uid")
        pause = 0.02  # most objects are gone at once
        while True:
            try:
                live = self._cluster.get(path)
            except ResourceNotFoundError:
                return
            if uid and live["metadata"].get("uid") != uid:
                return
            if self._clock() > deadline:
                raise ProviderError(_still_there(live, limit))
            self._sleep(pause)
            pause = min(pause * 2, _POLL_SECONDS)

    def read(self, old: Known) -> Read:
        """GET; inputs take the values that they now have.

        Of a cluster that does not answer nothing is known: with ``skipUpdateUnreachable`` the state stays
        as it is, with ``deleteUnreachable`` it forgets.

        Raises:
            ResourceNotFoundError: It is gone, or another one has its name.
        """
        inputs = old.inputs or self._identified(old)
        _, path = self._paths(plain(inputs))
        try:
            found = self._cluster.get(path)
        except ClusterUnreachableError as error:
            if self._forgets(old, error):
                raise ResourceNotFoundError(str(error)) from error
            if old.inputs and self._is_on("skipUpdateUnreachable"):
                self._around.status(old.urn, f"not read: {error}")
                return Read(old.id, old.inputs, old.outputs)
            raise
        manager = old.outputs.get("__fieldManager") or CREATOR
        version = old.outputs.get("__initialApiVersion") or plain(inputs)["apiVersion"]
        if _is_another(old, found):
            raise ResourceNotFoundError(f"'{old.id}' was deleted and made anew by others")
        if not old.inputs:
            inputs = {key: found[key] for key in found if key != "status"}
        now = objects.live_inputs(inputs, found)
        if plain(now) == plain(inputs):
            now = inputs
        return Read(objects.identity(found), now, objects.outputs(found, now, manager, version))

    def _forgets(self, old: Known, error: ClusterUnreachableError) -> bool:
        """Whether what is in a cluster that does not answer is taken for gone."""
        if forgets := self._is_on("deleteUnreachable"):
            self._around.status(old.urn, f"forgotten: {error}")
        return forgets

    def _is_on(self, key: str) -> bool:
        return switch_or_variable(self._config, key, self._around.environment)

    @staticmethod
    def _identified(old: Known) -> Properties:
        """What an object that is being imported is known by: its type, and ``namespace/name``."""
        _, version, kind = old.type.split(":")
        group, _, number = version.rpartition("/")
        namespace, _, name = old.id.rpartition("/")
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        return {
            "apiVersion": number if group == "core" else version,
            "kind": kind,
            "metadata": metadata,
        }

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _paths(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """Path of the collection and of the object."""
        served = self._cluster.resource(body["apiVersion"], body["kind"])
        metadata = body["metadata"]
        namespace = metadata.get("namespace") or self._config.get("namespace") or "default"
        return served.path(namespace), served.path(namespace, metadata.get("name"))


def _manager_of(body: Mapping[str, Any], before: str | None = None) -> str:
    """As the plugin has it: what the object names, else the one that it had, else a random one."""
    named = readiness.annotation(body, _FIELD_MANAGER)
    return named or before or f"pulumi-kubernetes-{os.urandom(4).hex()}"


def _reference(body: Mapping[str, Any]) -> dict[str, Any]:
    """Who applies no more than this gives up all fields."""
    called = {name: body["metadata"][name] for name in ("name", "namespace") if name in body["metadata"]}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": called}


def _place(inputs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    metadata = inputs.get("metadata")
    if not isinstance(metadata, dict) or is_secret(metadata) or has_unknown(metadata):
        return None, None, None
    return inputs.get("kind"), metadata.get("namespace"), metadata.get("name")


def _is_another(old: Known, found: Mapping[str, Any]) -> bool:
    """Tell whether an object only has the name of the one that was made. That one may be on its way out."""
    known = (plain(old.outputs).get("metadata") or {}).get("uid")
    return known is not None and known != found["metadata"].get("uid")


def _still_there(live: Mapping[str, Any], limit: float) -> str:
    waiting = ", ".join(live["metadata"].get("finalizers") or ()) or "its parts"
    return (
        f"{live['kind']} '{objects.identity(live)}' was not gone within {limit:g} s; it waits for: {waiting}"
    )
