"""A clone of this tree for a comparison that needs a whole environment of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.lab.report import BenchError
from tests.e2e.conftest import Clone, copy_tree


@contextmanager
def temporary_clone() -> Iterator[Clone]:
    """A clone in a temporary folder, beside whatever runs here; at the end everything of it is removed."""
    with tempfile.TemporaryDirectory() as folder:
        clone = copy_tree(Path(folder))
        try:
            yield clone
        except AssertionError as error:
            raise BenchError(str(error)) from error
        finally:
            clone.dev("down", "--force", check=False)
