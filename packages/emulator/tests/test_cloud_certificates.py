from __future__ import annotations

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
    assert answer["action"]["command"] == "create_certificate"
    assert answer["action"]["status"] == "running"
    certificate = answer["certificate"]
    assert certificate["status"]["issuance"] == "pending"
    assert certificate["certificate"] is None
    identity = certificate["id"]
    await emulator.official(
        lambda client: client.actions.get_by_id(answer["action"]["id"]).wait_until_finished()
    )
    shown = await emulator.get(f"/certificates/{identity}")
    assert shown["status"] == {"issuance": "completed", "renewal": "unavailable", "error": None}
    assert shown["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    await emulator.expect("unsupported_error", "POST", f"/certificates/{identity}/actions/retry")


async def test_a_failed_issuance_can_be_retried(emulator: Emulator):
    body = {"name": "cert", "type": "managed", "domain_names": ["nobody.invalid"]}
    answer = await emulator.ok("POST", "/certificates", body)
    assert answer["action"]["error"]["code"] == "dns_zone_not_found"
    identity = answer["certificate"]["id"]
    shown = await emulator.get(f"/certificates/{identity}")
    assert shown["status"]["issuance"] == "failed"
    assert shown["status"]["error"]["code"] == "dns_zone_not_found"
    retried = await emulator.ok("POST", f"/certificates/{identity}/actions/retry")
    assert retried["action"]["command"] == "issue_certificate"
    assert len(await emulator.get(f"/certificates/{identity}/actions")) == 2


async def test_a_certificate_in_use_cannot_be_deleted(emulator: Emulator):
    certificate = (await emulator.ok("POST", "/certificates", uploaded()))["certificate"]
    service = {"protocol": "https", "http": {"certificates": [certificate["id"]]}}
    balancer = await emulator.make(
        "/load_balancers", name="lb", load_balancer_type="lb11", location="fsn1", services=[service]
    )
    await emulator.expect((422, "resource_in_use"), "DELETE", f"/certificates/{certificate['id']}")
    shown = await emulator.get(f"/certificates/{certificate['id']}")
    assert shown["used_by"] == [{"id": balancer["id"], "type": "load_balancer"}]
    await emulator.ok("DELETE", f"/load_balancers/{balancer['id']}")
    await emulator.ok("DELETE", f"/certificates/{certificate['id']}")
