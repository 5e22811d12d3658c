"""``python -m infra.oci FOLDER`` completes an image's folder /opt/ccm, for ccm/Dockerfile.

The dependencies are in its subfolder ``site`` already: what is never used of them goes. Our own package comes
into ``app``, as it does in the image that is built here, so that no build backend is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from infra.oci.build import read_source, remove_dead_weight, write_application


def main(folder: Path) -> None:
    """Completes the folder.

    Args:
        folder: With ``site`` in it.
    """
    remove_dead_weight(folder / "site")
    write_application(read_source(), folder / "app")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
