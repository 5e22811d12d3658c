"""Whatever stands in annotations is read without an exception."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import ServicePort, ServiceView
from ccm.hetzner.load_balancers.annotations import PREFIX
from ccm.hetzner.load_balancers.wishes.table import KEYS, PORT_KEYS
from ccm.hetzner.load_balancers.wishes.wishes import read
from ccm.hetzner.settings import environment

NO_DEFAULTS = environment.read({"HCLOUD_TOKEN": "t" * 64}).load_balancers

keys = st.one_of(
    st.sampled_from(sorted(KEYS)),
    st.builds(
        "port.{}.{}".format,
        st.sampled_from(["80", "443", "", "-1", "9" * 50]),
        st.sampled_from(sorted(PORT_KEYS)),
    ),
    st.text(max_size=20),
)
texts = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["true", "managed", "https", "1", "9" * 400, "²", "١٢", "1e9s", "a=b,c in (d", "0.0.0.0/0", "\x00"]
    ),
)


@given(st.dictionaries(keys, texts, max_size=8))
def test_no_text_whatever_raises(annotations: dict[str, str]) -> None:
    prefixed = {PREFIX + key: value for key, value in annotations.items()}
    service = ServiceView("shop", "web", "uid", prefixed, (ServicePort(80, 30080), ServicePort(443, 30443)))
    found = read(service, NO_DEFAULTS, network=True)
    assert found.ports.keys() == {80, 443}
    assert all(name in problem for name, problem in found.problems.items())
