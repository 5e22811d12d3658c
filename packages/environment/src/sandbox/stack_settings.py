"""The settings files of the sandbox's own stacks, ``Pulumi.<stack>.yaml``, which Pulumi writes, too.

They belong to an environment, so git ignores them: they come from templates (``stacks/``), and go with the
stack and its passphrase.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hetzner_machines import records
from sandbox.environment import PROJECT, STACKS, kinds_there
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases
from sandbox.site import Clone, Site, passphrase
from sandbox.stack_file import full_key, has_sealed, heading, load_config, load_yaml, misfit, opens

TEMPLATES = Path(__file__).with_name("stacks")


def file_of(site: Clone, stack: str) -> Path:
    """Where Pulumi looks for a stack's settings."""
    return site.root / f"Pulumi.{stack}.yaml"


def ensure(site: Site, stack: str) -> None:
    """Write a stack's settings file from its template if it is missing; existing settings stay.

    An older one gets what the template has and it lacks. A salt that this clone's passphrase does not fit is
    removed: it is left from an environment whose passphrase is gone, and with it the CLI would
    refuse every command ("incorrect passphrase").
    """
    path, template = file_of(site, stack), TEMPLATES / f"{stack}.yaml"
    if not path.exists():
        records.write(path, template.read_text())
        return
    settings, config = load_yaml(path), load_config(path)
    there = {full_key(PROJECT, key) for key in config}
    lacking = {key: value for key, value in load_yaml(template)["config"].items() if key not in there}
    wanted = {**settings, "config": {**config, **lacking}}
    salt = settings.get("encryptionsalt")
    # the passphrase of a stack that is there is as old as the stack; to try it takes a fifth of a second
    is_new = not any(STACKS[kind] == stack for kind in kinds_there(site))
    if salt and is_new and not opens(passphrase(site), salt):
        if has_sealed(config):
            raise SandboxError(
                f"{path}: the secrets in this file can't be decrypted, because './dev down' deleted their "
                "passphrase. Remove the secrets, or delete the file. './dev up' then creates a new file"
            )
        del wanted["encryptionsalt"]
    if wanted != settings:
        records.write(path, heading(path) + yaml.safe_dump(wanted, width=4096))


def check(site: Clone, stack: str, replaced: Collection[str] = ()) -> None:
    """Make sure that a stack's settings, where there are some, are of the types that ``Pulumi.yaml`` says.

    The program checks their meaning; encrypted ones aren't checked.
    """
    path = file_of(site, stack)
    if not path.exists():
        return
    config = {full_key(PROJECT, key): value for key, value in load_config(path).items()}
    schema = load_config(site.root / "Pulumi.yaml")
    gone = {full_key(PROJECT, name) for name in replaced}
    wrong = misfit(schema, {key: value for key, value in config.items() if key not in gone})
    if wrong:
        raise SandboxError(f"{path.name}: {wrong}")


@dataclass(frozen=True)
class Settings:
    """A stack's settings, or those of its template if the stack has none yet.

    Each property raises SandboxError if the file can't be read. The Pulumi program reports wrong values.
    """

    site: Clone  # this clone's
    stack: str  # one of ``STACKS``

    @property
    def workers(self) -> int:
        """How many workers there are."""
        counts = [pool.get("count") for pool in self.pools] or [self._said("workerCount")]
        return sum(map(_number, counts))

    @property
    def controls(self) -> int:
        """How many control servers there are."""
        said = str(self._said("controlCount"))
        return int(said) if said in ("1", "3", "5") else 1

    @property
    def nat_servers(self) -> int:
        """How many servers give Internet access to servers without a public address: one, or none."""
        switches = [pool.get("publicIpv4") for pool in self.pools]
        private = _is(self._said("privateNodes"), "true") or any(_is(switch, "false") for switch in switches)
        return int(private and not self._said("gateway"))

    @property
    def pools(self) -> list[dict[str, Any]]:
        """The pools that replace a number of workers; other items of the list are left out."""
        said = self._said("pools")
        try:
            named = json.loads(said) if isinstance(said, str) else said
        except ValueError:
            named = None
        return [pool for pool in named if isinstance(pool, dict)] if isinstance(named, list) else []

    @property
    def kubernetes(self) -> str:
        """The version of Kubernetes; raises SandboxError if the sandbox doesn't have it."""
        if version := str(self._said("k3sVersion") or ""):
            return releases.of_k3s(version, f"{PROJECT}:k3sVersion")
        return releases.of_channel(str(self._said("k3sChannel") or ""), f"{PROJECT}:k3sChannel")

    def _said(self, name: str) -> Any:
        """A setting, or its default."""
        path, key = file_of(self.site, self.stack), full_key(PROJECT, name)
        config = load_config(path if path.exists() else TEMPLATES / f"{self.stack}.yaml")
        said = {full_key(PROJECT, one): value for one, value in config.items()}.get(key)
        default = load_config(self.site.root / "Pulumi.yaml")[key]
        return default["default"] if said is None else said


def _number(said: Any) -> int:
    """A whole number, which ``pulumi config set`` writes as a text; 0 for anything else."""
    text = str(said)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _is(said: Any, truth: str) -> bool:
    """Whether a switch, or the text that ``pulumi config set`` makes of one, says ``true``, or ``false``."""
    return str(said).lower() == truth


def remove(site: Site) -> None:
    """Remove the settings files of the sandbox's stacks."""
    for stack in STACKS.values():
        file_of(site, stack).unlink(missing_ok=True)
