"""Scripts that give servers without a public address access to the Internet by NAT.

Hetzner routes packets that leave a network to the server of the network's route 0.0.0.0/0. The other servers
need a default route to the network's first address, which DHCP does not set
(https://community.hetzner.com/tutorials/how-to-set-up-nat-for-cloud-networks).

The MTU of the private interfaces is 1450. TCP needs no MSS clamping: it sends no segments that are larger
than its interface allows (RFC 9293, 3.7.1). Senders of larger datagrams get an ICMP error.
"""

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
Description=Restores the default route through the private network

[Timer]
OnBootSec=10
OnUnitInactiveSec=15
AccuracySec=5

[Install]
WantedBy=timers.target
"""


def gateway_of(network: IPv4Network) -> str:
    """The address of a Hetzner network's gateway: the first one."""
    return str(network[1])


def private_script(network: IPv4Network) -> str:
    """For a server without a public address: sets its default route and name servers. It is idempotent.

    A timer restores the route: systemd-networkd removes unknown routes when it restarts, as after an update,
    and Ubuntu and Debian configure interfaces differently. Any other default route stays.

    The name servers are for a server that has none. Only then systemd-resolved uses those of FallbackDNS, and
    writes them to the file that k3s gives to Pods (resolved.conf(5), manager_compile_dns_servers in systemd).
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
  printf '{"".join(f"nameserver {address}{chr(92)}n" for address in RESOLVERS)}' >> /etc/resolv.conf
fi
"""


def nat_script(network: IPv4Network) -> str:
    """For the NAT server: forwards packets of the network with its own address. It is idempotent.

    It uses nftables and installs it if the image lacks it. It forwards no new connections from outside.
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
