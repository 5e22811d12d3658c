"""One module or package per resource of the API; importing it registers it.

Importing a module is all it takes: adding a resource is adding a file or folder here, nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil


def discover() -> None:
    """Import every module in this folder and below."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
