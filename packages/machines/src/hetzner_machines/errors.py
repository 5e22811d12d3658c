"""Errors of the machines room: each is a BackendError whose text says what to do.

BackendError
├── CommandFailed     a program that we ran ended with an error
├── Unavailable       machines can't run here at all
├── NotPermitted      the kernel refused something
├── AddressesInUse    the host already uses the range of public addresses
├── NoWayOut          the host does not reach the Internet itself
├── DiskFull          no space left where machines keep their disks
├── InotifyExhausted  the kernel's limit doesn't allow one more machine
├── UnknownMachine    no machine of that id was created
├── UnknownNetwork    no network of that id was made
├── VolumeBusy        a volume is mounted or open
└── StillThere        something of ours could not be removed
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path

from hetzner_emulator.backend import BackendError


class CommandFailed(BackendError):
    """A program that we ran ended with an error.

    Attributes:
        command: Its name and arguments.
        status: Exit status; negative for a signal.
        output: The last lines that it printed.
    """

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.command, self.status, self.output = tuple(command), status, output
        super().__init__(f"'{' '.join(command)}' ended with {status}: {output.strip()[-500:]}")


class Unavailable(BackendError):
    """Machines can't run here at all."""


class NotPermitted(BackendError):
    """The kernel refused something that machines need.

    Attributes:
        what: What was tried, in words.
        reason: What the kernel said.
    """

    def __init__(self, what: str, error: OSError) -> None:
        self.what, self.reason = what, error.strerror or str(error)
        super().__init__(f"could not {what}: {self.reason}; './dev doctor' tells what machines need")


class AddressesInUse(BackendError):
    """The host already uses the range of public addresses.

    Attributes:
        public_range: The range that we were given.
        user: What has it, in the host's words.
    """

    def __init__(self, public_range: IPv4Network, user: str) -> None:
        self.public_range, self.user = public_range, user
        super().__init__(
            f"the range {public_range} for the servers' public addresses is already in use on this host "
            f"({user}); run './dev down --force' in the clone that uses it, or remove that route or address"
        )


class NoWayOut(BackendError):
    """Machines shall get out through the host, and it has no way itself.

    Attributes:
        reason: What is in the way, in words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"--internet: machines can't get out through this host: {reason}")


class DiskFull(BackendError):
    """No space left where machines keep their disks.

    Attributes:
        path: A folder on that file system.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"no space left on the disk of {path}; free some (see 'df -h {path}') and try again")


class InotifyExhausted(BackendError):
    """The kernel's limit doesn't allow one more machine.

    Attributes:
        needed: How many inotify instances one more machine needs, with what others will still take.
        free: How many of them our user can have now.
        remedy: The command that allows more.
    """

    def __init__(self, needed: int, free: int, remedy: str) -> None:
        self.needed, self.free, self.remedy = needed, free, remedy
        super().__init__(
            f"one more machine needs {needed} inotify instances and the host has {free} left for this user; "
            f"delete a server, or allow more with: {remedy}"
        )


class UnknownMachine(BackendError):
    """No machine of that id was created.

    Attributes:
        server_id: The id.
    """

    def __init__(self, server_id: int) -> None:
        self.server_id = server_id
        super().__init__(f"server {server_id} has no machine; delete the server and create it again")


class UnknownNetwork(BackendError):
    """A server shall be in a network that was never made.

    Attributes:
        server_id: The server.
        network_id: The network.
    """

    def __init__(self, server_id: int, network_id: int) -> None:
        self.server_id, self.network_id = server_id, network_id
        super().__init__(f"server {server_id} is in network {network_id}, which was never made; detach it")


class VolumeBusy(BackendError):
    """A volume is mounted or open.

    Attributes:
        volume_id: The volume.
    """

    def __init__(self, volume_id: int) -> None:
        self.volume_id = volume_id
        super().__init__(f"volume {volume_id} is in use on its server: unmount it there first")


class StillThere(BackendError):
    """Something of ours could not be removed.

    Attributes:
        what: Each thing, in words.
    """

    def __init__(self, what: Sequence[str]) -> None:
        self.what = tuple(what)
        super().__init__(
            "could not remove " + ", ".join(what) + "; end what uses it and run './dev down --force'"
        )
