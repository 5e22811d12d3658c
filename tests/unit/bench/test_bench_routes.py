import runpy
from pathlib import Path

ROUTES = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "routes.py"))


def entry(operation: str, code: str = "") -> dict[str, str]:
    return {"operation": operation, "code": code}


def test_calls_polls_conflicts_and_the_rest_stand_apart() -> None:
    found = ROUTES["tell_apart"](
        [
            entry("GET /networks"),
            entry("GET /networks/{id}"),
            entry("POST /networks/{id}/actions/add_route"),
            entry("POST /networks/{id}/actions/add_route", "locked"),
            entry("GET /actions"),
            entry("GET /actions"),
            entry("GET /servers"),
        ],
        2.5,
    )
    assert (found.calls, found.polls, found.others, found.conflicts) == (3, 2, 2, 1)
    assert found.seconds == 2.5
