"""A fuzzer sends the emulator valid and invalid requests of Hetzner's OpenAPI document.

``./dev bench fuzz`` asks many times as much as a run of all tests does.

No answer may be a server's error or have another status, type or shape than the document says. The document
is Hetzner's and no part of this repository: CCMFS_OPENAPI names it.
"""

import functools
import json
from typing import Any

import pytest
from cloud_emulator import RULE
from cloud_openapi import NEWER, NEWER_ANSWERS, as_it_is_now, description_path

if description_path() is None:  # before schemathesis, which takes seconds to import
    pytest.skip(
        "Hetzner's openapi.json is not at hand; set CCMFS_OPENAPI to its path", allow_module_level=True
    )

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hetzner_emulator.api.registry import OPERATIONS, Operation
from hetzner_emulator.coverage import emulated
from hetzner_emulator.resources import discover

EXAMPLES = 3  # requests of each operation in a run of all tests
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What the HTTP server in front of the API takes in a line; longer ones never get there, as with any gateway.
LONGEST_URL = 8190
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEaQde8iCKizUOiXlowY1iEL1yCufgjb3aiatGQNPcHb"
SUBNET = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.1.0/24"}
ROUTE = {"destination": "10.100.0.0/16", "gateway": "10.0.1.2"}
RRSET = {"name": "www", "type": "A", "records": [{"value": "198.51.100.1", "comment": "web"}]}
PORT = {"protocol": "http", "listen_port": 80, "destination_port": 80}

pytestmark = pytest.mark.slow
discover()
DESCRIBED = sorted(
    (o for o in emulated(OPERATIONS.values()) if (o.method, o.path) not in NEWER),
    key=lambda operation: operation.method,  # those that only read can share a world
)


@functools.cache
def document() -> Any:
    """The document with what Hetzner has changed since, as ``hetzner_emulator.coverage.NEWER`` says."""
    path = description_path()
    assert path is not None, "these tests are skipped without it"
    raw = json.loads(path.read_text(), object_hook=as_it_is_now)
    for (method, template, status), (other_method, other, other_status) in NEWER_ANSWERS.items():
        answers = raw["paths"][template][method.lower()]["responses"]
        answers[status] = raw["paths"][other][other_method.lower()]["responses"][other_status]
        del answers["204"]
    return schemathesis.openapi.from_dict(raw)


@functools.cache
def catalogues(service: Any, base: str) -> dict[str, int]:
    """By resource the id of what every project has from its start; an empty project is asked."""
    found: dict[str, int] = {}
    for name in {operation.path.split("/")[1] for operation in DESCRIBED}:
        answer = service.get(f"{base}/v1/{name}", params={"per_page": 1}, timeout=60)
        entries = answer.json().get(name) if answer.ok else None
        if isinstance(entries, list) and entries:
            found[name] = entries[0]["id"]
    return found


class World:
    """One of each object, as a request may find them."""

    def __init__(self, service: Any, base: str) -> None:
        self._service, self._base = service, base
        service.post(f"{base}/_sandbox/reset", timeout=60).raise_for_status()
        # by resource, such as `servers`; `servers/actions` is that of an action on one
        self.ids = dict(catalogues(service, base))
        self._create()
        self.writes = service.writes  # how many requests the service had by then that may change something

    def _create(self) -> None:
        network = self._make("networks", ip_range="10.0.0.0/8", subnets=[SUBNET], routes=[ROUTE])
        self._make("ssh_keys", public_key=KEY)
        group = self._make("placement_groups", type="spread")
        place = {"location": "fsn1"}
        kind = {"server_type": "cx23", "image": "debian-12", **place}
        server = self._make("servers", networks=[network], placement_group=group, **kind)
        target = {"type": "server", "server": {"id": server}}
        self._make("firewalls", apply_to=[target], rules=[RULE])
        self._make("certificates", type="managed", domain_names=["example.com"])
        kind = {"load_balancer_type": "lb11", "services": [PORT], **place}
        self._make("load_balancers", targets=[target], network=network, **kind)
        self._make("primary_ips", type="ipv4", assignee_type="server", **place)
        self._make("volumes", size=10, server=server)
        self._make("floating_ips", type="ipv4", server=server)
        self._make("zones", name="example.com", mode="primary", rrsets=[RRSET])

    def _make(self, resource: str, **values: Any) -> int:
        url = f"{self._base}/v1/{resource}"
        answer = self._service.post(url, json={"name": "first"} | values, timeout=60)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        self.ids[resource] = made[resource.removesuffix("s")]["id"]
        actions = [made.get("action"), *made.get("actions", []), *made.get("next_actions", [])]
        for action in filter(None, actions):
            self.ids |= {f"{concerned['type']}s/actions": action["id"] for concerned in action["resources"]}
        return self.ids[resource]

    def parameters(self, path: str) -> dict[str, Any]:
        """The ids of objects that there are, for the parameters of a path."""
        resource = path.split("/")[1]
        actions = self.ids.get(f"{resource}/actions", 0)
        if path.endswith("/actions/{id}"):
            return {"id": actions}
        known = {"id": self.ids.get(resource, 0), "action_id": actions}
        if resource == "zones":
            known |= {"id_or_name": str(self.ids["zones"])}
            known |= {"rr_name": RRSET["name"], "rr_type": RRSET["type"]}
        return {name: value for name, value in known.items() if f"{{{name}}}" in path}


@pytest.fixture(scope="module")
def last() -> list[World]:
    return []


@pytest.fixture
def world(service: Any, last: list[World]) -> World:
    """An unchanged world: that of the last test if it only sent GET requests."""
    if not last or last[0].writes != service.writes:
        last[:] = [World(service, service.base)]
    return last[0]


def requests_for(operation: Operation, world: World) -> st.SearchStrategy[schemathesis.Case]:
    """Requests as the document allows and as it forbids them, to objects that there are and to any."""
    described = document()[operation.path][operation.method]
    there = {"path_parameters": parameters} if (parameters := world.parameters(operation.path)) else {}
    return st.one_of(
        described.as_strategy(generation_mode=GenerationMode.POSITIVE, **there),
        described.as_strategy(generation_mode=GenerationMode.NEGATIVE, **there),
        described.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )


@pytest.mark.parametrize("operation", DESCRIBED, ids=lambda operation: operation.name)
def test_every_answer_is_as_described(operation: Operation, service, world, request):
    wanted = request.config.getoption("fuzzed", 0)

    # The same requests in every run. They change the world, so a failure is not made smaller by trying again.
    @settings(
        max_examples=max(EXAMPLES, -(-wanted // len(DESCRIBED))),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests_for(operation, world))
    def judge(case):
        answer = case.call(base_url=f"{service.base}/v1", session=service, headers=dict(service.headers))
        if answer.status_code == 400 and len(answer.request.url) > LONGEST_URL:
            return
        case.validate_response(answer, checks=CHECKS)

    judge()
