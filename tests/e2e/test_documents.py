"""Each command of README, tutorial and guides runs as typed, in their order, in one environment."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import TREE, eventually
from tests.e2e.documents import Shell, Typed, typed_in

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PAGES = (
    "README.md",
    "docs/tutorial/0-what-does-the-ccm-do.md",
    "docs/tutorial/1-boilerplate.md",
    "docs/tutorial/2-development-environment.md",
    "docs/tutorial/3-nodes.md",
    "docs/tutorial/4-load-balancers.md",
    "docs/tutorial/5-routes.md",
    "docs/guides/operating.md",
    "docs/guides/from-the-official-ccm.md",
    "docs/guides/daily-work.md",
    "docs/guides/helm.md",
    "docs/guides/kustomize.md",
    "docs/guides/image.md",
    "docs/guides/releasing.md",
)
ACCOUNT = "needs an account at Hetzner"
RELEASED = "tests/release does it: there is no commit in this copy of the tree"
NOT_RUN = {
    "./dev test": "it runs this test",
    "SAMPLE_MACHINES=node-1=192.0.2.1 python -m ccm --cloud-provider=sample --kubeconfig=FILE": (
        "FILE stands for a cluster without a CCM"
    ),
    "export PULUMI_BACKEND_URL=file://~": f"the block after it {ACCOUNT}",
    "cp Pulumi.hetzner.yaml.example Pulumi.hetzner.yaml": ACCOUNT,
    "pulumi stack init hetzner": ACCOUNT,
    "pulumi config set sshAllowedCidrs 198.51.100.7": ACCOUNT,
    "pulumi up -s hetzner": ACCOUNT,
    "python -m ccm plan --settings-from=deployment/kube-system/hcloud-cloud-controller-manager": (
        "the official CCM does not run here"
    ),
    "./dev image --push registry.example.com/me/ccm-from-scratch:1.0": "it needs an account at a registry",
    'docker push "$SANDBOX_REGISTRY/my-app:1"': "Docker is not everywhere",
    "./dev release": RELEASED,
    "./dev release --key release.pem --output ../to-publish": RELEASED,
    "SOURCE_DATE_EPOCH=$(git show -s --format=%ct) ./dev image --push "
    "registry.example.com/me/ccm-from-scratch:VERSION": RELEASED,
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc "
    "   -pass env:COSIGN_PASSWORD -out release.pem": RELEASED,
    "openssl pkey -in release.pem -pubout -passin env:COSIGN_PASSWORD -out cosign.pub": RELEASED,
    "sha256sum --check --ignore-missing checksums.txt": RELEASED,
    "cosign verify-blob --insecure-ignore-tlog --key cosign.pub "
    "--bundle checksums.txt.sigstore.json checksums.txt": RELEASED,
    "cosign verify-blob --insecure-ignore-tlog --key cosign.pub "
    "--signature checksums.txt.sig checksums.txt": RELEASED,
    "./dev lock debian": "it would change what all later commands build",
}
"""What can't run here, and why. A line with … in it waits for something of the reader's own."""

UNTIL = {
    "NotReady within a minute (Ctrl-C ends)": (
        "kubectl get node ccm-from-scratch-worker-1 -o jsonpath='{.spec.taints[*].key}' | grep shutdown"
    ),
    "Ready, and the taint is gone": (
        "kubectl wait --for=condition=Ready node/ccm-from-scratch-worker-1 --timeout=1s"
    ),
    "the node goes": "! kubectl get node ccm-from-scratch-worker-1",
    "until it has an EXTERNAL-IP (Ctrl-C ends)": (
        "kubectl get service whoami -o jsonpath='{.status.loadBalancer.ingress[0].ip}' | grep ."
    ),
    "ADDRESS: that of the ingress controller's load balancer": (
        "kubectl get ingress whoami -o jsonpath='{.status.loadBalancer.ingress[0].ip}' | grep ."
    ),
}
"""A person watches until the page's comment is true, and ends the command; by the comment, how to tell."""

GOES_ON = ("python -m ccm --cloud-provider=sample --kubeconfig=$KUBECONFIG",)
"""Runs until the end of the page, while the second terminal is used."""

SAYS = {
    "./dev plan service/whoami": "as wanted, nothing to do",
    'curl "http://$ip/"': "Hostname: whoami-",
    '/whoami"': "GET /whoami",
    "jsonpath='{.spec.taints[*].key}'": "node.cloudprovider.kubernetes.io/shutdown",
    "readyz?verbose": "readyz check passed",
    "get events": "Synced",
    "./dev ssh $machine curl": "Hostname: whoami-",
    "./dev deploy": "nothing to roll out",
    "./dev load ccm.tar": "on all machines",
}
"""What the page promises that a command prints, by a part of the command."""


def why_not(line: Typed) -> str:
    """Why a command does not run here; empty = it does."""
    if "…" in line.text:
        return "the reader's own values stand in it"
    return NOT_RUN.get(line.text, "")


@pytest.fixture(scope="module")
def reader(clone):
    """A clone whose environment is up, as the README's first command leaves it."""
    clone.dev("up")
    return clone


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_typed(reader, page):
    with Shell(reader.root) as shell:
        if page.startswith("docs/guides"):
            assert shell.run('eval "$(./dev env)"')[0] == 0  # the reader's own cluster and token
        for line in typed_in((TREE / page).read_text(encoding="utf-8")):
            if not why_not(line):
                _type(shell, line)


def _type(shell: Shell, line: Typed) -> None:
    if line.text.startswith(GOES_ON):
        shell.start(line.text)
    elif line.text.endswith(" -w"):
        process = shell.start(line.text)
        eventually(lambda: shell.run(UNTIL[line.comment])[0] == 0, 120, f"{line.text}: {line.comment}")
        assert shell.run(f"kill {process}")[0] == 0, f"{line.text} ended by itself"
    else:
        wanted = next((re.escape(text) for part, text in SAYS.items() if part in line.text), "")
        answers: list[tuple[int, str]] = []

        def is_answered() -> bool:
            answers.append(shell.run(line.text))
            code, said = answers[-1]
            return code == 0 and bool(re.search(wanted, said))

        # A server that was started a moment ago may need one; nothing else is typed twice.
        patience = 30.0 if "curl" in line.text else 0.0
        try:
            eventually(is_answered, patience, line.text)
        except AssertionError:
            code, said = answers[-1]
            pytest.fail(f"{line.text!r} ended with {code} and did not say {wanted!r}:\n{said}")
