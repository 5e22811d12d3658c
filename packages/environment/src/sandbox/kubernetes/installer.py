"""Serves k3s to machines: the installer at /k3s/install.sh, the program at /k3s/k3s and /k3s/RELEASE/k3s.

/k3s/channels/CHANNEL leads to the page of the channel's release, as k3s's own server of channels does.

The program is the stand-in as one zipapp file, or a real k3s binary where one is configured. Machines
begin with the Kubernetes of the default release; that of others is at /k3s/RELEASE/hyperkube, once built.
"""

import asyncio
import io
import re
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from aiohttp import web

import k3s_standin
from ccm import go
from ccm.kube import nesting
from k3s_standin.versions import IMAGE_VERSION, NOTE
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases, toolchain

PACKAGE = Path(k3s_standin.__file__).parent
_SHEBANG = b"#!/usr/bin/python3 -Es\n"
_HOST = re.compile(r"^[A-Za-z0-9.:\[\]-]+$")
_CHANNEL = re.compile(r"v\d+\.\d+(\.\d+)?", re.ASCII)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def zipapp(release: str = IMAGE_VERSION, package: Path = PACKAGE) -> bytes:
    """The stand-in as one executable file; the same sources give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("ccm", "ccm/kube"):
            archive.writestr(zipfile.ZipInfo(f"{name}/__init__.py", _EPOCH), b"")
        for name, module in (("ccm/go.py", go), ("ccm/kube/nesting.py", nesting)):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), Path(module.__file__).read_bytes())
        for source in sorted((*package.glob("*.py"), *package.rglob("*.yaml"))):
            path = source.relative_to(package).as_posix()
            name = path if path == "__main__.py" else f"k3s_standin/{path}"
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
        if release != IMAGE_VERSION:
            archive.writestr(zipfile.ZipInfo(f"k3s_standin/{NOTE}", _EPOCH), f"{release}\n")
    return _SHEBANG + content.getvalue()


def install_script(base_url: str, served: Collection[str] = (IMAGE_VERSION,)) -> str:
    """The installer for machines that reach us at a URL, such as ``http://169.254.169.254/k3s``.

    ``served`` are its releases, in ascending order; empty for one real program.
    """
    text = (PACKAGE / "install.sh").read_text()
    facts = {"BASE_URL": base_url, "RELEASES": " ".join(served), "DEFAULT": IMAGE_VERSION}
    for name, value in facts.items():
        text = text.replace(f"@{name}@", value)
    return text


def led_to(channel: str, served: Collection[str]) -> str:
    """The release of a channel; empty if the channel is unknown."""
    if channel in releases.NEWEST_CHANNELS:
        return IMAGE_VERSION if IMAGE_VERSION in served else ""
    if not _CHANNEL.fullmatch(channel):
        return ""
    beginnings = (f"{channel}.", f"{channel}+")
    return next((name for name in reversed([*served]) if name.startswith(beginnings)), "")


def programs(cache: Path) -> Mapping[str, Path | None]:
    """The releases that can be served now, in ascending order, each with its Kubernetes' program.

    The default release has None, because its program is in the machine image.
    """
    found: dict[str, Path | None] = {}
    for version in releases.ascending():
        name = releases.k3s_name(version)
        if name == IMAGE_VERSION:
            found[name] = None
        elif built := toolchain.find(cache, releases.control_plane(version)):
            found[name] = built.bin / "hyperkube"
    return found


def routes(cache: Path, k3s_binary: Path | None = None) -> list[web.RouteDef]:
    """Routes for the installer and the program."""
    if k3s_binary is not None and not k3s_binary.is_file():
        raise SandboxError(f"the k3s program {k3s_binary} is not a file")

    async def installer(request: web.Request) -> web.Response:
        # The machine asks at an address that it can reach, so that is the one for the program as well.
        if not _HOST.match(request.host):
            raise web.HTTPBadRequest(text="the header Host is not a host and a port")
        served = () if k3s_binary else await asyncio.to_thread(programs, cache)
        text = install_script(f"{request.scheme}://{request.host}/k3s", tuple(served))
        return web.Response(text=text, content_type="text/x-shellscript")

    async def program(request: web.Request) -> web.StreamResponse:
        if k3s_binary is not None:
            return web.FileResponse(k3s_binary)
        release = request.match_info.get("release", IMAGE_VERSION)
        if release not in await asyncio.to_thread(programs, cache):
            raise web.HTTPNotFound(text=f"{release} is not served")
        return web.Response(body=zipapp(release), content_type="application/octet-stream")

    async def kubernetes(request: web.Request) -> web.StreamResponse:
        found = (await asyncio.to_thread(programs, cache)).get(request.match_info["release"])
        if found is None:
            raise web.HTTPNotFound(text=f"{request.match_info['release']} has no separate Kubernetes")
        return web.FileResponse(found)

    return [
        web.get("/k3s/install.sh", installer),
        web.get("/k3s/k3s", program),
        # the release of a real program is unknown
        *_channels(lambda: () if k3s_binary else tuple(programs(cache))),
        web.get("/k3s/{release}/k3s", program),
        web.get("/k3s/{release}/hyperkube", kubernetes),
    ]


def _channels(served: Callable[[], Collection[str]]) -> list[web.RouteDef]:
    """Routes of channels: each redirects to a page whose address ends with the release."""

    async def channel(request: web.Request) -> web.Response:
        name = request.match_info["channel"]
        release = led_to(name, await asyncio.to_thread(served))
        if not release:
            raise web.HTTPNotFound(text=f"unknown channel {name}")
        raise web.HTTPFound(f"/k3s/releases/tag/{release}")

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=f"the stand-in for k3s {request.match_info['release']}\n")

    return [web.get("/k3s/channels/{channel}", channel), web.get("/k3s/releases/tag/{release}", page)]
