"""Scripts that install k3s on a server; its flags are in k3s_flags.py."""

import shlex
from collections.abc import Mapping, Sequence

from ..config.k3s import (
    API_PORT,
    CNI_FILES,
    CNI_FOLDER,
    DATASTORE,
    ENCRYPTED,
    ENCRYPTION,
    FOLDER,
    FORMER_NOTE,
    NOTE,
    SNAPSHOT,
    STORE,
    Release,
    Tokens,
)
from ..servers.probe import AGENT_UNIT, KUBELET_LISTENS, SERVER_UNIT, unmask
from .k3s_flags import Addresses, node_flags

UNINSTALL = "/usr/local/bin/k3s-uninstall.sh"
AGENT_UNINSTALL = "/usr/local/bin/k3s-agent-uninstall.sh"
AUTHORITY = "/var/lib/rancher/k3s/agent/server-ca.crt"
INSTALLED = "installed k3s "
"""Prefix of the line in which a script reports the installed version."""
LEADS = "the channel leads to "
"""Prefix of the line in which a script reports the k3s release that a channel points to."""

_IS_ENCRYPTED = "encrypted"
_DEFAULT_CHANNEL = "stable"
"""Of k3s's installer."""
INSTALL_SECONDS = 420.0
READY_SECONDS = 120
REJOIN_SECONDS = 90
"""The maximum number of seconds that the program waits for a removed etcd member to rejoin by itself."""
_NOT_OURS = (
    "k3s runs on this server, but no note says that it is in this stack's cluster. It was not changed. To "
    "keep the cluster, set ccm-from-scratch:kubeconfigPath. To delete the cluster and its data, run "
    f"{UNINSTALL} on the server. Then repeat the command"
)
_RESTORE_LOG = "/var/log/ccm-from-scratch-restore.log"


def server_script(
    release: Release,
    at: Addresses,
    flags: Sequence[str],
    tokens: Tokens,
    *,
    cluster: str | None,
    joins: bool = False,
    encrypted: bool = True,
    restores: str = "",
    store: str | None = None,
    noted: str = "",
    files: Mapping[str, str] | None = None,
    waits: bool = True,
) -> str:
    """Installs or changes the server; ends when it runs and its API is ready, whatever the installer did.

    Args:
        release: Which k3s.
        at: The server's addresses.
        flags: Of ``k3s server``.
        tokens: Of the cluster.
        cluster: The cluster's identity; an installation of another cluster is removed first. None: whatever
            is installed stays.
        joins: Whether it joins another server; that may take several attempts.
        encrypted: Whether a cluster that it begins or joins encrypts its Secrets.
        restores: The snapshot that it begins the cluster from: ``SNAPSHOT``, or a name in S3; empty: none.
        store: Content of ``STORE``; empty: no such file. None: it never had one.
        noted: The identity of what is installed and stays, where an early version may not have noted it.
        files: Content of further files that k3s reads, by path.
        waits: Whether it waits for the API; without a quorum of etcd no API can be ready.
    """
    environment = {**release.environment(), "K3S_TOKEN": tokens.server, "K3S_AGENT_TOKEN": tokens.agent}
    # The installer compares what it writes with what is there, not with what runs: an interrupted run may
    # have written all of it and started nothing. Nor does it know what k3s reads about S3.
    environment[
        "INSTALL_K3S_SKIP_START" if joins or restores or not waits else "INSTALL_K3S_FORCE_RESTART"
    ] = "true"
    return "\n".join(
        [
            _PREAMBLE,
            _wait_for_address(at.private),
            _fetch_installer(release.install_url),
            begin_cluster(cluster, encrypted=encrypted) if cluster else "",
            keep_note(noted) if noted else "",
            keep_store(store) if store is not None else "",
            *(keep_store(content, path) for path, content in (files or {}).items()),
            _EXPLAIN,
            unmask(f"{SERVER_UNIT}.service"),
            f"{_run_installer(environment, ['server', *flags])} || explain",
            _JOIN if joins else "",
            restore(flags, restores) if restores else "",
            ensure_ready() if waits else "systemctl restart --no-block k3s",
            print_version(),
            print_encryption(),
        ]
    )


def agent_script(
    release: Release,
    at: Addresses,
    server_ip: str,
    agent_token: str,
    *,
    flags: Sequence[str] = (),
    reinstall: bool,
) -> str:
    """Installs or changes an agent, and starts it without a wait; ``reinstall`` first removes one of another
    cluster.
    """
    environment = _agent_environment(release, url_of(server_ip), agent_token)
    return "\n".join(
        [
            _PREAMBLE,
            _wait_for_address(at.private),
            _fetch_installer(release.install_url),
            leave_another_cluster(server_ip) if reinstall else "",
            unmask(f"{AGENT_UNIT}.service"),
            _run_installer(environment, ["agent", *node_flags(at), *flags]),
            "systemctl restart --no-block k3s-agent",
            print_version(),
        ]
    )


AWAIT_KUBELET = f"""
for _ in $(seq 60); do
  ! {{ {KUBELET_LISTENS}; }} | grep -q . || break
  sleep 1
done"""
"""Waits until the kubelet runs, at most a minute. Until then, Kubernetes may show the last status that the
kubelet reported before a rebuild, so ReadyNodes could take the Node for ready."""


def self_joining_script(
    release: Release,
    servers: Sequence[str],
    agent_token: str,
    *,
    flags: Sequence[str] = (),
    public: bool = True,
) -> str:
    """Installs an agent from the user data of a server, whose addresses are not known in advance.

    It reads them from the metadata service, and starts the agent as ``agent_script`` does. It retries until
    it succeeds. An agent that has joined through one server knows the others
    (https://docs.k3s.io/architecture), so one ready server is enough.
    """
    several = len(servers) > 1
    environment = _agent_environment(release, "" if several else url_of(servers[0]), agent_token)
    addresses = node_flags(Addresses("$public" if public else "", "$private"))
    of_variables = "".join(f' "{flag}"' for flag in addresses)
    return "\n".join(
        [
            _PREAMBLE,
            # a shell ignores "set -e" in what it takes for a condition, but not in a job
            "while :; do (",
            _learn_addresses(public=public),
            _wait_for_address('"$private"'),
            *([choose_server(servers)] if several else []),
            _fetch_installer(release.install_url),
            _run_installer(environment, ["agent", *flags], of_variables),
            "systemctl restart --no-block k3s-agent",
            ") & if wait $!; then break; fi",
            f"echo 'the node did not join; the script retries in {_REPEAT_SECONDS} s' >&2",
            f"sleep {_REPEAT_SECONDS}",
            "done",
        ]
    )


def choose_server(servers: Sequence[str], rounds: int = 60) -> str:
    """Sets ``K3S_URL`` to the first control server whose API is ready; after some time, to the first one.

    k3s answers 503 until its API server is ready, and then 401 to unknown clients.
    """
    return f"""n=0
ready=
until [ -n "$ready" ] || [ "$n" -ge {rounds} ]; do
  n=$((n + 1))
  for server in {" ".join(servers)}; do
    said=$(curl -sk --max-time 5 -o /dev/null -w '%{{http_code}}' "https://$server:{API_PORT}/readyz") || true
    case $said in 2??|401) ready=$server; break ;; esac
  done
  [ -n "$ready" ] || sleep 1
done
export K3S_URL=https://${{ready:-{servers[0]}}}:{API_PORT}"""


def url_of(server_ip: str) -> str:
    """The address of the k3s server that an agent joins."""
    return f"https://{server_ip}:{API_PORT}"


def _agent_environment(release: Release, url: str, agent_token: str) -> dict[str, str]:
    """The installer's variables for an agent, which starts later. The script sets an empty ``url``."""
    return {
        **release.environment(),
        "INSTALL_K3S_SKIP_START": "true",
        **({"K3S_URL": url} if url else {}),
        "K3S_TOKEN": agent_token,
    }


def keep_note(cluster: str) -> str:
    """Notes the identity of the installed server, unless there is a note."""
    return f"""[ -e {NOTE} ] || {{
  install -d -m 755 {FOLDER}
  echo {cluster} > {NOTE}
}}"""


FORGET_NOTE = f"[ ! -e {NOTE} ] || mv -f {NOTE} {FORMER_NOTE}"
"""Notes that the server left its cluster; then another installation removes this one."""


def begin_cluster(
    cluster: str,
    folder: str = FOLDER,
    uninstall: str = UNINSTALL,
    cni_folder: str = CNI_FOLDER,
    *,
    encrypted: bool = True,
) -> str:
    """Uninstalls a server of another cluster of this program, and records the new cluster's identity.

    An interrupted installation continues: agents may have joined its cluster, and a recreated one would
    refuse them.

    Secrets are encrypted from the beginning. A file that k3s reads sets this. A flag would also reach
    existing clusters, and k3s can't enable encryption there by a mere restart. A cluster that began without
    encryption stays so, and so do the servers that join it: k3s refuses a server with the other setting.
    """
    files = (NOTE, FORMER_NOTE, ENCRYPTION)
    note, former, encryption = (file.replace(FOLDER, folder) for file in files)
    lines = [
        f'case "$([ -e {note} ] || [ -e {former} ] || systemctl is-active {SERVER_UNIT})" in',
        "active|activating)",
        f"  echo {shlex.quote(_NOT_OURS)} >&2",
        "  exit 1",
        "esac",
        leave_cluster(uninstall, cni_folder),
        f"install -d -m 755 {folder} {folder}/config.yaml.d",
        *([f"echo '{ENCRYPTED.strip()}' > {encryption}"] if encrypted else []),
        f"echo {cluster} > {note}",
    ]
    body = "".join(f"  {line}\n" for line in lines)
    return f"""if [ "$(cat {note} 2>/dev/null)" != {cluster} ]; then
{body}fi"""


def keep_store(store: str, file: str = STORE) -> str:
    """Writes what k3s reads about S3, or removes it if ``store`` is empty."""
    if not store:
        return f"rm -f {file}"
    return f"""given=$(mktemp)
cat > "$given" <<'END_OF_STORE'
{store}END_OF_STORE
install -d -m 755 {file.rpartition("/")[0]}
mv -f "$given" {file}"""


def restore(flags: Sequence[str], snapshot: str = SNAPSHOT, folder: str = FOLDER) -> str:
    """Restores the cluster from a snapshot, once. An interrupted restore starts again.

    In the snapshot, the Nodes of control servers belong to lost servers. While these Nodes exist, the
    cloud-controller-manager keeps their provider IDs, and k3s refuses servers of the same names. So the API
    runs without a node of its own until they are gone. The script removes their finalizers, because k3s's
    own finalizer would wait until members leave that this etcd doesn't know.
    """
    # with S3 settings k3s looks for a local file in S3, unless this flag is false
    where = f"{snapshot} --etcd-s3=false" if snapshot == SNAPSHOT else shlex.quote(snapshot)
    alone, begun = f"{folder}/config.yaml.d/restoring.yaml", f"{folder}/restoring"
    return f"""if [ ! -e {DATASTORE}/etcd ] || [ -e {begun} ]; then
  touch {begun}
  systemctl stop k3s
  k3s {shlex.join(["server", *flags])} --cluster-reset --cluster-reset-restore-path={where} \
    </dev/null >{_RESTORE_LOG} 2>&1 || {{ tail -n 12 {_RESTORE_LOG} >&2; exit 1; }}
  echo 'disable-agent: true' > {alone}
{ensure_ready()}
  for node in $(k3s kubectl get nodes -l node-role.kubernetes.io/control-plane -o name); do
    k3s kubectl delete "$node" --wait=false
    k3s kubectl patch "$node" --type=merge -p '{{"metadata":{{"finalizers":null}}}}' 2>/dev/null || true
    k3s kubectl -n kube-system delete secret --ignore-not-found "${{node#node/}}.node-password.k3s"
  done
  rm -f {alone}
  systemctl restart k3s
  rm -f {begun}
fi
rm -f {SNAPSHOT}"""


def leave_cluster(uninstall: str, cni_folder: str = CNI_FOLDER) -> str:
    """Uninstalls, and deletes the old Pods' range: with it, a node would be ready before it gets its own."""
    files = " ".join(f"{cni_folder}/{name}" for name in CNI_FILES)
    return f"if [ -x {uninstall} ]; then {uninstall} </dev/null >/dev/null 2>&1; fi; rm -f {files}"


def leave_another_cluster(
    server_ip: str, joined: str = AUTHORITY, uninstall: str = AGENT_UNINSTALL, cni_folder: str = CNI_FOLDER
) -> str:
    """Uninstalls an agent with its volumes, unless it already is in the cluster of a server.

    The agent keeps the authority of the server's certificate (``get`` in pkg/agent/config/config.go of k3s).
    curl returns 60 for each certificate that it refuses. OpenSSL's results 18 to 21 mean that no authority in
    the file signed it (X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT to X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
    in openssl/x509_vfy.h). If the server doesn't answer, or its certificate has expired, nothing is
    uninstalled.
    """
    ask = f"curl -sS --cacert {joined} -o /dev/null --connect-timeout 10 --max-time 30 --retry 5"
    ask += f" --retry-connrefused -w '%{{ssl_verify_result}}' {url_of(server_ip)}/ping"
    return f"""code=60 verified=20
[ ! -s {joined} ] || {{ verified=$({ask}) && code=0 || code=$?; }}
case $code/$verified in
0/*) ;;
60/18 | 60/19 | 60/20 | 60/21) {leave_cluster(uninstall, cni_folder)} ;;
*)
  echo 'k3s was not uninstalled: it is unknown whether this agent is in the cluster of {server_ip}.' >&2
  echo 'Check the clocks of both servers, restart k3s on {server_ip}, and repeat the command.' >&2
  exit $code ;;
esac"""


def rejoin(node: str) -> str:
    """Waits until a control server whose etcd member was removed has joined again, and prints a word then.

    k3s removes the member when the Node is deleted. On the server it then leaves a tombstone and waits for a
    restart, which begins without the old data (``pkg/daemons/executor`` of k3s). It may already be joining:
    without the installation there would then be a member without a server, and k3s refuses the next one.
    """
    role = r"jsonpath={.metadata.labels.node-role\.kubernetes\.io/etcd}"
    get = shlex.join(["k3s", "kubectl", "get", "node", node, "--request-timeout=5s", "-o", role])
    return f"""systemctl start --no-block k3s || exit 0
n=0
until [ "$({get} 2>/dev/null)" = true ]; do
  n=$((n + 1))
  [ "$n" -lt {REJOIN_SECONDS} ] || exit 0
  # k3s needs some seconds until it has read the tombstone
  if [ $((n % 15)) = 1 ] && [ -e {DATASTORE}/etcd/tombstone ]; then systemctl restart --no-block k3s; fi
  sleep 1
done
echo joined"""


def ensure_ready() -> str:
    """Ends when the service runs and the API server is ready.

    k3s's installer starts nothing when program, unit and environment are as they were, not even after a start
    that failed. The unit is of type notify, so starting it waits.
    """
    return f"""systemctl start k3s || explain
n=0
until k3s kubectl get --raw /readyz >/dev/null 2>&1; do
  n=$((n + 1))
  [ "$n" -lt {READY_SECONDS * 2} ] || {{
    echo 'the API server was not ready within {READY_SECONDS} s:' >&2
    k3s kubectl get --raw '/readyz?verbose' >&2
    explain
  }}
  sleep 0.5
done"""


def print_version() -> str:
    """Prints the version of k3s that is installed."""
    # a machine without k3s tells none
    return f"k3s --version 2>/dev/null | sed -n '1s/^k3s version \\([^ ]*\\).*/{INSTALLED}\\1/p'"


def print_encryption() -> str:
    """Prints a word for ``is_encrypted`` if k3s is configured to encrypt Secrets."""
    return f"[ ! -e {ENCRYPTION} ] || echo {_IS_ENCRYPTED}"


def is_encrypted(said: str) -> bool:
    """Whether a script with ``print_encryption`` printed that Secrets are encrypted."""
    return _IS_ENCRYPTED in said.split()


def print_release(release: Release) -> str:
    """Prints the installed version of k3s and, if a channel is followed, the version of the channel.

    It resolves the channel as k3s's installer does: by the last redirect of the installer's channel server.
    It prints no channel version if the installer names no such server or the server does not answer. Then the
    installer resolves it.
    """
    if release.version:
        return print_version()
    named = "s/^ *INSTALL_K3S_CHANNEL_URL=.*:-[^h]*\\(https*:[][A-Za-z0-9_.:/%-]*\\).*/\\1/p"
    return f"""{_PREAMBLE}
{print_version()}
{_fetch_installer(release.install_url)}
channels=$(sed -n '{named}' "$installer" | head -n 1)
[ -n "$channels" ] || exit 0
led=$(curl -sSL --connect-timeout 10 --max-time 30 --retry 2 -o /dev/null -w '%{{url_effective}}' \\
  "$channels"/{shlex.quote(release.channel or _DEFAULT_CHANNEL)}) || exit 0
echo "{LEADS}${{led##*/}}" | sed 's/%2B/+/'"""


# k3s's own messages: "systemctl" only says that it failed
_EXPLAIN = """explain() {
  journalctl -u k3s -n 12 --no-pager -o cat >&2
  exit 1
}"""


# etcd takes no new member for some seconds after the last one came; k3s then exits and is started again
_JOIN = """n=0
until systemctl start k3s; do
  n=$((n + 1))
  [ "$n" -lt 20 ] || explain
  sleep 3
done"""


_PREAMBLE = """set -eu
umask 077"""

_REPEAT_SECONDS = 10

METADATA = "http://169.254.169.254/hetzner/v1/metadata"


def _learn_addresses(*, public: bool) -> str:
    """Sets ``private``, and ``public`` only for a server with a public address.

    A server is attached to its network some seconds after it was made:
    https://docs.hetzner.cloud/reference/cloud#description/server-metadata
    """
    of_public = f"public=$(curl -sSf --max-time 5 {METADATA}/public-ipv4) &&\n  " if public else ""
    return f"""n=0
until {of_public}private=$(curl -sSf --max-time 5 {METADATA}/private-networks |
  sed -n 's/^- ip: //p' | head -n 1) &&
  [ -n "$private" ]; do
  n=$((n + 1))
  [ "$n" -lt 120 ] || {{ echo 'the metadata service has no address in a private network' >&2; exit 1; }}
  sleep 1
done"""


def _wait_for_address(private_ip: str) -> str:
    """Waits for the private interface, some seconds after the server was attached to the network. The address
    may be a variable of the script, in quotation marks.
    """
    return f"""n=0
until ip -4 -o address show | grep -qF " "{private_ip}/; do
  n=$((n + 1))
  [ "$n" -lt 600 ] || {{ echo the private address {private_ip} did not appear within 60 s >&2; exit 1; }}
  sleep 0.1
done"""


def _fetch_installer(url: str) -> str:
    bare, _, digest = url.partition("#sha256=")
    address = shlex.quote(bare)
    fetch = f"""installer=$(mktemp)
trap 'rm -f "$installer"' EXIT
curl -sSfL --connect-timeout 10 --max-time 60 --retry 5 --retry-connrefused -o "$installer" {address}"""
    if not digest:
        return fetch
    return f"""{fetch}
found=$(sha256sum < "$installer" | cut -c 1-64)
[ "$found" = {digest} ] || {{
  echo {address} "has the SHA-256 $found, but ccm-from-scratch:k3sInstallUrl requires" {digest} >&2
  exit 1
}}"""


def _run_installer(environment: Mapping[str, str], arguments: Sequence[str], more: str = "") -> str:
    """Runs it; ``more`` are further arguments, as the shell reads them."""
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    # the installer must not read the rest of this script from standard input
    return f'{exports}\nsh "$installer" {shlex.join(arguments)}{more} </dev/null'
