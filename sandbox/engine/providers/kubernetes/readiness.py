"""When an object counts as ready. Pure: an object in, the reason why not out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ccm.go import parse_duration
from sandbox.engine.errors import ProviderError

SKIP_AWAIT = "pulumi.com/skipAwait"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
DEFAULT_TIMEOUT = 600.0  # seconds, as in the genuine provider

Object = Mapping[str, Any]


def annotation(found: Object, name: str) -> str | None:
    """An annotation's value."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(name)


def timeout_of(found: Object, custom: float | None) -> float:
    """How long to wait in seconds: the custom timeout, the annotation, or ten minutes.

    Raises:
        ProviderError: The annotation is no number.
    """
    if custom:
        return custom
    text = annotation(found, TIMEOUT_SECONDS)
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
    except ValueError as error:
        raise ProviderError(
            f"the annotation {TIMEOUT_SECONDS}: '{text}' is not a number of seconds"
        ) from error


def awaited(found: Object) -> bool:
    """Tell whether there is anything to wait for."""
    return found["kind"] in _CHECKS and annotation(found, SKIP_AWAIT) != "true"


def unready(found: Object) -> str | None:
    """Why an object is not ready yet; None if it is.

    Raises:
        ProviderError: It has failed and will not become ready.
    """
    check = _CHECKS.get(found["kind"])
    return check(found) if check else None


def _conditions(found: Object) -> dict[str, Mapping[str, Any]]:
    return {item["type"]: item for item in (found.get("status") or {}).get("conditions") or ()}


def _observed(found: Object) -> bool:
    return (found.get("status") or {}).get("observedGeneration", 0) >= found["metadata"].get("generation", 0)


def _deployment(found: Object) -> str | None:
    status, conditions = found.get("status") or {}, _conditions(found)
    if not _observed(found):
        return "waiting for the Deployment to be seen by its controller"
    progress = conditions.get("Progressing") or {}
    if progress.get("reason") == "ProgressDeadlineExceeded":
        raise ProviderError(f"the Deployment makes no progress: {progress.get('message', '')}")
    wanted = (found.get("spec") or {}).get("replicas", 1)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted or available < wanted or status.get("replicas", 0) > updated:
        return f"{min(updated, available)} of {wanted} Pods are ready"
    return None


def _daemon_set(found: Object) -> str | None:
    status = found.get("status") or {}
    if not _observed(found):
        return "waiting for the DaemonSet to be seen by its controller"
    wanted = status.get("desiredNumberScheduled", 0)
    updated, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return (
        None
        if updated >= wanted and available >= wanted
        else f"{min(updated, available)} of {wanted} Pods are ready"
    )


def _stateful_set(found: Object) -> str | None:
    status = found.get("status") or {}
    if not _observed(found):
        return "waiting for the StatefulSet to be seen by its controller"
    wanted = (found.get("spec") or {}).get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    settled = status.get("currentRevision") == status.get("updateRevision")
    return None if ready >= wanted and (settled or wanted == 0) else f"{ready} of {wanted} Pods are ready"


def _pod(found: Object) -> str | None:
    status = found.get("status") or {}
    if status.get("phase") == "Succeeded" or (_conditions(found).get("Ready") or {}).get("status") == "True":
        return None
    if status.get("phase") == "Failed":
        raise ProviderError(f"the Pod failed: {status.get('reason', '')} {status.get('message', '')}".strip())
    return f"the Pod is {status.get('phase', 'Pending')}"


def _job(found: Object) -> str | None:
    conditions = _conditions(found)
    failed = conditions.get("Failed") or {}
    if failed.get("status") == "True":
        raise ProviderError(f"the Job failed: {failed.get('reason', '')} {failed.get('message', '')}".strip())
    return None if (conditions.get("Complete") or {}).get("status") == "True" else "the Job is running"


def _service(found: Object) -> str | None:
    if (found.get("spec") or {}).get("type") != "LoadBalancer":
        return None
    ingress = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    return None if ingress else "waiting for the load balancer's address"


def _namespace(found: Object) -> str | None:
    phase = (found.get("status") or {}).get("phase", "Active")
    return None if phase == "Active" else f"the Namespace is {phase}"


def _definition(found: Object) -> str | None:
    established = (_conditions(found).get("Established") or {}).get("status") == "True"
    return None if established else "waiting for the definition to be served"


_CHECKS: dict[str, Callable[[Object], str | None]] = {
    "Deployment": _deployment,
    "DaemonSet": _daemon_set,
    "StatefulSet": _stateful_set,
    "Pod": _pod,
    "Job": _job,
    "Service": _service,
    "Namespace": _namespace,
    "CustomResourceDefinition": _definition,
}
