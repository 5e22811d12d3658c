"""Starts one machine and waits for its end: ``python -m hetzner_machines.guest FILE READY``.

FILE is a :class:`~hetzner_machines.records.Boot` as JSON. The program closes the file descriptor READY when
the guest's init runs, or writes one line with the reason why it doesn't.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from hetzner_machines import libc, processes, records
from hetzner_machines.guest import root

ENVIRONMENT = {
    "container": "ccmfs",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "TERM": "linux",
}
# Changes that would affect the whole host: modules, I/O ports, the clock.
WITHHELD = (libc.CAP_SYS_MODULE, libc.CAP_SYS_RAWIO, libc.CAP_SYS_TIME)


def main() -> None:
    """Run the machine until it ends, and record how."""
    boot, ready = records.read_boot(Path(sys.argv[1])), int(sys.argv[2])
    directory = Path(boot.directory)
    keeper = processes.identify(os.getpid())
    assert keeper is not None, "/proc has no entry for this process, although it is running"
    records.write_json(directory / "run.json", records.Run(keeper, None))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    _join(boot.keeper_cgroup)
    with Path(boot.namespace).open() as namespace:
        libc.setns(namespace.fileno(), libc.CLONE_NEWNET)
    libc.unshare(libc.CLONE_NEWPID)
    failed, failure = os.pipe()  # both ends close at exec: no text means that init runs
    child = os.fork()
    if child == 0:
        os.close(ready)  # otherwise init would keep it open
        _become_guest(boot, failure)
    os.close(failure)
    with os.fdopen(failed) as pipe:
        reason = pipe.read()
    if not reason:
        init = processes.identify(child)
        records.write_json(directory / "run.json", records.Run(keeper, init))
    os.write(ready, json.dumps(reason).encode() if reason else b"")
    os.close(ready)
    _, status = os.waitpid(child, 0)
    records.write(directory / "ended", (reason and f"failed: {reason}") or ending(status))


def _join(cgroup: str) -> None:
    Path(cgroup, "cgroup.procs").write_text("0")


def _become_guest(boot: records.Boot, failure: int) -> None:
    """Turn this process, the first of its PID namespace, into the guest's init. Does not return."""
    try:
        libc.die_with_parent(signal.SIGKILL)
        for hierarchy in boot.hierarchies:
            _join(hierarchy.directory)
        libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWUTS | libc.CLONE_NEWIPC | libc.CLONE_NEWCGROUP)
        root.build(boot)
        for capability in WITHHELD:
            libc.drop_bounding_capability(capability)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if boot.descriptors is not None:
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (boot.descriptors, most))
        # Requests to power off or reboot wait until systemd reads them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {records.POWEROFF_SIGNAL, records.REBOOT_SIGNAL})
        os.execve(boot.init[0], boot.init, ENVIRONMENT)  # noqa: S606
    except OSError as error:
        os.write(failure, f"{error.strerror or error} ({error.filename})".encode())
    os._exit(1)


def ending(status: int) -> str:
    """How a guest ended, from the wait status of its init.

    The kernel ends the init of a PID namespace with SIGHUP when the guest reboots, and with SIGINT when it
    powers off or halts.
    """
    code = os.waitstatus_to_exitcode(status)
    return {-signal.SIGHUP: records.REBOOT, -signal.SIGINT: records.POWEROFF}.get(code, records.KILLED)


if __name__ == "__main__":
    main()
