"""A site: what belongs to one clone on this machine.

Two clones must not disturb each other, so everything that the sandbox makes carries the site's id, and
addresses and ports are claimed in one registry for all clones of a user (``sites.json`` in the cache).
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from ccmfs_common import locks
from hetzner_emulator import tokens
from hetzner_emulator.address import Address
from hetzner_machines import records
from sandbox.errors import SandboxError

# The ranges for documentation (RFC 5737) aren't routed, so a host rarely uses them itself.
DOCUMENTATION_RANGES = tuple(IPv4Network(n) for n in ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24"))
# For benchmarks of network devices (RFC 2544): used when more clones run than the ranges above suffice for.
BENCHMARK_RANGE = IPv4Network("198.18.0.0/21")
RANGE_PREFIX = 26
PORTS = range(8400, 8900)


@dataclass(frozen=True)
class Clone:
    """One clone's own files and names."""

    id: str  # six hexadecimal digits from the clone's real path; part of every name made on the machine
    root: Path
    state: Path  # everything that the sandbox keeps for this clone
    cache: Path  # toolchain and images, shared between clones and keyed by their pins

    @property
    def log(self) -> Path:
        """What the sandbox process prints."""
        return self.state / "sandbox.log"

    @property
    def control_plane(self) -> Path:
        """The data of the cluster on loopback."""
        return self.state / "control-plane"

    @property
    def tested(self) -> Path:
        """Where runs of all tests record tested versions, by source tree; all clones share this folder."""
        return self.cache / "tested"

    @property
    def durations(self) -> Path:
        """How long each test of this clone's last run took."""
        return self.cache / "durations" / self.id


@dataclass(frozen=True)
class Site(Clone):
    """What belongs to one clone on this machine, with the addresses that no other clone has."""

    port: int  # of the API on 127.0.0.1
    public_range: IPv4Network  # the public addresses of the machines; the first four belong to the uplink
    token: str  # of the default project, 64 characters

    @property
    def address(self) -> Address:
        """Where the API answers."""
        return Address(self.port, self.token)

    @property
    def endpoint(self) -> str:
        """The API as clients on this machine reach it."""
        return self.address.endpoint

    @property
    def console(self) -> str:
        """The address of the cloud's console for a person."""
        return self.address.console

    @property
    def kubeconfig(self) -> Path:
        """Where the Pulumi program writes the kubeconfig of the stack ``local``."""
        return self.root / "kubeconfig.local.yaml"

    @property
    def ssh_key(self) -> Path:
        """Where the Pulumi program writes the private SSH key of the stack ``local``."""
        return self.root / ".dev-env.local.ssh"


@dataclass(frozen=True)
class Claim:
    """What one site has claimed in the registry."""

    root: str  # the clone
    port: int  # of the API
    public_range: str  # the public addresses of the machines

    def fits(self, others: Iterable[Claim]) -> bool:
        """Whether it overlaps no other claim."""
        own = IPv4Network(self.public_range)
        return all(
            other.port != self.port and not own.overlaps(IPv4Network(other.public_range)) for other in others
        )


def site_id(root: Path) -> str:
    """Six hexadecimal digits that belong to the real path of a clone."""
    return hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:6]


def choose(
    own: str,
    claims: Mapping[str, Claim],
    used_ranges: Iterable[IPv4Network],
    port_is_free: Callable[[int], bool],
) -> Claim:
    """Choose a free port and a free range of public addresses."""
    others = [claim for other, claim in claims.items() if other != own]
    seed = int(own, 16)
    first, further = (
        _from([subnet for r in group for subnet in r.subnets(new_prefix=RANGE_PREFIX)], seed)
        for group in (DOCUMENTATION_RANGES, (BENCHMARK_RANGE,))
    )
    ranges = [*first, *further]
    blocked = [*used_ranges, *(IPv4Network(claim.public_range) for claim in others)]
    free_ranges = (r for r in ranges if not any(r.overlaps(b) for b in blocked))
    taken = {claim.port for claim in others}
    free_ports = (p for p in _from(list(PORTS), seed) if p not in taken and port_is_free(p))
    public_range, port = next(free_ranges, None), next(free_ports, None)
    if public_range is None:
        raise SandboxError(
            f"all {len(ranges)} ranges of public addresses are in use by this host or by other clones; "
            f"{_way_out(others)}"
        )
    if port is None:
        raise SandboxError(
            f"no free TCP port on 127.0.0.1 between {PORTS.start} and {PORTS.stop - 1}; {_way_out(others)}"
        )
    return Claim("", port, str(public_range))


def _way_out(others: Iterable[Claim]) -> str:
    clones = ", ".join(sorted(other.root for other in others)) or "none"
    return (
        f"run './dev down' in a clone that you no longer need. The clones are: {clones}. If you removed the "
        "folder of a clone, delete the clone's entry in sites.json in the cache (~/.cache/ccm-from-scratch)"
    )


def _from(items: list[Any], seed: int) -> list[Any]:
    start = seed % len(items)
    return items[start:] + items[:start]


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where toolchain and images are kept: ``$XDG_CACHE_HOME`` or ``~/.cache``, in a folder of ours.

    Root by sudo uses the cache of the user that called sudo, so that nothing is built twice.
    """
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else _home(environment) / ".cache") / "ccm-from-scratch"


def _home(environment: Mapping[str, str]) -> Path:
    user = environment.get("SUDO_UID", "")
    if os.geteuid() == 0 and user.isdecimal() and user != "0":
        with suppress(KeyError):
            return Path(pwd.getpwuid(int(user)).pw_dir)
    return Path.home()


@contextmanager
def _kept_files(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"the sandbox can't write its files: {error}. The sandbox writes into the clone and into the "
            f"cache {cache}. To move the cache, set XDG_CACHE_HOME"
        ) from error


def open_clone(root: Path, environment: Mapping[str, str]) -> Clone:
    """A clone with its folders; claims nothing."""
    root, cache = root.resolve(), cache_directory(environment)
    with _kept_files(cache):
        (root / ".sandbox").mkdir(mode=0o700, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
    return Clone(site_id(root), root, root / ".sandbox", cache)


def has_claim(clone: Clone) -> bool:
    """Whether a port and addresses have been claimed for a clone."""
    return _note(clone).exists() or clone.id in _read(clone.cache / "sites.json")


def _note(clone: Clone) -> Path:
    return clone.state / "claim.json"


def open_site(
    root: Path,
    environment: Mapping[str, str],
    used_ranges: Callable[[], Iterable[IPv4Network]],
    port_is_free: Callable[[int], bool],
) -> Site:
    """The site of a clone; claims its port and addresses the first time."""
    clone = open_clone(root, environment)
    own = clone.id
    with _kept_files(clone.cache):
        with _registry(clone.cache / "sites.json") as claims:
            if own not in claims:
                note = noted(clone)
                others = [claim for other, claim in claims.items() if other != own]
                # What this clone had before the registry lost it is what its machines have now.
                kept = note if note and note.fits(others) else None
                chosen = kept or choose(own, claims, used_ranges(), port_is_free)
                claims[own] = chosen
            claim = replace(claims[own], root=str(clone.root))
            claims[own] = claim
            records.write(_note(clone), json.dumps(vars(claim)))
        token = tokens.kept(clone.state / "token")
    return Site(**vars(clone), port=claim.port, public_range=IPv4Network(claim.public_range), token=token)


def release_site(site: Site) -> None:
    """Give the site's port and addresses back; the next start claims some again."""
    with _registry(site.cache / "sites.json") as claims:
        claims.pop(site.id, None)


@contextmanager
def _registry(path: Path) -> Iterator[dict[str, Claim]]:
    """The claims of all sites, locked, without those of clones whose folder is gone.

    A clone that exists, but can't be seen from here (in a container), keeps a copy of its claim, and claims
    the same again if it still fits. While its sandbox runs, the host's routes keep others from its addresses.
    """
    with locks.awaited(path.with_suffix(".lock")):
        yield (claims := _read(path))
        records.write(path, json.dumps({own: vars(claim) for own, claim in claims.items()}, indent=1))


def _read(path: Path) -> dict[str, Claim]:
    try:
        entries = json.loads(path.read_text()) if path.exists() else {}
        claims = {own: _claim(entry) for own, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SandboxError(
            f"{path} can't be decoded ({error}). Stop all sandboxes, then delete the file"
        ) from None
    return {own: claim for own, claim in claims.items() if Path(claim.root).exists()}


def _claim(raw: Mapping[str, Any]) -> Claim:
    return Claim(str(raw["root"]), int(raw["port"]), str(IPv4Network(raw["public_range"])))


def noted(clone: Clone) -> Claim | None:
    """What a clone itself has noted of its claim; None where it has not, or not whole."""
    try:
        return _claim(json.loads(_note(clone).read_text()))
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
        return None


def passphrase(site: Site) -> str:
    """The passphrase of the local stack's secrets."""
    return tokens.kept(site.state / "passphrase")
