"""The Pulumi program that builds the environment: network, servers, k3s, and our cloud-controller-manager.

``__main__.py`` wires; every other module holds one component or one decision. Dynamic providers live in these
modules, and not in ``__main__``, because Pulumi stores a reference to their class in the stack's state: a
module or a class that is renamed would be missed where an earlier version made the stack.

In the wheel these modules are the package ``ccm_pulumi``, so they name each other relatively.
"""

import sys
from pathlib import Path

# Pulumi puts this folder itself first on Python's path: there `image` would be our image.py, not the package.
sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]
