"""Saves time and memory during the start; see docs/reference/benchmarks.md."""

import gc
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from threading import RLock
from typing import Any

_running = RLock()


@contextmanager
def frozen_gc_imports() -> Generator[None]:
    """Hide the objects that imports in this block create from the garbage collector, now and later.

    Imported objects stay until the end. This saves an eighth of the CPU time of all imports. Otherwise, each
    full collection would visit 150,000 objects.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def lazy_package_init(*names: str) -> None:
    """Run a package's ``__init__`` on the first access to a name that the package doesn't have yet.

    ``import a.b.c`` first runs the ``__init__`` of ``a`` and of ``a.b``, which may import far more than
    ``c`` needs. After this call, modules in the packages ``names`` can be imported without the ``__init__``.
    ``__version__`` comes from the metadata. If several threads access a name, one runs the ``__init__``, and
    the others wait. If it fails, the next access runs it again. ``names`` are in order, parents first.
    """
    for name in names:
        if name not in sys.modules:
            _install(name)


def _install(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"no package named {name!r}", name=name)
    package, loader = importlib.util.module_from_spec(spec), spec.loader
    running = False

    def look_up(attribute: str) -> Any:
        nonlocal running
        lacks = AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if attribute == "__version__" and (found := _version(name)):
            return found
        # Python itself looks for such names, like __all__, and accepts that they are missing.
        if attribute.startswith("__") and attribute != "__version__":
            raise lacks
        with _running:
            # The running __init__ looks for a name that doesn't exist yet.
            if running:
                raise lacks
            # While this thread waited, another thread may have run the __init__.
            if vars(package).get("__getattr__") is look_up:
                running = True
                try:
                    loader.exec_module(package)
                finally:
                    running = False
                if vars(package).get("__getattr__") is look_up:
                    del vars(package)["__getattr__"]
        return getattr(package, attribute)

    vars(package)["__getattr__"] = look_up  # as in PEP 562
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)


def _version(package: str) -> str | None:
    """A package's version from its metadata; None = it has no metadata."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
