"""The kubeconfig: read from the control server, and made to work from here."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import yaml
from cryptography import x509
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from .api import NoRedirects, Patience
from .dynamic import Provider
from .errors import EndpointError, InfraError, KubeconfigError
from .inventory import Servers
from .k3s import API_PORT, KUBECONFIG_PATH
from .remote import CONNECT_SECONDS, Host, connect_first
from .server import hosts_of

RENEWAL = timedelta(days=90)
"""k3s makes another certificate when it starts and the old one, which was valid for a year, has no more than
this left; releases from May 2025 on do so thirty days earlier: https://docs.k3s.io/cli/certificate"""
_LOOK_CONNECT_SECONDS = 4.0
_RESTART = "k3s makes another one when it starts: systemctl restart k3s, on the control servers one by one"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class KubeconfigProvider(Provider):
    """Reads the kubeconfig; again for another cluster, another name or address, and before it expires."""

    unheeded = ("private_key", "host_key", "others")
    now: Callable[[], datetime] = staticmethod(_utc_now)
    """The clock. It is the class's, because a state may hold a provider of an earlier version."""

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares; and it is a change that the certificate ends soon, refresh or not."""
        result = super().diff(_id, _olds, _news)
        result.changes = result.changes or ends_by(self.now() + RENEWAL, _olds.get("kubeconfig"))
        return result

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Nothing is read, unless the certificate has expired.

        Then what is in the cluster, which is there, would be taken for gone.

        Raises:
            KubeconfigError: It has, and the cluster is there.
        """
        if ends_by(self.now(), props.get("kubeconfig")):
            try:
                found = asyncio.run(fetch(hosts_of(props), _LOOK_CONNECT_SECONDS))
            except InfraError as error:
                print(f"the certificate in the kubeconfig has expired, and there is none to be had: {error}")
            else:
                raise KubeconfigError("" if not ends_by(self.now(), found) else _RESTART)
        return ReadResult(id_, dict(props))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Reads it by SSH.

        Raises:
            KubeconfigError: The one on the control server has expired, too.
        """
        original = asyncio.run(fetch(hosts_of(props)))
        if ends_by(self.now(), original):
            raise KubeconfigError(_RESTART)
        if ends_by(self.now() + RENEWAL, original):
            print(f"the certificate in the kubeconfig ends on {expiry(original):%Y-%m-%d}. {_RESTART}")
        endpoint = props.get("endpoint")
        if endpoint:
            wait_for_endpoint(f"https://{endpoint}:{API_PORT}/readyz", Patience())
        text = rewritten(original, props["context"], endpoint or props["address"])
        return CreateResult(props["server_id"], {**props, "kubeconfig": text})


class Kubeconfig(Resource, module="ccm-from-scratch", name="Kubeconfig"):
    """The cluster's kubeconfig, secret."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        context: str,
        servers: Servers,
        generation: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Reads the kubeconfig from a control server.

        Args:
            name: Of the resource.
            context: Name of the context, the cluster and the user in it.
            servers: Have the cluster; the address in it is the public one of the load balancer before the
                control servers, or of the first of them.
            generation: Changes when the cluster is another one.
            opts: As for every resource.
        """
        props = {
            **servers.control_inputs(),
            "context": context,
            "endpoint": servers.endpoint.public_ip if servers.endpoint else None,
            "generation": generation,
            "kubeconfig": None,
        }
        mine = pulumi.ResourceOptions(
            additional_secret_outputs=["kubeconfig"],
            depends_on=[servers.endpoint] if servers.endpoint else None,
        )
        super().__init__(KubeconfigProvider(), name, props, pulumi.ResourceOptions.merge(mine, opts))
        self.kubeconfig = pulumi.Output.secret(self.kubeconfig)


def wait_for_endpoint(url: str, patience: Patience) -> None:
    """Waits until a load balancer leads to an API server, for which it has to have found one healthy.

    Args:
        url: Of anything there; a refusal is an answer, too.
        patience: With it.

    Raises:
        EndpointError: Nobody answers.
    """
    deadline = patience.now() + patience.seconds
    while reason := _unanswered(url):
        if patience.now() >= deadline:
            raise EndpointError(url, patience.seconds, reason)
        patience.sleep(patience.pause)


def _unanswered(url: str) -> str:
    """Why nobody answers; empty when somebody does, whoever it is: he is told nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        # a redirect is an answer, too, and not followed
        opener = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=context))
        with opener.open(url, timeout=5.0):
            return ""
    except urllib.error.HTTPError:
        return ""
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


async def fetch(hosts: Sequence[Host], timeout: float = CONNECT_SECONDS) -> str:
    """The kubeconfig as k3s wrote it.

    Args:
        hosts: The control servers.
        timeout: Seconds until one of them lets us in.
    """
    async with connect_first(hosts, timeout=timeout) as shell:
        return await shell.run(f"cat {KUBECONFIG_PATH}", what="reading the kubeconfig", timeout=30)


def expiry(kubeconfig: str | None) -> datetime | None:
    """When the certificate of its first user ends; None where it has none that can be read. Pure."""
    try:
        encoded = yaml.safe_load(kubeconfig or "")["users"][0]["user"]["client-certificate-data"]
        # the user's own comes first, the authority's follows
        return x509.load_pem_x509_certificate(base64.b64decode(encoded)).not_valid_after_utc
    except (ValueError, LookupError, TypeError, yaml.YAMLError):
        return None


def ends_by(moment: datetime, kubeconfig: str | None) -> bool:
    """Whether the certificate in a kubeconfig is over at a moment. Pure."""
    end = expiry(kubeconfig)
    return end is not None and end <= moment


def rewritten(text: str, name: str, address: str) -> str:
    """The same credentials for use from elsewhere: public address, and names that tell clusters apart.

    Args:
        text: The file as k3s writes it; it has one cluster, one user and one context.
        name: New name of all three.
        address: Public IP address of a control server, or of a load balancer before it.
    """
    content = yaml.safe_load(text)
    for kind in ("clusters", "users", "contexts"):
        content[kind][0]["name"] = name
    content["clusters"][0]["cluster"]["server"] = f"https://{address}:{API_PORT}"
    content["contexts"][0]["context"].update({"cluster": name, "user": name})
    content["current-context"] = name
    return yaml.safe_dump(content, sort_keys=False)
