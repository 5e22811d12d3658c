import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import CloudError, NotOurs
from ccm.hetzner.provider_id import MachineId, owns, parse

SCHEMES = ["hcloud://", "ccm-from-scratch://"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("number", [1, 42, 2**31, 2**63 - 1])
def test_cloud_servers(scheme: str, number: int) -> None:
    assert parse(f"{scheme}{number}", scheme) == MachineId("cloud", number)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_robot_servers(scheme: str) -> None:
    assert parse("hrobot://321", scheme) == MachineId("robot", 321)


def test_robot_servers_as_they_were_written_once() -> None:
    assert parse("hcloud://bm-321", "hcloud://") == MachineId("robot", 321)
    with pytest.raises(NotOurs):
        parse("hcloud://bm-321", "ccm-from-scratch://")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "text", ["", "abc", "-1", "0", "1 ", " 1", "1.5", "\u0661", str(2**63), "1/2", "9" * 5000, "0" * 19 + "1"]
)
def test_bad_numbers(scheme: str, text: str) -> None:
    with pytest.raises(CloudError) as error:
        parse(scheme + text, scheme)
    assert str(error.value).startswith(f"provider ID {scheme + text!r}: {scheme!r} must be followed by")
    (notice,) = error.value.notices
    assert notice.reason == "InvalidProviderID"
    assert notice.message == f"{error.value}. Delete the Node. Its kubelet then registers a new Node"


@pytest.mark.parametrize("text", ["aws:///eu/i-1", "k3s://x", "openstack://1", "", "hcloud:/1", "HCLOUD://1"])
def test_others_are_not_ours(text: str) -> None:
    assert not owns(text, "hcloud://")
    with pytest.raises(NotOurs) as error:
        parse(text, "hcloud://")
    assert error.value.what == text


@given(text=st.text(), scheme=st.sampled_from(SCHEMES))
def test_any_text_is_read_or_refused(text: str, scheme: str) -> None:
    try:
        parse(text, scheme)
    except CloudError:
        return
    assert owns(text, scheme)
