"""When an object counts as ready. Pure: an object in, the reason why not out."""

from collections.abc import Callable, Mapping
from typing import Any

from ccm.go import parse_duration
from pulumi_plugins.errors import ProviderError

SKIP_AWAIT = "pulumi.com/skipAwait"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
DEFAULT_TIMEOUT = 600.0  # seconds, as in the genuine provider

Object = Mapping[str, Any]


def annotation(found: Object, name: str) -> str | None:
    """An annotation's value."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(name)


def timeout_of(found: Object, custom: float | None) -> float:
    """The seconds to wait: the custom timeout, else the annotation (number or duration), else ten minutes."""
    text = annotation(found, TIMEOUT_SECONDS)
    if custom or text is None:
        return custom or DEFAULT_TIMEOUT
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
    except ValueError as error:
        raise ProviderError(
            f"the annotation {TIMEOUT_SECONDS}: '{text}' isn't a number of seconds or a duration such as 5m"
        ) from error


def awaited(found: Object) -> bool:
    """Whether an object must be waited for."""
    return found["kind"] in _CHECKS and annotation(found, SKIP_AWAIT) != "true"


def unready(found: Object) -> str | None:
    """Why an object isn't ready yet; None if it is. Raises ProviderError if it has failed."""
    check = _CHECKS.get(found["kind"])
    return check(found, found.get("status") or {}) if check else None


def _condition(status: Object, name: str) -> Mapping[str, Any]:
    return next((item for item in status.get("conditions") or () if item["type"] == name), {})


def _workload(found: Object, status: Object) -> str | None:
    """Like 'kubectl rollout status' for a Deployment, a DaemonSet or a StatefulSet."""
    kind = found["kind"]
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return f"waiting for the {kind}'s controller"
    progress = _condition(status, "Progressing")
    if progress.get("reason") == "ProgressDeadlineExceeded":
        raise ProviderError(f"the {kind} exceeded its progress deadline: {progress.get('message', '')}")
    if kind == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    else:
        wanted = (found.get("spec") or {}).get("replicas", 1)
        updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    ready = min(updated, available)
    if ready < wanted or status.get("replicas", 0) > updated:
        return f"{ready} of {wanted} Pods are ready"
    return None


def _conditional(found: Object, status: Object) -> str | None:
    """A Pod, a Job or a definition: conditions for ready and failed."""
    kind, wanted = found["kind"], _CONDITIONS[found["kind"]]
    failed = status if status.get("phase") == "Failed" else _condition(status, "Failed")
    if status.get("phase") == "Failed" or failed.get("status") == "True":
        raise ProviderError(
            f"the {kind} failed: {failed.get('reason', '')} {failed.get('message', '')}".strip()
        )
    if status.get("phase") == "Succeeded" or _condition(status, wanted).get("status") == "True":
        return None
    return f"the {kind} is not {wanted}"


def _service(found: Object, status: Object) -> str | None:
    if (found.get("spec") or {}).get("type") != "LoadBalancer":
        return None
    ingress = (status.get("loadBalancer") or {}).get("ingress")
    return None if ingress else "waiting for the load balancer's address"


def _namespace(_found: Object, status: Object) -> str | None:
    phase = status.get("phase", "Active")
    return None if phase == "Active" else f"the Namespace is {phase}"


_CONDITIONS = {"Pod": "Ready", "Job": "Complete", "CustomResourceDefinition": "Established"}
_CHECKS: dict[str, Callable[[Object, Object], str | None]] = {
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet"), _workload),
    **dict.fromkeys(_CONDITIONS, _conditional),
    "Service": _service,
    "Namespace": _namespace,
}
