"""A child process that ends with its parent, whatever ends that: its stdin is a pipe from the parent."""

from __future__ import annotations

import os
import threading
from typing import BinaryIO

FAILED = 1


def own_stdin() -> BinaryIO:
    """In a child: the pipe from the parent; what runs in the child reads nothing from it."""
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return pipe


def read_line(pipe: BinaryIO) -> bytes:
    """In a child: the first line that the parent sends; leaves with ``FAILED`` where there is none."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = pipe.read(65536)
        if not chunk:
            os._exit(FAILED)
        line += chunk
    return line


def end_with(pipe: BinaryIO) -> None:
    """In a child: leave at once, with status ``FAILED``, when the parent and so the pipe's end is gone."""

    def work() -> None:
        while pipe.read(4096):
            pass
        os._exit(FAILED)

    threading.Thread(target=work, daemon=True).start()
