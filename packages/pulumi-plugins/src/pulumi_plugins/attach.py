"""``python -I -S attach.py SOCKET NAME ENGINE``: a plugin that another process serves (``shared.py``).

The engine starts it for each use of the plugin. It loads nothing, for a fast start.
"""

import json
import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket
from signal import SIG_DFL, SIGINT, signal

_LOOK_SECONDS = 0.1

if __name__ == "__main__":
    signal(SIGINT, SIG_DFL)  # the engine ends its plugins by it, also in the background
    parent = os.getppid()
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.connect(sys.argv[1])
    connection.send(json.dumps({"plugin": sys.argv[2], "engine": sys.argv[-1]}).encode() + b"\n")
    connection.settimeout(_LOOK_SECONDS)
    while os.getppid() == parent:
        try:
            said = connection.recv(4096)
        except TimeoutError:
            continue
        if not said:
            break
        os.write(1, said)
    os._exit(1)
