"""Components of the toolchain: the programs of one Go module, their build commands and cache keys.

``modules/go.mod`` pins one set of versions for all programs, so a machine compiles each package once.
"""

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox.errors import SandboxError

MODULES = Path(__file__).parent / "modules"

KUBERNETES_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)


@dataclass(frozen=True)
class Component:
    """Programs that are built together."""

    name: str  # Its name, and that of the folder below ``modules`` with our sources, if it has any
    pin: str  # the module whose version in go.mod is the component's version; empty for our own sources
    packages: tuple[str, ...]  # Go packages to build, seen from that folder; empty for C
    programs: tuple[str, ...]  # names of the files that the build leaves
    links: tuple[str, ...] = ()  # further names of the first program
    tags: tuple[str, ...] = ()  # Go build tags
    cgo: bool = False  # whether C code is linked in (always statically)
    stamps: tuple[str, ...] = ()  # variables that get the version linked in, as ``path.variable=template``
    plugins: bool = False  # the programs are CNI plugins, which are in a separate folder
    # Programs that are scripts of a module, as ``module:path``; copied beside what is built.
    files: tuple[str, ...] = field(default=(), repr=False)
    # A folder below ``modules`` whose go.mod and go.sum replace those of ``modules``: the same program of
    # another version. Empty for none.
    pins: str = field(default="", repr=False)
    # Parent of its folder, if not ``modules``; the folder then has a go.mod.
    folder: Path | None = field(default=None, repr=False)

    @property
    def source(self) -> Path:
        """Folder with our sources; it need not exist."""
        return (self.folder or MODULES) / self.name

    @property
    def directory(self) -> Path:
        """Folder to build in."""
        return self.source if self.source.is_dir() else MODULES

    @property
    def go_mod(self) -> Path:
        """The file that pins the modules; go.sum is beside it."""
        return (self.source if self.folder else MODULES / self.pins) / "go.mod"

    @property
    def version(self) -> str:
        """The pinned version, without the leading v; "0" for our own sources."""
        return pinned_version(self.go_mod.read_text(), self.pin) if self.pin else "0"

    @property
    def needs_gcc(self) -> bool:
        """Whether C is compiled."""
        return self.cgo or not self.packages

    @property
    def key(self) -> str:
        """Folder name in the cache: changes with every pin, source and build setting."""
        digest = hashlib.sha256(repr(self).encode() + "".join(self.files).encode())
        files = {path for path in self.source.rglob("*") if path.is_file()}
        if self.pin:
            files |= {self.go_mod, self.go_mod.with_name("go.sum")}
        for path in sorted(files):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"


def pinned_version(go_mod: str, module: str) -> str:
    """The version of a module that a go.mod requires, without the leading v."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)} v(\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise SandboxError(f"go.mod does not require {module}")
    return found[1]


def _kubernetes_stamps() -> tuple[str, ...]:
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    values = ("gitVersion=v{version}", "gitMajor={major}", "gitMinor={minor}", "gitTreeState=clean")
    return tuple(f"{package}.{value}" for package in packages for value in values)


_CONTAINERD = "github.com/containerd/containerd/v2"
_HELM = "helm.sh/helm/v4"
_CNI = "github.com/containernetworking/plugins/plugins"
_LOCAL_PATH = "github.com/rancher/local-path-provisioner"
_METRICS_SERVER = "sigs.k8s.io/metrics-server"

_HYPERKUBE = Component(
    "hyperkube",
    pin="k8s.io/kubernetes",
    packages=(".",),
    programs=("hyperkube",),
    links=KUBERNETES_PROGRAMS,
    stamps=_kubernetes_stamps(),
)

KUBERNETES: tuple[Component, ...] = (
    _HYPERKUBE,
    replace(_HYPERKUBE, pins="hyperkube-1.36"),
    replace(_HYPERKUBE, pins="hyperkube-1.35"),
)
"""All available versions of Kubernetes. The first version is the default."""

_ETCDUTL = "go.etcd.io/etcd/etcdutl/v3"
ETCDUTL = Component("etcdutl", pin=_ETCDUTL, packages=(_ETCDUTL,), programs=("etcdutl",))
"""Restores snapshots of etcd."""

COMPONENTS: tuple[Component, ...] = (
    _HYPERKUBE,
    Component(
        "containerd",
        pin=_CONTAINERD,
        packages=tuple(f"{_CONTAINERD}/cmd/{n}" for n in ("containerd", "containerd-shim-runc-v2", "ctr")),
        programs=("containerd", "containerd-shim-runc-v2", "ctr"),
        # Drivers for file systems that a machine never has.
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
        stamps=(f"{_CONTAINERD}/version.Version={{version}}",),
    ),
    Component(
        "runc",
        pin="github.com/opencontainers/runc",
        packages=("github.com/opencontainers/runc",),
        programs=("runc",),
        tags=("seccomp", "netgo", "osusergo"),
        cgo=True,
        stamps=("main.version={version}",),
    ),
    Component(
        "cni",
        pin="github.com/containernetworking/plugins",
        packages=tuple(
            f"{_CNI}/{n}" for n in ("ipam/host-local", "main/bridge", "main/loopback", "meta/portmap")
        ),
        programs=("host-local", "bridge", "loopback", "portmap"),
        plugins=True,
    ),
    Component("pause", pin="", packages=(), programs=("pause",)),
    Component("coredns", pin="github.com/coredns/coredns", packages=(".",), programs=("coredns",)),
    Component(
        "local-path-provisioner",
        pin=_LOCAL_PATH,
        packages=(_LOCAL_PATH,),
        programs=("local-path-provisioner",),
        stamps=("main.VERSION=v{version}",),
    ),
    Component(
        "metrics-server",
        pin=_METRICS_SERVER,
        packages=(f"{_METRICS_SERVER}/cmd/metrics-server",),
        programs=("metrics-server",),
        stamps=("sigs.k8s.io/metrics-server/pkg/version.gitVersion=v{version}",),
    ),
    Component("ingress", pin="", packages=(".",), programs=("ingress",)),
    Component("whoami", pin="", packages=(".",), programs=("whoami",)),
    ETCDUTL,
)
"""All programs on the machines, in build order. The programs that a Node needs to become Ready come first."""

CONTROL_PLANE: tuple[Component, ...] = (_HYPERKUBE,)
"""kubectl, and the programs of a control plane on the host. Their build needs no Debian packages."""

HELM = Component("helm", pin=_HELM, packages=(f"{_HELM}/cmd/helm",), programs=("helm",))
"""Renders and tests the chart. Helm runs only on the host, never on the machines of the sandbox."""

REGISTRY = Component(
    "registry", pin="github.com/distribution/distribution/v3", packages=(".",), programs=("registry",)
)
"""The sandbox's registry, which runs on the host."""

_CRANE = "github.com/google/go-containerregistry"
CRANE = Component("crane", pin=_CRANE, packages=(f"{_CRANE}/cmd/crane",), programs=("crane",))
"""Pushes images to registries. crane runs only on the host, never on the machines of the sandbox."""

_PULUMI = "github.com/pulumi/pulumi"
PULUMI = Component(
    "pulumi",
    pin=f"{_PULUMI}/pkg/v3",
    packages=(f"{_PULUMI}/pkg/v3/cmd/pulumi", "./pulumi-language-python"),
    programs=("pulumi-language-python", "pulumi", "pulumi-language-python-exec"),
    links=("pulumi-resource-pulumi-python",),
    stamps=(f"{_PULUMI}/sdk/v3/go/common/version.Version=v{{version}}",),
    files=(f"{_PULUMI}/sdk/v3:python/cmd/pulumi-language-python-exec",),
)
"""The Pulumi CLI with Python support, for the host. The sandbox builds it only if PATH contains no CLI."""

_TESTS = "k8s.io/kubernetes/test/images"
KUBERNETES_TESTS = Component(
    "kubernetes-tests",
    pin="k8s.io/kubernetes",
    packages=(
        "./e2e.test",
        "github.com/onsi/ginkgo/v2/ginkgo",
        f"{_TESTS}/agnhost",
        f"{_TESTS}/nonewprivs",
        f"{_TESTS}/regression-issue-74839",
        "k8s.io/sample-apiserver",
    ),
    programs=("e2e.test", "ginkgo", "agnhost", "nonewprivs", "regression-issue-74839", "sample-apiserver"),
    stamps=_kubernetes_stamps(),
)
"""Kubernetes' e2e tests, the test runner Ginkgo, and the programs in the test images."""


def build_command(component: Component, compiler: str, output: Path) -> tuple[str, ...]:
    """The command that builds a component, to be run in its ``directory``."""
    if not component.packages:
        return ("gcc", "-Os", "-static", "-s", "-o", str(output / component.programs[0]), "pause.c")
    major, minor, *_ = (*component.version.split("."), "0")
    facts = {"version": component.version, "major": major, "minor": minor}
    linker = ["-s", "-w"]
    if component.cgo:
        linker += ["-extldflags", "-static"]
    for stamp in component.stamps:
        linker += ["-X", stamp.format(**facts)]
    tags = ("-tags", " ".join(component.tags)) if component.tags else ()
    pins = ("-modfile", str(component.go_mod)) if component.pins else ()
    # A folder as output names each program after its package; "." needs the name spelled out.
    target = output / component.programs[0] if component.packages == (".",) else f"{output}/"
    return (
        compiler,
        "build",
        "-v",
        *pins,
        *tags,
        "-ldflags",
        " ".join(linker),
        "-o",
        str(target),
        *component.packages,
    )
