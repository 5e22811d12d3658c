"""Where providers run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.engine.display.listener import Listener


@dataclass(frozen=True)
class Surroundings:
    """What providers need to know about where they run.

    Attributes:
        program: The program's folder, working directory of the dynamic providers.
        project: Name of the project.
        stack: Name of the stack.
        environment: Environment variables.
        listener: Hears what happens.
    """

    program: Path
    project: str
    stack: str
    environment: Mapping[str, str]
    listener: Listener
