from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.errors import InvalidInput
from hetzner_emulator.resources.load_balancers.rules import read_service
from hetzner_emulator.wire.fields import Fields

ports = st.integers(1, 65535)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
checks = st.fixed_dictionaries(
    {},
    optional={
        "protocol": st.sampled_from(["tcp", "http"]),
        "port": ports,
        "interval": st.integers(10, 60),
        "timeout": st.integers(1, 10),
        "retries": st.integers(1, 5),
        "http": st.fixed_dictionaries(
            {},
            optional={
                "path": st.just("/healthz"),
                "domain": st.none() | st.just("a.de"),
                "tls": st.booleans(),
            },
        ),
    },
)
http = st.fixed_dictionaries(
    {"certificates": st.lists(st.integers(1, 9), min_size=1, max_size=2)},
    optional={
        "sticky_sessions": st.booleans(),
        "cookie_name": st.just("C"),
        "cookie_lifetime": st.integers(30, 86400),
        "timeout_idle": st.integers(30, 300),
        "redirect_http": st.booleans(),
    },
)
services = st.fixed_dictionaries(
    {
        "protocol": st.sampled_from(["tcp", "http", "https"]),
        "listen_port": ports,
        "destination_port": ports,
        "http": http,
    },
    optional={"proxyprotocol": st.booleans(), "health_check": checks},
)


def read(body: Any, present: dict[str, Any] | None = None) -> dict[str, Any]:
    fields = Fields(body)
    service = read_service(fields, present)
    fields.check()
    return service


@given(services, services)
def test_a_complete_update_equals_the_new_service(before, after):
    wanted = read({**after, "listen_port": before["listen_port"]})
    assert read(wanted, read(before)) == wanted


@given(services)
def test_the_service_has_the_requested_values_also_if_it_is_decoded_again(body):
    service = read(body)
    assert read(service) == service
    assert read({"listen_port": service["listen_port"]}, service) == service
    for name in ("protocol", "listen_port", "destination_port"):
        assert service[name] == body[name]
    for name, value in body.get("health_check", {}).items():
        if name != "http":
            assert service["health_check"][name] == value
    assert ("http" in service) is (body["protocol"] != "tcp")
    assert ("http" in service["health_check"]) is (service["health_check"]["protocol"] == "http")


@given(st.dictionaries(st.sampled_from(["protocol", "listen_port", "health_check", "http"]), json_values))
def test_any_json_is_a_service_or_an_error(body):
    try:
        service = read(body)
    except InvalidInput as error:
        assert error.fields  # noqa: PT017  the error is as good an outcome as the service
    else:
        assert read(service) == service
