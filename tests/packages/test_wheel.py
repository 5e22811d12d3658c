import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.slow

IMPORT_ALL = """
import importlib, pkgutil, sys
for top in sys.argv[1:]:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print("all of them")
"""


SETTINGS = """
from ccm_pulumi.components import settings
from ccm_pulumi.addons.controller_manager import read_manifests
wanted = settings(cluster_name="shop", ssh_allowed_cidrs="any")
(deployment,) = (item["kind"] for item in read_manifests() if item["kind"] == "Deployment")
print(wanted.cluster_name, wanted.k3s_version[:5], deployment)
"""


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_nothing_of_the_tree_alone_is_in_it(wheel):
    tops = {name.partition("/")[0] for name in names(wheel) if ".dist-info/" not in name}
    assert tops == {"ccm", "ccm_pulumi"}
    other = [name for name in names(wheel) if not name.endswith(".py") and ".dist-info/" not in name]
    assert sorted(other) == [
        "ccm/requirements.lock",
        "ccm_pulumi/manifests/deployment.yaml",
        "ccm_pulumi/manifests/rbac.yaml",
        "ccm_pulumi/pulumi_project.yaml",
    ]


def test_it_brings_no_command_but_its_own(wheel):
    # One called `pulumi` would stand before the Pulumi CLI of whoever installs it.
    with zipfile.ZipFile(wheel) as archive:
        (entries,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(entries).decode()
    scripts = text.partition("[console_scripts]\n")[2].partition("\n\n")[0]
    assert scripts.strip() == "ccm = ccm.__main__:main"


def test_the_source_distribution_has_no_state_of_an_environment(packages):
    (source,) = packages.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = [name.partition("/")[2] for name in archive.getnames()]
    assert "ccm/__main__.py" in members
    assert not [name for name in members if name.startswith((".sandbox", "kubeconfig", ".dev-env", ".venv"))]


def test_the_ccm_needs_no_extra(plain):
    said = plain.run("ccm", "--help")
    assert said.returncode == 0, said.stdout
    assert "--cloud-provider" in said.stdout
    # Neither pytest nor what the other parts need comes with it.
    assert plain.run(plain.python, "-c", "import cryptography").returncode
    assert plain.run(plain.python, "-c", "import pulumi").returncode


def test_a_request_for_traces_without_the_extra_names_the_extra(plain):
    asked = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
    said = plain.run("env", asked, "ccm", "--cloud-provider=sample")
    assert said.returncode == 2
    assert "Error: OTEL_EXPORTER_OTLP_ENDPOINT enables tracing" in said.stdout
    assert "ccm-from-scratch[tracing]" in said.stdout


def test_every_module_in_it_can_be_imported(full):
    said = full.run(full.python, "-c", IMPORT_ALL, "ccm")
    assert said.stdout.strip() == "all of them"


def test_so_can_the_components_of_the_program(with_pulumi):
    said = with_pulumi.run(with_pulumi.python, "-c", IMPORT_ALL, "ccm_pulumi")
    assert said.stdout.strip() == "all of them"
    said = with_pulumi.run(with_pulumi.python, "-c", SETTINGS)
    assert said.stdout.split() == ["shop", "v1.37", "Deployment"]
