import pytest

from sandbox.commands.conformance import _chosen, require_version
from sandbox.dev import parse
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases
from sandbox.kubernetes_tests.selection import ALL, DEFAULT, DELETION, focused


def test_selections_of_tests():
    for words, chosen in (([], DEFAULT), (["--all"], ALL), (["--node-deletion"], DELETION)):
        assert _chosen(parse(["conformance", *words])[1]) == chosen
    assert _chosen(parse(["conformance", "--focus", r"DNS\pL"])[1]) == focused(r"DNS\pL")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--focus", ""], "an empty expression matches every test"),
        (["--all", "--node-deletion"], "not allowed with argument"),
        (["--processes", "0"], "'0'"),
        (["--processes", "many"], "'many'"),
        (["DNS"], "unrecognized arguments: DNS"),
    ],
)
def test_invalid_words(words, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(["conformance", *words])
    assert said in capsys.readouterr().err


def node(version):
    return {"status": {"nodeInfo": {"kubeletVersion": version}}}


def test_tests_of_the_clusters_version():
    own = releases.default()
    require_version([node(f"v{own}"), node(releases.k3s_name(own))])
    with pytest.raises(SandboxError, match=rf"for Kubernetes {own}, but this cluster runs 1\.34\.4, {own}"):
        require_version([node(f"v{own}"), node("v1.34.4")])
