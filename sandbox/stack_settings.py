"""The settings files of the sandbox's own stacks. They belong to an environment, not to the repository.

Pulumi keeps a stack's settings in ``Pulumi.<stack>.yaml`` beside ``Pulumi.yaml`` and writes them there: what
``pulumi config set`` says, and the salt that goes with the passphrase. So git ignores these files; they come
from templates (``sandbox/stacks/``) when they are needed, and go with the stack and its passphrase.
"""

from __future__ import annotations

import re
from pathlib import Path

from sandbox.engine.config import StackFile, has_sealed
from sandbox.engine.errors import EngineError
from sandbox.engine.project import load_yaml
from sandbox.engine.secrets import opens
from sandbox.environment import STACKS
from sandbox.errors import SandboxError
from sandbox.site import Site, passphrase

TEMPLATES = Path(__file__).with_name("stacks")
_WORKERS = "ccm-from-scratch:workerCount"
_SALT = re.compile(r"^encryptionsalt:.*\n?", re.MULTILINE)


def file_of(site: Site, stack: str) -> Path:
    """Where Pulumi looks for a stack's settings."""
    return site.root / f"Pulumi.{stack}.yaml"


def ensure(site: Site, stack: str) -> None:
    """Make a stack's settings file from its template where there is none; what is in one stays.

    What the template has got since the file was made is added: a setting that has to be said, for one.
    A salt that this clone's passphrase does not fit is taken out: it is left from an environment whose
    passphrase is gone, and with it the genuine CLI would refuse every command ("incorrect passphrase").

    Args:
        site: this clone's.
        stack: one of ``STACKS``.

    Raises:
        SandboxError: the file can't be read, or has secrets that this clone's passphrase does not open.
    """
    path = file_of(site, stack)
    if not path.exists():
        _write(path, (TEMPLATES / f"{stack}.yaml").read_text())
        return
    try:
        settings = load_yaml(path)
    except EngineError as error:
        raise SandboxError(str(error)) from error
    salt = settings.get("encryptionsalt")
    if not salt or opens(passphrase(site), str(salt)):
        _complete(path, TEMPLATES / f"{stack}.yaml")
        return
    if has_sealed(settings.get("config") or {}):
        raise SandboxError(
            f"{path}: its secrets were encrypted with another passphrase than this clone's, which went with "
            "'./dev down'; take them out of the file, or delete it: './dev up' makes a new one"
        )
    _write(path, _SALT.sub("", path.read_text()))
    _complete(path, TEMPLATES / f"{stack}.yaml")


def _complete(path: Path, template: Path) -> None:
    """Add the settings that only the template has."""
    try:
        file = StackFile(path)
    except EngineError:
        return  # what the engine refuses, it says itself
    missing = {key: value for key, value in StackFile(template).config.items() if key not in file.config}
    if missing:
        file.config.update(missing)
        file.save()


def ensure_all(site: Site) -> None:
    """Make the settings files of all of the sandbox's stacks."""
    for stack in STACKS.values():
        ensure(site, stack)


def workers(site: Site, stack: str) -> int:
    """How many workers a stack has by its settings, or would have with those of its template.

    Args:
        site: this clone's.
        stack: one of ``STACKS``.

    Raises:
        SandboxError: the file can't be read.
    """
    path = file_of(site, stack)
    try:
        settings = load_yaml(path if path.exists() else TEMPLATES / f"{stack}.yaml")
        said = (settings.get("config") or {}).get(_WORKERS)
        said = load_yaml(site.root / "Pulumi.yaml")["config"][_WORKERS]["default"] if said is None else said
    except EngineError as error:
        raise SandboxError(str(error)) from error
    return said if isinstance(said, int) and said > 0 else 0  # the program says what is wrong with others


def remove(site: Site) -> None:
    """Remove the settings files of the sandbox's stacks."""
    for stack in STACKS.values():
        file_of(site, stack).unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)
