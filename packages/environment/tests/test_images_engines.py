import pytest

from sandbox.errors import SandboxError
from sandbox.images import engines
from tests.child_processes import script


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """Puts shell scripts on PATH, and nothing else but the shell's own programs."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", str(folder))

    return lambda name, body: script(folder / name, body)


def test_the_first_engine_with_the_image_is_used(on_path, tmp_path):
    on_path("docker", 'echo "Error: No such image: $3" >&2; exit 1')
    on_path("podman", 'echo "$@"')
    on_path("nerdctl", "exit 9")
    assert engines.save("app:1", tmp_path / "image") == "podman"
    assert (tmp_path / "image").read_text() == "image save -- app:1\n"


@pytest.mark.parametrize("client", ["nerdctl", "ctr"])
@pytest.mark.parametrize("namespace", ["k8s.io", "moby"])
def test_an_image_that_kubernetes_or_docker_keeps_in_containerd_is_found(
    on_path, tmp_path, client, namespace
):
    on_path(client, f'[ "$1" = --namespace={namespace} ] || {{ echo "not found" >&2; exit 1; }}; echo "$@"')
    assert engines.save("app:1", tmp_path / "image") == f"{client} --namespace={namespace}"
    name = "docker.io/library/app:1" if client == "ctr" else "app:1"
    assert (tmp_path / "image").read_text().endswith(f" {name}\n")


def test_an_image_that_no_engine_has(on_path, tmp_path):
    with pytest.raises(SandboxError, match=r"docker, podman, nerdctl, ctr"):
        engines.save("app:1", tmp_path / "image")
    on_path("docker", 'echo "noise"; echo "Cannot connect to the Docker daemon" >&2; exit 1')
    on_path("ctr", "exit 3")
    expected = "docker: Cannot connect to the Docker daemon; ctr: .* 3; ctr --namespace=k8s.io: .* 3; .*moby"
    with pytest.raises(SandboxError, match=rf"^app:1 .*{expected}"):
        engines.save("app:1", tmp_path / "image")
