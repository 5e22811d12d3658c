import tomllib

import pytest

from k3s_standin import registries, runtime
from k3s_standin.errors import UsageError


def hosts(text):
    files = registries.host_files(registries.parse(text))
    return {folder: tomllib.loads(content) for folder, content in files.items()}


def pulls(**more):
    return {"capabilities": ["pull", "resolve"], **more}


TLS = "{ca_file: /ca, cert_file: /c, key_file: /k, insecure_skip_verify: true}"
CERTIFIED = pulls(ca=["/ca"], client=[["/c", "/k"]], skip_verify=True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        ("mirrors: {docker.io: }", {}),
        ("mirrors: {docker.io: {endpoint: [docker.io]}}", {}),
        (
            'mirrors: {"*": {endpoint: ["http://169.254.169.254"]}}',
            {"_default": {"host": {"http://169.254.169.254/v2": pulls()}}},
        ),
        (
            "mirrors: {docker.io: {endpoint: [registry.example.com, 'https://registry.example.com/v2']}}",
            {
                "docker.io": {
                    "server": "https://registry-1.docker.io/v2",
                    "host": {"https://registry.example.com/v2": pulls()},
                }
            },
        ),
        (
            "mirrors: {'registry.example.com:5000': {endpoint: ['localhost:5001', 'https://a.example/b/v2']}}",
            {
                "registry.example.com_5000_": {
                    "server": "https://registry.example.com:5000/v2",
                    "host": {
                        "http://localhost:5001/v2": pulls(),
                        "https://a.example/b/v2": pulls(override_path=True),
                    },
                }
            },
        ),
        (
            f"configs: {{a.example: {{tls: {TLS}}}}}",
            {"a.example": {"server": "https://a.example/v2", "host": {"https://a.example/v2": CERTIFIED}}},
        ),
    ],
)
def test_endpoints_are_used_in_order_and_the_registry_last(text, wanted):
    assert hosts(text) == wanted


def test_credentials_go_into_containerds_own_configuration():
    text = "configs: {registry.example.com: {auth: {username: me, password: 'a\"b\\n', identity_token: 010}}}"
    asked = registries.parse(text)
    found = tomllib.loads(runtime.containerd_config(asked))["plugins"]["io.containerd.cri.v1.images"]
    assert found["registry"]["configs"] == {
        "registry.example.com": {"auth": {"username": "me", "password": 'a"b\\n', "identitytoken": "010"}}
    }
    assert found["registry"]["config_path"].endswith("/certs.d")
    assert hosts(text) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "expected the node content"),
        ("[" * 1_000, "maximum recursion depth exceeded"),
        ("mirrors: {docker.io: {endpoint: a.example}}", r"mirrors\.docker\.io\.endpoint must be a list"),
        ("configs: {a.example: {tls: {insecure_skip_verify: perhaps}}}", "must be true or false"),
        ("configs: {a.example: {auth: {password: [secret]}}}", r"auth\.password must be a text$"),
    ],
)
def test_invalid_registries_files(tmp_path, text, said):
    assert registries.load(tmp_path / "none") == registries.NONE
    (tmp_path / "registries.yaml").write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        registries.load(tmp_path / "registries.yaml")
    assert str(caught.value).startswith(str(tmp_path))
    assert "secret" not in str(caught.value)


def test_settings_without_effect_are_logged():
    text = "mirrors: {docker.io: {endpoint: ['http://:x', a.example], rewrite: {'^a': b}}}"
    asked = registries.parse(text)
    assert list(hosts(text)["docker.io"]["host"]) == ["https://a.example/v2"]
    assert [line.split()[0] for line in asked.warnings] == ["Ignoring", "mirrors.docker.io.rewrite"]


def test_only_our_old_folders_are_removed(tmp_path):
    registries.write_host_files(tmp_path, {"a.example": registries.HEADER + "x = 1\n"})
    (tmp_path / "own.example").mkdir()
    (tmp_path / "own.example/hosts.toml").write_text("server = 'https://own.example'\n")
    registries.write_host_files(tmp_path, {"_default": registries.HEADER})
    assert {path.name for path in tmp_path.iterdir()} == {"_default", "own.example"}
