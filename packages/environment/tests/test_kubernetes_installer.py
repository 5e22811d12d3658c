import asyncio
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandbox.errors import SandboxError
from sandbox.kubernetes import installer, releases, toolchain
from sandbox.kubernetes.components import COMPONENTS
from sandbox.kubernetes.debian import PACKAGES
from tests import child_processes

pytestmark = pytest.mark.slow
OLDEST = releases.ascending()[0]
SYSTEMCTL = 'echo "$@" >> "$LOG"\n[ "$1" != "${FAIL:-}" ]'


@pytest.fixture
async def server(tmp_path):
    """Has built Kubernetes of the default version and of the oldest one."""
    for components in (COMPONENTS, releases.control_plane(OLDEST)):
        programs = tmp_path / "cache/toolchain" / toolchain._key(components) / "bin"
        programs.mkdir(parents=True)
        (programs / "hyperkube").write_text(components[0].version)
    app = web.Application()
    app.add_routes(installer.routes(tmp_path / "cache"))
    async with TestServer(app) as running:
        yield running


# The program is not on every machine; genuine ones install k3s on the sandbox's machines.
# The path of a Python may be too long for a first line, or have spaces in it: the shell starts it.
# The sandbox's machines have PyYAML, this one need not: our Python runs what was downloaded.
CURL = f"""\
'''exec' "{sys.executable}" "$0" "$@"
' '''
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[-1], timeout=60) as answer:
        first, rest = answer.readline(), answer.read()
except urllib.error.HTTPError as error:
    if "-w" not in sys.argv:
        sys.exit(22)
    answer = error
except OSError:
    sys.exit(7)
if "-w" in sys.argv:
    sys.exit(print(answer.geturl(), end=""))
if first.startswith(b"#!/usr/bin/python3"):
    first = b"#!/bin/sh\\nexec '{sys.executable}' -Es \\"$0\\" \\"$@\\"\\n"
open(sys.argv[sys.argv.index("-o") + 1], "wb").write(first + rest)
"""


def fetch(what):
    with urllib.request.urlopen(what, timeout=60) as answer:
        return answer.read()


class Machine:
    """A folder that stands in for a machine's folders, and programs that are not to be run in a test."""

    def __init__(self, folder, server):
        self.bin, self.units, self.log = folder / "bin", folder / "units", folder / "log"
        self.units.mkdir()
        fakes = folder / "fakes"
        for name, text in (("systemctl", SYSTEMCTL), ("id", "echo 0"), ("journalctl", ""), ("curl", CURL)):
            child_processes.script(fakes / name, text)
        self.data, programs = folder / "data", folder / "programs"
        programs.mkdir()
        for name in ("hyperkube", "containerd"):
            (programs / name).write_text("of the machine's image")
        (programs / "kubelet").symlink_to("hyperkube")
        self.places = {"/var/lib/rancher/k3s/data": self.data, "/usr/local/lib/kubernetes/bin": programs}
        self.url = str(server.make_url("/k3s/install.sh"))
        self.environment = {
            "PATH": f"{fakes}:/usr/bin:/bin",
            "LOG": str(self.log),
            "INSTALL_K3S_BIN_DIR": str(self.bin),
            "INSTALL_K3S_SYSTEMD_DIR": str(self.units),
        }

    async def install(self, *words, script=None, **variables):
        text = script or await asyncio.to_thread(fetch, self.url)
        for place, ours in self.places.items():
            text = text.replace(f"={place}\n".encode(), f"='{ours}'\n".encode())
        command, environment = ["sh", "-s", "-", *words], {**self.environment, **variables}
        done = await asyncio.to_thread(child_processes.run, command, input=text.decode(), env=environment)
        return done.returncode, done.stdout + done.stderr

    def unit(self, name):
        lines = (self.units / f"{name}.service").read_text().splitlines()
        return next(line for line in lines if line.startswith("ExecStart="))


@pytest.fixture
def machine(tmp_path, server):
    return Machine(tmp_path, server)


async def test_exec_comes_before_arguments(machine):
    variables = {"INSTALL_K3S_EXEC": "server --disable traefik --tls-san='a b'", "K3S_TOKEN": "t"}
    status, text = await machine.install("--token", "it's", INSTALL_K3S_SYMLINK="force", **variables)
    assert status == 0, text
    assert machine.unit("k3s").split(" ", 1)[1] == (
        r"server '--disable' 'traefik' '--tls-san=a b' '--token' 'it'\''s' "
    )
    assert (machine.units / "k3s.service.env").read_text() == "K3S_TOKEN=t\n"
    assert (machine.units / "k3s.service.env").stat().st_mode & 0o777 == 0o600
    assert (machine.bin / "kubectl").readlink().name == "k3s"
    assert machine.log.read_text().split("\n")[:3] == ["daemon-reload", "enable -q k3s", "restart k3s"]
    for name in ("k3s", "k3s-uninstall.sh", "k3s-killall.sh"):
        assert os.access(machine.bin / name, os.X_OK)


async def test_exec_is_not_evaluated_by_a_shell(machine):
    asked = """server
        --kubelet-arg eviction-hard=memory.available<5% --node-label=a=$HOME;b --tls-san a&b
        --tls-san=`c`#(d)|e --node-taint=*:NoExecute"""
    status, text = await machine.install("--debug", INSTALL_K3S_EXEC=asked, INSTALL_K3S_TYPE="exec")
    assert status == 0, text
    assert machine.unit("k3s").split(" ", 1)[1] == (
        "server '--kubelet-arg' 'eviction-hard=memory.available<5%%' '--node-label=a=$$HOME;b' "
        "'--tls-san' 'a&b' '--tls-san=`c`#(d)|e' '--node-taint=*:NoExecute' '--debug' "
    )
    assert "\nType=exec\n" in (machine.units / "k3s.service").read_text()


async def test_a_url_makes_it_an_agent(machine):
    status, text = await machine.install("--node-ip=10.0.0.3", K3S_URL="https://a:6443", K3S_TOKEN="t")
    assert status == 0, text
    assert " agent '--node-ip=10.0.0.3'" in machine.unit("k3s-agent")
    assert (machine.bin / "k3s-agent-uninstall.sh").exists()


async def test_a_name_enabling_and_starting_can_be_chosen(machine):
    await machine.install(
        "server", INSTALL_K3S_NAME="extra", INSTALL_K3S_SKIP_START="true", INSTALL_K3S_SYMLINK="skip"
    )
    assert machine.log.read_text().split() == ["daemon-reload", "enable", "-q", "k3s-extra"]
    assert not (machine.bin / "kubectl").exists()
    await machine.install("server", INSTALL_K3S_SKIP_ENABLE="true")
    assert "restart" not in machine.log.read_text()


@pytest.mark.parametrize(
    ("variables", "words", "text"),
    [
        ({"K3S_URL": "https://a:6443"}, (), "K3S_TOKEN or K3S_TOKEN_FILE is not defined"),
        ({"K3S_URL": "http://a:6443"}, ("agent",), "Only https:// URLs are supported for K3S_URL"),
        ({}, ("nonsense",), "unknown command nonsense"),
        ({"INSTALL_K3S_SKIP_DOWNLOAD": "true"}, (), "there is no executable k3s at"),
        ({"INSTALL_K3S_COMMIT": "1"}, (), "INSTALL_K3S_COMMIT"),
    ],
)
async def test_errors_of_the_installer(machine, variables, words, text):
    status, printed = await machine.install(*words, **variables)
    assert status != 0
    assert text in printed


def uninstall(machine, folder, mounted):
    """Run the uninstaller with a folder for its root, and commands that change nothing outside of it.

    Gives what is left where the kubelet was, and the volumes that were unmounted with what is on them.
    """
    root, commands, kept = folder / "root", folder / "commands", folder / "kept"
    kept.mkdir()
    for place in mounted:
        (root / place).mkdir(parents=True)
        (root / place / "data").write_text("mine")
    fakes = {
        "id": "echo 0",
        "awk": "\n".join(f"echo {root / place}" for place in mounted),
        "umount": f'mv "$2/data" "{kept}/${{2##*/}}"',
        **dict.fromkeys(("systemctl", "pgrep", "ip", "nft", "readlink"), "exit 1"),
        **{f"{name}tables-{verb}": "exit 0" for name in ("ip", "ip6") for verb in ("save", "restore")},
    }
    for name, text in fakes.items():
        child_processes.script(commands / name, text)
    for name in ("grep", "sort", "rm", "mv"):
        (commands / name).symlink_to(shutil.which(name))
    for script in (machine.bin / "k3s-killall.sh", machine.bin / "k3s-uninstall.sh"):
        text = script.read_text()
        for before in " |(":
            for place in ("/var/", "/run/", "/etc/"):
                text = text.replace(f"{before}{place}", f"{before}{root}{place}")
        script.write_text(text)
    subprocess.run([machine.bin / "k3s-uninstall.sh"], env={"PATH": str(commands)}, check=True, timeout=60)
    return [{path.name for path in place.iterdir()} for place in (root / "var/lib/kubelet", kept)]


async def test_mounted_volumes_survive_uninstalling(machine, tmp_path):
    assert (await machine.install("server", INSTALL_K3S_SYMLINK="skip"))[0] == 0
    kubelet = "var/lib/kubelet"
    mounted = (f"{kubelet}/plugins/kubernetes.io/csi/a/globalmount", f"{kubelet}/pods/b/volumes/c/mount")
    left, kept = await asyncio.to_thread(uninstall, machine, tmp_path, mounted)
    assert (left, kept) == (set(), {"globalmount", "mount"})


async def test_a_failed_start_fails_the_installer_and_nothing_starts_without_changes(machine):
    status, _ = await machine.install("server", FAIL="restart")
    assert status != 0
    unit = (machine.units / "k3s.service").read_text()
    assert "Restart=always" in unit
    assert "RestartPreventExitStatus" not in unit
    status, printed = await machine.install("server")
    assert status == 0
    assert "No change detected so skipping service start" in printed
    assert machine.log.read_text().count("restart k3s") == 1
    for change in ({"INSTALL_K3S_FORCE_RESTART": "true"}, {"K3S_TOKEN": "new"}):
        await machine.install("server", **change)
    await machine.install("server", "--debug", K3S_TOKEN="new")
    assert machine.log.read_text().count("restart k3s") == 4


@pytest.mark.parametrize(
    "asked",
    [
        {"INSTALL_K3S_VERSION": "v1.30.0+k3s1"},
        {"INSTALL_K3S_VERSION": "v1.37.2"},
        {"INSTALL_K3S_VERSION": "*"},
        {"INSTALL_K3S_VERSION": "v1.36.5+k3s1"},  # not built
        {"INSTALL_K3S_CHANNEL": "v1.3"},
        {"INSTALL_K3S_CHANNEL": "v1.36"},
    ],
)
async def test_unknown_releases(machine, asked):
    status, printed = await machine.install("server", **asked)
    assert status != 0
    ((name, value),) = asked.items()
    assert f"{name}={value} is not to be had here; there are: v{OLDEST}+k3s1 v1.37.2+k3s1" in printed
    assert not machine.bin.exists()
    assert not machine.data.exists()
    assert list(machine.units.iterdir()) == []


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"INSTALL_K3S_VERSION": "v1.37.2+k3s1", "INSTALL_K3S_CHANNEL": "v1.35"},
        {"INSTALL_K3S_CHANNEL": "v1.37"},
        {"INSTALL_K3S_CHANNEL": "latest"},
    ],
)
async def test_the_default_release_has_its_kubernetes_in_the_machines_image(machine, asked):
    status, printed = await machine.install("server", **asked)
    assert status == 0, printed
    assert (machine.bin / "k3s").read_bytes().endswith(installer.zipapp().partition(b"\n")[2])
    assert not machine.data.exists()


@pytest.mark.parametrize(
    "asked", [{"INSTALL_K3S_VERSION": f"v{OLDEST}+k3s1"}, {"INSTALL_K3S_CHANNEL": "v1.35"}]
)
async def test_another_release(machine, asked):
    assert (await machine.install("server"))[0] == 0
    status, printed = await machine.install("server", **asked)
    assert status == 0, printed
    name = f"v{OLDEST}+k3s1"
    assert (machine.bin / "k3s").read_bytes().endswith(installer.zipapp(name).partition(b"\n")[2])
    programs = machine.data / name / "bin"
    assert (programs / "hyperkube").read_text() == OLDEST
    assert os.access(programs / "hyperkube", os.X_OK)
    assert (programs / "kubelet").resolve() == (programs / "hyperkube").resolve()
    assert (programs / "containerd").read_text() == "of the machine's image"
    assert machine.log.read_text().count("restart k3s") == 2, "an upgrade restarts"
    assert (await machine.install("server", **asked))[0] == 0
    assert machine.log.read_text().count("restart k3s") == 2


async def test_releases_and_hosts_that_are_not_served(server):
    for path in ("v1.30.0+k3s1/k3s", "v1.36.5+k3s1/hyperkube", "v1.37.2+k3s1/hyperkube", "..%2f..%2fetc/k3s"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(fetch, str(server.make_url("/k3s/")) + path)
        assert refused.value.code == 404
        refused.value.close()
    request = urllib.request.Request(str(server.make_url("/k3s/install.sh")), headers={"Host": "a'b"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        await asyncio.to_thread(fetch, request)
    assert b"not a host" in refused.value.read()
    refused.value.close()


def test_the_program_of_another_release(tmp_path):
    name = f"v{OLDEST}+k3s1"
    (tmp_path / "k3s").write_bytes(installer.zipapp(name))
    ask = "import sys; sys.path.insert(0, 'k3s'); from k3s_standin import paths, versions; "
    ask += "print(versions.VERSION, versions.KUBERNETES_VERSION, paths.PROGRAMS)"
    command = [sys.executable, "-ISs", "-c", ask]
    done = child_processes.run(command, cwd=tmp_path, check=True)
    assert done.stdout.split() == [name, f"v{OLDEST}", f"/var/lib/rancher/k3s/data/{name}/bin"]
    assert f"v{OLDEST}".encode() not in installer.zipapp()


async def test_a_failed_download_keeps_the_old_program(machine):
    machine.bin.mkdir()
    (machine.bin / "k3s").write_text("old")
    script = installer.install_script("http://127.0.0.1:9/k3s").encode()
    status, printed = await machine.install("server", script=script)
    assert status != 0
    assert "the download of http://127.0.0.1:9/k3s/channels/stable failed" in printed
    status, printed = await machine.install("server", script=script, INSTALL_K3S_VERSION="v1.37.2+k3s1")
    assert status != 0
    assert "the download of http://127.0.0.1:9/k3s/v1.37.2+k3s1/k3s failed" in printed
    assert (machine.bin / "k3s").read_text() == "old"


def test_the_program_only_needs_yaml(tmp_path):
    program = tmp_path / "k3s"
    program.write_bytes(installer.zipapp())
    assert installer.zipapp() == program.read_bytes(), "the same sources give the same bytes"
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian/yaml").symlink_to(Path(yaml.__file__).parent)

    def k3s(word):
        """Run it with the standard library and that one package."""
        start = "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2]; "
        start += "runpy.run_path(sys.argv[0])"
        return child_processes.run([sys.executable, "-ISs", "-c", start, tmp_path / "debian", program, word])

    assert k3s("--version").stdout.startswith("k3s version v1.37.2+k3s1")
    refused = k3s("nonsense")
    assert refused.returncode == 2
    assert refused.stderr.startswith("k3s: unknown command 'nonsense'")
    assert "cloud-init" in PACKAGES, "which brings it"
    assert all(name.endswith((".py", ".yaml")) for name in zipfile.ZipFile(program).namelist())


async def test_a_genuine_k3s_is_served_where_it_is_configured(tmp_path):
    genuine = tmp_path / "k3s"
    genuine.write_bytes(b"\x7fELF")
    app = web.Application()
    app.add_routes(installer.routes(tmp_path, genuine))
    async with TestServer(app) as running:
        url = str(running.make_url("/k3s/k3s"))
        assert await asyncio.to_thread(fetch, url) == b"\x7fELF"
    with pytest.raises(SandboxError, match="nowhere"):
        installer.routes(tmp_path, tmp_path / "nowhere")
