from tests.e2e.cluster_state import changed


def test_only_changes_that_were_made_are_changes() -> None:
    printed = (
        "Updating (local)\n"
        " +  hcloud:index:Server worker-1 creating (0s)\n"
        " +  hcloud:index:Server worker-1 created (5s)\n"
        " -- hcloud:index:Server worker-2 deleted original (0.36s)\n"
        "    hcloud:index:Network network **creating failed**\n"
        "    42 unchanged\n"
    )
    assert [line.split()[2] for line in changed(printed)] == ["worker-1", "worker-2"]
