"""A plugin for pytest where it judges one change after the other, each in a process forked from a warm one.

What stays as it is: which tests run, and what makes one fail.
"""

import gc

import pytest


def pytest_configure() -> None:
    """Let pytest, which collects garbage ten times a run, pass over what was there before the fork."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run property tests last: most changes are noticed by an example, which costs a hundredth."""
    items.sort(key=lambda item: getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
