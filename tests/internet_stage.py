"""A namespace plays the host, and another one the Internet; no packet leaves this machine."""

import secrets
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path

from hetzner_machines import namespaces
from hetzner_machines.runner import ip, run_blocking

# None of an environment's addresses: those are from ranges for documentation.
HOST, PROVIDER, FAR = "198.19.0.2", "198.19.0.1", "198.19.7.7"
METADATA = "169.254.77.7"  # as a cloud has it, of which the host is a server
BRIDGE, CONTAINER = "172.29.0.1", "172.29.0.2"


class Stage:
    """A host with a default route, a far server behind it, and a container on a bridge of the host."""

    def __init__(self, held: ExitStack) -> None:
        self.host, self.outside = (f"test-{secrets.token_hex(3)}-{role}" for role in ("host", "outside"))
        self._held = held
        for name in (self.host, self.outside):
            namespaces.create(name)
            held.callback(namespaces.delete, name)
        self.ip(
            self.host,
            "link set lo up",
            f"link add wan type veth peer name lan netns {self.outside}",
            f"link add bridge type veth peer name container netns {self.outside}",
            f"addr add {HOST}/24 dev wan",
            f"addr add {BRIDGE}/24 dev bridge",
            "link set wan up",
            "link set bridge up",
            f"route add default via {PROVIDER}",
        )
        self.ip(
            self.outside,
            "link set lo up",
            f"addr add {PROVIDER}/24 dev lan",
            f"addr add {FAR}/32 dev lo",
            f"addr add {METADATA}/32 dev lo",
            f"addr add {CONTAINER}/24 dev container",
            "link set lan up",
            "link set container up",
        )

    def ip(self, namespace: str, *lines: str) -> None:
        run_blocking(ip(namespace, "-batch", "-"), "\n".join(lines) + "\n")

    def as_host(self, work):
        """Run something as if this were the host; threads that it starts are there, too."""
        return namespaces.inside(self.host, work)

    def forwards(self, device: str) -> str:
        setting = Path("/proc/sys/net/ipv4/conf", device, "forwarding")
        return self.as_host(lambda: setting.read_text().strip())

    def tables(self) -> str:
        return self.as_host(lambda: run_blocking(["nft", "list", "tables"]))

    def serve(self, namespace: str) -> None:
        """Tell each who connects as whom it is seen."""
        listening = namespaces.inside(namespace, lambda: socket.create_server(("", 80)))

        def answer() -> None:
            while True:
                try:
                    connection, client = listening.accept()
                except OSError:
                    return
                with connection, suppress(ConnectionError):
                    connection.sendall(client[0].encode())
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):  # whoever asks in words is heard out
                        pass

        self._start(answer, listening)

    def serve_names(self) -> None:
        """Answer every question of the name server at the provider's."""
        udp = namespaces.inside(self.outside, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind((PROVIDER, 53))
        tcp = namespaces.inside(self.outside, lambda: socket.create_server((PROVIDER, 53)))

        def answer_datagrams() -> None:
            while True:
                question, client = udp.recvfrom(512)
                if client is None:  # shut down
                    return
                udp.sendto(question + b" " + client[0].encode(), client)

        def answer_connections() -> None:
            while True:
                try:
                    connection, _ = tcp.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(connection.recv(512) + b" at length")

        self._start(answer_datagrams, udp)
        self._start(answer_connections, tcp)

    def know(self, name: str, address: str, servers: Sequence[str]) -> None:
        """Answer at name servers that one name has an IPv4 address, and that there is no other name."""
        for server in servers:
            place = self.host if ip_address(server).is_loopback else self.outside
            if place == self.outside:
                self.ip(place, f"addr add {server}/32 dev lo")
            listening = namespaces.inside(place, lambda: socket.socket(type=socket.SOCK_DGRAM))
            listening.bind((server, 53))
            self._start(lambda listening=listening: _know(name, address, listening), listening)

    def _start(self, work, listening: socket.socket) -> None:
        def until_closed() -> None:
            with suppress(OSError):
                work()

        threading.Thread(target=until_closed, daemon=True).start()
        self._held.callback(listening.close)
        self._held.callback(_shut, listening)


def _know(name: str, address: str, listening: socket.socket) -> None:
    wanted = b"".join(bytes([len(word)]) + word.encode() for word in name.split(".")) + b"\0"
    while True:
        question, client = listening.recvfrom(512)
        if client is None:  # shut down
            return
        end = question.index(0, 12) + 5  # behind the name are two bytes each of type and class
        known = question[12 : end - 4].lower() == wanted
        found = known and question[end - 4 : end - 2] == b"\0\1"
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(address) if found else b""
        flags = b"\x81\x80" if known else b"\x81\x83"
        counts = b"\0\1" + bytes([0, found]) + bytes(4)
        listening.sendto(question[:2] + flags + counts + question[12:end] + record, client)


def _shut(listening: socket.socket) -> None:
    """Wake up whoever waits at it."""
    with suppress(OSError):  # UDP has no connection to end, and says so
        listening.shutdown(socket.SHUT_RDWR)
