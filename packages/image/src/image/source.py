"""What an image is built from, read from the tree; and keys that change when any of it does."""

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from image import lockfile, recipe
from image.errors import LockFileError, VariableError, VersionError
from image.lockfile import Lock
from image.platforms import PLATFORMS, Platform
from image.tree import Entry, File, Tree

_PACKAGE = Path(__file__).resolve().parent
ROOT = _PACKAGE.parents[3]
"""The clone."""

_SUFFIXES = {".py", ".json", ".yaml"}


@dataclass(frozen=True)
class Project:
    """What ``pyproject.toml`` says of us, with the version that ``ccm/version.py`` has."""

    name: str
    version: str
    description: str
    license: str


@dataclass(frozen=True)
class Source:
    """What an image is built from.

    Attributes:
        lock: The Debian packages.
        requirements: The Python packages, pinned with hashes.
        application: Our own files, by path below their folder.
        project: Name and version of ours.
        builder: Changes when this package, or the library that compresses, does.
        created: Time of the image, in seconds since 1970. That of its files is always the same, so that an
            image of another day shares the layers that did not change.
    """

    lock: Lock
    requirements: bytes
    application: Tree
    project: Project
    builder: str
    created: int

    @property
    def python(self) -> str:
        """Debian's version of Python, the same for all platforms: one compiles for all."""
        versions = {
            self.lock.version_of(f"python{recipe.PYTHON}-minimal", platform) for platform in PLATFORMS
        }
        if len(versions) > 1:
            raise LockFileError(
                f"the lock file pins several versions of Python: {', '.join(sorted(versions))}. Run "
                "'./dev lock debian'"
            )
        return versions.pop()

    def base_key(self, platform: Platform) -> str:
        """Of a platform's lowest layer."""
        return digest([self.builder, *map(repr, self.lock.of(platform))])

    def dependencies_key(self, platform: Platform) -> str:
        """Of a platform's Python packages, and the document that names both them and Debian's."""
        return digest([self.base_key(platform), self.python, repr(self.project), self.requirements])

    def application_key(self) -> str:
        """Of our own files."""
        parts = [part for path, entry in sorted(self.application.items()) for part in (path, repr(entry))]
        return digest([self.builder, self.python, *parts])

    def reference(self) -> str:
        """Full name of the image. Its tag changes when anything in it does, so that a Deployment rolls."""
        keys = [self.dependencies_key(platform) for platform in PLATFORMS]
        whole = digest([*keys, self.application_key(), repr(recipe.settings()), repr(self.labels())])
        return f"{recipe.REPOSITORY}:{whole}"

    def labels(self) -> dict[str, str]:
        """https://github.com/opencontainers/image-spec/blob/main/annotations.md."""
        return {
            "org.opencontainers.image.title": self.project.name,
            "org.opencontainers.image.description": self.project.description,
            "org.opencontainers.image.version": self.project.version,
            "org.opencontainers.image.licenses": self.project.license,
        }


def read_source(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> Source:
    """Read a clone; SOURCE_DATE_EPOCH sets the image's time."""
    package = root / _PACKAGE.relative_to(ROOT)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version = project_version(root)
    return Source(
        lock=lockfile.read(package / lockfile.PATH.name),
        requirements=(root / "ccm/requirements.lock").read_bytes(),
        application=package_files(root / "ccm") | distribution_files(project, version),
        project=Project(project["name"], version, project["description"], project["license"]),
        builder=digest(_builder(package)),
        created=_epoch(environment.get("SOURCE_DATE_EPOCH", "")),
    )


def package_files(package: Path) -> dict[str, Entry]:
    """The files of a Python package that belong in an image, by path relative to the package's parent."""
    return {
        path.relative_to(package.parent).as_posix(): File(path.read_bytes())
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix in _SUFFIXES
    }


def project_version(root: Path) -> str:
    """The version of a tree, from the one file that has it."""
    path = root / "ccm" / "version.py"
    found = re.search(r'^VERSION = "([^"]+)"$', path.read_text(), re.MULTILINE)
    if found is None:
        raise VersionError(f'the file {path} doesn\'t contain a line VERSION = "…"')
    return found[1]


def distribution_files(project: Mapping[str, Any], version: str) -> dict[str, Entry]:
    """The installed package's metadata, of ``pyproject.toml``'s ``project``: entry points name the clouds."""
    folder = f"{project['name'].replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())])
        for group, entries in project.get("entry-points", {}).items()
    ]
    return {
        f"{folder}/METADATA": File(metadata.encode()),
        f"{folder}/entry_points.txt": File(("\n\n".join(groups) + "\n").encode()),
    }


def digest(parts: Iterable[str | bytes]) -> str:
    """16 hexadecimal digits over the parts and the borders between them."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "big") + content)
    return total.hexdigest()[:16]


def _epoch(text: str) -> int:
    """https://reproducible-builds.org/specs/source-date-epoch/."""
    if not text:
        return recipe.EPOCH
    if not re.fullmatch(r"[0-9]{1,11}", text):
        raise VariableError("SOURCE_DATE_EPOCH", text, "a Unix time in whole seconds")
    return int(text)


def _builder(folder: Path) -> Iterable[str | bytes]:
    yield zstandard.__version__
    for path in sorted(folder.glob("*.py")):
        yield path.name
        yield path.read_bytes()
