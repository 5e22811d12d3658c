"""Packages of which only a part is used.

``import a.b.c`` first runs the ``__init__`` of ``a`` and of ``a.b``. Those of the package ``kubernetes``
import both its clients with all that they can do: 400 modules for the five that we use;
docs/reference/benchmarks.md has what that costs. A module can't be had without the packages around it, since
its own imports name them.
"""

from __future__ import annotations

import importlib.util
import sys
from threading import RLock
from typing import Any

_running = RLock()


def run_init_later(*names: str) -> None:
    """Have a package's ``__init__`` run when somebody asks the package for a name that it does not have yet.

    Modules below it can be imported at once. Nothing else is different for whoever uses the package: its own
    names are there, at the cost that importing it had before.

    Args:
        names: Of packages, parents first. One that is imported already stays as it is.

    Raises:
        ModuleNotFoundError: There is no such package.
    """
    for name in names:
        if name not in sys.modules:
            _put(name)


def _put(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"no package named {name!r}", name=name)
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def look_up(attribute: str) -> Any:
        # Python itself asks for such names, like __file__ or __all__, and can do without.
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        with _running:
            if vars(package).get("__getattr__") is look_up:
                del vars(package)["__getattr__"]
                loader.exec_module(package)
        return getattr(package, attribute)

    vars(package)["__getattr__"] = look_up  # as in PEP 562
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)
