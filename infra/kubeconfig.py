"""The kubeconfig: read from the control server, and made to work from here."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import pulumi
import yaml
from pulumi.dynamic import CreateResult, Resource

from .api import Patience
from .dynamic import Provider
from .errors import EndpointError
from .inventory import Servers
from .k3s import API_PORT, KUBECONFIG_PATH
from .remote import Host, connect_first
from .server import hosts_of


class KubeconfigProvider(Provider):
    """Reads the kubeconfig once per cluster; again for another cluster, another name or another address."""

    unheeded = ("private_key", "host_key", "others")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Reads it by SSH."""
        original = asyncio.run(fetch(hosts_of(props)))
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
        with urllib.request.urlopen(url, timeout=5.0, context=context):  # noqa: S310 (https alone)
            return ""
    except urllib.error.HTTPError:
        return ""
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


async def fetch(hosts: Sequence[Host]) -> str:
    """The kubeconfig as k3s wrote it."""
    async with connect_first(hosts) as shell:
        return await shell.run(f"cat {KUBECONFIG_PATH}", what="reading the kubeconfig", timeout=30)


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
