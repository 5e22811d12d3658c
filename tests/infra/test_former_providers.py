import pickle
import sys
from pathlib import Path

import pytest

from ccm_pulumi.lib.dynamic import Provider

FORMER = Path(__file__).with_name("former_providers.txt").read_text().split()


@pytest.mark.parametrize("name", FORMER)
def test_the_provider_in_the_state_of_an_earlier_version_is_that_of_today(name, monkeypatch):
    # Pulumi's process imports nothing of ours before it unpickles the first provider
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "infra"]:
        if loaded not in ("infra.__main__", "infra.ccm_image"):
            monkeypatch.delitem(sys.modules, loaded)
    module, _, kind = name.rpartition(".")
    stored = f"c{module}\n{kind}\n.".encode()  # pickle's opcode GLOBAL, and STOP
    provider = pickle.loads(stored)
    assert issubclass(provider, Provider)
    # a copy of the module would not have what ServerPlan keeps in memory for the guards
    assert provider.__module__.startswith(("ccm_pulumi.", "infra.ccm_image"))


def test_a_former_module_has_only_its_former_providers():
    with pytest.raises(AttributeError):
        pickle.loads(b"cinfra.vote\nget_provider\n.")
