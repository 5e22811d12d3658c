"""What a Service may cost does not depend on what its owner writes into it. Work is counted, not timed.

The API server takes 256 KiB of annotations, and as many ports as fit into an object of 1.5 MiB
(https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/, etcd's request limit).
"""

import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

from desired_cases import NO_DEFAULTS
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import ServicePort, ServiceView
from ccm.hetzner.load_balancers.desired.decision import InvalidAnnotations
from ccm.hetzner.load_balancers.desired.listener_choice import wanted_listeners
from ccm.hetzner.load_balancers.service_annotations import MAX_ANNOTATIONS_LENGTH, PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import KEYS, PORT_KEYS
from ccm.hetzner.load_balancers.spec.load_balancer_spec import MAX_PORTS, read
from ccm.hetzner.load_balancers.spec.selector import MAX_CONDITIONS
from ccm.hetzner.load_balancers.spec.values import MAX_ITEMS

LIMIT = 256 * 1024
looks: Counter[str] = Counter()


class Text(str):
    """A value that counts how often it is looked at; whatever is made of it counts no more."""

    __slots__ = ()

    def strip(self, *arguments: Any) -> str:
        looks[str(self)[:40]] += 1
        return super().strip(*arguments)

    def __format__(self, spec: str) -> str:
        raise AssertionError("a value goes into no message uncut")


def long(pattern: str, length: int) -> str:
    return (pattern * (1 + length // len(pattern)))[:length]


values = st.builds(
    long,
    st.sampled_from(
        [
            "a.example.com,",
            ",",
            "x",
            "a=b,",
            "!a,",
            "a in (b),",
            " ",
            "9",
            "200,",
            "(",
            "\x00",
            "ü,",
            "-.",
            "*.",
            "²",
            "١٢",
            "1e9s",
            "a=b,c in (d",
            "0.0.0.0/0",
            "true",
            "managed",
            "https",
        ]
    ),
    st.sampled_from([1, 40, 3_000, MAX_ANNOTATIONS_LENGTH - 200, 250_000]),
)
keys = st.one_of(
    st.sampled_from(sorted(KEYS)),
    st.builds(
        "port.{}.{}".format, st.integers(-1, 70_000) | st.just("9" * 50), st.sampled_from(sorted(PORT_KEYS))
    ),
    st.text("abc-.0", min_size=1, max_size=60),
)
managed = {"protocol": "https", "certificate-type": "managed"}
ports = st.sampled_from([1, 200, 2768, 40_000])


@st.composite
def services(draw: Any) -> ServiceView:
    """As large as the API server takes: one long value, or thousands of short ones."""
    usual: list[dict[str, str]] = [{}, managed, {"protocol": "https"}, {"health-check-protocol": "http"}]
    chosen = {**draw(st.sampled_from(usual))}
    chosen |= draw(st.dictionaries(keys, values, max_size=5))
    if draw(st.booleans()):
        many = draw(st.integers(0, 6000))
        key = draw(st.sampled_from(sorted(PORT_KEYS)))
        chosen |= {f"port.{number}.{key}": draw(values)[:6] for number in range(1, 1 + many // 100)}
        chosen |= {f"port.{number}.x": "y" for number in range(1, many)}
    annotations: dict[str, str] = {}
    room = LIMIT
    for key, text in chosen.items():
        room -= len(PREFIX + key) + len(text.encode())
        if room < 0:
            break
        annotations[PREFIX + key] = Text(text)
    protocol = draw(st.sampled_from(["TCP", "UDP"]))
    several = tuple(ServicePort(number, 30_000, protocol) for number in range(1, 1 + draw(ports)))
    return ServiceView("shop", "web", "uid", annotations, several, source_ranges=("10.0.0.0/8",) * 1000)


@given(services())
def test_what_is_read_is_bounded_and_looked_at_once(service: ServiceView) -> None:
    looks.clear()
    found = read(service, NO_DEFAULTS, network=True)
    assert all(number <= service_count(service, text) for text, number in looks.items())
    assert len(found.ports) <= MAX_PORTS
    assert all(name in problem for name, problem in found.problems.items())
    assert found.service is service
    without = replace(found, service=replace(service, annotations={}, ports=()))
    assert len(pickle.dumps(without)) < 4 * MAX_ANNOTATIONS_LENGTH  # shared parts count once
    assert len(found.nodes.requirements) <= MAX_CONDITIONS
    for port in found.ports.values():
        assert len(port.certificates.domains) <= MAX_ITEMS
        assert len(port.certificates.uploaded) <= MAX_ITEMS
    assert len(str(InvalidAnnotations([*found.problems.values(), *found.warnings.values()]))) < 20_000
    _, notices = wanted_listeners(found.service.ports, found.ports, {})
    assert all(len(notice.message) < 2_000 for notice in (*found.unsupported, *notices))


def service_count(service: ServiceView, text: str) -> int:
    return sum(str(value)[:40] == text for value in service.annotations.values())
