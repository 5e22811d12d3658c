"""A clone of this tree in a folder of its own: end-to-end tests start where a user starts.

Booting a cluster is the expensive step, so the tests of a module share an environment: ``environment`` or
``three``. A module that needs another one, or breaks its own, takes ``clone``. Each ends with
its module: within seven minutes, a waiting cluster takes as much processor time as the boot of another one.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ccmfs_common import host
from release import commits
from sandbox import cluster, leftovers
from sandbox.built_kubernetes import built_toolchain
from sandbox.kubernetes import releases
from sandbox.site import Site, open_site
from sandbox.stack_settings import TEMPLATES

TREE = Path(__file__).resolve().parents[2]
POLL_SECONDS = 1.0  # most conditions start a process, and others need the CPU
KINDS_OF_TESTS = (
    "horizontalpodautoscalers,poddisruptionbudgets,ingresses,networkpolicies",
    "deployments,daemonsets,statefulsets,jobs,pods,persistentvolumeclaims",
)
"""What modules make in the namespace default, besides Services."""
PULUMI = ("bash", "-c", 'eval "$(./dev env)" && exec pulumi "$@"', "pulumi")
"""``pulumi`` with what ``./dev env`` exports; its arguments are put behind it."""


@dataclass
class Clone:
    root: Path
    said: str = ""  # what its first ``./dev up`` printed

    def dev(
        self, *arguments: str, seconds: float = 600, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run ``./dev …`` and return what it printed; both streams in one, as a person sees it.

        Runs ``kubectl`` directly: ``./dev kubectl`` takes twice the processor time, and tests poll often.
        """
        command = ["./dev", *arguments]
        if arguments[0] == "kubectl" and (site := self.site).kubeconfig.exists():
            command = cluster.kubectl(site, built_toolchain(site), arguments[1:])
        return self._run(command, arguments, seconds, check=check)

    def pulumi(
        self, *arguments: str, seconds: float = 300, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self._run([*PULUMI, *arguments], arguments, seconds, check=check)

    def _run(
        self, command: Sequence[str], words: Sequence[str], seconds: float, *, check: bool
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
        return done

    def not_ignored(self) -> dict[str, float]:
        """What git would see in the clone, with the times of the last change."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
        return {name: (self.root / name).lstat().st_mtime for name in listed.stdout.splitlines()}

    @property
    def site(self) -> Site:
        """What the clone has claimed on this machine."""
        return open_site(self.root, os.environ, host.used_ranges, host.port_is_free)

    def api(self, path: str, body: object = None, method: str | None = None) -> dict:
        return self._ask(self.site.endpoint + path, body, method)

    def _ask(self, url: str, body: object = None, method: str | None = None) -> dict:
        request = urllib.request.Request(
            url,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.site.token}", "Content-Type": "application/json"},
            method=method,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read() or b"{}")
            except urllib.error.HTTPError as error:
                # The CCM or an earlier action changes it at this moment; Hetzner's clients try again, too.
                code = json.loads(error.read() or b"{}").get("error", {}).get("code")
                if code not in ("conflict", "locked") or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def admin(self, path: str, body: object = None, method: str | None = None) -> dict:
        return self._ask(f"http://127.0.0.1:{self.site.port}/_sandbox{path}", body, method)

    def writes(self) -> dict[str, int]:
        """How often each operation that changes something was called."""
        operations = self.admin("/requests/counts")["operations"]
        return {name: number for name, number in operations.items() if not name.startswith("GET ")}

    def settle(self) -> None:
        """Wait until the CCM has nothing left to do; ``./dev up`` ends before, with routes still to come.

        A CCM uses a cached state of the network for up to five minutes. If a new leader reads the network
        between the deletion of a Node and of its server, it may keep the server's route until it
        reads again.
        """

        def is_idle() -> bool:
            print(plan := self.dev("plan").stdout)  # pytest shows it after a failure
            lines = [line for line in plan.splitlines() if not line.startswith("•")]
            return len(lines) == 1 and lines[0].endswith("nothing to do")  # of earlier versions, too

        eventually(is_idle, 330, "the CCM has nothing left to do")

    def reset(self) -> None:
        """Remove what a module made in the cluster and in the cloud's faults; servers and settings stay."""
        self.admin("/faults", method="DELETE")
        self.dev("kubectl", "delete", "namespace", "ingress", "--ignore-not-found")
        for kind in KINDS_OF_TESTS:
            self.dev("kubectl", "delete", kind, "--all", "--wait=false", "--ignore-not-found")
        others = "metadata.name!=kubernetes"
        self.dev("kubectl", "delete", "services", f"--field-selector={others}", "--ignore-not-found")
        eventually(lambda: not self.dev("kubectl", "get", "pods", "-o=name").stdout, 120, "no Pods of tests")

    def configure(self, **settings: object) -> None:
        """Set settings of this program in the stack on machines, which need not be there yet."""
        path = self.root / "Pulumi.local.yaml"
        source = path if path.exists() else TEMPLATES / "local.yaml"
        content = yaml.safe_load(source.read_text())
        content["config"] |= {f"ccm-from-scratch:{name}": value for name, value in settings.items()}
        path.write_text(yaml.safe_dump(content))

    def servers(self) -> dict[str, dict]:
        """The cloud's servers by their role in the cluster."""
        found = self.api("/servers")["servers"]
        return {server["name"].removeprefix("ccm-from-scratch-"): server for server in found}

    def server_ids(self) -> dict[str, int]:
        return {role: server["id"] for role, server in self.servers().items()}

    def kubectl(self, *arguments: str) -> dict:
        return json.loads(self.dev("kubectl", *arguments, "--output=json").stdout)

    def nodes(self) -> dict[str, dict]:
        return {node["metadata"]["name"]: node for node in self.kubectl("get", "nodes")["items"]}


def eventually(condition, seconds: float, what: str, pause: float = POLL_SECONDS):
    """The first true result of ``condition``; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)
    return result


def copy_tree(target: Path) -> Clone:
    """A clone of the tree as it is now, uncommitted changes included."""
    commits.copy(TREE, target)
    subprocess.run(["git", "init", "--quiet"], cwd=target, check=True)
    return Clone(target)


def environment_of(folder: Path, version: str, **settings: object) -> Iterator[Clone]:
    """An environment in a new clone; ``down`` leaves nothing."""
    clone = copy_tree(folder)
    site = clone.site
    try:
        if settings:
            clone.configure(**settings)
        named = () if version == releases.default() else ("--kubernetes", version)
        clone.said = clone.dev("up", *named).stdout
        clone.settle()
        yield clone
        clone.api("/placement_groups", {"name": "mine", "type": "spread"})
        said = clone.dev("down").stdout
        assert "placement group mine" in said
        assert "nothing is left" in said
        assert leftovers.find(site) == []
    finally:
        if leftovers.find(site):
            # with the stack of a page that failed, 'down' would stop
            shutil.rmtree(site.state / "pulumi", ignore_errors=True)
            clone.dev("down", "--force", check=False)


@pytest.fixture(scope="module")
def environment(tmp_path_factory, kubernetes_version):
    """What ``./dev up`` makes without any setting: one control server and two workers."""
    yield from environment_of(tmp_path_factory.mktemp("environment"), kubernetes_version)


@pytest.fixture(scope="module")
def three(tmp_path_factory, kubernetes_version):
    """Three control servers behind a load balancer for the Kubernetes API; only the NAT server is public."""
    folder = tmp_path_factory.mktemp("three")
    settings = {"controlCount": 3, "workerCount": 1, "privateNodes": True, "apiEndpoint": "load-balancer"}
    yield from environment_of(folder, kubernetes_version, **settings)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A new clone without an environment, for a module that can't share one."""
    clone = copy_tree(tmp_path_factory.mktemp("clone"))
    site = clone.site
    yield clone
    if clone.dev("down", check=False).returncode:
        clone.dev("down", "--force")
    assert leftovers.find(site) == []
