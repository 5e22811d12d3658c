"""What is in the image; and a key that changes when any of it does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

VERSION = 2
"""Raise it when the way of building changes, so that nobody goes on with layers of the old way."""

SUITE = "bookworm"
PYTHON = "3.11"
PACKAGES = ("base-files", "ca-certificates", f"libpython{PYTHON}-stdlib", f"python{PYTHON}-minimal")
REPOSITORY = "localhost/ccm-from-scratch"
USER = 65532
SITE = "opt/ccm/site"
APPLICATION = "opt/ccm/app"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
DEFAULT_EPOCH = 1767225600
"""Time of every file, in seconds since 1970, when SOURCE_DATE_EPOCH says nothing: the first day of 2026."""

STDLIB_LEFT_OUT = (
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "sqlite3",
    "test",
    "tkinter",
    "turtledemo",
    "unittest",
)
"""What a server never imports."""


@dataclass(frozen=True)
class Keys:
    """Names of the three layers and of the whole; equal keys mean equal content."""

    base: str
    dependencies: str
    application: str
    image: str


def image_config() -> dict[str, object]:
    """How the container starts."""
    return {
        "User": f"{USER}:{USER}",
        "WorkingDir": "/",
        "Entrypoint": [f"/usr/bin/python{PYTHON}", "-m", "ccm"],
        "Env": [
            "PATH=/usr/bin:/bin",
            f"PYTHONPATH=/{APPLICATION}:/{SITE}",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
            f"SSL_CERT_FILE=/{CERTIFICATES}",
        ],
    }


def keys(lock: bytes, sources: Mapping[str, bytes], epoch: int) -> Keys:
    """Keys for a lock file and a source tree.

    Args:
        lock: The requirements with hashes.
        sources: Path and content of every file of the application.
        epoch: Time of every file, in seconds.
    """
    base = digest([str(VERSION), SUITE, *PACKAGES, *STDLIB_LEFT_OUT, str(epoch)])
    dependencies = digest([base, lock])
    application = digest([base, *(part for path in sorted(sources) for part in (path, sources[path]))])
    whole = digest([dependencies, application, repr(image_config())])
    return Keys(base, dependencies, application, whole)


def digest(parts: Iterable[str | bytes]) -> str:
    """16 hexadecimal digits over the parts and the borders between them."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "big") + content)
    return total.hexdigest()[:16]


def source_files(package: Path) -> dict[str, bytes]:
    """The files of a Python package that belong into an image, by path relative to the package's parent."""
    return {
        str(path.relative_to(package.parent)): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix in {".py", ".json", ".yaml"}
    }


def is_dead_weight(path: str) -> bool:
    """Whether a file of the dependencies, by path relative to their folder, is never used.

    The ``kubernetes`` package has 70 MB of generated models and API classes, loaded one by one when asked
    for. Only ccm/kube/transport.py imports the package, and it asks for none. Their packages' ``__init__``
    stay.
    """
    parts = path.split("/")
    if parts[0] == "bin" or "tests" in parts[:-1] or "test" in parts[:-1] or "__pycache__" in parts:
        return True
    generated = parts[0] == "kubernetes" and ("models" in parts[:-1] or "api" in parts[:-1])
    return (generated and parts[-1] != "__init__.py") or parts[-1].endswith(
        (".pyi", ".pyx", ".pxd", ".c", ".h")
    )
