"""``./dev load NAME|FILE …``: container images for the machines, without a registry."""

import argparse
import asyncio
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hetzner_machines import disk
from hetzner_machines.airgap import Airgap
from image.platforms import of_machine
from sandbox import daemon, environment_lock
from sandbox.api import Api
from sandbox.console import Steps
from sandbox.environment import MACHINES
from sandbox.errors import SandboxError
from sandbox.images import archive, engines, send
from sandbox.images.archive import Contents, NotAnArchive
from sandbox.images.send import Answer, Result
from sandbox.remote import ssh, ways
from sandbox.site import Site

HELP = "load images on all machines, including machines that you create later"
WAITS = "• waiting until another command in this clone has loaded its images"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which images."""
    parser.add_argument(
        "images",
        nargs="+",
        metavar="NAME|FILE",
        help="the name of an image in docker, podman, nerdctl or containerd on this host, or an image "
        "archive. The archive must be from docker save or have an OCI layout, and can be compressed",
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Bring each image to every machine; 0 even if machines import it later: the output names them."""
    require_runtime(daemon.require(site))
    if not site.ssh_key.exists():
        raise SandboxError(f"{site.ssh_key.name} is missing, because no machine exists yet; run './dev up'")
    steps = Steps()
    airgap = Airgap(site.state)
    with environment_lock.needing(site, "load"), airgap.loading(lambda: steps.note(WAITS)):
        # All are read before the first is sent: a wrong name changes nothing.
        found = [_found(image, airgap.scratch / str(i)) for i, image in enumerate(arguments.images)]
        read = [archive.read(path, airgap.scratch) for path in found]
        contents = [checked(path, has, platform.machine()) for path, has in zip(found, read, strict=True)]
        for path, content in zip(found, contents, strict=True):
            bring(site, path, content, steps, ", ".join(content.names))
    steps.note("  New machines also get these images, until you run './dev down'")
    if latest := [name for content in contents for name in content.names if name.endswith(":latest")]:
        steps.note(
            "  Kubernetes always pulls an image with the tag latest. Set 'imagePullPolicy: IfNotPresent' in "
            f"the Pods that use {', '.join(latest)}, or load the image under another tag"
        )
    return 0


def require_runtime(running: daemon.Running) -> None:
    """Make sure that there are machines that run containers."""
    if running.backend != MACHINES:
        raise SandboxError(
            f"with the backend {running.backend}, servers exist only as API records. The nodes run no "
            "containers, so the nodes need no images"
        )


def checked(path: Path, contents: Contents, machine: str) -> Contents:
    """The same contents, if the machines can run them; raises NotAnArchive otherwise."""
    known = of_machine(machine)
    wanted = known.name if known else machine
    if wanted not in contents.architectures:
        has = ", ".join(sorted(contents.architectures))
        raise NotAnArchive(
            path, f"the image {', '.join(contents.names)} is for {has}, but the machines are {wanted}"
        )
    return contents


def _found(image: str, scratch: Path) -> Path:
    """The archive that an argument means: a file, or what an engine of this host writes."""
    path = Path(image)
    if path.exists():
        return path
    engines.save(image, scratch)
    return scratch


def bring(site: Site, path: Path, contents: Contents, steps: Steps, what: str) -> None:
    """Bring the images of an archive to every machine, and keep them for those that come later.

    Call it only inside :meth:`~hetzner_machines.airgap.Airgap.loading`.
    """
    airgap = Airgap(site.state)
    kept, replaced = airgap.keep(
        lambda file: archive.write_plain(path, file, airgap.scratch),
        lambda old: replaces(contents, old, airgap.scratch),
    )
    with steps.step(what, f"{what} on all machines") as progress:
        servers = list(Api(site.address).list("servers"))
        refused = place(site.state / disk.MACHINES, servers, lambda root: airgap.place(kept, replaced, root))
        progress(f"{len(servers)} machines")
        others = [server for server in servers if server["name"] not in refused]
        answers = refused | _imported(site, others, kept.name)
        for name, answer in answers.items():
            if answer.result not in (Result.IMPORTED, Result.FAILED):
                steps.note(f"  {name}: {answer.result.value}")
        refuse_failed(answers)


def replaces(contents: Contents, old: Path, scratch: Path) -> bool:
    """Whether the new archive has all images of an older one, which machines share and may have changed."""
    try:
        return set(archive.read(old, scratch).names) <= set(contents.names)
    except NotAnArchive:
        return True


def place(
    folder: Path, servers: Sequence[Mapping[str, Any]], put: Callable[[Path], None]
) -> dict[str, Answer]:
    """Put something on the disks of all machines; returns the failures by server name.

    A server that has no disk yet is skipped: its disk will be made with the same contents.
    """
    refused = {}
    for server in servers:
        try:
            if (root := folder / str(server["id"]) / disk.DATA).is_dir():
                put(root)
        except OSError as error:
            refused[server["name"]] = Answer(
                Result.FAILED, f"can't write the image to the machine's disk: {error}"
            )
    return refused


def _imported(site: Site, servers: Sequence[Mapping[str, Any]], archive: str) -> dict[str, Answer]:
    """What each machine did, or will do."""
    logins, others = reach(site, servers)
    return others | asyncio.run(send.import_all(logins, archive))


def reach(site: Site, servers: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[str]], dict[str, Answer]]:
    """The commands that log in to machines, by server name; and the answers for those that import later."""
    found, logins, others = ways(site, servers), {}, {}
    for server in servers:
        name = server["name"]
        way = found[name]
        if server["status"] == "off":
            others[name] = Answer(Result.OFF)
        elif way is None:
            others[name] = Answer(Result.UNREACHED)
        else:
            logins[name] = ssh(site, way, "BatchMode=yes")
    return logins, others


def refuse_failed(answers: Mapping[str, Answer]) -> None:
    """Make sure that no machine is without the images."""
    failed = [f"{name}: {answer.said}" for name, answer in answers.items() if answer.result is Result.FAILED]
    if failed:
        raise SandboxError(
            f"could not import the image on these machines: {'; '.join(failed)}. The other machines have the "
            "image. Repair the machines that failed, then run './dev load' again"
        )
