"""How servers without a public address reach the Internet: scripts for them, and for the one that leads them.

Hetzner routes what leaves a network to the server that the network's route 0.0.0.0/0 names; the others need a
default route to the network's first address, which its DHCP does not give
(https://community.hetzner.com/tutorials/how-to-set-up-nat-for-cloud-networks).

No packet has to be made smaller. The private interfaces have an MTU of 1450, and TCP takes no larger segments
than fit into that of its own interface (RFC 9293, 3.7.1); whoever sends larger datagrams is told.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from .probe import unmask

EVERYWHERE = "0.0.0.0/0"
"""Destination of the network's route."""
RESOLVERS = ("185.12.64.1", "185.12.64.2")
"""Hetzner's: https://docs.hetzner.com/dns-console/dns/general/recursive-name-servers"""

_ROUTE = "default-route-of-private-network"
_NAT = "nat-of-private-network"
_ROUTE_SERVICE = f"""\
[Unit]
Description=Default route through the private network
Wants=network-online.target
After=network-online.target
Before=k3s.service k3s-agent.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/{_ROUTE}
LogLevelMax=notice

[Install]
WantedBy=multi-user.target
"""
_ROUTE_TIMER = """\
[Unit]
Description=Looks after the default route through the private network

[Timer]
OnBootSec=10
OnUnitInactiveSec=15
AccuracySec=5

[Install]
WantedBy=timers.target
"""


def gateway_of(network: IPv4Network) -> str:
    """The address of a network at Hetzner that routes for its members: the first one."""
    return str(network[1])


def private_script(network: IPv4Network) -> str:
    """For a server without a public address: its default route and name servers; it may run again.

    A timer gives the route again where it is gone: systemd-networkd removes routes that it does not know when
    it starts anew, as with an update, and what configures an interface differs between Ubuntu and Debian. A
    default route of somebody else's stays.

    Name servers are for a server that has none: then alone systemd-resolved asks those of FallbackDNS, and
    names them in the file that k3s gives to Pods (resolved.conf(5), manager_compile_dns_servers in systemd).
    """
    return f"""set -eu
umask 022
cat > /usr/local/sbin/{_ROUTE} <<'END'
#!/bin/sh
[ -z "$(ip -4 route show default)" ] || exit 0
exec ip -4 route add default via {gateway_of(network)}
END
chmod 755 /usr/local/sbin/{_ROUTE}
{unmask(f"{_ROUTE}.service")}
cat > /etc/systemd/system/{_ROUTE}.service <<'END'
{_ROUTE_SERVICE}END
{unmask(f"{_ROUTE}.timer")}
cat > /etc/systemd/system/{_ROUTE}.timer <<'END'
{_ROUTE_TIMER}END
systemctl daemon-reload
systemctl enable --quiet {_ROUTE}.service {_ROUTE}.timer
systemctl restart {_ROUTE}.timer
n=0
until systemctl start {_ROUTE}.service; do
  n=$((n + 1))
  [ "$n" -lt 60 ] || {{ journalctl -u {_ROUTE} -n 5 --no-pager -o cat >&2; exit 1; }}
  sleep 1
done
if [ -d /run/systemd/resolve ]; then
  mkdir -p /etc/systemd/resolved.conf.d
  printf '[Resolve]\\nFallbackDNS={" ".join(RESOLVERS)}\\n' > /etc/systemd/resolved.conf.d/50-{_ROUTE}.conf
  systemctl restart systemd-resolved
elif ! grep -qs '^nameserver' /etc/resolv.conf; then
  printf '{"".join(f"nameserver {one}{chr(92)}n" for one in RESOLVERS)}' >> /etc/resolv.conf
fi
"""


def nat_script(network: IPv4Network) -> str:
    """For the server that leads the others: it forwards for them, in its own name; it may run again.

    By nftables, which is installed where an image lacks it. Only they may begin something: nothing from
    outside is led in.
    """
    return f"""set -eu
umask 022
command -v nft >/dev/null || {{ apt-get -qq update && apt-get -qq install -y nftables; }} >&2
cat > /etc/sysctl.d/60-{_NAT}.conf <<'END'
net.ipv4.ip_forward = 1
END
sysctl -q -p /etc/sysctl.d/60-{_NAT}.conf
cat > /etc/{_NAT}.nft <<'END'
table ip {_NAT}
delete table ip {_NAT}
table ip {_NAT} {{
  chain forward {{
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ip saddr {network} ip daddr != {network} accept
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {network} ip daddr != {network} masquerade
  }}
}}
END
{unmask(f"{_NAT}.service")}
cat > /etc/systemd/system/{_NAT}.service <<'END'
[Unit]
Description=Way to the Internet for servers of the private network

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env nft -f /etc/{_NAT}.nft

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --quiet {_NAT}
systemctl restart {_NAT}
"""
