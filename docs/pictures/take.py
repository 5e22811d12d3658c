"""Takes this folder's pictures of a running environment: ``python docs/pictures/take.py``.

The terminal is what commands of the README print there; the console is what a browser shows. It needs
Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_COMMANDS = (
    "./dev kubectl apply -f manifests/examples/service.yaml",
    "./dev kubectl get service whoami",
    "./dev status",
    "./dev plan",
)
_WIDTH = 136  # columns
_SECONDS = 120.0


def main() -> int:
    """Take both; returns an exit code."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium isn't installed. On Debian, run: apt-get install chromium")
    terminal = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    for command in _COMMANDS:
        terminal.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        terminal.print(Text.from_ansi(_printed(command)))
    svg = terminal.export_svg(title="ccm-from-scratch", theme=MONOKAI)
    # The font is the reader's: nothing is asked of anybody when a page is looked at.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (HERE / "terminal.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")
    _console(chromium)
    return 0


def _printed(command: str) -> str:
    # Through a pipe: no live table, and no address with a token in it.
    return subprocess.run(
        command.split(), cwd=ROOT, capture_output=True, text=True, check=True, timeout=_SECONDS
    ).stdout.rstrip()


def _console(chromium: str) -> None:
    exported = dict(re.findall(r"^export (\w+)='?([^'\n]*)'?$", _printed("./dev env"), re.MULTILINE))
    console = exported["HCLOUD_ENDPOINT"].removesuffix("/v1") + "/_sandbox/console"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        page.goto(f"{console}#token={exported['HCLOUD_TOKEN']}")
        page.locator("tr", has_text="default/whoami").first.wait_for()
        page.screenshot(path=HERE / "console.png")
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
