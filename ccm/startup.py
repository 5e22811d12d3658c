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
    """For imports: what they make stays, so the garbage collector looks at it neither now nor later.

    That is an eighth of the CPU time of all imports, and without it each full collection would walk through
    150,000 objects.
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
    what ``c`` needs. After this, modules below a package can be imported at once, and its own names are there
    as before. Its version is what its metadata says. Of several threads that ask at once, one has it run and
    the others wait; if it fails, the next access runs it again. ``names`` are in order, parents first.
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
        # Python itself asks for such names, like __all__, and can do without.
        if attribute.startswith("__") and attribute != "__version__":
            raise lacks
        with _running:
            # One of its own parts asks, which must do without what is not there yet.
            if running:
                raise lacks
            # Another thread may have had it run while this one waited.
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
    """A package's version by its metadata; None = it has none of its own."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
