import os
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.errors import ConfigurationError
from ccm.hetzner import open_cloud
from ccm.hetzner.settings import VARIABLES, read
from ccm.hetzner.settings.kinds import parse_seconds

TOKEN = "t" * 64
MINIMAL = {"HCLOUD_TOKEN": TOKEN}


def problems(**environment: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as error:
        read(MINIMAL | environment)
    return error.value.problems


@pytest.mark.parametrize("token", ["t" * 63 + "\u20ac", "two words", "two\nlines", "\x00" * 64])
def test_a_token_that_no_header_can_have(token: str) -> None:
    [problem] = problems(HCLOUD_TOKEN=token)
    assert problem.startswith("HCLOUD_TOKEN: contains spaces")
    assert token not in problem


def test_defaults() -> None:
    settings = read(MINIMAL)
    assert settings.token.value == TOKEN
    assert settings.endpoint == "https://api.hetzner.cloud/v1"
    assert (settings.debug, settings.metrics_enabled, settings.metrics_address) == (False, None, ":8233")
    network, instances = settings.network, settings.instances
    assert (network.name_or_id, network.attached_check, network.routes) == ("", True, False)
    assert (instances.address_family, instances.zone_label, instances.max_age) == ("ipv4", True, None)
    robot = settings.robot
    assert (robot.enabled, robot.cache_timeout, robot.rate_limit_wait) == (False, 300.0, 0.0)
    assert robot.forward_internal_ips
    balancers = settings.load_balancers
    assert balancers.enabled
    assert balancers.disable_public_network is None
    assert balancers.uses_proxyprotocol is None
    assert balancers.health_check_interval is None
    assert settings.warnings == ()


CACHE, BALANCERS = "HCLOUD_SERVER_CACHE_", "HCLOUD_LOAD_BALANCERS_"


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("HCLOUD_NETWORK", " net ", "network.name_or_id", "net"),
        ("HCLOUD_NETWORK", "net", "network.routes", True),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "1", "network.attached_check", False),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "only read with a network", "network.routes", False),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "F", "instances.zone_label", False),
        ("HCLOUD_INSTANCES_COPY_LABELS", "team, stage,", "instances.copied_labels", {"team", "stage"}),
        (CACHE + "MAX_AGE", "1m30s", "instances.max_age", 90.0),
        (CACHE + "MAX_AGE", "-1s", "instances.max_age", 0.0),
        (CACHE + "MODE", "one", "instances.max_age", None),
        (CACHE + "MODE", "off", "instances.max_age", 0.0),
        ("ROBOT_CACHE_TIMEOUT", "0", "robot.cache_timeout", 300.0),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "-1s", "robot.rate_limit_wait", 0.0),
        (
            BALANCERS + "ALGORITHM_TYPE",
            " Least_CONNECTIONS",
            "load_balancers.algorithm_type",
            "least_connections",
        ),
        (BALANCERS + "DISABLE_PUBLIC_NETWORK", "false", "load_balancers.disable_public_network", False),
        (BALANCERS + "USES_PROXYPROTOCOL", "TRUE", "load_balancers.uses_proxyprotocol", True),
        *(
            (f"{BALANCERS}HEALTH_CHECK_{name.upper()}", text, f"load_balancers.health_check_{name}", value)
            for name, text, value in (
                *(("interval", "5s", 5.0), ("timeout", "3", 3.0), ("retries", "2", 2)),
                *(("interval", "0", None), ("timeout", "0s", None), ("retries", "0", None)),
            )
        ),
    ],
)
def test_what_a_variable_sets(variable: str, text: str, field: str, value: object) -> None:
    settings = read(MINIMAL | {variable: text})
    assert (attrgetter(field)(settings), settings.warnings) == (value, ())


def test_all_problems_are_reported_together() -> None:
    found = problems(
        HCLOUD_DEBUG="perhaps",
        HCLOUD_INSTANCES_ADDRESS_FAMILY="ipv5",
        HCLOUD_SERVER_CACHE_MODE="some",
        HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL="soon",
        HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES="two",
        HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE="10.0.0.0/33",
        HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE="random",
        HCLOUD_ENDPOINT="api.hetzner.cloud",
    )
    assert len(found) == 8
    assert "HCLOUD_INSTANCES_ADDRESS_FAMILY: 'ipv5' is not ipv4 or ipv6 or dualstack" in found


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "HCLOUD_TOKEN_FILE: .*No such file"), ("\n", "HCLOUD_TOKEN_FILE: the file is empty")],
)
def test_a_token_is_needed(tmp_path: Path, content: str | None, problem: str) -> None:
    with pytest.raises(ConfigurationError, match="HCLOUD_TOKEN: not set"):
        read({})
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=f"^{problem}"):
        read({"HCLOUD_TOKEN_FILE": str(path)})


def test_a_short_token_is_only_a_warning_and_never_shown() -> None:
    settings = read({"HCLOUD_TOKEN": "short-secret"})
    assert settings.warnings == ("HCLOUD_TOKEN has 12 characters, but a token has 64 characters",)
    assert "short-secret" not in repr(settings)


def test_a_token_from_a_file_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f" {TOKEN}\n")
    token = read({"HCLOUD_TOKEN_FILE": str(path)}).token
    assert token.value == TOKEN
    (tmp_path / "new").write_text("n" * 64)
    (tmp_path / "new").rename(path)
    assert token.value == "n" * 64
    path.unlink()
    assert token.value == "n" * 64, "a file that vanishes for a moment takes nothing away"
    path.write_text("")
    assert token.value == "n" * 64
    path.write_text("l" * 64)
    assert token.value == "l" * 64


def test_a_token_that_is_written_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """Writing empties the file first, and both may have the same modification time."""
    path = tmp_path / "token"
    path.write_text(TOKEN)
    token = read({"HCLOUD_TOKEN_FILE": str(path)}).token
    path.write_text("")
    os.utime(path, ns=(1, 1))
    assert token.value == TOKEN
    path.write_text("n" * 64)
    os.utime(path, ns=(1, 1))
    assert token.value == "n" * 64


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE": "eu-central"},
            "only one",
        ),
        ({"ROBOT_ENABLED": "true", "ROBOT_USER": "me"}, "set both or neither"),
        ({"ROBOT_ENABLED": "true", "ROBOT_PASSWORD": "x"}, "set both or neither"),
        ({"ROBOT_ENABLED": "true", "HCLOUD_NETWORK": "n"}, "routes don't work with Robot"),
    ],
)
def test_contradictions(environment: dict[str, str], expected: str) -> None:
    (problem,) = problems(**environment)
    assert expected in problem


def test_robot_with_a_network_but_without_routes() -> None:
    environment = {"ROBOT_ENABLED": "true", "HCLOUD_NETWORK": "n", "HCLOUD_NETWORK_ROUTES_ENABLED": "false"}
    settings = read(MINIMAL | environment | {"ROBOT_USER": "me", "ROBOT_PASSWORD": "geheim"})
    assert settings.robot.enabled
    assert "geheim" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90), ("250ms", 0.25), ("-5s", -5), ("15", 15), ("0", 0), ("-5", -5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5 s", "5x", "1s5", "+-5s", "µs", "٣s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration like 30s or 5m"):
        parse_seconds(text)


@given(st.dictionaries(st.sampled_from([one.name for one in VARIABLES]), st.text(max_size=20)))
def test_no_environment_ends_in_another_error(environment: dict[str, str]) -> None:
    try:
        read(environment)
    except ConfigurationError as error:
        texts = error.problems
    else:
        texts = ("nothing",)
    assert all(texts)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("INTERVAL", "2m", "120 is not 3 to 60 seconds"), ("INTERVAL", "-5s", "-5 is not 3 to 60 seconds"),
        ("TIMEOUT", "100ms", "0.1 is not 1 to 60 seconds"), ("RETRIES", "9", "9 is not 1 to 5"),
        ("RETRIES", "-1", "-1 is not 1 to 5"),
    ],
)  # fmt: skip
def test_health_checks_that_the_api_would_refuse_are_left_out(name: str, value: str, expected: str) -> None:
    variable = f"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_{name}"
    settings = read(MINIMAL | {variable: value})
    [warning] = settings.warnings
    assert warning.startswith(f"{variable}: {expected}. The value is ignored")
    assert getattr(settings.load_balancers, f"health_check_{name.lower()}") is None


def test_private_addresses_without_a_network_are_odd_and_no_reason_to_stop() -> None:
    settings = read(MINIMAL | {"HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP": "true"})
    assert settings.load_balancers.use_private_ip
    assert "requires HCLOUD_NETWORK" in settings.warnings[0]


@pytest.mark.parametrize("address", ["localhost", ":port", ":99999", ":"])
def test_an_address_for_metrics_that_is_none_is_no_reason_to_stop(address: str) -> None:
    settings = read(MINIMAL | {"HCLOUD_METRICS_ADDRESS": address, "HCLOUD_METRICS_ENABLED": "true"})
    assert f"HCLOUD_METRICS_ADDRESS: {address!r} isn't an address" in settings.warnings[0]
    assert (
        open_cloud(MINIMAL | {"HCLOUD_METRICS_ADDRESS": address}, provider="hcloud")._metrics_server is None
    )
