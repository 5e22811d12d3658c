"""Puts images into a registry with crane (https://github.com/google/go-containerregistry)."""

import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from image import tools
from image.errors import RegistryError, ToolError, VariableError
from image.oci import Blob, write_layout

USERNAME, PASSWORD = "CCMFS_REGISTRY_USERNAME", "CCMFS_REGISTRY_PASSWORD"
_SECONDS = 1800.0
_TARGET = re.compile(
    r"(?P<registry>[\w.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/"
    r"(?P<name>[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r":(?P<tag>\w[\w.-]{0,127})",
    re.ASCII,
)
_DOCKER_HUB = {"docker.io": "https://index.docker.io/v1/"}
"""The key under which Docker's configuration file stores the credentials for Docker Hub."""

_NO_PROXY = "http://127.0.0.1:1"
"""Crane's HTTP proxy: an address where no proxy listens. So crane's requests without TLS to other machines
fail. Otherwise, crane would fall back to HTTP for private addresses."""


@dataclass(frozen=True)
class Target:
    """Where an image goes."""

    registry: str  # host, and a port other than the default
    name: str  # of the repository
    tag: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}:{self.tag}"


def parse_target(text: str) -> Target:
    """Reads ``REGISTRY/NAME:TAG``."""
    found = _TARGET.fullmatch(text)
    if not found or not re.search(r"[.:]|^localhost$", found["registry"]):
        raise RegistryError(
            repr(text), "isn't REGISTRY/NAME:TAG, such as registry.example.com/me/ccm-from-scratch:1.0"
        )
    return Target(found["registry"], found["name"], found["tag"])


def push(
    crane: Path,
    target: Target,
    top: Blob,
    below: Iterable[Blob],
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Upload what the repository lacks, and name it. After a failure, the next push continues.

    Crane uses the credentials of ``docker login`` in the environment; USERNAME and PASSWORD win.
    """
    variables = {name: value for name, value in environment.items() if name not in (USERNAME, PASSWORD)}
    variables |= {"HTTP_PROXY": _NO_PROXY, "http_proxy": _NO_PROXY}
    with tempfile.TemporaryDirectory(prefix="ccm-push-") as folder:
        if login := _login(target.registry, environment):
            (Path(folder) / "config.json").write_text(json.dumps(login))
            variables["DOCKER_CONFIG"] = folder
        layout = Path(folder) / "layout"
        with tempfile.TemporaryFile() as file:
            write_layout({str(target): top}, below, file)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extraction_filter = getattr(
                    tarfile, "data_filter", None
                )  # the Python of Debian 12 has none
                tar.extractall(layout)  # noqa: S202 - made by us
        try:
            tools.run(
                "crane", [str(crane), "push", str(layout), str(target)], _SECONDS, environment=variables
            )
        except ToolError as error:
            denied = re.search("UNAUTHORIZED|DENIED|401", str(error))
            hint = f". Run 'docker login', or set {USERNAME} and {PASSWORD}" if denied else ""
            raise RegistryError(
                target.registry, f"rejected the image {target.name}: {error}{hint}"
            ) from error


def _login(registry: str, environment: Mapping[str, str]) -> dict[str, object] | None:
    """Docker's configuration with the credentials of the environment, if there are any.

    https://github.com/docker/cli/blob/master/cli/config/types/authconfig.go
    """
    if environment.get(PASSWORD):
        login = {"username": environment.get(USERNAME, ""), "password": environment[PASSWORD]}
        return {"auths": {_DOCKER_HUB.get(registry, registry): login}}
    if environment.get(USERNAME):
        raise VariableError(USERNAME, environment[USERNAME], f"given together with {PASSWORD}")
    return None
