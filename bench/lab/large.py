"""Services as large as the API server takes, made at random and always the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from ccm.controllers.nodes import LAST_APPLIED
from ccm.hetzner.load_balancers.service_annotations import MAX_ANNOTATIONS_LENGTH, PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import KEYS, PORT_KEYS

# Bytes of all annotations: TotalAnnotationSizeLimitB of k8s.io/apimachinery/pkg/api/validation/objectmeta.go.
LIMIT = 256 * 1024
PORTS = (1, 200, 2768, 40_000)
PATTERNS = ("a.example.com,", ",", "x", "a=b,", "!a,", "a in (b),", " ", "9", "200,", "1.2.3.4/", "-.")
USUAL: tuple[dict[str, str], ...] = (
    {},
    {"protocol": "https"},
    {"protocol": "https", "certificate-type": "managed"},
    {"health-check-protocol": "http"},
)


def services(number: int) -> Iterator[bytes]:
    """Services as the API server would send them."""
    dice = random.Random(20261122)
    for index in range(number):
        # Made elsewhere, so that nothing of it is left for the garbage collector to look through.
        yield _service(dice, index)


def _service(dice: random.Random, index: int) -> bytes:
    # Half of them stay below what is read, for those cost the most.
    room = LIMIT if index % 2 else MAX_ANNOTATIONS_LENGTH
    annotations = annotations_of(dice, room - 200)
    protocol = dice.choice(("TCP", "TCP", "TCP", "UDP"))
    ports = [
        {"name": f"p{port}", "port": port, "nodePort": 30_000 + port % 2768, "protocol": protocol}
        for port in range(1, 1 + PORTS[index % len(PORTS)])
    ]
    metadata = {"namespace": "evil", "name": f"s{index}", "uid": f"u{index}", "annotations": annotations}
    item = {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}}
    return json.dumps({"type": "MODIFIED", "object": item}).encode()


def annotations_of(dice: random.Random, room: int) -> dict[str, str]:
    """Annotations of so many characters, all of them ours."""
    found = {PREFIX + key: value for key, value in dice.choice(USUAL).items()}
    shape = dice.choice(("long", "short", "ports"))
    if shape == "long":
        key = dice.choice(sorted(KEYS))
        pattern = dice.choice(PATTERNS)
        found[PREFIX + key] = (pattern * (1 + room // len(pattern)))[: room - len(key)]
        return found
    for number in range(1, 65_536):
        key = f"port.{number}.{dice.choice(sorted(PORT_KEYS))}" if shape == "ports" else f"helth-{number}"
        value = dice.choice(("https", "true", "5", "a.example.com", "x"))
        room -= len(PREFIX + key) + len(value)
        if room < 0:
            break
        found[PREFIX + key] = value
    return found


def full_of_annotations(dice: random.Random, index: int) -> bytes:
    """A Service with all annotations that the API server takes: ours, or what ``kubectl apply`` left."""
    found = (
        annotations_of(dice, LIMIT - 200) if index % 2 else {LAST_APPLIED: "x" * (LIMIT - len(LAST_APPLIED))}
    )
    return _item(index, found, [{"port": 80, "nodePort": 30_000, "protocol": "TCP"}])


def all_kept(dice: random.Random, index: int) -> bytes:
    """A Service of which as much is kept as of any: short annotations, just not too many, and ports."""
    found: dict[str, str] = {}
    room = MAX_ANNOTATIONS_LENGTH
    while (room := room - len(PREFIX) - 5) >= 0:
        found[f"{PREFIX}{index % 10}{dice.randrange(1000):03}"] = "x"
    ports = [
        {
            "name": f"p{port}",
            "port": port,
            "nodePort": 30_000 + port % 2768,
            "protocol": "TCP",
            "targetPort": port,
        }
        for port in range(1, 2_001)
    ]
    return _item(index, found, ports)


def _item(index: int, annotations: dict[str, str], ports: list[dict[str, object]]) -> bytes:
    metadata = {
        "namespace": "evil",
        "name": f"s{index:06}",
        "uid": f"u{index}",
        "resourceVersion": str(index + 1),
        "annotations": annotations,
    }
    return json.dumps({"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}}).encode()
