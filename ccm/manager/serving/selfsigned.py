"""A certificate for localhost, made when none was given, as upstream does. Its key never touches a disk.

Python has no function for that, and the ``cryptography`` package costs 14 MiB of memory (RSS) for one use.
But OpenSSL is there anyway, below the ``ssl`` module; the program ``openssl`` next to this file calls it
through ctypes, in a child process: what goes wrong there can't take the manager with it, and its memory is
freed.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ccm.errors import ConfigurationError

_PROGRAM = Path(__file__).with_name("openssl.py")
_TIMEOUT = 20.0
_END_OF_KEY = b"-----END PRIVATE KEY-----\n"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def make_certificate() -> Certificate:
    """A new certificate for localhost, good for a year.

    Raises:
        ConfigurationError: It could not be made.
    """
    command = [sys.executable, "-I", "-S", str(_PROGRAM)]
    try:
        # The child sees nothing of our environment: there are tokens in it.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError) as error:
        problem = (
            "no certificate could be made for the health and metrics server, since OpenSSL 3 is not there as "
            "a shared library; give --tls-cert-file and --tls-private-key-file, or --secure-port=0"
        )
        raise ConfigurationError([problem]) from error
    key, end, certificate = done.stdout.partition(_END_OF_KEY)
    return Certificate(certificate, key + end)


def load_from_memory(context: ssl.SSLContext, made: Certificate) -> None:
    """Have a context use a certificate that is in no file: ``ssl`` reads only files, so a nameless one."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, made.key + made.certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
