"""Debian's mirror of this machine: the one that apt uses, or the one that CCMFS_DEBIAN_MIRROR names."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from image.errors import ContentError, MirrorError, PackageGoneError
from image.lockfile import Pin

if TYPE_CHECKING:
    import requests

VARIABLE = "CCMFS_DEBIAN_MIRROR"
SECURITY = "-security"
"""Suffix of the URL of Debian's security archive."""

_SECONDS = 60.0
_CHUNK = 1 << 20
_ATTEMPTS = 4
_DOWNLOADS = 4
_NOT_FOUND = (403, 404, 410)
_ONE_LINE = re.compile(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)$")
_PASSWORD = re.compile(r"//[^/@\s]+@")
_DEBIAN = re.compile(r"/debian(-security)?/?$")

Get = Callable[[str, int], bytes | None]
"""Downloads a URL. Returns None if the server doesn't have the file.

The second argument is the maximum size in bytes. Raises OSError if the file is larger, or if the server
doesn't respond.
"""


@dataclass(frozen=True)
class Mirror:
    """Where Debian packages come from."""

    roots: tuple[str, ...]  # addresses of Debian's archives, tried in this order
    get: Get
    cache: Path  # folder for files by their hash

    def fetch(self, path: str, most: int) -> bytes | None:
        """A file of an archive, whose content isn't checked; None if all archives answer and none has it.

        MirrorError if an archive doesn't answer, and no other archive has the file.
        """
        failures: list[MirrorError] = []
        for root in self.roots:
            try:
                content = self._fetched(f"{root}/{path}", most)
            except MirrorError as error:
                failures.append(error)
                continue
            if content is not None:
                return content
        if failures:
            raise failures[0]
        return None

    def package(self, pin: Pin) -> bytes:
        """A pinned package, from the cache or fetched and compared with its hash."""
        cached = self.cache / pin.sha256
        if cached.is_file():
            content = cached.read_bytes()
            if hashlib.sha256(content).hexdigest() == pin.sha256:
                cached.touch()  # in use: not one of the oldest
                return content
        content = self.fetch(pin.path, pin.size)
        if content is None:
            raise PackageGoneError(pin.name, pin.version, pin.architecture)
        found = hashlib.sha256(content).hexdigest()
        if found != pin.sha256:
            raise ContentError(pin.path, pin.sha256, found)
        self.cache.mkdir(parents=True, exist_ok=True)
        partial = self.cache / f"{pin.sha256}.{os.getpid()}"
        partial.write_bytes(content)
        partial.replace(cached)
        return content

    def packages(self, pins: Iterable[Pin]) -> list[bytes]:
        """Pinned packages in the order of their pins, a few at a time; raises as :meth:`package`."""
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            return [*pool.map(self.package, pins)]

    def _fetched(self, address: str, most: int) -> bytes | None:
        try:
            return self.get(address, most)
        except OSError as error:  # requests' errors are OSErrors
            what = _PASSWORD.sub("//", f"{address}: {error}")
            raise MirrorError(
                f"can't download from the Debian mirror: {what}. To use another mirror, set {VARIABLE}"
            ) from error


def open_mirror(
    cache: Path,
    environment: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
) -> Mirror:
    """The mirror of this machine: CCMFS_DEBIAN_MIRROR or those of apt. ``cache`` is for packages."""
    named = environment.get(VARIABLE, "").rstrip("/")
    roots = (named, named + SECURITY) if named else tuple(dict.fromkeys(_roots_of_apt()))
    if not roots:
        raise MirrorError(
            f"apt's configuration has no Debian mirror. Set {VARIABLE} to the URL of a mirror's folder "
            "'debian' (https://www.debian.org/mirror/list lists the mirrors)"
        )
    return Mirror(roots, web_get(_proxies_of_apt(), sleep), cache)


def web_get(proxies: Mapping[str, str], sleep: Callable[[float], None] = time.sleep) -> Get:
    """Fetch over HTTP with a few attempts, by these proxies (by scheme) or those of the environment."""
    import requests  # noqa: PLC0415  slow to load, and './dev up' fetches nothing as a rule

    session = requests.Session()
    session.proxies.update(proxies)

    def get(address: str, most: int) -> bytes | None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with session.get(address, timeout=_SECONDS, stream=True) as answer:
                    if answer.status_code in _NOT_FOUND:
                        return None
                    answer.raise_for_status()
                    return _content(answer, most)
            except requests.RequestException:
                if attempt == _ATTEMPTS:
                    raise
                sleep(2.0**attempt / 4)
        raise AssertionError  # the last attempt returns or raises

    return get


def _content(answer: requests.Response, most: int) -> bytes:
    content = bytearray()
    for chunk in answer.iter_content(_CHUNK):
        content += chunk
        if len(content) > most:
            raise OSError(f"the file is larger than {most} bytes")
    return bytes(content)


def debian_roots(text: str) -> Iterator[str]:
    """Addresses of Debian's archives in the text of an apt source file, in either format."""
    from debian.deb822 import Deb822  # noqa: PLC0415  slow to load

    for entry in re.split(r"\n\s*\n", text):
        stanza = Deb822(entry) if re.search(r"(?m)^Types:", entry) else {}
        if stanza and "deb" in stanza["Types"].split() and "main" in stanza.get("Components", "").split():
            yield from _of_debian(stanza.get("URIs", "").split())
        for line in entry.splitlines():
            found = _ONE_LINE.match(line.strip())
            if found and "main" in found[3].split():
                yield from _of_debian([found[1]])


def _of_debian(addresses: list[str]) -> Iterator[str]:
    return (address.rstrip("/") for address in addresses if _DEBIAN.search(address))


def _roots_of_apt(folder: Path = Path("/etc/apt")) -> Iterator[str]:
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for file in files:
        if file.is_file() and file.suffix in {".list", ".sources"}:
            yield from debian_roots(file.read_text())


def _proxies_of_apt() -> dict[str, str]:
    if not shutil.which("apt-config"):
        return {}
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True, timeout=30)
    found = re.findall(r'(?m)^Acquire::(https?)::Proxy "([^"]+)";$', dump.stdout)
    return {scheme: proxy for scheme, proxy in found if proxy.lower() != "direct"}
