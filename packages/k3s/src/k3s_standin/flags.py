"""The flags of ``k3s server`` and ``k3s agent``: supported ones, ones without effect, and refused ones."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ccm.go import parse_boolean
from k3s_standin.errors import UsageError

Kind = Literal["text", "list", "switch"]
Value = str | bool | list[str]


@dataclass(frozen=True)
class Flag:
    """One flag."""

    name: str  # without dashes
    kind: Kind = "text"  # A text, a list (given several times, or with commas), or a switch
    commands: tuple[str, ...] = ("server",)  # the commands that have it
    variable: str = ""  # environment variable that replaces it
    short: str = ""  # one-letter name
    alias: str = ""  # another name in ``k3s etcd-snapshot``
    refusal: str = ""  # why the stand-in can't do it; empty if it can
    effective: bool = True  # False if it is accepted and changes nothing


_BOTH = ("server", "agent")
_SNAPSHOTS = ("server", "etcd-snapshot")
_ALL = (*_BOTH, "etcd-snapshot")

_UNDERSTOOD = (
    Flag("token", commands=_BOTH, variable="K3S_TOKEN", short="t"),
    Flag("token-file", commands=_BOTH, variable="K3S_TOKEN_FILE"),
    Flag("server", commands=_BOTH, variable="K3S_URL", short="s"),
    Flag("config", commands=_ALL, variable="K3S_CONFIG_FILE", short="c"),
    Flag("node-name", commands=_BOTH, variable="K3S_NODE_NAME"),
    Flag("node-ip", "list", _BOTH, short="i"),
    Flag("node-external-ip", "list", _BOTH),
    Flag("node-label", "list", _BOTH),
    Flag("node-taint", "list", _BOTH),
    Flag("kubelet-arg", "list", _BOTH),
    Flag("kube-proxy-arg", "list", _BOTH),
    Flag("resolv-conf", commands=_BOTH, variable="K3S_RESOLV_CONF"),
    Flag("private-registry", commands=_BOTH),
    Flag("agent-token", variable="K3S_AGENT_TOKEN"),
    Flag("agent-token-file", variable="K3S_AGENT_TOKEN_FILE"),
    Flag("bind-address"),
    Flag("advertise-address"),
    Flag("https-listen-port"),
    Flag("tls-san", "list"),
    Flag("cluster-cidr", "list"),
    Flag("service-cidr", "list"),
    Flag("service-node-port-range"),
    Flag("cluster-dns", "list"),
    Flag("cluster-domain"),
    Flag("write-kubeconfig", variable="K3S_KUBECONFIG_OUTPUT", short="o"),
    Flag("write-kubeconfig-mode", variable="K3S_KUBECONFIG_MODE"),
    Flag("kube-apiserver-arg", "list"),
    Flag("kube-controller-manager-arg", "list"),
    Flag("kube-scheduler-arg", "list"),
    Flag("etcd-arg", "list"),
    Flag("disable", "list"),
    Flag("disable-agent", "switch"),
    Flag("disable-cloud-controller", "switch"),
    Flag("disable-network-policy", "switch"),
    Flag("default-local-storage-path"),
    Flag("disable-kube-proxy", "switch"),
    Flag("disable-scheduler", "switch"),
    Flag("flannel-backend"),
    Flag("cluster-init", "switch", variable="K3S_CLUSTER_INIT"),
    Flag("disable-apiserver-lb", "switch", _BOTH),
    Flag("lb-server-port", commands=_BOTH, variable="K3S_LB_SERVER_PORT"),
    # Always true: the kernel's defaults are kept, and the stand-in has no Helm controller.
    Flag("disable-helm-controller", "switch"),
    Flag("protect-kernel-defaults", "switch", _BOTH),
    Flag("secrets-encryption", "switch"),
    Flag("cluster-reset", "switch", variable="K3S_CLUSTER_RESET"),
    Flag("cluster-reset-restore-path"),
    Flag("etcd-disable-snapshots", "switch"),
    Flag("etcd-snapshot-name"),
    Flag("etcd-snapshot-schedule-cron"),
    Flag("etcd-snapshot-dir", commands=_SNAPSHOTS, alias="dir"),
    Flag("etcd-snapshot-retention", commands=_SNAPSHOTS, alias="snapshot-retention"),
    Flag("etcd-snapshot-compress", "switch", _SNAPSHOTS, alias="snapshot-compress"),
    Flag("etcd-s3", "switch", _SNAPSHOTS, alias="s3"),
    Flag("etcd-s3-endpoint", commands=_SNAPSHOTS, alias="s3-endpoint"),
    Flag("etcd-s3-endpoint-ca", commands=_SNAPSHOTS, alias="s3-endpoint-ca"),
    Flag("etcd-s3-skip-ssl-verify", "switch", _SNAPSHOTS, alias="s3-skip-ssl-verify"),
    Flag("etcd-s3-access-key", commands=_SNAPSHOTS, variable="AWS_ACCESS_KEY_ID", alias="s3-access-key"),
    Flag("etcd-s3-secret-key", commands=_SNAPSHOTS, variable="AWS_SECRET_ACCESS_KEY", alias="s3-secret-key"),
    Flag("etcd-s3-bucket", commands=_SNAPSHOTS, alias="s3-bucket"),
    Flag("etcd-s3-region", commands=_SNAPSHOTS, alias="s3-region"),
    Flag("etcd-s3-folder", commands=_SNAPSHOTS, alias="s3-folder"),
    Flag("etcd-s3-insecure", "switch", _SNAPSHOTS, alias="s3-insecure"),
    Flag("etcd-s3-retention", commands=_SNAPSHOTS, alias="s3-retention"),
    Flag("name", commands=("etcd-snapshot",)),
    Flag("etcd-server", commands=("etcd-snapshot",), short="s"),
    Flag("output", commands=("etcd-snapshot",), short="o"),
)

_WITHOUT_EFFECT: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "switch": {
        "server": (
            "embedded-registry", "etcd-expose-metrics",
            "flannel-external-ip", "flannel-ipv6-masq", "supervisor-metrics", "tls-san-security",
            "disable-etcd-learner",
        ),
        "both": (
            "alsologtostderr", "debug", "disable-default-registry-endpoint",
            "enable-pprof", "prefer-bundled-bin", "selinux",
        ),
    },
    "text": {
        "server": (
            "egress-selector-mode", "etcd-s3-bucket-lookup-type", "etcd-snapshot-reconcile-interval",
            "helm-job-image", "secrets-encryption-provider", "servicelb-namespace",
            "system-default-registry", "write-kubeconfig-group",
        ),
        "both": (
            "flannel-cni-conf", "flannel-conf", "flannel-iface", "log", "pause-image",
            "snapshotter", "v", "vmodule",
        ),
    },
    "list": {"server": ("kube-cloud-controller-manager-arg",), "both": ()},
}  # fmt: skip

_REFUSED: Mapping[str, tuple[Kind, tuple[str, ...], str]] = {
    "advertise-port": ("text", ("server",), "the stand-in advertises the value of --https-listen-port"),
    "airgap-extra-registry": (
        "list",
        _BOTH,
        "the stand-in imports images only under their original names, without additional registries",
    ),
    "container-runtime-endpoint": ("text", _BOTH, "the stand-in always uses its own containerd"),
    "default-runtime": ("text", _BOTH, "the stand-in's containerd supports only the runtime runc"),
    "etcd-s3-session-token": ("text", _SNAPSHOTS, "the stand-in supports only permanent access keys for S3"),
    "helm-controller-arg": ("list", ("server",), "the stand-in has no Helm controller"),
    "image-credential-provider-bin-dir": ("text", _BOTH, "the stand-in has no credential providers"),
    "image-credential-provider-config": ("text", _BOTH, "the stand-in has no credential providers"),
    "image-service-endpoint": ("text", _BOTH, "the stand-in always uses its own containerd"),
    "kine-tls": ("switch", ("server",), "the stand-in's datastore is etcd"),
    "node-external-dns": ("list", _BOTH, "the stand-in has no built-in cloud controller"),
    "node-internal-dns": ("list", _BOTH, "the stand-in has no built-in cloud controller"),
    "nonroot-devices": ("switch", _BOTH, "the stand-in doesn't support this setting of containerd"),
    "etcd-s3-config-secret": (
        "text",
        _SNAPSHOTS,
        "the stand-in can't read S3 settings from a Secret. Use the other flags that begin with --etcd-s3",
    ),
    "etcd-s3-proxy": ("text", _SNAPSHOTS, "the stand-in doesn't support proxies for S3"),
    "etcd-s3-timeout": ("text", _SNAPSHOTS, "the stand-in's timeout for S3 is always five minutes"),
    "data-dir": ("text", _ALL, "the stand-in always stores its data in /var/lib/rancher/k3s"),
    **{
        f"datastore-{part}": ("text", ("server",), "the stand-in's datastore is etcd")
        for part in ("endpoint", "cafile", "certfile", "keyfile")
    },
    "disable-apiserver": ("switch", ("server",), "the stand-in's server always runs all components"),
    "disable-controller-manager": ("switch", ("server",), "the stand-in's server always runs all components"),
    "disable-etcd": ("switch", ("server",), "the stand-in's server always runs all components"),
    "docker": ("switch", _BOTH, "the stand-in runs containerd"),
    "rootless": ("switch", _BOTH, "the stand-in always runs as root"),
    "vpn-auth": ("text", _BOTH, "the stand-in doesn't support VPNs"),
    "vpn-auth-file": ("text", _BOTH, "the stand-in doesn't support VPNs"),
    "with-node-id": ("switch", _BOTH, "the stand-in supports only --node-name"),
}

_VARIABLES = {
    "data-dir": "K3S_DATA_DIR",
    "datastore-cafile": "K3S_DATASTORE_CAFILE",
    "datastore-certfile": "K3S_DATASTORE_CERTFILE",
    "datastore-endpoint": "K3S_DATASTORE_ENDPOINT",
    "datastore-keyfile": "K3S_DATASTORE_KEYFILE",
    "debug": "K3S_DEBUG",
    "selinux": "K3S_SELINUX",
    "system-default-registry": "K3S_SYSTEM_DEFAULT_REGISTRY",
    "vpn-auth": "K3S_VPN_AUTH",
    "vpn-auth-file": "K3S_VPN_AUTH_FILE",
    "write-kubeconfig-group": "K3S_KUBECONFIG_GROUP",
}
"""The environment variables for flags without effect, and for flags that the stand-in rejects."""


def _table() -> tuple[Flag, ...]:
    flags = list(_UNDERSTOOD)
    for kind, by_command in _WITHOUT_EFFECT.items():
        for command, names in by_command.items():
            commands = _BOTH if command == "both" else (command,)
            flags += [Flag(name, kind, commands, _VARIABLES.get(name, ""), effective=False) for name in names]
    flags += [
        Flag(name, kind, commands, _VARIABLES.get(name, ""), refusal=why, alias=name.removeprefix("etcd-"))
        for name, (kind, commands, why) in _REFUSED.items()
    ]
    return tuple(flags)


FLAGS = _table()


@dataclass(frozen=True)
class Parsed:
    """Flags with their values, and warnings about them."""

    values: Mapping[str, Value]  # by flag name; a missing flag is absent
    # One line for each flag without effect, and for each unknown name in the configuration file.
    warnings: tuple[str, ...]
    arguments: tuple[str, ...] = ()  # words that aren't flags; only ``k3s etcd-snapshot`` has any


def parse(
    command: str,
    words: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    settings: Mapping[str, Value] | None = None,
) -> Parsed:
    """Read flags as k3s does: command line over environment variables over configuration file.

    As in k3s (package configfilearg), only ``agent`` refuses unknown names in the file; ``server`` warns.
    Lists in the file come before those of the command line.
    """
    known = {flag.name: flag for flag in FLAGS if command in flag.commands}
    short = _short(command, known)
    values: dict[str, Value] = {}
    warnings: list[str] = []
    for name, value in (settings or {}).items():
        flag = known.get(name) or short.get(name)
        if flag is not None:
            values[flag.name] = _converted(flag, value)
        elif command == "agent":
            _unknown(command, name, "in the configuration file")
        elif command == "server":
            warnings.append(f"Unknown flag --{name} found in config.yaml, skipping")
    for flag in known.values():
        text = (variables or {}).get(flag.variable, "") if flag.variable else ""
        if text:
            values[flag.name] = _of_variable(flag, text)
    given, arguments = _command_line(command, words, known, short)
    for name, value in given.items():
        before = values.get(name)
        values[name] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
    warnings += [
        f"--{name} has no effect in the stand-in for k3s" for name in values if not known[name].effective
    ]
    return Parsed(values, tuple(warnings), tuple(arguments))


def is_flag(command: str, name: str) -> bool:
    """Whether a command has a flag with this name of the configuration file."""
    known = {flag.name: flag for flag in FLAGS if command in flag.commands}
    return name in known or name in _short(command, known)


def _short(command: str, known: Mapping[str, Flag]) -> dict[str, Flag]:
    """The flags of a command by their other names."""
    short = {flag.short: flag for flag in known.values() if flag.short}
    if command == "etcd-snapshot":
        short |= {flag.alias: flag for flag in known.values() if flag.alias}
    return short


def _command_line(
    command: str, words: Sequence[str], known: Mapping[str, Flag], short: Mapping[str, Flag]
) -> tuple[dict[str, Value], list[str]]:
    """The flags, and the other words."""
    values: dict[str, Value] = {}
    arguments: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") and command == "etcd-snapshot":
            arguments.append(word)
            continue
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument {word!r}: k3s {command} accepts only flags")
        name, equals, text = word.lstrip("-").partition("=")
        flag = known.get(name) or short.get(name) or _unknown(command, name, "")
        if not equals and flag.kind != "switch":
            if not rest:
                raise UsageError(f"flag --{flag.name} needs a value")
            text = rest.pop(0)
        value = _converted(flag, text if equals or flag.kind != "switch" else True)
        before = values.get(flag.name)
        values[flag.name] = (
            [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
        )
    return values, arguments


def _of_variable(flag: Flag, text: str) -> Value:
    try:
        return _converted(flag, text)
    except UsageError as error:
        raise UsageError(f"{flag.variable}: {error}") from None


def _converted(flag: Flag, value: Value) -> Value:
    """A value converted to the flag's kind."""
    if flag.kind == "switch":
        if isinstance(value, str):
            with suppress(ValueError):
                value = parse_boolean(value)
        if not isinstance(value, bool):
            raise UsageError(f"flag --{flag.name}: the value must be true or false, not {value!r}")
        converted: Value = value
    elif flag.kind == "list":
        converted = _split(flag, value if isinstance(value, list) else [str(value)])
    else:
        if value == []:  # null in the configuration file
            value = ""
        if not isinstance(value, str):
            raise UsageError(f"flag --{flag.name}: the value must be a single string, not {value!r}")
        converted = value
    if flag.refusal and converted is not False:
        raise UsageError(f"flag --{flag.name} is not supported, because {flag.refusal}")
    return converted


def _split(flag: Flag, values: Sequence[str]) -> list[str]:
    """Commas separate values, except in arguments for components, whose values have commas."""
    if flag.name.endswith("-arg"):
        return list(values)
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _unknown(command: str, name: str, where: str) -> Flag:
    others = [flag for flag in FLAGS if flag.name == name]
    if others:
        raise UsageError(f"k3s {command} has no flag --{name}, but k3s {others[0].commands[0]} has this flag")
    place = f" {where}" if where else ""
    raise UsageError(f"unknown flag --{name}{place}; `k3s {command} --help` lists the flags of the stand-in")


def help_text(command: str) -> str:
    """What ``k3s server --help`` prints."""
    lines = [f"k3s {command} [flags]    (stand-in for k3s in the ccm-from-scratch sandbox)", ""]
    for flag in sorted(FLAGS, key=lambda flag: flag.name):
        if command in flag.commands:
            note = flag.refusal and f"not supported: {flag.refusal}"
            note = note or ("" if flag.effective else "accepted, without effect")
            value = {"text": " VALUE", "list": " VALUE ...", "switch": ""}[flag.kind]
            variable = f" [${flag.variable}]" if flag.variable else ""
            lines.append(f"  --{flag.name}{value}{variable}  {note}".rstrip())
    return "\n".join(lines)
