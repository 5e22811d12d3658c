import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from manager_flags import parsed

from ccm.__main__ import main
from ccm.errors import ConfigurationError
from ccm.kube.objects import Node
from ccm.manager import clouds, command
from ccm.manager.metrics import Metrics
from ccm.tools import plan as plan_command

TOKEN = "t" * 64


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "ccm", *arguments],
        env=keep | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_all_mistakes_of_flags_and_environment_at_once(capsys):
    arguments = ["--cloud-provider=hcloud", "--nonsense", "--secure-port=-1"]
    assert command.main(arguments, {"HCLOUD_ENDPOINT": "no url"}) == 2
    written = capsys.readouterr().err
    for part in ("unknown flag: --nonsense", "--secure-port: -1", "HCLOUD_TOKEN", "--help"):
        assert part in written


@pytest.mark.parametrize("kubeconfig", [None, "clusters: 5"])
def test_nothing_to_connect_to_is_one_clear_error(tmp_path, kubeconfig):
    arguments = ["--cloud-provider=hcloud", "--secure-port=0"]
    if kubeconfig:
        (tmp_path / "config").write_text(kubeconfig)
        arguments.append(f"--kubeconfig={tmp_path / 'config'}")
    done = _run(*arguments, HCLOUD_TOKEN=TOKEN)
    assert done.returncode == 1
    assert "kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stderr


def test_help_and_version(capsys):
    assert command.main(["--help"], {}) == 0
    assert "--leader-elect-lease-duration" in capsys.readouterr().out
    assert command.main(["--version"], {}) == 0
    assert capsys.readouterr().out.startswith("ccm-from-scratch v")


def test_a_plan_without_settings_says_where_they_are(capsys):
    assert main(["plan"]) == 2
    message = capsys.readouterr().err
    assert "--cloud-provider cannot be empty" in message
    assert "--settings-from=deployment/NAMESPACE/NAME reads these settings" in message


@pytest.mark.parametrize(("run", "dry"), [(command.main, "false"), (plan_command.main, "true")])
@pytest.mark.parametrize(("arguments", "flag"), [([], "true"), (["--mass-deletion-breaker=false"], "false")])
def test_the_cloud_gets_its_arguments(monkeypatch, run, dry, arguments, flag):
    seen = []

    def open_spy(environment, **_):
        seen.append(environment)
        raise ConfigurationError(["enough"])

    monkeypatch.setitem(clouds.BUILT_IN, "spy", "spy_cloud:open_spy")
    monkeypatch.setitem(sys.modules, "spy_cloud", SimpleNamespace(open_spy=open_spy))
    given = {"CCM_MASS_DELETION_BREAKER": "maybe", "CCM_DRY_RUN": "maybe", "OTHER": "x"}
    assert run(["--cloud-provider=spy", *arguments], given) == 2
    assert seen == [{"CCM_MASS_DELETION_BREAKER": flag, "CCM_DRY_RUN": dry, "OTHER": "x"}]


async def test_the_lease_and_reviews_do_not_queue_with_the_work():
    """Whoever asks for metrics with unknown tokens would have all that we do wait, the lease too."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as server, AsyncExitStack() as stack, asyncio.timeout(60):
        flags = parsed(f"--master={server.make_url('')}", "--kube-api-qps=0.001", "--kube-api-burst=1")
        connections = await command._connect(flags, {}, Metrics("0"), stack)
        await connections.work.get("/api/v1/nodes/a", Node)
        waiting = asyncio.create_task(connections.work.get("/api/v1/nodes/a", Node))
        for _ in range(5):
            for one in (connections.lease, connections.authentication, connections.authorization):
                await one.get("/api/v1/nodes/a", Node)
        assert not waiting.done()
        waiting.cancel()
