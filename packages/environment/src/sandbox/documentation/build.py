"""Builds the site, with a generator in a separate Python environment that is kept in the cache."""

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from uv import find_uv_bin

from sandbox.documentation.pages import Pages, gather, navigation
from sandbox.errors import SandboxError
from sandbox.kubernetes.processes import Progress, run
from sandbox.kubernetes.toolchain import complete, locked

REQUIREMENTS = "docs/requirements.lock"
MADE = ".ccm-from-scratch"
"""The marker file in each documentation site. './dev docs' doesn't replace a folder that lacks this file."""

_INSTALLATION = 600.0  # seconds
_BUILD = 120.0


def generator(root: Path, cache: Path, progress: Progress) -> Path:
    """The Python of an environment with the generator, made where it is missing."""
    # Each Python has an environment of its own, because a container may bring one.
    key = hashlib.sha256((root / REQUIREMENTS).read_bytes() + sys.base_prefix.encode())
    environment = cache / f"documentation-{key.hexdigest()[:12]}"
    python = environment / "bin" / "python"
    if python.exists():
        return python
    with locked(cache / "documentation.lock", "the documentation generator", progress):
        if not python.exists():
            shutil.rmtree(environment, ignore_errors=True)  # its Python may have been removed
            with complete(environment) as new:
                _install(new, root / REQUIREMENTS, progress)
    return python


def _install(environment: Path, lock: Path, progress: Progress) -> None:
    make = [find_uv_bin(), "venv", "--quiet", "--python", sys.executable, str(environment)]
    run("making a Python environment", make, progress=progress, timeout=_INSTALLATION)
    install = [find_uv_bin(), "pip", "sync", "--quiet", "--require-hashes"]
    install += ["--python", str(environment / "bin" / "python"), str(lock)]
    run("installing the documentation generator", install, progress=progress, timeout=_INSTALLATION)


def build(root: Path, python: Path, output: Path, progress: Progress) -> int:
    """Write the site; returns how many pages it has."""

    def read(name: str) -> str | None:
        path = root / name
        if not path.is_relative_to(root) or ".." in Path(name).parts or not path.is_file():
            return None
        return path.read_text(encoding="utf-8", errors="replace")

    pages = gather(read)
    if pages.broken:
        raise SandboxError("links lead nowhere:\n" + "\n".join(f"  {link}" for link in pages.broken))
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as folder:
        staging = Path(folder)
        _stage(root, pages, staging)
        command = [str(python), "-m", "zensical", "build", "--strict"]
        run("building the documentation", command, progress=progress, cwd=staging, timeout=_BUILD)
        (staging / "site" / MADE).touch()
        if output.exists():
            shutil.rmtree(output)
        (staging / "site").rename(output)
    return len(pages.pages)


def _stage(root: Path, pages: Pages, folder: Path) -> None:
    contents = folder / "contents"
    for page in pages.pages.values():
        (contents / page.place).parent.mkdir(parents=True, exist_ok=True)
        (contents / page.place).write_text(page.text, encoding="utf-8")
    for where, name in pages.pictures.items():
        (contents / where).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, contents / where)
    (folder / "zensical.toml").write_text(settings(pages), encoding="utf-8")


def settings(pages: Pages) -> str:
    """The generator's configuration: navigation, both color schemes, and fonts of the reader's own."""
    entries = ",\n".join(
        f"  {{ {json.dumps(section)} = [\n"
        + "".join(f"    {{ {json.dumps(title)} = {json.dumps(where)} }},\n" for title, where in inside)
        + "  ] }"
        for section, inside in navigation(pages)
    )
    return _SETTINGS.replace("@navigation@", entries)


_SETTINGS = """[project]
site_name = "ccm-from-scratch"
docs_dir = "contents"
site_dir = "site"
use_directory_urls = false
nav = [
@navigation@
]

[project.theme]
font = false
features = ["content.code.copy", "navigation.footer", "navigation.indexes", "navigation.sections",
  "navigation.top", "search.highlight", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"

[project.markdown_extensions]
attr_list = {}
md_in_html = {}
tables = {}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {}
"""
