"""One module or folder per resource of the API, with every operation on it; importing it registers it.

To add a resource, add a file or folder here, and what is kept of it to ``models``. In each folder,
``resource.py`` has the operations, and large resources have more files. Hetzner's catalogs are models, which
register themselves where a resource imports them.
"""

from __future__ import annotations

import importlib
import pkgutil


def discover() -> None:
    """Import every module in this folder and below."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
