import re
from typing import Any

from cloud_emulator import Emulator, Start

from hetzner_emulator.resources.certificates.pem import issue


def uploaded(**more: Any) -> dict[str, Any]:
    chain, key = issue(["example.com", "www.example.com"], 1_700_000_000)
    return {"name": "cert", "certificate": chain, "private_key": key, **more}


async def test_uploading(emulator: Emulator):
    answer = await emulator.ok("POST", "/certificates", uploaded(labels={"a": "b"}))
    certificate = answer["certificate"]
    assert answer["action"] is None
    assert certificate["type"] == "uploaded"
    assert certificate["status"] is None
    assert certificate["domain_names"] == ["example.com", "www.example.com"]
    assert certificate["not_valid_before"] == "2023-11-14T22:13:20Z"
    assert re.fullmatch("[0-9A-F]{2}(:[0-9A-F]{2}){31}", certificate["fingerprint"])
    assert "private_key" not in certificate


async def test_a_managed_certificate_is_issued_after_a_while(start: Start):
    emulator = await start(certificate_seconds=0.05)
    body = {"name": "cert", "type": "managed", "domain_names": ["example.com"]}
    answer = await emulator.ok("POST", "/certificates", body)
    assert (answer["action"]["command"], answer["action"]["status"]) == ("create_certificate", "running")
    certificate = answer["certificate"]
    assert (certificate["status"]["issuance"], certificate["certificate"]) == ("pending", None)
    path, action = f"/certificates/{certificate['id']}", answer["action"]["id"]
    await emulator.official(lambda client: client.actions.get_by_id(action).wait_until_finished())
    shown = await emulator.get(path)
    assert shown["status"] == {"issuance": "completed", "renewal": "unavailable", "error": None}
    assert shown["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    await emulator.deny("unsupported_error", f"{path}/actions/retry")


async def test_a_failed_issuance_can_be_retried(emulator: Emulator):
    made = await emulator.make("/certificates", name="c", type="managed", domain_names=["nobody.invalid"])
    status = (await emulator.get(made.path))["status"]
    assert (status["issuance"], status["error"]["code"]) == ("failed", "dns_zone_not_found")
    retried = (await emulator.ok("POST", f"{made.path}/actions/retry"))["action"]
    assert (retried["command"], retried["error"]["code"]) == ("issue_certificate", "dns_zone_not_found")
    assert len(await emulator.get(f"{made.path}/actions")) == 2
