"""Who we are to a registry: from the environment, or from where ``docker login`` keeps it.

https://docs.docker.com/reference/cli/docker/login/#credential-stores
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from image.errors import RegistryError, VariableError

USERNAME, PASSWORD = "CCMFS_REGISTRY_USERNAME", "CCMFS_REGISTRY_PASSWORD"
_TOKEN_USER = "<token>"  # noqa: S105 (Docker's mark)
_SECONDS = 60.0
_DOCKER_HUB = {"docker.io": "https://index.docker.io/v1/"}
"""Docker keeps those of its own registry under this name."""

Ask = Callable[[str, str], str | None]
"""Asks a credential helper, by its name, for a registry; None when it has none."""


@dataclass(frozen=True)
class Credentials:
    """Who we are.

    Attributes:
        username: Empty when ``password`` is an identity token, to be changed into a token for each use.
        password: Or token.
    """

    username: str
    password: str = field(repr=False)


def find(
    registry: str, environment: Mapping[str, str] = os.environ, ask: Ask | None = None
) -> Credentials | None:
    """The credentials for a registry, or None where nobody has logged in.

    Args:
        registry: As in an image's name, such as ``registry.example.com``.
        environment: CCMFS_REGISTRY_USERNAME and CCMFS_REGISTRY_PASSWORD, DOCKER_CONFIG and HOME are heeded.
        ask: How credential helpers are asked; the default starts them.

    Raises:
        RegistryError: Docker's file, or what a helper says, can't be read.
        VariableError: There is a username without its password.
    """
    if environment.get(PASSWORD):
        return Credentials(environment.get(USERNAME, ""), environment[PASSWORD])
    if environment.get(USERNAME):
        raise VariableError(USERNAME, environment[USERNAME], f"given together with {PASSWORD}")
    folder = environment.get("DOCKER_CONFIG") or Path(environment.get("HOME", "/")) / ".docker"
    content = _read(Path(folder) / "config.json", registry)
    key = _DOCKER_HUB.get(registry, registry)
    helper = (content.get("credHelpers") or {}).get(registry) or content.get("credsStore")
    if helper:
        answer = (ask or _ask_helper)(helper, key)
        return _of_helper(answer, helper, registry) if answer else None
    entry = (content.get("auths") or {}).get(key) or {}
    return _of_entry(entry, registry)


def _read(path: Path, registry: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise RegistryError(registry, f"can't be logged in to: {path} is no JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _of_entry(entry: Mapping[str, str], registry: str) -> Credentials | None:
    if entry.get("identitytoken"):
        return Credentials("", entry["identitytoken"])
    if not entry.get("auth"):
        return None
    try:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    except (ValueError, TypeError) as error:
        raise RegistryError(registry, "has an entry in Docker's file that can't be read") from error
    return Credentials(user, password)


def _of_helper(answer: str, helper: str, registry: str) -> Credentials:
    try:
        content = json.loads(answer)
        user, password = content["Username"], content["Secret"]
    except (ValueError, KeyError, TypeError):  # which may hold the answer, and that the secret
        what = f"can't be logged in to: docker-credential-{helper} gave no user and secret"
        raise RegistryError(registry, what) from None
    return Credentials("" if user == _TOKEN_USER else user, password)


def _ask_helper(helper: str, registry: str) -> str | None:
    """https://github.com/docker/docker-credential-helpers: it fails where it has none."""
    command = [f"docker-credential-{helper}", "get"]
    try:
        done = subprocess.run(
            command, input=registry, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RegistryError(registry, f"can't be logged in to: {command[0]} failed: {error}") from error
    return done.stdout if done.returncode == 0 else None
