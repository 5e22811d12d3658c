import shlex
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.api import Api
from sandbox.commands import faults
from sandbox.dev import parse, place
from sandbox.errors import SandboxError
from sandbox.site import open_site
from tests.child_processes import run
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
from pathlib import Path
from sandbox.dev import parse
from sandbox.commands import serve
from sandbox.site import open_site

folder = Path(sys.argv[1])
site = open_site(folder, {"XDG_CACHE_HOME": str(folder)}, list, lambda _: True)
sys.exit(serve.run(site, parse(["serve", "--backend", "records", *sys.argv[2:]])[1]))
"""


@contextmanager
def served(folder: Path, *arguments: str):
    command = [sys.executable, "-c", SCRIPT, str(folder), "--port", str(free_port()), *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child, child.stdout
        finally:
            child.terminate()
            child.wait(60)


def get(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, "it's#mine&100%"])
def test_output_of_serve_in_a_shell(tmp_path, given):
    with served(tmp_path, *(["--token", given] if given else [])) as (_, output):
        address, page, _, *exports = [output.readline().strip() for _ in range(7)]
        read = 'printf "%s\\n%s\\n" "$HCLOUD_ENDPOINT" "$HCLOUD_TOKEN"'
        shell = run(["sh", "-c", "\n".join([*exports, read])], check=True)
        endpoint, token = shell.stdout.splitlines()
        own = open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}, list, lambda _: True).token
        assert token == (given or own)
        assert endpoint in address
        for known in (token, own):  # the clone's own commands go on working
            assert get(f"{endpoint}/servers", known) == 200
            assert get(endpoint.replace("/v1", "/_sandbox/state"), known) == 200
        assert page.endswith("#token=" + urllib.request.quote(token, safe=""))
        assert shlex.split(exports[1]) == ["export", f"HCLOUD_TOKEN={token}"]


@pytest.mark.slow
def test_other_commands_use_serves_port(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with served(tmp_path) as (_, output):
        address = output.readline()
        for name in ("faults", "env", "down"):
            site = place(name, tmp_path)
            assert site.endpoint in address
            assert Api(site.address).admin("GET", "/faults") == {"faults": []}
        faults.run(site, parse(["faults", "add", "path=/servers", "code=locked"])[1])
        with pytest.raises(SandboxError, match="7, 8"):
            faults.run(site, parse(["faults", "remove", "7", "1", "8"])[1])
        assert [each["id"] for each in Api(site.address).admin("GET", "/faults")["faults"]] == [1]


@pytest.mark.slow
def test_a_log_gets_no_token(tmp_path):
    printed = ""
    with served(tmp_path, "--token", "s3cret", "--no-exports") as (child, output):
        printed += output.readline()
        child.terminate()
        printed += output.read()
    assert "Hetzner Cloud API" in printed
    assert "s3cret" not in printed
    assert "token" not in printed
