import os
import subprocess

from bench.footprint import family, used


def test_a_process_that_has_ended_counts_for_nothing() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert list(used([ended.pid, os.getpid()])) == [os.getpid()]


def test_a_family_is_a_process_and_all_that_come_from_it() -> None:
    assert sorted(family(2, {2: 1, 3: 2, 4: 3, 5: 1})) == [2, 3, 4]
