"""The programs of the tutorial. The folder of a part contains only its new and changed files."""

from pathlib import Path

_STEPS = Path(__file__).resolve().parents[1] / "docs/tutorial/steps"
_CCM = ("part-1", "part-3", "part-4", "part-5")


def program_of(step: str) -> dict[str, str]:
    """The files of a program, by name."""
    parts = [part for part in _CCM if part <= step] if step in _CCM else [step]
    files = [path for part in parts for path in (_STEPS / part).glob("*.*") if path.is_file()]
    return {path.name: path.read_text(encoding="utf-8") for path in files}
