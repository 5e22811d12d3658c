"""Requests managed certificates, and deletes them.

Deletes only unused certificates with our labels, and none from the official CCM, which also sets a label with
the UID. The API's documentation doesn't say whether used certificates can be deleted, so we check.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from ccm.cloud import CloudError, Notice, ServiceView
from ccm.hetzner.api import Priority, convert
from ccm.hetzner.api.api_errors import Refused, Unavailable
from ccm.hetzner.api.models import Certificate
from ccm.hetzner.load_balancers.apply.apply_state import ApplyState
from ccm.hetzner.load_balancers.cache import SharedCache
from ccm.hetzner.load_balancers.ownership_labels import CLUSTER, NAMESPACE, SERVICE, SERVICE_UID, STAGING
from ccm.hetzner.load_balancers.plan import DeleteCertificates, RequestCertificate, RetryCertificate
from ccm.hetzner.load_balancers.spec import CertificateSpec

_NONE = frozenset[int]()


async def request_certificate(step: RequestCertificate, state: ApplyState) -> None:
    """Request a managed certificate. Raises Unavailable if the result is unknown, or another ApiError."""
    state.again, number = True, None
    try:
        number = await _request(step.asked, state.observed.service, state.cache)
        state.steps.append(str(step))
    finally:
        former = state.observed.certificates
        requested = {**former.requested, step.asked: number}
        state.observed = replace(state.observed, certificates=replace(former, requested=requested))


async def _request(asked: CertificateSpec, service: ServiceView, cache: SharedCache) -> int:
    cached = cache.certificates.cached
    labels = {
        SERVICE_UID: service.uid,
        CLUSTER: cache.cluster,
        NAMESPACE: service.namespace,
        SERVICE: service.name,
        STAGING: "true" if asked.staging else "",
    }
    name = asked.name
    if name in cached.contents.by_name:  # an older certificate has the name
        name = f"{name[:119]}-{hashlib.sha256(','.join(sorted(asked.domains)).encode()).hexdigest()[:8]}"
    body = {
        "name": name,
        "type": "managed",
        "domain_names": list(asked.domains),
        "labels": {key: value for key, value in labels.items() if value},
    }
    try:
        answer = await cache.inventory.api.request(
            "POST", "/certificates", body=body, priority=Priority.LOAD_BALANCERS
        )
        certificate = convert(answer.get("certificate"), Certificate, "POST /certificates")
    except (Unavailable, Refused) as error:
        if isinstance(error, Unavailable) or error.code == "uniqueness_error":
            cache.certificates.invalidate()  # the certificate may exist, so read the list before a retry
        raise
    cached.put(certificate)
    return certificate.id


async def retry_certificate(step: RetryCertificate, state: ApplyState) -> None:
    """Request a failed certificate again; raises CloudError if that fails."""
    number, inventory, certificates = step.certificate.id, state.cache.inventory, state.cache.certificates
    certificates.retried(number)
    path = f"/certificates/{number}/actions/retry"
    await state.retry_budget.send(lambda: inventory.api.act(path, priority=Priority.LOAD_BALANCERS))
    certificates.invalidate()
    state.steps.append(str(step))


async def delete_certificates(step: DeleteCertificates, state: ApplyState) -> None:
    """Delete the Service's unused managed certificates. Raises CloudError if they are unknown."""
    cache, balancer = state.cache, state.observed.balancer
    # For load balancers that we just changed or left, our cache is newer than the API's list.
    there = cache.inventory.balancers.contents.by_id
    left = {number: there[number].certificates if number in there else _NONE for number in state.released}
    stays = step.used
    if balancer is not None:
        stays = left[balancer.id] = stays | balancer.certificates
    for certificate in await cache.certificates.list_of(state.observed.service):
        if certificate.id in stays:
            continue
        if state.retry_budget.exhausted:
            break
        name = f"managed certificate {certificate.name} ({certificate.id})"
        users = _users(certificate, left)
        try:
            if not users and await _delete(certificate, state):
                state.steps.append(f"delete {name}")
                continue
        except CloudError as error:
            state.failed(error)
            continue
        cache.certificates.spared(certificate.id)
        who = " and ".join(users) or "something"
        text = f"{name} was requested for this Service. The certificate is not deleted, because {who} uses it"
        state.notices.append(Notice("ManagedCertificateKept", text, warning=False))


def _users(certificate: Certificate, left: Mapping[int, Collection[int]]) -> list[str]:
    """The users of a certificate. For load balancers in ``left``, the cache decides."""
    return [
        f"{user.type.replace('_', ' ')} {user.id}"
        for user in certificate.used_by
        if user.type != "load_balancer" or certificate.id in left.get(user.id, (certificate.id,))
    ]


async def _delete(certificate: Certificate, state: ApplyState) -> bool:
    """Delete a certificate; False = the API reports that it is in use."""
    try:
        await state.delete(f"/certificates/{certificate.id}")
    except Refused as error:
        if error.code != "resource_in_use":
            raise
        return False
    state.cache.certificates.cached.remove(certificate.id)
    return True
