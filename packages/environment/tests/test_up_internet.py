from io import StringIO

import pytest
from rich.console import Console

from sandbox.commands.up import tell_what_refuses
from sandbox.console import Steps


@pytest.mark.parametrize("chains", [[], ["ip filter FORWARD"]])
def test_the_hosts_firewall_is_named_with_a_remedy(site, chains):
    screen = StringIO()
    tell_what_refuses(site, chains, Steps(Console(file=screen, width=200)))
    said = screen.getvalue()
    assert ("ip filter FORWARD" in said) is bool(chains)
    assert (f"iptables -I FORWARD -i cfs{site.id} -j ACCEPT" in said) is bool(chains)
