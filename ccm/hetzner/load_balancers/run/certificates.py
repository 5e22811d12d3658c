"""Has managed certificates issued, and deletes them.

Only those that carry a label of ours are ever deleted, none of the official CCM's, which labels its own with
the UID too; and none that anything else uses. Whether the API would refuse that is not documented, so it is
not relied on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from ccm.cloud import CloudError, Notice, ServiceView
from ccm.hetzner.api import Priority
from ccm.hetzner.api.errors import NotFound, Refused, Unavailable, unavailable
from ccm.hetzner.api.wire import Certificate
from ccm.hetzner.load_balancers.desired.certificates import STAGING
from ccm.hetzner.load_balancers.facts import Views
from ccm.hetzner.load_balancers.labels import CLUSTER, NAMESPACE, SERVICE, SERVICE_UID
from ccm.hetzner.load_balancers.run.requests import delete, patiently
from ccm.hetzner.load_balancers.wishes.ports import CertificateWishes


@dataclass
class Deleted:
    """What came of deleting certificates.

    Attributes:
        steps: What was done.
        errors: What went wrong.
        notices: What the owner should know.
    """

    steps: list[str] = field(default_factory=list[str])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    notices: list[Notice] = field(default_factory=list[Notice])


async def request_certificate(asked: CertificateWishes, service: ServiceView, views: Views) -> int:
    """Have a managed certificate issued.

    Returns:
        Its id.

    Raises:
        Unavailable: It may be requested all the same.
        ApiError: It was not.
    """
    view = views.certificates.view
    labels = {
        SERVICE_UID: service.uid,
        CLUSTER: views.cluster,
        NAMESPACE: service.namespace,
        SERVICE: service.name,
        STAGING: "true" if asked.staging else "",
    }
    name = asked.name
    if name in view.contents.by_name:  # an older certificate has it
        name = f"{name[:119]}-{hashlib.sha256(','.join(sorted(asked.domains)).encode()).hexdigest()[:8]}"
    body = {
        "name": name,
        "type": "managed",
        "domain_names": list(asked.domains),
        "labels": {key: value for key, value in labels.items() if value},
    }
    try:
        answer = await views.inventory.api.change(
            "POST", "/certificates", body, priority=Priority.LOAD_BALANCERS
        )
        certificate = msgspec.convert(answer.get("certificate"), Certificate)
    except msgspec.ValidationError as error:
        views.certificates.doubt()
        raise unavailable("POST /certificates", f"the answer makes no sense: {error}") from None
    except (Unavailable, Refused) as error:
        if isinstance(error, Unavailable) or error.code == "uniqueness_error":
            views.certificates.doubt()  # it may exist: look before asking again
        raise
    view.put(certificate)
    return certificate.id


async def retry_certificate(certificate: Certificate, views: Views) -> None:
    """Have a failed certificate issued again.

    Raises:
        CloudError: It is not.
    """
    views.certificates.retried(certificate.id)
    path, inventory = f"/certificates/{certificate.id}/actions/retry", views.inventory
    await patiently(lambda: inventory.api.act(path, priority=Priority.LOAD_BALANCERS), inventory.sleep)
    views.certificates.doubt()


async def delete_certificates(
    service: ServiceView, stays: Collection[int], left: Mapping[int, Collection[int]], views: Views
) -> Deleted:
    """Delete the managed certificates of ours of a Service that nothing uses.

    Args:
        service: The Service.
        stays: Ids of those that stay.
        left: The load balancers that were just changed, or that the Service has left, by id, and the
            certificates with which they go on serving: of these we know better than the API's list.
        views: Where they are looked up.

    Raises:
        CloudError: Not known what there is.
    """
    deleted = Deleted()
    for one in await views.certificates.list_of(service):
        if one.id in stays:
            continue
        name = f"managed certificate {one.name} ({one.id})"
        users = _users(one, left)
        try:
            if not users and await _delete(one, views):
                deleted.steps.append(f"delete {name}")
                continue
        except CloudError as error:
            deleted.errors.append(error)
            continue
        views.certificates.spared(one.id)
        who = " and ".join(users) or "something"
        text = f"{name} was requested for this Service and stays, because {who} uses it"
        deleted.notices.append(Notice("ManagedCertificateKept", text, warning=False))
    return deleted


def _users(certificate: Certificate, left: Mapping[int, Collection[int]]) -> list[str]:
    """What uses a certificate, besides load balancers of which we know better."""
    return [
        f"{one.type.replace('_', ' ')} {one.id}"
        for one in certificate.used_by
        if one.type != "load_balancer" or certificate.id in left.get(one.id, (certificate.id,))
    ]


async def _delete(certificate: Certificate, views: Views) -> bool:
    """Delete a certificate; False = it is in use after all."""
    try:
        await delete(views.inventory.api, f"/certificates/{certificate.id}", sleep=views.inventory.sleep)
    except NotFound:
        pass
    except Refused as error:
        if error.code != "resource_in_use":
            raise
        return False
    views.certificates.view.remove(certificate.id)
    return True
