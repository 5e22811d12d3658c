"""k3s's annotations about a node's start: arguments and environment without secrets, and their hash."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence

_HIDDEN = "********"
_SECRETS = frozenset(
    {
        "--token",
        "-t",
        "--agent-token",
        "--datastore-endpoint",
        "--etcd-s3-access-key",
        "--etcd-s3-secret-key",
    }
)


def node_arguments(words: Sequence[str]) -> list[str]:
    """The command line (``server`` or ``agent``, flags of the file, others), flags and values separate."""
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("-") else [word])]
    return [
        _HIDDEN if before in _SECRETS else part for before, part in zip(["", *parts], parts, strict=False)
    ]


def node_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """k3s's variables; values of tokens are hidden, names of their files are not."""
    return {
        name: _HIDDEN if name.endswith(("_TOKEN", "_SECRET", "_SECRET_KEY", "_ENDPOINT")) else value
        for name, value in sorted(variables.items())
        if name.startswith("K3S_")
    }


def config_annotations(words: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """The three annotations; the hash changes with the arguments and the environment."""
    given = json.dumps(node_arguments(words), separators=(",", ":"))
    environment = json.dumps(node_environment(variables), separators=(",", ":"))
    digest = hashlib.sha256((given + environment).encode()).digest()
    return {
        "k3s.io/node-args": given,
        "k3s.io/node-config-hash": base64.b32encode(digest).decode(),
        "k3s.io/node-env": environment,
    }
