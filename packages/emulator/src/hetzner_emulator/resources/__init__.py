"""One folder per resource of the API, with every operation on it; importing a module registers what it has.

Each folder has ``routes.py`` with the operations and, if the resource needs them, ``rules.py`` (decoding and
pure checks of requests) and ``effects.py`` (effects of actions on the backend, reactions to other resources).
The record of a resource is in ``models``. To add a resource, add both.

Large or special parts have modules of their own: ``servers/create.py``, ``certificates/pem.py``, and
``zones/zonefile.py``. Hetzner's catalogs share the folder ``catalogs``.
"""

import functools
import importlib
import pkgutil


@functools.cache
def discover() -> None:
    """Import every module in this folder and below."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
