import runpy
from pathlib import Path

ROUTES = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "routes.py"))


def test_calls_polls_conflicts_and_the_rest_stand_apart() -> None:
    change = "POST /networks/{id}/actions/add_route"
    requests = ("GET /networks", "GET /networks/{id}", change, "GET /actions", "GET /actions", "GET /servers")
    entries = [{"operation": operation, "code": ""} for operation in requests]
    found = ROUTES["tell_apart"]([*entries, {"operation": change, "code": "locked"}], 2.5)
    assert (found.calls, found.polls, found.others, found.conflicts) == (3, 2, 2, 1)
    assert found.seconds == 2.5
