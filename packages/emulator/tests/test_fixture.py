"""The fixture ``hetzner_cloud``, in a project that knows nothing of this one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

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


def test_the_plugin_imports_nothing_without_the_fixture(installed, tmp_path):
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_nothing_was_imported():\n"
        "    ours = {name for name in sys.modules if name.startswith('hetzner_emulator.')}\n"
        "    assert ours == {'hetzner_emulator.testing', 'hetzner_emulator.testing.plugin'}\n"
        "    assert not {'aiohttp', 'hcloud', 'msgspec', 'cryptography'} & sys.modules.keys()\n"
    )
    said = pytest_in(installed, tmp_path)
    assert outcomes(said) == {"passed": 1}, said.stdout


def test_packages_of_a_project_can_have_any_name(installed, tmp_path):
    for name in ("sandbox", "ccm", "json"):
        (tmp_path / name).mkdir()
    (tmp_path / "sandbox/__init__.py").write_text("raise RuntimeError('of the project')")
    (tmp_path / "test_other.py").write_text("def test_it():\n    pass\n")
    said = pytest_in(installed, tmp_path)  # python -m pytest: this folder is the first to import from
    assert outcomes(said) == {"passed": 1}, said.stdout


def test_tests_are_isolated(installed, tmp_path):
    (tmp_path / "test_isolation.py").write_text(
        "import pytest, hcloud\n"
        "left = []\n"
        "@pytest.mark.parametrize('turn', [1, 2, 3])\n"
        "def test_it(hetzner_cloud, turn):\n"
        "    assert hetzner_cloud.requests == []\n"
        "    assert hetzner_cloud.faults.listing() == []\n"
        "    assert hetzner_cloud.settings()['actions'] == 'instant'\n"
        "    assert hetzner_cloud.settings()['limits']['networks'] == 50\n"
        "    assert hetzner_cloud.client().networks.get_all() == []\n"
        "    for client in left:\n"
        "        with pytest.raises(hcloud.APIException, match='invalid'):\n"
        "            client.networks.create('late', '10.0.0.0/16')\n"
        "    left.append(hetzner_cloud.client())\n"
        "    hetzner_cloud.client().networks.create('net', '10.0.0.0/16')\n"
        "    hetzner_cloud.settings(actions='slow', limits={'networks': 1})\n"
        "    hetzner_cloud.faults.add(method='GET', code='locked')\n"
    )
    said = pytest_in(installed, tmp_path)
    assert outcomes(said) == {"passed": 3}, said.stdout


def test_errors_name_the_cause(installed, tmp_path):
    (tmp_path / "test_errors.py").write_text(
        "import pytest\n"
        "from hetzner_emulator.testing.cloud import CloudError\n"
        "def test_it(hetzner_cloud):\n"
        "    with pytest.raises(CloudError, match=r\"'metod': unknown; allowed: .*method\"):\n"
        "        hetzner_cloud.faults.add(metod='GET')\n"
        "    with pytest.raises(CloudError, match=\"'actions': must be one of: instant\"):\n"
        "        hetzner_cloud.settings(actions='fast')\n"
        "    hetzner_cloud.faults.add(path='/serverz', code='locked')\n"
        "    hetzner_cloud.client().servers.get_all()\n"
        "    with pytest.raises(CloudError, match='never applied .*/serverz'):\n"
        "        hetzner_cloud.faults.expect_struck()\n"
        "    with pytest.raises(CloudError, match='not found'):\n"
        "        hetzner_cloud.admin('GET', '/nowhere')\n"
    )
    said = pytest_in(installed, tmp_path)
    assert outcomes(said) == {"passed": 1}, said.stdout


def test_a_frozen_clock_and_a_closed_stdin(installed, tmp_path):
    (tmp_path / "test_clock.py").write_text(
        "import time\n"
        "def test_it(monkeypatch, hetzner_cloud):\n"
        "    monkeypatch.setattr(time, 'time', lambda: 0.0)\n"
        "    monkeypatch.setattr(time, 'monotonic', lambda: 0.0)\n"
        "    assert hetzner_cloud.client().locations.get_by_name('fsn1')\n"
        "    assert hetzner_cloud.requests[0].at > 1e9\n"
    )
    said = pytest_in(installed, tmp_path, "-s")
    assert outcomes(said) == {"passed": 1}, said.stdout


def test_clients_bypass_a_proxy(installed, tmp_path):
    (tmp_path / "test_proxy.py").write_text(
        "import os, subprocess, sys, urllib.request\n"
        "from hetzner_emulator.testing.cloud import running\n"
        "ASK = 'import hcloud, os; hcloud.Client(os.environ[\"HCLOUD_TOKEN\"], '\\\n"
        "    'api_endpoint=os.environ[\"HCLOUD_ENDPOINT\"]).locations.get_all()'\n"
        "def test_it(monkeypatch):\n"
        "    monkeypatch.setenv('HTTP_PROXY', 'http://127.0.0.1:1')\n"
        "    monkeypatch.setenv('http_proxy', 'http://127.0.0.1:1')\n"
        "    monkeypatch.setenv('NO_PROXY', 'corp.example')\n"
        "    monkeypatch.delenv('no_proxy', raising=False)\n"
        "    with running() as cloud:\n"
        "        assert cloud.client().locations.get_by_name('fsn1')\n"
        "        environment = {**os.environ, **cloud.environment}\n"
        "        subprocess.run([sys.executable, '-c', ASK], env=environment, check=True)\n"
        "    assert os.environ['NO_PROXY'] == 'corp.example'\n"
        "    assert 'no_proxy' not in os.environ\n"
    )
    said = pytest_in(installed, tmp_path)
    assert outcomes(said) == {"passed": 1}, said.stdout


def test_clients_send_requests_only_to_the_emulator(installed, tmp_path):
    (tmp_path / "test_offline.py").write_text(
        "import sys, hcloud, pytest\n"
        "asked = []\n"
        "def network(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'):\n"
        "        asked.append(arguments[1][0] if event == 'socket.connect' else arguments[0])\n"
        "sys.addaudithook(network)\n"
        "def test_it(hetzner_cloud):\n"
        "    client = hetzner_cloud.client()\n"
        "    assert client.storage_boxes.get_all() == []\n"
        "    with pytest.raises(hcloud.APIException) as raised:\n"
        "        client.storage_box_types.get_all()\n"
        "    assert raised.value.code == 'unsupported_error'\n"
        "    for part in vars(client).values():\n"
        "        if callable(getattr(part, 'get_all', None)) and part is not client.actions:\n"
        "            try:\n"
        "                part.get_all()\n"
        "            except hcloud.APIException:\n"
        "                pass\n"
        "    assert len(hetzner_cloud.requests) > 15\n"
        "    assert set(asked) == {'127.0.0.1'}\n"
        "def test_variables(hetzner_cloud):\n"
        "    points = {v for k, v in hetzner_cloud.environment.items() if k.endswith('ENDPOINT')}\n"
        "    assert points == {hetzner_cloud.endpoint}\n"
    )
    said = pytest_in(installed, tmp_path)
    assert outcomes(said) == {"passed": 2}, said.stdout


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
    ) as run:
        try:
            eventually(lambda: len(list(tmp_path.glob("began-?"))) == (2 if options else 1))
            ports = {path.read_text() for path in tmp_path.glob("began-?")}
            assert all(map(answers, ports))
        finally:
            os.kill(run.pid, signal.SIGKILL)
            run.wait(60)
    eventually(lambda: not any(map(answers, ports)))


def answers(port):
    return not subprocess.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], capture_output=True, check=False, timeout=60
    ).returncode


def eventually(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)
