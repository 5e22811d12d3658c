"""``./dev setup``: everything that ``./dev up`` needs and that takes long, done ahead of time."""

import argparse

from sandbox.backend_choice import AUTO, decide, look
from sandbox.console import Steps
from sandbox.prepare import announce, prepare
from sandbox.site import Clone

HELP = "install packages, and build Kubernetes and the machine image, but don't start the sandbox"
WITHOUT_ADDRESSES = True


def run(clone: Clone, _arguments: argparse.Namespace) -> int:
    """Do what is not done yet."""
    steps, choice = Steps(), decide(AUTO, look(clone))
    announce(choice, steps)
    prepare(clone, steps, choice)
    return 0
