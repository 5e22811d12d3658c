"""The kubeconfig: read from the control server, made to work from here, written to kubeconfig.yaml."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from .dynamic import Provider
from .files import ROOT, in_no_file, is_filed, remove_own, write_private
from .k3s import API_PORT, KUBECONFIG_PATH
from .remote import Host, connect
from .server import Server, host_of

KUBECONFIG_FILE = "kubeconfig.yaml"


class KubeconfigProvider(Provider):
    """Reads the kubeconfig once per cluster and keeps its file as it should be."""

    unheeded = ("private_key", "host_key")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Reads it by SSH and writes the file."""
        original = asyncio.run(fetch(host_of(props)))
        text = rewritten(original, props["context"], props["address"])
        if is_filed(props):
            write_private(file_path(), text)
        return CreateResult(props["server_id"], {**props, "kubeconfig": text})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Also a missing or changed file is written again."""
        result = super().diff(_id, _olds, _news)
        path = file_path()
        if not is_filed(_news):
            return result
        if not path.is_file() or path.read_text() != _olds.get("kubeconfig"):
            result.changes = True
        return result

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Reads it again: another cluster, another name or another address."""
        return UpdateResult(self.create(_news).outs)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes the file, if it still is the one that we wrote."""
        if is_filed(_props):
            remove_own(file_path(), _props["kubeconfig"])


class Kubeconfig(Resource, module="ccm-from-scratch", name="Kubeconfig"):
    """The cluster's kubeconfig, secret, and perhaps in the file ``kubeconfig.yaml``, mode 0600."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        context: str,
        control: Server,
        generation: pulumi.Input[str],
        *,
        in_file: bool = True,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Reads the kubeconfig from the control server.

        Args:
            name: Of the resource.
            context: Name of the context, the cluster and the user in it.
            control: The control server.
            generation: Changes when the cluster is another one.
            in_file: Whether it is also written into the file.
            opts: As for every resource.
        """
        props = {
            **control.access.inputs(),
            "context": context,
            "generation": generation,
            "kubeconfig": None,
            **in_no_file(in_file),
        }
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(KubeconfigProvider(), name, props, pulumi.ResourceOptions.merge(secret, opts))
        self.kubeconfig = pulumi.Output.secret(self.kubeconfig)


def file_path() -> Path:
    """Where the person finds it."""
    return ROOT / KUBECONFIG_FILE


async def fetch(host: Host) -> str:
    """The kubeconfig as k3s wrote it."""
    async with connect(host) as shell:
        return await shell.run(f"cat {KUBECONFIG_PATH}", what="reading the kubeconfig", timeout=30)


def rewritten(text: str, name: str, address: str) -> str:
    """The same credentials for use from elsewhere: public address, and names that tell clusters apart.

    Args:
        text: The file as k3s writes it; it has one cluster, one user and one context.
        name: New name of all three.
        address: Public IP address of the control server.
    """
    content = yaml.safe_load(text)
    for kind in ("clusters", "users", "contexts"):
        content[kind][0]["name"] = name
    content["clusters"][0]["cluster"]["server"] = f"https://{address}:{API_PORT}"
    content["contexts"][0]["context"].update({"cluster": name, "user": name})
    content["current-context"] = name
    return yaml.safe_dump(content, sort_keys=False)
