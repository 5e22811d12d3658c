"""A program in the engine whose server is the tests' own SSH server."""

from pathlib import Path

from tests.pulumi_lab import Lab

# Its port is not the usual one.
_PORT = """
import os, asyncssh
real = asyncssh.connect
asyncssh.connect = lambda address, **options: real(address, int(os.environ["SSH_PORT"]), **options)
"""


def lab_of(folder: Path, program: str, server, pair, **environment: str) -> Lab:
    """The program, which finds the SSH keys of both sides in KEY and HOST_KEY.

    Args:
        folder: Where it may write.
        program: Its text.
        server: The fixture: the listener, and its key.
        pair: The fixture: the key that it lets in.
        environment: More of its environment.
    """
    listener, host_key = server
    lab = Lab(folder)
    lab.write("sitecustomize.py", _PORT)
    lab.program(program)
    lab.environment |= environment | {
        "PYTHONPATH": f"{lab.project}:{Path(__file__).parents[2]}",
        "SSH_PORT": str(listener.get_port()),
        "KEY": pair["private_key"],
        "HOST_KEY": host_key,
    }
    return lab
