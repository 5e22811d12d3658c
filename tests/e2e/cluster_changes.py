"""What is done to a cluster while something goes wrong: the columns of the matrix, in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.kubernetes import releases

OLDER, NEWER = releases.ascending()[-2:]
CONTROLS = ("control", "control-2", "control-3")


@dataclass(frozen=True)
class Change:
    name: str  # of the column
    before: Mapping[str, object]  # settings that it begins with, as far as they matter to it
    after: Mapping[str, object]  # settings that it brings
    # Lines of what ``pulumi`` prints, as regular expressions in their order: the engine is killed after each.
    moments: Sequence[str]
    works_on: str  # the role of the server that it works on over SSH
    reached: str  # the line after which it does
    makes: str = ""  # the role of a server that it makes
    drains: str = ""  # the role of a server that it drains
    starts: bool = True  # whether k3s is started on the server that it works on
    loses: Sequence[str] = field(default=())  # roles of servers that are lost before it
    begins: bool = False  # nothing is there before it
    ends: bool = False  # nothing is there after it


BASE: Mapping[str, object] = {
    "controlCount": 1,
    "workerCount": 2,
    "location": "fsn1",
    "k3sVersion": releases.k3s_name(OLDER),
    "restoreFrom": "",
}
_ALL = (
    Change(
        "grow a pool",
        before={"workerCount": 2},
        after={"workerCount": 3},
        moments=("Server worker-3 creating", "Boot worker-3 creating", "K3sAgent worker-3 creating"),
        works_on="worker-3",
        reached="Boot worker-3 creating",
        makes="worker-3",
    ),
    Change(
        "shrink a pool",
        before={"workerCount": 3},
        after={"workerCount": 2},
        moments=("Departure worker-3 deleting", "Membership worker-3 deleting", ":Server worker-3 deleting"),
        works_on="control",
        reached="Departure worker-3 deleting",
        drains="worker-3",
        starts=False,
    ),
    Change(
        "upgrade",
        before={"k3sVersion": releases.k3s_name(OLDER), "workerCount": 2},
        after={"k3sVersion": releases.k3s_name(NEWER)},
        moments=("K3sServer control updating", "K3sAgent worker-1 updating", "ReadyAgain worker-2 updating"),
        works_on="worker-1",
        reached="K3sAgent worker-1 updating",
        drains="worker-1",
    ),
    Change(
        "add control servers",
        before={"controlCount": 1},
        after={"controlCount": 3},
        moments=(
            ":Server control-2 creating",
            "K3sServer control updating",
            "K3sServer control-2 creating",
            "K3sServer control-3 creating",
        ),
        works_on="control-2",
        reached="Boot control-2 creating",
        makes="control-2",
    ),
    Change(
        "upgrade three",
        before={"k3sVersion": releases.k3s_name(OLDER), "controlCount": 3, "workerCount": 2},
        after={"k3sVersion": releases.k3s_name(NEWER)},
        moments=(
            "K3sServer control updating",
            "K3sServer control-2 updating",
            "K3sServer control-3 updating",
            "K3sAgent worker-1 updating",
        ),
        works_on="control-2",
        reached="K3sServer control-2 updating",
    ),
    Change(
        "move three",
        before={"controlCount": 3, "workerCount": 2, "location": "fsn1"},
        after={"location": "nbg1"},
        moments=(
            ":Server control (creating|replacing)",
            "K3sServer control-2 (creating|replacing)",
            "K3sAgent worker-1 (creating|replacing)",
        ),
        works_on="control-2",
        reached="Boot control-2 (creating|replacing)",
        makes="control-2",
        drains="worker-1",
    ),
    Change(
        "restore",
        before={"controlCount": 3},
        after={},
        moments=(
            ":Server control creating",
            "K3sServer control (creating|replacing)",
            "K3sServer control-2 (creating|replacing)",
        ),
        works_on="control",
        reached="Boot control (creating|replacing)",
        makes="control",
        loses=CONTROLS,
    ),
    Change(
        "remove control servers",
        before={"controlCount": 3},
        after={"controlCount": 1},
        moments=(
            "(K3sServer|Vote) control-3 deleting",
            ":Server control-3 deleting",
            "(K3sServer|Vote) control-2 deleting",
        ),
        works_on="control-3",
        reached="(K3sServer|Vote) control-3 deleting",
        drains="control-3",
        starts=False,
    ),
    Change(
        "destroy",
        before={},
        after={},
        moments=("Sweep .* deleting", ":Server worker-1 deleting", ":Network .* deleting"),
        works_on="control",
        reached="Sweep .* deleting",
        starts=False,
        ends=True,
    ),
    Change(
        "first up",
        before={},
        after={},
        moments=(
            ":Network .* creating",
            ":Server control creating",
            "K3sServer control creating",
            "kubernetes:.* created",
        ),
        works_on="control",
        reached="Boot control creating",
        makes="control",
        begins=True,
    ),
)
CHANGES: Mapping[str, Change] = {change.name: change for change in _ALL}
