"""``./dev setup``: everything that ``./dev up`` needs and that takes long, done ahead of time."""

from __future__ import annotations

import argparse

from rich.console import Console

from sandbox.console import Steps
from sandbox.prepare import prepare
from sandbox.site import Site

HELP = "install packages, build Kubernetes and the machine image (./dev up does this too)"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Do what is not done yet."""
    prepare(site, Steps(Console()))
    return 0
