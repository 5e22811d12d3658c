"""Who reads pages in an environment, types their commands into one shell, and compares what was shown."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.e2e.conftest import TREE, Clone, eventually
from tests.e2e.documents import Block, Shell, Started, Typed, blocks_in, not_printed

ACCOUNT = "needs an account at Hetzner"
BUCKET = "it needs a bucket; test_restore.py has one"
GROWS = "it wants that provider from the cluster's beginning on; test_autoscaled_pool.py has it"
HELM = "Helm has no release of the official chart here; test_environment.py has one"
RELEASED = "tests/release does it: there is no commit in this copy of the tree"
NOT_RUN = {
    "pytest -n 0 -q tests/unit/hetzner/test_hetzner_instances.py -k placement_group": (
        "tests/unit/docs/test_tutorial_text.py runs it before and after the change"
    ),
    "./dev test": "it runs this test",
    "./dev test --kubernetes 1.35": "it would run this test, and build another Kubernetes",
    "./dev test --kubernetes 1.36": "it would run this test, and build another Kubernetes",
    "./dev up --internet": "tests keep to this machine; test_internet.py has an Internet of its own",
    "./dev conformance": "tests/e2e/test_environment.py does",
    "export PULUMI_BACKEND_URL=file://~": f"the block after it {ACCOUNT}",
    "cp Pulumi.hetzner.yaml.example Pulumi.hetzner.yaml": ACCOUNT,
    "pulumi stack init hetzner": ACCOUNT,
    "pulumi config set sshAllowedCidrs 198.51.100.7": ACCOUNT,
    "pulumi up -s hetzner": ACCOUNT,
    "python -m ccm plan --settings-from=deployment/kube-system/hcloud-cloud-controller-manager": (
        "the official CCM does not run here"
    ),
    "pulumi config set --path etcdSnapshots.s3.endpoint fsn1.your-objectstorage.com": BUCKET,
    "pulumi config set --path etcdSnapshots.s3.region fsn1": BUCKET,
    "pulumi config set --path etcdSnapshots.s3.folder ccm-from-scratch": BUCKET,
    "pulumi config set --path 'ccm-from-scratch:pools[1].name' burst": GROWS,
    "pulumi config set --path 'ccm-from-scratch:pools[1].serverType' cpx42": GROWS,
    "pulumi config set --path 'ccm-from-scratch:pools[1].max' 5": GROWS,
    "./dev image --push registry.example.com/me/ccm-from-scratch:1.0": "it needs an account at a registry",
    ".venv/bin/python tests/process/version_before.py vVERSION": RELEASED,
    "./dev release": RELEASED,
    "./dev release --key release.pem --output ../to-publish": RELEASED,
    "./dev image --release dist/VERSION --push registry.example.com/me/ccm-from-scratch:VERSION": RELEASED,
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc "
    "   -pass env:COSIGN_PASSWORD -out release.pem": RELEASED,
    "openssl pkey -in release.pem -pubout -passin env:COSIGN_PASSWORD -out cosign.pub": RELEASED,
    "sha256sum --check --ignore-missing checksums.txt": RELEASED,
    "cosign verify-blob --insecure-ignore-tlog --key cosign.pub "
    "--bundle checksums.txt.sigstore.json checksums.txt": RELEASED,
    "cosign verify-blob --insecure-ignore-tlog --key cosign.pub "
    "--signature checksums.txt.sig checksums.txt": RELEASED,
    "key=.dev-env.hetzner.ssh": "the file is that of a stack at Hetzner",
    '$ssh -o ProxyCommand="$ssh -W %h:%p root@$nat" root@10.0.0.3': (
        "it asks whether the host keys are right"
    ),
    "helm upgrade hccm charts/ccm-from-scratch --namespace kube-system --reuse-values "
    "--set replicaCount=0": HELM,
    "kubectl -n kube-system wait --for=delete pod -l app.kubernetes.io/instance=hccm --timeout=60s": HELM,
    "helm history hccm --namespace kube-system": HELM,
    "helm rollback hccm REVISION --namespace kube-system": HELM,
    "./dev lock debian": "it would change what all later commands build",
}
"""What can't run here, and why. A line with … in it waits for something of the reader's own."""

UNTIL = {
    "NotReady within a minute (Ctrl-C ends)": (
        "kubectl get node ccm-from-scratch-worker-1 -o jsonpath='{.spec.taints[*].key}' | grep shutdown"
    ),
    "until the taint is gone (Ctrl-C ends)": (
        "! kubectl get node $node -o jsonpath='{.spec.taints[*].key}' | grep uninitialized"
    ),
    "until the Node disappears (Ctrl-C ends)": "! kubectl get node ccm-from-scratch-worker-1",
    "until it has an ADDRESS (Ctrl-C ends)": (
        "kubectl get ingress whoami -o jsonpath='{.status.loadBalancer.ingress[0].ip}' | grep ."
    ),
}
"""A person watches until the page's comment is true, and ends the command; by the comment, how to tell."""

GOES_ON = (
    "python my-ccm/main.py --cloud-provider=ccm-from-scratch --kubeconfig=$KUBECONFIG",
    "./dev run my-ccm/main.py --watch",
    "./dev run --watch",
    "ACME_FILE=machines.json python -m ccm --cloud-provider=acme --kubeconfig=$KUBECONFIG",
)
"""Runs until the end of the page, while the second terminal is used."""

SAYS = {
    """curl "http://$(kubectl get service whoami""": "Hostname: whoami-",
    '/whoami"': "GET /whoami",
    "jsonpath='{.spec.taints[*].key}'": "node.cloudprovider.kubernetes.io/shutdown",
    "readyz?verbose": "readyz check passed",
    "get events --sort-by": "Synced",
    "./dev deploy": "nothing to roll out",
    "./dev load ccm.tar": "on all machines",
    "./dev logs --events": "LAST SEEN",
}
"""What the page promises that a command prints, by a part of the command."""


def why_not(line: Typed) -> str:
    """Why a command does not run here; empty = it does."""
    if "…" in line.text:
        return "the reader's own values stand in it"
    return NOT_RUN.get(line.text, "")


class Reading:
    """A page that is being read: a context, at whose end all of it has to be read."""

    def __init__(self, clone: Clone, page: str, already: str = "", **own: str) -> None:
        self._clone, self._page = clone, page
        self._said, self._done = [already], {"./dev up"} if already else set()
        self._own = own
        self._left = (TREE / page).read_text(encoding="utf-8")
        self._shell = Shell(clone.root)
        self._running: Started | None = None

    def __enter__(self) -> Self:
        if self._page.startswith("docs/guides"):
            assert self._shell.run('eval "$(./dev env)"')[0] == 0  # the reader's own cluster and token
        self.set(**self._own)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running and kind:  # the environment can't be removed while it runs
            self._shell.run(f"kill {self._running.process}; wait {self._running.process}")
        self._shell.__exit__(kind, error, trace)
        assert kind is not None or not blocks_in(self._left), f"{self._page} was not read to its end"

    def set(self, **own: str) -> None:
        """Set shell variables, as the reader does where a page has an ``…``."""
        for name, value in own.items():
            assert self._shell.run(f"{name}={shlex.quote(value)}")[0] == 0

    def until(self, heading: str) -> str:
        """Type what stands before a heading, and return what it printed."""
        head, found, tail = self._left.partition(f"\n{heading}\n")
        assert found, f"{self._page} has no {heading!r} after what was read"
        self._left = tail
        return self._type_all(head)

    def rest(self) -> str:
        """Type what is left, and return what it printed."""
        left, self._left = self._left, ""
        return self._type_all(left)

    def _type_all(self, text: str) -> str:
        return "\n".join([self._type_block(block) for block in blocks_in(text)])

    def _type_block(self, block: Block) -> str:
        folder = Path(self._shell.run("pwd")[1].strip())
        before = self._running.output.stat().st_size if self._running else 0
        for edit in block.edits:
            # a name with a folder is one of the clone
            file = (self._clone.root if "/" in edit.name else folder) / edit.name
            content = file.read_text(encoding="utf-8") if file.exists() else ""
            file.write_text(edit.apply(content), encoding="utf-8")
        said, self._said = self._said, []
        done, self._done = self._done, set()
        for line in (line for line in block.lines if not why_not(line) and line.text not in done):
            if line.text.startswith(GOES_ON):
                self._running, before = self._shell.start(line.text), 0
                continue
            said.append(_type(self._shell, line))
            if line.text.startswith("./dev up"):
                self._clone.settle()  # as it is when a person has read what was printed
        if block.ends:
            assert self._shell.run(f"kill {self._running.process}; wait {self._running.process}")
        if block.running:
            self._read_running(block.running, before)
        ran = not all(why_not(line) for line in block.lines)
        printed = "\n".join(said)
        missing = not_printed(block.shown, printed) if ran else ""
        assert not missing, f"{self._page} shows {missing!r}, but the output is:\n{printed}"
        return printed

    def _read_running(self, shown: Sequence[str], before: int) -> None:
        """Wait until the command that goes on has printed these lines."""
        output = self._running.output

        def new() -> str:
            return output.read_bytes()[before:].decode(errors="replace")

        try:
            eventually(lambda: not not_printed(shown, new()), 90, "what the page shows")
        except AssertionError:
            pytest.fail(f"{self._page} shows {not_printed(shown, new())!r}, and this was printed:\n{new()}")


def _type(shell: Shell, line: Typed) -> str:
    if line.text.endswith(" -w"):
        started = shell.start(line.text)
        eventually(lambda: shell.run(UNTIL[line.comment])[0] == 0, 120, f"{line.text}: {line.comment}")
        assert shell.run(f"kill {started.process}")[0] == 0, f"{line.text} ended by itself"
        # What a person would still see before Ctrl-C: the watch may be a moment behind.
        return started.output.read_text(encoding="utf-8") + shell.run(line.text.removesuffix(" -w"))[1]
    wanted = next((re.escape(text) for part, text in SAYS.items() if part in line.text), "")
    answers: list[tuple[int, str]] = []

    def is_answered() -> bool:
        answers.append(shell.run(line.text))
        code, said = answers[-1]
        return code == 0 and bool(re.search(wanted, said))

    # A server or a Pod that was started a moment ago may need one; nothing else is typed twice.
    patience = 30.0 if "curl" in line.text or " logs " in line.text else 0.0
    try:
        eventually(is_answered, patience, line.text)
    except AssertionError:
        code, said = answers[-1]
        pytest.fail(f"{line.text!r} ended with {code} and did not say {wanted!r}:\n{said}")
    return answers[-1][1]
