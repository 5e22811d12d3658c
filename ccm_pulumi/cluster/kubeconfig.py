"""The kubeconfig: read from the control server, with the address of the API from this machine."""

import asyncio
import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pulumi
import yaml
from cryptography import x509
from pulumi.dynamic import CreateResult, DiffResult, ReadResult

from ..config.k3s import API_PORT, KUBECONFIG_PATH
from ..lib.cloud_api import NoRedirects, Patience
from ..lib.dynamic import Provider, ProviderResource
from ..lib.errors import InfraError, listed
from ..lib.ssh import CONNECT_SECONDS, Host, run_once
from ..servers.server import hosts_of

RENEWAL = timedelta(days=90)
"""When k3s starts, it renews each certificate that expires within this time (in releases since May 2025:
120 days). A new certificate is valid for one year: https://docs.k3s.io/cli/certificate"""
_LOOK_CONNECT_SECONDS = 4.0
_UNANSWERED = "unanswered"
"""The Pulumi output with the reason why the API server didn't respond during a refresh."""
_RESTART = "To renew the certificate, restart k3s on one control server at a time: systemctl restart k3s"


class KubeconfigProvider(Provider):
    """Reads the kubeconfig. Reads it again for another cluster, name or address, and before it expires.

    If the API server in it doesn't answer during a refresh, the update waits until one answers, and writes
    the address of that one.
    """

    ignored_inputs = ("private_key", "host_key", "others")
    now: Callable[[], datetime] = staticmethod(lambda: datetime.now(UTC))
    """The clock. It must be a class attribute: a provider object that an older version stored in the Pulumi
    state may lack a newer instance attribute."""
    patience: Callable[[], Patience] = staticmethod(Patience)
    """How long to wait until an API server answers."""

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares. A certificate that expires soon is a change, too, even without a refresh."""
        result = super().diff(_id, _olds, _news)
        ends = ends_by(self.now() + RENEWAL, _olds.get("kubeconfig"))
        result.changes = result.changes or ends or bool(_olds.get(_UNANSWERED))
        return result

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Asks whether the API server answers. With an expired certificate, fails if a control server returns
        a kubeconfig: the cluster exists, but Pulumi sees nothing of it.
        """
        if ends_by(self.now(), props.get("kubeconfig")):
            try:
                found = asyncio.run(fetch(hosts_of(props), _LOOK_CONNECT_SECONDS))
            except InfraError as error:
                print(
                    "the certificate in the kubeconfig has expired, and the program could not read a new "
                    f"kubeconfig: {error}"
                )
            else:
                raise _expired("" if not ends_by(self.now(), found) else _RESTART)
        outs = {name: value for name, value in props.items() if name != _UNANSWERED}
        url = api_of(props.get("kubeconfig"))
        if url and (reason := _unanswered(f"{url}/readyz")):
            print(f"the Kubernetes API doesn't respond at {url}: {reason}")
            outs[_UNANSWERED] = reason
        return ReadResult(id_, outs)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Reads it by SSH. Fails if the one on the control server has also expired, or no API responds."""
        original = asyncio.run(fetch(hosts_of(props)))
        if ends_by(self.now(), original):
            raise _expired(_RESTART)
        if ends_by(self.now() + RENEWAL, original):
            print(f"the certificate in the kubeconfig expires on {expiry(original):%Y-%m-%d}. {_RESTART}")
        url = wait_for_endpoint(endpoints(original, props), self.patience())
        # The text differs each time, so that Pulumi configures its plugin again: the official plugin asks a
        # cluster once, and then treats it as unreachable for the whole run.
        text = f"# read at {self.now().isoformat()}\n{rewritten(original, props['context'], url)}"
        return CreateResult(props["server_id"], {**props, "kubeconfig": text})


class Kubeconfig(ProviderResource, provider=KubeconfigProvider):
    """The cluster's kubeconfig, secret.

    ``context`` names the context, the cluster and the user in it. The address in it is the ``endpoint``, if
    there is one, or that of the first control server.
    """

    secret_outputs = ("kubeconfig",)
    kubeconfig: pulumi.Output[str]


def _expired(first: str) -> InfraError:
    """The error for an expired certificate; ``first``, if not empty, is to be done on the servers first."""
    steps = f"{first}. Then run" if first else "Run"
    return InfraError(
        "the certificate in the kubeconfig has expired, so Pulumi can't read the objects in the cluster. "
        f"{steps} pulumi up --refresh=false to read the new kubeconfig. "
        "To delete the cluster instead, run pulumi destroy --refresh=false"
    )


def api_of(kubeconfig: str | None) -> str:
    """The URL of the API server in a kubeconfig; empty if it can't be read."""
    try:
        return str(yaml.safe_load(kubeconfig or "")["clusters"][0]["cluster"]["server"])
    except (ValueError, LookupError, TypeError, yaml.YAMLError):
        return ""


def endpoints(original: str, props: Mapping[str, Any]) -> list[str]:
    """URLs of the API from this machine, the preferred one first."""
    if endpoint := props.get("endpoint"):
        return [f"https://{endpoint}:{API_PORT}"]
    port = urlsplit(api_of(original)).port or API_PORT
    return [f"https://{host.address}:{port}" for host in hosts_of(props)]


def wait_for_endpoint(urls: Sequence[str], patience: Patience) -> str:
    """The first URL of an API server that answers, even with a refusal. It waits, because a load balancer
    needs a moment to find a healthy server.
    """
    deadline = patience.now() + patience.seconds
    while True:
        reasons = []
        for url in urls:
            reason = _unanswered(f"{url}/readyz")
            if not reason:
                return url
            reasons.append(f"{url}: {reason}")
        if patience.now() >= deadline:
            raise InfraError(
                f"the Kubernetes API didn't respond within {patience.seconds:.0f} "
                f"s:\n{listed(reasons)}\nThe cluster was not changed. Check that k3s runs on the control "
                "servers (systemctl status k3s), that the firewall allows your address "
                "(ccm-from-scratch:sshAllowedCidrs), and that the load balancer of the API, if there is "
                "one, has a healthy target (hcloud load-balancer describe). Then repeat the command"
            )
        patience.sleep(patience.pause)


def _unanswered(url: str) -> str:
    """Why the endpoint does not answer; empty if it does. It sends no credentials, so it does not verify the
    server.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        # a redirect is an answer, too, and not followed
        opener = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=context))
        with opener.open(url, timeout=5.0):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return ""
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


async def fetch(hosts: Sequence[Host], timeout: float = CONNECT_SECONDS) -> str:
    """The kubeconfig as k3s wrote it."""
    what = "reading the kubeconfig"
    return await run_once(hosts, f"cat {KUBECONFIG_PATH}", what=what, timeout=30, within=timeout)


def expiry(kubeconfig: str | None) -> datetime | None:
    """When the certificate of the first user expires; None if it can't be read."""
    try:
        encoded = yaml.safe_load(kubeconfig or "")["users"][0]["user"]["client-certificate-data"]
        # the user's own comes first, the authority's follows
        return x509.load_pem_x509_certificate(base64.b64decode(encoded)).not_valid_after_utc
    except (ValueError, LookupError, TypeError, yaml.YAMLError):
        return None


def ends_by(moment: datetime, kubeconfig: str | None) -> bool:
    """Whether the certificate in a kubeconfig has expired at a time."""
    end = expiry(kubeconfig)
    return end is not None and end <= moment


def rewritten(text: str, name: str, url: str) -> str:
    """The kubeconfig with the public address, and with ``name`` for its cluster, user and context."""
    content = yaml.safe_load(text)
    for kind in ("clusters", "users", "contexts"):
        content[kind][0]["name"] = name
    content["clusters"][0]["cluster"]["server"] = url
    content["contexts"][0]["context"].update({"cluster": name, "user": name})
    content["current-context"] = name
    return yaml.safe_dump(content, sort_keys=False)
