"""The provider for the package kubernetes."""
# ruff: noqa: D102  the methods are those of Provider

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pulumi_plugins.base import Diff, Known, Provider, Resource, Surroundings, name_of, type_of
from pulumi_plugins.errors import (
    ClusterUnreachableError,
    PartialError,
    ProviderError,
    ResourceNotFoundError,
    UnsupportedError,
)
from pulumi_plugins.kubernetes import objects, readiness
from pulumi_plugins.kubernetes.cluster import Cluster, KubernetesError
from pulumi_plugins.kubernetes.kinds import IDENTITY, KINDS, replacing_paths
from pulumi_plugins.kubernetes.kubeconfig import moved
from pulumi_plugins.values import UNKNOWN, Properties, plain

_Shown = Callable[[Mapping[str, Any]], Properties]
_POLL_SECONDS = 0.25
_FOREGROUND = {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job"}
_CONFIG = {
    "kubeconfig", "context", "cluster", "namespace", "clusterIdentifier", "deleteUnreachable",
    "skipUpdateUnreachable", "upsertExistingObjects", "enablePatchForce", "enableServerSideApply",
    "suppressDeprecationWarnings", "suppressHelmHookWarnings", "version",
}  # fmt: skip
_ON = (True, "true", UNKNOWN)  # the SDK sends switches as JSON texts
_PATCH_FORCE = "pulumi.com/patchForce"
_FIELD_MANAGER = "pulumi.com/patchFieldManager"


class KubernetesProvider(Provider):
    """Objects of any kind. Makes no call before the first one is needed."""

    accept_secrets = True
    moved = staticmethod(moved)

    def __init__(self, config: Properties, around: Surroundings) -> None:
        self._config = config
        self._cluster = Cluster(config, around.environment)
        self._around = around

    @staticmethod
    def check_config(inputs: Properties, environment: Mapping[str, str]) -> None:  # noqa: ARG004
        if unknown := sorted(set(inputs) - _CONFIG):
            raise UnsupportedError(f"the provider setting '{unknown[0]}'", "kubernetes")
        if inputs.get("enableServerSideApply", True) not in _ON:
            raise UnsupportedError("the provider setting enableServerSideApply=false", "kubernetes")

    # --- comparing

    def check(self, urn: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Fill in name and namespace, encode stringData."""
        kind, version, name = type_of(urn), str(news.get("apiVersion")), str(news.get("kind"))
        # a ConfigMapPatch is a part of another owner's object, and has the kind ConfigMap
        if (version, name) not in KINDS or not kind.endswith(f":{name}"):
            raise UnsupportedError(f"resources of type '{kind}'", "kubernetes")
        news = objects.with_secret_data(news)
        news = objects.with_name(name_of(urn), olds, news, seed)
        if KINDS[version, name].namespaced:
            return objects.with_namespace(news, self._config.get("namespace") or "default")
        return news

    def diff(self, old: Known, news: Properties) -> Diff:
        """Compare inputs; some fields of some kinds can't be changed in place."""
        before, after = plain(old.inputs), plain(news)
        keys = objects.changed_paths(before, after)
        candidates = replacing_paths(str(after.get("kind")))
        replaces = objects.replaced_paths(before, after, candidates) if keys else []
        # two objects of one name can't exist at once
        moved = IDENTITY & set(replaces) or objects.is_autonamed(after)
        return Diff(keys, replaces, delete_before_replace=bool(replaces) and not moved)

    # --- creating and changing

    def create(self, urn: str, inputs: Properties, timeout: float | None) -> Resource:
        """POST; an existing object is an error unless the provider permits it."""
        body = plain(inputs)
        manager = _manager_of(body)
        collection, path = self._paths(body)
        try:
            found = self._cluster.create(collection, body, objects.CREATOR)
        except KubernetesError as error:
            if error.reason != "AlreadyExists":
                raise
            if not self._is_on("upsertExistingObjects") or "name" not in body["metadata"]:
                raise ProviderError(
                    f"{body['kind']} '{objects.identity(body)}' already exists in the cluster, but isn't "
                    "in the state of this stack. If you don't need the object, delete the object. To "
                    "let this stack take over the object, run the command once with "
                    "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true in the environment"
                ) from error
            found = self._apply(path, body, manager)
        shown = partial(objects.outputs, inputs=inputs, manager=manager, version=body["apiVersion"])
        return self._settle(urn, found, timeout, shown)

    def update(self, old: Known, news: Properties, timeout: float | None) -> Properties:
        """Server-side apply as the manager of this resource so far, or the one that it now names."""
        body = plain(news)
        before = old.outputs.get("__fieldManager")
        manager = _manager_of(body, before)
        _, path = self._paths(body)
        found = self._apply(path, body, manager)
        if before is not None and before != manager:
            found = self._cluster.apply(path, _reference(body), before, force=False)
        version = old.outputs.get("__initialApiVersion") or body["apiVersion"]
        shown = partial(objects.outputs, inputs=news, manager=manager, version=version)
        return self._settle(old.urn, found, timeout, shown).outputs

    def preview_update(self, old: Known, news: Properties) -> Properties:
        return {**old.outputs, "__inputs": news, **news}

    def _apply(self, path: str, body: Properties, manager: str) -> dict[str, Any]:
        live = self._cluster.get(path)
        owned = objects.taken_over(live["metadata"].get("managedFields") or [], manager, body["apiVersion"])
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
        force = said == "true" if said else self._config.get("enablePatchForce") in _ON
        try:
            return self._cluster.apply(path, body, manager, force=force)
        except KubernetesError as error:
            if error.status != 409 or error.reason != "Conflict":
                raise
            raise ProviderError(
                f"{error}. Other clients manage these fields. To overwrite the fields, add the annotation "
                f"'{_PATCH_FORCE}: \"true\"' to the object"
            ) from error

    def _settle(self, urn: str, found: dict[str, Any], timeout: float | None, shown: _Shown) -> Resource:
        """Wait until an object is ready; returns id and outputs."""
        if readiness.awaited(found):
            try:
                found = self._wait(urn, found, readiness.timeout_of(found, timeout))
            except ProviderError as error:
                raise PartialError(str(error), objects.identity(found), shown(found)) from error
        return Resource(objects.identity(found), shown(found))

    def _wait(self, urn: str, found: dict[str, Any], timeout: float) -> dict[str, Any]:
        _, path = self._paths(found)
        deadline = time.monotonic() + timeout
        while (reason := readiness.unready(found)) is not None:
            if time.monotonic() > deadline:
                raise ProviderError(
                    f"{found['kind']} '{objects.identity(found)}' was not ready within {timeout:g} s: "
                    f"{reason}"
                )
            if self._around.cancelled():
                raise ProviderError(f"cancelled; {reason}")
            self._around.status(urn, reason)
            time.sleep(_POLL_SECONDS)
            found = self._cluster.get(path)
        self._around.status(urn, "")
        return found

    # --- deleting and reading

    def delete(self, old: Known, timeout: float | None) -> None:
        """DELETE and wait until it is gone; with ``deleteUnreachable`` also if the cluster is unreachable."""
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
        deadline = time.monotonic() + limit
        uid = body["metadata"].get("uid")
        pause = 0.02  # most objects are gone at once
        while True:
            try:
                live = self._cluster.get(path)
            except ResourceNotFoundError:
                return
            if uid and live["metadata"].get("uid") != uid:
                return
            if time.monotonic() > deadline:
                raise ProviderError(_still_there(live, limit))
            time.sleep(pause)
            pause = min(pause * 2, _POLL_SECONDS)

    def read(self, old: Known) -> Resource:
        """GET; inputs take their current values. Raises ResourceNotFoundError.

        If the cluster doesn't answer: with ``skipUpdateUnreachable`` the state stays as it is, with
        ``deleteUnreachable`` the object is removed from it.
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
                return Resource(old.id, old.outputs, old.inputs)
            raise
        manager = old.outputs.get("__fieldManager") or objects.CREATOR
        version = old.outputs.get("__initialApiVersion") or plain(inputs)["apiVersion"]
        if _is_another(old, found):
            raise ResourceNotFoundError(f"'{old.id}' was deleted and recreated by another client")
        if not old.inputs:
            inputs = {key: found[key] for key in found if key != "status"}
        now = objects.drifted(inputs, found)
        if plain(now) == plain(inputs):
            now = inputs
        return Resource(objects.identity(found), objects.outputs(found, now, manager, version), now)

    def _forgets(self, old: Known, error: ClusterUnreachableError) -> bool:
        """Whether objects of a cluster that doesn't answer count as gone."""
        if forgets := self._is_on("deleteUnreachable"):
            self._around.status(old.urn, f"forgotten: {error}")
        return forgets

    def _is_on(self, key: str) -> bool:
        """Whether a setting is on, or its environment variable if it is not set."""
        variable = "PULUMI_K8S_" + "".join(f"_{sign}" if sign.isupper() else sign.upper() for sign in key)
        return self._config.get(key, self._around.environment.get(variable)) in _ON

    @staticmethod
    def _identified(old: Known) -> Properties:
        """The identity of an object during an import: its type, and ``namespace/name``."""
        _, version, kind = type_of(old.urn).split(":")
        group, _, number = version.rpartition("/")
        namespace, _, name = old.id.rpartition("/")
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        return {
            "apiVersion": number if group == "core" else version,
            "kind": kind,
            "metadata": metadata,
        }

    def _paths(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """Path of the collection and of the object."""
        served = KINDS.get((body["apiVersion"], body["kind"]))
        if served is None:
            raise UnsupportedError(f"{body['kind']} of {body['apiVersion']}", "kubernetes")
        metadata = body["metadata"]
        namespace = metadata.get("namespace") or self._config.get("namespace") or "default"
        return served.path(namespace), served.path(namespace, metadata.get("name"))


def _manager_of(body: Mapping[str, Any], before: str | None = None) -> str:
    """As in the plugin: the object's, else the previous one, else a random one."""
    named = readiness.annotation(body, _FIELD_MANAGER)
    return named or before or f"pulumi-kubernetes-{os.urandom(4).hex()}"


def _reference(body: Mapping[str, Any]) -> dict[str, Any]:
    """Applying only this gives up all fields."""
    called = {name: body["metadata"][name] for name in ("name", "namespace") if name in body["metadata"]}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": called}


def _is_another(old: Known, found: Mapping[str, Any]) -> bool:
    """Whether this is another object with the same name. The previous one may be on its way out."""
    known = (plain(old.outputs).get("metadata") or {}).get("uid")
    return known is not None and known != found["metadata"].get("uid")


def _still_there(live: Mapping[str, Any], limit: float) -> str:
    waiting = ", ".join(live["metadata"].get("finalizers") or ()) or "its parts"
    return (
        f"{live['kind']} '{objects.identity(live)}' was not deleted within {limit:g} s. The deletion "
        f"waits for: {waiting}"
    )
