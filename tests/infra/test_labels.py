import re

from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.config.labels import cluster_labels, label_value

# As Hetzner's documentation of labels says.
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@given(st.from_regex(r"[A-Za-z0-9_.-]{1,100}", fullmatch=True))
def test_every_name_that_pulumi_takes_for_a_stack_becomes_a_label(name):
    value = label_value(name)
    assert VALUE.fullmatch(value)
    assert value in name
    if len(name) <= 63 and name[0].isalnum() and name[-1].isalnum():
        assert value == name


def test_our_labels_win():
    labels = cluster_labels("shop", "dev", {"team": "a", "cluster": "b"})
    assert labels == {"team": "a", "cluster": "shop", "managed-by": "ccm-from-scratch", "stack": "dev"}
