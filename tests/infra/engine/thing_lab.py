"""A project whose program has the resources of ``things.py``."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.pulumi_lab import Lab


@dataclass
class ThingLab(Lab):
    """A lab that notes what is done with its things."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.environment["JOURNAL"] = str(self.root / "journal")
        self.write("things.py", Path(__file__).with_name("things.py").read_text())

    def program(self, body: str) -> None:
        super().program("from things import Thing\n" + textwrap.dedent(body))

    def journal(self) -> list[str]:
        """What the dynamic provider did since the last call."""
        path = self.root / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines
