"""Serves k3s to machines: the installer at /k3s/install.sh and the program at /k3s/k3s.

The program is the stand-in as one zipapp file, or a genuine k3s binary where one is configured.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

from aiohttp import web

from sandbox.kubernetes.errors import InstallerError

PACKAGE = Path(__file__).parent / "k3s"
_SHEBANG = b"#!/usr/bin/python3 -Es\n"
_HOST = re.compile(r"^[A-Za-z0-9.:\[\]-]+$")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def zipapp(package: Path = PACKAGE) -> bytes:
    """The stand-in as one executable file; the same sources give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("sandbox/__init__.py", "sandbox/kubernetes/__init__.py"):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), b"")
        for source in sorted((*package.glob("*.py"), *package.glob("*.yaml"))):
            name = source.name if source.name == "__main__.py" else f"sandbox/kubernetes/k3s/{source.name}"
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return _SHEBANG + content.getvalue()


def install_script(base_url: str) -> str:
    """The installer for machines that reach us at a URL.

    Args:
        base_url: What ``/k3s`` below it gives the program, such as ``http://169.254.169.254/k3s``.
    """
    return (PACKAGE / "install.sh").read_text().replace("@BASE_URL@", base_url)


def routes(k3s_binary: Path | None = None) -> list[web.RouteDef]:
    """Routes for the installer and the program.

    Args:
        k3s_binary: A genuine k3s to be served instead of the stand-in.

    Raises:
        InstallerError: That file can't be read.
    """
    if k3s_binary is not None and not k3s_binary.is_file():
        raise InstallerError(f"the k3s program {k3s_binary} is not a file")

    async def installer(request: web.Request) -> web.Response:
        # The machine asks at an address that it can reach, so that is the one for the program as well.
        if not _HOST.match(request.host):
            raise web.HTTPBadRequest(text="the header Host is not a host and a port")
        text = install_script(f"{request.scheme}://{request.host}/k3s")
        return web.Response(text=text, content_type="text/x-shellscript")

    async def program(_: web.Request) -> web.StreamResponse:
        if k3s_binary is not None:
            return web.FileResponse(k3s_binary)
        return web.Response(body=zipapp(), content_type="application/octet-stream")

    return [web.get("/k3s/install.sh", installer), web.get("/k3s/k3s", program)]
