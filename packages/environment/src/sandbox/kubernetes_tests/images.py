"""Makes the images of ``recipe`` into archives for the machines, once for all clones of a user."""

from __future__ import annotations

import hashlib
import platform as host
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hetzner_emulator.resources.certificates import pem
from image import debian, lockfile
from image.build import forget_oldest
from image.layer import Layer, make_layer
from image.mirror import open_mirror
from image.oci import Blob, Image, describe, index_of, read_layout, write_layout
from image.platforms import Platform, of_machine
from image.recipe import EPOCH
from image.registry import parse_target, push
from image.tree import Entry, File
from sandbox.errors import MissingRequirement
from sandbox.kubernetes.debian import applets
from sandbox.kubernetes.processes import Progress
from sandbox.kubernetes.toolchain import explained, locked
from sandbox.kubernetes_tests import recipe
from sandbox.kubernetes_tests.recipe import TestImage

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = 4  # archives in the cache

_Make = Callable[[], Mapping[str, Entry]]


def ensure(cache: Path, programs: Sequence[Path], *, large: bool, progress: Progress) -> Path:
    """An archive of the large images, or of all others, made where it is missing."""
    platform = of_machine(host.machine())
    if platform is None:
        raise MissingRequirement(
            f"no Debian packages are pinned for the processor architecture {host.machine()}"
        )
    home = cache / "kubernetes-tests"
    archive = home / f"{'large' if large else 'common'}-{_key(programs, platform)}.tar"
    with explained(home), locked(home / "lock", "the images", progress):
        if not archive.is_file():
            images = [image for image in recipe.IMAGES if image.large == large]
            _write(archive, _Builder(home / "packages", programs, platform, progress), images)
        archive.touch()  # in use: not one of the oldest
        forget_oldest([*home.glob("*-*.tar")], _KEPT)
    return archive


def bring(crane: Path, archive: Path, address: str) -> None:
    """Push what tests pull to the sandbox's registry, where machines look first for any image."""
    with archive.open("rb") as file:
        named = read_layout(file)
    for name in recipe.PULLED:
        image = named[f"{recipe.HOST}/{name}"]
        push(crane, parse_target(f"{address}/{name}"), image.manifest, image.blobs)


def _key(programs: Sequence[Path], platform: Platform) -> str:
    """Changes with every input of the images."""
    own = Path(__file__)
    digest = hashlib.sha256(platform.name.encode())
    for file in (recipe.LOCK, own, own.with_name("recipe.py")):
        digest.update(file.read_bytes())
    for name in sorted({name for image in recipe.IMAGES for name in image.programs.values()}):
        digest.update(str(_program(programs, name)).encode())
    return digest.hexdigest()[:16]


def _program(folders: Iterable[Path], name: str) -> Path:
    """Path of a program in the toolchain; the folder's name is a hash of its inputs."""
    return next((folder / name).resolve() for folder in folders if (folder / name).exists())


def _write(archive: Path, builder: _Builder, images: Sequence[TestImage]) -> None:
    built = [(image, builder.image(image)) for image in images]
    named = {f"{recipe.HOST}/{name}": made.manifest for image, made in built for name in image.names}
    partial = archive.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            write_layout(named, [blob for _, made in built for blob in made.blobs], file)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)


class _Builder:
    """Makes images of one platform; layers that several have are made once."""

    def __init__(
        self, packages: Path, programs: Sequence[Path], platform: Platform, progress: Progress
    ) -> None:
        self._packages = packages
        self._programs = programs
        self._platform = platform
        self._progress = progress
        self._layers: dict[str, Layer] = {}

    def image(self, image: TestImage) -> Image:
        self._progress(image.names[0])
        files = self._files_of(image)
        makers: dict[str, _Make] = {}
        if image.tools:
            makers["tools"] = self._tools
        if image.programs:
            makers[repr(image.programs)] = lambda: self._programs_of(image)
        if files:
            makers[repr(files)] = lambda: files
        layers = [self._layer(key, make) for key, make in makers.items()]
        settings = {
            "Entrypoint": [*image.entrypoint],
            "Cmd": [*image.command],
            "Env": [_PATH],
            "User": image.user,
        }
        # Names in it, so that two images of the same files are two to Kubernetes, too.
        labels = {"org.opencontainers.image.title": " ".join(image.names)}
        return describe(self._platform, layers, settings, labels, EPOCH)

    def _layer(self, key: str, make: _Make) -> Layer:
        if key not in self._layers:
            self._layers[key] = make_layer(make(), EPOCH)
        return self._layers[key]

    def _programs_of(self, image: TestImage) -> dict[str, Entry]:
        return {
            path: File(
                _program(self._programs, name).read_bytes(),
                executable=True,
                as_root=path in recipe.RUNS_AS_ROOT,
            )
            for path, name in image.programs.items()
        }

    def _files_of(self, image: TestImage) -> dict[str, Entry]:
        return {**image.files, **(self._served if image.serves_pause else {})}

    def _tools(self) -> dict[str, Entry]:
        contents = open_mirror(self._packages).packages(lockfile.read(recipe.LOCK).of(self._platform))
        files = {path: entry for content in contents for path, entry in debian.unpack(content).files.items()}
        return recipe.tools(files, _applets(files))

    @cached_property
    def _served(self) -> dict[str, Entry]:
        """What agnhost serves: a registry with one image, and a self-signed certificate."""
        pause = self.image(recipe.PAUSE)
        index = index_of([pause], {})
        certificate, key = pem.issue(["localhost"], time.time())
        return {
            "localhost.crt": File(certificate.encode()),
            "localhost.key": File(key.encode()),
            f"{recipe.REGISTRY}/manifests/testing": File(f"{index.digest}\n".encode()),
            **_stored("manifests", [index, pause.manifest]),
            **_stored("blobs", pause.blobs),
        }


def _stored(kind: str, blobs: Iterable[Blob]) -> dict[str, Entry]:
    digests = {blob.digest.removeprefix("sha256:"): blob.content for blob in blobs}
    return {
        f"{recipe.REGISTRY}/{kind}/sha256/{digest[:2]}/{digest}/data": File(content)
        for digest, content in digests.items()
    }


def _applets(files: Mapping[str, Entry]) -> list[str]:
    """What the packages' busybox can be called."""
    busybox = files["usr/bin/busybox"]
    assert isinstance(busybox, File)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "busybox"
        program.write_bytes(busybox.content)
        program.chmod(0o755)
        return applets(program)
