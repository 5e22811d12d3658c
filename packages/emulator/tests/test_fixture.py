"""The fixture ``hetzner_cloud``, in a project that knows nothing of this one."""

import re
import subprocess

import pytest

from tests.ports import listens
from tests.waiting import wait

pytestmark = pytest.mark.slow

OUTCOMES = re.compile(r"(\d+) (passed|failed|errors?)")


def pytest_in(installed, folder, *options):
    command = [installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return installed.run(*command, cwd=folder)


def outcomes(said):
    return {what: int(number) for number, what in OUTCOMES.findall(said.stdout.splitlines()[-1])}


@pytest.mark.parametrize("options", [[], ["-n", "2", "--dist", "loadfile"]], ids=["alone", "two workers"])
def test_the_examples_of_the_guide_work(installed, guide, tmp_path, options):
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(guide.examples)
    said = pytest_in(installed, tmp_path, "-W", "error", *options)
    assert outcomes(said) == {"passed": 2 * guide.examples.count("\ndef test_")}, said.stdout


def test_packages_of_a_project_can_have_any_name(installed, tmp_path):
    for name in ("sandbox", "ccm", "json"):
        (tmp_path / name).mkdir()
    (tmp_path / "sandbox/__init__.py").write_text("raise RuntimeError('of the project')")
    (tmp_path / "test_other.py").write_text("def test_it():\n    pass\n")
    said = pytest_in(installed, tmp_path)  # python -m pytest: this folder is the first to import from
    assert outcomes(said) == {"passed": 1}, said.stdout


# A project's tests, and how many of them pass.
PROGRAMS = {
    ("the plugin imports nothing without the fixture", 1): r"""
import sys
def test_nothing_was_imported():
    ours = {name for name in sys.modules if name.startswith('hetzner_emulator.')}
    assert ours == {'hetzner_emulator.testing', 'hetzner_emulator.testing.plugin'}
    assert not {'aiohttp', 'hcloud', 'msgspec', 'cryptography'} & sys.modules.keys()
""",
    ("tests are isolated", 3): r"""
import pytest, hcloud
left = []
@pytest.mark.parametrize('turn', [1, 2, 3])
def test_it(hetzner_cloud, turn):
    assert hetzner_cloud.requests == []
    assert hetzner_cloud.faults.listing() == []
    assert hetzner_cloud.settings()['actions'] == 'instant'
    assert hetzner_cloud.settings()['limits']['networks'] == 50
    assert hetzner_cloud.client().networks.get_all() == []
    for client in left:
        with pytest.raises(hcloud.APIException, match='invalid'):
            client.networks.create('late', '10.0.0.0/16')
    left.append(hetzner_cloud.client())
    hetzner_cloud.client().networks.create('net', '10.0.0.0/16')
    hetzner_cloud.settings(actions='slow', limits={'networks': 1})
    hetzner_cloud.faults.add(method='GET', code='locked')
""",
    ("errors name the cause", 1): r"""
import pytest
from hetzner_emulator.testing.cloud import CloudError
def test_it(hetzner_cloud):
    with pytest.raises(CloudError, match="'metod'.*method"):
        hetzner_cloud.faults.add(metod='GET')
    with pytest.raises(CloudError, match="'actions'.*instant"):
        hetzner_cloud.settings(actions='fast')
    hetzner_cloud.faults.add(path='/serverz', code='locked')
    hetzner_cloud.client().servers.get_all()
    with pytest.raises(CloudError, match='/serverz'):
        hetzner_cloud.faults.expect_struck()
    with pytest.raises(CloudError, match='not found'):
        hetzner_cloud.admin('GET', '/nowhere')
""",
    ("a frozen clock and a closed stdin", 1): r"""
import time
def test_it(monkeypatch, hetzner_cloud):
    monkeypatch.setattr(time, 'time', lambda: 0.0)
    monkeypatch.setattr(time, 'monotonic', lambda: 0.0)
    assert hetzner_cloud.client().locations.get_by_name('fsn1')
    assert hetzner_cloud.requests[0].at > 1e9
""",
    ("clients bypass a proxy", 1): r"""
import os, subprocess, sys, urllib.request
from hetzner_emulator.testing.cloud import running
ASK = 'import hcloud, os; hcloud.Client(os.environ["HCLOUD_TOKEN"], '\
    'api_endpoint=os.environ["HCLOUD_ENDPOINT"]).locations.get_all()'
def test_it(monkeypatch):
    monkeypatch.setenv('HTTP_PROXY', 'http://127.0.0.1:1')
    monkeypatch.setenv('http_proxy', 'http://127.0.0.1:1')
    monkeypatch.setenv('NO_PROXY', 'corp.example')
    monkeypatch.delenv('no_proxy', raising=False)
    with running() as cloud:
        assert cloud.client().locations.get_by_name('fsn1')
        environment = {**os.environ, **cloud.environment}
        subprocess.run([sys.executable, '-c', ASK], env=environment, check=True)
    assert os.environ['NO_PROXY'] == 'corp.example'
    assert 'no_proxy' not in os.environ
""",
    ("clients send requests only to the emulator", 2): r"""
import sys, hcloud, pytest
asked = []
def network(event, arguments):
    if event in ('socket.connect', 'socket.getaddrinfo'):
        asked.append(arguments[1][0] if event == 'socket.connect' else arguments[0])
sys.addaudithook(network)
def test_it(hetzner_cloud):
    client = hetzner_cloud.client()
    assert client.storage_boxes.get_all() == []
    with pytest.raises(hcloud.APIException) as raised:
        client.storage_box_types.get_all()
    assert raised.value.code == 'unsupported_error'
    for part in vars(client).values():
        if callable(getattr(part, 'get_all', None)) and part is not client.actions:
            try:
                part.get_all()
            except hcloud.APIException:
                pass
    assert len(hetzner_cloud.requests) > 15
    assert set(asked) == {'127.0.0.1'}
def test_variables(hetzner_cloud):
    points = {v for k, v in hetzner_cloud.environment.items() if k.endswith('ENDPOINT')}
    assert points == {hetzner_cloud.endpoint}
""",
}


@pytest.mark.parametrize(("name", "tests"), PROGRAMS)
def test_a_project(installed, tmp_path, name, tests):
    (tmp_path / "test_it.py").write_text(PROGRAMS[name, tests])
    said = pytest_in(installed, tmp_path, "-s")
    assert outcomes(said) == {"passed": tests}, said.stdout


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_the_process_ends_with_pytest(installed, tmp_path, options):
    (tmp_path / "test_killed.py").write_text(
        "import time, pathlib, pytest\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_it(hetzner_cloud, number):\n"
        "    port = hetzner_cloud.endpoint.split(':')[2].split('/')[0]\n"
        "    pathlib.Path(f'began-{number}.new').write_text(port)\n"
        "    pathlib.Path(f'began-{number}.new').rename(f'began-{number}')\n"
        "    time.sleep(600)\n"
    )
    command = [installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    with subprocess.Popen(
        command, cwd=tmp_path, env=installed.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            wait(lambda: len(list(tmp_path.glob("began-?"))) == (2 if options else 1))
            ports = {int(path.read_text()) for path in tmp_path.glob("began-?")}
            assert all(map(listens, ports))
        finally:
            child.kill()
            child.wait(60)
    wait(lambda: not any(map(listens, ports)))
