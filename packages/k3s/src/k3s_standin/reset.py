"""``k3s server --cluster-reset``: makes this server the only member of its etcd, optionally from a snapshot.

The order is k3s's (pkg/cluster/managed.go, pkg/etcd/etcd.go): restore, a new name, the flag that prevents a
second reset by mistake, etcd without the others, and last the cluster's keys, which are in etcd.
"""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

from k3s_standin import bootstrap, datastore, log, paths
from k3s_standin.certificates import write_secret
from k3s_standin.children import Children
from k3s_standin.control_plane import EtcdMember, Ports
from k3s_standin.errors import K3sError
from k3s_standin.options import ServerOptions
from k3s_standin.protocol import url_of
from k3s_standin.s3 import S3
from k3s_standin.server import control_plane_of, kept_token, start_etcd
from k3s_standin.snapshots import decompressed

_RESTORE_SECONDS = 300
DONE = (
    "Managed etcd cluster membership has been reset, restart without --cluster-reset flag now. "
    "Backup and delete ${datadir}/server/db on each peer etcd server and rejoin the nodes"
)


async def reset(children: Children, options: ServerOptions) -> None:
    """Reset and end: the next start is without the flag."""
    store, node = datastore.Datastore(), options.node.node_name
    snapshot = await asyncio.to_thread(found, options) if options.restore else None
    if not snapshot:
        refuse(store)
    token = options.token or kept_token()
    if token is None:
        raise K3sError(
            f"--token or K3S_TOKEN is required, because the file {paths.SERVER / 'token'} is missing"
        )
    if snapshot:
        store.put_aside()
        member = EtcdMember(f"{node}-restored", options.address)
        await asyncio.to_thread(restore, decompressed(snapshot), member, store.folder)
    member = EtcdMember(store.rename(node), options.address, alone=True)
    store.reset_flag.touch(mode=0o600)
    wanted = replace(control_plane_of(options), member=member)
    # the next start makes the API server's certificate again, with all its names
    wanted.pki.ensure(("localhost",), (member.address,))
    await start_etcd(children, wanted)
    await asyncio.to_thread(bootstrap.recover, wanted, datastore.client(wanted), token.password)
    await children.stop()
    log.info(DONE)


def found(options: ServerOptions) -> Path:
    """The file to restore; one in S3 is downloaded to the folder of snapshots."""
    if not options.snapshots.s3:
        return checked(Path(options.restore))
    store, target = S3(options.snapshots.s3), options.snapshots.folder / Path(options.restore).name
    log.info(f"Retrieving etcd snapshot {options.restore} from S3")
    store.check()
    content = store.get(options.restore)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(target, "")
    target.write_bytes(content)
    log.info(f"S3 download complete for {options.restore}")
    return target


def checked(snapshot: Path) -> Path:
    """Return the path of an existing file; raises K3sError."""
    if not snapshot.exists():
        raise K3sError(f"etcd: snapshot path does not exist: {snapshot}")
    if snapshot.is_dir():
        raise K3sError(f"etcd: snapshot path must be a file, not a directory: {snapshot}")
    return snapshot


def refuse(store: datastore.Datastore) -> None:
    """Raise K3sError if there is nothing to reset, or the last command was a reset."""
    if store.reset_flag.exists():
        raise K3sError(
            "Managed etcd cluster membership was previously reset, please remove the cluster-reset flag "
            "and start k3s normally. If you need to perform another cluster reset, you must first manually "
            f"delete the {store.reset_flag} file"
        )
    if not store.initialized:
        raise K3sError(f"the cluster can't be reset, because {store.folder} contains no etcd data")


def restore(
    snapshot: Path,
    member: EtcdMember,
    folder: Path,
    programs: Path = paths.PROGRAMS,
    port: int = Ports().etcd_peer,
) -> None:
    """Make etcd's data in a new folder from a snapshot, whose checksum is verified."""
    peer = url_of(member.address, port)
    done = subprocess.run(
        [
            str(programs / "etcdutl"),
            "snapshot",
            "restore",
            str(snapshot),
            f"--name={member.name}",
            f"--initial-cluster={member.name}={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--data-dir={folder}",
        ],
        capture_output=True,
        text=True,
        timeout=_RESTORE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise K3sError(f"etcd: the snapshot {snapshot} can't be restored: {done.stderr.strip()[-500:]}")
    folder.chmod(0o700)
