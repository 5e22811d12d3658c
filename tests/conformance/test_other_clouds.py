import asyncio
import base64
import contextlib
import ensurepip
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ccm.testing.conformance.cluster import NODES, node_object
from ccm.testing.memory_transport import MemoryTransport
from tests import waiting
from tests.child_processes import run
from tests.faults.api_server import serve_memory

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
GUIDE = (ROOT / "docs" / "tutorial" / "6-another-cloud.md").read_text()
FILES = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))


def build_wheel(folder: Path) -> Path:
    """The distribution as any build backend would make it; none is installed here."""
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    info = f"{name}-{version}.dist-info"
    files = {
        "acme_cloud.py": FILES["acme_cloud.py"],
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    records = [f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()]
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{info}/RECORD": "".join(records) + f"{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def environment(*paths: Path, **more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return keep | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"} | more


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the distribution."""
    folder = tmp_path_factory.mktemp("acme")
    wheels = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python comes without pip")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    where = ["--no-index", "--no-deps", "--target", str(folder / "site"), str(build_wheel(folder))]
    subprocess.run([*pip, *where], env=environment(wheels[0]), check=True, timeout=300)
    return folder / "site"


@contextlib.asynccontextmanager
async def running(
    provider: str, folder: Path, variables: Mapping[str, str]
) -> AsyncIterator[MemoryTransport]:
    """The CCM's process with a cloud, and its cluster."""
    memory = MemoryTransport()
    async with serve_memory(memory, folder) as kubeconfig:
        access = [f"--{kind}kubeconfig={kubeconfig}" for kind in ("", "authentication-", "authorization-")]
        options = ["--leader-elect=false", "--secure-port=0", "--node-monitor-period=200ms"]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ccm", f"--cloud-provider={provider}", *access, *options),
                cwd=ROOT, env=variables, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield memory
            assert process.returncode is None, (folder / "log").read_text()
        finally:
            if process.returncode is None:
                process.terminate()
            code = await asyncio.wait_for(process.wait(), 60)
    assert code == 0, (folder / "log").read_text()


async def until(check: Callable[[], object], folder: Path) -> None:
    try:
        await waiting.until(check)
    except TimeoutError:
        pytest.fail((folder / "log").read_text()[-3000:])


def initialized(memory: MemoryTransport, name: str, provider_id: str) -> Callable[[], bool]:
    def check() -> bool:
        spec: dict[str, Any] = memory.read(f"{NODES}/{name}")["spec"]
        return spec.get("providerID") == provider_id and not spec.get("taints")

    return check


def names(memory: MemoryTransport) -> Iterator[str]:
    return (item["metadata"]["name"] for item in memory.all(NODES))


async def test_the_sample_runs(tmp_path: Path) -> None:
    variables = environment(SAMPLE_MACHINES="node-1=192.0.2.1,node-2=192.0.2.2")
    async with running("sample", tmp_path, variables) as memory:
        memory.put(NODES, node_object("node-1"))
        memory.put(NODES, node_object("unknown"))
        await until(initialized(memory, "node-1", "sample://node-1"), tmp_path)
        addresses = {one["address"] for one in memory.read(f"{NODES}/node-1")["status"]["addresses"]}
        assert addresses == {"node-1", "192.0.2.1"}
        assert memory.read(f"{NODES}/unknown")["spec"]["taints"]


async def test_an_installed_cloud_runs(installed: Path, tmp_path: Path) -> None:
    machines = tmp_path / "machines.json"
    here = {
        name: {"id": number, "address": f"192.0.2.{number}", "on": True}
        for number, name in enumerate(("a", "b", "c"), 1)
    }
    machines.write_text(json.dumps(here))
    async with running("acme", tmp_path, environment(installed, ACME_FILE=str(machines))) as memory:
        for name in here:
            memory.put(NODES, node_object(name, ready=False))
        for number, name in enumerate(here, 1):
            await until(initialized(memory, name, f"acme://{number}"), tmp_path)
        machines.write_text(json.dumps({name: one for name, one in here.items() if name != "b"}))
        await until(lambda: list(names(memory)) == ["a", "c"], tmp_path)


def test_its_mistakes_and_an_unknown_name_are_reported(installed: Path) -> None:
    for provider, message in (("acme", "ACME_FILE: must name a file"), ("moon", "allowed: acme, ccm-from")):
        command = [sys.executable, "-m", "ccm", f"--cloud-provider={provider}"]
        done = run(command, timeout=300, cwd=ROOT, env=environment(installed))
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["--pyargs", "ccm.testing.conformance.suite", "--ccm-harness=acme_harness:AcmeHarness"], 40),
        (["test_acme.py"], 35),
    ],
    ids=["without a test", "in its own tests"],
)
def test_the_guide_s_conformance_run(
    installed: Path, tmp_path: Path, arguments: list[str], passed: int
) -> None:
    for name in ("acme_harness.py", "test_acme.py"):
        (tmp_path / name).write_text(FILES[name])
    config = tomllib.loads(FILES["pyproject.toml"])["tool"]["pytest"]["ini_options"]
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = " + " ".join(config["addopts"]) + "\n")
    done = run([*PYTEST, *arguments], timeout=300, cwd=tmp_path, env=environment(installed, tmp_path))
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    assert done.returncode == 0, done.stdout + done.stderr
    assert found.get("passed", 0) >= passed, done.stdout


def test_a_missing_harness_is_reported(tmp_path: Path) -> None:
    suite = ("-p", "ccm.testing.conformance", "--pyargs", "ccm.testing.conformance.suite")
    command = [*PYTEST, "-x", *suite, "--ccm-harness=moon:Harness"]
    done = run(command, timeout=300, cwd=tmp_path, env=environment())
    assert done.returncode != 0
    assert "--ccm-harness=moon:Harness: can't load a harness (MODULE:CLASS)" in done.stdout + done.stderr
