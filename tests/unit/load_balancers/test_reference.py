from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import reduce
from operator import attrgetter, getitem

import pytest
from balancer_site import BalancerSite
from msgspec.structs import replace as replace_struct
from service_view import UID, view

from ccm.hetzner.api.models import (
    HealthCheck,
    HealthCheckHttp,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerType,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.desired.annotated_settings import annotated_label, choose_settings
from ccm.hetzner.load_balancers.listeners import fields_of
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import ANNOTATED, SERVICE_UID
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import TABLE, HealthCheckSpec, Key, PortSpec
from ccm.hetzner.load_balancers.spec.load_balancer_spec import LoadBalancerSpec, read
from ccm.hetzner.settings import VARIABLES, environment
from tests.annotation_examples import EXAMPLES

MANAGED = {
    "protocol": "https",
    "certificate-type": "managed",
    "http-managed-certificate-domains": "a.example.com",
}
CHECKED = {"health-check-protocol": "http"}
# What has to be set besides, for a key to count.
CONTEXT = {
    "http-redirect-http": {"protocol": "https"},
    "http-certificates": {"protocol": "https"},
    "certificate-type": {"protocol": "https", "http-managed-certificate-domains": "a.example.com"},
    "http-managed-certificate-name": MANAGED,
    "http-managed-certificate-domains": MANAGED,
    "http-managed-certificate-acme-staging": MANAGED,
    "health-check-interval": CHECKED,
    "health-check-timeout": CHECKED,
    "health-check-retries": CHECKED,
    "health-check-http-path": CHECKED,
    "health-check-http-domain": CHECKED,
    "health-check-http-validate-certificate": CHECKED,
    "http-status-codes": CHECKED,
}
NEVER_WRONG = {"http-certificates"}  # any text is a list of names


def spec(key: Key, value: str | None, *, port: bool = False, variable: bool = False) -> LoadBalancerSpec:
    """What is read if a key has a value."""
    annotations = dict(CONTEXT.get(key.name, {}))
    variables = {"HCLOUD_TOKEN": "t" * 64, "HCLOUD_NETWORK": "net"}
    if value is not None and variable:
        variables[f"HCLOUD_LOAD_BALANCERS_{key.variable}"] = value
    elif value is not None:
        annotations[f"port.80.{key.name}" if port else key.name] = value
    settings = environment.read(variables).load_balancers
    found = read(view("web", 80, annotations=annotations), settings, network=True)
    return replace(found, warnings={})


def identity(key: Key) -> str:
    return key.name


@pytest.mark.parametrize("key", TABLE, ids=identity)
def test_the_example_is_accepted_and_has_an_effect(key: Key) -> None:
    found = spec(key, EXAMPLES[key.name])
    assert found.problems == {}
    assert (found != spec(key, None)) is not key.inert


@pytest.mark.parametrize("key", [key for key in TABLE if key.default], ids=identity)
def test_the_default_written_out_changes_nothing(key: Key) -> None:
    assert spec(key, key.default) == spec(key, None if key.name != "http-managed-certificate-domains" else "")


@pytest.mark.parametrize("key", [key for key in TABLE if not key.inert], ids=identity)
def test_what_is_allowed_is_what_the_message_says(key: Key) -> None:
    if key.name in NEVER_WRONG:
        return
    wrong = "x" * 300 if "at most" in key.kind.allowed else "-?-"
    name = f"{PREFIX}{key.name}"
    assert spec(key, wrong).problems[name].endswith(f" is not {key.kind.allowed}")


@pytest.mark.parametrize("key", [key for key in TABLE if key.variable], ids=identity)
def test_the_environment_stands_in(key: Key) -> None:
    from_environment = spec(key, EXAMPLES[key.name], variable=True)
    assert from_environment == spec(key, EXAMPLES[key.name])
    if key.default:
        annotations = dict(CONTEXT.get(key.name, {})) | {key.name: key.default}
        variables = {
            "HCLOUD_TOKEN": "t" * 64,
            "HCLOUD_NETWORK": "net",
            f"HCLOUD_LOAD_BALANCERS_{key.variable}": EXAMPLES[key.name],
        }
        settings = environment.read(variables).load_balancers
        assert read(view("web", 80, annotations=annotations), settings, network=True) == spec(key, None)


@pytest.mark.parametrize("key", [key for key in TABLE if key.port], ids=identity)
def test_a_port_has_its_own(key: Key) -> None:
    assert spec(key, EXAMPLES[key.name], port=True) == spec(key, EXAMPLES[key.name])


@pytest.mark.parametrize("key", [key for key in TABLE if key.setting], ids=identity)
def test_a_setting_is_observed_changed_remembered_and_goes_back(key: Key) -> None:
    """With no code but its row, unless the row names no action."""
    setting = key.setting
    assert setting is not None
    there = LoadBalancer(7, "there")
    asked = spec(key, EXAMPLES[key.name])
    value = asked.settings[setting.name]
    assert setting.value_of(setting.applied(there, value)) == value
    assert asked.asked == {setting.name}
    assert (key.default and key.kind.parse(key.default)) in ("", setting.default)
    assert "-" not in setting.name, "the label separates names by it"
    new = ObservedState(view(), types={name: LoadBalancerType(1, name, 9, 9) for name in ("lb11", "lb21")})
    assert annotated_label(asked, new, frozenset()) == setting.name
    with_ownership = new.after(replace_struct(there, labels={ANNOTATED: setting.name, SERVICE_UID: UID}))
    back = choose_settings(DesiredState("", {}), spec(key, None), with_ownership, frozenset())
    assert back.resets == {setting.name}


@pytest.mark.parametrize("key", [key for key in TABLE if key.setting and key.setting.action], ids=identity)
async def test_a_setting_is_made_changed_and_reset_in_the_cloud(key: Key, site: BalancerSite) -> None:
    setting = key.setting
    assert setting is not None
    value = setting.value(key.kind.parse(EXAMPLES[key.name]))

    async def there() -> object:
        return reduce(getitem, setting.path.split("."), await site.one())

    asked = view(annotations={key.name: EXAMPLES[key.name]})
    made = await site.ensure(asked)
    assert (await there(), len(made.steps)) == (value, 1 if setting.created else 2)
    await site.ensure(view())
    assert await there() == setting.default
    await site.ensure(asked)
    assert await there() == value


def test_every_field_of_a_listener_has_one_key_and_one_place() -> None:
    """Of a new key, the row and the field of ``PortSpec`` or ``HealthCheckSpec`` are all that there is."""
    fields = [key.field.split(".") for key in TABLE if key.field]
    checks = {path[-1] for path in fields if path[0] == "health_check"}
    others = {path[-1] for path in fields} - checks
    assert len(checks | others) == len(fields)
    assert checks == {dataclass_field.name for dataclass_field in dataclass_fields(HealthCheckSpec)} - {
        "protocol",
        "port",
        "chosen",
        "asked",
    }
    assert others == {dataclass_field.name for dataclass_field in dataclass_fields(PortSpec)} - {
        "certificates",
        "check",
        "asked",
    }
    full = HealthCheck("http", http=HealthCheckHttp())
    http = LoadBalancerService("https", 443, 30443, health_check=full, http=ServiceHttp())
    assert fields_of(http).keys() == checks | others
    for path in fields:
        attrgetter(".".join(path))(http)


def test_every_variable_of_load_balancers_is_in_the_table() -> None:
    prefix = "HCLOUD_LOAD_BALANCERS_"
    others = {one.name.removeprefix(prefix) for one in VARIABLES if one.name.startswith(prefix)}
    assert others == {key.variable for key in TABLE if key.variable} | {"ENABLED"}
